"""Rows of the tables `minutes` and `hours`, as dicts with times in ms: of queues, virtual hosts and producers. Pure.

`pipeline/rollups.py` says what the columns mean, and computes the same from stored rows.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil, floor
from typing import Any

from console.history.storage.layout import LEVELS, MAXIMA, MEANS, SUMS

Row = dict[str, Any]

#: Kind, virtual host, name, queue: identifies a row among those of one broker and time.
Key = tuple[str, str | None, str | None, str | None]

NO_LEVELS = (None,) * len(LEVELS)
NO_INTERVALS = (0, 0, 0, 0)
#: Columns of a virtual host: sums over its queues, null if all are null.
_SUMMED = (*SUMS, *MEANS, *MAXIMA)
_NO_VALUES = (0, None, None, None, None, None, None, None, None, None, None, None, None)


def key_of(row: Mapping[str, Any]) -> Key:
    return row["kind"], row["virtualhost"], row["name"], row["queue"]


def row_of_minute(  # noqa: PLR0917 -- called for each row: named parameters take time
    broker: str,
    at: int,
    watched: int,
    key: Key,
    values: Sequence[Any] | None,
    intervals: Sequence[int] = NO_INTERVALS,
) -> Row:
    """Return the row of a queue or producer. `values`: of `QueueMinute.values`; `intervals`: `OF_INTERVALS`."""
    (
        known,
        stopped,
        messages_mean,
        messages_p95,
        messages_max,
        bytes_mean,
        bytes_p95,
        bytes_max,
        messages_in,
        messages_out,
        blocked_producers_max,
        producers_max,
        levels,
    ) = values or _NO_VALUES
    capacity_messages, stop_messages, resume_messages, capacity_bytes, stop_bytes, resume_bytes = levels or NO_LEVELS
    return {
        "broker": broker,
        "virtualhost": key[1],
        "kind": key[0],
        "name": key[2],
        "queue": key[3],
        "at": at,
        "watched_ms": watched,
        "known_ms": known,
        "overfull_ms": intervals[0],
        "stopped_ms": stopped,
        "messages_mean": messages_mean,
        "messages_p95": messages_p95,
        "messages_max": messages_max,
        "bytes_mean": bytes_mean,
        "bytes_p95": bytes_p95,
        "bytes_max": bytes_max,
        "messages_in": messages_in,
        "messages_out": messages_out,
        "rate_in": None if messages_in is None or not known else messages_in / (known / 1000),
        "rate_out": None if messages_out is None or not known else messages_out / (known / 1000),
        "episodes": intervals[1],
        "blocks": intervals[3],
        "blocked_ms": intervals[2],
        "blocked_producers_max": blocked_producers_max,
        "producers_max": producers_max,
        "capacity_messages": capacity_messages,
        "stop_messages": stop_messages,
        "resume_messages": resume_messages,
        "capacity_bytes": capacity_bytes,
        "stop_bytes": stop_bytes,
        "resume_bytes": resume_bytes,
    }


def rows_of_virtual_hosts(rows: Iterable[Row]) -> list[Row]:
    """Return the rows of virtual hosts for rows of one minute: sums over their queues."""
    hosts: dict[str | None, list[Row]] = {}
    for row in rows:
        if row["kind"] == "queue":
            hosts.setdefault(row["virtualhost"], []).append(row)
    found = []
    for name, mine in hosts.items():
        first = mine[0]
        host = row_of_minute(first["broker"], first["at"], first["watched_ms"], ("virtualhost", name, name, None), None)
        for column in _SUMMED:
            known = [value for row in mine if (value := row[column]) is not None]
            host[column] = sum(known) if known else None
        host["messages_p95"], host["bytes_p95"] = host["messages_mean"], host["bytes_mean"]
        found.append(with_rates(host))
    return found


def with_rates(row: Row) -> Row:
    """Set the rates. A virtual host's known time is a sum over queues; its rate is per second of recorded time."""
    ms = row["watched_ms"] if row["kind"] == "virtualhost" else row["known_ms"]
    for way in ("in", "out"):
        count = row[f"messages_{way}"]
        row[f"rate_{way}"] = None if count is None or not ms else count / (ms / 1000)
    return row


