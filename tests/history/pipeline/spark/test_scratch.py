"""Scratch folders of Spark: those of ended processes are removed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from console.history.pipeline.spark import scratch
from console.history.pipeline.spark.scratch import claim, leave
from tests.history.processes import ROOT

CLAIMING = "import sys; from pathlib import Path; from console.history.pipeline.spark.scratch import claim, leave;"
WAITING = f"{CLAIMING} print(claim(Path(sys.argv[1])), flush=True); input(); leave()"


def folders(base: Path) -> set[Path]:
    return {each for each in base.iterdir() if each.is_dir()}


def claiming(base: Path) -> subprocess.Popen[str]:
    """Another process that has claimed a folder, and exits when its input ends."""
    return subprocess.Popen(
        [sys.executable, "-c", WAITING, str(base)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def claimed(process: subprocess.Popen[str]) -> Path:
    assert process.stdout is not None
    folder = Path(process.stdout.readline().strip())
    (folder / "blockmgr").mkdir()
    (folder / "blockmgr" / "block").write_text("of a query")
    return folder


def test_folder_of_a_killed_process_is_removed_and_that_of_a_running_one_remains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scratch, "_mine", {})  # preserves the folder of the other tests' session
    base = tmp_path / "spark"
    with claiming(base) as killed, claiming(base) as living:
        left, own = claimed(killed), claimed(living)
        killed.kill()
        killed.wait()
        assert folders(base) == {left, own}
        first = claim(base)
        assert folders(base) == {own, first}
        assert {first, claim(base)} < folders(base), "its own is not taken for one that was left"
        assert (own / "blockmgr" / "block").read_text() == "of a query"
        living.communicate("\n")
    assert not own.exists(), "a process that ends removes its own"
    leave()
    assert not folders(base)
