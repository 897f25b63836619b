"""Commits to the tables: Parquet files become rows of a Delta Lake table, and others cease to be, in one commit.

Spark's executors, or `write_file` here, write the files, and `deltalake` commits them: a reader sees the table
before or after a commit. Each file has rows of one broker and one partition. The statistics come from the files'
footers. Commits of different brokers do not conflict.

A process changes a broker's rows only while it owns the broker's lease. One that was suspended for longer, and does not
know it yet, is refused (`Overtaken`): it would add rows a second time that another process has added meanwhile.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import json
import os
import time
import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Schema, Transaction
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from console.history.storage.file_systems import file_system
from console.history.storage.landing import SCHEMAS
from console.history.storage.layout import LAYOUTS, Layout, table_url
from console.history.storage.table_files import TableFile, table_files
from console.history.storage.table_versions import broken

#: Unused files are removed after this time, which exceeds the duration of any query.
_PROPERTIES = {
    "delta.logRetentionDuration": "interval 1 days",
    "delta.deletedFileRetentionDuration": "interval 1 days",
    "delta.checkpointInterval": "50",
    "delta.enableDeletionVectors": "false",
}
#: Columns with statistics per file, in addition to those of the sort order.
_BOUNDED = ("until", "end")
#: Longer texts have no statistics: Delta's readers take a shortened maximum for the maximum.
_LONGEST_TEXT = 200
#: Commits of other brokers that one commit may be overtaken by.
_RETRIES = 30
_HOOKS = PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False)


class Overtaken(Exception):
    """Another process has changed rows of the broker since this one read them: this one has lost the broker's lease."""


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file that was written but not committed. `path`: relative to the table's folder; `partition`: its first day."""

    path: str
    broker: str
    partition: dt.date


