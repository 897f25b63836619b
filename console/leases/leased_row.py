"""A row that one process at a time has: a delivery, a run of a schedule, a bulk edit, the pipeline, beat.

`lease_until` is the end of the lease by the clock on the wall; `lease_holder` names the process and the end by the
steady clock of its host (its uptime). Among processes of one host the steady clock decides, so that a clock that is set
neither ends a lease that is valid nor prolongs one, and a process that has ended has none. Between hosts there is only
the clock on the wall; a lease that ends later there than any process could have asked for is not valid.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

from django.db import models
from django.utils import timezone

from brokers.steady_clock import uptime
from console.leases.process import host_of, is_dead, me

#: No lease is longer.
LONGEST = dt.timedelta(seconds=150)


def signed(length: dt.timedelta, now: dt.datetime | None = None) -> dict[str, Any]:
    """The columns of a row that this process has from now on."""
    end = uptime() + int(length.total_seconds() * 1000)
    return {"lease_until": (now or timezone.now()) + length, "lease_holder": f"{me()}:{end}"}


class LeasedRows(models.QuerySet[Any]):
    def claim(self, length: dt.timedelta, now: dt.datetime, **values: Any) -> bool:
        """Take the one row that this finds for `length`, and set `values`; False if it is not there or another process
        has it."""
        row = self.first()
        if row is None or not row.is_free(now):
            return False
        # Of those who saw the same row one is first.
        same = self.filter(lease_until=row.lease_until, lease_holder=row.lease_holder)
        return bool(same.update(**signed(length, now), **values))

    def free(self, now: dt.datetime, *, most: int | None = None) -> list[Any]:
        """The keys of the rows that no process has, `most` of them at most."""
        return [row.pk for row in self.only("pk", "lease_until", "lease_holder") if row.is_free(now)][:most]


class LeasedRow(models.Model):
    lease_until = models.DateTimeField(null=True)
    lease_holder = models.CharField(max_length=250, blank=True, default="")

    objects = LeasedRows.as_manager()

    class Meta:
        abstract = True

    @property
    def holder(self) -> str:
        """The process that has it, or had it last; empty: none."""
        return _process_and_end(self.lease_holder)[0]

    def is_free(self, now: dt.datetime) -> bool:
        """Whether no process has it."""
        if self.lease_until is None:
            return True
        process, end = _process_and_end(self.lease_holder)
        if process and host_of(process) == host_of(me()):
            if is_dead(process):
                return True
            if end is not None:
                return uptime() >= end
        return not now < self.lease_until <= now + 2 * LONGEST

    def release(self) -> None:
        """Give it back; the caller saves the row."""
        self.lease_until, self.lease_holder = None, ""


def _process_and_end(holder: str) -> tuple[str, int | None]:
    """`host:number:began:end`; earlier versions wrote no end, or nothing at all."""
    *process, end = holder.split(":")
    if len(process) == 3 and end.isdecimal():
        return ":".join(process), int(end)
    return holder, None
