"""The leases of the pipeline: a run owns its broker's, a maintenance job its own and that of each broker it works on,
and a process that waits for work one that shows that it is alive.

A release before this one had one lease for all of it. A process of that release starts no run any more once the
database is migrated (`models.HistoryRun`), and one that it has started is waited for (`require_no_older_run`).
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import socket
import threading
import time
from collections.abc import Iterator
from hashlib import blake2b

from django.utils import timezone

from console.history.models import Lease
from console.leases.lease import Busy, lease
from console.leases.process import is_dead

#: The lease of older releases.
OLDER = "history"
#: The lease of a process that opens the tables, and converts those of an older release.
UPGRADE = "history-upgrade"
#: Seconds after which the lease of a waiting process expires without renewal.
ALIVE_SECONDS = 120.0

_ALIVE, _SESSION = "history-process-", "history-session-"
_LONGEST_NAME = 40
#: Interval of trying to acquire a lease that the work waits for, s.
_RETRY = 1.0


def broker_lease(broker: str) -> str:
    """Return the name of the lease of a broker's tables."""
    return _name(f"history~{broker}")


def job_lease(work: str) -> str:
    """Return the name of the lease of a maintenance job, or of a run of all brokers (`run`)."""
    return f"history-job-{work}"


def is_working(name: str) -> bool:
    """Return whether a live process owns the lease."""
    row = Lease.objects.filter(name=name).first()
    return row is not None and not row.is_free(timezone.now())


def alive() -> contextlib.AbstractContextManager[threading.Event]:
    """Show, within the block, that this process does work when there is some. Yields an event that is set if others
    may take it for dead. Raises Lost at the end in that case."""
    return _shown(_ALIVE)


def session_up() -> contextlib.AbstractContextManager[threading.Event]:
    """The same for a process with a Spark session."""
    return _shown(_SESSION)


@contextlib.contextmanager
def _shown(prefix: str) -> Iterator[threading.Event]:
    long_ago = timezone.now() - dt.timedelta(days=1)
    for row in Lease.objects.filter(name__startswith=prefix):
        if is_dead(row.holder) or row.lease_until < long_ago:
            row.delete()
    with lease(_name(f"{prefix}{socket.gethostname()}:{os.getpid()}"), seconds=ALIVE_SECONDS) as lost:
        yield lost


def is_process_alive() -> bool:
    """Return whether a `headgate history` process waits for work or does some, on any host."""
    return _is_shown(_ALIVE)


def is_session_up() -> bool:
    """Return whether a process with a Spark session runs, on any host."""
    return _is_shown(_SESSION)


def _is_shown(prefix: str) -> bool:
    now = timezone.now()
    return any(not row.is_free(now) for row in Lease.objects.filter(name__startswith=prefix))


def require_no_older_run() -> None:
    """Raise Busy while a process of an older release runs the pipeline."""
    row = Lease.objects.filter(name=OLDER).first()
    if row is not None and not row.is_free(timezone.now()):
        raise Busy(row.holder)


@contextlib.contextmanager
def waiting_lease(name: str) -> Iterator[None]:
    """Own the lease within the block, after waiting for its owner."""
    with contextlib.ExitStack() as owned:
        while True:
            try:
                owned.enter_context(lease(name))
                break
            except Busy:
                time.sleep(_RETRY)
        yield


def _name(text: str) -> str:
    """Return a lease's name; a long one is replaced by its start and a hash."""
    if len(text) <= _LONGEST_NAME:
        return text
    return f"{text[:23]}-{blake2b(text.encode(), digest_size=8).hexdigest()}"
