"""Half-open intervals of time, as (from, to) in ms since the epoch: merging and splitting into portions. Pure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence

from console.history.storage.durations import DAY

#: Maximum number of intervals per run; more are merged across gaps, which costs time but does not change the result.
MOST_RANGES = 24

#: Approximate number of rows of minutes per portion, whose sorts have to fit the heap.
MOST_ROLLED = 3_000_000


def joined(ranges: Iterable[tuple[int, int]], most: int = MOST_RANGES) -> list[tuple[int, int]]:
    """Merge ranges into disjoint ones in order; if there are more than `most`, merge those with the smallest gaps,
    too."""
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
    """Split intervals into portions of whole days with up to `most` rows, or of a single day. `intervals`: in order and
    disjoint; `rows`: by day since the epoch."""
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
