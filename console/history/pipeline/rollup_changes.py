"""Update the tables of rollups for hours whose rows have changed: minutes, then hours and days from the minutes.

Hours of which all raw rows are stored are replaced. Earlier ones are merged (`merging.py`): retention has deleted some
of their rows, and nothing that was known is lost by what arrives later. Only closed hours are rolled up: the recorder
has the rollups of the open one.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from console.history.pipeline import rollups
from console.history.pipeline.intervals import joined, portions
from console.history.pipeline.merging import merged
from console.history.pipeline.spans import spans_of_both
from console.history.storage.durations import DAY, HOUR, MINUTE, SAMPLE_VALIDITY_MS
from console.history.storage.landing_names import rolled_id
from console.history.storage.tables import Range, Ranges, Tables, frame, within

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class Rolled:
    """`since`: by broker, the time up to which rollups are stored, ms; `until`: the same after this run;
    `complete_from`: by broker, the time from which on all rows are stored that rollups are made from, ms."""

    since: Mapping[str, int]
    until: Mapping[str, int]
    complete_from: Mapping[str, int]


class RollupChanges:
    """`keep` caches rows, `release` frees them; `step`: a context per step, by its name."""

    def __init__(
        self,
        tables: Tables,
        rolled: Rolled,
        *,
        keep: Callable[[DataFrame], DataFrame],
        release: Callable[[], None],
        step: Callable[[str], AbstractContextManager[None]],
    ) -> None:
        self._tables = tables
        self._rolled = rolled
        self._keep = keep
        self._release = release
        self._step = step

    def update(self, changed: Ranges) -> None:
        """Update these ranges, and what was not rolled up yet. Each commit says up to when the table has rollups."""
        hours = {}
        for broker, ranges in changed.items():
            since, until = self._rolled.since.get(broker, 0), self._rolled.until.get(broker, 0)
            wanted = [(begin // HOUR * HOUR, min(-(-end // HOUR) * HOUR, until)) for begin, end in ranges]
            if since:
                wanted.append((since, until))
            hours[broker] = joined([each for each in wanted if each[0] < each[1]])
        parts = portions(hours, self._samples_by_day(set(hours)))
        for number, part in enumerate(parts, start=1):
            self._update(part, self._versions(part, is_last=number == len(parts)))
            self._release()

    def _samples_by_day(self, brokers: set[str]) -> dict[int, int]:
        """Return the approximate number of rows of minutes by day since the epoch. A sample contributes to all minutes
        until the next one, so sparse samples cause many rows each."""
        rows: dict[int, int] = {}
        for file in self._tables.files("samples"):
            if file.broker in brokers:
                day = (file.partition - _EPOCH).days
                rows[day] = rows.get(day, 0) + file.rows * SAMPLE_VALIDITY_MS // MINUTE
        return rows

    def _versions(self, part: Ranges, *, is_last: bool) -> dict[str, int]:
        """Return up to when the tables have rollups after this part of the hours, which are in order."""
        versions = {}
        for broker, until in self._rolled.until.items():
            since = self._rolled.since.get(broker, 0)
            reached = until if is_last else max([end for _begin, end in part.get(broker, ())], default=since)
            if reached > since:
                versions[rolled_id(broker)] = reached
        return versions

    def _update(self, hours: Mapping[str, list[Range]], versions: Mapping[str, int]) -> None:
        tables = self._tables
        with_before = {b: [(begin - SAMPLE_VALIDITY_MS, end) for begin, end in of] for b, of in hours.items()}
        days = {b: joined([(begin // DAY * DAY, -(-end // DAY) * DAY) for begin, end in of]) for b, of in hours.items()}
        # Of whole days, for all three tables: what lies outside of a range does not count.
        whole = {b: (of[0][0] - SAMPLE_VALIDITY_MS, of[-1][1]) for b, of in days.items() if of}
        both = self._keep(spans_of_both(tables.read_touching("coverage", "until", whole)))
        watched, sampled = both.where("NOT sampled").drop("sampled"), both.where("sampled").drop("sampled")
        inner = {b: (of[0][0], of[-1][1]) for b, of in hours.items() if of}
        episodes, blocks = (tables.read_touching(name, "end", inner) for name in ("episodes", "holds"))
        expected = self._expected_rows(hours)
        ranges = frame(tables.spark, hours)
        with self._step("minutes"):
            found = rollups.minutes(
                tables.read_ranges("samples", joined_by_broker(with_before)),
                tables.read_ranges("events", joined_by_broker(with_before)),
                watched,
                sampled,
                episodes,
                blocks,
                ranges,
                self._keep,
            )
            self._store("minutes", hours, found, expected, versions)
        with self._step("hours"):
            found = rollups.coarser(tables.read_ranges("minutes", hours), watched, ranges, HOUR)
            self._store("hours", hours, found, expected // 20, versions)
        with self._step("days"):
            up_to = {b: [(begin, min(end, self._rolled.until[b])) for begin, end in of] for b, of in days.items()}
            found = rollups.coarser(tables.read_ranges("minutes", up_to), watched, frame(tables.spark, up_to), DAY)
            self._store("days", days, found, expected // 100, versions)

    def _store(self, name: str, ranges: Ranges, found: DataFrame, expected: int, versions: Mapping[str, int]) -> None:
        """Replace the rows of ranges of which all raw rows are stored; merge the others."""
        step = DAY if name == "days" else HOUR
        partly = {broker: _before(of, self._rolled.complete_from.get(broker, 0), step) for broker, of in ranges.items()}
        partly = {broker: of for broker, of in partly.items() if of}
        if partly:
            found = self._keep(found)
            before = self._tables.read_ranges(name, partly)
            known = merged(before, within(found, "at", partly))
            found = within(found, "at", partly, outside=True).unionByName(known.select(*found.columns))
        self._tables.replace(name, ranges, found, expected=expected, versions=versions)

    def _expected_rows(self, hours: Ranges) -> int:
        """Return the approximate number of rows of minutes of the largest broker and day: a queue that changes every
        second has sixty samples a minute, one that does not change has one in five."""
        counts: dict[tuple[str, object], int] = {}
        for file in self._tables.files("samples"):
            if any(begin < _ms(file.after) and end > _ms(file.partition) for begin, end in hours.get(file.broker, ())):
                key = (file.broker, file.partition)
                counts[key] = counts.get(key, 0) + file.rows
        return max(counts.values(), default=0) // 4


def joined_by_broker(ranges: Ranges) -> dict[str, list[Range]]:
    return {broker: joined(of) for broker, of in ranges.items()}


def _before(ranges: Sequence[Range], end: int, step: int) -> list[Range]:
    """Return the parts of ranges before `end`, in whole steps."""
    return [(a, min(b, -(-end // step) * step)) for a, b in ranges if a < end]


def _ms(day: dt.date) -> int:
    return (day - _EPOCH).days * DAY


_EPOCH = dt.date(1970, 1, 1)
