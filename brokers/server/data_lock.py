"""The lock of a broker's data folder: one process at a time, so that repairs and writes of its files cannot overlap."""

from __future__ import annotations

import fcntl
import time
from pathlib import Path
from typing import TextIO

from brokers.server.sqlite_file import StoreError


class FolderInUse(StoreError):
    """Another process has locked the folder."""


#: Time to wait for an earlier process that is just ending, s.
WAIT_SECONDS = 2.0


def claim(data: Path, wait: float = WAIT_SECONDS) -> TextIO:
    """Lock the folder until the returned file is closed, or the process ends. Raises FolderInUse if another process has
    locked it after `wait` seconds, StoreError if it cannot be written."""
    try:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = (data / "broker.lock").open("a", encoding="utf-8")
    except OSError as error:
        raise StoreError(f"cannot write to the data folder {data}: {error.strerror or error}") from error
    end = time.monotonic() + wait
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lock
        except OSError:
            if time.monotonic() > end:
                lock.close()
                raise FolderInUse(f"{data} is in use by another broker process") from None
            time.sleep(0.05)
