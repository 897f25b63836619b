"""Pending rollups: intervals in which blocks or episodes are about to change, or have just changed.

They are noted before the change is committed. If a run is killed between that and the rollups, the next run finds the
note; it would detect no change otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from console.history.storage.landing import Landing

_NOTE = "pipeline/owed.json"  # name of stored data

#: From, to; ms. None: open.
Interval = tuple[int, int | None]


class PendingRollups:
    """The noted intervals, in a file of the history. All methods raise LandingError."""

    def __init__(self, landing: Landing) -> None:
        self._landing = landing
        note = landing.get(_NOTE)
        self.intervals: set[Interval] = {(begin, end) for begin, end in json.loads(note or b"[]")}

    def note(self, intervals: Iterable[Interval]) -> None:
        if more := set(intervals) - self.intervals:
            self.intervals |= more
            self._write()

    def clear(self) -> None:
        if self.intervals:
            self.intervals = set()
            self._write()

    def _write(self) -> None:
        self._landing.put(_NOTE, json.dumps(sorted(self.intervals, key=lambda each: each[0])).encode())
