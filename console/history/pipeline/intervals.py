"""Intervals of time, as (from, to) in ms since the epoch, half-open: as few as cover them, and in portions. Pure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence

from console.history.storage.durations import DAY

#: Intervals of hours that one run works out; with more of them they are joined, which costs time and changes nothing.
MOST_RANGES = 24

#: Rows of minutes, about, that are worked out and committed together: what sorts of them spill has to fit the heap.
MOST_ROLLED = 3_000_000


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


def portions(
    intervals: Sequence[tuple[int, int]], rows: Mapping[int, int], most: int = MOST_ROLLED
) -> list[list[tuple[int, int]]]:
    """The same time in portions of whole days that have up to `most` rows, or of one day. `intervals`: in order and
    apart from each other; `rows`: by day since the epoch."""
    found: list[list[tuple[int, int]]] = [[]]
    count, last = 0, None
    for begin, end in intervals:
        for day in range(begin // DAY, -(-end // DAY)):
            if day != last:
                count, last = count + rows.get(day, 0), day
                if found[-1] and day in rows and count > most:
                    found.append([])
                    count = rows.get(day, 0)
            found[-1].append((max(begin, day * DAY), min(end, (day + 1) * DAY)))
    return [joined(portion) for portion in found]


def as_ranges(intervals: Iterable[tuple[int, int]]) -> list[tuple[dt.datetime, dt.datetime]]:
    return [(moment(begin), moment(end)) for begin, end in intervals]


def moment(ms: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(ms / 1000, dt.UTC)
