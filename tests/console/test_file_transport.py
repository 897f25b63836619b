"""Celery messages in the data folder: each is taken by exactly one reader, completely, and none is lost."""

from __future__ import annotations

import base64
import multiprocessing
import os
import time
from collections import Counter
from pathlib import Path
from queue import Empty
from typing import Any

import kombu
from kombu.utils.json import loads

from console import file_transport

MESSAGES, WRITERS, READERS = 150, 2, 3


def connection(folder: Path) -> kombu.Connection:
    file_transport.register()
    options = {
        "data_folder_in": str(folder),
        "data_folder_out": str(folder),
        "control_folder": str(folder / "control"),
    }
    return kombu.Connection(f"{file_transport.SCHEME}://localhost/", transport_options=options)


def write(folder: Path, writer: int) -> None:
    with connection(folder) as line:
        queue = line.SimpleQueue("work")
        for number in range(MESSAGES):
            queue.put({"message": f"{writer}-{number}", "body": "x" * 20_000})
        queue.close()


def read(folder: Path, found: Any, done: Any) -> None:
    with connection(folder) as line:
        channel = line.channel()
        while True:
            ended = done.is_set()  # read before the queue, so that messages written until then are still taken
            try:
                message = channel._get("work")
            except Empty:
                if ended:
                    return
                time.sleep(0.001)
                continue
            assert message["body"]
            found.put(1)


def test_concurrent_readers_and_writers_neither_lose_nor_duplicate_messages(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    found, done = context.Queue(), context.Event()
    readers = [context.Process(target=read, args=(tmp_path, found, done), daemon=True) for _ in range(READERS)]
    writers = [context.Process(target=write, args=(tmp_path, number), daemon=True) for number in range(WRITERS)]
    for process in (*readers, *writers):
        process.start()
    for process in writers:
        process.join(60)
        assert process.exitcode == 0
    done.set()
    taken = sum(found.get(timeout=20) for _ in range(MESSAGES * WRITERS))
    for process in readers:
        process.join(60)
        assert process.exitcode == 0
    assert taken == MESSAGES * WRITERS
    assert found.empty()
    assert not list(tmp_path.glob("*.msg"))
    assert not list((tmp_path / "taken").iterdir())


def bodies(channel: Any, count: int) -> Counter[str]:
    return Counter(loads(_decoded(channel._get("work")))["message"] for _ in range(count))


def _decoded(message: dict[str, Any]) -> str:
    return base64.b64decode(message["body"]).decode()


def test_messages_are_ordered_and_readable_by_their_owner_only(tmp_path: Path) -> None:
    with connection(tmp_path) as line:
        queue = line.SimpleQueue("work")
        for number in range(5):
            queue.put({"message": str(number)})
        files = list(tmp_path.glob("*.msg"))
        assert {os.stat(file).st_mode & 0o777 for file in files} == {0o600}
        channel = line.channel()
        assert list(bodies(channel, 5)) == ["0", "1", "2", "3", "4"]
        queue.close()


def test_partial_message_is_not_taken(tmp_path: Path) -> None:
    with connection(tmp_path) as line:
        channel = line.channel()
        channel._put("work", {"whole": True})
        (written,) = tmp_path.glob("*.msg")
        written.rename(tmp_path / f".{written.name}.part")
        try:
            channel._get("work")
        except Empty:
            return
        raise AssertionError("half a message was taken")


def test_message_of_a_dead_reader_is_requeued(tmp_path: Path, monkeypatch: Any) -> None:
    with connection(tmp_path) as line:
        channel = line.channel()
        channel._put("work", {"requeued": True})
        (written,) = tmp_path.glob("*.msg")
        written.rename(tmp_path / "taken" / written.name)
        line.channel()
        assert not list(tmp_path.glob("*.msg"))  # its reader may still be reading
        monkeypatch.setattr(file_transport, "TAKEN_TIMEOUT", -1.0)
        assert line.channel()._get("work") == {"requeued": True}
