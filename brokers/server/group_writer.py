"""Writing groups to a message store's file, each in one transaction with one fsync, also when the disk is full.

`write` is the only part of a store that may run in another thread (`commit.py`). Why a group is written with few
statements of many rows stands in `brokers/README.md`: every step of SQLite lets go of Python's lock and has to win it
back from a busy loop.

A full disk: messages of the group are refused, as a group; removals find room in a reserve, and what they free inside
the file is used again. A removal is never given up: it is tried again with every later group. Of a group's transactions
(`message_groups.Whole`), which as a rule are written with all the rest, each is then written on its own, whole or not
at all.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

from brokers.server.disk_reserve import DiskReserve
from brokers.server.message_file import FAIL, MOVE, PAGE_BYTES, batches, delete_messages, insert_of
from brokers.server.message_groups import COLUMNS, Changes, Group, Written, together
from brokers.server.sqlite_file import StoreError, failures_named, transaction

#: Messages of deleted queues that go with one group, so that a large queue does not hold up the others.
DROP_ROWS = 5000


class GroupWriter:
    """`db`: of the file at `path`. `reserve`: None for a store that need not outlive the process. `log_bytes`,
    `group_bytes`: what the write-ahead log and a group are kept to.

    `used_bytes`: what messages take on disk, in whole pages, as of the last group; free pages in the file count as
    room, since they are used again. `done_bytes`: of all messages ever put, as `message_file.on_disk` has it, those
    that have been written and measured, or refused."""

    def __init__(
        self, db: sqlite3.Connection, path: Path, reserve: DiskReserve | None, *, log_bytes: int, group_bytes: int
    ) -> None:
        self.done_bytes = 0
        self._db = db
        self._path = path
        self._log = path.with_name(path.name + "-wal")
        self._reserve = reserve
        self._log_bytes = log_bytes
        self._group_bytes = group_bytes
        self._refused = False
        self._unwritten = Changes()  # of groups that could not be written
        self._dropping: list[int] = []  # queues whose messages are being deleted
        if reserve is not None:
            reserve.hold()
        self._measure()

    @property
    def full(self) -> bool:
        """It has refused messages, and there has not been room for some more since, on the disk or inside the file."""
        if self._refused and (self._room_inside_then > self._log_bytes or self._room_on_disk() > self._log_bytes):
            self._refused = False
        return self._refused

    def _room_on_disk(self) -> int:
        try:
            return shutil.disk_usage(self._path.parent).free
        except OSError:
            return 0

    def write(self, group: Group) -> Written:
        """Write a group that was taken, and say what became of it. One at a time, in the order taken."""
        changes, fault, refused = group.changes, None, dict[int, StoreError]()
        changes.add(self._unwritten)
        self._dropping += changes.dropped
        changes.dropped = []
        self._unwritten = changes  # until they are done
        try:
            if self._reserve is not None and not self._reserve.hold():
                raise StoreError(f"cannot use {self._path}: the disk is full")
            self.execute(*together(group))
            self._unwritten = Changes()
        except StoreError as error:
            fault, refused = self._write_in_need(group, error)
        self._keep_log_short()
        with contextlib.suppress(StoreError):
            self._measure()
        self.done_bytes += group.disk_bytes
        if not group.rows:
            fault = None
        if fault is not None or refused:
            self._refused = True
        unfinished = bool(self._unwritten or self._dropping)
        return Written(group.ticket, len(group.rows) // COLUMNS, fault, not self._unwritten, unfinished, refused)

    def _write_in_need(self, group: Group, fault: StoreError) -> tuple[StoreError | None, dict[int, StoreError]]:
        """The disk refuses: give up the reserve, write the changes, and the messages only where the file itself has
        room for them. Returns why the messages are not stored, None if they are, and which transactions are not."""
        if self._reserve is not None:
            self._reserve.release()
        self._shorten_log()
        try:
            for part in self._parts(group.changes):
                self.execute([], part)
                self._shorten_log()
        except StoreError as error:
            # What has been done is done again, which does no harm.
            return error, {whole.transaction: error for whole in group.wholes}
        self._unwritten = Changes()
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
                self.execute(rows, changes)
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

    def execute(self, rows: Sequence[int | bytes], changes: Changes) -> None:
        """All of it or, after a StoreError, nothing. Part of what queues that are dropped have left goes with it."""
        if not (rows or changes or self._dropping):
            return
        db = self._db
        with failures_named(self._path), transaction(db):
            for at, count in batches(len(rows) // COLUMNS):
                db.execute(insert_of(count), rows[COLUMNS * at : COLUMNS * (at + count)])
            if changes.named:
                db.executemany("INSERT OR REPLACE INTO queue VALUES (?, ?)", changes.named.items())
                db.execute("UPDATE store SET last_queue = max(last_queue, ?)", (max(changes.named),))
            for place, moved in changes.moved.items():
                db.execute(MOVE, (*moved, *place))
            for (queue, number), failed in changes.failed.items():
                db.execute(FAIL, (failed, queue, number))
            for queue, removed in changes.removed.items():
                delete_messages(db, queue, sorted(removed))
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
        with failures_named(self._path):
            return int(self._db.execute("PRAGMA freelist_count").fetchone()[0]) * PAGE_BYTES

    def _measure(self) -> None:
        with failures_named(self._path):
            pages = int(self._db.execute("PRAGMA page_count").fetchone()[0])
        self._room_inside_then = self._room_inside()
        self.used_bytes = pages * PAGE_BYTES - self._room_inside_then
