"""SQL queries over the history, for the pages and the API: selects the current files and runs DuckDB on them.

`{minutes}` in a query is the table up to T and what the recorders publish from T on (`fresh.py`, `combined.py`). What a
table contains is known from the version whose files are read, so that nothing is missing or doubled in between. Lists
of published files are cached like those of tables (`table_versions.py`).

A query states its time range, so that only files of those days (and, by the files' statistics, of those brokers, kinds
and names) are read. DuckDB reads them (`query_database.py`).

This module does not interpret rows and never writes. It does not need Spark.
"""

from __future__ import annotations

import copy
import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from console.history.storage import combined, table_versions
from console.history.storage.durations import DAY, HOUR, MINUTE
from console.history.storage.fresh import RAW, Catalog
from console.history.storage.landing_keys import LandingError
from console.history.storage.landing_names import landed_id, rolled_id
from console.history.storage.layout import LAYOUTS
from console.history.storage.object_store import ObjectStore, StoreError
from console.history.storage.published_files import PublishedFiles, View, path_of
from console.history.storage.query_database import Connection, QueryDatabase
from console.history.storage.table_files import TableFile
from console.history.storage.table_versions import (
    HistoryBroken,
    NothingRecorded,
    OpenTable,
    Version,
    first_line,
    selected,
)

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["HistoryBroken", "NothingRecorded", "Reader", "columns_of", "moment", "reader_of"]

_STEPS = {"minutes": MINUTE, "hours": HOUR, "days": DAY}
_MOST_NEWEST = 1000

Row = dict[str, Any]
T = TypeVar("T")


def _unreadable(*, on_store: bool) -> tuple[type[Exception], ...]:
    """Return the exceptions for an unreadable file; on an object store DuckDB wraps those of pyarrow."""
    import duckdb

    return (duckdb.IOException, StoreError, duckdb.InvalidInputException) if on_store else (duckdb.IOException,)


