"""A row that one process at a time owns: a delivery, a run of a schedule, a bulk edit, the pipeline, beat.

`lease_until` is the end of the lease by the wall clock; `lease_holder` has the process and the end by the monotonic
clock of its host (its uptime). Among processes of one host the monotonic clock decides, so that setting the clock
neither ends nor extends a lease, and an ended process owns none. Between hosts there is only the wall clock; a lease
that ends later than the longest lease is invalid.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

from django.db import models
from django.utils import timezone

from brokers.steady_clock import uptime
from console.leases.process import host_of, is_dead, this_process

#: The longest lease.
LONGEST = dt.timedelta(seconds=150)


def signed(length: dt.timedelta, now: dt.datetime | None = None) -> dict[str, Any]:
    """Return the column values of a row that this process owns from now on."""
    end = uptime() + int(length.total_seconds() * 1000)
    return {"lease_until": (now or timezone.now()) + length, "lease_holder": f"{this_process()}:{end}"}


class LeasedRows(models.QuerySet[Any]):
    def claim(self, length: dt.timedelta, now: dt.datetime, **values: Any) -> bool:
        """Acquire the first row of this query for `length`, and set `values`. Return False if there is no row or
        another process owns it."""
        row = self.first()
        if row is None or not row.is_free(now):
            return False
        # Optimistic: of concurrent processes that read the same row, one updates it.
        same = self.filter(lease_until=row.lease_until, lease_holder=row.lease_holder)
        return bool(same.update(**signed(length, now), **values))

    def free(self, now: dt.datetime, *, most: int | None = None) -> list[Any]:
        """Return the primary keys of rows that no process owns, at most `most`."""
        return [row.pk for row in self.only("pk", "lease_until", "lease_holder") if row.is_free(now)][:most]


class LeasedRow(models.Model):
    lease_until = models.DateTimeField(null=True)
    lease_holder = models.CharField(max_length=250, blank=True, default="")

    objects = LeasedRows.as_manager()

    class Meta:
        abstract = True

    @property
    def holder(self) -> str:
        """The process that owns the row, or owned it last; empty: none."""
        return _process_and_end(self.lease_holder)[0]

    def is_free(self, now: dt.datetime) -> bool:
        """Return whether no process owns the row."""
        if self.lease_until is None:
            return True
        process, end = _process_and_end(self.lease_holder)
        if process and host_of(process) == host_of(this_process()):
            if is_dead(process):
                return True
            if end is not None:
                return uptime() >= end
        return not now < self.lease_until <= now + 2 * LONGEST

    def release(self) -> None:
        """Release the lease. The caller saves the row."""
        self.lease_until, self.lease_holder = None, ""


def _process_and_end(holder: str) -> tuple[str, int | None]:
    """Split `host:pid:start:end` into process and end. Rows of earlier versions have no end, or no holder."""
    *process, end = holder.split(":")
    if len(process) == 3 and end.isdecimal():
        return ":".join(process), int(end)
    return holder, None
