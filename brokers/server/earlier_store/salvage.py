"""Repair of an earlier release's message store before it is converted: bit rot costs at most the data that it damaged.

A store with damaged pages is rewritten from all readable messages with correct checksums; the damaged file is preserved
beside it. Larger stores are only looked at this closely when a look at their index fails: the conversion reads
everything.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from brokers.engine.ports import Place
from brokers.server.earlier_store.runs import INSERT_BODIES, INSERT_RUN, SELECT_RUN, read_or_mend, stored_bodies
from brokers.server.earlier_store.tables import open_messages
from brokers.server.earlier_store.verification import COLUMNS, sound
from brokers.server.sqlite_file import StoreError, failures_named

#: Stores up to this size are read through at each start, bytes: some tenths of a second.
READ_THROUGH_BYTES = 64 << 20
_READ_BYTES = 1 << 20
#: Findings of SQLite that are named.
NAMED = 3
#: Messages that are named.
_NAMED_MESSAGES = 20

_RUN_PLACES = "SELECT id, queue, first FROM run INDEXED BY run_place"
_IDS = "SELECT id FROM message NOT INDEXED ORDER BY id "
_ROW = ", ".join(("id", *COLUMNS))


def mend_store(path: Path, *, suspect: bool, now: datetime | None = None) -> list[str]:
    """Rewrite a message store if it is damaged. `suspect`: check it whatever its size. Of a large one, otherwise, only
    the rows of runs and their index are checked, without the bodies: a removal that finds them unequal would block all
    later groups. Return a line for each finding and action; none if it is undamaged. Raises StoreError if nothing of it
    can be read."""
    whole = suspect or path.stat().st_size <= READ_THROUGH_BYTES
    with contextlib.closing(open_messages(path)) as db:
        findings = _findings(db, "" if whole else "run")
        if not findings or not can_be_read(path):  # it is not rewritten without what may be readable again
            return []
        with failures_named(path):
            busy = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        if busy:  # its log would be taken for that of the rewritten file
            raise StoreError(f"cannot repair {path}: a backup reads it. Start again when the backup has ended")
    draft = path.with_name(f"{path.name}-mended")
    draft.unlink(missing_ok=True)
    lost, saved = _copy(path, draft)
    damaged = path.with_name(f"{path.name}-damaged-{now or datetime.now(UTC):%Y-%m-%dT%H-%M-%S}")
    try:
        os.link(path, damaged)
        os.replace(draft, path)
    except OSError as error:
        raise StoreError(f"cannot repair {path}: {error.strerror or error}") from error
    return [
        f"{path} was damaged ({'; '.join(findings[:NAMED])}): {saved:,} messages were saved, {_lost(lost)}; the damaged"
        f" file is preserved as {damaged}"
    ]


def can_be_read(path: Path) -> bool:
    """Whether the disk can read all of a file. SQLite may report damage where it cannot."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        at = 0
        while piece := os.pread(descriptor, _READ_BYTES, at):
            at += len(piece)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def _findings(db: sqlite3.Connection, table: str) -> list[str]:
    """Return what is damaged in a table and its indexes; "": in the file."""
    try:
        found = db.execute(f"PRAGMA integrity_check({table or NAMED + 1})").fetchall()
        return [" ".join(text.split()) for (text,) in found if text != "ok"]
    except sqlite3.DatabaseError as error:
        return [str(error)]


