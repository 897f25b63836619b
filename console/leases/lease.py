"""A lease in the console's database: mutual exclusion of processes, also on several hosts.

The owner renews the lease every few seconds. Processes of the same host detect a killed owner at once; other hosts when
the lease has expired by the wall clock and no renewal has been observed for some time by the observer's monotonic
clock. So setting a clock by an hour neither ends the lease of a live owner nor extends that of a dead one.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import threading
import time
from collections.abc import Collection, Iterator

from django.db import DatabaseError, IntegrityError, close_old_connections, connection, transaction
from django.utils import timezone

from console.leases.leased_row import LeasedRows, signed
from console.leases.models import Lease
from console.leases.process import is_dead, this_process

#: Seconds after which a lease expires without renewal.
SECONDS = 60.0

#: The monotonic clock, seconds.
steady = time.monotonic
#: Leases of other processes: the last renewal, and when this process first observed it (monotonic seconds).
_signs: dict[str, tuple[tuple[str, dt.datetime | None] | None, float]] = {}


class Busy(Exception):
    """Another process owns the lease. `holder`: that process; `ran_out`: the lease has expired, and a later attempt
    will acquire it unless the owner renews it."""

    def __init__(self, holder: str, *, ran_out: bool = False) -> None:
        super().__init__(f"{holder} owns the lease")
        self.holder = holder
        self.ran_out = ran_out


class Lost(Exception):
    """The lease expired before the block ended: another process may own it."""


@contextlib.contextmanager
def lease(name: str, *, seconds: float = SECONDS) -> Iterator[threading.Event]:
    """Own the lease within the block. Yields an event that is set if the lease expires. Raises Busy at the start, Lost
    at the end."""
    take(name, seconds)
    ended = threading.Event()
    lost = threading.Event()

    def renew() -> None:
        renewed = time.monotonic()
        try:
            while not ended.wait(seconds / 4):
                close_old_connections()
                now = time.monotonic()
                try:
                    owned = extend([name], seconds)
                except DatabaseError:
                    # The database may recover before the lease expires; after that, others may own it.
                    owned = time.monotonic() - renewed < seconds
                    connection.close()
                else:
                    renewed = now
                if not owned:
                    lost.set()
                    return
        finally:
            connection.close()  # of this thread

    renewals = threading.Thread(target=renew, name=f"lease-{name}", daemon=True)
    renewals.start()
    try:
        yield lost
    finally:
        ended.set()
        renewals.join()
        release(name)
    if lost.is_set():
        raise Lost(f"the lease {name!r} of {this_process()} has expired")


def take(name: str, seconds: float, *, silence: float | None = None) -> None:
    """Acquire a lease that the caller extends and releases itself. Of concurrent processes one succeeds: the first to
    insert the row, or the first to claim an existing one. Raises Busy.

    `silence`: seconds without a renewal, observed by this process, after which a lease counts as expired, whatever the
    clocks of the hosts say; at least its length. A process that attempts it every second observes each renewal. None:
    the lease must have expired by the clocks, and half of `seconds` without a renewal have been observed."""
    length = dt.timedelta(seconds=seconds)
    while True:
        # IntegrityError: another process inserted the row and has deleted it since. Try again.
        with contextlib.suppress(IntegrityError), transaction.atomic():
            row, created = Lease.objects.get_or_create(name=name, defaults=signed(length))
            if created:
                return
            now = timezone.now()
            is_silent = _is_silent(name, row, seconds / 2 if silence is None else silence)
            if silence is None and not row.is_free(now):
                raise Busy(row.holder)
            if not is_dead(row.holder) and not is_silent:
                raise Busy(row.holder, ran_out=row.is_free(now))
            # Optimistic: of concurrent processes that read the same row, one updates it.
            same = Lease.objects.filter(name=name, lease_until=row.lease_until, lease_holder=row.lease_holder)
            if same.update(**signed(length, now)):
                return


def _is_silent(name: str, row: Lease, seconds: float) -> bool:
    """Return whether this process has observed no renewal for `seconds`."""
    sign = row.lease_holder, row.lease_until
    last, since = _signs.get(name, (None, 0.0))
    if last != sign:
        since = steady()
        _signs[name] = sign, since
    return steady() - since >= seconds


def abandoned(prefix: str, holder: str, silence: float) -> bool:
    """Return whether a process owns an expired lease of a name with this prefix, and this process has observed no
    renewal for `silence` seconds: call it repeatedly."""
    rows = [row for row in Lease.objects.filter(name__startswith=prefix) if row.holder == holder]
    now = timezone.now()
    silent = [_is_silent(row.name, row, silence) for row in rows]  # each is observed
    return any(is_silent and row.is_free(now) for is_silent, row in zip(silent, rows, strict=True))


def extend(names: Collection[str], seconds: float) -> bool:
    """Extend leases. Return whether this process owns them all."""
    return _own(names).update(**signed(dt.timedelta(seconds=seconds))) == len(names)


def owns(name: str) -> bool:
    """Return whether this process owns the lease; in a transaction, until its end on PostgreSQL."""
    found = _own([name]).select_for_update().first()
    return found is not None and not found.is_free(timezone.now())


def release(name: str) -> None:
    """Release the lease, if this process owns it."""
    _own([name]).delete()


def _own(names: Collection[str]) -> LeasedRows:
    """Return the rows of those leases that this process owns."""
    return Lease.objects.filter(name__in=names, lease_holder__startswith=f"{this_process()}:")
