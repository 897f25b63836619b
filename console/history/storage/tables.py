"""The pipeline's access to data: reads landing files, reads and writes Delta Lake tables.

Every write is one Delta commit: a reader sees the table before or after it. This module does not interpret rows.

`deltalake` lists a table's files from its log, and Spark reads the relevant ones. Rows computed by Spark are committed
in one of two ways: with `at_once` they are collected and written by `deltalake`, which takes milliseconds for a few
seconds of recording; otherwise Spark's executors write them (`delta-spark`), for large amounts. The result is the same
for readers.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, write_deltalake
from deltalake.exceptions import TableNotFoundError
from pyspark.sql import functions as F

from console.history.storage.file_systems import of_table
from console.history.storage.landing import SCHEMAS, Landing
from console.history.storage.layout import LAYOUTS, table_url
from console.history.storage.table_files import TableFile, table_files

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

#: Unused files are removed after this time, which exceeds the duration of any query.
_PROPERTIES = {
    "delta.logRetentionDuration": "interval 1 days",
    "delta.deletedFileRetentionDuration": "interval 1 days",
    "delta.checkpointInterval": "50",
    "delta.enableDeletionVectors": "false",
}

#: Columns with statistics per file, in addition to those of the sort order.
_BOUNDED = ("until", "end")

Range = tuple[dt.datetime, dt.datetime]


class Tables:
    """`url`: the history's root, as for `landing.Landing`."""

    def __init__(self, spark: SparkSession, url: str) -> None:
        self.spark = spark
        self.url = url
        self.landing = Landing(url)
        self._open: dict[str, DeltaTable] = {}

    # -- landing ------------------------------------------------------------------------------------------------

    def landed(self, kind: str, files: Sequence[str]) -> DataFrame:
        """Return the rows of these landing files."""
        base = _spark_url(self.url)
        return self._parquet([f"{base}/landing/{kind}/{name}" for name in files], landing_schema(kind))

    # -- tables -------------------------------------------------------------------------------------------------

    def read(self, name: str, keep: Callable[[TableFile], bool] = lambda _file: True) -> DataFrame:
        """Return the rows of the files for which `keep` is true, without the partition column."""
        base = table_url(self.url, name)
        paths = [_spark_url(f"{base}/{file.path}") for file in self.files(name) if keep(file)]
        return self._parquet(paths, schema(name))

    def read_ranges(self, name: str, ranges: Iterable[Range]) -> DataFrame:
        """Return the rows whose time is in one of the half-open ranges."""
        ranges = list(ranges)
        time = LAYOUTS[name].time
        rows = self.read(name, lambda file: any(file.may_have_moments(time, begin, end) for begin, end in ranges))
        conditions = [f"{time} >= {_literal(begin)} AND {time} < {_literal(end)}" for begin, end in ranges]
        return rows.where(" OR ".join(f"({each})" for each in conditions) or "false")

    def read_touching(self, name: str, until: str, begin: dt.datetime, end: dt.datetime | None = None) -> DataFrame:
        """Return the rows whose interval, from their time to the column `until` (null: ongoing), overlaps [begin,
        end]."""
        time = LAYOUTS[name].time
        after = None if end is None else end + dt.timedelta(milliseconds=1)
        rows = self.read(
            name, lambda file: file.may_have_moments(until, begin, None) and file.may_have_moments(time, None, after)
        )
        rows = rows.where(f"{until} IS NULL OR {until} >= {_literal(begin)}")
        return rows if end is None else rows.where(f"{time} <= {_literal(end)}")

    def gather(self, name: str, columns: Sequence[str], condition: Any = None) -> pa.Table:
        """Return columns of the rows that meet a pyarrow condition, without Spark."""
        rows = self._table(name).to_pyarrow_dataset(filesystem=of_table(table_url(self.url, name)))
        return rows.to_table(columns=list(columns), filter=condition)

    def append(self, name: str, rows: DataFrame | pa.Table, *, at_once: bool) -> None:
        """Append rows. With `at_once`, no rows cause no commit."""
        self._write(name, rows, None, at_once=at_once)

    def replace(self, name: str, ranges: Iterable[Range], rows: DataFrame, *, at_once: bool) -> None:
        """Replace all rows whose time is in one of the half-open ranges by `rows`, in one commit."""
        self._write(name, rows, list(ranges), at_once=at_once)

    def files(self, name: str) -> list[TableFile]:
        return table_files(self._table(name), LAYOUTS[name])

    # -- maintenance ----------------------------------------------------------------------------------------------

    def crowded(self, name: str, most: int = 1) -> list[dt.date]:
        """Return the partitions with more than `most` files."""
        counts: dict[dt.date, int] = {}
        for file in self.files(name):
            counts[file.partition] = counts.get(file.partition, 0) + 1
        return sorted(part for part, count in counts.items() if count > most)

    def compact(self, name: str, partitions: Collection[dt.date]) -> None:
        """Rewrite each of these partitions as one sorted file. Readers see the same rows throughout."""
        layout = LAYOUTS[name]
        for partition in sorted(partitions):
            rows = self.read(name, lambda file, wanted=partition: file.partition == wanted)  # type: ignore[misc]
            condition = f"{layout.partition} = DATE'{partition}'"
            self._commit_by_spark(name, rows, {"replaceWhere": condition, "dataChange": "false"}, "overwrite")

    def delete_before(self, name: str, before: dt.date) -> int:
        """Delete the partitions that end before that day; return the number of deleted rows."""
        layout = LAYOUTS[name]
        oldest = before.replace(day=1) if layout.partition == "month" else before
        if not any(file.partition < oldest for file in self.files(name)):
            return 0
        return int(self._table(name).delete(f"{layout.partition} < '{oldest}'")["num_deleted_rows"] or 0)

    def vacuum(self, name: str) -> None:
        """Remove files that no version of the last day needs, and expired log entries."""
        table = self._table(name)
        table.vacuum(retention_hours=24, dry_run=False, enforce_retention_duration=False)
        table.create_checkpoint()
        table.cleanup_metadata()

    # -- inside -------------------------------------------------------------------------------------------------

    def _parquet(self, paths: list[str], columns: StructType) -> DataFrame:
        if not paths:
            return no_rows(self.spark, columns)
        rows = self.spark.read.schema(columns).parquet(*paths)
        return rows.select(*columns.names)

    def _table(self, name: str) -> DeltaTable:
        """Return the current version of the table; create a missing one."""
        table = self._open.get(name)
        if table is None:
            url = table_url(self.url, name)
            try:
                table = DeltaTable(url)
            except TableNotFoundError:
                table = self._create(name, url)
            self._open[name] = table
        else:
            table.update_incremental()
        return table

    def _create(self, name: str, url: str) -> DeltaTable:
        layout = LAYOUTS[name]
        columns = _arrow_schema(name)
        if "://" not in url:
            os.makedirs(url, mode=0o700, exist_ok=True)
        bounded = dict.fromkeys((*layout.order, *(c for c in _BOUNDED if c in columns.names)))
        return DeltaTable.create(
            url,
            columns.append(pa.field(layout.partition, pa.date32())),
            mode="ignore",
            partition_by=[layout.partition],
            configuration={**_PROPERTIES, "delta.dataSkippingStatsColumns": ",".join(bounded)},
        )

    def _write(self, name: str, rows: DataFrame | pa.Table, ranges: list[Range] | None, *, at_once: bool) -> None:
        if not isinstance(rows, pa.Table) and not at_once:
            options = {} if ranges is None else {"replaceWhere": _spark_condition(name, ranges)}
            self._commit_by_spark(name, rows, options, "append" if ranges is None else "overwrite")
            return
        layout = LAYOUTS[name]
        table = rows if isinstance(rows, pa.Table) else rows.select(*schema(name).names).toArrow()
        table = (
            table.select(schema(name).names).cast(_arrow_schema(name)).sort_by([(c, "ascending") for c in layout.order])
        )
        if ranges is None and not table.num_rows:
            return
        time = table.column(layout.time)
        if layout.partition == "month":
            time = pc.floor_temporal(time, unit="month")
        table = table.append_column(layout.partition, time.cast(pa.date32()))
        hooks = PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False)
        commit = CommitProperties(max_commit_retries=3)
        if ranges is None:
            write_deltalake(
                self._table(name), table, mode="append", post_commithook_properties=hooks, commit_properties=commit
            )
        else:
            write_deltalake(
                self._table(name),
                table,
                mode="overwrite",
                predicate=_condition(name, ranges),
                post_commithook_properties=hooks,
                commit_properties=commit,
            )

    def _commit_by_spark(self, name: str, rows: DataFrame, options: dict[str, str], mode: str) -> None:
        layout = LAYOUTS[name]
        self._table(name)
        partition = partition_column(layout.partition, F.col(layout.time)).alias(layout.partition)
        if layout.partition in rows.columns:
            partition = F.col(layout.partition)  # equal, but lets Spark use an existing partitioning
        rows = rows.select(
            *(F.col(field.name).cast(field.dataType).alias(field.name) for field in schema(name)), partition
        )
        # One sorted file per partition and write, so that readers open few files.
        rows = rows.repartition(layout.partition).sortWithinPartitions(layout.partition, *layout.order)
        rows.write.format("delta").mode(mode).options(**options).save(_spark_url(table_url(self.url, name)))


