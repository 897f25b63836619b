"""The end of a process of the adapters that hangs with the lock of its data folder: the one that stands by kills it.

Files have no writer that another process could revoke, and a process that hangs keeps their locks. On one host SIGKILL
is the certain way: what cannot run again can neither write an event nor change a broker. It hangs if it has not
extended its leases until they expired, and another LEASE_SECONDS / 2 were observed without an extension.
"""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path

import psutil

from console.brokers.hosting import LEASE_SECONDS, PREFIX
from console.leases import lease
from console.leases.process import host_of, is_dead, this_process

log = logging.getLogger(__name__)


def write_owner(folder: Path) -> None:
    """Write down that this process has locked the folder."""
    new = folder / ".owner"
    new.write_text(f"{this_process()}\n")
    new.replace(folder / "owner")


def end_hung_owner(folder: Path) -> bool:
    """Kill the process that has locked the folder if it hangs; return whether that was done. Call it every second.
    Raises DatabaseError."""
    try:
        owner = (folder / "owner").read_text().strip()
    except OSError:
        return False
    if owner == this_process() or host_of(owner) != host_of(this_process()) or is_dead(owner):
        return False
    if not lease.abandoned(PREFIX, owner, LEASE_SECONDS / 2):
        return False
    log.warning("%s has locked %s and does not respond: it is killed", owner, folder)
    with contextlib.suppress(psutil.Error, ValueError):
        psutil.Process(int(owner.split(":")[1])).kill()
        return True
    return False
