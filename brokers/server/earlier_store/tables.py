"""The file of a message store of an earlier release: its tables, and statements for many rows at once.

Rows go to the end of one table, whatever their queue, and an index that holds all but the bodies says what is there.
A body and a row's place each have a checksum (`checksums.py`); rows of before there were any have none.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from brokers.server.earlier_store.runs import TABLES as RUN_TABLES
from brokers.server.sqlite_file import open_sqlite

#: Of the schema.
KIND, VERSION = "headgate-messages", 4

PAGE_BYTES = 8192
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


# Nothing but question marks is put into the text (S608).


@lru_cache(None)
def load_of(rows: int) -> str:
    numbers = ",".join("?" * rows)
    return f"SELECT number, expires, body, checksum FROM message WHERE queue = ? AND number IN ({numbers})"  # noqa: S608


def open_messages(path: Path) -> sqlite3.Connection:
    """Open a message store, and upgrade it if necessary. Raises StoreError."""
    return open_sqlite(
        path,
        kind=KIND,
        version=VERSION,
        schema=_SCHEMA,
        upgrades=_UPGRADES,
        synchronous="FULL",
        check=False,
        page_bytes=PAGE_BYTES,
    )


def batches(count: int) -> Iterator[tuple[int, int]]:
    """Split `count` rows into as few of the prepared statements as possible: (first row, rows) of each."""
    at = 0
    while at < count:
        left = count - at
        size = ROWS if left >= ROWS else left - left % STEP or left
        yield at, size
        at += size
