"""Convert the tables of an earlier release, which were partitioned by time only, to partitions by broker.

The files of a table are rewritten and listed in a file of the history; then two commits follow, one that changes the
partitions and one that adds the files. A conversion that is killed is repeated, or continued with the second commit.
Nothing else may write meanwhile. The old files remain for a day, as after any other commit.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable, Schema, write_deltalake
from deltalake.exceptions import TableNotFoundError

from console.history.storage.commits import DeltaFolder, NewFile
from console.history.storage.durations import DAY, HOUR
from console.history.storage.file_systems import file_system, of_table
from console.history.storage.landing import Landing
from console.history.storage.landing_names import retained_id, rolled_id
from console.history.storage.layout import LAYOUTS, table_url
from console.history.storage.table_files import table_files

_BATCH_ROWS = 500_000
_FOLDER = "pipeline/upgrade"
_ROLLUPS = ("minutes", "hours", "days")
_NO_LIMIT = 1 << 50  # ms


def upgrade_tables(
    url: str,
    on_step: Callable[[str], None] = lambda _name: None,
    *,
    note: Callable[[Mapping[str, tuple[int, int]]], None] = lambda _changed: None,
) -> dict[str, tuple[int, int]]:
    """Convert all tables that need it. Return, by broker, the (from, to), ms, whose rollups the next run has to make
    again; `note` is called with them before a killed conversion would no longer be repeated. Raises LandingError,
    deltalake's errors."""
    landing = Landing(url)
    old = [name for name in LAYOUTS if _is_old(url, name) or landing.get(_note(name)) is not None]
    noted = landing.get(_note("rolled"))
    if not old and noted is None and landing.get(_note("taken")) is None and not _exists(url, "taken"):
        return {}
    # Computed once: a conversion that was killed may have changed the table that it is computed from.
    rolled: dict[str, int] = _rolled_until(url) if noted is None else json.loads(noted)
    landing.put(_note("rolled"), json.dumps(rolled).encode())
    for name in LAYOUTS:
        if name in old:
            on_step(f"converting {name}")
            _convert(url, name, landing, rolled)
    _remove_processed(url, landing)
    changed = {broker: (until, until + HOUR) for broker, until in rolled.items()}
    note(changed)
    landing.delete(_note("rolled"))
    return changed


def _is_old(url: str, name: str) -> bool:
    try:
        return "broker" not in DeltaTable(table_url(url, name)).metadata().partition_columns
    except TableNotFoundError:
        return False


def _exists(url: str, name: str) -> bool:
    try:
        return bool(DeltaTable(table_url(url, name)).version() >= 0)
    except TableNotFoundError:
        return False


def _rolled_until(url: str) -> dict[str, int]:
    """Return the start of the hour of each broker's last minute, ms. That hour may be incomplete."""
    found: dict[str, int] = {}
    if not _exists(url, "minutes"):
        return found
    for rows in _batches(url, "minutes", ["broker", "at"]):
        for row in rows.group_by("broker").aggregate([("at", "max")]).to_pylist():
            hour = int(row["at_max"].timestamp() * 1000) // HOUR * HOUR
            found[row["broker"]] = max(hour, found.get(row["broker"], 0))
    return found


def _convert(url: str, name: str, landing: Landing, rolled: dict[str, int]) -> None:
    """Convert one table; see the module."""
    note = landing.get(_note(name))
    folder = DeltaFolder(url, name)
    if note is None or _is_old(url, name):
        files, first = [], _First()
        for batch in _batches(url, name):
            rows = _closed(batch, rolled) if name in ("minutes", "hours") else batch
            first.include(rows, folder.layout.time)
            files += folder.write_file(_with_columns(rows, folder.schema))
        versions = first.retained() if name in ("samples", "coverage") else {}
        if name in _ROLLUPS:
            versions = {rolled_id(broker): until for broker, until in rolled.items()}
        plain = [asdict(file) | {"partition": file.partition.isoformat()} for file in files]
        landing.put(_note(name), json.dumps({"files": plain, "versions": versions}).encode())
        _change_partitions(url, name, folder.schema)
    given: dict[str, Any] = json.loads(landing.get(_note(name)) or b"{}")
    added = [NewFile(each["path"], each["broker"], dt.date.fromisoformat(each["partition"])) for each in given["files"]]
    known = {unquote(file.path) for file in folder.files()}
    if not added or added[0].path not in known:
        folder.commit(added, versions=given["versions"])
    landing.delete(_note(name))


class _First:
    """The first day with rows, by broker: retention may have deleted earlier ones."""

    def __init__(self) -> None:
        self._first: dict[str, int] = {}

    def include(self, rows: pa.Table, time: str) -> None:
        for row in rows.group_by("broker").aggregate([(time, "min")]).to_pylist():
            ms = int(row[f"{time}_min"].timestamp() * 1000)
            self._first[row["broker"]] = min(ms, self._first.get(row["broker"], ms))

    def retained(self) -> dict[str, int]:
        return {retained_id(broker): ms // DAY * DAY for broker, ms in self._first.items()}


def _closed(rows: pa.Table, rolled: dict[str, int]) -> pa.Table:
    """Return the rows before the last hour of each broker. One without minutes has not been recorded since retention
    deleted its last one: all its hours are closed."""
    limits = pa.array([rolled.get(broker, _NO_LIMIT) * 1000 for broker in rows["broker"].to_pylist()], pa.int64())
    return rows.filter(pc.less(rows["at"].cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()), limits))


def _with_columns(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Add the columns that the earlier release did not have."""
    for field in schema:
        if field.name not in rows.column_names:
            rows = rows.append_column(field.name, pa.nulls(rows.num_rows, field.type))
    return rows


def _batches(url: str, name: str, columns: list[str] | None = None) -> Iterator[pa.Table]:
    files, root = file_system(table_url(url, name))
    for file in table_files(DeltaTable(table_url(url, name)), LAYOUTS[name]):
        with pq.ParquetFile(f"{root}/{unquote(file.path)}", filesystem=files) as parquet:
            for batch in parquet.iter_batches(_BATCH_ROWS, columns=columns):
                yield pa.Table.from_batches([batch])


def _change_partitions(url: str, name: str, schema: pa.Schema) -> None:
    partition = LAYOUTS[name].partition
    empty = schema.append(pa.field(partition, pa.date32())).empty_table()
    write_deltalake(
        table_url(url, name), empty, mode="overwrite", schema_mode="overwrite", partition_by=["broker", partition]
    )
    table = DeltaTable(table_url(url, name))
    if table.metadata().partition_columns != ["broker", partition]:
        raise ValueError(f"the partitions of {name} could not be changed: {Schema.to_json(table.schema())}")


def _remove_processed(url: str, landing: Landing) -> None:
    """Remove the landing files that the ledger of the earlier release names, then the ledger."""
    place = table_url(url, "taken")
    if landing.get(_note("taken")) is None:
        if not _exists(url, "taken"):
            return
        taken = DeltaTable(place).to_pyarrow_table(columns=["kind", "file"], filesystem=of_table(place))
        for kind, name in zip(taken["kind"].to_pylist(), taken["file"].to_pylist(), strict=True):
            landing.remove(kind, name)
        landing.put(_note("taken"), b"{}")  # a half removed table cannot be opened
    files, root = file_system(place)
    with contextlib.suppress(FileNotFoundError):
        files.delete_dir(root)
    landing.delete(_note("taken"))


def _note(name: str) -> str:
    return f"{_FOLDER}/{name}.json"
