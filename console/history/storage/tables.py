"""The pipeline's access to data: reads landing files and tables, writes tables.

`deltalake` lists a table's files from its log, Spark reads the relevant ones and writes plain Parquet files into the
table's folder, and `commits.py` commits them. No row passes through the driver, whose memory does not depend on the
number of queues. This module does not interpret rows.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, cast

import pyarrow.fs as pafs
from pyspark.sql import functions as F

from console.history.storage.commits import DeltaFolder, NewFile, broker_hash
from console.history.storage.file_systems import file_system
from console.history.storage.landing import SCHEMAS, Landing
from console.history.storage.landing_names import retained_id
from console.history.storage.layout import LAYOUTS, table_url
from console.history.storage.table_files import TableFile
from console.history.storage.unused_folders import remove_unused_folders

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

#: Approximate maximum number of rows of a file of one broker and partition; more are written as several files.
ROWS_PER_FILE = 4_000_000

#: Column that distinguishes the files of a broker and partition.
PART = "part_of_partition"

#: Up to this many ranges are a condition, which costs less than a join, but a long one takes long to compile.
FEW_RANGES = 8

#: Half-open, as (from, to), ms.
Range = tuple[int, int]
#: Ranges by broker.
Ranges = Mapping[str, Sequence[Range]]
#: Versions of transaction identifiers.
Versions = Mapping[str, int]

ALWAYS: Range = (-(1 << 60), 1 << 60)


class Tables:
    """`url`: the history's root, as for `landing.Landing`."""

    def __init__(self, spark: SparkSession, url: str) -> None:
        self.spark = spark
        self.url = url
        self.landing = Landing(url)
        self._folders = {name: DeltaFolder(url, name) for name in LAYOUTS}

    @contextlib.contextmanager
    def owned(self) -> Iterator[None]:
        """Work, within the block, on brokers whose leases the caller owns. A commit raises `commits.Overtaken` if
        another process has changed their rows since they were read: the caller has lost the lease."""
        for folder in self._folders.values():
            folder.begin()
        try:
            yield
        finally:
            for folder in self._folders.values():
                folder.end()

    # -- reading ------------------------------------------------------------------------------------------------

    def landed(self, kind: str, files: Sequence[str]) -> DataFrame:
        """Return the rows of these landing files."""
        base = _spark_url(self.url)
        return self._parquet([f"{base}/landing/{kind}/{name}" for name in files], landing_schema(kind))

    def read(self, name: str, keep: Callable[[TableFile], bool] = lambda _file: True) -> DataFrame:
        """Return the rows of the files for which `keep` is true, without the partition column."""
        return self._rows(name, [file for file in self.files(name) if keep(file)])

    def read_ranges(self, name: str, ranges: Ranges) -> DataFrame:
        """Return the rows of these brokers whose time is in one of the broker's ranges, which are disjoint."""
        time = LAYOUTS[name].time
        whole, partly = [], []
        for file in self.files(name):
            of = ranges.get(file.broker, ())
            if any(_contains(each, file, time) for each in of):
                whole.append(file)
            elif any(_overlaps(file, time, each) for each in of):
                partly.append(file)
        if not partly:
            return self._rows(name, whole)
        rows = within(self._rows(name, partly), time, ranges, prunes=_is_in_order_of_time(name))
        return self._rows(name, whole).unionByName(rows) if whole else rows

    def read_touching(self, name: str, until: str, spans: Mapping[str, Range]) -> DataFrame:
        """Return the rows of these brokers whose interval, from their time to the column `until` (null: ongoing),
        overlaps the broker's span, its end included."""
        time = LAYOUTS[name].time

        def keep(file: TableFile) -> bool:
            if file.broker not in spans:
                return False
            begin, end = spans[file.broker]
            return file.may_have_moments(until, moment(begin), None) and _overlaps(file, time, (ALWAYS[0], end + 1))

        def overlaps(begin: Column, end: Column) -> Column:
            return (F.col(until).isNull() | (F.unix_millis(until) >= begin)) & (F.unix_millis(time) <= end)

        ranges = {broker: [span] for broker, span in spans.items()}
        return matching(self.read(name, keep), ranges, overlaps, prunes=_is_in_order_of_time(name))

    def files(self, name: str) -> list[TableFile]:
        return self._folders[name].files()

    def version(self, name: str, transaction: str) -> int | None:
        """Return the last committed version of a transaction identifier of the table."""
        return self._folders[name].version(transaction)

    # -- writing ------------------------------------------------------------------------------------------------

    def append(self, name: str, rows: DataFrame, *, expected: int, versions: Versions | None = None) -> None:
        """Append rows, and set versions of transaction identifiers, in one commit. `expected`: approximate number of
        rows of the largest broker and partition."""
        self._write(name, rows, (), expected, versions)

    def replace(
        self, name: str, ranges: Ranges, rows: DataFrame, *, expected: int, versions: Versions | None = None
    ) -> None:
        """Replace the rows whose broker and time are in these ranges by `rows`, in one commit. Files without such rows
        are not touched."""
        time = LAYOUTS[name].time
        removed, partly = [], []
        for file in self.files(name):
            if any(_overlaps(file, time, each) for each in ranges.get(file.broker, ())):
                removed.append(file)
                if not any(_contains(each, file, time) for each in ranges[file.broker]):
                    partly.append(file)
        if partly:
            rest = within(self._rows(name, partly), time, ranges, outside=True)
            columns = schema(name).names
            rows = rows.select(*columns).unionByName(rest.select(*columns))
            expected += max(file.rows for file in partly)
        self._write(name, rows, removed, expected, versions)

    def mark(self, name: str, versions: Versions) -> None:
        """Set versions of transaction identifiers."""
        self._folders[name].commit([], versions=versions)

    def brokers(self) -> list[str]:
        """Return the brokers with rows."""
        return sorted({file.broker for name in LAYOUTS for file in self.files(name)})

    # -- maintenance ----------------------------------------------------------------------------------------------

    def crowded(self, name: str, brokers: Collection[str] | None = None) -> dict[tuple[str, dt.date], int]:
        """Return the number of files by broker and partition, of those with more files than their rows need."""
        rows: dict[tuple[str, dt.date], list[int]] = {}
        for file in self.files(name):
            if brokers is None or file.broker in brokers:
                rows.setdefault((file.broker, file.partition), []).append(file.rows)
        return {key: len(each) for key, each in sorted(rows.items()) if len(each) > files_for(sum(each))}

    def compact(self, name: str, broker: str, partition: dt.date) -> None:
        """Rewrite a partition as few sorted files. Readers see the same rows throughout."""
        files = [file for file in self.files(name) if (file.broker, file.partition) == (broker, partition)]
        rows = sum(file.rows for file in files)
        self._write(name, self._rows(name, files), files, rows, None, same_rows=True)

    def delete_before(self, name: str, before: dt.date, brokers: Collection[str] | None = None) -> int:
        """Delete the partitions that end before that day; return the number of deleted rows. The time from which on
        rows are retained is the version of the transaction identifier `landing_names.retained_id`."""
        layout = LAYOUTS[name]
        oldest = before.replace(day=1) if layout.partition == "month" else before
        old = [f for f in self.files(name) if f.partition < oldest and (brokers is None or f.broker in brokers)]
        since = int(dt.datetime.combine(oldest, dt.time(), dt.UTC).timestamp() * 1000)
        # Never back, also if the clock has been set back since.
        versions = {
            each: max(since, self.version(name, each) or 0) for each in {retained_id(file.broker) for file in old}
        }
        self._folders[name].commit([], old, versions)
        return sum(file.rows for file in old)

    def vacuum(self, name: str) -> None:
        """Remove files that no version of the last day needs, also those of runs that were killed before they committed
        them, and expired log entries."""
        table = self._folders[name].current()
        table.vacuum(retention_hours=24, dry_run=False, enforce_retention_duration=False, full=True)
        remove_unused_folders(table_url(self.url, name), dt.datetime.now(dt.UTC) - dt.timedelta(days=1))
        table.create_checkpoint()
        table.cleanup_metadata()

    # -- inside -------------------------------------------------------------------------------------------------

    def _rows(self, name: str, files: Iterable[TableFile]) -> DataFrame:
        base = table_url(self.url, name)
        return self._parquet([_spark_url(f"{base}/{file.path}") for file in files], schema(name))

    def _parquet(self, paths: list[str], columns: StructType) -> DataFrame:
        if not paths:
            return no_rows(self.spark, columns)
        # A path is no pattern, whatever characters the folder's name has.
        rows = self.spark.read.schema(columns).option("__globPaths__", "false").parquet(*paths)
        return rows.select(*columns.names)

    def _write(
        self,
        name: str,
        rows: DataFrame,
        removed: Collection[TableFile],
        expected: int,
        versions: Versions | None,
        *,
        same_rows: bool = False,
    ) -> None:
        folder = self._folders[name]
        folder.current()
        layout = LAYOUTS[name]
        if PART not in rows.columns:
            rows = arranged(name, rows, expected)
        key = ["of", layout.partition]
        columns = [F.col(field.name).cast(field.dataType).alias(field.name) for field in schema(name)]
        rows = rows.select(*columns, *key).sortWithinPartitions(*key, *layout.order)
        path = folder.new_path()
        written = f"{table_url(self.url, name)}/{path}"
        try:
            rows.write.partitionBy(*key).option("compression", "zstd").parquet(_spark_url(written))
        except Exception:
            self._remove(name, path)
            raise
        folder.commit(self._found(name, path), removed, versions, same_rows=same_rows)

    def _remove(self, name: str, path: str) -> None:
        """Remove the files of a job that has failed: repeated on a full disk, it would never let it recover."""
        files, root = file_system(table_url(self.url, name))
        with contextlib.suppress(OSError):  # the vacuum of a later day removes them
            files.delete_dir(f"{root}/{path}")

    def _found(self, name: str, path: str) -> list[NewFile]:
        """Return the files that Spark has written below `path`."""
        files, root = file_system(table_url(self.url, name))
        found = []
        hashes: dict[str, str] = {}
        for info in files.get_file_info(pafs.FileSelector(f"{root}/{path}", recursive=True, allow_not_found=True)):
            if not info.is_file or not info.base_name.endswith(".parquet") or info.base_name[0] in "._":
                continue
            relative = info.path[info.path.rindex(f"{path}/") :]
            _, of, partition, _ = relative.split("/")
            key = of.removeprefix("of=")
            if key not in hashes:
                hashes[key] = self._broker_of(info.path, files, key)
            found.append(NewFile(relative, hashes[key], dt.date.fromisoformat(partition.rpartition("=")[2])))
        return found

    def _broker_of(self, path: str, files: pafs.FileSystem, expected: str) -> str:
        import pyarrow.parquet as pq

        with pq.ParquetFile(path, filesystem=files) as file:
            broker: str = next(file.iter_batches(1, columns=["broker"]))["broker"][0].as_py()
        if broker_hash(broker) != expected:
            raise ValueError(f"{path} has rows of another broker: {broker!r}")
        return broker


