"""The landing files that a run selects, and those that it sets aside. Without Spark."""

from __future__ import annotations

import datetime as dt
import os
import time
from pathlib import Path
from typing import Any

import pytest

from console.history.pipeline import batches
from console.history.pipeline.batches import Batch, find_batch, set_aside_damaged
from console.history.pipeline.pending_rollups import Changes, PendingRollups, by_broker
from console.history.storage.durations import HOUR
from console.history.storage.landing import Landing, LandingError
from console.history.storage.landing_names import recorder_file
from console.history.storage.tables import Tables
from tests.history.rows import Story, at, table


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    return Tables(None, str(tmp_path / "history"))  # type: ignore[arg-type]


def land(tables: Tables, name: str, broker: str = "b", **more: Any) -> str:
    row = Story(broker).sample(5, 1).rows["samples"][0] | more
    return tables.landing.publish("samples", table("samples", [row]), name)


def path_of(tables: Tables, name: str) -> Path:
    return Path(tables.landing.folder("samples")) / name


def test_run_opens_no_files_of_other_brokers(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = land(tables, recorder_file("b", 1))
    for broker in ("a", "c"):
        land(tables, recorder_file(broker, 1), broker)
    unnamed = land(tables, "unnamed")
    opened = []
    footer = Landing.footer

    def counted(self: Landing, kind: str, name: str) -> Any:
        opened.append(name)
        return footer(self, kind, name)

    monkeypatch.setattr(Landing, "footer", counted)
    assert find_batch(tables, ["b"]).names("samples") == [mine, unnamed]
    assert opened == [mine, unnamed]
    assert len(find_batch(tables).files) == 4


@pytest.mark.domain("pipeline set aside")
def test_file_that_cannot_be_read_now_is_not_set_aside(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full table of open files, an absent network, missing permissions: the file is processed later."""
    name = land(tables, recorder_file("b", 1))
    batch = find_batch(tables, ["b"])

    def refused(_self: Landing, path: str, *_: Any) -> Any:
        raise LandingError(f"{path} cannot be read: Too many open files")

    with monkeypatch.context() as patch:
        for method in ("footer", "read", "get"):
            patch.setattr(Landing, method, refused)
        with pytest.raises(LandingError, match="Too many open files"):
            find_batch(tables, ["b"])
        with pytest.raises(LandingError, match="Too many open files"):
            set_aside_damaged(tables.landing, batch)
    assert tables.landing.names("samples") == [name]
    assert tables.landing.files_set_aside() == {}


def test_file_that_was_removed_meanwhile_is_not_reported(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another run has processed it."""
    name = land(tables, "unnamed")
    monkeypatch.setattr(Landing, "names", lambda _self, kind: [name] if kind == "samples" else [])
    path_of(tables, name).unlink()
    batch = find_batch(tables)
    assert (batch.files, batch.unreadable) == ([], {})
    lost = batches.LandedFile("samples", name, 1, 0, 0, frozenset("b"))
    assert set_aside_damaged(tables.landing, Batch([lost])) == {}
    assert not Path(tables.landing.root, "aside").exists()


@pytest.mark.parametrize("ms", [10**15, -(10**15)])
def test_times_that_no_calendar_has_are_set_aside(tables: Tables, ms: int) -> None:
    land(tables, "far", at=ms)
    mine = land(tables, recorder_file("b", 1))
    batch = find_batch(tables)
    assert batch.names("samples") == [mine]
    assert "the year 1 or after 9999" in batch.unreadable["samples/far.parquet"]


def test_impossible_ends_and_missing_brokers_are_set_aside(tables: Tables) -> None:
    far = Story().watch(0, 1).rows["coverage"][0] | {"until": at(0).replace(year=9000)}
    tables.landing.publish("coverage", table("coverage", [far]), "far")
    land(tables, "empty", "")
    assert find_batch(tables).files == []
    reasons = tables.landing.files_set_aside()
    assert "years 1970 to 2199" in reasons["coverage/far.parquet"]
    assert "without the name of a broker" in reasons["samples/empty.parquet"]


def test_changes_of_many_years_are_put_together_in_linear_time() -> None:
    """A line with a wrong year: a search or a sort for each hour would take hours."""
    began = time.process_time()
    hours = [Changes("b", n * HOUR, [(n * HOUR, (n + 1) * HOUR)], blocks=n == 7) for n in range(300_000)]
    (found,) = by_broker([*hours, Changes("b", 5, [(-HOUR, -5)])]).values()
    assert found == Changes("b", 0, [(-HOUR, -5), (0, 300_000 * HOUR)], blocks=True)
    assert time.process_time() - began < 60


def test_damaged_note_of_a_killed_run_is_named_with_the_remedy(tables: Tables) -> None:
    notes = PendingRollups(tables.landing)
    notes.store(Changes("a/b", 5, [(0, HOUR)]))
    assert notes.load(["a/b"]) == {"a/b": Changes("a/b", 5, [(0, HOUR)])}
    tables.landing.put("pipeline/pending/a%2Fb.json", b"")
    with pytest.raises(LandingError, match=r"pending/a%2Fb.json is damaged .*Remove it"):
        notes.load()


def test_unfinished_files_of_killed_writers_are_removed_everywhere(tables: Tables) -> None:
    root = Path(tables.landing.root)
    long_ago = time.time() - 3 * 86_400
    folders = ("landing/events", "recorder/b", "pipeline/pending", "pipeline/upgrade", "aside/samples", "imports")
    for folder in folders:
        (root / folder).mkdir(parents=True)
        for name in (".half.json.0123", "whole.json"):
            (root / folder / name).write_text("")
            os.utime(root / folder / name, (long_ago, long_ago))
    removed = tables.landing.remove_unfinished(dt.datetime.now(dt.UTC) - dt.timedelta(days=1))
    assert removed == len(folders)
    assert all((root / folder / "whole.json").exists() for folder in folders)
