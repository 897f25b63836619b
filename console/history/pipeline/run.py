"""One run of the pipeline: ingest new landing files of some brokers and update all tables.

    landing -> events, samples, coverage -> blocks -> episodes -> minutes -> hours, days -> processed files

Rows that the new data can change are recomputed from the tables, in batch, and replaced: blocks and episodes from the
first new row on (`interval_changes.py`), and rollups for the affected closed hours (`rollup_changes.py`). So the
tables are a function of all landed rows, in any order. What a run is about to change is noted first
(`pending_rollups.py`): the run after one that was killed does the rest.

A run touches only rows of its brokers. Runs for the same broker must not overlap: the caller owns the broker's lease
(`console/leases/lease.py`); runs for different brokers may.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import gc
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from console.history.pipeline.batches import (
    KINDS,
    Batch,
    bounds_of,
    find_batch,
    set_aside_damaged,
    unprocessed,
)
from console.history.pipeline.cleaning import clean, complete, not_stored
from console.history.pipeline.interval_changes import IntervalChanges
from console.history.pipeline.pending_rollups import Changes, PendingRollups, by_broker
from console.history.pipeline.rollup_changes import Rolled, RollupChanges
from console.history.storage.commits import Overtaken
from console.history.storage.durations import DAY, HOUR, MINUTE, SAMPLE_VALIDITY_MS
from console.history.storage.fresh import CATALOG, Catalog, decode, folder
from console.history.storage.landing_names import broker_of, landed_id, retained_id, rolled_id, sequence_of
from console.history.storage.tables import Range, Tables, moment

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: Up to this many rows a run uses the mode with the shortest start: simple plans, no compilation.
FEW_ROWS = 100_000

#: A recorder whose last coverage landed less than this ago, in ms, is active: it has the rollups of its broker's open
#: hour. Coverage lands every quarter of an hour.
_ACTIVE = 25 * MINUTE

#: Spark's optimizations for large queries take longer than a small query.
QUICK = {
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
    `newest`: time of the newest row; `more`: files are left for the next run; `unreadable`: files that were set aside,
    with the reason; `active`: brokers with an active recorder, whose hour is left open; `parts`: by broker, if
    there are several."""

    files: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    newest: dt.datetime | None = None
    more: bool = False
    unreadable: Mapping[str, str] = field(default_factory=dict)
    active: frozenset[str] = frozenset()
    parts: Mapping[str, Report] = field(default_factory=dict)

    def of(self, broker: str) -> Report:
        """Return the part of a broker."""
        return self.parts.get(broker, Report(seconds=self.seconds))


def brokers_waiting(tables: Tables) -> list[str]:
    """Return the brokers with work for a run: landing files, or pending work of a run that was killed."""
    found = set(PendingRollups(tables.landing).load())
    others = False
    for kind in KINDS:
        for name in unprocessed(tables, kind, tables.landing.names(kind)):
            if sequence_of(name) is not None:
                found.add(broker_of(name))
            else:
                others = True
    return sorted(found | (find_batch(tables).brokers if others else set()))


