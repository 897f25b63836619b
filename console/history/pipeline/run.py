"""One run of the pipeline: ingest new landing files and update all tables.

    landing -> events, samples, coverage -> blocks -> episodes -> minutes -> hours, days -> processed files

Rows that the new data can change are recomputed from the tables, in batch, and replaced: blocks and episodes from the
first new row on, carrying over those that were ongoing then, and rollups for the affected hours. So the tables are a
function of all landed rows, in any order. A file counts as processed once all else is committed. The files of a killed
run are left for the next one, which finds some of their rows stored already and computes the same tables, even if the
killed run had changed blocks and episodes, but not the rollups (`pending_rollups.py`).

Most runs ingest a few seconds of recording. Unaffected tables are not recomputed: in particular, blocks and episodes
without a new event and without an ongoing one.

Runs must not overlap: the caller owns the lease (`console/leases/lease.py`).
"""

from __future__ import annotations

import datetime as dt
import gc
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from console.history.pipeline import blocks as blocks_step
from console.history.pipeline import episodes as episodes_step
from console.history.pipeline import rollups, stops
from console.history.pipeline.batches import Batch, find_batch
from console.history.pipeline.cleaning import clean, complete, not_stored
from console.history.pipeline.intervals import as_ranges, joined, moment, portions
from console.history.pipeline.pending_rollups import Interval, PendingRollups
from console.history.pipeline.spans import spans
from console.history.storage.durations import DAY, HOUR, MINUTE, SAMPLE_VALIDITY_MS
from console.history.storage.tables import Tables, schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: Up to this many rows a run uses the mode with the shortest start: simple plans, no compilation, commits at once.
FEW_ROWS = 100_000
#: Up to this many hours of rollups are committed at once.
FEW_HOURS = 4

END_OF_TIME = dt.datetime(9999, 1, 1, tzinfo=dt.UTC)

