"""A reserve of disk space: a file of allocated blocks that is deleted when the disk is full.

A database must write in order to delete. With a reserve, messages that consumers acknowledged can be deleted even on a
full disk.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


class DiskReserve:
    """`size` bytes in a file at `path`, not allocated yet. `allocated`: whether they are."""

    def __init__(self, path: Path, size: int) -> None:
        self.path = path
        self.size = size
        self.allocated = False

    def allocate(self) -> bool:
        """Allocate the space, unless it is allocated; return False if the disk is full."""
        if self.allocated:
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
        self.allocated = True
        return True

    def release(self) -> None:
        """Delete the file. Its space is available at once."""
        self.allocated = False
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)
