"""What is stored of a broker in files: events and the state that they came from, whenever the process is killed."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from brokers.adapters.adapter import StopTarget
from brokers.adapters.file_records import FileRecords
from brokers.adapters.records import Fact, NotStored, StopChange, StoppedTarget
from brokers.adapters.store import stored_stops
from brokers.engine.values.stops import End, Scope, Stop
from tests.adapters.fake import queue_name

A = queue_name("a")
STOP = Stop(Scope("default", queue="a"), "why", "ada", 1000, End(until=9000))
CHANGE = StopChange(STOP, began=True, actor="ada", reason="why")


def fact(number: int) -> Fact:
    return number, "queue-overfull", A, f"event {number} \x00 é", {"depth_messages": number, "of": A}


class Killed(BaseException):
    pass


def killed(*_: Any) -> None:
    raise Killed


def kill_in(records: FileRecords, part: str, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the process die at the start of a write of one of the files."""
    monkeypatch.setattr(getattr(records, part).__class__, method, killed)


def numbers(records: FileRecords) -> list[tuple[int, int]]:
    """Number and time of each event; the time is the number that the test gave it."""
    return [(event.number, event.at) for event in records.read(0)]


def test_a_kill_between_the_two_files_loses_and_doubles_no_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = FileRecords(tmp_path)
    records.append([fact(1)], {A: {"overfull": True}})
    with monkeypatch.context() as dying:
        kill_in(records, "_journal", "append", dying)
        with pytest.raises(Killed):
            records.append([fact(2), fact(3)], {A: {"overfull": False}})
    for _ in range(2):  # opened twice, it is completed once
        records.close()
        records = FileRecords(tmp_path)
        assert numbers(records) == [(1, 1), (2, 2), (3, 3)]
        assert records.known() == {A: {"overfull": False}}
    assert records.read(0)[2].text == "event 3 \x00 é"
    records.append([fact(4)], {A: None})
    records.close()
    records = FileRecords(tmp_path)
    assert numbers(records) == [(1, 1), (2, 2), (3, 3), (4, 4)]
    assert records.known() == {}
    records.close()


def test_a_kill_before_the_first_file_leaves_neither_the_event_nor_the_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = FileRecords(tmp_path)
    with monkeypatch.context() as dying:
        kill_in(records, "_store", "remember", dying)
        with pytest.raises(Killed):
            records.append([fact(1)], {A: {"overfull": True}})
    records.close()
    records = FileRecords(tmp_path)
    assert (records.read(0), records.known()) == ([], {})
    records.close()


def test_the_event_of_a_stop_and_its_record_as_unannounced_are_exchanged(tmp_path: Path) -> None:
    records = FileRecords(tmp_path)
    target = StoppedTarget(StopTarget("t", frozenset([A]), {"limit": None}), frozenset([str(STOP.scope)]))
    records.save_stops([STOP], [target], [CHANGE])
    records.close()
    records = FileRecords(tmp_path)
    assert (records.stops(), records.targets(), records.unannounced()) == ([STOP], [target], [CHANGE])
    records.append([fact(1)], {}, [])
    records.close()
    records = FileRecords(tmp_path)
    assert (records.stops(), records.unannounced(), numbers(records)) == ([STOP], [], [(1, 1)])
    records.close()


@pytest.mark.parametrize(
    "write",
    [lambda r: r.append([fact(2)], {A: {}}), lambda r: r.save_stops([], [], []), lambda r: r.prune(1 << 60)],
)
def test_after_a_failed_write_nothing_more_is_written(tmp_path: Path, write: Callable[[FileRecords], None]) -> None:
    records = FileRecords(tmp_path)
    records.append([fact(1)], {A: {"overfull": True}})
    records._journal._db.execute("PRAGMA query_only=ON")
    records._store._db.execute("PRAGMA query_only=ON")
    assert not records.failed
    with pytest.raises(NotStored, match="readonly"):
        write(records)
    assert records.failed
    records._journal._db.execute("PRAGMA query_only=OFF")
    records._store._db.execute("PRAGMA query_only=OFF")
    with pytest.raises(NotStored, match="has failed"):
        write(records)
    records.close()
    records = FileRecords(tmp_path)
    assert numbers(records) == [(1, 1)]
    records.close()


@pytest.mark.parametrize(("version", "missing"), [(1, ("pending", "unannounced", "owner")), (2, ("owner",))])
def test_files_of_the_version_before_are_upgraded_with_all_they_have(
    tmp_path: Path, version: int, missing: tuple[str, ...]
) -> None:
    records = FileRecords(tmp_path)
    records.append([fact(1)], {A: {"overfull": True}})
    records.save_stops([STOP], [], [])
    records.close()
    with closing(sqlite3.connect(tmp_path / "adapter.sqlite3")) as db, db:
        for table in missing:
            db.execute(f"DROP TABLE {table}")
        db.execute("UPDATE schema_version SET version = ?", (version,))
    assert stored_stops(tmp_path / "adapter.sqlite3", "7") == ([STOP], [])
    records = FileRecords(tmp_path, "7")  # it is not known of another broker: the stops stay
    assert (records.stops(), records.known(), numbers(records)) == ([STOP], {A: {"overfull": True}}, [(1, 1)])
    records.append([fact(2)], {A: None})
    records.close()
