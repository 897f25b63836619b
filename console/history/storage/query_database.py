"""The DuckDB database of this process's queries, which is replaced from time to time.

DuckDB caches the footer of each Parquet file that it has read, which makes the next query of that file several times
as fast, but never evicts one, not even those of deleted files: 38 KB for a file of 25 columns in DuckDB 2.0. The
pipeline writes new files every few seconds. So a database that has read `MOST_FILES` is replaced by a new one, and is
freed when its last query has ended.

What does not fit the memory of a query, such as the order of a large export, is written to files, up to a limit: DuckDB
itself would take up to 90 % of the disk, which may be that of a broker's messages.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import duckdb

#: About 75 MB of footers; a queue's month has about thirty files.
MOST_FILES = 2000
_MEMORY = "512MB"
_FILES = "2GB"
_THREADS = 2

Connection: TypeAlias = "duckdb.DuckDBPyConnection"


class QueryDatabase:
    """Thread-safe. Opened on the first query."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._first: Connection | None = None  # keeps the database open
        self._idle: list[Connection] = []
        self._files: set[str] = set()

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """Return a connection for one query, which later queries reuse."""
        with self._lock:
            first = self._open()
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
        """Return a new connection, which the caller closes."""
        with self._lock:
            return self._open().cursor()

    def note(self, paths: Iterable[str]) -> None:
        """Count these files as read; replace the database if it has read too many."""
        with self._lock:
            self._files.update(paths)
            if len(self._files) <= MOST_FILES or self._first is None:
                return
            idle = self._idle
            # The first connection is not closed, since that would close the others during their queries.
            self._first, self._idle, self._files = None, [], set()
        for connection in idle:
            connection.close()

    def _open(self) -> Connection:
        if self._first is None:
            import duckdb

            settings: dict[str, str | bool | int | float | list[str]] = {
                "threads": _THREADS,
                "memory_limit": _MEMORY,
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
            }
            self._first = duckdb.connect(":memory:", config=settings)
            self._first.execute("SET GLOBAL parquet_metadata_cache = true; SET GLOBAL TimeZone = 'UTC'")
            # Given to `connect` it would be shown, but have no effect.
            self._first.execute(f"SET GLOBAL max_temp_directory_size = '{_FILES}'")
        return self._first
