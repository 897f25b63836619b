"""Messages on disk: inserted and removed in groups, each atomic (`group_writer.py`).

The engine's loop buffers (`put`, `remove`, `put_run`, `remove_run`, `fail`, `drop_queue`), which costs almost nothing,
and takes the group after the previous one was written. Meanwhile it can read (`load`, `recover`) through a connection
of its own that never waits for the writer.

A body with a wrong checksum is never returned (`checksums.py`); rows older than checksums have none. The file names its
broker (`store_identity.py`) and its queues, in case the configuration is lost.

Changes between `begin` and `end` are a client's transaction, which lies within one group.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from zlib import crc32

from brokers.engine.ports import Place
from brokers.server.checksums import PLACE, body_checksum, place_mark
from brokers.server.disk_reserve import DiskReserve
from brokers.server.group_writer import GroupWriter
from brokers.server.message_file import (
    PAGE_BYTES,
    Stamp,
    on_disk,
    on_disk_in_all,
    open_messages,
    write_stamp,
)
from brokers.server.message_groups import Group, Whole, Written
from brokers.server.message_reader import MessageReader
from brokers.server.message_runs import Entry
from brokers.server.sqlite_file import failures_named

#: Reserved on the disk for removals. The write-ahead log has at most half of this size and a group a quarter, so that
#: committed changes always fit into the file.
RESERVE_BYTES = 32 << 20


class MessageStore:
    """Open or create the file; raise StoreError if it cannot be used. The caller ensures that one process uses it.

    `durable`: a written group survives a power cut. If not, the file is emptied first and no write waits for the disk.
    `used_bytes`: disk space of messages, in whole pages, after the last group.
    `damaged`: messages that are unreadable or have a wrong checksum. `repaired`: rows of runs that `recover` has
    repaired. `names`: the names of its
    queues. `writer`: writes the groups, possibly in another thread.
    """

    def __init__(self, path: Path, *, durable: bool = True, reserve_bytes: int = RESERVE_BYTES) -> None:
        self.path = path
        if not durable:
            for each in (path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")):
                with failures_named(path), contextlib.suppress(FileNotFoundError):
                    each.unlink()
        reserve = DiskReserve(path.with_name(path.name + "-reserve"), reserve_bytes) if durable else None
        log_bytes = reserve_bytes // 2
        self._group_bytes = reserve_bytes // 4
        self._db = open_messages(path, durable=durable)
        with failures_named(path):
            self._db.create_function("place_mark", 5, place_mark, deterministic=True)
            # Deleted rows need not be overwritten with zeros, which is the default of some builds of SQLite.
            self._db.execute("PRAGMA secure_delete=OFF")
            self._db.execute(f"PRAGMA cache_size={-(16 << 10)}")  # KiB
            self._db.execute(f"PRAGMA wal_autocheckpoint={max(16, log_bytes // PAGE_BYTES)}")
            self.names: dict[int, str] = dict(self._db.execute("SELECT id, name FROM queue"))
            self._reading = sqlite3.connect(path, isolation_level=None)
            self._reading.execute("PRAGMA query_only=ON")
        self._reader = MessageReader(path, self._reading)
        self.repaired = 0
        self._waiting: list[Group] = [Group(1)]
        self._put_bytes = 0  # total of `on_disk`; only the loop writes it
        self._whole: Whole | None = None  # the open transaction
        self.writer = GroupWriter(self._db, path, reserve, log_bytes=log_bytes, group_bytes=self._group_bytes)
        self.used_bytes = self.writer.used_bytes

    def put(self, queue: int, number: int, body: bytes, expires: int = 0) -> int:
        """Buffer a message; its queue and number must be unique. `expires`: ms, 0 for never.
        Returns the ticket of its group."""
        whole = self._whole
        group = self._open_group() if whole is None else self._waiting[-1]
        size = len(body)
        if whole is None and not expires:
            disk_bytes = on_disk(size)
            group.put(queue, number, body)
            group.bytes += size
            group.disk_bytes += disk_bytes
            self._put_bytes += disk_bytes
            return group.ticket
        mark = crc32(PLACE(queue, number, size, 0, expires))  # as in `checksums.py`, inlined for speed
        row = (queue, number, size, body, expires, mark, crc32(body, mark))
        (group if whole is None else whole).rows.extend(row)
        group.bytes += size
        disk_bytes = on_disk(size)
        group.disk_bytes += disk_bytes
        self._put_bytes += disk_bytes
        return group.ticket

    def put_run(self, queue: int, first: int, bodies: Sequence[bytes], size: int) -> int:
        """Buffer one or more messages with successive unique numbers from `first`, none of which expires, outside
        transactions: all are written, or all are refused. `size`: of all bodies, in bytes. Returns the ticket of their
        group."""
        group = self._open_group()
        group.put_run(queue, first, bodies)
        group.bytes += size
        disk_bytes = on_disk_in_all(bodies, size)
        group.disk_bytes += disk_bytes
        self._put_bytes += disk_bytes
        return group.ticket

    def _open_group(self) -> Group:
        """The group that is being buffered."""
        group = self._waiting[-1]
        if group.bytes >= self._group_bytes:
            group = Group(group.ticket + 1)
            self._waiting.append(group)
        return group

    def remove(self, queue: int, number: int) -> int:
        """Buffer the removal of a message, written or not. Returns the ticket."""
        group = self._waiting[-1]
        removed = (self._whole or group).changes.removed
        numbers = removed.get(queue)
        if numbers is None:
            removed[queue] = {number}
        else:
            numbers.add(number)
        return group.ticket

    def remove_run(self, queue: int, numbers: Collection[int]) -> int:
        """Buffer the removal of one or more messages, outside transactions. Returns the ticket."""
        group = self._waiting[-1]
        group.changes.removed.setdefault(queue, set()).update(numbers)
        return group.ticket

    def fail(self, queue: int, number: int, count: int) -> int:
        """Buffer the number of a message's failed deliveries. Returns the ticket."""
        group = self._waiting[-1]
        (self._whole or group).changes.failed[queue, number] = count
        return group.ticket

    def move(self, place: Place, to: Place, body: bytes, expires: int = 0) -> int:
        """Buffer the move of a written message to another queue, with another body: after a crash it is in exactly one
        of the two. Returns the ticket."""
        group = self._open_group()
        mark, checksum = place_mark(*to, len(body), 0, expires), body_checksum(*to, expires, body)
        group.changes.moved[place] = (*to, len(body), body, expires, mark, checksum)
        group.bytes += len(body)
        return group.ticket

    def drop_queue(self, queue: int) -> int:
        """Buffer the removal of all messages of a queue. Its number must not be used again. Returns the ticket."""
        group = self._waiting[-1]
        group.changes.dropped.append(queue)
        return group.ticket

    def name_queue(self, queue: int, name: str) -> None:
        """Buffer a queue's name, in case the configuration is lost. Written with its first messages."""
        if self.names.get(queue) != name:
            self.names[queue] = name
            self._waiting[-1].changes.named[queue] = name

    def begin(self, transaction: int) -> int:
        """Begin a transaction: everything buffered until `end` is written completely or not at all. `transaction`: a
        unique number. Returns the ticket of the group."""
        group = self._open_group()
        self._whole = Whole(transaction)
        group.wholes.append(self._whole)
        return group.ticket

    def end(self) -> None:
        self._whole = None

    @property
    def pending_bytes(self) -> int:
        """Approximate disk space of messages that are not part of `used_bytes` yet."""
        return self._put_bytes - self.writer.done_bytes

    @property
    def full(self) -> bool:
        """The store has refused messages, and since then neither the disk nor the file has had free space for more."""
        return self.writer.full

    @property
    def pending(self) -> bool:
        """Whether a group is waiting to be taken."""
        return bool(self._waiting[0])

    def take(self) -> Group:
        """Take the oldest buffered group, possibly empty, which the caller writes."""
        group = self._waiting.pop(0)
        if not self._waiting:
            self._waiting.append(Group(group.ticket + 1))
        return group

    def load(self, queue: int, numbers: Sequence[int]) -> dict[int, bytes]:
        """Return the bodies of written messages, by number, without missing and damaged ones, which are added to
        `damaged`. Raises StoreError."""
        return self._reader.load(queue, numbers)

    def recover(self) -> Iterator[Entry]:
        """(queue, number, size in bytes, failed deliveries, expiry in ms or 0) of every written message, by queue and
        number; bodies are not touched. What is not as it was written is repaired, or left out and put into `damaged`.
        Raises StoreError."""
        repaired: list[Sequence[object]] = []
        yield from self._reader.recover(repaired)
        if repaired:
            self.writer.replace_runs(repaired)
            self.repaired = len(repaired)

    @property
    def damaged(self) -> set[Place]:
        return self._reader.damaged

    def stamp(self) -> Stamp | None:
        """Return the stamp; None if none has been written yet. Raises StoreError."""
        with failures_named(self.path):
            found = self._db.execute("SELECT identity, virtualhost, generation, last_queue FROM store").fetchone()
        return None if found is None else Stamp(*found)

    def set_stamp(self, stamp: Stamp) -> None:
        """Write the stamp at once, before anything else. Raises StoreError."""
        with failures_named(self.path):
            write_stamp(self._db, stamp)

    def write(self, group: Group) -> Written:
        """Write a group and return the result. One at a time, in their order; in any thread."""
        written = self.writer.write(group)
        self.used_bytes = self.writer.used_bytes  # a copy: it is read in every turn
        return written

    def close(self) -> None:
        """Close the file. Buffered changes are lost."""
        self._reading.close()
        self._db.close()
