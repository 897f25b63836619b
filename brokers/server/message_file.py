"""The file of a message store: its tables, the statements for many rows at once, and its stamp.

Rows go to the end of one table, whatever their queue, and an index that holds all but the bodies says what is there.
A body and a row's place each have a checksum (`checksums.py`); rows of before there were any have none.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from brokers.server.message_runs import TABLES as RUN_TABLES
from brokers.server.sqlite_file import open_sqlite, transaction

#: Of the schema.
KIND, VERSION = "headgate-messages", 4

PAGE_BYTES = 8192
#: Disk space of a message besides its body: its row, its index entry, and slack in their pages.
ROW_BYTES = 128
#: Rows in one statement.
ROWS = 256

_INDEX = "CREATE UNIQUE INDEX message_place ON message (queue, number, size, failed, expires, mark)"

#: `queue`: the names of the queues. `store`: one row, the stamp of the file's broker.
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
    *RUN_TABLES,
)

#: Version -> statements that upgrade it to the next one. Rows older than checksums have none.
_UPGRADES = {
    1: ("ALTER TABLE message ADD COLUMN expires INTEGER NOT NULL DEFAULT 0",),
    2: (
        "ALTER TABLE message ADD COLUMN mark INTEGER",
        "ALTER TABLE message ADD COLUMN checksum INTEGER",
        "DROP INDEX message_place",
        _INDEX,
        *_TABLES,
    ),
    3: RUN_TABLES,
}

#: Up to this number of rows there is a statement for each number, above it one for each multiple.
STEP = 32

MOVE = (
    "UPDATE message SET queue = ?, number = ?, size = ?, body = ?, expires = ?, mark = ?, checksum = ?, failed = 0"
    " WHERE queue = ? AND number = ?"
)

FAIL = (
    "UPDATE message SET failed = ?1, mark = place_mark(queue, number, size, ?1, expires)"
    " WHERE queue = ?2 AND number = ?3"
)


# Statements for a number of rows. Nothing but question marks is put into their text (S608).


@lru_cache(None)
def insert_of(rows: int) -> str:
    values = ",".join(["(?,?,?,?,?,?,?)"] * rows)
    return f"INSERT INTO message (queue, number, size, body, expires, mark, checksum) VALUES {values}"  # noqa: S608


@lru_cache(None)
def delete_of(rows: int) -> str:
    return f"DELETE FROM message WHERE queue = ? AND number IN ({','.join('?' * rows)})"  # noqa: S608


@lru_cache(None)
def load_of(rows: int) -> str:
    numbers = ",".join("?" * rows)
    return f"SELECT number, expires, body, checksum FROM message WHERE queue = ? AND number IN ({numbers})"  # noqa: S608


@dataclass(frozen=True, slots=True)
class Stamp:
    """The owner of a file: the broker's identity, the virtual host, the broker's number of starts at the last write,
    and the highest number of a queue that has had a message in it."""

    identity: str
    virtualhost: str
    generation: int
    last_queue: int = 0


def open_messages(path: Path, *, durable: bool = True) -> sqlite3.Connection:
    """Open a message store, and create or upgrade it if necessary. Raises StoreError."""
    return open_sqlite(
        path,
        kind=KIND,
        version=VERSION,
        schema=_SCHEMA,
        upgrades=_UPGRADES,
        synchronous="FULL" if durable else "OFF",
        check=False,
        page_bytes=PAGE_BYTES,
    )


def write_stamp(db: sqlite3.Connection, stamp: Stamp) -> None:
    """Write the stamp in one transaction. The highest number of a queue only increases."""
    with transaction(db):
        before = db.execute("SELECT last_queue FROM store").fetchone()
        db.execute("DELETE FROM store")
        last = max(stamp.last_queue, before[0] if before else 0)
        row = (stamp.identity, stamp.virtualhost, stamp.generation, last)
        db.execute("INSERT INTO store VALUES (?, ?, ?, ?)", row)


def on_disk(size: int) -> int:
    """Return the bytes of a message in the file: its row and index entry, and whole pages if it is long."""
    if size > PAGE_BYTES // 4:
        size += -size % PAGE_BYTES
    return size + ROW_BYTES


def on_disk_in_all(bodies: Sequence[bytes], size: int) -> int:
    """Return the total of `on_disk` for messages whose bodies have `size` bytes together."""
    if max(map(len, bodies)) <= PAGE_BYTES // 4:
        return size + ROW_BYTES * len(bodies)
    return sum(on_disk(len(body)) for body in bodies)


def delete_messages(db: sqlite3.Connection, queue: int, numbers: Sequence[int]) -> None:
    """Delete the messages of a queue with these numbers, ascending and distinct."""
    if numbers[-1] - numbers[0] + 1 == len(numbers):  # without gaps, as a queue is usually read
        db.execute("DELETE FROM message WHERE queue = ? AND number BETWEEN ? AND ?", (queue, numbers[0], numbers[-1]))
        return
    for at, count in batches(len(numbers)):
        db.execute(delete_of(count), (queue, *numbers[at : at + count]))


def batches(count: int) -> Iterator[tuple[int, int]]:
    """Split `count` rows into as few of the prepared statements as possible: (first row, rows) of each."""
    at = 0
    while at < count:
        left = count - at
        size = ROWS if left >= ROWS else left - left % STEP or left
        yield at, size
        at += size
