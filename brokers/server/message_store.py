"""Messages on disk: put and removed in groups, each group in one transaction with one fsync, all of it or nothing.

The engine's loop buffers (`put`, `remove`, `fail`, `drop_queue`), which costs next to nothing, and takes the group when
the one before has been written; `write` does so, and is the only method that may run in another thread (`commit.py`).
The loop may read (`load`, `recover`) meanwhile, through a connection of its own that never waits for the writer.

Why it is done so, with the measurements, stands in `brokers/README.md`: every step of SQLite lets go of Python's lock
and has to win it back from a busy loop, so a group is written with few statements of many rows. Rows go to the end of
one table, whatever their queue, and an index that holds all but the bodies says what is there.

A full disk: messages of the group are refused, as a group; removals find room in a reserve, and what they free inside
the file is used again. A removal is never given up: it is tried again with every later group.

A body whose checksum does not fit is never handed out (`checksums.py`); rows of before there were any have none. The
file says which broker's it is (`store_identity.py`) and what its queues are called, for when the configuration is lost.

What is buffered between `begin` and `end` is a client's transaction, which lies within one group: as a rule it is
written with all the rest, and on a full disk each by itself, whole or not at all.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from zlib import crc32

from brokers.engine.ports import Place
from brokers.server.checksums import PLACE, body_checksum, place_mark
from brokers.server.disk_reserve import DiskReserve
from brokers.server.message_groups import COLUMNS, Changes, Group, Whole, Written, together
from brokers.server.sqlite_file import StoreError, failures_named, is_damage, open_sqlite, transaction

PAGE_BYTES = 8192
#: Held back on the disk for removals. The write-ahead log is kept to a half of it and a group to a quarter, so that
#: what has been committed always finds its room in the file.
RESERVE_BYTES = 32 << 20
#: What a message takes on disk beside its body: what its row and its place in the index need, and slack in their pages.
ROW_BYTES = 128
#: Rows in one statement.
ROWS = 256
#: Messages of deleted queues that go with one group, so that a large queue does not hold up the others.
DROP_ROWS = 5000

_INDEX = "CREATE UNIQUE INDEX message_place ON message (queue, number, size, failed, expires, mark)"

#: `queue`: what the queues are called. `store`: one row, whose file this is.
_TABLES = (
    "CREATE TABLE queue (id INTEGER PRIMARY KEY, name TEXT NOT NULL)",
    "CREATE TABLE store (identity TEXT NOT NULL, virtualhost TEXT NOT NULL, generation INTEGER NOT NULL,"
    " last_queue INTEGER NOT NULL)",
)

_SCHEMA = (
    "CREATE TABLE message (id INTEGER PRIMARY KEY, queue INTEGER NOT NULL, number INTEGER NOT NULL,"
    " size INTEGER NOT NULL, failed INTEGER NOT NULL DEFAULT 0, body BLOB NOT NULL,"
    " expires INTEGER NOT NULL DEFAULT 0, mark INTEGER, checksum INTEGER)",
    _INDEX,
    *_TABLES,
)

#: Version -> what makes the next one of it. Rows of before checksums have none.
_UPGRADES = {
    1: ("ALTER TABLE message ADD COLUMN expires INTEGER NOT NULL DEFAULT 0",),
    2: (
        "ALTER TABLE message ADD COLUMN mark INTEGER",
        "ALTER TABLE message ADD COLUMN checksum INTEGER",
        "DROP INDEX message_place",
        _INDEX,
        *_TABLES,
    ),
}

#: Up to so many rows have a statement of their very number, above that there is one for each multiple.
STEP = 32

_MOVE = (
    "UPDATE message SET queue = ?, number = ?, size = ?, body = ?, expires = ?, mark = ?, checksum = ?, failed = 0"
    " WHERE queue = ? AND number = ?"
)

_FAIL = (
    "UPDATE message SET failed = ?1, mark = place_mark(queue, number, size, ?1, expires)"
    " WHERE queue = ?2 AND number = ?3"
)


@lru_cache(None)
def _insert(rows: int) -> str:
    values = ",".join(["(?,?,?,?,?,?,?)"] * rows)
    return f"INSERT INTO message (queue, number, size, body, expires, mark, checksum) VALUES {values}"  # noqa: S608


@lru_cache(None)
def _delete_of(rows: int) -> str:
    return f"DELETE FROM message WHERE queue = ? AND number IN ({','.join('?' * rows)})"  # noqa: S608


@lru_cache(None)
def _load_of(rows: int) -> str:
    numbers = ",".join("?" * rows)
    return f"SELECT number, expires, body, checksum FROM message WHERE queue = ? AND number IN ({numbers})"  # noqa: S608


@dataclass(frozen=True, slots=True)
class Stamp:
    """Whose file it is: the broker's identity, the virtual host, how often that broker had started when it was written
    last, and the highest number of a queue that has had a message in it."""

    identity: str
    virtualhost: str
    generation: int
    last_queue: int = 0


def open_messages(path: Path, *, durable: bool = True) -> sqlite3.Connection:
    """A connection to a message store, which is created or upgraded if need be. Raises StoreError."""
    return open_sqlite(
        path,
        kind="headgate-messages",
        version=3,
        schema=_SCHEMA,
        upgrades=_UPGRADES,
        synchronous="FULL" if durable else "OFF",
        check=False,
        exclusive=False,
        page_bytes=PAGE_BYTES,
    )


def write_stamp(db: sqlite3.Connection, stamp: Stamp) -> None:
    """In one transaction. The highest number of a queue only grows."""
    with transaction(db):
        before = db.execute("SELECT last_queue FROM store").fetchone()
        db.execute("DELETE FROM store")
        last = max(stamp.last_queue, before[0] if before else 0)
        row = (stamp.identity, stamp.virtualhost, stamp.generation, last)
        db.execute("INSERT INTO store VALUES (?, ?, ?, ?)", row)


class MessageStore:
    """Open or create the file; raise StoreError if it cannot be used. One process at a time: the caller sees to it.

    `durable`: a written group outlives a power cut. If not, the file is emptied first and nothing waits for the disk.
    `used_bytes`: what messages take on disk, in whole pages, as of the last group; free pages in the file count as
    room, since they are used again. `damaged`: messages that cannot be read, or are not what was written, of those
    that were asked for. `names`: what its queues are called, as far as it has heard.
    """

    def __init__(self, path: Path, *, durable: bool = True, reserve_bytes: int = RESERVE_BYTES) -> None:
        self.path = path
        self._log = path.with_name(path.name + "-wal")
        if not durable:
            for each in (path, self._log, path.with_name(path.name + "-shm")):
                with failures_named(path), contextlib.suppress(FileNotFoundError):
                    each.unlink()
        self._reserve = DiskReserve(path.with_name(path.name + "-reserve"), reserve_bytes) if durable else None
        self._log_bytes = reserve_bytes // 2
        self._group_bytes = reserve_bytes // 4
        self._db = open_messages(path, durable=durable)
        with failures_named(path):
            self._db.create_function("place_mark", 5, place_mark, deterministic=True)
            # What is removed need not be overwritten with zeros, which some builds of SQLite do by themselves.
            self._db.execute("PRAGMA secure_delete=OFF")
            self._db.execute(f"PRAGMA cache_size={-(16 << 10)}")  # KiB
            self._db.execute(f"PRAGMA wal_autocheckpoint={max(16, self._log_bytes // PAGE_BYTES)}")
            self._reader = sqlite3.connect(path, isolation_level=None)
            self._reader.execute("PRAGMA query_only=ON")
            self.names: dict[int, str] = dict(self._db.execute("SELECT id, name FROM queue"))
        self.damaged: set[Place] = set()
        self._waiting: list[Group] = [Group(1)]
        self._put_bytes = 0  # ever, as `on_disk` has it; only the loop writes it
        self._done_bytes = 0  # of those, what has been written and measured, or refused; only the writer writes it
        self._whole: Whole | None = None  # the transaction that is being buffered
        self._refused = False
        self._owed = Changes()  # of groups that could not be written
        self._dropping: list[int] = []  # queues whose messages are being deleted
        if self._reserve is not None:
            self._reserve.hold()
        self._measure()

    # -- the loop's side ----------------------------------------------------------------------------------------

    def put(self, queue: int, number: int, body: bytes, expires: int = 0) -> int:
        """Buffer a message; no other with this queue and number may be there. `expires`: ms, 0 for never.
        Returns the ticket of its group."""
        whole = self._whole
        group = self._open_group() if whole is None else self._waiting[-1]
        size = len(body)
        mark = crc32(PLACE(queue, number, size, 0, expires))  # as in `checksums.py`, written out for speed
        row = (queue, number, size, body, expires, mark, crc32(body, mark))
        (group if whole is None else whole).rows.extend(row)
        group.bytes += size
        disk_bytes = on_disk(size)
        group.disk_bytes += disk_bytes
        self._put_bytes += disk_bytes
        return group.ticket

    def _open_group(self) -> Group:
        """The one that takes messages."""
        group = self._waiting[-1]
        if group.bytes >= self._group_bytes:
            group = Group(group.ticket + 1)
            self._waiting.append(group)
        return group

    def remove(self, queue: int, number: int) -> int:
        """Buffer the removal of a message, whether it has been written yet or not. Returns the ticket."""
        group = self._waiting[-1]
        removed = (self._whole or group).changes.removed
        numbers = removed.get(queue)
        if numbers is None:
            removed[queue] = {number}
        else:
            numbers.add(number)
        return group.ticket

    def fail(self, queue: int, number: int, count: int) -> int:
        """Buffer how often the message's delivery has failed. Returns the ticket."""
        group = self._waiting[-1]
        (self._whole or group).changes.failed[queue, number] = count
        return group.ticket

    def move(self, place: Place, to: Place, body: bytes, expires: int = 0) -> int:
        """Buffer that a written message becomes another queue's, with another body: a crash finds it at one of the two
        places. Returns the ticket."""
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
        """Note what a queue is called, for when the configuration is lost. Written with its first messages."""
        if self.names.get(queue) != name:
            self.names[queue] = name
            self._waiting[-1].changes.named[queue] = name

    def begin(self, transaction: int) -> int:
        """Messages and their changes that are buffered from now until `end` are written whole or not at all;
        `transaction` is a number that no other one has. Returns the ticket of their group."""
        group = self._open_group()
        self._whole = Whole(transaction)
        group.wholes.append(self._whole)
        return group.ticket

    def end(self) -> None:
        self._whole = None

    @property
    def pending_bytes(self) -> int:
        """About what the messages will take that are not part of `used_bytes` yet."""
        return self._put_bytes - self._done_bytes

    @property
    def full(self) -> bool:
        """It has refused messages, and there has not been room for some more since, on the disk or inside the file."""
        if self._refused and (self._room_inside_then > self._log_bytes or self._room_on_disk() > self._log_bytes):
            self._refused = False
        return self._refused

    def _room_on_disk(self) -> int:
        try:
            return shutil.disk_usage(self.path.parent).free
        except OSError:
            return 0

    @property
    def pending(self) -> bool:
        """Whether there is something to take."""
        return bool(self._waiting[0])

    def take(self) -> Group:
        """The oldest group that is buffered, maybe an empty one: the caller writes it."""
        group = self._waiting.pop(0)
        if not self._waiting:
            self._waiting.append(Group(group.ticket + 1))
        return group

    def load(self, queue: int, numbers: Sequence[int]) -> dict[int, bytes]:
        """The bodies of written messages, by number; one that is not there or not as it was written is left out, and
        put into `damaged`. Raises StoreError."""
        bodies: dict[int, bytes] = {}
        for at, count in _batches(len(numbers)):
            batch = numbers[at : at + count]
            try:
                bodies.update(self._load(queue, batch))
            except sqlite3.DatabaseError as error:
                if not is_damage(error):
                    with failures_named(self.path):
                        raise
                for number in batch:  # a damaged page costs what is in it
                    with contextlib.suppress(sqlite3.DatabaseError):
                        bodies.update(self._load(queue, [number]))
        self.damaged.update((queue, number) for number in numbers if number not in bodies)
        return bodies

    def _load(self, queue: int, numbers: Sequence[int]) -> Iterator[tuple[int, bytes]]:
        for number, expires, body, checksum in self._reader.execute(_load_of(len(numbers)), (queue, *numbers)):
            # The type, too: a damaged row may hold anything.
            if type(body) is bytes and checksum in (None, body_checksum(queue, number, expires, body)):
                yield number, body

    def recover(self) -> Iterator[tuple[int, int, int, int, int]]:
        """(queue, number, size in bytes, failed deliveries, expiry in ms or 0) of every written message, by queue and
        number; bodies are not touched. What is not as it was written is left out, and put into `damaged`. Raises
        StoreError."""
        with failures_named(self.path), contextlib.closing(self._reader.cursor()) as cursor:
            cursor.execute(
                "SELECT queue, number, size, failed, expires, mark FROM message INDEXED BY message_place"
                " ORDER BY queue, number"
            )
            while rows := cursor.fetchmany(10_000):
                for row in rows:
                    *place, mark = row
                    if mark is None or mark == crc32(PLACE(*place)):
                        yield row[:5]
                    else:
                        self.damaged.add(row[:2])

    def stamp(self) -> Stamp | None:
        """Whose file it is; None if that has not been written yet. Raises StoreError."""
        with failures_named(self.path):
            found = self._reader.execute("SELECT identity, virtualhost, generation, last_queue FROM store").fetchone()
        return None if found is None else Stamp(*found)

    def set_stamp(self, stamp: Stamp) -> None:
        """Write whose file it is, at once; before anything else is written. Raises StoreError."""
        with failures_named(self.path):
            write_stamp(self._db, stamp)

    # -- the writer's side --------------------------------------------------------------------------------------

    def write(self, group: Group) -> Written:
        """Write a group that was taken, and say what became of it. One at a time, in the order taken."""
        changes, fault, refused = group.changes, None, dict[int, StoreError]()
        changes.add(self._owed)
        self._dropping += changes.dropped
        changes.dropped = []
        self._owed = changes  # until they are done
        try:
            if self._reserve is not None and not self._reserve.hold():
                raise StoreError(f"cannot use {self.path}: the disk is full")
            self._execute(*together(group))
            self._owed = Changes()
        except StoreError as error:
            fault, refused = self._write_in_need(group, error)
        self._keep_log_short()
        with contextlib.suppress(StoreError):
            self._measure()
        self._done_bytes += group.disk_bytes
        if not group.rows:
            fault = None
        if fault is not None or refused:
            self._refused = True
        unfinished = bool(self._owed or self._dropping)
        return Written(group.ticket, len(group.rows) // COLUMNS, fault, not self._owed, unfinished, refused)

    def close(self) -> None:
        """Release the file. What is buffered and was not written is lost."""
        self._reader.close()
        self._db.close()

    def _write_in_need(self, group: Group, fault: StoreError) -> tuple[StoreError | None, dict[int, StoreError]]:
        """The disk refuses: give up the reserve, write the changes, and the messages only where the file itself has
        room for them. Returns why the messages are not stored, None if they are, and which transactions are not."""
        if self._reserve is not None:
            self._reserve.release()
        self._shorten_log()
        try:
            for part in self._parts(group.changes):
                self._execute([], part)
                self._shorten_log()
        except StoreError as error:
            # What has been done is done again, which does no harm.
            return error, {whole.transaction: error for whole in group.wholes}
        self._owed = Changes()
        stored = self._squeeze_in(group.rows, Changes())
        refused = {w.transaction: fault for w in group.wholes if not self._squeeze_in(w.rows, w.changes)}
        if self._reserve is not None:
            self._reserve.hold()
        return None if stored else fault, refused

    def _squeeze_in(self, rows: Sequence[int | bytes], changes: Changes) -> bool:
        """Write it where the file has room for the messages. Whether it is done."""
        size = sum(each for each in rows[2::COLUMNS] if isinstance(each, int))
        done = False
        with contextlib.suppress(StoreError):
            if not rows or self._room_inside() > 2 * size + 16 * PAGE_BYTES:
                self._execute(rows, changes)
                done = True
        self._shorten_log()
        return done

    def _parts(self, changes: Changes) -> Iterator[Changes]:
        """The same changes, in parts that the log has room for in the reserve."""
        most = max(1, self._group_bytes // (2 * PAGE_BYTES))  # a message touches a page, and one of the index
        for place, moved in changes.moved.items():  # first: they may be removed from their new places
            yield Changes(moved={place: moved})
        for queue, numbers in changes.removed.items():
            ascending = sorted(numbers)
            for at in range(0, len(ascending), most):
                yield Changes(removed={queue: set(ascending[at : at + most])})
        yield Changes(failed=changes.failed, named=changes.named)

    def _execute(self, rows: Sequence[int | bytes], changes: Changes) -> None:
        """All of it or, after a StoreError, nothing. Part of what queues that are dropped have left goes with it."""
        if not (rows or changes or self._dropping):
            return
        db = self._db
        with failures_named(self.path), transaction(db):
            for at, count in _batches(len(rows) // COLUMNS):
                db.execute(_insert(count), rows[COLUMNS * at : COLUMNS * (at + count)])
            if changes.named:
                db.executemany("INSERT OR REPLACE INTO queue VALUES (?, ?)", changes.named.items())
                db.execute("UPDATE store SET last_queue = max(last_queue, ?)", (max(changes.named),))
            for place, moved in changes.moved.items():
                db.execute(_MOVE, (*moved, *place))
            for (queue, number), failed in changes.failed.items():
                db.execute(_FAIL, (failed, queue, number))
            for queue, removed in changes.removed.items():
                _delete(db, queue, sorted(removed))
            left = self._drop_some()
        self._dropping = left

    def _drop_some(self) -> list[int]:
        """Returns the queues that are not done with yet."""
        left, budget = list(self._dropping), DROP_ROWS
        while left and budget:
            gone = self._db.execute(
                "DELETE FROM message WHERE id IN (SELECT id FROM message WHERE queue = ? LIMIT ?)", (left[0], budget)
            ).rowcount
            if gone < budget:
                self._db.execute("DELETE FROM queue WHERE id = ?", (left[0],))
                del left[0]
            budget -= gone
        return left

    def _keep_log_short(self) -> None:
        """SQLite writes the log back every so many pages, unless the disk has no room for it: then the reserve has."""
        if self._log_size() <= 2 * self._log_bytes:
            return
        self._shorten_log()
        if self._log_size() and self._reserve is not None:
            self._reserve.release()
            self._shorten_log()
            self._reserve.hold()

    def _log_size(self) -> int:
        try:
            return self._log.stat().st_size
        except OSError:
            return 0

    def _shorten_log(self) -> None:
        """Write the log back into the file, as far as that goes, and give its room to the disk."""
        with contextlib.suppress(sqlite3.Error):
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()

    def _room_inside(self) -> int:
        """Bytes of pages in the file that hold nothing."""
        with failures_named(self.path):
            return int(self._db.execute("PRAGMA freelist_count").fetchone()[0]) * PAGE_BYTES

    def _measure(self) -> None:
        with failures_named(self.path):
            pages = int(self._db.execute("PRAGMA page_count").fetchone()[0])
        self._room_inside_then = self._room_inside()
        self.used_bytes = pages * PAGE_BYTES - self._room_inside_then


def on_disk(size: int) -> int:
    """Bytes that a message of this size takes in the file: its row and the index's, and whole pages if it is long."""
    if size > PAGE_BYTES // 4:
        size += -size % PAGE_BYTES
    return size + ROW_BYTES


def _delete(db: sqlite3.Connection, queue: int, numbers: Sequence[int]) -> None:
    """Remove the messages of a queue with these numbers, ascending and all different."""
    if numbers[-1] - numbers[0] + 1 == len(numbers):  # without gaps, as a queue is usually read
        db.execute("DELETE FROM message WHERE queue = ? AND number BETWEEN ? AND ?", (queue, numbers[0], numbers[-1]))
        return
    for at, count in _batches(len(numbers)):
        db.execute(_delete_of(count), (queue, *numbers[at : at + count]))


def _batches(count: int) -> Iterator[tuple[int, int]]:
    """Split `count` rows into as few statements as there are texts for: (first row, rows) of each."""
    at = 0
    while at < count:
        left = count - at
        size = ROWS if left >= ROWS else left - left % STEP or left
        yield at, size
        at += size
