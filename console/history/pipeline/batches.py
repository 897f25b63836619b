"""Select the landing files of the next run, from their names and footers, and set aside those that cannot be read."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from console.history.storage.landing import SCHEMAS, Landing, LandingError
from console.history.storage.landing_names import broker_of, landed_id, sequence_of
from console.history.storage.layout import LAYOUTS

if TYPE_CHECKING:
    from console.history.storage.tables import Tables

KINDS = ("events", "samples", "coverage")

#: Maximum number of landing files, and of rows, per kind and run, so that a large backlog is processed in steps that
#: fit the heap.
MOST_FILES, MOST_ROWS = 4000, 10_000_000

#: Rows outside of this time are an error of their writer.
_FIRST, _LAST = dt.datetime(1970, 1, 1, tzinfo=dt.UTC), dt.datetime(2200, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True, slots=True)
class LandedFile:
    """A file with rows. `first`, `last`: times of its rows, ms."""

    kind: str
    name: str
    rows: int
    first: int
    last: int
    brokers: frozenset[str]


@dataclass(slots=True)
class Batch:
    """`more`: further files exist; `unreadable`: file that was set aside -> reason."""

    files: list[LandedFile] = field(default_factory=list)
    more: bool = False
    unreadable: dict[str, str] = field(default_factory=dict)

    def names(self, kind: str) -> list[str]:
        return [file.name for file in self.files if file.kind == kind]

    def rows(self, kind: str) -> int:
        return sum(file.rows for file in self.files if file.kind == kind)

    def bounds(self, kind: str) -> dict[str, tuple[int, int]]:
        """Return (first, last) time of the rows by broker, ms."""
        found: dict[str, tuple[int, int]] = {}
        for file in self.files:
            if file.kind == kind:
                for broker in file.brokers:
                    known = found.get(broker, (file.first, file.last))
                    found[broker] = (min(known[0], file.first), max(known[1], file.last))
        return found

    def sequences(self, kind: str) -> dict[str, int]:
        """Return the versions of transaction identifiers: the last sequence of each recorder."""
        found: dict[str, int] = {}
        for file in self.files:
            number = sequence_of(file.name)
            if file.kind == kind and number is not None:
                name = landed_id(kind, broker_of(file.name))
                found[name] = max(number, found.get(name, 0))
        return found

    def of(self, broker: str) -> Batch:
        """Return the part with rows of this broker. Files with several brokers' rows are in each of their parts."""
        named = {name: why for name, why in self.unreadable.items() if broker_of(name) == broker}
        return Batch([file for file in self.files if broker in file.brokers], self.more, named)

    @property
    def brokers(self) -> set[str]:
        return {broker for file in self.files for broker in file.brokers}


def find_batch(tables: Tables, brokers: Collection[str] | None = None) -> Batch:
    """Return the next batch of these brokers, or of all. Raises LandingError."""
    batch = Batch()
    for kind in KINDS:
        count = rows = 0
        # Files of other brokers are not opened: their number grows with that of the brokers, and other runs remove
        # them.
        names = [
            name
            for name in tables.landing.names(kind)
            if brokers is None or not (broker := broker_of(name)) or broker in brokers
        ]
        for name in unprocessed(tables, kind, names):
            if count >= MOST_FILES or rows >= MOST_ROWS:
                batch.more = True
                break
            try:
                file = inspect(tables.landing, kind, name)
            except LandingError as error:
                if _set_aside(tables.landing, kind, name, str(error)):
                    batch.unreadable[f"{kind}/{name}"] = str(error)
                continue
            if brokers is None or file.brokers <= set(brokers):
                batch.files.append(file)
                count, rows = count + 1, rows + file.rows
    return batch


def unprocessed(tables: Tables, kind: str, names: Collection[str]) -> Iterator[str]:
    """Yield the names of files that the table does not contain: of a recorder's files, those after the last committed
    sequence; other files are removed once they are processed."""
    done: dict[str, int] = {}
    for name in names:
        number = sequence_of(name)
        if number is not None:
            broker = broker_of(name)
            if broker not in done:
                done[broker] = tables.version(kind, landed_id(kind, broker)) or 0
            if number <= done[broker]:
                continue
        yield name


def set_aside_damaged(landing: Landing, batch: Batch) -> dict[str, str]:
    """Read every file of a batch that could not be processed, and set aside those with damaged rows; return their
    reasons. Raises LandingError for a file that cannot be read at all."""
    found = {}
    for file in batch.files:
        try:
            landing.read(file.kind, file.name)
        except LandingError as error:
            if _set_aside(landing, file.kind, file.name, str(error)):
                found[f"{file.kind}/{file.name}"] = str(error)
    return found


