"""Smoothed rates of queues."""

from __future__ import annotations

import pytest

from console.conditions.trends import NO_RATES, Trends

START = 1_700_000_000_000


def seconds(trends: Trends, count: int, into: int, out: int) -> int:
    """Process a sample per second; return the time of the last one. `into`, `out`: messages per second."""
    for n in range(count + 1):
        trends.take(
            "q",
            START + n * 1000,
            {
                "enqueued_messages": into * n,
                "dequeued_messages": out * n,
                "depth_bytes": 100 * (into - out) * n,
            },
        )
    return START + count * 1000


def test_unknown_queue_has_no_rates() -> None:
    assert Trends().of("q", START) == NO_RATES


def test_steady_traffic_has_its_exact_rates() -> None:
    trends = Trends()
    now = seconds(trends, 10, into=30, out=10)
    rates = trends.of("q", now)
    assert rates.messages_in == pytest.approx(30)
    assert rates.messages_out == pytest.approx(10)
    assert rates.bytes_net == pytest.approx(2000)
    assert rates.observed_ms == 10_000


def test_rates_decay_without_samples() -> None:
    trends = Trends()
    now = seconds(trends, 10, into=30, out=10)
    assert trends.of("q", now + 1000).messages_in == pytest.approx(30)
    assert trends.of("q", now + 60_000).messages_in < 0.1


def test_burst_after_a_pause_counts_for_one_second_only() -> None:
    trends = Trends()
    now = seconds(trends, 10, into=0, out=0)
    trends.take("q", now + 60_000, {"enqueued_messages": 80, "dequeued_messages": 0, "depth_bytes": 0})
    assert 5 < trends.of("q", now + 60_000).messages_in < 80


def test_restarted_counters_reset_the_rates() -> None:
    trends = Trends()
    now = seconds(trends, 10, into=30, out=10)
    trends.take("q", now + 1000, {"enqueued_messages": 5, "dequeued_messages": 1, "depth_bytes": 400})
    assert trends.of("q", now + 1000) == NO_RATES


def test_dropped_queue_has_no_rates() -> None:
    trends = Trends()
    now = seconds(trends, 10, into=30, out=10)
    trends.drop("q")
    assert trends.of("q", now) == NO_RATES
