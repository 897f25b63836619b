"""The DuckDB database that the queries of this process run in, one after another of them.

DuckDB keeps the footer of each Parquet file that it has read, which makes the next query of that file several times
as quick, and gives none of them back, not even of files that have been deleted since: 38 KB for one of 25 columns in
DuckDB 2.0, as long as the database is there. The pipeline writes new files every few seconds. So a database that has
read `MOST_FILES` is replaced by a new one, and is gone when the last query in it has ended.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import duckdb

#: Some 75 MB of footers; a queue's month has some thirty files.
MOST_FILES = 2000
_MEMORY = "512MB"
_THREADS = 2

Connection = duckdb.DuckDBPyConnection


class QueryDatabase:
    """Safe to use from several threads. Nothing is opened before the first query."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._first: Connection | None = None  # holds the database open
        self._idle: list[Connection] = []
        self._files: set[str] = set()

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """A connection for one query, which the next one may use again."""
        with self._lock:
            first = self._opened()
            connection = self._idle.pop() if self._idle else first.cursor()
        try:
            yield connection
        finally:
            with self._lock:
                current = self._first is first
                if current:
                    self._idle.append(connection)
            if not current:
                connection.close()

    def cursor(self) -> Connection:
        """A connection of the caller's own, who closes it."""
        with self._lock:
            return self._opened().cursor()

    def note(self, paths: Iterable[str]) -> None:
        """These files are about to be read."""
        with self._lock:
            self._files.update(paths)
            if len(self._files) <= MOST_FILES or self._first is None:
                return
            idle = self._idle
            # The first one is dropped and not closed: that would close the others with it, in the middle of a query.
            self._first, self._idle, self._files = None, [], set()
        for connection in idle:
            connection.close()

    def _opened(self) -> Connection:
        if self._first is None:
            settings: dict[str, str | bool | int | float | list[str]] = {
                "threads": _THREADS,
                "memory_limit": _MEMORY,
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
            }
            self._first = duckdb.connect(":memory:", config=settings)
            self._first.execute("SET GLOBAL parquet_metadata_cache = true; SET GLOBAL TimeZone = 'UTC'")
        return self._first
