"""Processes as holders of leases: what names one for all times and hosts, and whether it has ended."""

from __future__ import annotations

import os
import socket

import psutil


def me() -> str:
    """This process, as a holder: host, process and when it began, since numbers of processes come again."""
    return f"{socket.gethostname()}:{os.getpid()}:{began(psutil.Process())}"


def began(process: psutil.Process) -> int:
    """When, in hundredths of a second after the machine started: the time of day would be another after its clock has
    been set, and a living holder would be taken for dead."""
    return int((process.create_time() - psutil.boot_time()) * 100 + 0.5)


def host_of(holder: str) -> str:
    return holder.partition(":")[0]


def is_dead(holder: str) -> bool:
    """Whether it is known to be: only of this host's processes."""
    host, _, rest = holder.partition(":")
    number, _, since = rest.partition(":")
    if host != socket.gethostname() or not number.isdecimal() or not since.isdecimal():
        return False
    try:
        return began(psutil.Process(int(number))) != int(since)
    except psutil.NoSuchProcess:
        return True
    except psutil.Error:
        return False
