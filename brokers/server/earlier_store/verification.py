"""Verification of a message store: pages by SQLite, messages by checksum."""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from brokers.server.checksums import body_checksum, place_mark
from brokers.server.earlier_store.runs import SELECT_RUN, Run, stored_bodies
from brokers.server.sqlite_file import StoreError, reading

#: Maximum number of SQLite's findings in one file.
MOST = 100
#: Of a row of the table of messages.
COLUMNS = ("queue", "number", "size", "failed", "expires", "mark", "checksum", "body")


def verify(path: Path) -> list[str]:
    """Yield a line, which names the file, for each damage. For a file that no process uses."""
    found: list[str] = []
    try:
        with reading(path) as db:
            try:
                texts = [" ".join(text.split()) for (text,) in db.execute(f"PRAGMA integrity_check({MOST})")]
                found += [f"{path}: {text}" for text in texts if text != "ok"]
            except sqlite3.DatabaseError as error:
                found.append(f"{path}: {error}")
            columns = {name for _, name, *_ in db.execute("PRAGMA table_info(message)")}
            if "checksum" in columns:
                found += _damaged_messages(path, db)
            if db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'run'").fetchone():
                found += _damaged_runs(path, db)
    except StoreError as error:
        found.append(str(error))
    return found


def _damaged_messages(path: Path, db: sqlite3.Connection) -> Iterator[str]:
    try:
        for row, *values in db.execute(f"SELECT id, {', '.join(COLUMNS)} FROM message NOT INDEXED ORDER BY id"):  # noqa: S608
            if not sound(values):
                queue, number = values[:2]
                yield f"{path}: message {number} of queue number {queue} (row {row}) is not as it was written"
    except sqlite3.DatabaseError as error:
        yield f"{path}: the messages cannot be read through: {error}"


def _damaged_runs(path: Path, db: sqlite3.Connection) -> Iterator[str]:
    try:
        for row in db.execute(f"{SELECT_RUN} NOT INDEXED ORDER BY id"):
            try:
                run = Run.read(row)
            except ValueError:
                yield f"{path}: the index entry of a run of messages (row {row[0]}) is not as it was written"
                continue
            numbers = [number for _, number, *_ in run.entries()]
            sound_ones = {number for number, _ in run.bodies(stored_bodies(db, run.row), numbers)}
            for number in numbers:
                if number not in sound_ones:
                    where = f"queue number {run.queue} (run {run.row})"
                    yield f"{path}: message {number} of {where} is not as it was written"
        for (row_id,) in db.execute("SELECT id FROM run_bodies WHERE id NOT IN (SELECT id FROM run)"):
            yield f"{path}: the bodies of a run of messages (row {row_id}) belong to no message"
    except sqlite3.DatabaseError as error:
        yield f"{path}: the messages cannot be read through: {error}"


def sound(values: Sequence[Any]) -> bool:
    """Return whether the checksums of a row, its values in the order of `COLUMNS`, are correct. A damaged row may
    contain values of any type."""
    queue, number, size, failed, expires, mark, checksum, body = values
    try:
        return (
            isinstance(body, bytes)
            and size == len(body)
            and mark in (None, place_mark(queue, number, size, failed, expires))
            and checksum in (None, body_checksum(queue, number, expires, body))
        )
    except (struct.error, TypeError):  # a value that is no number, or too large
        return False
