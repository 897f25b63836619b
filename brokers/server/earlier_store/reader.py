"""Reading from a message store of an earlier release."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Generator, Iterator, Sequence
from heapq import merge
from pathlib import Path
from zlib import crc32

from brokers.engine.ports import Place
from brokers.server.checksums import PLACE, body_checksum
from brokers.server.earlier_store.runs import (
    RUN_MESSAGES,
    SELECT_RUN,
    Run,
    read_or_mend,
    readable_bodies,
    run_with,
    stored_bodies,
)
from brokers.server.earlier_store.tables import batches, load_of
from brokers.server.message_groups import Entry
from brokers.server.sqlite_file import failures_named, is_damage, is_unreadable

#: Messages whose bodies are read at once, and bytes of them, unless it is a single message.
LOADED, LOADED_BYTES = 256, 1 << 20
#: Rows that are fetched at once. Those before one that the disk cannot read are lost with it.
FETCHED = 200


class MessageReader:
    """`db`: of the file at `path`; `for_bodies`: another connection, since an error of the disk ends what is read
    through the same one. `damaged`: messages that are unreadable or have a wrong checksum. `failed`: the disk could not
    read a part of the file, which may pass."""

    def __init__(self, path: Path, db: sqlite3.Connection, for_bodies: sqlite3.Connection | None = None) -> None:
        self.damaged: set[Place] = set()
        self.failed = False
        self._path = path
        self._db = db
        self._for_bodies = for_bodies or db
        self._last: tuple[int, object] = (0, None)  # a run, and its bodies
        self._mended: list[Run] = []  # read as they were before one bit flipped, which the index may not find

    def load(self, queue: int, numbers: Sequence[int]) -> dict[int, bytes]:
        """Return the bodies of messages, by number, without missing and damaged ones, which are added to `damaged`.
        Raises StoreError."""
        with failures_named(self._path):
            bodies, singles = self._load_runs(queue, sorted(numbers))
            for at, count in batches(len(singles)):
                batch = singles[at : at + count]
                try:
                    bodies.update(self._load_singles(queue, batch))
                except sqlite3.DatabaseError as error:
                    if not self._is_of_a_place(error):
                        raise
                    for number in batch:  # a damaged page costs only its own messages
                        with contextlib.suppress(sqlite3.DatabaseError):
                            bodies.update(self._load_singles(queue, [number]))
        self.damaged.update((queue, number) for number in numbers if number not in bodies)
        return bodies

    def _is_of_a_place(self, error: sqlite3.Error) -> bool:
        """Whether others can be read all the same."""
        self.failed = self.failed or is_unreadable(error)
        return is_damage(error) or is_unreadable(error)

    def _load_runs(self, queue: int, numbers: Sequence[int]) -> tuple[dict[int, bytes], list[int]]:
        """Return the bodies of messages in runs, and the numbers of the others."""
        bodies: dict[int, bytes] = {}
        singles: list[int] = []
        at = 0
        while at < len(numbers):
            run, end = self._run_with(queue, numbers[at]), at + 1
            if run is None:
                singles.append(numbers[at])
            else:
                while end < len(numbers) and run.has(numbers[end]):
                    end += 1
                stored = self._bodies(run)
                bodies.update(run.bodies(stored, numbers[at:end]))
            at = end
        return bodies, singles

    def _run_with(self, queue: int, number: int) -> Run | None:
        for run in self._mended:
            if run.queue == queue and run.has(number):
                return run
        try:
            return run_with(self._for_bodies, queue, number)
        except sqlite3.DatabaseError as error:
            if is_damage(error):
                return None
            raise

    def _bodies(self, run: Run) -> object:
        """Return the bodies of a run; the last ones are cached, since a queue is read from front to back."""
        if self._last[0] != run.row:
            try:
                self._last = run.row, stored_bodies(self._for_bodies, run.row)
            except sqlite3.DatabaseError as error:
                if not self._is_of_a_place(error):
                    raise
                self._last = run.row, readable_bodies(self._for_bodies, run.row)
        return self._last[1]

    def _load_singles(self, queue: int, numbers: Sequence[int]) -> Iterator[tuple[int, bytes]]:
        for number, expires, body, checksum in self._for_bodies.execute(load_of(len(numbers)), (queue, *numbers)):
            # The type, too: a damaged row may contain anything.
            if type(body) is bytes and checksum in (None, body_checksum(queue, number, expires, body)):
                yield number, body

    def recover(self) -> Generator[Entry, None, None]:
        """Yield (queue, number, size in bytes, failed deliveries, expiry in ms or 0) of every message, by queue and
        number; bodies are not touched. What is not as it was written is read as it was before one bit of it flipped, or
        left out and put into `damaged`. Raises StoreError."""
        with failures_named(self._path):
            self._mended.clear()
            self._db.execute("SAVEPOINT recovery")  # both tables as of one moment
            try:
                yield from _in_order(self._singles(), self._runs())
            finally:
                if self._db.in_transaction:  # an error of the disk has ended it
                    self._db.execute("RELEASE recovery")

    def _singles(self) -> Iterator[Entry]:
        with contextlib.closing(self._db.cursor()) as cursor:
            cursor.execute(
                "SELECT queue, number, size, failed, expires, mark FROM message INDEXED BY message_place"
                " ORDER BY queue, number"
            )
            while rows := cursor.fetchmany(FETCHED):
                for row in rows:
                    *place, mark = row
                    if mark is None or mark == crc32(PLACE(*place)):
                        yield row[:5]
                    else:
                        self.damaged.add(row[:2])

    def _runs(self) -> Iterator[Run]:
        with contextlib.closing(self._db.cursor()) as cursor:
            cursor.execute(f"{SELECT_RUN} ORDER BY queue, first")
            while rows := cursor.fetchmany(100):
                for row in rows:
                    found = read_or_mend(row)
                    if found is None:
                        self._put_damaged(*row[1:4])
                        continue
                    run, whole = found
                    if whole is not row:
                        self._mended.append(run)
                    yield run

    def _put_damaged(self, queue: object, first: object, count: object) -> None:
        """Count the messages of a run as damaged, if its row says which these are."""
        if isinstance(queue, int) and isinstance(first, int) and isinstance(count, int):
            self.damaged.update((queue, first + at) for at in range(min(count, RUN_MESSAGES)))


def _in_order(singles: Iterator[Entry], runs: Iterator[Run]) -> Iterator[Entry]:
    """Merge single messages and those of runs, both in order, without a comparison per message of a run."""
    single = next(singles, None)
    for run in runs:
        while single is not None and single < (run.queue, run.first):
            yield single
            single = next(singles, None)
        between = []
        while single is not None and single < (run.queue, run.end):
            between.append(single)
            single = next(singles, None)
        yield from merge(run.entries(), between) if between else run.entries()
    if single is not None:
        yield single
        yield from singles


def in_batches(found: Iterator[Entry]) -> Iterator[list[Entry]]:
    """Split the messages into batches, each of one queue, whose bodies are read at once."""
    batch: list[Entry] = []
    size = 0
    for entry in found:
        if batch and (entry[0] != batch[0][0] or len(batch) == LOADED or size + entry[2] > LOADED_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(entry)
        size += entry[2]
    if batch:
        yield batch
