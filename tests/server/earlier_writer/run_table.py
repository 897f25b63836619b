"""The writer's access to the runs of a message store, within its transactions.

The space of removed messages is free when the last message of their run is removed. Where messages that stay behind
hold too much space they are stored singly (`thin`).
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from brokers.server.checksums import body_checksum, place_mark
from brokers.server.earlier_store.runs import (
    INSERT_BODIES,
    INSERT_RUN,
    RUN_MESSAGES,
    SELECT_RUN,
    Run,
    State,
    run_mark,
    run_with,
    stored_bodies,
)
from tests.server.earlier_writer.statements import FAIL, insert_of, parts_of

#: Runs that are stored singly at a time.
THINNED = 4


class RunTable:
    """`db`: of the file. `spare_bytes`: of the removed messages in runs that are at least half gone. Its methods raise
    sqlite3.Error."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._next = (db.execute("SELECT max(id) FROM run").fetchone()[0] or 0) + 1
        self._spare: dict[int, int] = {}  # of runs that are half gone: row -> bytes of removed messages
        self.spare_bytes = 0
        for row, count, size, packed in db.execute(
            "SELECT id, CAST(count AS INTEGER), CAST(size AS INTEGER), CAST(state AS BLOB) FROM run WHERE state != x''"
        ):
            try:
                self._measure(row, count, size, State.unpack(row, count, packed))
            except (TypeError, ValueError):
                continue  # damaged

    def insert(self, queue: int, first: int, bodies: Sequence[bytes]) -> None:
        parts, together = parts_of(bodies), b"".join(bodies)
        place = (self._next, queue, first, len(bodies), len(together))
        self._next += 1  # and never used again by this process: a reader caches the bodies of a row
        self._db.execute(INSERT_RUN, (*place, b"", run_mark(place, parts), parts))
        self._db.execute(INSERT_BODIES, (place[0], together))

    def remove(self, queue: int, numbers: Sequence[int]) -> list[int]:
        """Remove messages, whose numbers ascend. Return the numbers of those that are in no run."""
        singles: list[int] = []
        at = 0
        while at < len(numbers):
            end = at + 1
            while end < len(numbers) and numbers[end] - numbers[end - 1] <= RUN_MESSAGES:
                end += 1
            singles += self._remove_near(queue, numbers[at:end])
            at = end
        return singles

    def _remove_near(self, queue: int, numbers: Sequence[int]) -> list[int]:
        """Remove messages whose numbers are near each other."""
        others: list[int] = []  # in none of the runs so far
        at = 0
        found = self._db.execute(
            "SELECT id, first, CAST(count AS INTEGER), CAST(size AS INTEGER), CAST(state AS BLOB) FROM run"
            " WHERE queue = ? AND first BETWEEN ? AND ? ORDER BY first",
            (queue, numbers[0] - RUN_MESSAGES + 1, numbers[-1]),
        ).fetchall()
        for row, first, count, size, packed in found:
            start = bisect_left(numbers, first, at)
            end = max(at, bisect_left(numbers, first + count, start))
            others += numbers[at:start]
            inside, at = numbers[start:end], end
            if others and others[-1] >= first:  # a number that was assigned again, see `_claim`
                inside = sorted([*inside, *(number for number in others if first <= number < first + count)])
                others = [number for number in others if not first <= number < first + count]
            if not inside:
                continue
            try:
                state = State.unpack(row, count, packed)
            except (TypeError, ValueError):  # damaged, and not delivered: a start assigns its numbers again
                others = sorted([*others, *inside])
                continue
            before, left = state.gone, _claim(state, first, inside)
            if state.gone != before:
                self._put_state(row, count, size, state)
            others = sorted([*others, *left]) if left else others
        return [*others, *numbers[at:]]

    def has(self, queue: int, number: int) -> bool:
        return run_with(self._db, queue, number) is not None

    def fail(self, queue: int, number: int, failed: int) -> bool:
        """Store the failed deliveries of a message; return whether it is in a run."""
        run = run_with(self._db, queue, number)
        if run is None:
            return False
        run.state.failed[number - run.first] = failed
        self._put_state(run.row, run.count, run.size, run.state)
        return True

    def replace(self, columns: Sequence[object]) -> None:
        """Write a row that was damaged as it should be: the values of `SELECT_RUN`."""
        self._db.execute(INSERT_RUN.replace("INSERT", "INSERT OR REPLACE"), columns)

    def drop(self, queue: int, budget: int) -> int:
        """Remove runs of a queue with about `budget` messages. Return how many they had, less than that if none is
        left."""
        dropped = 0
        while dropped < budget:
            found = self._db.execute("SELECT id, count FROM run WHERE queue = ? LIMIT 1", (queue,)).fetchone()
            if found is None:
                break
            self._delete(found[0])
            dropped += found[1]
        return dropped

    def thin(self) -> None:
        """Store the last messages of some runs singly: those from which none was removed for longest."""
        for row in list(self._spare)[:THINNED]:
            found = self._db.execute(f"{SELECT_RUN} WHERE id = ?", (row,)).fetchone()
            try:
                run = Run.read(found) if found else None
            except ValueError:
                run = None
            if run is None:
                self._forget(row)
                continue
            numbers = [number for _, number, *_ in run.entries()]
            bodies = dict(run.bodies(stored_bodies(self._db, row), numbers))
            if len(bodies) < len(numbers):
                self._forget(row)  # damaged: it stays as it is
                continue
            self._delete(row)
            for queue, number, size, failed, _ in run.entries():
                body = bodies[number]
                mark, checksum = place_mark(queue, number, size, 0, 0), body_checksum(queue, number, 0, body)
                self._db.execute(insert_of(1), (queue, number, size, body, 0, mark, checksum))
                if failed:
                    self._db.execute(FAIL, (failed, queue, number))

    @contextmanager
    def unchanged_if_failed(self) -> Iterator[None]:
        """If the block, which has a transaction in it, fails, count the spare space as before it."""
        spare, size = dict(self._spare), self.spare_bytes
        try:
            yield
        except BaseException:
            self._spare, self.spare_bytes = spare, size
            raise

    def _put_state(self, row: int, count: int, size: int, state: State) -> None:
        if state.gone == (1 << count) - 1:
            self._delete(row)
        else:
            self._db.execute("UPDATE run SET state = ? WHERE id = ?", (state.pack(row, count), row))
            self._measure(row, count, size, state)

    def _delete(self, row: int) -> None:
        self._db.execute("DELETE FROM run WHERE id = ?", (row,))
        self._db.execute("DELETE FROM run_bodies WHERE id = ?", (row,))
        self._forget(row)

    def _measure(self, row: int, count: int, size: int, state: State) -> None:
        self._forget(row)
        gone = state.gone.bit_count()
        if 2 * gone >= count:
            self._spare[row] = size * gone // count
            self.spare_bytes += self._spare[row]

    def _forget(self, row: int) -> None:
        self.spare_bytes -= self._spare.pop(row, 0)


def _claim(state: State, first: int, numbers: Sequence[int]) -> list[int]:
    """Take these messages for gone. Return those that were gone before: a start assigns the numbers behind the last
    message again, and so to another run or a single message, also while the run that had them is there."""
    low, high = numbers[0] - first, numbers[-1] - first
    bits = (2 << high) - (1 << low)
    if high - low == len(numbers) - 1 and not state.gone & bits:  # without gaps, as a queue is usually read
        state.gone |= bits
        return []
    left = []
    for number in numbers:
        bit = 1 << number - first
        if state.gone & bit:
            left.append(number)
        state.gone |= bit
    return left
