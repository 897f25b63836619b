"""SQL queries over the history's tables, for the pages and the API: selects the current files and runs DuckDB on them.

A table is opened once per process; its list of files is refreshed when its log has grown, at most every
`FRESH_SECONDS`. A query states its time range, so that only files of those days (and, by the files' statistics, of
those brokers, kinds and names) are read. DuckDB reads them (`query_database.py`).

This module does not interpret rows and never writes. It does not need Spark.
"""

from __future__ import annotations

import copy
import datetime as dt
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

import duckdb

from console.history.storage.layout import LAYOUTS, Layout, table_url
from console.history.storage.object_store import ObjectStore, StoreError
from console.history.storage.query_database import Connection, QueryDatabase
from console.history.storage.table_files import TableFile, table_files

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

#: Seconds for which a list of files is cached.
FRESH_SECONDS = 1.0

Row = dict[str, Any]
T = TypeVar("T")
#: Exceptions for an unreadable file; on an object store DuckDB wraps those of pyarrow.
_UNREADABLE = (duckdb.IOException,)
_UNREADABLE_ON_A_STORE = (duckdb.IOException, StoreError, duckdb.InvalidInputException)


class NothingRecorded(LookupError):
    """A required table does not exist: nothing has been recorded yet, or the pipeline has not run."""


class HistoryBroken(Exception):
    """The history cannot be read. The message is a sentence with the table and the reason."""


@dataclass(frozen=True, slots=True)
class Extent:
    """The size of a table. `size`: bytes; `first`, `last`: first day of its oldest and of its newest partition."""

    files: int
    rows: int
    size: int
    first: dt.date | None
    last: dt.date | None


class _Table:
    """A Delta table with a cached list of files."""

    def __init__(self, url: str, name: str) -> None:
        self.name = name
        self.layout: Layout = LAYOUTS[name]
        self._url = table_url(url, name)
        self._delta: DeltaTable | None = None
        self._files: list[TableFile] = []
        self._version = -1
        self._refreshed_at = float("-inf")
        self._lock = threading.Lock()

    def files(self, *, refresh: bool = False) -> list[TableFile]:
        """Return the current files. Raises NothingRecorded, HistoryBroken."""
        with self._lock:
            if refresh or time.monotonic() - self._refreshed_at >= FRESH_SECONDS:
                self._refresh()
                self._refreshed_at = time.monotonic()
            return self._files

    def _refresh(self) -> None:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError, TableNotFoundError

        try:
            if self._delta is None:
                self._delta = DeltaTable(self._url)
            else:
                self._delta.update_incremental()
            version = self._delta.version()
            if version != self._version:
                self._files = self._listed(self._delta)
                self._version = version
        except (TableNotFoundError, FileNotFoundError) as error:
            self._forget()
            raise NothingRecorded(f"the history has no table {self.name!r} yet") from error
        except (DeltaError, OSError, ValueError, KeyError) as error:
            self._forget()
            # The library has no exception type for this.
            if "no log files" in str(error).lower() or "not a delta table" in str(error).lower():
                raise NothingRecorded(f"the history has no table {self.name!r} yet") from error
            raise HistoryBroken(
                f"The table {self.name!r} of the history cannot be read: {first_line(error)}"
            ) from error

    def _forget(self) -> None:
        self._delta, self._files, self._version = None, [], -1

    def _listed(self, delta: DeltaTable) -> list[TableFile]:
        """Return the files with paths for DuckDB."""
        base = self._url.rstrip("/")
        local = "://" not in base
        found = []
        for file in table_files(delta, self.layout):
            path = unquote(file.path) if local else file.path
            found.append(replace(file, path=path if "://" in path or path.startswith("/") else f"{base}/{path}"))
        return found

    def paths(
        self, begin: dt.datetime | None, end: dt.datetime | None, where: Mapping[str, Any], *, refresh: bool = False
    ) -> list[str]:
        """Return the paths of the files that may have rows of [begin, end) with these values. None: no bound."""
        return [
            file.path
            for file in self.files(refresh=refresh)
            if file.may_have_days(begin, end)
            and all(file.may_have_text(column, value) for column, value in where.items() if isinstance(value, str))
        ]


@dataclass(frozen=True, slots=True)
class _Query:
    sql: str
    parameters: dict[str, Any]
    begin: int | None
    end: int | None
    where: Mapping[str, Any]
    optional: tuple[str, ...] = ()


