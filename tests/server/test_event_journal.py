"""The event journal: numbers without gap or reuse, replay from any retained number, bounds by age and size."""

import itertools
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from brokers.admin import Event
from brokers.model import ObjectName
from brokers.server import event_journal
from brokers.server.event_journal import EventJournal, Expired
from brokers.server.sqlite_file import StoreError

QUEUE = ObjectName.parse('type=Queue,virtualhost=default,name="a,b"')


def facts(count: int, at: int = 1000, text: str = "x") -> list:
    return [(at, "queue-overfull", QUEUE, text, {"n": n}) for n in range(count)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "events.sqlite3"


def numbers(events: list[Event]) -> list[int]:
    return [event.number for event in events]


def test_a_new_journal_is_empty(path: Path) -> None:
    journal = EventJournal(path)
    assert (journal.first, journal.last, journal.read(0), journal.append([])) == (1, 0, [], [])
    assert path.stat().st_mode & 0o777 == 0o600
    journal.close()


def test_each_journal_has_a_permanent_identity(path: Path, tmp_path: Path) -> None:
    identities = []
    for file in (path, path, tmp_path / "other.sqlite3"):
        journal = EventJournal(file)
        identities.append(journal.identity)
        journal.close()
    assert identities[0] == identities[1] != identities[2]
    assert all(identities)


def test_burst_of_events_is_bounded_without_a_call_of_prune(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_journal, "MOST_ABOVE", 3000)
    journal = EventJournal(path, max_bytes=100_000)
    sizes = []
    for _ in range(100):
        newest = journal.append(facts(10, text="x" * 1000))[-1].number
        sizes.append(journal._size)
        assert numbers(journal.read(newest - 5)) == list(range(newest - 4, newest + 1))
    assert max(sizes) <= 103_000
    assert max(sizes) > 90_000, "it does not drop more than it must"
    assert journal.first > 800
    journal.close()


def test_appended_events_are_numbered_on_and_read_back_as_they_were(path: Path) -> None:
    journal = EventJournal(path)
    attributes = {"state": "OVERFULL", "depth_bytes": 1 << 40, "none": None, "list": [1, "ü"], "map": {"a": 1.5}}
    first = journal.append([(5, "queue-overfull", QUEUE, "Überfüllt", attributes)])
    assert first == [Event(1, 5, "queue-overfull", QUEUE, "Überfüllt", attributes)]
    second = journal.append(facts(3))
    assert numbers(second) == [2, 3, 4]
    assert journal.read(0) == first + second
    assert journal.read(1, 2) == second[:2]
    assert journal.read(4) == []
    assert journal.read(99) == []
    assert journal.read(-1) == first + second
    assert (journal.first, journal.last) == (1, 4)
    journal.close()


def test_names_as_attribute_values_are_stored_as_text(path: Path) -> None:
    journal = EventJournal(path)
    journal.append([(5, "producer-blocked", QUEUE, "x", {"queue": QUEUE})])
    assert journal.read(0)[0].attributes == {"queue": str(QUEUE)}
    journal.close()


def test_fact_that_cannot_be_stored_uses_no_number(path: Path) -> None:
    journal = EventJournal(path)
    with pytest.raises(TypeError, match="cannot be"):
        journal.append([*facts(2), (5, "queue-overfull", QUEUE, "x", {"bad": object()})])
    assert (journal.last, journal.read(0)) == (0, [])
    assert numbers(journal.append(facts(1))) == [1]
    journal.close()


def test_a_failed_append_uses_no_number(path: Path) -> None:
    journal = EventJournal(path)
    journal.append(facts(2))
    journal._db.execute("CREATE TRIGGER full BEFORE INSERT ON event BEGIN SELECT RAISE(ABORT, 'disk is full'); END")
    with pytest.raises(StoreError, match="disk is full"):
        journal.append(facts(2))
    journal._db.execute("DROP TRIGGER full")
    assert numbers(journal.append(facts(2))) == [3, 4]
    assert numbers(journal.read(0)) == [1, 2, 3, 4]
    journal.close()


def test_events_older_than_the_maximum_age_are_dropped_and_reported_as_expired(path: Path) -> None:
    journal = EventJournal(path, max_age_ms=100)
    journal.append(facts(3, at=1000) + facts(2, at=1050))
    assert journal.prune(1100) == 0
    assert journal.prune(1101) == 3
    assert (journal.first, journal.last) == (4, 5)
    assert numbers(journal.read(3)) == [4, 5]
    for after in (0, 2):
        with pytest.raises(Expired) as caught:
            journal.read(after)
        assert caught.value.first == 4
    journal.close()


def test_the_last_number_outlives_pruning_everything_and_a_restart(path: Path) -> None:
    journal = EventJournal(path, max_age_ms=100)
    journal.append(facts(7))
    assert journal.prune(5000) == 7
    assert (journal.first, journal.last) == (8, 7)
    assert journal.read(7) == []
    journal.close()
    again = EventJournal(path, max_age_ms=100)
    assert (again.first, again.last) == (8, 7)
    assert numbers(again.append(facts(2))) == [8, 9]
    with pytest.raises(Expired):
        again.read(6)
    again.close()


def test_the_oldest_beyond_the_size_are_dropped(path: Path) -> None:
    journal = EventJournal(path, max_bytes=10_000)
    journal.append(facts(100, text="x" * 400))
    assert journal.prune(1000) > 0
    assert journal.last == 100
    retained = journal.read(journal.first - 1)
    assert numbers(retained) == list(range(journal.first, 101))
    assert 15 <= len(retained) <= 25
    assert journal.prune(1000) == 0
    # The size is known again after a restart, without counting.
    journal.close()
    again = EventJournal(path, max_bytes=10_000)
    assert again.prune(1000) == 0
    again.append(facts(1, text="x" * 400))
    assert again.prune(1000) == 1
    assert again._db.execute("SELECT sum(size) FROM event").fetchone()[0] == again._size <= 10_000
    again.close()


def test_an_event_larger_than_the_journal_leaves_it_empty(path: Path) -> None:
    journal = EventJournal(path, max_bytes=100)
    journal.append(facts(1, text="x" * 400))
    assert journal.prune(1000) == 1
    assert (journal.first, journal.last, journal._size) == (2, 1, 0)
    journal.close()


def test_a_damaged_file_is_named(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"no database at all" * 1000)
    with pytest.raises(StoreError, match="is damaged") as caught:
        EventJournal(path)
    assert str(path) in str(caught.value)


def test_a_process_killed_in_mid_append_leaves_no_gap_and_no_number_twice(path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from brokers.model import ObjectName\n"
        "from brokers.server.event_journal import EventJournal\n"
        "journal = EventJournal(Path(sys.argv[1])); name = ObjectName.parse('type=Broker')\n"
        "while True:\n"
        "    events = journal.append([(1, 'policy-changed', name, 'x' * 200, {})] * 50)\n"
        "    print(events[-1].number, flush=True)\n"
    )
    last = 0
    for run in range(3):
        process = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        appended = [int(line) for line in itertools.islice(process.stdout, 20 + run)]
        process.send_signal(signal.SIGKILL)
        appended += [int(line) for line in process.stdout if line.endswith("\n")]
        process.stdout.close()
        assert process.wait(30) == -9
        assert appended == list(range(last + 50, last + 50 * len(appended) + 1, 50))
        journal = EventJournal(path)
        assert journal.last >= appended[-1]
        assert numbers(journal.read(last, 1_000_000)) == list(range(last + 1, journal.last + 1))
        last = journal.last
        journal.close()


def test_appending_a_thousand_events_takes_milliseconds(path: Path) -> None:
    journal = EventJournal(path)
    batch = facts(1000, text="[vh(/default)/qu(orders)] QUE-1003 : Overfull : Size : 1,200 bytes, Capacity : 1,000")
    best = float("inf")
    for _ in range(5):
        started = time.perf_counter()
        journal.append(batch)
        best = min(best, time.perf_counter() - started)
    print(f"{best * 1000:.1f} ms")  # noqa: T201
    assert best < 0.1  # about 5 ms here; the bound only catches one transaction per event
    journal.close()
