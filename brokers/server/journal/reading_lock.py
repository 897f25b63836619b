"""The lock with which a backup reads the journal of a running broker: while it has it, no segment is freed.

It is the advisory lock of the folder itself, shared by its readers, so no file has to be created for it, and it ends
with the process that has it. The writer tries to take it for the moments in which it frees segments, and never waits.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from brokers.server.sqlite_file import StoreError

#: How long a reader waits for a writer that is just freeing segments, s.
WAIT_SECONDS = 20.0


class FreeingLock:
    """The writer's side. `folder`: of the journal; None: no backup reads it."""

    def __init__(self, folder: Path | None) -> None:
        self._descriptor = -1
        if folder is not None:
            try:
                self._descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            except OSError as error:
                raise StoreError(f"cannot open {folder}: {error.strerror or error}") from error

    @contextmanager
    def taken(self) -> Iterator[bool]:
        """Take the lock if no reader has it; yield whether it could be taken."""
        if self._descriptor < 0:
            yield True
            return
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        except OSError:  # a file system without such locks: a backup notices what was freed
            yield True
            return
        try:
            yield True
        finally:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


@contextmanager
def no_segment_freed(folder: Path) -> Iterator[None]:
    """The reader's side: have the lock for the block. Raises StoreError."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise StoreError(f"cannot read {folder}: {error.strerror or error}") from error
    try:
        end = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise StoreError(f"cannot read {folder}: another process has locked it") from None
                time.sleep(0.01)
            except OSError:
                break  # a file system without such locks
        yield
    finally:
        os.close(descriptor)