def no_rows(spark: SparkSession, columns: StructType) -> DataFrame:
    """Return an empty frame that Spark's planner knows to be empty, so that it prunes dependent parts of a plan."""
    empty = spark.range(1).where("false")
    return empty.select(*(F.lit(None).cast(field.dataType).alias(field.name) for field in columns))


def landing_schema(kind: str) -> StructType:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(SCHEMAS[kind])


def schema(name: str) -> StructType:
    """Return a table's columns, without the partition column."""
    from pyspark.sql.types import StructField, StructType

    columns = LAYOUTS[name].columns
    declared = cast(StructType, StructType.fromDDL(columns)) if columns else landing_schema(name)
    return StructType([StructField(field.name, field.dataType, True) for field in declared])


def _arrow_schema(name: str) -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    declared = to_arrow_schema(schema(name), timezone="UTC")
    utc = pa.timestamp("us", tz="UTC")
    return pa.schema([pa.field(f.name, utc if pa.types.is_timestamp(f.type) else f.type) for f in declared])


def partition_column(partition: str, time: Column) -> Column:
    return F.to_date(time) if partition == "day" else F.to_date(F.trunc(time, "month"))


def _partition(time: dt.datetime, partition: str) -> dt.date:
    return time.date() if partition == "day" else time.date().replace(day=1)


