"""The rollups, episodes and blocks of one broker that are in no table yet, as files that the recorder publishes.

A minute's rows are a file when the minute has closed; ten of these are merged into one, and those of a closed hour
again, so that a query reads 15 files at most for an hour. The open minute and hour, the episodes and the blocks are
files that are replaced, at most every second, and less often if that takes more than a share of a processor.

The state is stored when rows have landed: a snapshot of the rollups, the published files, and the sequences of the
landing files that they include. A later recorder continues from there, with the landing files that are newer. Without a
usable state it begins with what has landed in the present hour.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from console.history.record.pace import Pace
from console.history.record.recorded_files import RecordedFiles
from console.history.rollups.broker import EVENT_COLUMNS, SAMPLE_COLUMNS, BrokerRollups, SnapshotError
from console.history.rollups.interval_sums import corrected
from console.history.storage.durations import DAY, HOUR, MINUTE
from console.history.storage.event_rows import Row
from console.history.storage.fresh import GRACE_SECONDS, INTERVALS, RAW, ROLLUPS, FreshFile
from console.history.storage.fresh_rows import as_rows, rows_of
from console.history.storage.landing import LandingError
from console.history.storage.published_files import LandedFile, landed_files

log = logging.getLogger(__name__)

STATE = "state.json"
#: Files of single minutes that are merged into one.
_MANY = 10
#: Rollups that no pipeline takes are published this long.
_LONGEST = 32 * DAY
#: Seconds between two looks at what the tables contain, and between two snapshots at least.
_LOOK, _SNAPSHOT = 60.0, 60.0
#: The share of a processor that snapshots may take.
_SNAPSHOT_SHARE = 0.02
#: About 200 bytes each: 25 minutes of 10,000 queues.
_MOST_WAITING = 500_000
#: Samples and events whose time is not covered, of about 1 KB each: a minute of 10,000 queues of which a third change.
_MOST_UNCOVERED = 250_000
#: Coverage that ends this long before what was covered, in ms, is that of a clock that was set back.
_SET_BACK = 5 * MINUTE
_COLUMNS: Mapping[str, Sequence[str]] = {"samples": SAMPLE_COLUMNS, "events": (*EVENT_COLUMNS, "blocked_producers")}


class FreshRollups:
    """`rolled_until`: returns the time up to which the tables contain the broker's rollups, ms; None: unknown. `share`:
    of a processor for publishing, `least`: seconds between two publications at least. `most_waiting`: rows that are
    buffered while nothing can be written; `most_uncovered`: samples and events that are buffered until their time is
    covered; the pipeline computes the others. Not thread-safe. Methods raise LandingError."""

    def __init__(
        self,
        files: RecordedFiles,
        *,
        rolled_until: Callable[[], int | None],
        share: float = 0.05,
        least: float = 1.0,
        most_waiting: int = _MOST_WAITING,
        most_uncovered: int = _MOST_UNCOVERED,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._files = files
        self._rolled_until, self._steady = rolled_until, steady
        self._pace = Pace(least, share)
        self._rollups = BrokerRollups(files.slug)
        self._closed: dict[str, list[FreshFile]] = {name: [] for name in ROLLUPS}
        self._open: dict[str, FreshFile] = {}
        self._contents: dict[str, list[Row]] = {}  # of `_open`
        # What has closed and is not stored yet: rows of a table, or corrections.
        self._waiting: list[tuple[str, pa.Table | list[Row]]] = []
        self._most_waiting, self._most_uncovered = most_waiting, most_uncovered
        self._hour = 0  # all minutes before are closed
        self._has_closed = True
        self._due = self._look_due = self._snapshot_due = float("-inf")
        self._since = 0  # T
        self._passed: list[tuple[float, int]] = []  # (when seen, T)

    # -- rows -------------------------------------------------------------------------------------------------------

    def take(self, samples: Sequence[Row], events: Sequence[Row], coverage: Sequence[Row]) -> None:
        """Take received rows: samples and events before the coverage of their time. Writes nothing."""
        newest = max((row["until"] for row in coverage if row["followed"]), default=None)
        if newest is not None and newest < (self._rollups.covered or 0) - _SET_BACK:
            # Rows from now on would count as late until the clock shows that time again, which may be years.
            self._begin_again("the broker's clock was set back")
        closed = self._rollups.take(samples, events, coverage)
        for name, rows in (("minutes", closed.minutes), ("hours", closed.hours)):
            if rows:
                self._waiting.append((name, rows_of(name, rows)))
        if closed.corrections:
            self._waiting.append(("", list(closed.corrections)))
        many = sum(map(len, (rows for _, rows in self._waiting)))
        if many > self._most_waiting:
            log.warning("%s: %s closed rollups are not published: the folder cannot be written", self._files.slug, many)
            self._waiting.clear()
        if self._rollups.waiting > self._most_uncovered:
            self._begin_again(f"the time of {self._rollups.waiting:,} rows is not covered")

    def _begin_again(self, why: str) -> None:
        """Forget all rollups, and compute those of the rows that follow. The pipeline computes the others."""
        log.warning("%s: the rollups are computed from now on: %s", self._files.slug, why)
        self._rollups = BrokerRollups(self._files.slug)
        self._closed = {name: [] for name in ROLLUPS}
        self._waiting.clear()
        self._since, self._passed, self._hour = 0, [], 0
        self._has_closed = True

    def _store_closed(self) -> None:
        while self._waiting:
            name, rows = self._waiting[0]
            if isinstance(rows, list):
                self._correct(rows)
            else:
                self._closed[name].append(self._files.store(name, rows))
                if name == "hours":
                    self._hour = self._closed[name][-1].last + HOUR
            self._has_closed = True
            del self._waiting[0]
        if self._has_closed:
            self._merge(self._hour)

    def _merge(self, hour: int) -> None:
        """Merge the files of minutes before `hour`, ms, and many of single minutes."""
        closed = self._closed["minutes"]
        ended = [file for file in closed if file.last < hour and file.last // HOUR == file.first // HOUR]
        for each in {file.first // HOUR for file in ended}:
            self._merge_into_one([file for file in ended if file.first // HOUR == each])
        single = [file for file in self._closed["minutes"] if file.first == file.last and file.first >= hour]
        if len(single) >= _MANY:
            self._merge_into_one(single)

    def _merge_into_one(self, merged: Sequence[FreshFile]) -> None:
        if len(merged) < 2:
            return
        rows = pa.concat_tables([self._files.read(file) for file in merged])
        rest = [file for file in self._closed["minutes"] if file not in merged]
        self._closed["minutes"] = [*rest, self._files.store("minutes", rows_of("minutes", rows))]

    def _correct(self, corrections: list[Row]) -> None:
        for name in ROLLUPS:
            mine: list[Row] = [row for row in corrections if row["table"] == name and row["at"] >= self._since]
            for index, file in enumerate(self._closed[name]):
                changes = [row for row in mine if file.first <= row["at"] <= file.last]
                if changes:
                    mine = [row for row in mine if not file.first <= row["at"] <= file.last]
                    rows = corrected(self._files.slug, as_rows(self._files.read(file)), changes)
                    self._closed[name][index] = self._files.store(name, rows_of(name, rows))
            if mine:
                rows = corrected(self._files.slug, [], mine)
                self._closed[name].append(self._files.store(name, rows_of(name, rows)))

    # -- publishing -------------------------------------------------------------------------------------------------

    def files(self) -> Mapping[str, Sequence[FreshFile]]:
        """Return the files to publish."""
        self._store_closed()
        now = self._steady()
        if now >= self._look_due and any(self._closed.values()):
            self._look_due = now + _LOOK
            self._look(now)
        if self._has_closed or now >= self._due:
            began = time.thread_time()
            self._replace_open()
            self._pace.took(time.thread_time() - began)
            self._due = now + self._pace.seconds
            self._has_closed = False
        return {
            name: [*self._closed.get(name, ()), *([self._open[name]] if name in self._open else [])]
            for name in (*ROLLUPS, *INTERVALS)
        }

    @property
    def covered(self) -> int | None:
        """The time up to which the rollups are known, ms."""
        return self._rollups.covered

    def _replace_open(self) -> None:
        since = self._since
        minutes = self._rollups.open_minutes()
        found = {
            "minutes": minutes,
            "hours": self._rollups.open_hours(minutes),
            "episodes": self._rollups.episodes(since),
            "holds": self._rollups.holds(since),
        }
        for name, rows in found.items():
            if not rows:
                self._open.pop(name, None)
                self._contents.pop(name, None)
            elif self._contents.get(name) != rows:
                self._open[name] = self._files.store(name, rows_of(name, rows))
                self._contents[name] = list(rows)

    def _look(self, now: float) -> None:
        """Stop publishing what the tables have had for the grace period."""
        try:
            until = self._rolled_until()
        except Exception as error:  # deltalake's have many types
            log.warning("%s: the tables cannot be read, so nothing is removed: %s", self._files.slug, error)
            until = None
        covered = self._rollups.covered or 0
        if until is not None:
            # Rows with a future time may be in the tables; the hour that this recorder is in is not.
            until = min(until, covered // HOUR * HOUR)
        if until is not None and (not self._passed or until > self._passed[-1][1]):
            self._passed.append((now, until))
        while self._passed and now - self._passed[0][0] >= GRACE_SECONDS:
            self._since = max(self._since, self._passed.pop(0)[1])
        self._since = max(self._since, covered - _LONGEST)
        for name, step in (("minutes", MINUTE), ("hours", HOUR)):
            self._closed[name] = [file for file in self._closed[name] if file.last + step > self._since]
        self._rollups.forget(self._since)

    # -- state ------------------------------------------------------------------------------------------------------

    def store_state(self) -> None:
        """Store the state, if enough time has passed. Call it when all taken rows have landed."""
        now = self._steady()
        if now < self._snapshot_due:
            return
        began = time.thread_time()
        self._store_closed()
        state = {
            "sequences": {kind: self._files.last_sequence(kind) for kind in RAW},
            "since": self._since,
            "closed": {name: [asdict(file) for file in files] for name, files in self._closed.items()},
            "rollups": self._rollups.snapshot(),
        }
        content = json.dumps(state, separators=(",", ":"), ensure_ascii=False).encode()
        self._files.store_private(STATE, content)
        self._retain()
        self._snapshot_due = now + max(_SNAPSHOT, (time.thread_time() - began) / _SNAPSHOT_SHARE)

    def _retain(self) -> None:
        self._files.retain(file.file for files in self._closed.values() for file in files)

    def restore(self) -> None:
        """Continue from the stored state and from the landing files."""
        landed = {
            kind: [file for file in landed_files(self._files.landing, kind, self._files.slug) if file.last is not None]
            for kind in RAW
        }
        sequences, begin = dict.fromkeys(RAW, 0), None
        try:
            content = self._files.private(STATE)
            if content is not None:
                sequences = self._restore(json.loads(content), landed)
            else:
                begin = "hour"
        except (SnapshotError, LandingError, KeyError, TypeError, ValueError) as error:
            log.warning("%s: the rollups are computed from the present hour on: %s", self._files.slug, error)
            self._rollups, begin = BrokerRollups(self._files.slug), "hour"
            self._closed = {name: [] for name in ROLLUPS}
        newest = max((file.last or 0 for files in landed.values() for file in files), default=0)
        first = newest // HOUR * HOUR if begin else 0
        self._replay(
            {
                kind: [f for f in files if f.sequence > sequences.get(kind, 0) and (f.last or 0) >= first]
                for kind, files in landed.items()
            }
        )

    def _restore(self, state: Mapping[str, Any], landed: Mapping[str, Sequence[LandedFile]]) -> dict[str, int]:
        found: dict[str, int] = state["sequences"]
        for kind in ("samples", "events"):
            # Landing files are removed in their order, some hours after the pipeline has processed them.
            if found[kind] and self._files.last_sequence(kind) > found[kind] not in {f.sequence for f in landed[kind]}:
                raise SnapshotError(f"{kind} that landed after it may have been removed")
        rollups = BrokerRollups.restore(state["rollups"])
        closed = {name: [FreshFile(**each) for each in state["closed"][name]] for name in ROLLUPS}
        existing = self._files.existing()
        for name, files in closed.items():
            missing = [file.file for file in files if file.file not in existing]
            if missing:
                raise SnapshotError(f"its file {missing[0]} of {name} is missing")
            for file in files:
                # A power failure may have lost the content, since these files are not durable.
                if self._files.rows_in(file) != file.rows:
                    raise SnapshotError(f"its file {file.file} of {name} is damaged")
        self._rollups, self._closed, self._since = rollups, closed, int(state["since"])
        self._retain()
        return found

    def _replay(self, landed: Mapping[str, list[LandedFile]]) -> None:
        """Take the rows of landing files, samples and events before the coverage of their time."""
        waiting = {kind: sorted(landed[kind], key=lambda file: file.first or 0) for kind in ("samples", "events")}
        for cover in [*sorted(landed["coverage"], key=lambda file: file.last or 0), None]:
            taken: dict[str, list[Row]] = {"samples": [], "events": []}
            for kind, files in waiting.items():
                while files and (cover is None or (files[0].first or 0) <= (cover.last or 0)):
                    taken[kind] += self._read(kind, files.pop(0))
            self.take(taken["samples"], taken["events"], [] if cover is None else self._read("coverage", cover))
            self._store_closed()

    def _read(self, kind: str, file: LandedFile) -> list[Row]:
        rows = self._files.landing.read_rows(file.path)
        if kind in _COLUMNS:
            rows = rows.select([name for name in dict.fromkeys(_COLUMNS[kind]) if name in rows.column_names])
        return list(as_rows(rows))