def _set_aside(landing: Landing, kind: str, name: str, reason: str) -> bool:
    """Set aside a file whose content cannot be processed. Return False for one that has been removed meanwhile. Raises
    LandingError if the file cannot be read at all, which is no fault of its content: it is processed later."""
    if landing.get(f"landing/{kind}/{name}") is None:
        return False
    landing.set_aside(kind, name, reason)
    return True


def inspect(landing: Landing, kind: str, name: str) -> LandedFile:
    """Return what the footer says about a file. Raises LandingError with the reason if it cannot be processed."""
    footer: pq.FileMetaData = landing.footer(kind, name)
    _check_columns(name, SCHEMAS[kind], footer.schema.to_arrow_schema())
    if not footer.num_rows:
        return LandedFile(kind, name, 0, 0, 0, frozenset())
    first, last = _times(landing, kind, name, footer, LAYOUTS[kind].time)
    if kind == "coverage":
        _times(landing, kind, name, footer, "until")
    low, high = _bounds(landing, kind, name, footer, "broker")
    brokers = [low] if low == high else pc.unique(_column(landing, kind, name, "broker")).to_pylist()
    if "" in brokers:
        raise LandingError(f"{name} has rows without the name of a broker")
    if broker_of(name) and brokers != [broker_of(name)]:
        raise LandingError(f"{name} has rows of other brokers than its name says")
    return LandedFile(kind, name, footer.num_rows, _ms(first), _ms(last), frozenset(map(str, brokers)))


def _times(landing: Landing, kind: str, name: str, footer: pq.FileMetaData, column: str) -> tuple[dt.datetime, ...]:
    try:
        low, high = _bounds(landing, kind, name, footer, column)
    except OverflowError as error:
        raise LandingError(f"{name} has rows before the year 1 or after 9999 ({error})") from error
    first, last = _utc(low), _utc(high)
    if first < _FIRST or last >= _LAST:
        raise LandingError(f"{name} has rows from {first} to {last}: it may have rows of the years 1970 to 2199")
    return first, last


def _check_columns(name: str, wanted: pa.Schema, found: pa.Schema) -> None:
    for column in wanted:
        if column.name in found.names:
            given = found.field(column.name).type
            if not _same_type(column.type, given):
                raise LandingError(f"{name}: the column {column.name} is of type {given}, not {column.type}")
        elif not column.nullable:
            raise LandingError(f"{name} has no column {column.name}")


def _same_type(wanted: pa.DataType, found: pa.DataType) -> bool:
    if pa.types.is_timestamp(wanted):
        return bool(pa.types.is_timestamp(found) and found.tz is not None and found.unit in ("ms", "us"))
    if pa.types.is_list(wanted):
        return bool(pa.types.is_list(found) and pa.types.is_string(found.value_type))
    return bool(wanted == found)


def _bounds(landing: Landing, kind: str, name: str, footer: pq.FileMetaData, column: str) -> tuple[object, object]:
    """Return the least and the greatest value of a column, from the statistics or else from the rows. Raises
    LandingError."""
    index = footer.schema.to_arrow_schema().names.index(column)
    # Columns before the only list are single columns of the file, and so are these.
    of_groups = [footer.row_group(group).column(index) for group in range(footer.num_row_groups)]
    found = [each.statistics for each in of_groups if each.path_in_schema == column]
    if len(found) == len(of_groups) and all(each is not None and each.has_min_max for each in found):
        return min(each.min for each in found), max(each.max for each in found)
    least_and_most = pc.min_max(_column(landing, kind, name, column)).as_py()
    if least_and_most["min"] is None:
        raise LandingError(f"{name}: the column {column} has no values")
    return least_and_most["min"], least_and_most["max"]


def _column(landing: Landing, kind: str, name: str, column: str) -> pa.ChunkedArray:
    values = landing.read(kind, name)[column]
    if values.null_count:
        raise LandingError(f"{name}: the column {column} has rows without a value")
    return values


def _utc(value: object) -> dt.datetime:
    if not isinstance(value, dt.datetime):
        raise LandingError(f"{value!r} is no time")
    return value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value.astimezone(dt.UTC)


def _ms(time: dt.datetime) -> int:
    return round(time.timestamp() * 1000)


def bounds_of(batches: Mapping[str, tuple[int, int]], more: int = 0) -> dict[str, list[tuple[int, int]]]:
    """Return half-open ranges by broker that contain these bounds; `more`: ms added at both ends."""
    return {broker: [(first - more, last + 1 + more)] for broker, (first, last) in batches.items()}
