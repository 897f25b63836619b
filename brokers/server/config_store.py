"""The broker's configuration on disk: JSON records by (kind, key), changed in transactions that survive a power cut.

It does not interpret the records. Changes are buffered until `commit()`, so that the broker can write many of
them at once; one thread can commit while another buffers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import Any

from brokers.server.checksums import texts_checksum
from brokers.server.sqlite_file import DiskFull, StoreError, failures_named, open_sqlite, transaction

__all__ = ["ConfigStore", "DiskFull", "StoreError"]

#: Of the schema.
KIND, VERSION = "headgate-config", 2

_SCHEMA = (
    "CREATE TABLE record (kind TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, checksum INTEGER,"
    " PRIMARY KEY (kind, key)) WITHOUT ROWID",
)

#: Version -> statements that upgrade it to the next one. Records older than checksums have none.
_UPGRADES = {1: ("ALTER TABLE record ADD COLUMN checksum INTEGER",)}


class ConfigStore:
    """Open (or create, 0600 in a folder 0700) the file; raise StoreError if it cannot be used."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._buffer: dict[tuple[str, str], str | None] = {}  # None: removed
        self._buffer_lock = Lock()
        self._write_lock = Lock()
        self._db = open_sqlite(
            path,
            kind=KIND,
            version=VERSION,
            schema=_SCHEMA,
            upgrades=_UPGRADES,
            synchronous="FULL",
            check=True,
        )

    def load(self) -> list[tuple[str, str, dict[str, Any]]]:
        """Return every committed record as (kind, key, value), by kind and key."""
        with self._write_lock, failures_named(self.path):
            rows = self._db.execute("SELECT kind, key, value, checksum FROM record ORDER BY kind, key").fetchall()
        for kind, key, text, checksum in rows:
            if checksum not in (None, texts_checksum(kind, key, text)):
                raise StoreError(f"{self.path} is damaged: record {kind} {key} is not as it was written")
        return [(kind, key, self._decode(kind, key, text)) for kind, key, text, _ in rows]

    def put(self, kind: str, key: str, value: Mapping[str, Any]) -> None:
        """Buffer a new or changed record. `value` is copied; raises TypeError or ValueError if it is not JSON."""
        text = json.dumps(dict(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        with self._buffer_lock:
            self._buffer[kind, key] = text

    def remove(self, kind: str, key: str) -> None:
        """Buffer the removal of a record; a missing one is no error."""
        with self._buffer_lock:
            self._buffer[kind, key] = None

    def commit(self) -> None:
        """Write the buffered changes, all or nothing, and return when they are on the disk. After a StoreError they are
        still buffered, and the next commit retries."""
        with self._write_lock:
            with self._buffer_lock:
                taken, self._buffer = self._buffer, {}
            if not taken:
                return
            try:
                with failures_named(self.path), transaction(self._db):
                    self._db.executemany(
                        "DELETE FROM record WHERE kind = ? AND key = ?",
                        [name for name, text in taken.items() if text is None],
                    )
                    self._db.executemany(
                        "INSERT OR REPLACE INTO record VALUES (?, ?, ?, ?)",
                        [
                            (*name, text, texts_checksum(*name, text))
                            for name, text in taken.items()
                            if text is not None
                        ],
                    )
            except BaseException:
                with self._buffer_lock:
                    self._buffer = taken | self._buffer
                raise

    def discard(self) -> None:
        """Discard the buffered changes."""
        with self._buffer_lock:
            self._buffer = {}

    def close(self) -> None:
        """Close the file. Buffered changes are lost."""
        with self._write_lock:
            self._db.close()

    def _decode(self, kind: str, key: str, text: str) -> dict[str, Any]:
        try:
            value = json.loads(text)
        except ValueError as error:
            raise StoreError(f"{self.path} is damaged: record {kind} {key}: {error}") from error
        if not isinstance(value, dict):
            raise StoreError(f"{self.path} is damaged: record {kind} {key} is not a map")
        return value
