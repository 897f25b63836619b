"""Attributes that a broker does not report follow from what it does, and stay unknown where nothing follows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokers.adapters.flow_state import LONGEST, derive, is_at_rest


def steps(type_name: str, *reads: tuple[int, dict[str, Any]]) -> dict[str, Any]:
    known: dict[str, Any] | None = None
    for at, read in reads:
        known = derive(type_name, known, read, at)
    assert known is not None
    return known


def test_overfull_time_is_counted_from_observation_to_observation() -> None:
    reads = [
        (0, {"overfull": False}),
        (1000, {"overfull": True}),
        (2000, {"depth_messages": 5}),
        (5000, {"overfull": True}),
    ]
    seen = steps("Queue", *reads)
    assert (seen["state"], seen["overfull_since"], seen["overfull_count"], seen["overfull_ms"]) == (
        "OVERFULL",
        1000,
        1,
        0,
    )
    seen = steps("Queue", *reads, (6000, {"overfull": False}), (7000, {"overfull": True}))
    assert (seen["state"], seen["overfull_since"], seen["overfull_count"], seen["overfull_ms"]) == (
        "OVERFULL",
        7000,
        2,
        5000,
    )


def test_state_is_unknown_if_the_broker_does_not_say_and_stopped_if_an_operator_did() -> None:
    assert steps("Queue", (0, {"overfull": None}))["state"] is None
    assert steps("Queue", (0, {}))["state"] is None
    assert steps("Queue", (0, {"stopped_since": 5}))["state"] == "STOPPED"
    assert steps("Queue", (0, {"stopped_since": 5, "overfull": True}))["state"] == "OVERFULL_STOPPED"
    assert steps("Producer", (0, {}))["state"] is None


def test_rate_follows_from_counters_only_when_they_were_read() -> None:
    first, second = {"enqueued_messages": 100}, {"enqueued_messages": 300}
    assert steps("Queue", (0, first))["rate_in"] is None
    assert steps("Queue", (0, first), (2000, second))["rate_in"] == 100
    assert steps("Queue", (0, first), (2000, second), (3000, {"depth_messages": 1}))["rate_in"] == 100
    assert steps("Queue", (0, first), (2000, second), (2100, {"enqueued_messages": 301}))["rate_in"] == 100  # too soon
    assert steps("Queue", (0, first), (2000, {"enqueued_messages": 50}))["rate_in"] is None  # restarted
    assert steps("Queue", (0, first), (LONGEST + 1, second))["rate_in"] is None
    assert steps("Queue", (0, first), (2000, second), (LONGEST + 3000, {}))["rate_in"] is None  # stale
    assert steps("Queue", (0, first), (2000, second), (1000, second))["rate_in"] is None  # the clock was set back


def test_rates_in_and_out_follow_from_counters_that_are_read_together() -> None:
    reads = [
        (1000 * second, {"enqueued_messages": 30 * second, "dequeued_messages": 20 * second}) for second in range(4)
    ]
    seen = steps("Queue", *reads)
    assert (seen["rate_in"], seen["rate_out"]) == (30, 20)


@given(st.lists(st.tuples(st.integers(1, 5000), st.sampled_from([True, False, None, ...])), max_size=40))
def test_blocked_time_never_falls_and_adds_up(steps_: list[tuple[int, Any]]) -> None:
    """The oracle adds the time of each interval that began blocked. What is unknown has not ended."""
    at, known, last, total, since, count = 0, derive("Producer", None, {}, 0), None, 0, None, 0
    for wait, blocked in steps_:
        at += wait
        read = {} if blocked is ... else {"blocked": blocked}
        known = derive("Producer", known, read, at)
        now = last if blocked is None or blocked is ... else blocked
        if now and not last:
            since, count = at, count + 1
        if last and not now:
            assert since is not None
            total, since = total + at - since, None
        last = now
        assert (known["blocked_since"], known["blocked_ms"], known["blocked_count"]) == (since, total, count)


@pytest.mark.parametrize("type_name", ["Connection", "Policy", "Broker"])
def test_other_objects_are_as_they_were_read(type_name: str) -> None:
    assert steps(type_name, (0, {"a": 1}), (1, {"b": 2})) == {"a": 1, "b": 2}


_polls = st.lists(
    st.tuples(
        st.sampled_from([0, 100, 499, 500, 1000, 1000, 1000, 20_000, -500]),  # ms since the poll before
        st.dictionaries(
            st.sampled_from(["enqueued_messages", "dequeued_messages", "depth_messages", "overfull", "stopped_since"]),
            st.sampled_from([None, 0, 1, 1, 1, 2]),
        ),
    ),
    max_size=30,
)


@settings(max_examples=400)
@given(_polls, st.sampled_from(["Queue", "Connection", "Producer"]))
def test_objects_at_rest_are_those_that_a_full_derivation_leaves_as_they_are(
    polls: list[tuple[int, dict[str, Any]]], type_name: str
) -> None:
    """The attribute `counted`, too, after each poll of a random history."""
    spared: dict[str, Any] | None = None
    full: dict[str, Any] | None = None
    at = 1_000_000
    for passed, changed in polls:
        at += passed
        read = {**({"depth_messages": 0} if spared is None else {}), **changed}
        if "blocked" not in read and type_name == "Producer":
            read["blocked"] = bool(read.get("overfull"))
        if spared is None or not is_at_rest(type_name, spared, read, at):
            spared = derive(type_name, spared, read, at)
        full = derive(type_name, full, read, at)
        assert spared == full


def test_idle_queue_is_at_rest() -> None:
    read = {"enqueued_messages": 5, "dequeued_messages": 5, "depth_messages": 0, "overfull": False}
    queue = derive("Queue", None, read, 1_000)
    for at in (2_000, 3_000):
        queue = derive("Queue", queue, read, at)
    assert (queue["rate_in"], queue["rate_out"]) == (0.0, 0.0)
    assert is_at_rest("Queue", queue, read, 4_000)
    assert queue["counted"] == {"enqueued_messages": (4_000, 5), "dequeued_messages": (4_000, 5)}
    assert not is_at_rest("Queue", queue, {**read, "enqueued_messages": 6}, 5_000)
    assert not is_at_rest("Queue", queue, read, 40_000)  # nothing is known of the rate in so long a time
