"""What is stored of a broker in the console's database: one writer, numbers without gaps, bounds, and the import of
what was in files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import DatabaseError, connection
from django.test.utils import CaptureQueriesContext

from brokers.adapters.adapter import StopTarget
from brokers.adapters.file_records import FILES, FileRecords
from brokers.adapters.records import Expired, Fact, NotStored, Stop, StopChange, StoppedTarget
from brokers.engine.values.stops import End, Scope
from console.brokers import database_records
from console.brokers.database_records import DatabaseRecords, opened
from console.brokers.imported_files import import_files
from console.brokers.models import BrokerEvent, BrokerRecords, BrokerStop, KnownObject
from console.leases import lease
from tests.adapters.fake import queue_name

pytestmark = pytest.mark.django_db

A, B = queue_name("a"), queue_name("b" * 3000)
STOP = Stop(Scope("default", queue="a"), "why", "ada", 1000, End(until=9000))
CHANGE = StopChange(STOP, began=True, actor="ada", reason="why")
TARGET = StoppedTarget(StopTarget("t", frozenset([A]), {"limit": None}), frozenset([str(STOP.scope)]))
LEASE = "adapter~rabbit"


@pytest.fixture(autouse=True)
def _owner(db: None) -> None:
    lease.take(LEASE, 60)


def here(work: Callable[[], None]) -> None:
    work()


def open_(**limits: int) -> DatabaseRecords:
    return opened("rabbit", LEASE, here, **limits)


def facts(count: int, *, at: int = 1000, text: str = "x") -> list[Fact]:
    return [(at, "queue-overfull", A, f"{text} \x00 é {n}", {"n": n, "of": A}) for n in range(count)]


def numbers(records: DatabaseRecords, after: int, count: int = 500) -> list[int]:
    return [event.number for event in records.read(after, count)]


def nothing() -> None:
    pass


def test_all_of_it_is_there_when_it_is_opened_again() -> None:
    records = open_()
    assert (records.first, records.last, records.read(0)) == (1, 0, [])
    records.append(facts(2), {A: {"overfull": True}, B: {"overfull": False}})
    records.append([], {A: {"overfull": False}})
    records.append(facts(1), {B: None})
    records.save_stops([STOP], [TARGET], [CHANGE])
    again = open_()
    assert (again.identity, again.first, again.last) == (records.identity, 1, 3)
    assert again.read(0) == records.read(0)
    assert [event.text for event in again.read(0)] == ["x \x00 é 0", "x \x00 é 1", "x \x00 é 0"]
    assert again.read(0)[1].attributes == {"n": 1, "of": str(A)}
    assert again.known() == {A: {"overfull": False}}
    assert (again.stops(), again.targets(), again.unannounced()) == ([STOP], [TARGET], [CHANGE])
    again.append(facts(1), {}, [])
    assert open_().unannounced() == []
    assert open_().stops() == [STOP]


def test_only_the_last_one_that_opened_it_writes() -> None:
    before = open_()
    before.append(facts(1), {A: {"overfull": True}})
    now = open_()
    writes: list[Callable[[DatabaseRecords], object]] = [
        lambda records: records.append(facts(1), {A: None}, []),
        lambda records: records.save_stops([], [], []),
        lambda records: records.prune(1 << 60),
    ]
    now.save_stops([STOP], [TARGET], [CHANGE])
    for write in writes:
        before.failed = False  # each finds it out
        with pytest.raises(NotStored, match="another process hosts rabbit"):
            write(before)
        assert before.failed
        with pytest.raises(NotStored, match="no longer hosts"):
            write(before)
    now.append(facts(1), {})
    again = open_()
    assert (numbers(again, 0), again.known()) == ([1, 2], {A: {"overfull": True}})
    assert (again.stops(), again.unannounced()) == ([STOP], [CHANGE])


def test_without_the_lease_it_is_not_opened() -> None:
    records = open_()
    lease.release(LEASE)
    with pytest.raises(NotStored, match="another process"):
        open_()
    records.append(facts(1), {})  # the writer is still the same


def test_a_failed_write_leaves_nothing_of_it_and_ends_the_writing(monkeypatch: pytest.MonkeyPatch) -> None:
    records = open_()
    records.append(facts(1), {A: {"overfull": True}})

    def fails(*_: Any) -> None:
        raise DatabaseError("the connection was lost")

    with monkeypatch.context() as failing:
        failing.setattr(database_records, "remember", fails)
        with pytest.raises(NotStored, match="the connection was lost"):
            records.append(facts(1), {A: {"overfull": False}})
    with pytest.raises(NotStored):
        records.append(facts(1), {})
    again = open_()
    assert (numbers(again, 0), again.known()) == ([1], {A: {"overfull": True}})


def test_old_events_are_read_in_pages_and_new_ones_without_a_query(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_records, "TAIL", 10)
    records = open_()
    for _ in range(5):
        records.append(facts(6), {})
    opened("other", LEASE, here).append(facts(50), {})
    for reader in (records, open_()):
        with CaptureQueriesContext(connection) as none:
            assert numbers(reader, 20) == list(range(21, 31))
            assert numbers(reader, 28, 1) == [29]
            assert numbers(reader, 30) == []
        assert len(none) == 0
        with CaptureQueriesContext(connection) as one:
            assert numbers(reader, 3, 7) == list(range(4, 11))
        assert len(one) == 1
        assert numbers(reader, 19) == list(range(20, 31))
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN QUERY PLAN {one.captured_queries[0]['sql']}")
            assert "SEARCH" in str(cursor.fetchall())


def test_events_are_dropped_by_age_and_their_numbers_are_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_records, "PRUNED", 4)
    records = open_(max_age_ms=100)
    records.append(facts(10, at=1000) + facts(2, at=1050), {})
    with CaptureQueriesContext(connection) as queries:
        assert records.prune(1100) == 0
    assert len([each for each in queries.captured_queries if "LIMIT" in each["sql"]]) == 1
    assert records.prune(1101) == 10
    assert (records.first, records.last, numbers(records, 10)) == (11, 12, [11, 12])
    with pytest.raises(Expired) as caught:
        records.read(9)
    assert caught.value.first == 11
    assert records.prune(9999) == 2
    again = open_()
    assert (again.first, again.last, again.read(12)) == (13, 12, [])
    again.append(facts(1), {})
    assert numbers(again, 12) == [13]
    assert BrokerRecords.objects.get().size == sum(BrokerEvent.objects.values_list("size", flat=True))


def test_the_oldest_beyond_the_size_are_dropped() -> None:
    records = open_(max_bytes=10_000)
    records.append(facts(100, text="x" * 400), {})
    assert records.prune(1000) > 0
    assert 15 <= records.last - records.first + 1 <= 25
    size = sum(BrokerEvent.objects.values_list("size", flat=True))
    assert size == BrokerRecords.objects.get().size <= 10_000
    again = open_(max_bytes=10_000)
    assert again.prune(1000) == 0
    again.append(facts(3, text="x" * 400), {})
    assert again.prune(1000) >= 1


# -- import -----------------------------------------------------------------------------------------------------------


def files(folder: Path, events: int = 1200) -> str:
    """Make the files of an installation with SQLite; return the identity of its journal."""
    records = FileRecords(folder)
    records.append(facts(events), {A: {"overfull": True}})
    records.save_stops([STOP], [TARGET], [CHANGE])
    records.close()
    return records.identity


def imported(folder: Path, keep_alive: Callable[[], object] = nothing) -> DatabaseRecords:
    import_files(folder, "rabbit", LEASE, keep_alive)
    return open_()


def test_an_installation_with_files_loses_nothing(tmp_path: Path) -> None:
    identity = files(tmp_path)
    extended: list[int] = []
    records = imported(tmp_path, lambda: extended.append(BrokerEvent.objects.count()))
    assert (records.identity, records.first, records.last) == (identity, 1, 1200)
    assert numbers(records, 0, 2000) == list(range(1, 1201))
    assert records.read(0)[7].attributes == {"n": 7, "of": str(A)}
    assert (records.known(), records.stops()) == ({A: {"overfull": True}}, [STOP])
    assert (records.targets(), records.unannounced()) == ([TARGET], [CHANGE])
    assert extended == [500, 1000, 1200]
    assert BrokerRecords.objects.get().size == sum(BrokerEvent.objects.values_list("size", flat=True))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(f"{name}.imported" for name in FILES)
    records.save_stops([], [], [])
    assert imported(tmp_path).stops() == []  # it is not imported a second time


def test_an_import_that_was_interrupted_begins_again(tmp_path: Path) -> None:
    identity = files(tmp_path)

    def killed() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_files(tmp_path, "rabbit", LEASE, killed)
    records = imported(tmp_path)
    assert (records.identity, numbers(records, 0, 2000)) == (identity, list(range(1, 1201)))


def test_files_whose_import_was_complete_are_not_imported_again(tmp_path: Path) -> None:
    """The process was killed before it renamed them, and the operator has started the producers since."""
    files(tmp_path, 3)
    records = imported(tmp_path)
    records.append(facts(1), {})
    records.save_stops([], [], [])
    for name in FILES:
        (tmp_path / f"{name}.imported").rename(tmp_path / name)
    again = imported(tmp_path)
    assert (again.stops(), again.targets(), again.last) == ([], [], 4)
    assert not (tmp_path / FILES[0]).exists()


def test_stops_of_files_are_added_where_another_host_was_first(tmp_path: Path) -> None:
    """What they stopped has to be started some time, with the limit of before."""
    files(tmp_path, 3)
    other = Stop(Scope(), "flood", "ben", 2000)
    restored = StopTarget("t", frozenset([A]), {"limit": 7})
    first = open_()
    first.append(facts(1), {})
    first.save_stops([other], [StoppedTarget(restored, frozenset([str(other.scope)]))], [])
    records = imported(tmp_path)
    assert {stop.scope for stop in records.stops()} == {STOP.scope, other.scope}
    (target,) = records.targets()
    assert target == StoppedTarget(restored, frozenset([str(STOP.scope), str(other.scope)]))
    assert records.unannounced() == [CHANGE]
    assert (records.identity, records.last) == (first.identity, 1)
    with pytest.raises(NotStored):
        first.append(facts(1), {})


def test_an_import_that_another_host_did_not_end_is_no_journal(tmp_path: Path) -> None:
    files(tmp_path)

    def killed() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_files(tmp_path, "rabbit", LEASE, killed)
    elsewhere = open_()
    assert (elsewhere.first, elsewhere.last, elsewhere.read(0)) == (1, 0, [])
    assert elsewhere.identity
    assert imported(tmp_path).stops() == [STOP]  # when the host with the files hosts it again


def test_without_the_lease_nothing_is_imported(tmp_path: Path) -> None:
    files(tmp_path, 3)
    lease.release(LEASE)
    with pytest.raises(NotStored):
        import_files(tmp_path, "rabbit", LEASE, nothing)
    assert (tmp_path / FILES[0]).exists()
    assert not BrokerRecords.objects.exists()


def test_rows_are_text_that_every_database_can_store() -> None:
    records = open_()
    records.append([(1, "queue-created", queue_name("\x00"), "\x00", {"\x00": "\x00"})], {queue_name("\x00"): {"a": 1}})
    for text in (BrokerEvent.objects.get().fact, KnownObject.objects.get().record):
        assert "\x00" not in text
        json.loads(text)
    records.save_stops([Stop(Scope("\x00"), "\x00", "\x00", 1)], [], [])
    assert "\x00" not in BrokerStop.objects.get().record
    assert open_().read(0)[0].object == queue_name("\x00")