#: Spark's optimizations for large queries take longer than a small query.
_QUICK = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
_LARGE = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
}


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a run. `files`: number of processed files; `rows`: ingested rows by kind; `seconds`: by step;
    `newest`: time of the newest row; `more`: files are left for the next run; `unreadable`: skipped files with the
    reason."""

    files: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    newest: dt.datetime | None = None
    more: bool = False
    unreadable: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Changes:
    """What the new rows of one broker can change. `since`: time of the first one, ms."""

    since: int
    blocks: bool = False  # producers were blocked
    fills: bool = False  # a queue's state was reported
    stops: bool = False


class Run:
    """See the module. `on_step` is called with the name of each step before it starts."""

    def __init__(self, tables: Tables, on_step: Callable[[str], None] = lambda _name: None) -> None:
        self.tables = tables
        self.spark = tables.spark
        self._on_step = on_step
        self._seconds: dict[str, float] = {}
        self._few = True
        self._pending: PendingRollups
        self._persisted: list[DataFrame] = []

    def run(self) -> Report:
        """Run once. Raises errors of Spark and of the landing folder; then the next run processes the same files."""
        batch = find_batch(self.tables)
        if not batch.count:
            return Report(unreadable=batch.unreadable)
        self._few = sum(batch.rows.values()) <= FEW_ROWS
        settings = dict(_QUICK if self._few else _LARGE)
        if str(self.spark.sparkContext.master).startswith("local"):
            # Few partitions are faster for few rows; more partitions spill less each. A cluster has its own setting.
            settings["spark.sql.shuffle.partitions"] = "2" if self._few else "8"
        for key, value in settings.items():
            self.spark.conf.set(key, value)
        try:
            self._process(batch)
        finally:
            self._release()
        newest = max((last for _first, last in batch.bounds.values() if last < END_OF_TIME), default=None)
        rows = dict(batch.rows)
        return Report(batch.count, rows, dict(self._seconds), newest, batch.more, batch.unreadable)

    def _process(self, batch: Batch) -> None:
        tables = self.tables
        with self._step("landing"):
            files = {kind: tables.landed(kind, names) for kind, names in batch.files.items() if names}
            landed = {kind: clean(kind, rows) for kind, rows in files.items()}
            if self._few:
                landed = {kind: self._keep(rows) for kind, rows in landed.items()}
                changes, hours = self._changes(landed)
            else:  # duplicates change nothing, and reading a few columns again is faster than caching all
                changes, hours = self._changes({kind: complete(kind, rows) for kind, rows in files.items()})
        with self._step("store"):
            for kind, rows in landed.items():
                first, last = batch.bounds[kind]
                stored = tables.read_ranges(kind, [(first, min(last + dt.timedelta(milliseconds=1), END_OF_TIME))])
                tables.append(kind, not_stored(kind, rows, stored), at_once=self._few)
        self._pending = PendingRollups(tables.landing)
        self._intervals(changes)
        for part in self._portions(self._hours(hours, self._pending.intervals)):
            self._rollups(part)
            self._release()
        with self._step("taken"):
            now = dt.datetime.now(dt.UTC)
            processed = [(kind, name) for kind, names in batch.files.items() for name in names]
            columns = {
                "kind": [kind for kind, _ in processed],
                "file": [name for _, name in processed],
                "rows": pa.nulls(len(processed), pa.int64()),
                "at": pa.array([now] * len(processed), pa.timestamp("us", tz="UTC")),
            }
            tables.append("taken", pa.table(columns), at_once=True)
            self._pending.clear()

    # -- new rows -------------------------------------------------------------------------------------------------

    def _changes(self, landed: Mapping[str, DataFrame]) -> tuple[dict[str, _Changes], set[int]]:
        """Return what the new rows can change, by broker, and the hours (since the epoch) that they affect."""
        ms = F.unix_millis("at")
        affected = F.array(_hour(ms), _hour(ms + SAMPLE_VALIDITY_MS))
        no = F.lit(False)
        flags = {
            "events": (
                F.col("kind") == "producer-blocked",
                F.col("state").isNotNull() | F.col("kind").isin("queue-overfull", "queue-underfull"),
                F.col("kind") == "producers-stopped",
            ),
            "samples": (no, F.expr("coalesce(whole AND state IN ('OVERFULL', 'OVERFULL_STOPPED'), false)"), no),
            "coverage": (no, no, no),
        }
        # New coverage may extend the validity of an earlier sample.
        until = F.unix_millis("until") if "coverage" in landed else ms
        covered = F.sequence(_hour(ms), _hour(F.greatest(ms, until)))
        parts = [
            rows.select(
                "broker",
                F.explode(affected if kind != "coverage" else covered).alias("hour"),
                ms.alias("ms"),
                *(flag.alias(name) for flag, name in zip(flags[kind], ("blocks", "fills", "stops"), strict=True)),
            )
            for kind, rows in landed.items()
        ]
        together = parts[0]
        for part in parts[1:]:
            together = together.unionByName(part)
        found = together.groupBy("broker", "hour").agg(
            F.min("ms").alias("since"), *(F.max(name).alias(name) for name in ("blocks", "fills", "stops"))
        )
        changes: dict[str, _Changes] = {}
        hours = set()
        for row in found.collect():
            hours.add(row.hour)
            one = changes.setdefault(row.broker, _Changes(row.since))
            one.since = min(one.since, row.since)
            one.blocks, one.fills, one.stops = one.blocks or row.blocks, one.fills or row.fills, one.stops or row.stops
        return changes, hours

    # -- blocks and episodes --------------------------------------------------------------------------------------

    def _intervals(self, changes: Mapping[str, _Changes]) -> None:
        """Update blocks and episodes; note the intervals in which the start or the end of one has changed."""
        with self._step("holds"):
            affected = self._affected_brokers("holds", changes)
            if since := {name: one.since for name, one in changes.items() if one.blocks or name in affected}:
                self._blocks(since)
        with self._step("episodes"):
            affected = self._affected_brokers("episodes", changes, "overfull")
            if since := {name: one.since for name, one in changes.items() if one.fills or name in affected}:
                self._overfull(since)
        with self._step("stops"):
            affected = self._affected_brokers("episodes", changes, "stopped")
            if since := {name: one.since for name, one in changes.items() if one.stops or name in affected}:
                self._stopped(since)

    def _affected_brokers(self, name: str, changes: Mapping[str, _Changes], kind: str = "") -> set[str]:
        """Return the brokers with a row of that table that the new rows may change."""
        settled = pc.field("settled") if name == "episodes" else pc.scalar(True)
        first = pa.scalar(moment(min(one.since for one in changes.values())), pa.timestamp("us", tz="UTC"))
        maybe = pc.field("end").is_null() | (pc.field("end") >= first) | ~settled
        columns = ["broker", "end", *(["settled", "kind"] if name == "episodes" else [])]
        rows = self.tables.gather(name, columns, maybe).to_pylist()
        return {
            row["broker"]
            for row in rows
            if row["broker"] in changes
            and row.get("kind", "") == kind
            and (
                row["end"] is None or not row.get("settled", True) or row["end"] >= moment(changes[row["broker"]].since)
            )
        }

    def _blocks(self, since: Mapping[str, int]) -> None:
        events, samples = self._later("events", since), self._later("samples", since).where("whole")
        first = moment(min(since.values()))
        stored = self.tables.read_touching("holds", "end", first)
        before = self._keep(stored.where(_of_brokers(since, "coalesce(unix_millis(end), {ms}) >= {ms}")))
        carried = before.where(_of_brokers(since, "unix_millis(start) < {ms}"))
        self._refresh("holds", before, blocks_step.blocks(events, samples, carried))

    def _overfull(self, since: Mapping[str, int]) -> None:
        before = self._episodes("overfull", since)
        carried = before.where(_of_brokers(since, "unix_millis(seen) < {ms}"))
        found = self._keep(
            episodes_step.overfull(self._later("events", since), self._later("samples", since).where("whole"), carried)
        )
        first = found.agg(F.unix_millis(F.min("start"))).first()
        if first is not None and first[0] is not None:
            found = self._measured(found, moment(first[0]))
        self._refresh("episodes", before, found)

    def _stopped(self, since: Mapping[str, int]) -> None:
        before = self._episodes("stopped", since)
        carried = before.where(_of_brokers(since, "unix_millis(seen) < {ms}"))
        self._refresh("episodes", before, stops.stopped(self._later("events", since), carried))

    def _episodes(self, kind: str, since: Mapping[str, int]) -> DataFrame:
        """Return the episodes that rows since then may change."""
        stored = self.tables.read("episodes").where(f"kind = '{kind}'")
        return self._keep(stored.where(_of_brokers(since, "NOT settled OR coalesce(unix_millis(end), {ms}) >= {ms}")))

    def _later(self, name: str, since: Mapping[str, int]) -> DataFrame:
        rows = self.tables.read_ranges(name, [(moment(min(since.values())), END_OF_TIME)])
        return rows.where(_of_brokers(since, "unix_millis(at) >= {ms}"))

    def _measured(self, overfull: DataFrame, first: dt.datetime) -> DataFrame:
        tables = self.tables
        columns = ("broker", "virtualhost", "queue", "at", "depth_messages", "depth_bytes")
        points = [tables.read_ranges(name, [(first, END_OF_TIME)]).select(*columns) for name in ("samples", "events")]
        together = points[0].unionByName(points[1]).where("queue IS NOT NULL")
        return episodes_step.measured(overfull, together, tables.read_touching("holds", "end", first), self._horizons())

    def _horizons(self) -> DataFrame:
        """Return (broker, horizon_ms): the end of each broker's recording."""
        followed = self.tables.read("coverage").where("followed")
        return followed.groupBy("broker").agg(F.max(F.unix_millis("until")).alias("horizon_ms"))

    def _refresh(self, name: str, before: DataFrame, found: DataFrame) -> None:
        """Replace the stored rows `before` by the rows `found`."""
        tables = self.tables
        columns = schema(name).names
        missing = [F.lit(None).cast(f.dataType).alias(f.name) for f in schema(name) if f.name not in found.columns]
        old, new = before.select(*columns), self._keep(found.select("*", *missing).select(*columns))
        both = old.withColumn("n", F.lit(-1)).unionByName(new.withColumn("n", F.lit(1)))
        differing = both.groupBy(*columns).agg(F.sum("n").alias("n")).where("n <> 0")
        bounds = ("broker", "virtualhost", "queue", "start", "end")
        rows = (
            differing.groupBy(*bounds)
            .agg(F.sum("n").alias("n"))
            .groupBy(
                F.expr(f"unix_millis(start) div {HOUR}").alias("begin"),
                F.expr(f"unix_millis(end) div {HOUR}").alias("end"),
            )
            .agg(F.min(F.unix_millis("start")).alias("first"), F.max(F.abs("n")).alias("moved"))
            .collect()
        )
        if not rows:
            return
        # A row with unchanged bounds changes no rollup.
        self._pending.note((row.begin * HOUR, None if row.end is None else row.end * HOUR) for row in rows if row.moved)
        first = moment(min(row.first for row in rows))
        ranges = [(first, END_OF_TIME)]
        keys = ("id",) if name == "episodes" else ("broker", "producer", "virtualhost", "queue", "start")
        same_key = [F.col(f"mine.{key}").eqNullSafe(F.col(f"old.{key}")) for key in keys]
        keep = tables.read_ranges(name, ranges).alias("mine").join(old.alias("old"), same_key, "left_anti")
        tables.replace(name, ranges, keep.unionByName(new.where(F.col("start") >= F.lit(first))), at_once=self._few)

    # -- rollups --------------------------------------------------------------------------------------------------

    def _hours(self, affected: Iterable[int], changed: Iterable[Interval]) -> list[tuple[int, int]]:
        """Return the hours, as disjoint (from, to) in ms, whose rollups may have changed."""
        ranges = [(hour * HOUR, (hour + 1) * HOUR) for hour in affected]
        horizon = max(end for _begin, end in ranges)
        if any(end is None for _begin, end in changed):
            latest = self._horizons().agg(F.max("horizon_ms")).first()
            horizon = max(horizon, latest[0] if latest and latest[0] else 0)
        for begin, end in changed:
            last = horizon if end is None else end
            ranges.append((begin // HOUR * HOUR, (max(begin, last) // HOUR + 1) * HOUR))
        return joined(ranges)

    def _portions(self, hours: Sequence[tuple[int, int]]) -> list[list[tuple[int, int]]]:
        """Return the hours in portions that fit the heap. A sample contributes to all minutes until the next one, so
        sparse samples cause many rows each."""
        if self._few:
            return [list(hours)]
        rows: dict[int, int] = {}
        for file in self.tables.files("samples"):
            day = (file.partition - dt.date(1970, 1, 1)).days
            rows[day] = rows.get(day, 0) + file.rows * SAMPLE_VALIDITY_MS // MINUTE
        return portions(hours, rows)

    def _rollups(self, hours: Sequence[tuple[int, int]]) -> None:
        tables = self.tables
        ranges = as_ranges(hours)
        at_once = self._few and sum(end - begin for begin, end in hours) <= FEW_HOURS * HOUR
        with_before = [(begin - dt.timedelta(milliseconds=SAMPLE_VALIDITY_MS), end) for begin, end in ranges]
        first, last = with_before[0][0], with_before[-1][1]
        frame = self._frame(hours)
        coverage = tables.read_touching("coverage", "until", first, last)
        watched = self._keep(spans(coverage))
        sampled = self._keep(spans(coverage, sampled=True))
        intervals = {name: tables.read_touching(name, "end", ranges[0][0], last) for name in ("episodes", "holds")}
        with self._step("minutes"):
            rows = rollups.minutes(
                tables.read_ranges("samples", with_before),
                tables.read_ranges("events", with_before),
                watched,
                sampled,
                intervals["episodes"],
                intervals["holds"],
                frame,
                self._keep,
            )
            tables.replace("minutes", ranges, rows, at_once=at_once)
        with self._step("hours"):
            rows = rollups.coarser(tables.read_ranges("minutes", ranges), watched, frame, HOUR)
            tables.replace("hours", ranges, rows, at_once=at_once)
        with self._step("days"):
            days = joined([(begin // DAY * DAY, -(-end // DAY) * DAY) for begin, end in hours])
            ranges = as_ranges(days)
            coverage = tables.read_touching("coverage", "until", ranges[0][0], ranges[-1][1])
            rows = rollups.coarser(tables.read_ranges("minutes", ranges), spans(coverage), self._frame(days), DAY)
            tables.replace("days", ranges, rows, at_once=at_once)

    def _frame(self, ranges: Sequence[tuple[int, int]]) -> DataFrame:
        rows = ", ".join(f"({begin}L, {end}L)" for begin, end in ranges)
        return self.spark.sql(f"SELECT * FROM VALUES {rows} AS t(range_from, range_to)")  # noqa: S608 -- numbers only

    # -- inside ---------------------------------------------------------------------------------------------------

    def _keep(self, rows: DataFrame) -> DataFrame:
        """Cache rows that are needed more than once."""
        if self._few:
            return rows.localCheckpoint()  # later plans do not repeat their computation
        self._persisted.append(rows.persist())
        return rows

    def _release(self) -> None:
        """Free cached rows, and the Java objects of DataFrames in reference cycles, whose size Python's garbage
        collector does not know."""
        for each in self._persisted:
            each.unpersist()
        self._persisted.clear()
        gc.collect()

    def _step(self, name: str) -> _Timed:
        self._on_step(name)
        return _Timed(self._seconds, name)


class _Timed:
    def __init__(self, seconds: dict[str, float], name: str) -> None:
        self._seconds, self._name = seconds, name

    def __enter__(self) -> None:
        self._began = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        took = time.perf_counter() - self._began
        self._seconds[self._name] = round(self._seconds.get(self._name, 0.0) + took, 3)


def _hour(ms: Column) -> Column:
    return F.floor(ms / HOUR)


def _of_brokers(since: Mapping[str, int], condition: str) -> Column:
    """Return `condition` for the rows of these brokers, with the broker's time in place of {ms}."""
    of_one = [(F.col("broker") == name) & F.expr(condition.format(ms=ms)) for name, ms in since.items()]
    together = of_one[0]
    for each in of_one[1:]:
        together = together | each
    return together