class HourSums:
    """The closed minutes of an hour of one queue, virtual host or producer."""

    __slots__ = ("bytes_means", "levels", "messages_means", "peaks", "sums")

    def __init__(self) -> None:
        self.sums: list[int | None] = [None] * len(SUMS)
        self.peaks: list[int | None] = [None] * len(MAXIMA)
        self.levels: tuple[int | None, ...] | None = None
        self.messages_means = Means()
        self.bytes_means = Means()

    def add(self, row: Row) -> None:
        """Add the row of the next minute."""
        self.sums, self.peaks, levels = self._with(row)
        self.levels = levels or self.levels
        weight = row["known_ms"]
        self.messages_means.add(row["messages_mean"], weight)
        self.bytes_means.add(row["bytes_mean"], weight)

    def row(self, broker: str, at: int, watched: int, key: Key, last: Row | None = None) -> Row:
        """Return the row of the hour. `last`: the row of its open minute."""
        row = row_of_minute(broker, at, watched, key, None)
        if last is None:
            sums, peaks, levels = self.sums, self.peaks, self.levels
            messages = size = None
            weight = 0
        else:
            sums, peaks, levels = self._with(last)
            messages, size, weight = last["messages_mean"], last["bytes_mean"], last["known_ms"]
        row.update(zip(SUMS, sums, strict=True))
        row.update(zip(MAXIMA, peaks, strict=True))
        row["messages_mean"], row["messages_p95"] = self.messages_means.spread(messages, weight)
        row["bytes_mean"], row["bytes_p95"] = self.bytes_means.spread(size, weight)
        levels = levels or self.levels
        if levels is not None:
            row.update(zip(LEVELS, levels, strict=True))
        return with_rates(row)

    def state(self) -> list[Any]:
        """Return the state, for JSON."""
        levels = None if self.levels is None else list(self.levels)
        return [self.sums[:], self.peaks[:], levels, self.messages_means.state(), self.bytes_means.state()]

    @classmethod
    def restore(
        cls,
        sums: list[int | None],
        peaks: list[int | None],
        levels: list[int | None] | None,
        *means: Sequence[Any],
    ) -> HourSums:
        """Return an object with that state."""
        mine = cls()
        mine.sums, mine.peaks = sums[:], peaks[:]
        mine.levels = None if levels is None else tuple(levels)
        mine.messages_means, mine.bytes_means = (Means.restore(*each) for each in means)
        return mine

    def _with(self, row: Row) -> tuple[list[int | None], list[int | None], tuple[int | None, ...] | None]:
        """Return sums and peaks together with those of a minute, and its levels."""
        sums = [
            mine if (value := row[column]) is None else value if mine is None else mine + value
            for column, mine in zip(SUMS, self.sums, strict=True)
        ]
        peaks = [
            mine if (value := row[column]) is None or (mine is not None and mine >= value) else value
            for column, mine in zip(MAXIMA, self.peaks, strict=True)
        ]
        return sums, peaks, None if row["capacity_messages"] is None else tuple(row[name] for name in LEVELS)


class Means:
    """The means of an hour's minutes, in order of their values, with the known time of each as its weight."""

    __slots__ = ("_known", "_total", "_values", "_weights")

    def __init__(self) -> None:
        self._values, self._weights = array("d"), array("q")
        self._total, self._known = 0.0, 0

    def add(self, value: float | None, weight: int) -> None:
        if value is None or not weight:
            return
        place = bisect_left(self._values, value)
        self._values.insert(place, value)
        self._weights.insert(place, weight)
        self._total += value * weight
        self._known += weight

    def spread(self, last: float | None, weight: int) -> tuple[float | None, float | None]:
        """Return the mean and the 95th percentile of all and of a last one: between two ranks it is interpolated."""
        known, total = self._known, self._total
        if last is not None and weight:
            known, total = known + weight, total + last * weight
        elif not known:
            return None, None
        else:
            last = None
        rank = (known - 1) * 0.95
        low_rank, high_rank = floor(rank), ceil(rank)
        below, low, high = known, 0.0, None
        for value, its_weight in self._descending(last, weight):
            below -= its_weight
            low = value
            if high is None and below <= high_rank:
                high = value
            if below <= low_rank:
                break
        if high is None or low == high:
            return total / known, low
        return total / known, (high_rank - rank) * low + (rank - low_rank) * high

    def state(self) -> list[Any]:
        """Return the state, for JSON."""
        return [self._values.tolist(), self._weights.tolist(), self._total, self._known]

    @classmethod
    def restore(cls, values: Sequence[float], weights: Sequence[int], total: float, known: int) -> Means:
        """Return an object with that state."""
        mine = cls()
        mine._values, mine._weights = array("d", values), array("q", weights)
        mine._total, mine._known = total, known
        return mine

    def _descending(self, last: float | None, weight: int) -> Iterator[tuple[float, int]]:
        for value, its_weight in zip(reversed(self._values), reversed(self._weights), strict=True):
            if last is not None and last >= value:
                yield last, weight
                last = None
            yield value, its_weight
        if last is not None:
            yield last, weight
