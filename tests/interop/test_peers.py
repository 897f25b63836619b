"""Peers are built once, by one of the processes that need them."""

from __future__ import annotations

import fcntl
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from unittest import mock

from tests.interop import peers
from tests.interop.peers import built


def test_second_process_waits_for_the_build_of_the_first(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_text("1")
    second: list[Future[Path]] = []
    seen: Queue[str] = Queue()
    flock = fcntl.flock

    def noticed(file: int, operation: int) -> None:
        seen.put("asks for its turn")
        flock(file, operation)

    def build(folder: Path) -> None:
        (folder / "half").touch()
        seen.put("builds")
        if not second:
            assert [seen.get(), seen.get()] == ["asks for its turn", "builds"]
            second.append(pool.submit(built, tmp_path / "cache", [source], build))
            assert seen.get(timeout=60) == "asks for its turn"
        (folder / "half").rename(folder / "whole")

    with ThreadPoolExecutor() as pool, mock.patch.object(peers, "TURNS", tmp_path / "turns"):
        with mock.patch.object(peers.fcntl, "flock", noticed):
            folder = built(tmp_path / "cache", [source], build)
        assert second[0].result(60) == folder
    assert sorted(each.name for each in folder.iterdir()) == ["complete", "whole"]
    assert seen.empty(), "it is built once"
