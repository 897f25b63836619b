"""When an overfull queue resumes, or why it does not."""

from __future__ import annotations

from typing import Any

import pytest

from console.conditions.trends import NO_RATES, Rates
from console.incident.drain import doing, estimate

TAKER = {"browsing": False, "credit": 10, "unacknowledged_messages": 0}


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


def test_estimate_is_what_is_left_at_the_rate_it_goes() -> None:
    left = estimate(queue(), Rates(messages_out=10, seen_ms=10_000), [TAKER])
    assert dict(left.to_go) == {"messages": 20}
    assert left.ms == 2000


def test_estimate_waits_for_the_slower_of_messages_and_bytes() -> None:
    both = queue(effective_stop_bytes=9000, effective_resume_bytes=5000)
    left = estimate(both, Rates(messages_out=10, seen_ms=10_000), [TAKER])
    assert dict(left.to_go) == {"messages": 20, "bytes": 5000}
    assert left.ms == 5000  # at 100 bytes a message


def test_what_came_in_before_the_producers_were_held_does_not_count() -> None:
    just_full = Rates(messages_in=45, messages_out=5, seen_ms=10_000)
    assert estimate(queue(rate_in=0.0), just_full, [TAKER]).ms == 4000


def test_estimate_without_history_uses_the_brokers_own_rates() -> None:
    assert estimate(queue(rate_out=5.0), NO_RATES, [TAKER]).ms == 4000


@pytest.mark.parametrize(
    ("values", "consumers", "because"),
    [
        ({}, [], "nobody consumes from it"),
        ({}, [{"browsing": True, "credit": 10}], "nobody consumes from it"),
        ({}, [{"credit": 0, "unacknowledged_messages": 7}], "hold 7 messages that they have not acknowledged"),
        ({}, [{"credit": 0, "unacknowledged_messages": 0}], "no consumer asks for messages"),
        ({}, [{"credit": 5, "unacknowledged_messages": 100}], "all of its 100 messages are with consumers"),
        ({"rate_in": 8.0, "rate_out": 8.0}, [TAKER], "at least as much comes in as goes out"),
        ({"uncommitted_messages": 100}, [TAKER], "transactions that have not been committed"),
        ({}, [TAKER], "nothing has left it for some seconds"),
        ({"delayed_messages": 100, "delayed_bytes": 10_000}, [TAKER], "100 of its messages wait for their delivery"),
        ({"delayed_messages": 100, "delayed_bytes": 10_000}, [], "100 of its messages wait for their delivery time"),
        ({"delayed_messages": 81, "next_delivery_time": 1_700_000_000_000}, [TAKER], "at 2023-11-14 22:13:20 UTC: no"),
        ({"delayed_messages": 81, "rate_out": 9.0}, [TAKER], "81 of its messages wait"),
        ({"delayed_messages": 79}, [TAKER], "nothing has left it for some seconds"),
        ({"delayed_messages": 79}, [{"credit": 5, "unacknowledged_messages": 21}], "79 of its messages wait"),
        ({"delayed_messages": 1, "effective_resume_messages": 0}, [TAKER], "1 of its messages waits for its delivery"),
        ({"delayed_messages": 100, "next_delivery_time": 253_370_764_800_000}, [TAKER], "next at 9999-01-01 00:00:00"),
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
        ({"credit": 0, "unacknowledged_messages": 1}, "holds 1 message unacknowledged", True),
        ({"credit": 0}, "asks for no messages", True),
        ({"credit": 3, "unacknowledged_messages": 2}, "2 not acknowledged yet, room for 3 more", False),
        ({"credit": 3}, "takes messages as they come", False),
    ],
)
def test_what_a_consumer_does_is_told_from_its_credit_and_what_it_holds(
    consumer: dict[str, Any], words: str, stuck: bool
) -> None:
    said, is_stuck = doing(consumer, queue())
    assert words in said
    assert is_stuck is stuck


def test_what_waits_for_its_delivery_time_is_not_there_to_be_taken() -> None:
    assert doing({"credit": 3}, queue(delayed_messages=100))[0] == "waits for messages, room for 3"
    assert estimate(queue(delayed_messages=80, rate_out=5.0), NO_RATES, [TAKER]).ms == 4000


def test_consumer_of_an_empty_queue_waits() -> None:
    assert doing({"credit": 3}, queue(depth_messages=0))[0] == "waits for messages, room for 3"
