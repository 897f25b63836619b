"""Rows of the tables `minutes` and `hours`, as dicts with times in ms: of queues, virtual hosts and producers. Pure.

`pipeline/rollups.py` says what the columns mean, and computes the same from stored rows.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from math import ceil, floor
from typing import Any

Row = dict[str, Any]

#: Kind, virtual host, name, queue: identifies a row among those of one broker and time.
Key = tuple[str, str | None, str | None, str | None]

LEVELS = ("capacity_messages", "stop_messages", "resume_messages", "capacity_bytes", "stop_bytes", "resume_bytes")
NO_LEVELS = (None,) * len(LEVELS)
#: The columns that episodes and blocks contribute to.
OF_INTERVALS = ("overfull_ms", "episodes", "blocked_ms", "blocks")
NO_INTERVALS = (0, 0, 0, 0)
SUMS = ("known_ms", "overfull_ms", "stopped_ms", "messages_in", "messages_out", "episodes", "blocks", "blocked_ms")
_PEAKS = ("messages_max", "bytes_max", "blocked_producers_max", "producers_max")
#: Columns of a virtual host: sums over its queues, null if all are null.
_SUMMED = (*SUMS, "messages_mean", "bytes_mean", *_PEAKS)
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
        self.peaks: list[int | None] = [None] * len(_PEAKS)
        self.levels: tuple[int | None, ...] | None = None
        # Alternating: the mean of a minute, and its known time.
        self.messages_means = array("d")
        self.bytes_means = array("d")

    def add(self, row: Row) -> None:
        """Add the row of the next minute."""
        sums, peaks = self.sums, self.peaks
        for index, column in enumerate(SUMS):
            value = row[column]
            if value:
                sums[index] = value + (sums[index] or 0)
            elif value is not None and sums[index] is None:
                sums[index] = 0
        for index, column in enumerate(_PEAKS):
            value = row[column]
            if value is not None:
                peak = peaks[index]
                if peak is None or value > peak:
                    peaks[index] = value
        weight = row["known_ms"]
        if row["messages_mean"] is not None:
            self.messages_means.extend((row["messages_mean"], weight))
        if row["bytes_mean"] is not None:
            self.bytes_means.extend((row["bytes_mean"], weight))
        if row["capacity_messages"] is not None:
            self.levels = tuple(row[name] for name in LEVELS)

    def copy(self) -> HourSums:
        other = HourSums()
        other.sums, other.peaks, other.levels = self.sums[:], self.peaks[:], self.levels
        other.messages_means, other.bytes_means = self.messages_means[:], self.bytes_means[:]
        return other

    def state(self) -> list[Any]:
        """Return the state, for JSON."""
        levels = None if self.levels is None else list(self.levels)
        return [self.sums[:], self.peaks[:], levels, self.messages_means.tolist(), self.bytes_means.tolist()]

    @classmethod
    def restore(
        cls,
        sums: list[int | None],
        peaks: list[int | None],
        levels: list[int | None] | None,
        *means: Iterable[float],
    ) -> HourSums:
        """Return an object with that state."""
        mine = cls()
        mine.sums, mine.peaks = sums[:], peaks[:]
        mine.levels = None if levels is None else tuple(levels)
        mine.messages_means, mine.bytes_means = (array("d", each) for each in means)
        return mine

    def row(self, broker: str, at: int, watched: int, key: Key) -> Row:
        """Return the row of the hour."""
        row = row_of_minute(broker, at, watched, key, None)
        row.update(zip(SUMS, self.sums, strict=True))
        row.update(zip(_PEAKS, self.peaks, strict=True))
        for unit, means in (("messages", self.messages_means), ("bytes", self.bytes_means)):
            row[f"{unit}_mean"], row[f"{unit}_p95"] = _spread(means)
        if self.levels is not None:
            row.update(zip(LEVELS, self.levels, strict=True))
        return with_rates(row)


def _spread(means: array[float]) -> tuple[float | None, float | None]:
    """Return the mean and the 95th percentile of means, weighted by time: between two ranks it is interpolated."""
    if not means:
        return None, None
    pairs = sorted(zip(means[::2], means[1::2], strict=True))
    known = sum(means[1::2])
    if not known:
        return None, None
    mean = sum(value * weight for value, weight in pairs) / known
    rank = (known - 1) * 0.95
    low_rank, high_rank = floor(rank), ceil(rank)
    so_far = 0.0
    low: float | None = None
    high = pairs[-1][0]
    for value, weight in pairs:
        so_far += weight
        if low is None and so_far > low_rank:
            low = value
        if so_far > high_rank:
            high = value
            break
    if low is None or low == high:
        return mean, high
    return mean, (high_rank - rank) * low + (rank - low_rank) * high
