"""Identity of processes that own leases: unique across hosts and restarts; and whether a process has ended."""

from __future__ import annotations

import functools
import os
import socket

import psutil


def this_process() -> str:
    """Return the identity of this process: host, process ID and start time, since process IDs are reused."""
    return _identity(os.getpid())


@functools.lru_cache(maxsize=1)
def _identity(number: int) -> str:
    """A process needs it often, and reading the time of the boot takes the kernel long. A forked child has another
    number."""
    return f"{socket.gethostname()}:{number}:{start_time(psutil.Process(number))}"


def start_time(process: psutil.Process) -> int:
    """Return the start of the process in hundredths of a second after boot. The time of day would change with the
    clock, and a live owner would appear dead."""
    return int((process.create_time() - psutil.boot_time()) * 100 + 0.5)


def host_of(holder: str) -> str:
    """Return the host of a process identity."""
    return holder.partition(":")[0]


def is_dead(holder: str) -> bool:
    """Return whether the process is known to have ended; always False for processes of other hosts."""
    if holder == this_process():
        return False
    host, _, rest = holder.partition(":")
    number, _, since = rest.partition(":")
    if host != socket.gethostname() or not number.isdecimal() or not since.isdecimal():
        return False
    try:
        process = psutil.Process(int(number))
        # A zombie has ended; only its parent has not noticed.
        return start_time(process) != int(since) or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
    except psutil.Error:
        return False