class Reader:
    """`url`: the history's root, as for `landing.Landing`. Thread-safe."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._store = ObjectStore(url) if "://" in url else None
        self._unreadable = _UNREADABLE_ON_A_STORE if self._store else _UNREADABLE
        self._tables = {name: _Table(url, name) for name in LAYOUTS}
        self._database = QueryDatabase()
        self._condition: Callable[[str], str] | None = None

    def only(self, condition: Callable[[str], str]) -> Reader:
        """Return a reader of the same tables, restricted to rows that meet the SQL condition `condition(table)`; "":
        all rows."""
        narrower = copy.copy(self)
        narrower._condition = condition
        return narrower

    def has(self, name: str) -> bool:
        """Return whether the table exists and has a file. Raises HistoryBroken."""
        if name not in self._tables:
            return False
        try:
            return bool(self._tables[name].files())
        except NothingRecorded:
            return False

    def extent(self, name: str) -> Extent:
        """Return the current files. Raises NothingRecorded, HistoryBroken."""
        files = self._tables[name].files()
        days = [file.partition for file in files]
        return Extent(
            len(files),
            sum(file.rows for file in files),
            sum(file.size for file in files),
            min(days, default=None),
            max(days, default=None),
        )

    def rows(
        self,
        sql: str,
        parameters: Mapping[str, Any] | None = None,
        *,
        begin: int | None = None,
        end: int | None = None,
        where: Mapping[str, Any] | None = None,
        optional: Sequence[str] = (),
    ) -> list[Row]:
        """Return the rows of a query, in which `{minutes}` denotes that table.

        `begin`, `end`: ms, the time range of the rows, so that other files are not opened; the query itself still needs
        the conditions. `where`: the same for columns with a single value. `optional`: tables that count as empty if
        they do not exist. Raises NothingRecorded, HistoryBroken.
        """
        query = _Query(sql, dict(parameters or {}), begin, end, where or {}, tuple(optional))
        # On an object store the files are registered with the connection, so each query has its own.
        return self._answer(query, _as_rows, self._own_connection if self._store else self._database.connection)

    def batches(
        self,
        sql: str,
        parameters: Mapping[str, Any] | None = None,
        *,
        begin: int | None = None,
        end: int | None = None,
        where: Mapping[str, Any] | None = None,
        rows: int = 10_000,
    ) -> pa.RecordBatchReader:
        """As `rows`, in batches of `rows` rows, for exports. Raises before the first batch."""

        def opened(connection: Connection, text: str, given: dict[str, Any]) -> pa.RecordBatchReader:
            return connection.sql(text, params=given).to_arrow_reader(rows)

        query = _Query(sql, dict(parameters or {}), begin, end, where or {})
        return self._answer(query, opened, self._own_connection)

    # -- inside ---------------------------------------------------------------------------------------------------

    def _answer(
        self,
        query: _Query,
        read: Callable[[Connection, str, dict[str, Any]], T],
        connection: Callable[[], AbstractContextManager[Connection]],
    ) -> T:
        for refresh in (False, True):
            try:
                with connection() as on:
                    return read(on, self._with_sources(query, on, refresh=refresh), query.parameters)
            except self._unreadable as error:
                # A missing file was removed by a newer version of its table: refresh.
                if refresh:
                    raise HistoryBroken(f"A file of the history cannot be read: {first_line(error)}") from error
            except (duckdb.InvalidInputException, duckdb.BinderException, duckdb.OutOfMemoryException) as error:
                raise HistoryBroken(f"The history cannot be read: {first_line(error)}") from error
        raise AssertionError("unreachable")

    def _with_sources(self, query: _Query, connection: Connection, *, refresh: bool) -> str:
        sql = query.sql
        bounds = (
            None if query.begin is None else moment(query.begin),
            None if query.end is None else moment(query.end),
        )
        for name, table in self._tables.items():
            if f"{{{name}}}" not in sql:
                continue
            try:
                paths = table.paths(*bounds, query.where, refresh=refresh)
            except NothingRecorded:
                if name not in query.optional:
                    raise
                paths = []
            sql = sql.replace(f"{{{name}}}", self._restricted(name, self._source(name, paths, connection)))
        return sql

    def _restricted(self, name: str, source: str) -> str:
        condition = self._condition(name) if self._condition else ""
        # The condition is generated by the console, with quoted texts.
        return f"(SELECT * FROM {source} WHERE {condition})" if condition else source  # noqa: S608

    def _source(self, name: str, paths: list[str], connection: Connection) -> str:
        if not paths:
            return _without_rows(name)
        if self._store is not None:
            connection.register(f"files_of_{name}", self._store.rows(paths))
            return f"files_of_{name}"
        self._database.note(paths)
        quoted = ", ".join("'" + path.replace("'", "''") + "'" for path in paths)
        return f"read_parquet([{quoted}], hive_partitioning = false)"

    def _own_connection(self) -> AbstractContextManager[Connection]:
        """Return a connection used by no other query, which lives as long as its results."""
        return nullcontext(self._database.cursor())


@lru_cache(maxsize=4)
def reader_of(url: str) -> Reader:
    """Return this process's reader, whose lists of files are shared."""
    return Reader(url)


def moment(ms: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(ms / 1000, dt.UTC)


def _as_rows(connection: Connection, sql: str, given: dict[str, Any]) -> list[Row]:
    cursor = connection.execute(sql, given)
    names = [column[0] for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _without_rows(name: str) -> str:
    """Return a subquery with the table's columns and no rows."""
    columns = ", ".join(f'CAST(NULL AS {kind}) AS "{column}"' for column, kind in columns_of(name))
    return f"(SELECT {columns} WHERE false)"


_KINDS = {
    "string": "VARCHAR",
    "bigint": "BIGINT",
    "double": "DOUBLE",
    "boolean": "BOOLEAN",
    "timestamp": "TIMESTAMPTZ",
    "array<string>": "VARCHAR[]",
}
_OF_ARROW = {
    "string": "string",
    "int64": "bigint",
    "double": "double",
    "bool": "boolean",
    "timestamp[ms, tz=UTC]": "timestamp",
}


def columns_of(name: str) -> list[tuple[str, str]]:
    """Return (name, DuckDB type) of a table's columns."""
    declared = LAYOUTS[name].columns
    if declared:
        return [(word, _KINDS[kind]) for word, kind in (one.split() for one in declared.split(","))]
    from console.history.storage.landing import SCHEMAS

    return [(field.name, _KINDS[_OF_ARROW.get(str(field.type), "array<string>")]) for field in SCHEMAS[name]]


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, without DuckDB's name of the error type."""
    line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return re.sub(r"^[A-Z][\w ]* Error: ", "", line)
