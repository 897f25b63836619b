"""The one place where the pipeline reads and writes: landing files in, Delta Lake tables in and out.

Every write is one Delta commit: a reader sees the table before it or after it. Nothing here knows what rows mean.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from console.history.landing import SCHEMAS, Landing
from console.history.layout import LAYOUTS, table_url

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

#: Files that no version in use needs any more are removed after this long: no reader takes so much time.
_PROPERTIES = {
    "delta.logRetentionDuration": "interval 2 days",
    "delta.deletedFileRetentionDuration": "interval 1 days",
    "delta.checkpointInterval": "50",
    "delta.enableDeletionVectors": "false",
    "delta.dataSkippingStatsColumns": "",
}

Range = tuple[dt.datetime, dt.datetime]


class Tables:
    """`url`: the history's root, as for `landing.Landing`."""

    def __init__(self, spark: SparkSession, url: str) -> None:
        self.spark = spark
        self.url = url
        self.landing = Landing(url)
        self._made: set[str] = set()

    # -- landing ------------------------------------------------------------------------------------------------

    def landed(self, kind: str, files: Sequence[str]) -> DataFrame:
        """The rows of these landing files."""
        schema = landing_schema(kind)
        if not files:
            return self.spark.createDataFrame([], schema)
        base = _spark_url(self.url)
        return self.spark.read.schema(schema).parquet(*(f"{base}/landing/{kind}/{name}" for name in files))

    # -- tables -------------------------------------------------------------------------------------------------

    def make_all(self) -> None:
        """Make the tables that are not there."""
        for name in LAYOUTS:
            self._make(name)

    def read(self, name: str) -> DataFrame:
        """All columns but the partition's are as declared."""
        self._make(name)
        return self.spark.read.format("delta").load(self._path(name))

    def read_ranges(self, name: str, ranges: Iterable[Range]) -> DataFrame:
        """Rows whose time lies in one of the half-open ranges."""
        return self.read(name).where(self.in_ranges(name, ranges))

    def append(self, name: str, rows: DataFrame) -> None:
        self._write(name, rows, "append")

    def replace(self, name: str, ranges: Iterable[Range], rows: DataFrame) -> None:
        """Put `rows` in the place of every row whose time lies in one of the half-open ranges, in one commit."""
        self._write(name, rows, "overwrite", self.in_ranges(name, ranges))

    def in_ranges(self, name: str, ranges: Iterable[Range]) -> str:
        """As an SQL condition on both the partition and the time, so that files are skipped by the one and by the
        statistics of the other."""
        layout = LAYOUTS[name]
        conditions = []
        for begin, end in ranges:
            first, last = (_partition(each, layout.partition) for each in (begin, end))
            conditions.append(
                f"({layout.partition} >= DATE'{first}' AND {layout.partition} <= DATE'{last}'"
                f" AND {layout.time} >= {_literal(begin)} AND {layout.time} < {_literal(end)})"
            )
        return " OR ".join(conditions) or "false"

    # -- keeping them in shape ------------------------------------------------------------------------------------

    def compact(self, name: str, partitions: Collection[dt.date]) -> None:
        """Lay the rows of each of these partitions in one sorted file. Readers see the same rows throughout."""
        layout = LAYOUTS[name]
        for partition in sorted(partitions):
            condition = f"{layout.partition} = DATE'{partition}'"
            rows = self.read(name).where(condition).drop(layout.partition)
            self._write(name, rows, "overwrite", condition, rearranges=True)

    def crowded(self, name: str, most: int = 1) -> list[dt.date]:
        """Partitions that lie in more files than that."""
        layout = LAYOUTS[name]
        files = self._files(name)
        counts: dict[str, int] = {}
        for part in files:
            counts[part] = counts.get(part, 0) + 1
        del layout
        return sorted(dt.date.fromisoformat(part) for part, count in counts.items() if count > most)

    def forget(self, name: str, before: dt.date) -> None:
        """Drop the partitions that end before that day."""
        layout = LAYOUTS[name]
        oldest = before.replace(day=1) if layout.partition == "month" else before
        from delta.tables import DeltaTable

        self._make(name)
        DeltaTable.forPath(self.spark, self._path(name)).delete(f"{layout.partition} < DATE'{oldest}'")

    def vacuum(self, name: str) -> None:
        """Remove files that no version of the last day needs. By deltalake: Spark's takes forty times as long here."""
        from deltalake import DeltaTable

        DeltaTable(table_url(self.url, name)).vacuum(
            retention_hours=24, dry_run=False, enforce_retention_duration=False
        )

    # -- inside -------------------------------------------------------------------------------------------------

    def _files(self, name: str) -> list[str]:
        """The partition of each file of the table."""
        from deltalake import DeltaTable

        self._make(name)
        layout = LAYOUTS[name]
        actions = DeltaTable(table_url(self.url, name)).get_add_actions(flatten=True)
        import pyarrow as pa

        return [str(value) for value in pa.table(actions).column(f"partition.{layout.partition}").to_pylist()]

    def _make(self, name: str) -> None:
        if name in self._made:
            return
        from delta.tables import DeltaTable

        layout = LAYOUTS[name]
        columns = schema(name)
        properties = {**_PROPERTIES, "delta.dataSkippingStatsColumns": ",".join(dict.fromkeys(layout.order))}
        maker = DeltaTable.createIfNotExists(self.spark).location(self._path(name)).addColumns(columns)
        maker = maker.addColumn(layout.partition, "DATE").partitionedBy(layout.partition)
        for key, value in properties.items():
            maker = maker.property(key, value)
        maker.execute()
        self._made.add(name)

    def _write(self, name: str, rows: DataFrame, mode: str, condition: str = "", *, rearranges: bool = False) -> None:
        self._make(name)
        layout = LAYOUTS[name]
        wanted = schema(name)
        rows = rows.select(
            *(F.col(field.name).cast(field.dataType).alias(field.name) for field in wanted),
            partition_column(layout.partition, F.col(layout.time)).alias(layout.partition),
        )
        # One file a partition and write: the rows of one commit are few, and readers open fewer files.
        rows = rows.repartition(layout.partition).sortWithinPartitions(layout.partition, *layout.order)
        writer = rows.write.format("delta").mode(mode)
        if condition:
            writer = writer.option("replaceWhere", condition)
        if rearranges:
            writer = writer.option("dataChange", "false")
        writer.save(self._path(name))

    def _path(self, name: str) -> str:
        return _spark_url(table_url(self.url, name))


def landing_schema(kind: str) -> StructType:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(SCHEMAS[kind])


def schema(name: str) -> StructType:
    """A table's columns, without the partition's."""
    from pyspark.sql.types import StructField, StructType

    columns = LAYOUTS[name].columns
    declared = StructType.fromDDL(columns) if columns else landing_schema(name)
    return StructType([StructField(field.name, field.dataType, True) for field in declared])


def partition_column(partition: str, time: Column) -> Column:
    return F.to_date(time) if partition == "day" else F.to_date(F.trunc(time, "month"))


def _partition(time: dt.datetime, partition: str) -> dt.date:
    return time.date() if partition == "day" else time.date().replace(day=1)


def _literal(time: dt.datetime) -> str:
    return f"TIMESTAMP'{time.astimezone(dt.UTC):%Y-%m-%d %H:%M:%S.%f}'"


def _spark_url(url: str) -> str:
    """As Spark's file systems want it: S3 is `s3a` there, and a path is a file wherever the default lies."""
    if url.startswith("s3://"):
        return "s3a://" + url.removeprefix("s3://")
    return url if "://" in url else "file:" + os.path.abspath(os.path.expanduser(url))
