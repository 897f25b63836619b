"""Times of a schedule: pure functions of its fields and a time.

Times are local times in a time zone. When daylight saving time begins, a time in the skipped hour runs at the change;
when it ends, a time in the repeated hour runs only the first time. A window's length is local time, too: 8 hours from
22:00 end at 6:00, also in the nights that have 7 or 9 hours.

Days are as in cron: if day of month and day of week are both set (neither begins with `*`), either matches: `13` and
`fri` is each 13th and each Friday.

Why no library computes the times: Celery's crontab adds durations, and runs times in such hours twice or not at all.
cronsim 2.8 and croniter 7.0 follow Debian's cron, which runs `*/30` in both of the repeated hours; and existing
schedules have fields such as `22-4`, `fri-mon` and `monday`, which cronsim does not parse, and croniter not the last.
So Celery parses the fields, and this module computes the times.
"""

from __future__ import annotations

import datetime as dt
from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

from celery.schedules import ParseException, crontab

#: Days to search for the next time: 29 February may be eight years away.
_HORIZON = 8 * 366 + 1
#: Years of single times.
YEARS = range(1970, 2110)


@dataclass(frozen=True, slots=True)
class Rule:
    """Recurrence rule in local time; `once` for a single time. Sets of numbers; weekdays from 0, Sunday."""

    zone: ZoneInfo
    once: dt.datetime | None = None
    minutes: frozenset[int] = frozenset({0})
    hours: frozenset[int] = frozenset(range(24))
    days: frozenset[int] = frozenset(range(1, 32))
    months: frozenset[int] = frozenset(range(1, 13))
    weekdays: frozenset[int] = frozenset(range(7))
    #: Whether day of month or day of week suffices, as in cron if both are set; else both must match.
    either: bool = False

    def has(self, date: dt.date) -> bool:
        """Return whether the rule matches a local date."""
        day, weekday = date.day in self.days, date.isoweekday() % 7 in self.weekdays
        return date.month in self.months and ((day or weekday) if self.either else (day and weekday))


def zone_of(name: str) -> ZoneInfo:
    """Return the time zone of a name such as Europe/Paris. Raises ValueError with a sentence."""
    if name not in available_timezones():
        raise ValueError(f"{name!r} is not a time zone: write it as Europe/Paris or UTC")
    return ZoneInfo(name)


def rule_of(
    zone: str,
    *,
    once: str = "",
    minute: str = "0",
    hour: str = "*",
    days: str = "*",
    months: str = "*",
    weekdays: str = "*",
) -> Rule:
    """Parse cron fields, or `once`, such as 2027-03-28T02:30. Raises ValueError with a sentence."""
    where = zone_of(zone)
    if once:
        try:
            moment = dt.datetime.strptime(once, "%Y-%m-%dT%H:%M")  # noqa: DTZ007 - local time
        except ValueError:
            raise ValueError(f"{once!r} is not a time: write it as 2027-03-28T02:30") from None
        if moment.year not in YEARS:  # 9999-12-31 overflows in a zone west of Greenwich
            raise ValueError(f"{once!r} is not a time from {YEARS.start} to {YEARS.stop - 1}")
        return Rule(where, moment)
    try:
        read = crontab(minute=minute, hour=hour, day_of_week=weekdays, day_of_month=days, month_of_year=months)
    except (ParseException, ValueError, TypeError) as error:
        given = " ".join((minute, hour, days, months, weekdays))
        raise ValueError(f"{given!r} is not a cron expression: {error}") from None
    return Rule(
        where,
        None,
        frozenset(read.minute),
        frozenset(read.hour),
        frozenset(read.day_of_month),
        frozenset(read.month_of_year),
        frozenset(read.day_of_week),
        either=not days.startswith("*") and not weekdays.startswith("*"),
    )


def next_due(rule: Rule, after: dt.datetime) -> dt.datetime | None:
    """Return the first time after `after`, UTC; None if there is none."""
    if rule.once is not None:
        due = at(rule.once, rule.zone)
        return due if due > after else None
    day = after.astimezone(rule.zone).date()
    for offset in range(-1, _HORIZON):
        date = day + dt.timedelta(days=offset)
        if not rule.has(date):
            continue
        dues = _dues(rule, date)
        if dues and dues[-1] > after:
            return dues[bisect_right(dues, after)]
    return None


@lru_cache(128)  # a search of many times, such as those of a week without a worker, goes on from the last one
def _dues(rule: Rule, date: dt.date) -> list[dt.datetime]:
    """Return the times of a local date on which the rule matches, UTC, ascending."""
    walls = (dt.datetime.combine(date, dt.time(hour, minute)) for hour in rule.hours for minute in rule.minutes)
    return sorted({at(wall, rule.zone) for wall in walls})  # times in a skipped hour coincide


def upcoming(rule: Rule, after: dt.datetime, count: int) -> list[dt.datetime]:
    """Return the next `count` times, UTC."""
    found: list[dt.datetime] = []
    while len(found) < count and (due := next_due(rule, found[-1] if found else after)) is not None:
        found.append(due)
    return found


def end_of(due: dt.datetime, minutes: int, zone: ZoneInfo) -> dt.datetime:
    """Return the end, UTC, of a window that starts at `due` and lasts for `minutes` of local time."""
    wall = due.astimezone(zone).replace(tzinfo=None) + dt.timedelta(minutes=minutes)
    return max(at(wall, zone), due + dt.timedelta(minutes=1))


def at(wall: dt.datetime, zone: ZoneInfo) -> dt.datetime:
    """Return the UTC time of a local time: the first of two; in a skipped hour, the time of the change."""
    moment = wall.replace(tzinfo=zone, fold=0).astimezone(dt.UTC)
    if moment.astimezone(zone).replace(tzinfo=None) == wall:
        return moment
    # Skipped: the offset before the change yields a time after it, and the offset after it a time before it.
    late, early = moment, wall.replace(tzinfo=zone, fold=1).astimezone(dt.UTC)
    offset = late.astimezone(zone).utcoffset()
    while late - early > dt.timedelta(seconds=1):
        middle = early + (late - early) / 2
        if middle.astimezone(zone).utcoffset() == offset:
            late = middle
        else:
            early = middle
    return late.replace(microsecond=0)