class DeltaFolder:
    """One table. `url`: the history's root, as for `landing.Landing`. The table is created by the first use. Not
    thread-safe."""

    def __init__(self, url: str, name: str) -> None:
        self.name = name
        self.layout: Layout = LAYOUTS[name]
        self.url = table_url(url, name)
        self.schema = arrow_schema(name)
        self._delta: DeltaTable | None = None
        self._is_owned = False
        self._read: dict[str, set[str]] | None = None  # broker -> paths of its files, as read since `begin`

    def current(self) -> DeltaTable:
        """Return the current version. Raises HistoryBroken."""
        try:
            if self._delta is not None and not self._is_removed():
                with contextlib.suppress(DeltaError):  # the table was removed, and created again
                    self._delta.update_incremental()
                    return self._delta
            self._delta = None
            try:
                found = DeltaTable(self.url)
            except TableNotFoundError:
                found = self._create()
            self._add_missing_columns(found)
        except DeltaError as error:
            raise broken(self.name, error) from error
        self._delta = found
        return found

    def _is_removed(self) -> bool:
        """Return whether an operator has removed the table's folder, which the library does not notice."""
        return "://" not in self.url and not os.path.isdir(f"{self.url}/_delta_log")

    def begin(self) -> None:
        """Begin work under leases of brokers: from the next `files` on, nothing else may change their rows."""
        self._is_owned, self._read = True, None

    def end(self) -> None:
        self._is_owned, self._read = False, None

    def files(self) -> list[TableFile]:
        found = table_files(self.current(), self.layout)
        if self._is_owned and self._read is None:
            self._read = {}
            for file in found:
                self._read.setdefault(file.broker, set()).add(unquote(file.path))
        return found

    def version(self, transaction: str) -> int | None:
        """Return the last committed version of a transaction identifier."""
        return self.current().transaction_version(transaction)

    def new_path(self) -> str:
        """Return an unused folder for new files, relative to the table's folder."""
        return uuid.uuid4().hex

    def write_file(self, rows: pa.Table) -> list[NewFile]:
        """Write rows as sorted files, one per broker and partition."""
        layout = self.layout
        rows = rows.select(self.schema.names).cast(self.schema)
        rows = rows.sort_by([(column, "ascending") for column in layout.order])
        days = pc.floor_temporal(rows[layout.time], unit=layout.partition).cast(pa.date32())
        found = []
        for broker in pc.unique(rows["broker"]).to_pylist():
            mine = pc.equal(rows["broker"], broker)
            for day in pc.unique(days.filter(mine)).to_pylist():
                path = f"{self.new_path()}/{partition_folder(broker, day, layout)}/part.parquet"
                self._write(path, rows.filter(pc.and_(mine, pc.equal(days, day))))
                found.append(NewFile(path, broker, day))
        return found

    def commit(
        self,
        added: Iterable[NewFile],
        removed: Collection[TableFile] = (),
        versions: Mapping[str, int] | None = None,
        *,
        same_rows: bool = False,
    ) -> None:
        """Add and remove files in one commit, and set the versions of transaction identifiers. `same_rows`: the files
        contain the same rows, in another arrangement. No changes cause no commit. Raises Overtaken."""
        now = int(time.time() * 1000)
        new = self._additions(added, now, same_rows=same_rows)
        actions: list[AddAction | RemoveAction] = [
            RemoveAction(
                unquote(file.path), not same_rows, now, file.size, self._partition(file.broker, file.partition)
            )
            for file in removed
        ]
        actions += new.values()
        transactions = [Transaction(name, number, now) for name, number in (versions or {}).items()]
        if not actions and not transactions:
            return
        table = self.current()
        before = self._require_unchanged(table, new, removed, versions or {})
        version = table.version()
        self._make_durable(file.path for file in new)
        table.create_write_transaction(
            actions,
            "append",
            self._delta_schema(),
            ["broker", self.layout.partition],
            commit_properties=CommitProperties(app_transactions=transactions, max_commit_retries=_RETRIES),
            post_commithook_properties=_HOOKS,
        )
        table.update_incremental()
        self._make_durable(f"_delta_log/{number:020}.json" for number in range(version + 1, table.version() + 1))
        if self._read is not None:
            for old in removed:
                before[old.broker].discard(unquote(old.path))
            for file in new:
                before[file.broker].add(file.path)
            self._read |= before

    def _make_durable(self, paths: Iterable[str]) -> None:
        """Write files of the table to the disk: after a commit, the landing files with the same rows are removed. An
        object store needs no such thing."""
        if "://" in self.url:
            return
        folders = set()
        for path in paths:
            _sync(f"{self.url}/{path}")
            folders.add(os.path.dirname(f"{self.url}/{path}"))
        for folder in folders:
            _sync(folder)

    def _require_unchanged(
        self,
        table: DeltaTable,
        added: Iterable[NewFile],
        removed: Collection[TableFile],
        versions: Mapping[str, int],
    ) -> dict[str, set[str]]:
        """Return the paths of the current files of these brokers. Raises Overtaken if another process has changed them
        since they were read, or has set a higher version of a transaction identifier. The library detects conflicting
        changes from now on."""
        for name, number in versions.items():
            if number < (table.transaction_version(name) or 0):
                raise Overtaken(f"table {self.name}: a later run has set {name} beyond {number}")
        brokers = {file.broker for file in added} | {file.broker for file in removed}
        found: dict[str, set[str]] = {broker: set() for broker in brokers}
        if not found:
            return found
        actions = pa.table(table.get_add_actions(flatten=True)).select(["path", "partition.broker"])
        mine = actions.filter(pc.is_in(actions["partition.broker"], pa.array(list(found), pa.string())))
        for path, broker in zip(*(column.to_pylist() for column in mine.columns), strict=True):
            found[broker].add(unquote(path))
        for broker, paths in found.items():
            is_same = self._read is None or paths == self._read.get(broker, set())
            if not is_same or not {unquote(file.path) for file in removed if file.broker == broker} <= paths:
                raise Overtaken(f"table {self.name}: another process has changed the rows of {broker} meanwhile")
        return found

    def _additions(self, added: Iterable[NewFile], now: int, *, same_rows: bool) -> dict[NewFile, AddAction]:
        """Return the actions that add the files with rows."""
        files, root = file_system(self.url)
        found = {}
        for file in added:
            path = f"{root}/{file.path}"
            footer = pq.read_metadata(path, filesystem=files)
            if footer.num_rows:
                found[file] = AddAction(
                    file.path,
                    files.get_file_info(path).size,
                    self._partition(file.broker, file.partition),
                    now,
                    not same_rows,
                    json.dumps(statistics(footer, self._bounded())),
                )
        return found

    def _partition(self, broker: str, day: dt.date) -> dict[str, str | None]:
        return {"broker": broker, self.layout.partition: day.isoformat()}

    def _bounded(self) -> tuple[str, ...]:
        columns = (*self.layout.order, self.layout.time, *(c for c in _BOUNDED if c in self.schema.names))
        return tuple(dict.fromkeys(column for column in columns if column != "broker"))

    def _delta_schema(self) -> pa.Schema:
        return self.schema.append(pa.field(self.layout.partition, pa.date32()))

    def _create(self) -> DeltaTable:
        if "://" not in self.url:
            os.makedirs(self.url, mode=0o700, exist_ok=True)
        return DeltaTable.create(
            self.url,
            self._delta_schema(),
            mode="ignore",
            partition_by=["broker", self.layout.partition],
            configuration={**_PROPERTIES, "delta.dataSkippingStatsColumns": ",".join(self._bounded())},
        )

    def _add_missing_columns(self, table: DeltaTable) -> None:
        """Add the columns that an earlier release did not have; its rows have null."""
        known = {field.name for field in table.schema().fields}
        wanted = Schema.from_arrow(self.schema).fields
        if missing := [field for field in wanted if field.name not in known]:
            table.alter.add_columns(missing)

    def _write(self, path: str, rows: pa.Table) -> None:
        files, root = file_system(self.url)
        target = f"{root}/{path}"
        files.create_dir(target.rpartition("/")[0], recursive=True)
        pq.write_table(rows, target, filesystem=files, compression="zstd", version="2.6")


