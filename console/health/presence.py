"""Background processes that run now, on any host, by the leases that they own while they run."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Iterator
from hashlib import blake2b

from django.utils import timezone

from console.leases.lease import Lost, lease
from console.leases.models import Lease
from console.leases.process import is_dead, this_process

#: Start of the names of a process's leases, by kind of process.
_LEASES = {
    "worker": "worker-process-",
    "beat": "beat",
    "recorder": "recorder-process-",
    "history": "history-process-",
}


@contextlib.contextmanager
def show_worker() -> Iterator[None]:
    """Own, within the block, the lease that shows that this worker runs."""
    prefix = _LEASES["worker"]
    long_ago = timezone.now() - dt.timedelta(days=1)
    for row in Lease.objects.filter(name__startswith=prefix):
        if is_dead(row.holder) or row.lease_until is None or row.lease_until < long_ago:
            row.delete()
    name = prefix + blake2b(this_process().encode(), digest_size=8).hexdigest()
    # Lost: the lease is a sign of life, and guards nothing.
    with contextlib.suppress(Lost), lease(name):
        yield


def running_processes() -> dict[str, bool]:
    """Return whether at least one process of each kind runs."""
    now = timezone.now()
    owned = [row.name for row in Lease.objects.all() if not row.is_free(now)]
    return {kind: any(name.startswith(prefix) for name in owned) for kind, prefix in _LEASES.items()}
