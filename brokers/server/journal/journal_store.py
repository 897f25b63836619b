"""The store of a virtual host's messages, in a journal.

The engine's loop buffers (`group_buffer.py`) and reads (`load`, `recover`); a group is written in another thread. A
body with a wrong checksum is never returned.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic

from brokers.engine.ports import Place
from brokers.server.group_buffer import GroupBuffer
from brokers.server.journal import reading
from brokers.server.journal.journal_writer import JournalWriter
from brokers.server.journal.recovery import Found, begin_writing, recover, segment_paths
from brokers.server.journal.segment_file import Unreadable
from brokers.server.journal.segments import Segments
from brokers.server.journal.stamp_file import Stamp, read_stamp, write_stamp
from brokers.server.message_groups import Entry, Group, Written
from brokers.server.sqlite_file import DiskFull, StoreError, make_folder

#: Of a segment's file. Two more are the reserve.
SEGMENT_BYTES = 16 << 20
#: Size with which a group is complete.
GROUP_BYTES = 8 << 20
#: How long the messages of a queue wait for one that the disk cannot read, s.
UNREADABLE_SECONDS = 60.0


class JournalStore(GroupBuffer):
    """Open or create the journal in the folder `path`; raise StoreError if it cannot be used.

    `durable`: a written group survives a power cut. If not, the folder is emptied first and no write waits for the
    disk. `found`: what `recover` has read of it, which no process has changed since. `used_bytes`: of all messages,
    after the last group. `damaged`: messages whose bodies have a wrong checksum. `findings`: a line for each damage
    that the start has found, besides.
    """

    def __init__(
        self,
        path: Path,
        *,
        durable: bool = True,
        segment_bytes: int = SEGMENT_BYTES,
        group_bytes: int = GROUP_BYTES,
        found: Found | None = None,
    ) -> None:
        self.path = path
        self.damaged: set[Place] = set()
        self._lock = _locked(path)
        segments: Segments | None = None
        try:
            if not durable:
                _empty(path)
            found = found or recover(path)
            begin_writing(found)
            self.findings = found.findings
            self._index = found.index
            found.index.postpones = True
            self._segments = segments = Segments(path, found.index, segment_bytes, durable=durable)
            segments.sequence, segments.serial = found.sequence, found.serial
            segments.take_over(found.free, found.names, found.lost)
            segments.reserve()
        except BaseException:
            if segments is not None:
                segments.close()
            os.close(self._lock)
            raise
        super().__init__(group_bytes, dict(self._index.names))
        self.writer = JournalWriter(self._index, self._segments)
        self.used_bytes = self.writer.used_bytes
        self._discarded = False
        self._is_known = not durable  # the stamp says that there are segments
        self._unreadable: dict[int, float] = {}  # queue -> since when, s of the monotonic clock

    @property
    def pending_bytes(self) -> int:
        """Approximate disk space of messages that are not part of `used_bytes` yet."""
        return self._put_bytes - self.writer.done_bytes

    @property
    def full(self) -> bool:
        """The store has refused messages, and since then neither the disk nor the files have had room for more."""
        return self.writer.full

    def load(self, queue: int, numbers: Sequence[int]) -> dict[int, bytes]:
        """Return the bodies of written messages, by number, without missing and damaged ones, which are added to
        `damaged`. Raises StoreError; also for some time if the disk cannot read one, which may pass. Then it is
        damaged, and delays no others."""
        bodies = self._load(queue, numbers)
        self.damaged.update((queue, number) for number in numbers if number not in bodies)
        return bodies

    def _load(self, queue: int, numbers: Sequence[int]) -> dict[int, bytes]:
        try:
            bodies = reading.load(self._index, queue, numbers, around=False)
        except Unreadable:
            if monotonic() < self._unreadable.setdefault(queue, monotonic()) + UNREADABLE_SECONDS:
                raise
            bodies = reading.load(self._index, queue, numbers, around=True)
        self._unreadable.pop(queue, None)
        return bodies

    def recover(self) -> Iterator[Entry]:
        """(queue, number, size in bytes, failed deliveries, expiry in ms or 0) of every written message, by queue and
        number; bodies are not touched."""
        return reading.entries(self._index)

    def stamp(self) -> Stamp | None:
        """Return the stamp; None if none has been written yet. Raises StoreError."""
        found, _ = read_stamp(self.path)
        if found is None:
            return None
        last = max(found.last_queue, self._index.last_queue)
        return Stamp(found.identity, found.virtualhost, found.generation, last)

    def set_stamp(self, stamp: Stamp) -> None:
        """Write the stamp at once, before anything else. Raises StoreError; without any file, too: a store with a stamp
        that has none has lost them."""
        if not (self._segments.free or self._index.segments):
            raise DiskFull(f"cannot write {self.path}: the disk is full")
        last = max(stamp.last_queue, self._index.last_queue)
        newest = max(self._index.segments, default=0)
        write_stamp(self.path, Stamp(stamp.identity, stamp.virtualhost, stamp.generation, last), newest)

    def write(self, group: Group) -> Written:
        """Write a group and return the result. One at a time, in their order; in any thread."""
        if self._discarded:
            return Written(group.ticket, group.messages, StoreError(f"{self.path} is being deleted"), False, False)
        written = self.writer.write(group)
        if not self._is_known and self._index.segments:  # before anything of the first one is confirmed
            self._is_known = self._stamp_newest()
        self.used_bytes = self.writer.used_bytes  # a copy: it is read in every turn
        return written

    def discard(self) -> None:
        """Write nothing any more, whatever is buffered: the folder is about to be deleted."""
        self._discarded = True

    def close(self) -> None:
        """Close the files. Buffered changes are lost."""
        if not self._discarded:
            self._segments.end()
            self._stamp_newest()
        self._segments.close()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _stamp_newest(self) -> bool:
        """Have the stamp know the newest segment, so that its loss is noticed; return whether it knows one."""
        with suppress(StoreError):
            stamp, serial = read_stamp(self.path)
            newest = max(self._index.segments, default=0)
            if stamp is not None and newest > serial:
                write_stamp(self.path, stamp, newest)
                return True
            return serial > 0
        return False


def _locked(folder: Path) -> int:
    """Create the folder if necessary, and lock it: one writer at a time. Raises StoreError."""
    path = folder / "lock"
    try:
        make_folder(folder)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise StoreError(f"{folder} is in use by another broker process") from None
    return descriptor


def _empty(folder: Path) -> None:
    for path in segment_paths(folder):
        try:
            path.unlink()
        except OSError as error:
            raise StoreError(f"cannot delete {path}: {error.strerror or error}") from error