def _copy(path: Path, draft: Path) -> tuple[list[tuple[str, int]], int]:
    """Copy all readable messages with correct checksums. Return the messages of the index that are missing in the copy,
    by name of the queue and number; and how many there are."""
    source = sqlite3.connect(path, isolation_level=None)
    with contextlib.closing(source), contextlib.closing(open_messages(draft)) as target, failures_named(path):
        source.execute("PRAGMA query_only=ON")
        names = dict(_readable(source, "SELECT id, name FROM queue"))
        places = {
            (queue, number): row
            for row, queue, number in _readable(
                source, "SELECT id, queue, number FROM message INDEXED BY message_place"
            )
        }
        rows = set(places.values())
        for order in ("ASC", "DESC"):  # from both sides up to a damaged page
            rows.update(row for (row,) in _readable(source, _IDS + order))
        target.execute("BEGIN IMMEDIATE")
        target.executemany("INSERT INTO queue VALUES (?, ?)", names.items())
        target.executemany("INSERT INTO store VALUES (?, ?, ?, ?)", _readable(source, "SELECT * FROM store"))
        saved = set[Place]()
        for row in sorted(each for each in rows if isinstance(each, int)):
            for found in _readable(source, f"SELECT {_ROW} FROM message NOT INDEXED WHERE id = ?", row):  # noqa: S608
                place = found[1:3]
                if sound(found[1:]) and place not in saved:
                    marks = ", ".join("?" * len(found))
                    target.execute(f"INSERT INTO message ({_ROW}) VALUES ({marks})", found)  # noqa: S608
                    saved.add(place)
        there = set(places) | _copy_runs(source, target, saved)
        target.execute("COMMIT")
        target.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    lost = [(names.get(queue) or f"number {queue}", number) for queue, number in sorted(there - saved)]
    return lost, len(saved)


def _copy_runs(source: sqlite3.Connection, target: sqlite3.Connection, saved: set[Place]) -> set[Place]:
    """Copy the runs without their damaged messages, and add the others to `saved`. Return the messages of all runs; of
    an unreadable one, the first."""
    places = {row: (queue, first) for row, queue, first in _readable(source, _RUN_PLACES)}
    there, copied = set[Place](), set[int]()
    for columns in _run_rows(source, set(places)):
        found = read_or_mend(columns)
        if found is None or found[0].row in copied:
            continue
        run, row_values = found
        copied.add(run.row)
        numbers = {number for _, number, *_ in run.entries()}
        stored = stored_bodies(source, run.row)
        good = {number for number, _ in run.bodies(stored, numbers)}
        there.update((run.queue, number) for number in numbers)
        saved.update((run.queue, number) for number in good)
        for number in numbers - good:
            run.state.gone |= 1 << number - run.first
        if good:
            target.execute(INSERT_RUN, (*row_values[:5], run.state.pack(run.row, run.count), *row_values[6:]))
            target.execute(INSERT_BODIES, (run.row, stored))
    there.update(place for row, place in places.items() if row not in copied)
    return there


def _run_rows(source: sqlite3.Connection, rows: set[int]) -> Iterator[Sequence[object]]:
    """Yield rows of runs, some repeatedly: as they come from both ends, since behind a damaged number none is found by
    its own, and then each by its number, as its bodies, the index or the table have it."""
    for order in ("ASC", "DESC"):
        yield from _readable(source, f"{SELECT_RUN} NOT INDEXED ORDER BY id {order}")
    for table in ("run NOT INDEXED", "run_bodies"):
        for order in ("ASC", "DESC"):
            rows.update(row for (row,) in _readable(source, f"SELECT id FROM {table} ORDER BY id {order}"))  # noqa: S608
    for row in sorted(row for row in rows if isinstance(row, int)):
        yield from _readable(source, f"{SELECT_RUN} NOT INDEXED WHERE id = ?", row)


def _readable(db: sqlite3.Connection, statement: str, *given: object) -> Iterator[tuple]:  # type: ignore[type-arg]
    """Yield rows up to the first unreadable one."""
    with contextlib.suppress(sqlite3.DatabaseError):
        yield from db.execute(statement, given)


def _lost(lost: list[tuple[str, int]]) -> str:
    return f"lost: {named_messages(lost, 'queue')}" if lost else "and none that its index has is lost"


def named_messages(messages: Sequence[tuple[int | str, int]], queue: str) -> str:
    """Return the first messages, (queue, number), for a sentence, and how many more there are. `queue`: what the queues
    are given by."""
    named = ", ".join(f"{number} of {queue} {of}" for of, number in messages[:_NAMED_MESSAGES])
    return named + (f" and {len(messages) - _NAMED_MESSAGES:,} more" if len(messages) > _NAMED_MESSAGES else "")
