"""The open minute of one queue: the validity of its samples and events, cut at the minute. Pure.

A reported value counts for the time for which it is valid: until the queue's next one, for `SAMPLE_VALIDITY_MS` at most
and only in recorded time. This is what `pipeline/segments.py` and `pipeline/rollups.py` compute for stored rows.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from math import ceil, floor
from typing import Any

from console.history.rollups.recorded_time import Span
from console.history.storage.durations import SAMPLE_VALIDITY_MS

#: The span of values that are valid for no time.
NOWHERE: Span = [0, 0]

#: A segment is one number, which sorts by depth: depth << _BITS | ms. A minute has fewer than 2 ** _BITS ms.
_BITS = 16
_LENGTH = (1 << _BITS) - 1

#: capacity, stop and resume level in messages, then in bytes.
Levels = tuple[int | None, ...]


class QueueMinute:
    """Values of one queue: the current ones and those of the open minute. All methods are called in order of time."""

    __slots__ = (
        "at",
        "blocked_producers",
        "blocked_producers_max",
        "bytes_max",
        "bytes_sum",
        "counted_at",
        "depth_bytes",
        "depth_messages",
        "dequeued",
        "enqueued",
        "known_ms",
        "levels",
        "levels_of_minute",
        "messages_in",
        "messages_max",
        "messages_out",
        "messages_sum",
        "noted",
        "producers",
        "producers_max",
        "segments_bytes",
        "segments_messages",
        "settled",
        "span",
        "stopped",
        "stopped_ms",
        "touched",
        "until",
    )

    def __init__(self) -> None:
        # The current value: valid from `settled`, up to where it is counted, until `until` within `span`.
        self.at = self.settled = self.until = -1
        self.span = NOWHERE
        self.depth_messages: int | None = None
        self.depth_bytes: int | None = None
        self.stopped = False
        self.blocked_producers: int | None = None
        self.producers: int | None = None
        self.levels: Levels | None = None
        self.noted = True  # the current value is in the minute's maxima
        # The last counters.
        self.counted_at: int | None = None
        self.enqueued = 0
        self.dequeued: int | None = None
        self.touched = True
        self.begin_minute(-1)

    def begin_minute(self, at: int) -> None:
        """Begin the minute from `at` on. The current value counts as counted until then."""
        self.settled = max(self.settled, at)
        if not self.touched:
            return
        self.touched = False
        self.noted = False
        self.known_ms: int | None = None
        self.stopped_ms = 0
        self.messages_sum = self.bytes_sum = 0
        self.segments_messages: list[int] = []
        self.segments_bytes: list[int] = []
        self.messages_max: int | None = None
        self.bytes_max: int | None = None
        self.messages_in: int | None = None
        self.messages_out: int | None = None
        self.blocked_producers_max: int | None = None
        self.producers_max: int | None = None
        self.levels_of_minute: Levels | None = None

    def take(  # noqa: PLR0917 -- named parameters take a third of its time
        self,
        at: int,
        span: Span,
        depths: tuple[int | None, int | None],
        stopped: bool,
        producers: tuple[int | None, int | None],
        levels: Levels | None,
    ) -> None:
        """Take the values from `at` on. `span`: the recorded time that they are valid in; `depths`: messages, bytes;
        `producers`: blocked ones, all."""
        if at > self.settled:
            self.settle(at)
        self.at = self.settled = at
        self.until = at + SAMPLE_VALIDITY_MS
        self.span = span
        self.depth_messages, self.depth_bytes = depths
        self.stopped = stopped
        self.blocked_producers, self.producers = producers
        self.levels = levels
        self._note()

    def count(self, at: int, span: Span, enqueued: int | None, dequeued: int | None) -> None:
        """Take the totals of a sample at `at`. A smaller total is a reset."""
        last = self.counted_at
        if last is not None and last >= at - SAMPLE_VALIDITY_MS and last >= span[0] and span is not NOWHERE:
            if enqueued is not None:
                grown = enqueued - self.enqueued if enqueued >= self.enqueued else enqueued
                self.messages_in = grown if self.messages_in is None else self.messages_in + grown
            if dequeued is not None:
                before = self.dequeued
                grown = dequeued - before if before is not None and dequeued >= before else dequeued
                self.messages_out = grown if self.messages_out is None else self.messages_out + grown
        if enqueued is not None:
            self.counted_at, self.enqueued, self.dequeued = at, enqueued, dequeued

    def settle(self, at: int) -> None:
        """Count the current value up to `at`."""
        length = self._valid_until(at) - self.settled
        if length <= 0:
            return
        self.settled += length
        if not self.noted:
            self._note()
        if self.stopped:
            self.stopped_ms += length
        messages, size = self.depth_messages, self.depth_bytes
        if messages is None and size is None:
            return
        self.known_ms = length + (self.known_ms or 0)
        if messages is not None:
            self.messages_sum += messages * length
            _append(self.segments_messages, messages, length)
        if size is not None:
            self.bytes_sum += size * length
            _append(self.segments_bytes, size, length)

    def valid_after(self, at: int, growing: Span) -> bool:
        """Return whether the current value may be valid after `at`. `growing`: the last span."""
        return self.until > at and (self.span is growing or self.span[1] > at)

    def matters_after(self, at: int, growing: Span) -> bool:
        """Return whether anything of the queue can contribute to times after `at`."""
        counts = self.counted_at is not None and self.counted_at >= at - SAMPLE_VALIDITY_MS
        return counts or self.valid_after(at, growing)

    def values(self, upto: int) -> Sequence[Any] | None:
        """Return known_ms, stopped_ms, mean, p95 and maximum of messages and of bytes, messages in and out, maxima of
        blocked and of all producers, levels; None if nothing is known of the minute. `upto`: the minute's end, or the
        covered time."""
        length = self._valid_until(upto) - self.settled
        if length <= 0:
            length = 0
        elif not self.noted:
            self._note()
        if not self.touched:
            return None
        messages, size = self.depth_messages, self.depth_bytes
        known, stopped = self.known_ms, self.stopped_ms
        if length:
            if self.stopped:
                stopped += length
            if messages is not None or size is not None:
                known = length + (known or 0)
        messages_mean, messages_p95 = _spread(self.segments_messages, self.messages_sum, messages, length)
        bytes_mean, bytes_p95 = _spread(self.segments_bytes, self.bytes_sum, size, length)
        return (
            known or 0,
            stopped if known is not None else None,
            messages_mean,
            messages_p95,
            self.messages_max,
            bytes_mean,
            bytes_p95,
            self.bytes_max,
            self.messages_in,
            self.messages_out,
            self.blocked_producers_max,
            self.producers_max,
            self.levels_of_minute,
        )

    def state(self, places: Mapping[int, int]) -> list[Any]:
        """Return the state, for JSON. `places`: the index of each span, by its identity."""
        levels, of_minute = self.levels, self.levels_of_minute
        return [
            places.get(id(self.span), -1),
            None if levels is None else list(levels),
            of_minute == levels or (of_minute and list(of_minute)),
            self.segments_messages[:],
            self.segments_bytes[:],
            *(getattr(self, name) for name in _PLAIN),
        ]

    @classmethod
    def restore(cls, state: Sequence[Any], spans: Sequence[Span]) -> QueueMinute:
        """Return an object with that state."""
        mine = cls()
        place, levels, of_minute, mine.segments_messages, mine.segments_bytes, *plain = state
        mine.span = spans[place] if place >= 0 else NOWHERE
        mine.levels = None if levels is None else tuple(levels)
        mine.levels_of_minute = mine.levels if of_minute is True else tuple(of_minute) if of_minute else None
        for name, value in zip(_PLAIN, plain, strict=True):
            setattr(mine, name, value)
        return mine

    def _valid_until(self, at: int) -> int:
        end = self.until
        end = min(end, at)
        return min(end, self.span[1])

    def _note(self) -> None:
        """Note that the current value is one of the minute."""
        self.noted = self.touched = True
        value = self.depth_messages
        if value is not None:
            if self.known_ms is None:
                self.known_ms = 0
            if self.messages_max is None or value > self.messages_max:
                self.messages_max = value
        value = self.depth_bytes
        if value is not None:
            if self.known_ms is None:
                self.known_ms = 0
            if self.bytes_max is None or value > self.bytes_max:
                self.bytes_max = value
        value = self.blocked_producers
        if value is not None and (self.blocked_producers_max is None or value > self.blocked_producers_max):
            self.blocked_producers_max = value
        value = self.producers
        if value is not None and (self.producers_max is None or value > self.producers_max):
            self.producers_max = value
        if self.levels is not None:
            self.levels_of_minute = self.levels


#: The attributes of `QueueMinute.state` that are plain values.
_PLAIN = tuple(
    name
    for name in QueueMinute.__slots__
    if name not in ("levels", "levels_of_minute", "segments_bytes", "segments_messages", "span")
)


def _append(segments: list[int], depth: int, length: int) -> None:
    if segments and segments[-1] >> _BITS == depth:
        segments[-1] += length
    else:
        segments.append(depth << _BITS | length)


def _spread(segments: list[int], total: int, depth: int | None, length: int) -> tuple[float | None, float | None]:
    """Return the mean and the 95th percentile of segments and of a last one, with `depth` for `length` ms. Sorts
    `segments`, which is quick if most of them are sorted already."""
    last = -1
    if length and depth is not None:
        total += depth * length
        last = depth << _BITS | length
        if not segments:
            return float(depth), float(depth)
        segments.append(last)
    elif not segments:
        return None, None
    segments.sort()
    known = 0
    for segment in segments:
        known += segment & _LENGTH
    rank = (known - 1) * 0.95
    low_rank, high_rank = floor(rank), ceil(rank)
    below = known
    high: int | None = None
    for segment in reversed(segments):
        below -= segment & _LENGTH
        if high is None and below <= high_rank:
            high = segment >> _BITS
        if below <= low_rank:
            break
    low = segment >> _BITS
    if last >= 0:
        del segments[bisect_left(segments, last)]
    if high is None or low == high:
        return total / known, float(low)
    return total / known, (high_rank - rank) * low + (rank - low_rank) * high
