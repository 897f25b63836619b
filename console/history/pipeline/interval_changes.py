"""Update the tables of blocks and episodes for new rows of some brokers, and return when rollups change by that.

Blocks and episodes are recomputed from the broker's first new row on, carrying over those that were ongoing then. A
long one that ends today was counted up to the last rollup already: only the time by which an interval became longer or
shorter changes rollups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from console.history.pipeline import blocks as blocks_step
from console.history.pipeline import episodes as episodes_step
from console.history.pipeline import stops
from console.history.pipeline.pending_rollups import Changes
from console.history.pipeline.spans import spans
from console.history.storage.durations import HOUR
from console.history.storage.tables import ALWAYS, Range, Tables, matching, no_rows, schema, time_of_broker, within

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Called with the hours whose rollups are about to change, by broker, before a commit.
Note = Callable[[Mapping[str, list[Range]]], None]


class IntervalChanges:
    """`horizons`: by broker, the time up to which it was recorded, ms; `complete_from`: by broker, the time
    from which on all raw rows are stored, ms; `keep`: caches rows; `note`: see Note."""

    def __init__(
        self,
        tables: Tables,
        changes: Mapping[str, Changes],
        *,
        horizons: Mapping[str, int],
        complete_from: Mapping[str, int],
        keep: Callable[[DataFrame], DataFrame],
        note: Note,
    ) -> None:
        self._tables = tables
        self._changes = changes
        self._horizons = horizons
        self._complete_from = complete_from
        self._keep = keep
        self._note = note
        self._since = {broker: each.since for broker, each in changes.items()}
        self._stored_rows: dict[str, DataFrame] = {}

    def blocks(self) -> None:
        since, before = self._affected("holds", lambda each: each.blocks)
        if not since:
            return
        events, samples = self._later("events", since), self._later("samples", since).where("whole")
        carried = _earlier(before, "start", since)
        found = self._keep(blocks_step.blocks(events, samples, carried))
        first = _starts(found.where("ended_by = 'broker-ready'"))
        if first:
            found = self._keep(blocks_step.known_until(found, self._recorded(first)))
        self._refresh("holds", before, found, ("broker", "producer", "virtualhost", "queue", "start"))

    def overfull(self) -> None:
        since, before = self._affected("episodes", lambda each: each.fills, "overfull")
        if not since:
            return
        carried = _earlier(before, "seen", since)
        events, samples = self._later("events", since), self._later("samples", since).where("whole")
        found = self._keep(episodes_step.overfull(events, samples, carried))
        restarted = F.coalesce(F.max(F.col("released_by") == "restart"), F.lit(False))
        rows = found.groupBy("broker").agg(F.unix_millis(F.min("start")).alias("first"), restarted.alias("restarted"))
        starts = rows.collect()
        recorded = self._recorded({row.broker: row["first"] for row in starts})
        if any(row.restarted for row in starts):
            recorded = self._keep(recorded)
            found = self._keep(episodes_step.known_until(found, recorded))
        self._refresh("episodes", before, self._keep(self._measured(found, before, since, recorded)), ("id",))

    def stops(self) -> None:
        since, before = self._affected("episodes", lambda each: each.stops, "stopped")
        if since:
            carried = _earlier(before, "seen", since)
            found = self._keep(stops.stopped(self._later("events", since), carried))
            self._refresh("episodes", before, found, ("id",))

    # -- inside -------------------------------------------------------------------------------------------------

    def _affected(
        self, name: str, is_new: Callable[[Changes], bool], kind: str = ""
    ) -> tuple[dict[str, int], DataFrame]:
        """Return the brokers with such new rows, or with rows of that table and kind that new rows may change: the
        time of the first new row by broker, ms, and their stored rows."""
        affected = set()
        if any(file.broker in self._since for file in self._tables.files(name)):
            if name not in self._stored_rows:
                self._stored_rows[name] = self._keep(self._touched(name))
            stored = self._stored_rows[name]
            stored = stored.where(F.col("kind") == kind) if kind else stored
            affected = {row.broker for row in stored.select("broker").distinct().collect()}
        else:
            stored = no_rows(self._tables.spark, schema(name))
        since = {broker: each.since for broker, each in self._changes.items() if broker in affected or is_new(each)}
        return since, stored.where(F.col("broker").isin(list(since)))

    def _touched(self, name: str) -> DataFrame:
        """Return the rows of the table that new rows may change."""
        if name != "episodes":
            return self._tables.read_touching(name, "end", _from(self._since))
        stored = self._tables.read(name, lambda file: file.broker in self._since)
        ends = F.unix_millis("end")
        return matching(
            stored,
            _ranges_from(self._since),
            lambda begin, _end: ~F.col("settled") | F.coalesce(ends >= begin, F.lit(True)),
        )

    def _later(self, name: str, since: Mapping[str, int]) -> DataFrame:
        return self._tables.read_ranges(name, {broker: [(ms, ALWAYS[1])] for broker, ms in since.items()})

    def _recorded(self, first: Mapping[str, int]) -> DataFrame:
        """Return the recorded spans from these times on, by broker."""
        return spans(self._tables.read_touching("coverage", "until", _from(first)))

    def _measured(
        self, found: DataFrame, before: DataFrame, since: Mapping[str, int], recorded: DataFrame
    ) -> DataFrame:
        """Add the measured columns. The points before `since` of an episode that only became longer were measured by an
        earlier run."""
        tables = self._tables
        found = self._keep(episodes_step.measured_from(found, before, since))
        rows = found.groupBy("broker").agg(
            F.min("points_from").alias("first"), F.unix_millis(F.min("start")).alias("start")
        )
        firsts = {row.broker: (row.first, row.start) for row in rows.collect()}
        columns = ("broker", "virtualhost", "queue", "at", "depth_messages", "depth_bytes")
        ranges = {broker: [(first, ALWAYS[1])] for broker, (first, _) in firsts.items()}
        points = [tables.read_ranges(name, ranges).select(*columns) for name in ("samples", "events")]
        together = points[0].unionByName(points[1]).where("queue IS NOT NULL")
        blocks = tables.read_touching("holds", "end", {b: (start, ALWAYS[1]) for b, (_, start) in firsts.items()})
        measured = episodes_step.measured(found, together, blocks, self._horizons_of(since), recorded)
        complete_from = {broker: ms for broker in since if (ms := self._complete_from.get(broker, 0)) > 0}
        return episodes_step.never_less(measured, before, complete_from) if complete_from else measured

    def _horizons_of(self, brokers: Iterable[str]) -> dict[str, int]:
        return {broker: self._horizons.get(broker, 0) for broker in brokers}

    def _refresh(self, name: str, before: DataFrame, found: DataFrame, key: tuple[str, ...]) -> None:
        """Replace the stored rows `before` by the rows `found`, which are cached."""
        columns = schema(name).names
        missing = [F.lit(None).cast(f.dataType).alias(f.name) for f in schema(name) if f.name not in found.columns]
        old, new = before.select(*columns), found.select("*", *missing).select(*columns)
        both = old.withColumn("n", F.lit(-1)).unionByName(new.withColumn("n", F.lit(1)))
        differing = both.groupBy(*columns).agg(F.sum("n").alias("n")).where("n <> 0")
        first, hours = self._changed(differing, key)
        if not first:
            return
        self._note(hours)
        is_old = F.lit(True)
        for column in key:
            is_old = is_old & F.col(f"mine.{column}").eqNullSafe(F.col(f"old.{column}"))
        mine = self._tables.read_ranges(name, first).alias("mine")
        unchanged = mine.join(old.alias("old"), is_old, "left_anti")
        self._tables.replace(name, first, unchanged.unionByName(within(new, "start", first)), expected=0)

    def _changed(
        self, differing: DataFrame, key: tuple[str, ...]
    ) -> tuple[dict[str, list[Range]], dict[str, list[Range]]]:
        """Return, by broker, the range of the starts of differing rows, and the hours for which an interval became
        longer or shorter. Ongoing ones end with the recording."""
        horizon = time_of_broker(self._horizons_of(self._changes))
        end = F.coalesce(F.unix_millis("end"), F.greatest(horizon, F.unix_millis("start")))
        same = list(dict.fromkeys(("broker", *key, "start")))
        hour = {"first": F.expr(f"begin div {HOUR}"), "last": F.expr(f"high div {HOUR}")}
        rows = (
            differing.withColumn("end_ms", end)
            .groupBy(*same)
            .agg(F.count("*").alias("rows"), F.min("end_ms").alias("low"), F.max("end_ms").alias("high"))
            .withColumn("begin", F.when(F.col("rows") > 1, F.col("low")).otherwise(F.unix_millis("start")))
            # An interval with unchanged bounds changes no rollup.
            .withColumns({name: F.when(F.expr("rows = 1 OR low <> high"), each) for name, each in hour.items()})
            .groupBy("broker", *hour)
            .agg(F.unix_millis(F.min("start")).alias("least"), F.unix_millis(F.max("start")).alias("most"))
            .collect()
        )
        starts: dict[str, list[Range]] = {}
        hours: dict[str, list[Range]] = {}
        for row in rows:
            least, until = starts.get(row.broker, [(row.least, row.most + 1)])[0]
            starts[row.broker] = [(min(least, row.least), max(until, row.most + 1))]
            if row["first"] is not None:
                hours.setdefault(row.broker, []).append((row["first"] * HOUR, (row["last"] + 1) * HOUR))
        return starts, hours


def _from(since: Mapping[str, int]) -> dict[str, Range]:
    return {broker: (ms, ALWAYS[1]) for broker, ms in since.items()}


def _ranges_from(times: Mapping[str, int]) -> dict[str, list[Range]]:
    return {broker: [(ms, ALWAYS[1])] for broker, ms in times.items()}


def _earlier(rows: DataFrame, column: str, since: Mapping[str, int]) -> DataFrame:
    return matching(rows, _ranges_from(since), lambda begin, _end: F.unix_millis(column) < begin)


def _starts(intervals: DataFrame) -> dict[str, int]:
    """Return the first start by broker, ms."""
    rows = intervals.groupBy("broker").agg(F.unix_millis(F.min("start")).alias("first")).collect()
    return {row.broker: row["first"] for row in rows}
