"""The web side's reads of the history's tables: which files a table consists of now, and SQL over those that matter.

A table is opened once in a process; its list of files is brought up to date when its log has grown, at most every
`FRESH_SECONDS`. A query names the time that it is about, so only the files of those days (and of those brokers, kinds
and names, as far as the files' statistics tell) are read. DuckDB reads them (`query_database.py`).

Nothing here knows what rows mean, and nothing here writes. Spark is not needed.
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

#: A list of files is believed for so long.
FRESH_SECONDS = 1.0

Row = dict[str, Any]
T = TypeVar("T")
#: What is raised for a file that cannot be read; on a store DuckDB passes on what pyarrow told it.
_UNREADABLE = (duckdb.IOException,)
_UNREADABLE_ON_A_STORE = (duckdb.IOException, StoreError, duckdb.InvalidInputException)


class NothingRecorded(LookupError):
    """A table that a question needs is not there: nothing has been recorded yet, or the pipeline has not run."""


class HistoryBroken(Exception):
    """The history cannot be read. The message is a sentence for people that names the table and the reason."""


@dataclass(frozen=True, slots=True)
class Extent:
    """How large a table is. `size`: bytes; `first`, `last`: the first days of its oldest and newest partition."""

    files: int
    rows: int
    size: int
    first: dt.date | None
    last: dt.date | None


class _Table:
    """One Delta table: its files as of some moment."""

    def __init__(self, url: str, name: str) -> None:
        self.name = name
        self.layout: Layout = LAYOUTS[name]
        self._url = table_url(url, name)
        self._delta: DeltaTable | None = None
        self._files: list[TableFile] = []
        self._version = -1
        self._looked = float("-inf")
        self._lock = threading.Lock()

    def files(self, *, anew: bool = False) -> list[TableFile]:
        """Raises NothingRecorded, HistoryBroken."""
        with self._lock:
            if anew or time.monotonic() - self._looked >= FRESH_SECONDS:
                self._refresh()
                self._looked = time.monotonic()
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
            # The library says so in words alone.
            if "no log files" in str(error).lower() or "not a delta table" in str(error).lower():
                raise NothingRecorded(f"the history has no table {self.name!r} yet") from error
            raise HistoryBroken(
                f"The table {self.name!r} of the history cannot be read: {first_line(error)}"
            ) from error

    def _forget(self) -> None:
        self._delta, self._files, self._version = None, [], -1

    def _listed(self, delta: DeltaTable) -> list[TableFile]:
        """With paths as DuckDB opens them."""
        base = self._url.rstrip("/")
        local = "://" not in base
        found = []
        for file in table_files(delta, self.layout):
            path = unquote(file.path) if local else file.path
            found.append(replace(file, path=path if "://" in path or path.startswith("/") else f"{base}/{path}"))
        return found

    def about(
        self, begin: dt.datetime | None, end: dt.datetime | None, where: Mapping[str, Any], *, anew: bool = False
    ) -> list[str]:
        """Paths of the files that may have rows of [begin, end) with these values. None: no bound."""
        return [
            file.path
            for file in self.files(anew=anew)
            if file.may_have_days(begin, end)
            and all(file.may_have_text(column, value) for column, value in where.items() if isinstance(value, str))
        ]


@dataclass(frozen=True, slots=True)
class _Question:
    sql: str
    parameters: dict[str, Any]
    begin: int | None
    end: int | None
    where: Mapping[str, Any]
    optional: tuple[str, ...] = ()


class Reader:
    """`url`: the history's root, as for `landing.Landing`. Safe to use from several threads."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._store = ObjectStore(url) if "://" in url else None
        self._unreadable = _UNREADABLE_ON_A_STORE if self._store else _UNREADABLE
        self._tables = {name: _Table(url, name) for name in LAYOUTS}
        self._database = QueryDatabase()
        self._condition: Callable[[str], str] | None = None

    def only(self, condition: Callable[[str], str]) -> Reader:
        """The same tables, in which only those rows are there that meet a condition in SQL: `condition(table)`, "" for
        all of them."""
        narrower = copy.copy(self)
        narrower._condition = condition
        return narrower

    def has(self, name: str) -> bool:
        """Whether the table is there and has a file. Raises HistoryBroken."""
        if name not in self._tables:
            return False
        try:
            return bool(self._tables[name].files())
        except NothingRecorded:
            return False

    def extent(self, name: str) -> Extent:
        """Raises NothingRecorded, HistoryBroken."""
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
        """The rows of a query, in which `{minutes}` stands for that table.

        `begin`, `end`: ms, the time that the rows read lie in, so that other files are not opened; the query itself
        still says which rows it wants. `where`: the same for columns with one value. `optional`: tables that count as
        empty while they are not there. Raises NothingRecorded, HistoryBroken.
        """
        asked = _Question(sql, dict(parameters or {}), begin, end, where or {}, tuple(optional))
        # What is registered for a query on an object store goes with its connection.
        return self._answer(asked, _as_rows, self._own if self._store else self._database.connection)

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
        """As `rows`, a part at a time: for downloads. Raises before there is a first part."""

        def opened(connection: Connection, text: str, given: dict[str, Any]) -> pa.RecordBatchReader:
            return connection.sql(text, params=given).to_arrow_reader(rows)

        asked = _Question(sql, dict(parameters or {}), begin, end, where or {})
        return self._answer(asked, opened, self._own)

    # -- inside ---------------------------------------------------------------------------------------------------

    def _answer(
        self,
        asked: _Question,
        read: Callable[[Connection, str, dict[str, Any]], T],
        connection: Callable[[], AbstractContextManager[Connection]],
    ) -> T:
        for anew in (False, True):
            try:
                with connection() as on:
                    return read(on, self._with_sources(asked, on, anew=anew), asked.parameters)
            except self._unreadable as error:
                # A file that is gone was dropped by a newer version of its table: ask for that.
                if anew:
                    raise HistoryBroken(f"A file of the history cannot be read: {first_line(error)}") from error
            except (duckdb.InvalidInputException, duckdb.BinderException, duckdb.OutOfMemoryException) as error:
                raise HistoryBroken(f"The history cannot be read: {first_line(error)}") from error
        raise AssertionError("unreachable")

    def _with_sources(self, asked: _Question, connection: Connection, *, anew: bool) -> str:
        sql = asked.sql
        bounds = (
            None if asked.begin is None else moment(asked.begin),
            None if asked.end is None else moment(asked.end),
        )
        for name, table in self._tables.items():
            if f"{{{name}}}" not in sql:
                continue
            try:
                paths = table.about(*bounds, asked.where, anew=anew)
            except NothingRecorded:
                if name not in asked.optional:
                    raise
                paths = []
            sql = sql.replace(f"{{{name}}}", self._seen(name, self._source(name, paths, connection)))
        return sql

    def _seen(self, name: str, source: str) -> str:
        condition = self._condition(name) if self._condition else ""
        # The condition is of this console's own making, its texts quoted.
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

    def _own(self) -> AbstractContextManager[Connection]:
        """A connection that lasts as long as what was made of it: no other query uses it, and nothing closes it."""
        return nullcontext(self._database.cursor())


@lru_cache(maxsize=4)
def reader_of(url: str) -> Reader:
    """The one of this process: what it has found out of the tables is found out once."""
    return Reader(url)


def moment(ms: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(ms / 1000, dt.UTC)


def _as_rows(connection: Connection, sql: str, given: dict[str, Any]) -> list[Row]:
    cursor = connection.execute(sql, given)
    names = [column[0] for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _without_rows(name: str) -> str:
    """A subquery that has the table's columns."""
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
    """A table's columns with DuckDB's names of their types."""
    declared = LAYOUTS[name].columns
    if declared:
        return [(word, _KINDS[kind]) for word, kind in (one.split() for one in declared.split(","))]
    from console.history.storage.landing import SCHEMAS

    return [(field.name, _KINDS[_OF_ARROW.get(str(field.type), "array<string>")]) for field in SCHEMAS[name]]


def first_line(error: BaseException) -> str:
    """The first line of what a library said, without its own name for the kind of error."""
    line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return re.sub(r"^[A-Z][\w ]* Error: ", "", line)