@dataclass(frozen=True, slots=True)
class Extent:
    """The size of a table. `size`: bytes; `first`, `last`: first day of its oldest and of its newest partition."""

    files: int
    rows: int
    size: int
    first: dt.date | None
    last: dt.date | None


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
        self._unreadable = _unreadable(on_store=self._store is not None)
        self._tables = {name: OpenTable(url, name) for name in LAYOUTS}
        self._published = PublishedFiles(url)
        self._newest: dict[tuple[str, int, str], int | None] = {}  # of tables that do not state what they contain
        self._database = QueryDatabase()
        self._condition: Callable[[str], str] | None = None

    def only(self, condition: Callable[[str], str]) -> Reader:
        """Return a reader of the same tables, restricted to rows that meet the SQL condition `condition(table)`; "":
        all rows."""
        narrower = copy.copy(self)
        narrower._condition = condition
        return narrower

    def is_stored(self, name: str) -> bool:
        """Return whether the table exists and has a file: only for a table that recorders do not publish rows of.
        Raises HistoryBroken."""
        if name not in self._tables:
            return False
        try:
            return bool(self._tables[name].files())
        except NothingRecorded:
            return False

    def is_published(self) -> bool:
        """Return whether a recorder publishes into this history. Raises HistoryBroken."""
        try:
            return bool(self._published.view(table_versions.FRESH_SECONDS, kinds=()).catalogs)
        except LandingError as error:
            raise HistoryBroken(f"What the recorders published cannot be read: {error}") from error

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
        import duckdb

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
        names = [name for name in self._tables if f"{{{name}}}" in sql]
        kinds = tuple(name for name in names if name in RAW)
        try:
            # Before the tables' logs: see `fresh.py`.
            view = self._published.view(0.0 if refresh else table_versions.FRESH_SECONDS, kinds=kinds)
        except LandingError as error:
            raise HistoryBroken(f"What the recorders published cannot be read: {error}") from error
        catalogs = _of_query(view, query)
        for name in names:
            version = self._tables[name].version(_identifiers(name, catalogs), refresh=refresh)
            if not version.exists and not view.catalogs and name not in query.optional:
                raise NothingRecorded(f"the history has no table {name!r} yet")
            source = self._combined(name, query, version, view, connection)
            sql = sql.replace(f"{{{name}}}", self._restricted(name, source))
        return sql

    def _combined(self, name: str, query: _Query, version: Version, view: View, connection: Connection) -> str:
        """Return the source of a table's rows and the recorders'."""
        catalogs = _of_query(view, query)
        begin, end = (None if each is None else moment(each) for each in (query.begin, query.end))
        stored = self._source(name, selected(version.files, begin, end, query.where), connection)
        columns = [column for column, _ in columns_of(name)]
        brokers = [each.broker for each in catalogs]
        match name:
            case "events" | "samples" | "coverage":
                taken = (
                    {broker: version.contains[landed_id(name, broker)] for broker in brokers} if version.exists else {}
                )
                paths = _unstored(name, view, catalogs, taken, query)
                if not paths:
                    return stored
                unstated = [broker for broker, last in taken.items() if last is None]
                newest = self._newest_rows(name, version, unstated)
                fresh = self._fresh_source(name, paths, connection)
                return combined.raw(name, columns, stored, fresh, newest)
            case "minutes" | "hours" | "days":
                since = self._since(name, version, brokers)
                ahead = set() if name == "days" else _ahead(catalogs, since)
                files = [
                    (each.broker, file)
                    for each in catalogs
                    for file in each.files.get("hours" if name == "days" else name, ())
                    if (each.broker in ahead or file.last >= since.get(each.broker, 0))
                    and (end is None or query.end is None or file.first < query.end)
                    and (query.begin is None or name == "days" or file.last >= query.begin)
                ]
                if not files:
                    return stored
                fresh = self._fresh_source(name, [path_of(*each) for each in files], connection)
                if name == "days":
                    first = min(max(file.first, since.get(broker, 0)) for broker, file in files)
                    return combined.days(columns, stored, fresh, since, first)
                return combined.rollups(columns, stored, fresh, since, ahead)
            case "episodes" | "holds":
                files = [(each.broker, file) for each in catalogs for file in each.files.get(name, ())]
                if not files:
                    return stored
                fresh = self._fresh_source(name, [path_of(*each) for each in files], connection)
                return combined.intervals(name, columns, stored, fresh, min(file.first for _, file in files))
        return stored

    def _since(self, name: str, version: Version, brokers: Iterable[str]) -> dict[str, int]:
        """Return the time up to which a table of rollups contains the rows of each broker, ms."""
        if not version.exists:
            return {}
        stated = {broker: version.contains[rolled_id(broker)] for broker in brokers}
        newest = self._newest_rows(name, version, [broker for broker, since in stated.items() if since is None])
        step = _STEPS[name]
        return {broker: since for broker, since in stated.items() if since is not None} | {
            broker: at + step for broker, at in newest.items()
        }

    def _newest_rows(self, name: str, version: Version, brokers: Iterable[str]) -> dict[str, int]:
        """Return the time of the newest row of each broker, ms, in a table that does not state what it contains: one
        written by a release without transaction identifiers."""
        found = {}
        for broker in brokers:
            key = (name, version.number, broker)
            if key not in self._newest:
                if len(self._newest) > _MOST_NEWEST:
                    self._newest.clear()
                files = sorted(
                    (file for file in version.files if file.may_have_text("broker", broker)),
                    key=lambda file: file.partition,
                )
                self._newest[key] = self._newest_row(name, files, broker)
            if (at := self._newest[key]) is not None:
                found[broker] = at
        return found

    def _newest_row(self, name: str, files: Sequence[TableFile], broker: str) -> int | None:
        last = [file.path for file in files if file.partition == files[-1].partition]
        if not last:
            return None
        with self._own_connection() as connection:
            source = self._source(name, last, connection)
            sql = f'SELECT epoch_ms(max("at")) FROM {source} WHERE broker = $broker'  # noqa: S608 -- own names
            found: int | None = connection.execute(sql, {"broker": broker}).fetchall()[0][0]
        return found

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
        return self._scanned(paths)

    def _scanned(self, paths: Sequence[str]) -> str:
        self._database.note(paths)
        return f"read_parquet([{', '.join(map(combined.text, paths))}], hive_partitioning = false)"

    def _fresh_source(self, name: str, paths: list[str], connection: Connection) -> str:
        """Return the source of files that recorders published. `paths`: relative to the history's root."""
        base = self.url.rstrip("/")
        if self._store is not None:
            connection.register(f"fresh_of_{name}", self._store.rows([f"{base}/{quote(path)}" for path in paths]))
            return f"fresh_of_{name}"
        return self._scanned([f"{base}/{path}" for path in paths])

    def _own_connection(self) -> AbstractContextManager[Connection]:
        """Return a connection used by no other query, which lives as long as its results."""
        return nullcontext(self._database.cursor())


def _identifiers(name: str, catalogs: Sequence[Catalog]) -> list[str]:
    """Return the transaction identifiers that state what a table contains of these brokers."""
    if name in RAW:
        return [landed_id(name, each.broker) for each in catalogs]
    return [rolled_id(each.broker) for each in catalogs] if name in _STEPS else []


def _ahead(catalogs: Iterable[Catalog], since: Mapping[str, int]) -> set[str]:
    """Return the brokers of which the tables state rollups of the future. The pipeline completes the hour that a
    recorder has left open, but no later one."""
    return {each.broker for each in catalogs if since.get(each.broker, 0) > each.published + HOUR}


def _of_query(view: View, query: _Query) -> list[Catalog]:
    only = query.where.get("broker")
    return [each for each in view.catalogs.values() if only is None or each.broker == only]


def _unstored(
    kind: str, view: View, catalogs: Sequence[Catalog], taken: Mapping[str, int | None], query: _Query
) -> list[str]:
    """Return the paths of the landing files and tails that a table does not contain."""
    paths = []
    landed: dict[str, int] = {}
    of = {each.broker for each in catalogs}
    for file in view.landed.get(kind, ()):
        if file.broker not in of:
            continue
        landed[file.broker] = max(landed.get(file.broker, 0), file.sequence)
        if file.sequence > (taken.get(file.broker) or 0) and file.may_have(query.begin, query.end):
            paths.append(file.path)
    for each in catalogs:
        tail = each.tail(kind)
        if (
            tail is not None
            and tail.sequence > max(landed.get(each.broker, 0), taken.get(each.broker) or 0)
            and (query.begin is None or tail.last >= query.begin)
            and (query.end is None or tail.first < query.end)
        ):
            paths.append(path_of(each.broker, tail))
    return paths


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
