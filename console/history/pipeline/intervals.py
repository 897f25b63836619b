"""Half-open intervals of time, as (from, to) in ms since the epoch: merging and splitting into portions. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from console.history.storage.durations import DAY, MINUTE

#: Maximum number of intervals per run; more are merged across gaps, which costs time but does not change the result.
MOST_RANGES = 24

#: Approximate number of rows of minutes per portion, whose sorts have to fit the heap.
MOST_ROLLED = 3_000_000
#: What a day of a broker counts at least, also without samples, as in an imported log: the recorded time of each of its
#: minutes is a row that every process gets, which takes several times the memory of one that is sorted.
LEAST_OF_DAY = 10 * DAY // MINUTE


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
    intervals: Mapping[str, Sequence[tuple[int, int]]], rows: Mapping[int, int], most: int = MOST_ROLLED
) -> list[dict[str, list[tuple[int, int]]]]:
    """Split intervals by broker into portions of whole days with up to `most` rows, or of a single day, in the order of
    time. `intervals`: in order and disjoint; `rows`: by day since the epoch; each broker counts for `LEAST_OF_DAY`."""
    by_day: dict[int, list[tuple[str, tuple[int, int]]]] = {}
    for broker, several in intervals.items():
        for begin, end in several:
            for day in range(begin // DAY, -(-end // DAY)):
                part = (max(begin, day * DAY), min(end, (day + 1) * DAY))
                by_day.setdefault(day, []).append((broker, part))
    found: list[dict[str, list[tuple[int, int]]]] = []
    count = 0
    for day in sorted(by_day):
        of_day = max(rows.get(day, 0), LEAST_OF_DAY * len(by_day[day]))
        count += of_day
        if not found or count > most:
            found.append({})
            count = of_day
        for broker, part in by_day[day]:
            found[-1].setdefault(broker, []).append(part)
    return [{broker: joined(of) for broker, of in portion.items()} for portion in found]
