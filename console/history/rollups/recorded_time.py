"""Recorded time of one broker: its rows of COVERAGE merged to spans, in ms. Pure.

The same as `pipeline/spans.py`, for rows that arrive in order. Time without a span is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

#: A half-open span [from, to] in ms. The last span of a broker grows in place.
Span = list[int]


class RecordedTime:
    """The spans, disjoint and in order."""

    def __init__(self) -> None:
        self.spans: list[Span] = []

    @property
    def covered(self) -> int | None:
        """The end of the recorded time; None before the first row."""
        return self.spans[-1][1] if self.spans else None

    def add(self, row: Mapping[str, Any]) -> None:
        """Add a row of COVERAGE. Time before the start of the last span does not change any more."""
        begin, end = row["at"], row["until"]
        if not row["followed"] or end < begin or row.get("source") == "log":
            return
        last = self.spans[-1] if self.spans else None
        if last is None or begin > last[1]:
            self.spans.append([begin, end])
        elif end > last[1]:
            last[1] = end

    def parts(self, begin: int, end: int | None) -> Iterator[tuple[int, int]]:
        """Yield the recorded parts of an interval, the latest first. `end`: None for an ongoing one."""
        for first, last in reversed(self.spans):
            if last <= begin:
                return
            part_from, part_to = max(first, begin), last if end is None else min(last, end)
            if part_to > part_from:
                yield part_from, part_to

    def between(self, begin: int, end: int | None) -> int:
        """Return the recorded ms of an interval."""
        return sum(part_to - part_from for part_from, part_to in self.parts(begin, end))

    def last_until(self, at: int, since: int) -> int:
        """Return the last recorded moment from `since` until `at`; `since`, of which there is evidence, if there is
        none."""
        for first, last in reversed(self.spans):
            if first <= at:
                return max(min(last, at), since)
        return since

    def first_after(self, at: int) -> int | None:
        """Return the first recorded moment from `at` on."""
        found = None
        for first, last in reversed(self.spans):
            if last <= at:
                break
            found = max(first, at)
        return found

    def forget(self, before: int) -> None:
        """Remove spans that ended before that time, except the last one."""
        while len(self.spans) > 1 and self.spans[0][1] < before:
            del self.spans[0]
