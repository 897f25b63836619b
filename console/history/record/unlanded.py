"""Received rows that are in no landing file yet."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from console.history.record.position import Position
from console.history.storage.event_rows import UNFIT, Row, fitting, table
from console.history.storage.landing import SCHEMAS

log = logging.getLogger(__name__)


class Rows:
    """Rows of a kind. `received`: since the last `seal`; the event loop adds them, while a thread reads the others."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.received: list[Row] = []
        self._sealed: list[list[Row]] = []
        self._converted: list[pa.Table] = []
        self._had_unfit = False

    def __len__(self) -> int:
        converted: int = sum(rows.num_rows for rows in self._converted)
        return len(self.received) + sum(map(len, self._sealed)) + converted

    def seal(self) -> list[Row]:
        """Make the received rows part of `table`, and return them."""
        sealed, self.received = self.received, []
        if sealed:
            self._sealed.append(sealed)
        return sealed

    def table(self) -> pa.Table:
        """Return the rows up to the last `seal`. Each row is converted once."""
        while self._sealed:
            self._converted.append(self._as_table(self._sealed[0]))
            del self._sealed[0]
        return pa.concat_tables(self._converted) if self._converted else SCHEMAS[self.kind].empty_table()

    def _as_table(self, rows: list[Row]) -> pa.Table:
        try:
            return table(self.kind, rows)
        except UNFIT as error:
            # One value of a broker must not end its recording. In place, since the rollups get the same rows.
            if not self._had_unfit:
                log.warning(
                    "%s: values in %s that no column can have are recorded as unknown: %s",
                    *(rows[0].get("broker"), self.kind, error),
                )
            self._had_unfit = True
            rows[:] = fitting(self.kind, rows)
            return table(self.kind, rows)

    def clear(self) -> None:
        """Forget the rows up to the last `seal`."""
        self._sealed.clear()
        self._converted.clear()

    def drop_oldest(self, most: int) -> pa.Table | None:
        """Drop rows above `most`, the oldest first; return the dropped ones, None if there are none."""
        count = len(self) - most
        if count <= 0:
            return None
        self.seal()
        rows = self.table()
        self._converted = [rows.slice(count)]
        return rows.slice(0, count)


class Unlanded:
    """The event loop calls all methods but `tables` and `landed`, and none of them while these run in a thread, except
    `cover` and `received`.

    `position`: the last event up to the last `seal`. `covered_until`: the end of the recorded time until then, ms of
    the broker's clock."""

    def __init__(self) -> None:
        self.events, self.samples = Rows("events"), Rows("samples")
        self.coverage: list[dict[str, Any]] = []
        self.position: Position | None = None
        self.covered_until = 0
        self._sealed_coverage: list[dict[str, Any]] = []
        self._received_coverage: list[Row] = []
        self._landed: set[str] = set()

    def cover(self, row: dict[str, Any]) -> None:
        """Add a row of coverage. One that continues the last one extends it."""
        self._received_coverage.append(row)
        last = self.coverage[-1] if self.coverage else None
        if last is not None and row == {**last, "at": last["until"], "until": row["until"]}:
            self.coverage[-1] = {**last, "until": row["until"]}
        else:
            self.coverage.append(row)

    def seal(self, position: Position | None) -> tuple[list[Row], list[Row], list[Row]]:
        """State what the next `tables` have. Return the samples, events and coverage since the last `seal`."""
        coverage: list[Row] = list(self._received_coverage)
        self._received_coverage.clear()
        received = self.samples.seal(), self.events.seal(), coverage
        self.position = position
        self._sealed_coverage = list(self.coverage)
        # The last one and not the greatest: the clock may have been set back.
        self.covered_until = next((row["until"] for row in reversed(coverage) if row["followed"]), self.covered_until)
        return received

    @property
    def is_sealed(self) -> bool:
        """Whether no row was received since the last `seal`."""
        return not self.events.received and not self.samples.received

    def tables(self) -> Mapping[str, pa.Table]:
        return {
            "events": self.events.table(),
            "samples": self.samples.table(),
            "coverage": table("coverage", self._sealed_coverage),
        }

    def landed(self, kind: str) -> None:
        """State that the rows of this kind up to the last `seal` are in a landing file."""
        self._landed.add(kind)

    def settle(self) -> None:
        """Forget the landed rows."""
        if "events" in self._landed:
            self.events.clear()
        if "samples" in self._landed:
            self.samples.clear()
        if "coverage" in self._landed:
            landed = self._sealed_coverage
            later = self.coverage[len(landed) :]
            last = self.coverage[len(landed) - 1]
            if last["until"] > landed[-1]["until"]:  # extended meanwhile
                later.insert(0, {**last, "at": landed[-1]["until"]})
            self.coverage = later
        self._landed.clear()

    def drop_oldest_samples(self, most: int) -> tuple[int, int, int] | None:
        """Drop samples above `most`, and the coverage of their time. Return their number, first and last time (ms);
        None if there are none."""
        dropped = self.samples.drop_oldest(most)
        if dropped is None:
            return None
        at = dropped["at"].cast(pa.int64()).to_pylist()
        lost_from, lost_until = at[0], at[-1]
        remaining = []
        for row in self.coverage:
            if not row["followed"] or row["at"] > lost_until or row["until"] < lost_from:
                remaining.append(row)
            elif row["until"] > lost_until:
                remaining.append({**row, "at": lost_until})
        self.coverage = remaining
        return len(at), lost_from, lost_until
