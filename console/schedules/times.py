"""When a schedule is due: pure, from its fields and a moment.

Times are by the clock on the wall of a zone. In spring, what would be in the hour that is left out is due at the moment
at which the clocks go on; in autumn, what is in the hour that comes twice is due the first time, and only then. A
window's length is by that clock, too: from 22:00 for 8 hours is until 6:00, also in the nights that have 7 or 9.

Which days: as in cron. A day of the month and a day of the week that are both set (neither begins with `*`) are two
ways to be due: `13` and `fri` is each 13th and each Friday.

Why not a library for the times: Celery's own crontab works with the differences of moments, and does what falls into
such hours twice or not at all. cronsim 2.8 and croniter 7.0 follow Debian's cron, which does `*/30` in both of autumn's
hours, and cronsim takes neither `22-4` nor `fri-mon` nor `monday`, croniter not the last, which schedules have had
since there are any. So Celery's reader of fields is used, and the walk through days and changes of the clock is here.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from zoneinfo import ZoneInfo, available_timezones

from celery.schedules import ParseException, crontab

#: Days looked ahead for the next time: 29 February may be eight years away.
_HORIZON = 8 * 366 + 1
#: Of moments that a schedule may name.
YEARS = range(1970, 2110)


@dataclass(frozen=True, slots=True)
class Rule:
    """Wall-clock times; `once` for a single one. Sets of numbers; weekdays from 0, Sunday."""

    zone: ZoneInfo
    once: dt.datetime | None = None
    minutes: frozenset[int] = frozenset({0})
    hours: frozenset[int] = frozenset(range(24))
    days: frozenset[int] = frozenset(range(1, 32))
    months: frozenset[int] = frozenset(range(1, 13))
    weekdays: frozenset[int] = frozenset(range(7))
    #: A day of the month or of the week is enough, as in cron if both are set; else both have to match.
    either: bool = False

    def has(self, date: dt.date) -> bool:
        """Whether it is due on that day, by the zone's calendar."""
        day, weekday = date.day in self.days, date.isoweekday() % 7 in self.weekdays
        return date.month in self.months and ((day or weekday) if self.either else (day and weekday))


def zone_of(name: str) -> ZoneInfo:
    """Raises ValueError with a sentence."""
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
    """`once`: as 2027-03-28T02:30. Raises ValueError with a sentence."""
    where = zone_of(zone)
    if once:
        try:
            moment = dt.datetime.strptime(once, "%Y-%m-%dT%H:%M")  # noqa: DTZ007 - by the clock on the wall
        except ValueError:
            raise ValueError(f"{once!r} is not a moment: write it as 2027-03-28T02:30") from None
        if moment.year not in YEARS:  # the last of 9999 has no date in a zone west of Greenwich
            raise ValueError(f"{once!r} is not a moment from {YEARS.start} to {YEARS.stop - 1}")
        return Rule(where, moment)
    try:
        read = crontab(minute=minute, hour=hour, day_of_week=weekdays, day_of_month=days, month_of_year=months)
    except (ParseException, ValueError, TypeError) as error:
        given = " ".join((minute, hour, days, months, weekdays))
        raise ValueError(f"{given!r} is not a rule as of cron: {error}") from None
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
    """The first time after that moment, UTC; None if there is none."""
    if rule.once is not None:
        due = at(rule.once, rule.zone)
        return due if due > after else None
    day = after.astimezone(rule.zone).date()
    for offset in range(-1, _HORIZON):
        date = day + dt.timedelta(days=offset)
        if not rule.has(date):
            continue
        walls = (
            dt.datetime.combine(date, dt.time(hour, minute))
            for hour in sorted(rule.hours)
            for minute in sorted(rule.minutes)
        )
        # Times that were left out are due together, at one moment.
        for due in sorted({at(wall, rule.zone) for wall in walls}):
            if due > after:
                return due
    return None


def upcoming(rule: Rule, after: dt.datetime, count: int) -> list[dt.datetime]:
    """The next `count` times."""
    found: list[dt.datetime] = []
    while len(found) < count and (due := next_due(rule, found[-1] if found else after)) is not None:
        found.append(due)
    return found


def end_of(due: dt.datetime, minutes: int, zone: ZoneInfo) -> dt.datetime:
    """When a window ends that began then and lasts so long by the clock on the wall."""
    wall = due.astimezone(zone).replace(tzinfo=None) + dt.timedelta(minutes=minutes)
    return max(at(wall, zone), due + dt.timedelta(minutes=1))


def at(wall: dt.datetime, zone: ZoneInfo) -> dt.datetime:
    """The moment, UTC, at which the clock shows that: the first of two; if none, when the clocks go on."""
    moment = wall.replace(tzinfo=zone, fold=0).astimezone(dt.UTC)
    if moment.astimezone(zone).replace(tzinfo=None) == wall:
        return moment
    # Left out: the offset before the change gives a moment after it, the one after gives one before it.
    late, early = moment, wall.replace(tzinfo=zone, fold=1).astimezone(dt.UTC)
    offset = late.astimezone(zone).utcoffset()
    while late - early > dt.timedelta(seconds=1):
        middle = early + (late - early) / 2
        if middle.astimezone(zone).utcoffset() == offset:
            late = middle
        else:
            early = middle
    return late.replace(microsecond=0)
