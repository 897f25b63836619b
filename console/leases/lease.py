"""One at a time: a lease in the console's database, so that it holds on several hosts as well.

A holder says every few seconds that it still lives. One that was killed is found out at once by another process of its
own host, and by other hosts when the lease has run out: when its end has passed by their clock, and for some time after
that, by no clock but the steady one of whoever looks, no sign of life has come. So a clock that is set by an hour ends
no lease of a living holder, and prolongs none of a dead one.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import threading
import time
from collections.abc import Iterator

from django.db import DatabaseError, IntegrityError, close_old_connections, connection, transaction
from django.utils import timezone

from console.leases.leased_row import LeasedRows, signed
from console.leases.models import Held
from console.leases.process import is_dead, me

#: How long a lease holds without a sign of life, in seconds.
SECONDS = 60.0

#: Seconds, monotonic.
steady = time.monotonic
#: Leases that seem to have run out: their last sign of life, and when this process saw it first.
_signs: dict[str, tuple[tuple[str, dt.datetime | None] | None, float]] = {}


class Busy(Exception):
    """Another process holds it. `holder` says who, for people; `ran_out`: it gives no sign of life, and if it goes on
    so, one of the next attempts has it."""

    def __init__(self, holder: str, *, ran_out: bool = False) -> None:
        super().__init__(f"{holder} is at it")
        self.holder = holder
        self.ran_out = ran_out


class Lost(Exception):
    """The lease ran out while it was held: another may have begun."""


@contextlib.contextmanager
def lease(name: str, *, seconds: float = SECONDS) -> Iterator[threading.Event]:
    """Hold it within the block; what is yielded is set when it has run out. Raises Busy at the beginning, Lost at the
    end."""
    _take(name, seconds)
    ended = threading.Event()
    lost = threading.Event()

    def live() -> None:
        renewed = time.monotonic()
        try:
            while not ended.wait(seconds / 4):
                close_old_connections()
                now = time.monotonic()
                try:
                    held = _extend(name, seconds)
                except DatabaseError:
                    # It may answer again before the lease is over; after that, others may have it.
                    held = time.monotonic() - renewed < seconds
                    connection.close()
                else:
                    renewed = now
                if not held:
                    lost.set()
                    return
        finally:
            connection.close()  # this thread's

    signs = threading.Thread(target=live, name=f"lease-{name}", daemon=True)
    signs.start()
    try:
        yield lost
    finally:
        ended.set()
        signs.join()
        _own(name).delete()
    if lost.is_set():
        raise Lost(f"the lease {name!r} ran out while {me()} held it")


def _take(name: str, seconds: float) -> None:
    """Of those who come together one gets it: whose row is written first where there is none, whose claim is first
    where there is one. The others then see that row."""
    length = dt.timedelta(seconds=seconds)
    while True:
        # An IntegrityError: the row that was in the way is gone by now.
        with contextlib.suppress(IntegrityError), transaction.atomic():
            held, mine = Held.objects.get_or_create(name=name, defaults=signed(length))
            if mine:
                return
            now = timezone.now()
            if not held.is_free(now):
                raise Busy(held.holder)
            if not is_dead(held.holder) and not _is_silent(name, held, seconds / 2):
                raise Busy(held.holder, ran_out=True)
            if Held.objects.filter(name=name).claim(length, now):
                return


def _is_silent(name: str, held: Held, seconds: float) -> bool:
    """Whether for so long no sign of life has come while this process looked: twice as long as between two of them."""
    sign = held.lease_holder, held.lease_until
    last, since = _signs.get(name, (None, 0.0))
    if last != sign:
        since = steady()
        _signs[name] = sign, since
    return steady() - since >= seconds


def _own(name: str) -> LeasedRows:
    """The row, if this process has it."""
    return Held.objects.filter(name=name, lease_holder__startswith=f"{me()}:")


def _extend(name: str, seconds: float) -> bool:
    return _own(name).update(**signed(dt.timedelta(seconds=seconds))) == 1
