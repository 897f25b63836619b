"""One run of the pipeline: take the landing files that are new, and bring every table up to date.

    landing -> events, samples, coverage -> holds -> episodes -> minutes -> hours, days -> taken

What the new rows can change is worked out anew from the tables, in batch, and replaces what was there: the time from
their first moment on for holds and episodes, carrying in what was not over by then, and their hours for the rollups. So
the tables are a function of the rows that ever landed, in whatever order. A file counts as taken after all else is
committed. A run that was killed leaves its files to the next one, which finds some of their rows stored already, works
out the same, and so comes to the same tables.

Two runs must not go on at the same time: the caller holds the lock (`lease.py`).
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from console.history import episodes as episodes_step
from console.history import holds as holds_step
from console.history import rollups, stops
from console.history.cleaning import clean, unknown
from console.history.layout import LAYOUTS
from console.history.rollups import DAY, HOLDS_MS, HOUR
from console.history.spans import spans
from console.history.tables import Range, Tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KINDS = ("events", "samples", "coverage")

#: Landing files of one kind that one run takes, so that a large backlog is worked off in steps that fit the heap.
MOST_FILES = 400

#: Stretches of hours that one run works out; with more of them they are joined, which costs time and changes nothing.
MOST_RANGES = 24


@dataclass(frozen=True, slots=True)
class Report:
    """What a run did. `rows`: those that landed, by kind; `seconds` by step; `more`: files were left for the next."""

    files: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    newest: dt.datetime | None = None
    more: bool = False


class Run:
    """See the module. `on_step` is called with the name of each step before it begins."""

    def __init__(self, tables: Tables, on_step: Callable[[str], None] = lambda _name: None) -> None:
        self.tables = tables
        self.spark = tables.spark
        self._on_step = on_step
        self._seconds: dict[str, float] = {}

    def run(self) -> Report:
        """Raises what Spark and the landing folder raise; then nothing that was not committed counts."""
        tables = self.tables
        files, more = self._new_files()
        count = sum(map(len, files.values()))
        if not count:
            return Report()
        landed = {}
        try:
            with self._step("landing"):
                for kind in KINDS:
                    landed[kind] = clean(kind, tables.landed(kind, files[kind])).persist()
                rows = {kind: landed[kind].count() for kind in KINDS}
                bounds = {kind: self._bounds(landed[kind], kind) for kind in KINDS if rows[kind]}
                since = self._since(landed)
            with self._step("store"):
                for kind, (first, last) in bounds.items():
                    stored = tables.read_ranges(kind, [(first, last + dt.timedelta(milliseconds=1))])
                    tables.append(kind, unknown(kind, landed[kind], stored))
            if since:
                changed = self._intervals(since)
                with self._step("hours"):
                    hours = self._hours(landed, changed)
                self._rollups(hours)
            with self._step("taken"):
                self._take(files)
        finally:
            for each in landed.values():
                each.unpersist()
        newest = max((last for kind, (_first, last) in bounds.items()), default=None)
        return Report(count, rows, dict(self._seconds), newest, more)

    # -- landing --------------------------------------------------------------------------------------------------

    def _new_files(self) -> tuple[dict[str, list[str]], bool]:
        """Files of each kind that are in no table yet, the first `MOST_FILES` of them; whether there are more."""
        found = {kind: self.tables.landing.names(kind) for kind in KINDS}
        if not any(found.values()):
            return found, False
        taken = {(row.kind, row.file) for row in self.tables.read("taken").select("kind", "file").collect()}
        new = {kind: [name for name in names if (kind, name) not in taken] for kind, names in found.items()}
        more = any(len(names) > MOST_FILES for names in new.values())
        return {kind: names[:MOST_FILES] for kind, names in new.items()}, more

    def _bounds(self, rows: DataFrame, kind: str) -> Range:
        time_column = LAYOUTS[kind].time
        first, last = rows.agg(F.unix_millis(F.min(time_column)), F.unix_millis(F.max(time_column))).first() or (0, 0)
        return _moment(first), _moment(last)

    def _since(self, landed: dict[str, DataFrame]) -> dict[str, int]:
        """The first moment, ms, that the new rows of each broker tell of."""
        firsts = [landed[kind].groupBy("broker").agg(F.unix_millis(F.min("at")).alias("ms")) for kind in KINDS]
        together = firsts[0].unionByName(firsts[1]).unionByName(firsts[2])
        return {row.broker: row.ms for row in together.groupBy("broker").agg(F.min("ms").alias("ms")).collect()}

    def _take(self, files: dict[str, list[str]]) -> None:
        now = dt.datetime.now(dt.UTC)
        rows = [(kind, name, None, now) for kind, names in files.items() for name in names]
        schema = "kind string, file string, rows bigint, at timestamp"
        self.tables.append("taken", self.spark.createDataFrame(rows, schema))

    # -- holds and episodes ---------------------------------------------------------------------------------------

    def _intervals(self, since: dict[str, int]) -> list[tuple[int, int | None]]:
        """Bring holds and episodes up to date; return the stretches of time, ms, in which one begins or ends anew."""
        tables = self.tables
        moments = F.broadcast(self.spark.createDataFrame(list(since.items()), "broker string, since_ms bigint"))
        first = _moment(min(since.values()))
        for_ever = [(first, dt.datetime(9999, 1, 1, tzinfo=dt.UTC))]
        changed: list[tuple[int, int | None]] = []

        def later(name: str) -> DataFrame:
            rows = tables.read_ranges(name, for_ever).join(moments, "broker")
            return rows.where(F.unix_millis("at") >= F.col("since_ms")).drop("since_ms")

        with self._step("holds"):
            events = later("events").persist()
            samples = later("samples").where("whole").persist()
            stored = tables.read("holds").drop("day").join(moments, "broker")
            open_then = stored.where(F.expr("end IS NULL OR unix_millis(end) >= since_ms")).persist()
            carried = open_then.where(F.unix_millis("start") < F.col("since_ms"))
            found = holds_step.holds(events, samples, carried).persist()
            changed += self._refresh("holds", open_then.drop("since_ms"), found)
        with self._step("episodes"):
            stored = tables.read("episodes").drop("month").join(moments, "broker")
            open_or_not_sure = F.expr("end IS NULL OR unix_millis(end) >= since_ms OR NOT settled")
            before = stored.where(open_or_not_sure).persist()
            carried = before.where(F.unix_millis("seen") < F.col("since_ms")).drop("since_ms")
            overfull = episodes_step.overfull(events, samples, carried.where("kind = 'overfull'")).persist()
            stopped = stops.stopped(events, carried.where("kind = 'stopped'"))
            complete = self._measured(overfull).unionByName(stopped, allowMissingColumns=True).persist()
            changed += self._refresh("episodes", before.drop("since_ms"), complete)
        for each in (events, samples, open_then, found, before, overfull, complete):
            each.unpersist()
        return changed

    def _measured(self, overfull: DataFrame) -> DataFrame:
        tables = self.tables
        first = overfull.agg(F.unix_millis(F.min("start"))).first()
        if first is None or first[0] is None:
            return overfull
        horizon = self._horizons()
        range_ = [(_moment(first[0]), dt.datetime(9999, 1, 1, tzinfo=dt.UTC))]
        columns = ("broker", "virtualhost", "queue", "at", "depth_messages", "depth_bytes")
        points = (
            tables.read_ranges("samples", range_)
            .select(*columns)
            .unionByName(tables.read_ranges("events", range_).where("queue IS NOT NULL").select(*columns))
        )
        held = tables.read("holds").where(F.expr(f"end IS NULL OR unix_millis(end) >= {first[0]}"))
        return episodes_step.measured(overfull, points, held, horizon)

    def _horizons(self) -> DataFrame:
        """(broker, horizon_ms): up to when each broker was watched."""
        return (
            self.tables.read("coverage")
            .where("followed")
            .groupBy("broker")
            .agg(F.max(F.unix_millis("until")).alias("horizon_ms"))
        )

    def _refresh(self, name: str, before: DataFrame, found: DataFrame) -> list[tuple[int, int | None]]:
        """Put the rows `found` in the place of the stored rows `before`. Returns the bounds (ms, None: open) of all
        rows whose bounds differ."""
        tables = self.tables
        layout = LAYOUTS[name]
        columns = tables.read(name).drop(layout.partition).columns
        old, new = before.select(*columns), found.select(*(F.col(c) for c in columns))
        gone, come = old.exceptAll(new), new.exceptAll(old)
        first = gone.select("start").unionByName(come.select("start")).agg(F.unix_millis(F.min("start"))).first()
        if first is None or first[0] is None:
            return []
        bounds = ("broker", "virtualhost", "queue", "start", "end")
        moved = (
            old.select(*bounds)
            .exceptAll(new.select(*bounds))
            .unionByName(new.select(*bounds).exceptAll(old.select(*bounds)))
        )
        stretches = [
            (row.start_ms, row.end_ms)
            for row in moved.select(F.unix_millis("start").alias("start_ms"), F.unix_millis("end").alias("end_ms"))
            .distinct()
            .collect()
        ]
        ranges = [(_moment(first[0]), dt.datetime(9999, 1, 1, tzinfo=dt.UTC))]
        keep = tables.read_ranges(name, ranges).select(*columns).exceptAll(old)
        tables.replace(name, ranges, keep.unionByName(new.where(F.unix_millis("start") >= first[0])))
        return stretches

    # -- rollups --------------------------------------------------------------------------------------------------

    def _hours(self, landed: dict[str, DataFrame], changed: Iterable[tuple[int, int | None]]) -> list[tuple[int, int]]:
        """The hours, as (from, to) in ms, apart from each other, whose rollups may come out different now."""
        ms = F.unix_millis("at")
        told = [
            landed["samples"].select(F.explode(F.array(_hour(ms), _hour(ms + HOLDS_MS))).alias("hour")),
            landed["events"].select(F.explode(F.array(_hour(ms), _hour(ms + HOLDS_MS))).alias("hour")),
            # What has become known may let a sample of before hold on.
            landed["coverage"].select(
                F.explode(F.sequence(_hour(ms), _hour(F.greatest(ms, F.unix_millis("until"))))).alias("hour")
            ),
        ]
        together = told[0].unionByName(told[1]).unionByName(told[2]).distinct()
        ranges = [(row.hour * HOUR, (row.hour + 1) * HOUR) for row in together.collect()]
        ends = [end for _begin, end in ranges]
        latest = self._horizons().agg(F.max("horizon_ms")).first()
        horizon = max([*ends, latest[0] if latest and latest[0] else 0])
        for begin, end in changed:
            last = horizon if end is None else end
            ranges.append((begin // HOUR * HOUR, (max(begin, last) // HOUR + 1) * HOUR))
        return joined(ranges)

    def _rollups(self, hours: Sequence[tuple[int, int]]) -> None:
        if not hours:
            return
        tables = self.tables
        ranges = [(_moment(begin), _moment(end)) for begin, end in hours]
        with_before = [(begin - dt.timedelta(milliseconds=HOLDS_MS), end) for begin, end in ranges]
        first, last = hours[0][0], hours[-1][1]
        at_ranges = self._frame(hours)
        looked = tables.read("coverage").where(
            F.expr(f"unix_millis(at) < {last} AND unix_millis(until) >= {first - HOLDS_MS}")
        )
        all_spans = spans(looked).persist()
        sampled = spans(looked, sampled=True)
        touching = F.expr(f"unix_millis(start) < {last} AND (end IS NULL OR unix_millis(end) >= {first})")
        with self._step("minutes"):
            tables.replace(
                "minutes",
                ranges,
                rollups.minutes(
                    tables.read_ranges("samples", with_before),
                    tables.read_ranges("events", with_before),
                    all_spans,
                    sampled,
                    tables.read("episodes").where(touching),
                    tables.read("holds").where(touching),
                    at_ranges,
                ),
            )
        with self._step("hours"):
            rows = rollups.coarser(tables.read_ranges("minutes", ranges), all_spans, at_ranges, HOUR)
            tables.replace("hours", ranges, rows)
        with self._step("days"):
            days = joined([(begin // DAY * DAY, -(-end // DAY) * DAY) for begin, end in hours])
            day_ranges = [(_moment(begin), _moment(end)) for begin, end in days]
            looked = tables.read("coverage").where(
                F.expr(f"unix_millis(at) < {days[-1][1]} AND unix_millis(until) >= {days[0][0]}")
            )
            rows = rollups.coarser(tables.read_ranges("minutes", day_ranges), spans(looked), self._frame(days), DAY)
            tables.replace("days", day_ranges, rows)
        all_spans.unpersist()

    def _frame(self, ranges: Sequence[tuple[int, int]]) -> DataFrame:
        return self.spark.createDataFrame(list(ranges), "range_from bigint, range_to bigint")

    # -- inside ---------------------------------------------------------------------------------------------------

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


def joined(ranges: Iterable[tuple[int, int]], most: int = MOST_RANGES) -> list[tuple[int, int]]:
    """Half-open ranges as few that cover them, in order and apart from each other; where there would be more than
    `most`, those nearest to each other are joined."""
    merged: list[tuple[int, int]] = []
    for begin, end in sorted(ranges):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((begin, end))
    while len(merged) > most:
        gaps = [(merged[i + 1][0] - merged[i][1], i) for i in range(len(merged) - 1)]
        nearest = sorted(gaps)[: len(merged) - most]
        for _gap, i in sorted(nearest, key=lambda each: -each[1]):
            merged[i : i + 2] = [(merged[i][0], merged[i + 1][1])]
    return merged


def _hour(ms):  # type: ignore[no-untyped-def]
    return F.floor(ms / HOUR)


def _moment(ms: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(ms / 1000, dt.UTC)