def arranged(name: str, rows: DataFrame, expected: int) -> DataFrame:
    """Return the rows with the columns `of` (hash of the broker), partition and `PART`, moved to the tasks that write
    them: one per broker and partition, or several for many rows. Those of one queue stay together, so that its readers
    open one file."""
    layout = LAYOUTS[name]
    by = [column for column in layout.order if column in ("virtualhost", "queue", "name")] or [layout.time]
    parts = files_for(expected)
    rows = rows.withColumns(
        {
            "of": F.substring(F.sha2(F.col("broker"), 256), 1, 16),
            layout.partition: partition_column(layout.partition, F.col(layout.time)),
            PART: F.pmod(F.hash(*by), F.lit(parts)) if parts > 1 else F.lit(0),
        }
    )
    return rows.repartition("of", layout.partition, *([PART] if parts > 1 else []))


def files_for(rows: int) -> int:
    """Return the number of files for the rows of a broker and partition."""
    return max(1, -(-rows // ROWS_PER_FILE))


# -- frames -----------------------------------------------------------------------------------------------------


def frame(spark: SparkSession, ranges: Ranges) -> DataFrame:
    """Return the ranges as (range_broker, range_from, range_to)."""
    rows = ", ".join(f"({_text(broker)}, {a}L, {b}L)" for broker, several in ranges.items() for a, b in several)
    if not rows:
        return spark.sql("SELECT '' AS range_broker, 0L AS range_from, 0L AS range_to WHERE false")
    return spark.sql(f"SELECT * FROM VALUES {rows} AS t(range_broker, range_from, range_to)")  # noqa: S608 -- quoted


def matching(
    rows: DataFrame,
    ranges: Ranges,
    condition: Callable[[Column, Column], Column],
    *,
    outside: bool = False,
    prunes: bool = False,
) -> DataFrame:
    """Return the rows that meet the condition for one of their broker's ranges (from, to); or the others. `prunes`:
    the condition lets Spark skip most of the rows in the files, since these are in the order of that time."""
    every = [(broker, span) for broker, spans in ranges.items() for span in spans]
    if len(every) > FEW_RANGES:
        mine = F.col("broker").eqNullSafe(F.col("range_broker")) & condition(F.col("range_from"), F.col("range_to"))
        bounds = F.broadcast(frame(rows.sparkSession, ranges))
        return rows.join(bounds, mine, "left_anti" if outside else "left_semi")
    found = F.lit(False)
    if prunes:
        for broker, (begin, end) in every:
            found = found | (F.col("broker").eqNullSafe(F.lit(broker)) & condition(F.lit(begin), F.lit(end)))
    else:
        # Constants would be part of the code that Spark generates for the step: other ranges, other code, which Java
        # compiles and optimizes once more for each portion of hours.
        for number in range(max(map(len, ranges.values()), default=0)):
            of_broker = {broker: spans[number] for broker, spans in ranges.items() if len(spans) > number}
            begins, ends = (time_of_broker({broker: span[i] for broker, span in of_broker.items()}) for i in (0, 1))
            found = found | (begins.isNotNull() & condition(begins, ends))
    return rows.where(~F.coalesce(found, F.lit(False)) if outside else found)


def within(rows: DataFrame, time: str, ranges: Ranges, *, outside: bool = False, prunes: bool = False) -> DataFrame:
    """Return the rows whose broker and time are in one of the half-open ranges; or the others. `prunes`: as for
    `matching`."""
    ms = F.unix_millis(time)
    return matching(rows, ranges, lambda begin, end: (ms >= begin) & (ms < end), outside=outside, prunes=prunes)


def time_of_broker(times: Mapping[str, int]) -> Column:
    """Return the time of the broker in the column `broker`, ms; null without one."""
    pairs = [F.lit(each) for pair in times.items() for each in pair]
    return F.try_element_at(F.create_map(*pairs), F.col("broker")) if pairs else F.lit(None).cast("bigint")


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


def partition_column(partition: str, time: Column) -> Column:
    return F.to_date(time) if partition == "day" else F.to_date(F.trunc(time, "month"))


def moment(ms: int) -> dt.datetime:
    """Return a time; one outside of the calendar as its first or last moment."""
    try:
        return _EPOCH + dt.timedelta(milliseconds=ms)
    except OverflowError:
        return _LAST if ms > 0 else _FIRST


_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_FIRST, _LAST = dt.datetime(1, 1, 1, tzinfo=dt.UTC), dt.datetime(9999, 12, 31, tzinfo=dt.UTC)


def _is_in_order_of_time(name: str) -> bool:
    layout = LAYOUTS[name]
    return layout.order[:2] == ("broker", layout.time)


def _overlaps(file: TableFile, time: str, bounds: Range) -> bool:
    begin, end = moment(bounds[0]), moment(bounds[1])
    return file.may_have_days(begin, end) and file.may_have_moments(time, begin, end)


def _contains(bounds: Range, file: TableFile, time: str) -> bool:
    """Return whether all rows of the file are in the range."""
    least, most, null = file.bounds.get(time, (None, None, True))
    if null or least is None or most is None:
        return False
    return bool(moment(bounds[0]) <= least and most < moment(bounds[1]))


def _text(value: str) -> str:
    """Return an SQL text. Spark replaces `${name}` by settings and environment variables, also within a text."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'").replace("$", "\\u0024") + "'"


def _spark_url(url: str) -> str:
    """Return the URL for Spark: `s3a` for S3, and `file:` for a path, which does not depend on the default file
    system."""
    if url.startswith("s3://"):
        return "s3a://" + url.removeprefix("s3://")
    return url if "://" in url else "file:" + os.path.abspath(os.path.expanduser(url))
