"""Messages on disk: inserted and removed in groups, each atomic (`group_writer.py`).

The engine's loop buffers (`group_buffer.py`). Meanwhile it can read (`load`, `recover`) through a connection of its own
that never waits for the writer.

A body with a wrong checksum is never returned (`checksums.py`); rows older than checksums have none. The file names its
broker (`store_identity.py`) and its queues, in case the configuration is lost.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

from brokers.engine.ports import Place
from brokers.server.checksums import place_mark
from brokers.server.earlier_store.reader import MessageReader
from brokers.server.earlier_store.tables import PAGE_BYTES, open_messages
from brokers.server.journal.stamp_file import Stamp
from brokers.server.message_groups import Entry
from brokers.server.sqlite_file import failures_named
from tests.server.earlier_writer.disk_reserve import DiskReserve
from tests.server.earlier_writer.group_buffer import GroupBuffer
from tests.server.earlier_writer.group_writer import GroupWriter
from tests.server.earlier_writer.message_groups import Group, Written
from tests.server.earlier_writer.statements import write_stamp

#: Reserved on the disk for removals. The write-ahead log has at most half of this size and a group a quarter, so that
#: committed changes always fit into the file.
RESERVE_BYTES = 32 << 20


class MessageStore(GroupBuffer):
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
        self._db = open_messages(path)
        with failures_named(path):
            self._db.create_function("place_mark", 5, place_mark, deterministic=True)
            # Deleted rows need not be overwritten with zeros, which is the default of some builds of SQLite.
            self._db.execute("PRAGMA secure_delete=OFF")
            self._db.execute(f"PRAGMA cache_size={-(16 << 10)}")  # KiB
            self._db.execute(f"PRAGMA wal_autocheckpoint={max(16, log_bytes // PAGE_BYTES)}")
            super().__init__(reserve_bytes // 4, dict(self._db.execute("SELECT id, name FROM queue")))
            self._reading = sqlite3.connect(path, isolation_level=None)
            self._reading.execute("PRAGMA query_only=ON")
        self._reader = MessageReader(path, self._reading)
        self.writer = GroupWriter(self._db, path, reserve, log_bytes=log_bytes, group_bytes=self._group_bytes)
        self.used_bytes = self.writer.used_bytes

    @property
    def pending_bytes(self) -> int:
        """Approximate disk space of messages that are not part of `used_bytes` yet."""
        return self._put_bytes - self.writer.done_bytes

    @property
    def full(self) -> bool:
        """The store has refused messages, and since then neither the disk nor the file has had free space for more."""
        return self.writer.full

    def load(self, queue: int, numbers: Sequence[int]) -> dict[int, bytes]:
        """Return the bodies of written messages, by number, without missing and damaged ones, which are added to
        `damaged`. Raises StoreError."""
        return self._reader.load(queue, numbers)

    def recover(self) -> Iterator[Entry]:
        """(queue, number, size in bytes, failed deliveries, expiry in ms or 0) of every written message, by queue and
        number; bodies are not touched. What is not as it was written is repaired, or left out and put into `damaged`.
        Raises StoreError."""
        return self._reader.recover()

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
