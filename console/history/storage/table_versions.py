"""Open tables of the history: the current version of each, its files and what it contains. Without Spark.

A table is opened once per process; its list of files is refreshed when its log has grown, at most every
`FRESH_SECONDS`.
"""

from __future__ import annotations

import datetime as dt
import re
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from console.history.storage.landing_names import rolled_id
from console.history.storage.layout import LAYOUTS, Layout, table_url
from console.history.storage.table_files import TableFile, table_files

if TYPE_CHECKING:
    from deltalake import DeltaTable

#: Seconds for which a list of files is cached.
FRESH_SECONDS = 1.0


class NothingRecorded(LookupError):
    """A required table does not exist: nothing has been recorded yet, or the pipeline has not run."""


class HistoryBroken(Exception):
    """The history cannot be read. The message is a sentence with the table and the reason."""


def broken(table: str, error: BaseException) -> HistoryBroken:
    return HistoryBroken(f"The table {table!r} of the history cannot be read: {first_line(error)}")


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a table. `exists`: whether there is one; `contains`: by transaction identifier."""

    files: list[TableFile]
    contains: Mapping[str, int | None]
    number: int
    exists: bool = True


class OpenTable:
    """A Delta table with a cached list of files."""

    def __init__(self, url: str, name: str) -> None:
        self.name = name
        self.layout: Layout = LAYOUTS[name]
        self._url = table_url(url, name)
        self._delta: DeltaTable | None = None
        self._files: list[TableFile] = []
        self._contains: dict[str, int | None] = {}  # by transaction identifier
        self._version = -1
        self._refreshed_at = float("-inf")
        self._lock = threading.Lock()

    def files(self) -> list[TableFile]:
        """Return the current files. Raises NothingRecorded, HistoryBroken."""
        with self._lock:
            if time.monotonic() - self._refreshed_at >= FRESH_SECONDS:
                self._refresh()
                self._refreshed_at = time.monotonic()
            return self._files

    def version(self, identifiers: Iterable[str], *, refresh: bool = False) -> Version:
        """Return the current files and what they contain. `refresh`: a file is missing, so the table is opened again:
        it may have been removed. Raises HistoryBroken."""
        with self._lock:
            if refresh:
                self._forget()
            if refresh or time.monotonic() - self._refreshed_at >= FRESH_SECONDS:
                try:
                    self._refresh()
                except NothingRecorded:
                    return Version([], {}, -1, exists=False)
                self._refreshed_at = time.monotonic()
            if self._delta is None:
                return Version([], {}, -1, exists=False)
            for each in identifiers:
                if each not in self._contains:
                    self._contains[each] = self._delta.transaction_version(each)
            return Version(self._files, {each: self._contains[each] for each in identifiers}, self._version)

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
                self._contains = {}
                self._version = version
        except (TableNotFoundError, FileNotFoundError) as error:
            self._forget()
            raise NothingRecorded(f"the history has no table {self.name!r} yet") from error
        except (DeltaError, OSError, ValueError, KeyError) as error:
            self._forget()
            # The library has no exception type for this.
            if "no log files" in str(error).lower() or "not a delta table" in str(error).lower():
                raise NothingRecorded(f"the history has no table {self.name!r} yet") from error
            raise broken(self.name, error) from error

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


def selected(
    files: Iterable[TableFile], begin: dt.datetime | None, end: dt.datetime | None, where: Mapping[str, Any]
) -> list[str]:
    """Return the paths of the files that may have rows of [begin, end) with these values. None: no bound."""
    return [
        file.path
        for file in files
        if file.may_have_days(begin, end)
        and all(file.may_have_text(column, value) for column, value in where.items() if isinstance(value, str))
    ]


def rolled_until(url: str, broker: str) -> int | None:
    """Return the time up to which all tables of rollups contain those of the broker, ms; None if one does not state it.
    Raises deltalake's errors."""
    from deltalake import DeltaTable
    from deltalake.exceptions import TableNotFoundError

    found = []
    for name in ("minutes", "hours", "days"):
        try:
            found.append(DeltaTable(table_url(url, name)).transaction_version(rolled_id(broker)))
        except TableNotFoundError:
            return None
    stated = [each for each in found if each is not None]
    return min(stated) if len(stated) == len(found) else None


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, without DuckDB's name of the error type."""
    line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return re.sub(r"^[A-Z][\w ]* Error: ", "", line)