def _condition(name: str, ranges: Iterable[Range], date: str = "", moment: str = "") -> str:
    """Return an SQL condition on both the partition and the time, so that files are skipped by both."""
    layout = LAYOUTS[name]
    conditions = []
    for begin, end in ranges:
        first, last = (_partition(each, layout.partition) for each in (begin, end))
        times = [f"{moment}'{each.astimezone(dt.UTC):%Y-%m-%dT%H:%M:%S.%fZ}'" for each in (begin, end)]
        conditions.append(
            f"({layout.partition} >= {date}'{first}' AND {layout.partition} <= {date}'{last}'"
            f" AND {layout.time} >= {times[0]} AND {layout.time} < {times[1]})"
        )
    return " OR ".join(conditions) or "false"


def _spark_condition(name: str, ranges: Iterable[Range]) -> str:
    return _condition(name, ranges, "DATE", "TIMESTAMP")


def _literal(time: dt.datetime) -> str:
    return f"TIMESTAMP'{time.astimezone(dt.UTC):%Y-%m-%dT%H:%M:%S.%fZ}'"


def _spark_url(url: str) -> str:
    """Return the URL for Spark: `s3a` for S3, and `file:` for a path, which does not depend on the default file
    system."""
    if url.startswith("s3://"):
        return "s3a://" + url.removeprefix("s3://")
    return url if "://" in url else "file:" + os.path.abspath(os.path.expanduser(url))
