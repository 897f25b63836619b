"""Events that several lines imply: RabbitMQ's alarms, ActiveMQ's warnings."""

from __future__ import annotations

from console.history.importing.implied import SAME_BLOCK, Implied
from console.history.rollups.broker import BrokerRollups
from console.history.storage.landing import SCHEMAS
from console.history.storage.log_lines import read_line
from console.history.storage.other_brokers import Columns

MEMORY = "memory resource limit alarm {} on node rabbit@a"
DISK = "disk resource limit alarm {} on node rabbit@b"
LIMIT = "Usage Manager Memory Limit (1000) reached on queue://{}, size 5. Producers will be throttled"
STORE = (
    "Persistent store is Full, 100% of 1000. Stopping producer (x) to prevent flooding queue://a. (blocking for: 5s)"
)


def columns(line: str) -> Columns:
    read = read_line(line)
    assert read is not None
    return read[1]


def events(*lines: tuple[int, str]) -> list[tuple[int, str, str]]:
    """Return (ms, kind, queue or scope) of what these lines imply."""
    implied = Implied()
    found = [event for at, line in lines for event in implied.events(at, columns(line))]
    found += implied.ended()
    return [(at, event["kind"], event.get("queue") or event.get("scope") or "") for at, event in found]


def test_producers_are_stopped_until_the_last_alarm_is_cleared() -> None:
    lines = [(1, MEMORY.format("set")), (2, DISK.format("set")), (3, MEMORY.format("cleared"))]
    lines += [(3, MEMORY.format("cleared")), (4, DISK.format("cleared"))]
    assert events(*lines) == [
        (1, "producers-stopped", "broker"),
        (2, "producers-stopped", "broker"),
        (3, "limit-cleared", ""),
        (3, "limit-cleared", ""),
        (4, "producers-started", "broker"),
    ]


def test_start_of_the_node_ends_its_alarms() -> None:
    lines = [(1, MEMORY.format("set")), (9, "Server startup complete; 4 plugins"), (10, "Server startup complete; 4 ")]
    assert events(*lines)[1:] == [(9, "producers-started", "broker"), (10, "broker-ready", "")]


def test_end_of_an_alarm_set_before_the_log_ends_the_stop() -> None:
    assert events((4, DISK.format("cleared"))) == [(4, "producers-started", "broker")]


def test_block_of_a_destination_lasts_from_its_first_to_its_last_line() -> None:
    lines = [
        (0, LIMIT.format("a")),
        (30_000, LIMIT.format("a")),
        (31_000, LIMIT.format("b")),
        (60_000, LIMIT.format("a")),
    ]
    lines += [(60_001 + SAME_BLOCK, LIMIT.format("a"))]
    assert events(*lines) == [
        (0, "queue-overfull", "a"),
        (30_000, "client-warning", "a"),
        (31_000, "queue-overfull", "b"),
        (60_000, "client-warning", "a"),
        (60_000, "queue-underfull", "a"),
        (31_000, "queue-underfull", "b"),
        (60_001 + SAME_BLOCK, "queue-overfull", "a"),
        (60_001 + SAME_BLOCK, "queue-underfull", "a"),
    ]  # fmt: skip


def test_full_store_stops_the_whole_broker_since_the_producer_has_been_blocked() -> None:
    assert events((30_000, STORE), (60_000, STORE)) == [
        (25_000, "producers-stopped", "broker"),
        (60_000, "producers-started", "broker"),
    ]


def test_overlapping_alarms_are_one_episode_of_all_producers() -> None:
    implied, rollups = Implied(), BrokerRollups("x")
    lines = [(1000, MEMORY.format("set")), (2000, DISK.format("set")), (3000, MEMORY.format("cleared"))]
    lines += [(4000, DISK.format("cleared")), (9000, MEMORY.format("set"))]
    found = [event for at, line in lines for event in implied.events(at, columns(line))]
    empty = dict.fromkeys(SCHEMAS["events"].names)
    rows = [{**empty, **event, "broker": "x", "at": at, "sequence": n} for n, (at, event) in enumerate(found)]
    rollups.take(events=rows, coverage=[{"at": 0, "until": 10_000, "followed": True, "source": "recorder"}])
    names = ("kind", "scope", "start", "end", "actor", "reason")
    assert [tuple(row[name] for name in names) for row in rollups.episodes()] == [
        ("stopped", "broker", 1000, 4000, "broker", "memory alarm on rabbit@a"),
        ("stopped", "broker", 9000, None, "broker", "memory alarm on rabbit@a"),
    ]