_ARROW = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "array<string>": pa.list_(pa.string()),
}


def arrow_schema(name: str) -> pa.Schema:
    """Return a table's columns, without the partition column."""
    if declared := LAYOUTS[name].columns:
        return pa.schema([(column, _ARROW[kind]) for column, kind in (one.split() for one in declared.split(","))])
    utc = _ARROW["timestamp"]
    return pa.schema([(f.name, utc if pa.types.is_timestamp(f.type) else f.type) for f in SCHEMAS[name]])


def partition_folder(broker: str, partition: dt.date, layout: Layout) -> str:
    """Return the folder of a partition's files. Names of brokers may contain characters that Spark takes for a pattern:
    the folder has a hash."""
    return f"of={broker_hash(broker)}/{layout.partition}={partition.isoformat()}"


def broker_hash(broker: str) -> str:
    return hashlib.sha256(broker.encode()).hexdigest()[:16]


def statistics(footer: pq.FileMetaData, columns: Collection[str]) -> dict[str, Any]:
    """Return Delta's statistics of a file for those columns that have them in its footer."""
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for index in range(len(footer.schema)):
        column = footer.schema.column(index).path
        if column not in columns:
            continue
        groups = [footer.row_group(group).column(index).statistics for group in range(footer.num_row_groups)]
        if any(each is None or not each.has_null_count for each in groups):
            continue
        nulls[column] = sum(each.null_count for each in groups)
        valued = [each for each in groups if each.num_values]
        if not valued or any(not each.has_min_max for each in valued):
            continue
        low, high = min(each.min for each in valued), max(each.max for each in valued)
        if isinstance(high, str) and max(len(low), len(high)) > _LONGEST_TEXT:
            continue
        least[column], most[column] = _plain(low), _plain(high)
    return {"numRecords": footer.num_rows, "minValues": least, "maxValues": most, "nullCount": nulls}


def _sync(path: str) -> None:
    number = os.open(os.path.expanduser(path), os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _plain(value: Any) -> Any:
    if isinstance(value, dt.datetime):
        return (
            f"{value.astimezone(dt.UTC) if value.tzinfo else value:%Y-%m-%dT%H:%M:%S}.{value.microsecond // 1000:03}Z"
        )
    return value
