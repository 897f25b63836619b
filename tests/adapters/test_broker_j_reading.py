"""Broker-J's recorded answers (10.1.0 and 7.1.12), its limits in the order of requests, and its log.

The scene in which they were recorded: `orders` limited to 5, resumes at 40 %, holds 6 and blocks its producer; `free`
has no limit and a producer; a consumer has messages of `orders`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from brokers.adapters import broker_j_limits as limits
from brokers.adapters import broker_j_log as log_lines
from brokers.adapters import broker_j_reading as reading
from brokers.adapters.broker_j_limits import BLOCKS, NONE, REJECTS, RING, QueueLimits
from brokers.admin import InvalidValue
from tests.adapters.fake import queue_name

ANSWERS = Path(__file__).parent / "answers"
ORDERS = queue_name("orders", "default")

versions = pytest.mark.parametrize("version", ["10.1", "7.1"])


def answer(version: str, name: str) -> Any:
    return json.loads((ANSWERS / f"broker-j-{version}" / f"{name}.json").read_text())


def hosts(version: str) -> reading.Hosts:
    listed = reading.rows(answer(version, "virtualhosts"), reading.HOST)
    return reading.Hosts.of(listed, answer(version, "broker"))


def clients(version: str) -> reading.Clients:
    return reading.clients_of(
        reading.rows(answer(version, "connections"), reading.CONNECTION),
        reading.rows(answer(version, "sessions"), reading.SESSION),
        reading.rows(answer(version, "producers"), reading.PRODUCER) if version == "10.1" else None,
        hosts(version),
    )


def queues(version: str) -> dict[str, Any]:
    found = reading.queues_of(reading.rows(answer(version, "queues"), reading.FULL), hosts(version), {})
    return {name["name"]: values for name, values in found.items()}


def blocked(version: str) -> dict[Any, Any]:
    sessions = [r["id"] for r in reading.rows(answer(version, "sessions"), reading.SESSION) if r["producerFlowBlocked"]]
    states = reading.blocked_producers(clients(version), sessions, [ORDERS])
    return {name: state for name, state in states.items() if state["blocked"]}


@versions
def test_levels_of_a_queue_and_of_one_without_limit(version: str) -> None:
    found = queues(version)
    orders, free = found["orders"], found["free"]
    assert (orders["capacity_messages"], orders["capacity_bytes"]) == (5, None)
    assert (orders["effective_stop_messages"], orders["effective_resume_messages"]) == (5, 2)
    assert (orders["flow_resume_messages"], orders["overflow"], orders["mechanism"]) == ("40%", "producers", "block")
    assert (orders["depth_messages"], orders["unacknowledged_messages"], orders["overfull"]) == (6, 3, True)
    assert (free["effective_stop_messages"], free["overflow"], free["overfull"]) == (0, None, False)
    assert orders.get("producers") == (1 if version == "10.1" else None)


@versions
def test_quick_answer_says_the_same_of_the_queues_in_it(version: str) -> None:
    listed = reading.rows(answer(version, "queues-quick"), reading.QUICK)
    context = {ORDERS: {"queue.queueFlowResumeLimit": "40"}}
    quick = reading.queues_of(listed, hosts(version), context)
    full = queues(version)["orders"]
    assert {**quick[ORDERS], "durable": True} == full


@versions
def test_producer_is_blocked_and_the_consumer_of_the_overfull_queue_is_not_one(version: str) -> None:
    ((_, state),) = blocked(version).items()
    if version == "10.1":
        assert state["reasons"] == ["queue-overfull:orders"]
    producers = [name for name in clients(version).objects if name.type == "Producer"]
    assert len(producers) == 2


def test_blocked_session_that_only_consumes_is_no_producer() -> None:
    rows = [{**row, "producerFlowBlocked": True} for row in reading.rows(answer("7.1", "sessions"), reading.SESSION)]
    connections = reading.rows(answer("7.1", "connections"), reading.CONNECTION)
    found = reading.clients_of(connections, rows, None, hosts("7.1"))
    assert len(reading.blocked_producers(found, [row["id"] for row in rows], [ORDERS])) == 2


def test_producer_whose_session_is_blocked_by_another_queue_runs() -> None:
    found = clients("10.1")
    free = next(s for s in found.sessions.values() for p in s.producers if "free" in found.objects[p]["queue"])
    orders = next(s for s in found.sessions.values() for p in s.producers if "orders" in found.objects[p]["queue"])
    both = reading.Session(1, 0, (*free.producers, *orders.producers))
    together = reading.Clients(found.objects, {"one": both})
    states = reading.blocked_producers(together, ["one"], [ORDERS])
    assert {name: state["blocked"] for name, state in states.items()} == {
        free.producers[0]: False,
        orders.producers[0]: True,
    }
    # Without an overfull queue, the store of the virtual host blocks all.
    states = reading.blocked_producers(together, ["one"], [])
    assert [state["reasons"] for state in states.values()] == [[reading.STORE_FULL]] * 2


def test_limits_of_a_stop_are_not_shown_as_those_of_the_queue() -> None:
    (row,) = [r for r in reading.rows(answer("10.1", "queues"), reading.FULL) if r["name"] == "orders"]
    stopped = {**row, "maximumQueueDepthMessages": 0}
    ((_, values),) = reading.queues_of([stopped], hosts("10.1"), {}).items()
    assert not {"capacity_messages", "effective_stop_messages", "overfull", "overflow"} & set(values)
    assert values["depth_messages"] == 6


def test_hosts_of_the_same_name_on_two_nodes_have_different_names() -> None:
    listed = [
        {"id": str(number), "name": host, "$parent.name": node, "context": {}}
        for number, (node, host) in enumerate([("a", "x"), ("b", "x"), ("c", "y")])
    ]
    found = reading.Hosts.of(listed, {})
    assert found.places == {"a/x": ("a", "x"), "b/x": ("b", "x"), "y": ("c", "y")}
    assert (found.named("a", "x"), found.named("c", "y")) == ("a/x", "y")


def test_environment_of_the_broker_is_not_read() -> None:
    broker = {"context": {"SECRET": "x", limits.RESUME: "70.0"}}
    found = reading.Hosts.of([{"id": "1", "name": "x", "$parent.name": "x", "context": None}], broker)
    assert found.contexts == {"x": ({}, {limits.RESUME: "70.0"})}


def test_rejecting_queue_is_overfull_at_its_limit_and_a_ring_never() -> None:
    (row,) = [r for r in reading.rows(answer("10.1", "queues"), reading.FULL) if r["name"] == "orders"]

    def overfull(policy: str, maximum: int) -> bool:
        changed = {**row, "overflowPolicy": policy, "maximumQueueDepthMessages": maximum, "queueFlowStopped": False}
        ((_, values),) = reading.queues_of([changed], hosts("10.1"), {}).items()
        return bool(values["overfull"])

    assert (overfull(REJECTS, 6), overfull(REJECTS, 7), overfull(RING, 6)) == (True, False, False)


# -- limits -----------------------------------------------------------------------------------------------------------


def requests(now: QueueLimits, wanted: QueueLimits) -> list[Any]:
    return [(dict(step.attributes), step.releases) for step in limits.steps(now, wanted)]


def test_stop_of_a_ring_changes_the_policy_before_the_maximum() -> None:
    ring = QueueLimits(RING, 10, -1)
    assert requests(ring, limits.stopped(ring)) == [
        ({"overflowPolicy": BLOCKS}, False),
        ({"maximumQueueDepthMessages": 0}, False),
    ]


def test_start_lifts_the_maximum_and_waits_before_it_changes_the_policy() -> None:
    ring = QueueLimits(RING, 10, 500)
    assert requests(limits.stopped(ring), ring) == [
        ({"maximumQueueDepthMessages": -1, "maximumQueueDepthBytes": -1}, True),
        ({"overflowPolicy": RING}, False),
        ({"maximumQueueDepthMessages": 10, "maximumQueueDepthBytes": 500}, False),
    ]
    blocking = QueueLimits(BLOCKS, 10, 500)
    assert requests(limits.stopped(blocking), blocking) == [({"maximumQueueDepthMessages": 10}, False)]


@pytest.mark.parametrize("before", [QueueLimits(p, 10, 500) for p in (RING, REJECTS, NONE, BLOCKS)])
def test_stop_or_start_that_was_interrupted_anywhere_is_known_and_completed(before: QueueLimits) -> None:
    for begin, end in ((before, limits.stopped(before)), (limits.stopped(before), before)):
        now = begin.as_json()
        for step in limits.steps(begin, end):
            now |= step.attributes
            halfway = QueueLimits.of(now)
            assert halfway == before or limits.is_of_stop(halfway, before)
            after = halfway.as_json()
            for rest in limits.steps(halfway, before):
                after |= rest.attributes
            assert QueueLimits.of(after) == before
    assert not limits.is_of_stop(QueueLimits(before.policy, 99, 500), before), "another client has set it since"


@pytest.mark.parametrize(
    ("now", "attributes", "wanted"),
    [
        (QueueLimits(NONE, -1, -1), {"capacity_messages": 9}, QueueLimits(BLOCKS, 9, -1)),
        (QueueLimits(NONE, 9, -1), {"flow_resume_messages": "50%"}, QueueLimits(NONE, 9, -1)),
        (QueueLimits(BLOCKS, 9, 7), {"capacity_messages": 0}, QueueLimits(BLOCKS, -1, 7)),
        (QueueLimits(BLOCKS, 9, 7), {"capacity_bytes": None}, QueueLimits(BLOCKS, 9, -1)),
        (QueueLimits(BLOCKS, 9, -1), {"overflow": "ring"}, QueueLimits(RING, 9, -1)),
        (QueueLimits(BLOCKS, 9, -1), {"overflow": None}, QueueLimits(NONE, 9, -1)),
        (QueueLimits(REJECTS, 9, -1), {"overflow": "producers"}, QueueLimits(REJECTS, 9, -1)),
        (QueueLimits(RING, 9, -1), {"overflow": "producers"}, QueueLimits(BLOCKS, 9, -1)),
        (QueueLimits("FLOW_TO_DISK", 9, -1), {"capacity_messages": 5}, QueueLimits("FLOW_TO_DISK", 5, -1)),
    ],
)
def test_attributes_become_limits(now: QueueLimits, attributes: dict[str, Any], wanted: QueueLimits) -> None:
    assert limits.with_attributes(now, attributes) == wanted


def test_context_keeps_the_variables_of_others() -> None:
    context = {"theirs": "1", limits.RESUME: "40"}
    assert limits.resume_context(context, "50%") == {"theirs": "1", limits.RESUME: "50"}
    assert limits.resume_context(context, None) == {"theirs": "1"}
    with pytest.raises(InvalidValue, match="percentage"):
        limits.resume_context(context, 5)


# -- the log ----------------------------------------------------------------------------------------------------------


@versions
def test_log_reports_the_episode_with_the_brokers_times(version: str) -> None:
    lines = answer(version, "log")
    sessions = _numbered(version, lines)
    found = log_lines.LogReading().events(lines, sessions)
    assert [event.kind for event in found] == [
        "queue-overfull",
        "producer-blocked",
        "queue-underfull",
        "producer-released",
    ]
    times = {line["message"].rpartition("] ")[2][:8]: line["timestamp"] for line in lines}
    overfull, producer, underfull, released = found
    assert (overfull.at, underfull.at) == (times["QUE-1003"], times["QUE-1004"])
    assert overfull.observed == {"depth_messages": 6, "depth_bytes": 798, "overfull": True}
    assert underfull.attributes["overfull_ms"] == underfull.at - overfull.at
    assert overfull.object == ORDERS
    assert producer.object == released.object
    assert producer.attributes["reasons"] == ["queue-overfull:orders"]
    assert released.attributes["blocked_ms"] == released.at - producer.at
    assert log_lines.LogReading().needs(lines, reading.Clients())
    assert not log_lines.LogReading().needs(lines, sessions)


def _numbered(version: str, lines: list[Any]) -> reading.Clients:
    """The clients of the scene: the log was recorded in it."""
    found = clients(version)
    assert any("CHN-1005" in line["message"] for line in lines)
    return found


def test_log_lines_on_the_limit_of_a_stop_are_no_events_of_the_queue() -> None:
    lines = [
        _line(1, "[vh(/default)/qu(orders)] QUE-1003 : Overfull : Size : 1\u00a0463 bytes, Capacity : -1,"
                 " Messages : 0, Message Capacity : 0"),
        _line(2, "[vh(/default)/qu(orders)] QUE-1004 : Underfull : Size : 0 bytes, Resume Capacity : -1,"
                 " Messages : 0, Message Capacity : 0"),
        _line(3, "[vh(/default)/qu(orders)] QUE-1003 : Overfull : Size : 1.463 bytes, Capacity : 1.000,"
                 " Messages : 11, Message Capacity : -1"),
    ]  # fmt: skip
    (event,) = log_lines.LogReading().events(lines, reading.Clients())
    assert (event.kind, event.at, event.observed["depth_bytes"]) == ("queue-overfull", 3, 1463)


def _line(id_: int, message: str) -> dict[str, Any]:
    return {"id": id_, "timestamp": id_, "message": message}


def test_position_in_the_log_finds_gaps_and_restarts() -> None:
    lines = [_line(number, "") for number in range(5, 9)]
    position = log_lines.Position(5, 5)
    assert log_lines.newer(lines, position) == (lines[1:], 0)
    assert log_lines.end_of(lines, position) == log_lines.Position(8, 8)
    assert log_lines.newer(lines, log_lines.Position(2, 2)) == (lines, 2)
    with pytest.raises(log_lines.RestartedLog):
        log_lines.newer([], position)
    with pytest.raises(log_lines.RestartedLog):
        log_lines.newer(lines, log_lines.Position(5, 4))
    assert log_lines.newer([], log_lines.Position()) == ([], 0)


@pytest.mark.parametrize(
    ("logger", "level", "enough"),
    [
        ("qpid.message.*", "INFO", True),
        ("ROOT", "DEBUG", True),
        ("qpid.message.queue.*", "INFO", False),
        ("qpid.message.*", "WARN", False),
    ],
)
def test_memory_logger_must_have_the_operational_log(logger: str, level: str, *, enough: bool) -> None:
    assert log_lines.lets_through([{"loggerName": logger, "level": level}]) is enough
    assert not log_lines.lets_through([])


class Counted(dict[str, Any]):
    """A row that counts how often it is read."""

    reads = 0

    def __getitem__(self, key: str) -> Any:
        Counted.reads += 1
        return super().__getitem__(key)


def test_clients_are_joined_in_one_pass() -> None:
    """It runs in the event loop of all brokers, for ten thousand sessions with as many producers."""
    count = 200
    (connection, *_), (session, *_), (producer, *_) = (
        reading.rows(answer("10.1", name), columns)
        for name, columns in (
            ("connections", reading.CONNECTION),
            ("sessions", reading.SESSION),
            ("producers", reading.PRODUCER),
        )
    )
    connection = {**connection, "id": session["$parent.id"]}
    sessions = [Counted(session, id=f"s{n}", channelId=n) for n in range(count)]
    producers = [Counted(producer, id=f"p{n}", sessionId=f"s{n}") for n in range(count)]
    Counted.reads = 0
    found = reading.clients_of([connection], sessions, producers, hosts("10.1"))
    assert Counted.reads < 20 * count
    number = next(iter(found.sessions.values())).connection
    for n in (0, 7, count - 1):
        at = found.session(number, n)
        assert at is not None
        assert (at, [name["id"] for name in at.producers]) == (found.sessions[f"s{n}"], [f"p{n}"])
    assert found.session(number, count) is None
