"""The loads of the comparison with other brokers, what makes a run invalid, and how long all take
(`bench/rate_rows.py`)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.bench.scripts import script

rate_rows = script("rate_rows")

ROWS = rate_rows.rate_rows()


def done(**counters: int) -> dict[str, Any]:
    """A flawless run of 1,000 messages, but for these."""
    flawless = {
        "sent": 1000,
        "accepted": 1000,
        "refused": 0,
        "received": 1000,
        "presettled": 0,
        "repeated": 0,
        "early": 0,
    }
    return flawless | counters


def test_a_flawless_run_counts() -> None:
    assert rate_rows.fault(done(), 1000) == ""
    assert rate_rows.fault(done(received=50_000), 1000, copies=50) == ""
    assert rate_rows.fault(done(repeated=3), 1000) == "", "a second delivery is not counted as a message"


@pytest.mark.parametrize(
    ("counters", "copies", "why"),
    [
        ({"accepted": 999, "refused": 1}, 1, "refused 1 of"),
        ({"sent": 600, "accepted": 500, "received": 500}, 1, "accepted 500 of 1,000 messages; 400 never had credit"),
        ({"received": 999}, 1, "999 of 1,000 deliveries arrived"),
        ({"received": 49_999}, 50, "49,999 of 50,000 deliveries arrived"),
        ({"received": 1000}, 50, "1,000 of 50,000 deliveries arrived"),
        ({"presettled": 1}, 1, "settled"),
        ({"early": 1}, 1, "before their transaction was committed"),
        ({"received": 1001}, 1, "counted twice"),
        ({"accepted": 1001}, 1, "counted twice"),
    ],
)
def test_a_broker_that_rejects_blocks_loses_or_settles_has_no_rate(
    counters: dict[str, int], copies: int, why: str
) -> None:
    assert why in rate_rows.fault(done(**counters), 1000, copies)


def test_rows_have_titles_and_queues_of_their_own() -> None:
    for of in (lambda row: row.title, lambda row: row.cost_title, lambda row: row.queue):
        assert len({of(row) for row in ROWS}) == len(ROWS)


def test_rows_that_need_a_disk_are_durable_and_all_others_are_not() -> None:
    for row in ROWS:
        assert row.durable == row.title.startswith("durable")


def test_each_row_that_the_comparison_promises_is_there() -> None:
    titles = {row.what for row in ROWS}
    assert {
        "transient 100 B, 1 x 1",
        "transient 10 KiB, 8 x 8",
        "transient 1 MiB, 1 x 1",
        "durable 10 KiB, 1 x 1",
        "durable 1 MiB, 1 x 1",
        "topic 100 B, 1 subscriber",
        "topic 100 B, 50 subscribers",
        "durable 1 KiB in transactions of 10, 1 x 1",
        "durable 1 KiB in transactions of 100, 8 x 8",
        "transient 100 B, 1,000 connections, 100 queues",
    } <= titles


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.what)
def test_a_run_is_neither_empty_nor_endless(row: Any) -> None:
    size = row.options["size"]
    for count in (row.warm, row.count(0.001, 4), row.count(1e12, 4)):
        assert count >= 20
        assert count * row.copies <= rate_rows.MOST
    assert row.warm * row.copies * size <= 32 * 2**20
    assert row.count(1000, 4) == max(4000, row.count(0, 4))


def test_large_messages_do_not_pile_up_in_the_client_or_in_front_of_it() -> None:
    for row in ROWS:
        under_way = max(row.options.get("window", 1000), row.options.get("unaccepted", 1000))
        assert row.options["size"] * under_way * row.options.get("senders", 1) <= 128 * 2**20, row.title


def test_a_delivery_is_the_unit_of_topics() -> None:
    row = next(row for row in ROWS if row.what == "topic 100 B, 50 subscribers")
    assert row.copies == 50
    assert row.title.endswith("deliveries/s")
    assert row.cost_title.endswith("CPU a delivery, µs")


def test_the_estimate_grows_with_rows_brokers_rounds_and_seconds() -> None:
    scope = rate_rows.Scope(
        ROWS, brokers=7, own=2, rounds=3, seconds=4, warm_up=20, latency=True, flow=True, alone=True
    )
    whole = rate_rows.estimate(scope)
    assert 3600 < whole < 3 * 3600
    for less in (
        {"rows": ROWS[1:]},
        {"brokers": 6},
        {"own": 1},
        {"rounds": 2},
        {"seconds": 3},
        {"warm_up": 0},
        {"latency": False},
        {"flow": False},
        {"alone": False},
    ):
        assert rate_rows.estimate(replace(scope, **less)) < whole, less
    assert rate_rows.estimate(rate_rows.Scope((), brokers=7, own=2, rounds=3, seconds=4)) == 0
