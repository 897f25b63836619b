"""Room on the disk that is held back for bad times: a file of blocks that are given up when the disk is full.

A database must write in order to remove. With a reserve, what consumers have done with can be removed even when
nothing else fits on the disk any more.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


class DiskReserve:
    """`size` bytes in a file at `path`; none is held yet."""

    def __init__(self, path: Path, size: int) -> None:
        self.path = path
        self.size = size
        self.held = False

    def hold(self) -> bool:
        """Take the room, unless it is held; False if the disk has not got it."""
        if self.held:
            return True
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                os.posix_fallocate(descriptor, 0, self.size)
            finally:
                os.close(descriptor)
        except OSError:
            self.release()
            return False
        self.held = True
        return True

    def release(self) -> None:
        """Give the room up. It is there at once."""
        self.held = False
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)
