"""Times of schedules: local times, also when daylight saving time begins and ends."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import pytest

from console.schedules.times import end_of, next_due, rule_of, upcoming

PARIS = ZoneInfo("Europe/Paris")


def utc(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC)


def due(after: str, count: int = 1, zone: str = "Europe/Paris", **fields: str) -> list[str]:
    found = upcoming(rule_of(zone, **fields), utc(after), count)
    return [moment.strftime("%Y-%m-%dT%H:%M") for moment in found]


def test_daily_time_is_local_time_in_winter_and_summer() -> None:
    assert due("2027-01-10T00:00", hour="22") == ["2027-01-10T21:00"]
    assert due("2027-07-10T00:00", hour="22") == ["2027-07-10T20:00"]


def test_time_in_a_skipped_hour_runs_at_the_change() -> None:
    # On 28 March 2027 the clock in Paris goes from 2:00 to 3:00, at 1:00 UTC.
    assert due("2027-03-27T12:00", 3, hour="2", minute="30") == [
        "2027-03-28T01:00",
        "2027-03-29T00:30",
        "2027-03-30T00:30",
    ]


def test_time_in_a_repeated_hour_runs_once() -> None:
    # On 31 October 2027 the clock goes from 3:00 back to 2:00, at 1:00 UTC.
    assert due("2027-10-30T12:00", 2, hour="2", minute="30") == ["2027-10-31T00:30", "2027-11-01T01:30"]


def test_two_times_in_a_skipped_hour_run_once() -> None:
    assert due("2027-03-27T12:00", 2, hour="2", minute="10,50") == ["2027-03-28T01:00", "2027-03-29T00:10"]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"hour": "8", "weekdays": "mon-fri"}, ["2027-01-01T08:00", "2027-01-04T08:00"]),
        ({"hour": "8", "weekdays": "0"}, ["2027-01-03T08:00", "2027-01-10T08:00"]),
        ({"hour": "*/6"}, ["2027-01-01T06:00", "2027-01-01T12:00"]),
        ({"hour": "0", "days": "1"}, ["2027-02-01T00:00", "2027-03-01T00:00"]),
        ({"hour": "0", "days": "29", "months": "2"}, ["2028-02-29T00:00", "2032-02-29T00:00"]),
        ({"once": "2027-05-01T12:00"}, ["2027-05-01T12:00"]),
        ({"once": "2026-05-01T12:00"}, []),
    ],
    ids=str,
)
def test_cron_fields_and_single_times(fields: dict[str, str], expected: list[str]) -> None:
    assert due("2027-01-01T00:00", 2, zone="UTC", **fields) == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        # 2027 begins on a Friday.
        ({"days": "13", "weekdays": "fri"}, ["01", "08", "13", "15", "22", "29"]),
        ({"days": "1,15", "weekdays": "mon-tue"}, ["01", "04", "05", "11", "12", "15", "18", "19", "25", "26"]),
        ({"days": "13", "weekdays": "*"}, ["13"]),
        ({"days": "*", "weekdays": "wed"}, ["06", "13", "20", "27"]),
        # What begins with * restricts, as in cron: both have to match.
        ({"days": "*/2", "weekdays": "fri"}, ["01", "15", "29"]),
        ({"days": "8-14", "weekdays": "*/6"}, ["09", "10"]),
    ],
    ids=str,
)
def test_days_or_weekdays_match_if_both_are_set(fields: dict[str, str], expected: list[str]) -> None:
    found = due("2026-12-31T23:59", 12, zone="UTC", hour="0", **fields)
    assert [moment[8:10] for moment in found if moment.startswith("2027-01")] == expected


def test_days_and_weekdays_are_local_across_a_change() -> None:
    # Sunday, 28 March 2027: 2:30 is skipped in Paris. The 30th is a Tuesday.
    assert due("2027-03-27T12:00", 3, hour="2", minute="30", days="30", weekdays="sun") == [
        "2027-03-28T01:00",
        "2027-03-30T00:30",
        "2027-04-04T00:30",
    ]


def test_next_time_is_after_the_given_time() -> None:
    rule = rule_of("UTC", hour="8")
    assert next_due(rule, utc("2027-01-01T08:00")) == utc("2027-01-02T08:00")


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        ("2027-01-10T21:00", "2027-01-11T05:00"),
        ("2027-03-27T21:00", "2027-03-28T04:00"),  # a night of seven hours
        ("2027-10-30T20:00", "2027-10-31T05:00"),  # of nine
    ],
)
def test_length_of_a_window_is_local_time(begin: str, end: str) -> None:
    assert end_of(utc(begin), 8 * 60, PARIS) == utc(end)


def test_short_window_across_a_change_ends_after_its_start() -> None:
    assert end_of(utc("2027-10-31T01:50"), 5, PARIS) > utc("2027-10-31T01:50")


@pytest.mark.parametrize(
    "fields",
    [
        {"zone": "Mars/Olympus"},
        {"zone": "UTC", "once": "tomorrow"},
        {"zone": "UTC", "hour": "25"},
        {"zone": "UTC", "minute": "x"},
    ],
    ids=str,
)
def test_invalid_field_is_quoted_in_the_error(fields: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"Mars/Olympus|tomorrow|25|x"):
        rule_of(**fields)


@pytest.mark.parametrize("once", ["9999-12-31T23:59", "0001-01-01T00:00", "1969-12-31T23:59", "2110-01-01T00:00"])
@pytest.mark.parametrize("zone", ["Pacific/Honolulu", "Pacific/Kiritimati", "UTC"])
def test_time_outside_the_supported_years_is_refused(once: str, zone: str) -> None:
    with pytest.raises(ValueError, match="is not a time from 1970 to 2109"):
        rule_of(zone, once=once)
