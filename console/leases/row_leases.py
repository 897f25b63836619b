"""Whose turn a row of work is: a lease in the row itself, for deliveries, runs of schedules and bulk edits.

`lease_until` is the end by the clock on the wall, `lease_holder` the process that has it and the end by the steady
clock of its host (its uptime). Among processes of one host the steady clock decides, so that a clock that is set
neither ends a lease that holds nor prolongs one, and a process that has ended holds none. Between hosts there is only
the wall's; a lease that ends later there than anybody could have asked for holds no longer.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone

from brokers.steady_clock import uptime
from console.leases.lease import host_of, is_dead, me

#: As long as any lease holds.
LONGEST = dt.timedelta(seconds=150)


def signed(length: dt.timedelta, now: dt.datetime | None = None) -> dict[str, Any]:
    """What a row says that this process has from now on."""
    end = uptime() + int(length.total_seconds() * 1000)
    return {"lease_until": (now or timezone.now()) + length, "lease_holder": f"{me()}:{end}"}


def is_free(until: dt.datetime | None, holder: str, now: dt.datetime) -> bool:
    """Whether nobody has a lease on the row that says so."""
    if until is None:
        return True
    process, _, end = holder.rpartition(":")
    if process and end.isdecimal() and host_of(process) == host_of(me()):
        return is_dead(process) or uptime() >= int(end)
    return not now < until <= now + 2 * LONGEST


def free_rows(rows: QuerySet[Any], now: dt.datetime, *, most: int | None = None) -> list[int]:
    """The numbers of those rows that nobody has a lease on, at `most` so many."""
    found = rows.values_list("pk", "lease_until", "lease_holder")
    return [number for number, until, holder in found if is_free(until, holder, now)][:most]


def take(rows: QuerySet[Any], length: dt.timedelta, now: dt.datetime, **values: Any) -> bool:
    """Have the one row that `rows` find, and set `values`; False if it is not there or somebody else has it."""
    row = rows.values_list("lease_until", "lease_holder").first()
    if row is None:
        return False
    until, holder = row
    if not is_free(until, holder, now):
        return False
    # Of those who saw the same row one is first.
    same = rows.filter(lease_until=until, lease_holder=holder)
    return bool(same.update(**signed(length, now), **values))