class Run:
    """See the module. `brokers`: None for all with work. `on_step` is called with the name of each step before it
    starts. `now`: ms."""

    def __init__(
        self,
        tables: Tables,
        on_step: Callable[[str], None] = lambda _name: None,
        *,
        brokers: Collection[str] | None = None,
        now: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self.tables = tables
        self.spark = tables.spark
        self._on_step = on_step
        self._brokers = brokers
        self._now = now
        self._seconds: dict[str, float] = {}
        self._few = True
        self._pending = PendingRollups(tables.landing)
        self._persisted: list[DataFrame] = []

    def run(self) -> Report:
        """Run once. Raises errors of Spark and of the landing folder, and Overtaken if the caller has lost a lease;
        then the next run processes the same files."""
        with self.tables.owned():
            return self._run()

    def _run(self) -> Report:
        batch = find_batch(self.tables, self._brokers)
        pending = self._pending.load(self._brokers)
        pending |= self._left_open({*batch.brokers, *pending})
        brokers = {*batch.brokers, *pending}
        active = frozenset(self._active_recorders())
        if not brokers and not batch.files:
            return Report(unreadable=batch.unreadable, active=active)
        self._configure(sum(batch.rows(kind) for kind in KINDS))
        try:
            self._process(batch, pending)
        except Overtaken:
            raise
        except Exception:
            damaged = set_aside_damaged(self.tables.landing, batch)
            if not damaged:
                raise
            batch = find_batch(self.tables, self._brokers)
            batch.unreadable |= damaged
            self._process(batch, self._pending.load(self._brokers))
        finally:
            self._release()
        parts = {broker: self._report(batch.of(broker), active) for broker in brokers} if len(brokers) > 1 else {}
        return self._report(batch, active, parts)

    def _report(self, batch: Batch, active: frozenset[str], parts: Mapping[str, Report] | None = None) -> Report:
        last = max((file.last for file in batch.files if file.rows), default=None)
        return Report(
            len(batch.files),
            {kind: batch.rows(kind) for kind in KINDS},
            dict(self._seconds),
            None if last is None else moment(last),
            batch.more,
            batch.unreadable,
            active,
            parts or {},
        )

    def _configure(self, rows: int) -> None:
        self._few = rows <= FEW_ROWS
        settings = dict(QUICK if self._few else _LARGE)
        if self._is_local():
            # Few partitions are faster for few rows; more partitions spill less each. A cluster has its own setting.
            settings["spark.sql.shuffle.partitions"] = "2" if self._few else "8"
        elif self._few:
            settings["spark.sql.adaptive.enabled"] = "true"  # combines the partitions of a large setting
        for key, value in settings.items():
            self.spark.conf.set(key, value)

    def _process(self, batch: Batch, pending: Mapping[str, Changes]) -> None:
        landed = self._landed(batch)
        changes = self._changes(landed, pending)
        for each in changes.values():
            self._pending.store(each)
        with self._step("store"):
            for kind, rows in landed.items():
                self._append(kind, rows, batch)
        self._release()
        rolled = self._rolled(changes)
        self._intervals(changes, rolled)
        rollups = RollupChanges(self.tables, rolled, keep=self._keep, release=self._release, step=self._step)
        rollups.update({broker: each.ranges for broker, each in changes.items()})
        with self._step("processed"):
            for file in batch.files:
                if sequence_of(file.name) is None:
                    self.tables.landing.remove(file.kind, file.name)
            for broker in changes:
                self._pending.clear(broker)

    # -- new rows -------------------------------------------------------------------------------------------------

    def _landed(self, batch: Batch) -> dict[str, DataFrame]:
        return {kind: self.tables.landed(kind, names) for kind in KINDS if (names := batch.names(kind))}

    def _append(self, kind: str, landed: DataFrame, batch: Batch) -> None:
        bounds = batch.bounds(kind)
        days = 1 + max(((last - first) // DAY for first, last in bounds.values()), default=0)
        expected = batch.rows(kind) // days
        stored = self.tables.read_ranges(kind, bounds_of(bounds))
        rows = not_stored(kind, clean(kind, landed, expected), stored)
        self.tables.append(kind, rows, expected=expected, versions=batch.sequences(kind))

    def _changes(self, landed: Mapping[str, DataFrame], pending: Mapping[str, Changes]) -> dict[str, Changes]:
        """Return what the new rows can change, by broker, with the pending changes of a run that was killed."""
        with self._step("landing"):
            found = self._changes_of_rows({kind: complete(kind, rows) for kind, rows in landed.items()})
            return by_broker([*pending.values(), *found])

    def _changes_of_rows(self, landed: Mapping[str, DataFrame]) -> Iterable[Changes]:
        if not landed:
            return
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
        for row in found.collect():
            hour = [(row.hour * HOUR, (row.hour + 1) * HOUR)]
            yield Changes(row.broker, row.since, hour, row.blocks, row.fills, row.stops)

    # -- times ----------------------------------------------------------------------------------------------------

    def _rolled(self, changes: Mapping[str, Changes]) -> Rolled:
        """Return up to when the tables have rollups. Those of the hour that a recorder is in are not made yet."""
        tables = self.tables
        active = self._active_recorders()
        since, until, complete_from = {}, {}, {}
        for broker in changes:
            since[broker] = self._rolled_until(broker)
            end = self._recorded_until(broker)
            if broker in active or self._has_tail(broker):
                catalog = self._catalog(broker)
                # Imported rows may have a future time. Pages read the hour that the recorder is in from its files.
                reached = (end if catalog is None else min(end, catalog.published)) // HOUR * HOUR
            else:
                last = max((high for _low, high in changes[broker].ranges), default=0)
                reached = -(-max(end, last) // HOUR) * HOUR
            until[broker] = max(reached, since[broker])
            cuts = [tables.version(name, retained_id(broker)) or 0 for name in (*KINDS, "minutes")]
            # A sample is valid for some time, so the first hour has lost rows, too.
            complete_from[broker] = max(cuts) + HOUR if any(cuts) else 0
        return Rolled(since, until, complete_from)

    def _left_open(self, changed: Collection[str]) -> dict[str, Changes]:
        """Return the hours that recorders have left open by their end, of this run's brokers without other changes."""
        active = self._active_recorders()
        found = {}
        for broker in set(self._brokers or ()) - set(changed) - active:
            since, end = self._rolled_until(broker), self._recorded_until(broker)
            if end > since and not self._has_tail(broker):
                first = min(since or end, end) // HOUR * HOUR
                found[broker] = Changes(broker, end, [(first, -(-end // HOUR) * HOUR)])
        return found

    def _rolled_until(self, broker: str) -> int:
        """Return up to when the tables have rollups, ms; 0 for none. They are committed one after the other: a run that
        was killed may have missed some."""
        return min(self.tables.version(name, rolled_id(broker)) or 0 for name in ("minutes", "hours", "days"))

    def _has_tail(self, broker: str) -> bool:
        """Return whether a recorder has published rows that have not landed: of one that was killed, the next one lands
        them. Until then pages read its rollups of the open hour, which contain these rows."""
        catalog = self._catalog(broker)
        if catalog is None:
            return False
        tails = {kind: tail for kind in KINDS if (tail := catalog.tail(kind)) is not None}
        return any(
            tail.sequence > (self.tables.version(kind, landed_id(kind, broker)) or 0) for kind, tail in tails.items()
        )

    def _catalog(self, broker: str) -> Catalog | None:
        """Return what a recorder of the broker has published last."""
        content = self.tables.landing.get(f"{folder(broker)}/{CATALOG}")
        try:
            return None if content is None else decode(content)
        except ValueError:  # no recorder continues it
            return None

    def _recorded_until(self, broker: str) -> int:
        """Return the end of a broker's recording, ms; 0 if it has none."""
        ends = [
            most
            for file in self.tables.files("coverage")
            if file.broker == broker and (most := file.bounds.get("until", (None, None, True))[1]) is not None
        ]
        return max((int(end.timestamp() * 1000) for end in ends), default=0)

    def _active_recorders(self) -> set[str]:
        """Return the brokers whose recorder has published a file recently: its sequence is a time in ns."""
        since = (self._now() - _ACTIVE) * 1_000_000
        return {broker_of(name) for name in self.tables.landing.names("coverage") if (sequence_of(name) or 0) > since}

    # -- blocks and episodes --------------------------------------------------------------------------------------

    def _intervals(self, changes: Mapping[str, Changes], rolled: Rolled) -> None:
        """Update blocks and episodes; add the hours for which one has become longer or shorter to `changes`."""

        def note(hours: Mapping[str, list[Range]]) -> None:
            for broker, ranges in hours.items():
                changes[broker].ranges = sorted({*changes[broker].ranges, *ranges})
                self._pending.store(changes[broker])

        intervals = IntervalChanges(
            self.tables,
            changes,
            horizons={broker: self._recorded_until(broker) for broker in changes},
            complete_from=rolled.complete_from,
            keep=self._keep,
            note=note,
        )
        with self._step("holds"):
            intervals.blocks()
        with self._step("episodes"):
            intervals.overfull()
        with self._step("stops"):
            intervals.stops()
        self._release()

    # -- inside -------------------------------------------------------------------------------------------------

    def _keep(self, rows: DataFrame) -> DataFrame:
        """Cache rows that are needed more than once."""
        # Later plans do not repeat the computation of a checkpoint. A cluster may lose an executor: persisted rows are
        # computed again then, those of a checkpoint would fail the run.
        if self._few and self._is_local():
            return rows.localCheckpoint()
        self._persisted.append(rows.persist())
        return rows

    def _is_local(self) -> bool:
        return str(self.spark.sparkContext.master).startswith("local")

    def _release(self) -> None:
        """Free cached rows, and the Java objects of DataFrames in reference cycles, whose size Python's garbage
        collector does not know."""
        for each in self._persisted:
            each.unpersist()
        self._persisted.clear()
        gc.collect()

    @contextlib.contextmanager
    def _step(self, name: str) -> Iterator[None]:
        self._on_step(name)
        began = time.perf_counter()
        try:
            yield
        finally:
            took = time.perf_counter() - began
            self._seconds[name] = round(self._seconds.get(name, 0.0) + took, 3)


def _hour(ms: Column) -> Column:
    return F.floor(ms / HOUR)
