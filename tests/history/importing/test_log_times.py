"""Timestamps of logs."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from console.history.importing.log_times import LogTimes

WRITTEN = int(datetime(2014, 6, 3, tzinfo=UTC).timestamp() * 1000)
AT = int(datetime(2014, 6, 2, 12, 14, 5, tzinfo=UTC).timestamp() * 1000)


def read(head: str, zone: str = "UTC") -> int | None:
    return LogTimes(ZoneInfo(zone), WRITTEN).read(head)


@pytest.mark.parametrize(
    ("head", "ms"),
    [
        ("2014-06-02 12:14:05,123 INFO  [main] (q.m.q) - ", 123),
        ("2014-06-02 12:14:05.123456789 [Broker] info ", 123),
        ("2014-06-02 12:14:05 [Broker] info ", 0),
        ("2014-jun-02 12:14:05 info ", 0),
        ("2014/06/02 12:14:05 ", 0),
        ("2014-06-02T12:14:05.1Z ", 100),
        ("2014-06-02T14:14:05+02:00 ", 0),
        ("2014-06-02 08:14:05,001 -0400 INFO", 1),
        ("[2014-06-02 12:14:05,123] ", 123),
        ("qpidd: 2014-06-02 12:14:05 ", 0),
        ("02 Jun 2014 12:14:05,123 ", 123),
        ("[02/Jun/2014:14:14:05 +0200] ", 0),
        ("Mon Jun  2 12:14:05 2014 ", 0),
        ("Mon Jun 02 12:14:05 UTC 2014 ", 0),
        ("2014.06.02 12:14:05,123 ", 123),
        ("2014-06-02T14:14:05+02 ", 0),
        ("02.06.2014 12:14:05,123 ", 123),
        ("20140602T121405.123Z ", 123),
        ("20140602 12:14:05,123 ", 123),
        ("Jun 02, 2014 12:14:05 PM org.example.Broker start", 0),
        ("Jun 2, 2014 12:14:05\u202fPM org.example.Broker start", 0),
        ("=INFO REPORT==== 2-Jun-2014::12:14:05 ===", 0),
        ("2014-06-02 12:14:05.123456+00:00 [warning] <0.381.0> ", 123),
        ("Jun  2 12:14:05 host qpidd[12]: ", 0),
        ("<30>Jun  2 12:14:05 host qpidd[12]: ", 0),
        ("Jun  2 23:00:00 host qpidd[12]: 2014-06-02 12:14:05 [Broker] ", 0),
        ("1401711245123 INFO ", 123),
        ("1401711245 INFO ", 0),
        ("1401711245.5 INFO ", 500),
    ],
)
def test_common_timestamp_is_parsed(head: str, ms: int) -> None:
    assert read(head) == AT + ms


@pytest.mark.parametrize(
    "head", ["", "12:14:05.123 [main] INFO", "2014-13-02 12:14:05 ", "Feb 30 12:14:05 host", "INFO"]
)
def test_line_without_a_timestamp_has_none(head: str) -> None:
    assert read(head) is None


def test_time_without_a_zone_is_local() -> None:
    assert read("2014-06-02 14:14:05 x", "Europe/Paris") == AT
    assert read("2014-06-02 12:14:05Z x", "Europe/Paris") == AT


def test_repeated_hour_in_autumn_is_resolved_by_the_order_of_lines() -> None:
    times = LogTimes(ZoneInfo("Europe/Paris"), WRITTEN)
    heads = ["2013-10-27 01:59:59 ", "2013-10-27 02:00:10 ", "2013-10-27 02:59:59 ", "2013-10-27 02:00:10 "]
    heads += ["2013-10-27 02:59:59 ", "2013-10-27 03:00:00 "]
    read = [times.read(head) for head in heads]
    assert None not in read
    assert read == sorted(read)  # type: ignore[type-var]
    assert read[-1] - read[0] == 7_201_000  # type: ignore[operator]


@pytest.mark.parametrize("offset", range(1, 7))
def test_step_back_in_the_repeated_hour_is_a_step_of_the_clock_unless_it_is_small(offset: int) -> None:
    times = LogTimes(ZoneInfo("Europe/Paris"), WRITTEN)
    first = times.read("2013-10-27 02:30:10 ")
    second = times.read(f"2013-10-27 02:30:{10 - offset:02} ")
    assert first is not None
    assert second == first - offset * 1000 + (3_600_000 if offset > 5 else 0)


def test_abbreviated_zone_says_which_one_a_repeated_time_is() -> None:
    times = LogTimes(ZoneInfo("Europe/Paris"), WRITTEN)
    read = [times.read(f"Sun Oct 27 02:30:00 {zone} 2013 x") for zone in ("CET", "CEST", "CET")]
    assert None not in read
    assert read[0] == read[2] == read[1] + 3_600_000  # type: ignore[operator]


@pytest.mark.parametrize(
    ("head", "year"), [("Jun  3 23:00:00 h", 2014), ("Jun  5 00:00:00 h", 2013), ("Feb 29 00:00:00 h", 2012)]
)
def test_missing_year_is_the_last_in_which_the_time_is_before_that_of_the_file(head: str, year: int) -> None:
    at = read(head)
    assert at is not None
    assert datetime.fromtimestamp(at / 1000, UTC).year == year
