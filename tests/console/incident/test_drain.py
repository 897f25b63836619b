"""When an overfull queue resumes, or why it does not."""

from __future__ import annotations

from typing import Any

import pytest

from console.conditions.trends import NO_RATES, Rates
from console.incident.drain import activity, estimate

CONSUMER = {"browsing": False, "credit": 10, "unacknowledged_messages": 0}


def queue(**values: Any) -> dict[str, Any]:
    return {
        "depth_messages": 100,
        "depth_bytes": 10_000,
        "unacknowledged_messages": 0,
        "uncommitted_messages": 0,
        "effective_stop_messages": 99,
        "effective_resume_messages": 80,
        "effective_stop_bytes": 0,
        "effective_resume_bytes": 0,
        "rate_in": 0.0,
        "rate_out": 0.0,
        **values,
    }


def test_estimate_is_the_remaining_depth_at_the_drain_rate() -> None:
    left = estimate(queue(), Rates(messages_out=10, observed_ms=10_000), [CONSUMER])
    assert dict(left.to_drain) == {"messages": 20}
    assert left.ms == 2000


def test_estimate_is_that_of_the_slower_of_messages_and_bytes() -> None:
    both = queue(effective_stop_bytes=9000, effective_resume_bytes=5000)
    left = estimate(both, Rates(messages_out=10, observed_ms=10_000), [CONSUMER])
    assert dict(left.to_drain) == {"messages": 20, "bytes": 5000}
    assert left.ms == 5000  # at 100 bytes a message


def test_inflow_before_the_producers_were_blocked_does_not_count() -> None:
    just_full = Rates(messages_in=45, messages_out=5, observed_ms=10_000)
    assert estimate(queue(rate_in=0.0), just_full, [CONSUMER]).ms == 4000


def test_estimate_without_history_uses_the_brokers_own_rates() -> None:
    assert estimate(queue(rate_out=5.0), NO_RATES, [CONSUMER]).ms == 4000


@pytest.mark.parametrize(
    ("values", "consumers", "because"),
    [
        ({}, [], "the queue has no consumers"),
        ({}, [{"browsing": True, "credit": 10}], "the queue has no consumers"),
        (
            {},
            [{"credit": 0, "unacknowledged_messages": 7}],
            "its consumers have 7 messages unacknowledged and grant no credit",
        ),
        ({}, [{"credit": 0, "unacknowledged_messages": 0}], "its consumers grant no credit"),
        ({}, [{"credit": 5, "unacknowledged_messages": 100}], "all 100 messages are delivered but not acknowledged"),
        ({"rate_in": 8.0, "rate_out": 8.0}, [CONSUMER], "the inflow is at least as high as the outflow"),
        ({"uncommitted_messages": 100}, [CONSUMER], "all its messages belong to uncommitted transactions"),
        ({}, [CONSUMER], "no message has left the queue for some seconds"),
        ({"delayed_messages": 100, "delayed_bytes": 10_000}, [CONSUMER], "100 messages wait for their delivery"),
        ({"delayed_messages": 100, "delayed_bytes": 10_000}, [], "100 messages wait for their delivery time"),
        (
            {"delayed_messages": 81, "next_delivery_time": 1_700_000_000_000},
            [CONSUMER],
            "the next at 2023-11-14 22:13:20 UTC",
        ),
        ({"delayed_messages": 81, "rate_out": 9.0}, [CONSUMER], "81 messages wait"),
        ({"delayed_messages": 79}, [CONSUMER], "no message has left the queue for some seconds"),
        ({"delayed_messages": 79}, [{"credit": 5, "unacknowledged_messages": 21}], "79 messages wait"),
        ({"delayed_messages": 1, "effective_resume_messages": 0}, [CONSUMER], "1 message waits for its delivery"),
        (
            {"delayed_messages": 100, "next_delivery_time": 253_370_764_800_000},
            [CONSUMER],
            "next at 9999-01-01 00:00:00",
        ),
    ],
)
def test_queue_that_does_not_drain_says_why(
    values: dict[str, Any], consumers: list[dict[str, Any]], because: str
) -> None:
    left = estimate(queue(**values), NO_RATES, consumers)
    assert left.ms is None
    assert because in left.because


@pytest.mark.parametrize(
    ("consumer", "words", "stuck"),
    [
        ({"browsing": True, "credit": 5}, "browses", False),
        ({"credit": 0, "unacknowledged_messages": 1}, "has 1 message unacknowledged and no credit", True),
        ({"credit": 0}, "is attached but grants no credit", True),
        ({"credit": 3, "unacknowledged_messages": 2}, "2 unacknowledged, credit for 3 more", False),
        ({"credit": 3}, "is consuming, credit for 3", False),
    ],
)
def test_activity_of_a_consumer_follows_from_its_credit_and_unacknowledged_messages(
    consumer: dict[str, Any], words: str, stuck: bool
) -> None:
    text, is_stuck = activity(consumer, queue())
    assert words in text
    assert is_stuck is stuck


def test_delayed_messages_are_not_available_to_consumers() -> None:
    assert activity({"credit": 3}, queue(delayed_messages=100))[0] == "waits for messages, credit for 3"
    assert estimate(queue(delayed_messages=80, rate_out=5.0), NO_RATES, [CONSUMER]).ms == 4000


def test_consumer_of_an_empty_queue_waits() -> None:
    assert activity({"credit": 3}, queue(depth_messages=0))[0] == "waits for messages, credit for 3"
