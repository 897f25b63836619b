"""The broker log: a file of limited size, the older ones beside it.

`RotatingFileHandler` looks at the file's type and formats a line a second time for its length, before each line: two
thirds of the time of a line, and with many events a sixth of the broker's. This one knows how much it has written, and
formats the seconds of a time once.
"""

from __future__ import annotations

import io
import logging
import os
import stat
import time
from logging.handlers import RotatingFileHandler
from pathlib import Path

_LINE = "%(asctime)s %(levelname)-5s %(message)s"

#: Of the broker: size of a file, and how many earlier ones stay.
LOG_BYTES, LOG_FILES = 10 << 20, 5


class LogFile(RotatingFileHandler):
    """Appends lines to `path`, which is renamed to `path`.1 before a line would take it above `most` bytes. There are
    at most `older` such files. One of another type, such as /dev/stdout, is never renamed."""

    def __init__(self, path: Path, most: int, older: int) -> None:
        self._size: int | None = None  # bytes; None: not a regular file
        super().__init__(path, maxBytes=most, backupCount=older, encoding="utf-8")
        self.setFormatter(_Lines(_LINE))

    def _open(self) -> io.TextIOWrapper:
        stream = super()._open()
        self._size = _size_of(stream)
        return stream

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record) + self.terminator
            size = len(line) if line.isascii() else len(line.encode(errors="replace"))
            if self.stream is None:  # it could not be opened after a rename
                self.stream = self._open()
            if self._size and self._size + size > self.maxBytes:
                self._size = _size_of(self.stream)  # it may have been truncated
                if self._size and self._size + size > self.maxBytes:
                    self.doRollover()
            self.stream.write(line)
            self.stream.flush()
            if self._size is not None:
                self._size += size
        except Exception:
            self.handleError(record)


def _size_of(stream: io.TextIOWrapper) -> int | None:
    """Return the size of its file, bytes; None if it is not a regular one."""
    found = os.fstat(stream.fileno())
    return found.st_size if stat.S_ISREG(found.st_mode) else None


class _Lines(logging.Formatter):
    """Formats times as its base class, the seconds once."""

    _second = -1
    _text = ""

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:
        second = int(record.created)
        if second != self._second:
            self._text = time.strftime(self.default_time_format, self.converter(second))
            self._second = second
        return f"{self._text},{int(record.msecs):03d}"
