"""The writer of groups to a message store's file, each in one transaction with one fsync, also on a full disk.

`write` is the only part of a store that may run in another thread (`commit.py`). A group is written with few statements
of many rows (see `brokers/README.md`): every step of SQLite releases Python's lock and must reacquire it from a busy
loop.

On a full disk the messages of the group are refused, as a group; removals use a reserve, and the pages that they free
in the file are used again. A removal is never dropped: it is retried with every later group. A group's transactions
(`message_groups.Whole`), usually written with all the rest, are then written one by one, each completely or not
at all.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import monotonic

from brokers.engine.ports import Place
from brokers.server.earlier_store.tables import PAGE_BYTES, batches
from brokers.server.sqlite_file import StoreError, failures_named, transaction
from tests.server.earlier_writer.disk_reserve import DiskReserve
from tests.server.earlier_writer.message_groups import COLUMNS, Changes, Group, Run, Written, together
from tests.server.earlier_writer.run_table import RunTable
from tests.server.earlier_writer.statements import FAIL, MOVE, delete_messages, insert_of

#: Space that removed messages may take in runs: in bytes, and as a part of what is stored. On a full disk it is less.
SPARE_BYTES, SPARE_PART = 16 << 20, 8

#: How long a write-back of the log waits for readers, ms.
_CHECKPOINT_WAIT_MS = 50
#: How long none is tried after one that readers, such as a backup, prevented, s. Each would delay a group.
_READERS_WAIT_SECONDS = 5.0

#: Messages of deleted queues that are removed with one group, so that a large queue does not delay the others.
DROP_ROWS = 5000


class GroupWriter:
    """`db`: of the file at `path`. `reserve`: None for a store that need not survive the process. `log_bytes`,
    `group_bytes`: maximum size of the write-ahead log and of a group.

    `used_bytes`: disk space of messages, in whole pages, after the last group; free pages in the file do not count,
    since they are used again. `done_bytes`: total size (`message_file.on_disk`) of all messages that have been written
    and measured, or refused."""

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
        self._no_checkpoint_until = 0.0  # s of the monotonic clock
        self._unwritten = Changes()  # of groups that could not be written
        self._dropping: list[int] = []  # queues whose messages are being deleted
        with failures_named(path):
            self._runs = RunTable(db)
        if reserve is not None:
            reserve.allocate()
        self._measure()

    @property
    def full(self) -> bool:
        """The store has refused messages, and since then neither the disk nor the file has had free space for more."""
        if self._refused and (self._room_inside_then > self._log_bytes or self._room_on_disk() > self._log_bytes):
            self._refused = False
        return self._refused

    def _room_on_disk(self) -> int:
        try:
            return shutil.disk_usage(self._path.parent).free
        except OSError:
            return 0

    def write(self, group: Group) -> Written:
        """Write a group and return the result. One at a time, in their order."""
        group.arrange_runs()
        fault, refused = None, dict[int, StoreError]()
        changes = self._unwritten
        changes.add(group.changes)  # these are newer
        group.changes = changes
        self._dropping += changes.dropped
        changes.dropped = []
        self._unwritten = changes  # until they are done
        try:
            if self._reserve is not None and not self._reserve.allocate():
                raise StoreError(f"cannot use {self._path}: the disk is full")
            self.execute(*together(group), group.runs)
            self._unwritten = Changes()
        except StoreError as error:
            fault, refused = self._write_in_need(group, error)
        if not group.messages:
            fault = None
        if fault is not None or refused:
            self._refused = True
        unfinished = self._thin_runs() or bool(self._unwritten or self._dropping)
        self._keep_log_short()
        with contextlib.suppress(StoreError):
            self._measure()
        self.done_bytes += group.disk_bytes
        return Written(group.ticket, group.messages, fault, not self._unwritten, unfinished, refused)

    def _write_in_need(self, group: Group, fault: StoreError) -> tuple[StoreError | None, dict[int, StoreError]]:
        """Write on a full disk: release the reserve, write the changes, and the messages only if the file has free
        pages for them. Returns why the messages are not stored, None if they are, and which transactions are not."""
        if self._reserve is not None:
            self._reserve.release()
        self._shorten_log()
        try:
            for part in self._parts(group.changes):
                self.execute([], part, drops=not part.moved)
                self._shorten_log()
        except StoreError as error:
            # Changes that were made are repeated, which is harmless.
            return error, {whole.transaction: error for whole in group.wholes}
        self._unwritten = Changes()
        stored = self._squeeze_in(group.rows, Changes(), group.runs)
        refused = {w.transaction: fault for w in group.wholes if not self._squeeze_in(w.rows, w.changes)}
        if self._reserve is not None:
            self._reserve.allocate()
        return None if stored else fault, refused

    def _squeeze_in(self, rows: Sequence[int | bytes], changes: Changes, runs: Sequence[Run] = ()) -> bool:
        """Write the group if the file has free pages for its messages; return whether it was written."""
        size = sum(each for each in rows[2::COLUMNS] if isinstance(each, int))
        size += sum(len(body) for _, _, bodies in runs for body in bodies)
        done = False
        with contextlib.suppress(StoreError):
            if not (rows or runs) or self._room_inside() > 2 * size + 16 * PAGE_BYTES:
                self.execute(rows, changes, runs)
                done = True
        self._shorten_log()
        return done

    def _parts(self, changes: Changes) -> Iterator[Changes]:
        """Split the changes into parts whose log fits into the reserve."""
        most = max(1, self._group_bytes // (4 * PAGE_BYTES))  # pages of rows and indexes that a message touches
        for place, moved in changes.moved.items():  # first: they may be removed from their new places
            yield Changes(moved={place: moved})
        for queue, numbers in changes.removed.items():
            ascending = sorted(numbers)
            for at in range(0, len(ascending), most):
                yield Changes(removed={queue: set(ascending[at : at + most])})
        yield Changes(failed=changes.failed, named=changes.named)

    def execute(
        self, rows: Sequence[int | bytes], changes: Changes, runs: Sequence[Run] = (), *, drops: bool = True
    ) -> None:
        """Write all of it or, after a StoreError, nothing; and remove some messages of dropped queues. `drops`: False
        while messages may be left to move, since they may leave a dropped queue."""
        if not (rows or runs or changes or changes.named or self._dropping):
            return
        db = self._db
        with failures_named(self._path), transaction(db):
            for at, count in batches(len(rows) // COLUMNS):
                db.execute(insert_of(count), rows[COLUMNS * at : COLUMNS * (at + count)])
            for run in runs:
                self._runs.insert(*run)
            if changes.named:
                db.executemany("INSERT OR REPLACE INTO queue VALUES (?, ?)", changes.named.items())
                db.execute("UPDATE store SET last_queue = max(last_queue, ?)", (max(changes.named),))
            for place, moved in changes.moved.items():
                self._move(place, moved)
            for (queue, number), failed in changes.failed.items():
                if not self._runs.fail(queue, number, failed):
                    db.execute(FAIL, (failed, queue, number))
            for queue, removed in changes.removed.items():
                if singles := self._runs.remove(queue, sorted(removed)):
                    delete_messages(db, queue, singles)
            left = self._drop_some() if drops else self._dropping
        self._dropping = left

    def _move(self, place: Place, moved: Sequence[int | bytes]) -> None:
        """Repeated, it changes nothing: the message is no longer at its old place."""
        if self._runs.has(*place):
            self._runs.remove(place[0], [place[1]])
            self._db.execute(insert_of(1), moved)
        else:
            self._db.execute(MOVE, (*moved, *place))

    def _drop_some(self) -> list[int]:
        """Remove messages of dropped queues; return the queues that still have some."""
        left, budget = list(self._dropping), DROP_ROWS
        while left and budget > 0:
            gone = self._db.execute(
                "DELETE FROM message WHERE id IN (SELECT id FROM message WHERE queue = ? LIMIT ?)", (left[0], budget)
            ).rowcount
            if gone < budget:
                gone += self._runs.drop(left[0], budget - gone)
            if gone < budget:
                self._db.execute("DELETE FROM queue WHERE id = ?", (left[0],))
                del left[0]
            budget -= gone
        return left

    def _thin_runs(self) -> bool:
        """Free space that removed messages take in runs, where it is too much. Return whether there is more to free."""
        allowed = self._log_bytes if self._refused else max(SPARE_BYTES, self.used_bytes // SPARE_PART)
        if self._runs.spare_bytes <= allowed:
            return False
        if self._refused and self._reserve is not None:
            self._reserve.release()
        try:
            with self._runs.unchanged_if_failed(), failures_named(self._path), transaction(self._db):
                self._runs.thin()
        except StoreError:
            return False  # it is tried again with the next group
        finally:
            if self._refused and self._reserve is not None:
                self._shorten_log()
                self._reserve.allocate()
        return self._runs.spare_bytes > allowed

    def replace_runs(self, rows: Sequence[Sequence[object]]) -> None:
        """Write the rows of runs that were damaged, as they should be. Raises StoreError."""
        with failures_named(self._path), transaction(self._db):
            for row in rows:
                self._runs.replace(row)

    def _keep_log_short(self) -> None:
        """Write the log back. SQLite does so at intervals of pages, unless the disk is full, where the reserve is used,
        or a backup reads the file: then it is tried again later."""
        if self._log_size() <= 2 * self._log_bytes or monotonic() < self._no_checkpoint_until:
            return
        if self._shorten_log():
            self._no_checkpoint_until = monotonic() + _READERS_WAIT_SECONDS
        elif self._log_size() and self._reserve is not None:
            self._reserve.release()
            self._shorten_log()
            self._reserve.allocate()

    def _log_size(self) -> int:
        try:
            return self._log.stat().st_size
        except OSError:
            return 0

    def _shorten_log(self) -> bool:
        """Write as much of the log as possible back into the file, and truncate it. While a backup reads the file, the
        log only grows: groups do not wait for it. Return whether a reader prevented it."""
        with contextlib.suppress(sqlite3.Error):
            before = self._db.execute("PRAGMA busy_timeout").fetchone()[0]
            self._db.execute(f"PRAGMA busy_timeout={_CHECKPOINT_WAIT_MS}")
            try:
                return bool(self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0])
            finally:
                self._db.execute(f"PRAGMA busy_timeout={before}")
        return False

    def _room_inside(self) -> int:
        """Bytes of free pages in the file."""
        with failures_named(self._path):
            return int(self._db.execute("PRAGMA freelist_count").fetchone()[0]) * PAGE_BYTES

    def _measure(self) -> None:
        with failures_named(self._path):
            pages = int(self._db.execute("PRAGMA page_count").fetchone()[0])
        self._room_inside_then = self._room_inside()
        self.used_bytes = pages * PAGE_BYTES - self._room_inside_then
