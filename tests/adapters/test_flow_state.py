"""Attributes that a broker does not report follow from what it does, and stay unknown where nothing follows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.adapters.flow_state import LONGEST, derive


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


@given(st.lists(st.tuples(st.integers(1, 5000), st.sampled_from([True, False, None, ...])), max_size=40))
def test_blocked_time_never_falls_and_adds_up(steps_: list[tuple[int, Any]]) -> None:
    """The oracle adds the time of each interval that began blocked."""
    at, known, last, total, since, count = 0, derive("Producer", None, {}, 0), None, 0, None, 0
    for wait, blocked in steps_:
        at += wait
        read = {} if blocked is ... else {"blocked": blocked}
        known = derive("Producer", known, read, at)
        now = last if blocked is ... else blocked
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
