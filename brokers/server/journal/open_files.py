"""The files that are open for reading, of all stores together: if there are many, those are closed that were read the
longest time ago.

A broker has a store per virtual host, and half of its descriptors are for connections. A file is read without the lock,
by the loop and by the writers' threads, and not closed meanwhile.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from threading import Lock

#: Open files, besides those that are just being read.
MOST = 64

_lock = Lock()
_open: dict[FileForReading, None] = {}  # the one that was read last is the last


class FileForReading:
    """A file that is opened when it is read."""

    __slots__ = ("_descriptor", "_is_closing", "_path", "_readers")

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = -1
        self._readers = 0
        self._is_closing = False

    def read(self, at: int, size: int) -> bytes:
        """Return bytes, fewer at the end of the file. Raises OSError; also if there is a page which the disk cannot
        read."""
        with _lock:
            self._take()
        try:
            data = os.pread(self._descriptor, size, at)
            while len(data) < size and (more := os.pread(self._descriptor, size - len(data), at + len(data))):
                data += more  # the system stops before a page that it cannot read, too
            return data
        finally:
            with _lock:
                self._readers -= 1
                if self._is_closing and not self._readers:
                    self._close()

    def close(self) -> None:
        """Close it, at once or when it has been read."""
        with _lock:
            if self._readers:
                self._is_closing = True
            else:
                self._close()

    def _take(self) -> None:
        if self._descriptor < 0:
            self._descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        self._readers += 1
        _open.pop(self, None)
        _open[self] = None
        if len(_open) > MOST:
            for each in [file for file in _open if not file._readers][: len(_open) - MOST]:
                each._close()

    def _close(self) -> None:
        _open.pop(self, None)
        self._is_closing = False
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            with suppress(OSError):
                os.close(descriptor)
