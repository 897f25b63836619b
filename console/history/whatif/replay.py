"""Simulate a queue's recorded traffic with other limits. Pure, compiled by numba.

Assumptions:
- Blocked producers would have continued at the rate of the minute before, and do not send the missing messages later.
  Without this assumption every capacity above the recorded one would seem to avoid all blocking, since a queue never
  grows beyond the capacity that it had.
- Consumers take the messages that they took while there was a backlog. Without a backlog they could take more: the
  rate of their best half minute.
- While an operator stopped the queue's producers, they would have sent nothing under any policy.
- Rates are constant within an interval between two samples; crossings of the levels are computed exactly.
- Gaps are skipped: the simulation continues after a gap from the recorded depth.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

#: An interval longer than this many times the median is a gap.
_GAP = 3.0
#: Seconds before a block whose rate is the demand of blocked producers.
_BEFORE = 60.0
#: Seconds over which the best rate of consumers is measured.
_BEST = 30.0
#: Crossings of the stop level simulated one by one within an interval; further cycles are computed at once.
_TURNS = 6


@dataclass(frozen=True, slots=True)
class Traffic:
    """n intervals between samples. `seconds`: length; `demand`, `service`: messages/s in and out; `size`: bytes of a
    message; `restart`: depth in messages at the start of an interval after a gap, otherwise -1; `blocked`: recorded
    overfull seconds of the interval; `depth`: recorded messages at its end."""

    seconds: Floats
    demand: Floats
    service: Floats
    size: Floats
    restart: Floats
    blocked: Floats
    depth: Floats

    @property
    def observed_seconds(self) -> float:
        return float(self.seconds.sum())


@dataclass(frozen=True, slots=True)
class Limits:
    """Levels as in samples. A stop level of 0: no limit; a resume level of 0 with a stop level: resume when empty.
    Raises ValueError for a negative level and for a resume level above its stop level."""

    stop_messages: float = 0
    resume_messages: float = 0
    stop_bytes: float = 0
    resume_bytes: float = 0

    def __post_init__(self) -> None:
        for unit in ("messages", "bytes"):
            stop, resume = getattr(self, f"stop_{unit}"), getattr(self, f"resume_{unit}")
            if stop < 0 or resume < 0:
                raise ValueError(f"stop_{unit} {stop:g} and resume_{unit} {resume:g} must not be negative")
            if stop and resume > stop:
                raise ValueError(
                    f"resume_{unit} {resume:g} is above stop_{unit} {stop:g}: its producers would never be unblocked"
                )

    @property
    def limited(self) -> bool:
        return self.stop_messages > 0 or self.stop_bytes > 0

    def scaled(self, factor: float, resume_share: float | None = None) -> Limits:
        """Return the limits multiplied by `factor`. `resume_share`: the resume level as a share of the stop level;
        None: in the same proportion as now."""

        def resume(stop: float, now: float) -> float:
            return now * factor if resume_share is None else stop * factor * resume_share

        return Limits(
            self.stop_messages * factor,
            resume(self.stop_messages, self.resume_messages),
            self.stop_bytes * factor,
            resume(self.stop_bytes, self.resume_bytes),
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """The simulated result of limits. `peak_*`: highest depth, which is the required memory or disk."""

    episodes: int
    blocked_seconds: float
    longest_seconds: float
    peak_messages: float
    peak_bytes: float


@dataclass(frozen=True, slots=True)
class Samples:
    """n samples of one queue, ascending in `at` (ms). `enqueued`, `dequeued`: the counters. `blocked_ms`: overfull time
    of each of the n - 1 intervals, if it is known; None: derive it from `overfull`."""

    at: Floats
    depth_messages: Floats
    depth_bytes: Floats
    enqueued: Floats
    dequeued: Floats
    overfull: Bools
    stopped: Bools
    blocked_ms: Floats | None = None


def traffic(samples: Samples, longest_ms: float | None = None) -> Traffic:
    """Convert samples to intervals. `longest_ms`: longer intervals are gaps; None: longer than three times the
    median."""
    depth, stopped = samples.depth_messages, samples.stopped
    length = np.diff(samples.at) / 1000
    if not len(length):
        return Traffic(*(np.empty(0) for _ in range(7)))
    came, went = np.diff(samples.enqueued), np.diff(samples.dequeued)
    limit = longest_ms / 1000 if longest_ms is not None else _GAP * float(np.median(length))
    unknown = (length <= 0) | (length > limit) | ~(came >= 0) | ~(went >= 0)
    seconds, came, went = (np.where(unknown, 0.0, values) for values in (length, came, went))
    stop_share = (stopped[:-1].astype(float) + stopped[1:]) / 2
    open_seconds = seconds * (1 - stop_share)
    if samples.blocked_ms is None:
        blocked = (samples.overfull[:-1].astype(float) + samples.overfull[1:]) / 2 * seconds
        # The moment within the interval at which it became overfull is unknown, so its rate is unreliable.
        reliable = (open_seconds > 0) & (blocked == 0)
    else:
        blocked = np.clip(samples.blocked_ms / 1000, 0.0, seconds)
        open_seconds = np.maximum(open_seconds - blocked, 0.0)
        reliable = open_seconds > 0.1 * seconds
    rate = np.divide(came, open_seconds, out=np.zeros(len(came)), where=reliable)
    demand = np.where(reliable, rate, _rate_before(came, open_seconds, reliable)) * (1 - stop_share)
    taken = np.divide(went, seconds, out=np.zeros(len(went)), where=seconds > 0)
    backlog = np.minimum(depth[:-1], depth[1:]) > taken  # more than the messages of one second in flight
    service = np.where(backlog, taken, np.maximum(taken, _best(went, seconds)))
    size = _carried(np.divide(samples.depth_bytes, depth, out=np.full(len(depth), np.nan), where=depth > 0))[1:]
    restart = np.full(len(length), -1.0)
    restart[0] = depth[0]
    after_gap = np.flatnonzero(unknown[:-1]) + 1
    restart[after_gap] = depth[after_gap]
    return Traffic(seconds, demand, service, size, restart, np.where(unknown, 0.0, blocked), depth[1:])


def _best(went: Floats, seconds: Floats) -> float:
    """Return the highest rate over about `_BEST` seconds, messages/s."""
    known = seconds > 0
    if not known.any():
        return 0.0
    together = min(max(1, round(_BEST / float(np.median(seconds[known])))), int(known.sum()))
    window = np.ones(together)
    rates = np.convolve(went[known], window, "valid") / np.convolve(seconds[known], window, "valid")
    return float(rates.max())


def _rate_before(came: Floats, open_seconds: Floats, reliable: Bools) -> Floats:
    """Return, for each interval, the mean rate of the reliable intervals in the last `_BEFORE` seconds in which
    producers could send, messages/s; before the first reliable interval its rate."""
    if not reliable.any():
        return np.zeros(len(came))
    messages = np.concatenate([[0.0], np.cumsum(came[reliable])])
    seconds = np.concatenate([[0.0], np.cumsum(open_seconds[reliable])])
    last = np.maximum(np.cumsum(reliable), 1)  # number of reliable intervals up to here
    first = np.minimum(np.searchsorted(seconds, seconds[last] - _BEFORE, side="right") - 1, last - 1)
    first = np.maximum(first, 0)
    rates: Floats = (messages[last] - messages[first]) / (seconds[last] - seconds[first])
    return rates


def replay(traffic: Traffic, limits: Limits) -> Outcome:
    """Simulate the traffic with these limits."""
    return Outcome(
        *_replay(traffic.seconds, traffic.demand, traffic.service, traffic.size, traffic.restart, *_of(limits))
    )


def _of(limits: Limits) -> tuple[float, float, float, float]:
    return limits.stop_messages, limits.resume_messages, limits.stop_bytes, limits.resume_bytes


def _carried(values: Floats) -> Floats:
    """Replace each NaN by the last value before it, or else by the first value; 0 if there is none."""
    known = np.flatnonzero(~np.isnan(values))
    if not len(known):
        return np.zeros(len(values))
    last = np.searchsorted(known, np.arange(len(values)), side="right") - 1
    return values[known[np.maximum(last, 0)]]


@njit(cache=True)  # type: ignore[untyped-decorator]
def _replay(  # noqa: C901, PLR0912, PLR0915, PLR0917 - compiled as one: no keywords, and no calls in its loop
    seconds: Floats,
    demand: Floats,
    service: Floats,
    size: Floats,
    restart: Floats,
    stop_messages: float,
    resume_messages: float,
    stop_bytes: float,
    resume_bytes: float,
) -> tuple[int, float, float, float, float]:  # pragma: no cover - compiled
    depth, is_blocked = 0.0, False
    episodes, blocked, lasting, longest, peak, peak_bytes = 0, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(len(seconds)):
        # Both limits in messages of this interval's size.
        stop = stop_messages if stop_messages > 0 else np.inf
        resume = resume_messages if stop_messages > 0 else np.inf
        if stop_bytes > 0 and size[i] > 0:
            stop = min(stop, stop_bytes / size[i])
            resume = min(resume, resume_bytes / size[i])
        resume = min(resume, stop)
        if restart[i] >= 0:
            depth, lasting = restart[i], 0.0
            is_blocked = depth > stop
            episodes += is_blocked
        left, into, out = seconds[i], demand[i], service[i]
        if left > 0:
            peak, peak_bytes = max(peak, depth), max(peak_bytes, depth * size[i])
        turns = 0
        while left > 0:
            if is_blocked and depth > resume:
                passed = min(left, (depth - resume) / out) if out > 0 else left
                depth = resume if passed < left else max(depth - out * passed, 0.0)
                blocked += passed
                lasting += passed
                longest = max(longest, lasting)
                left -= passed
                continue
            if is_blocked and stop <= resume and into > out:
                # Without a distance between the levels producers send at the rate at which consumers take messages.
                share = 1.0 - out / into
                blocked += left * share
                lasting += left * share
                longest = max(longest, lasting)
                left = 0.0
                continue
            if is_blocked:
                is_blocked, lasting = False, 0.0
            if depth > stop or (depth >= stop and into > out):
                is_blocked = True
                episodes += 1
                turns += 1
                if turns > _TURNS and resume < stop and into > out > 0:
                    turn = (stop - resume) / out + (stop - resume) / (into - out)
                    whole = int(left / turn)
                    episodes += whole
                    blocked += whole * (stop - resume) / out
                    left -= whole * turn
                    turns = -1_000_000
                continue
            net = into - out
            if net > 0:
                passed = min(left, (stop - depth) / net)
                depth = min(depth + net * passed, stop) if passed < left else depth + net * passed
                left -= passed
                if left > 0:
                    depth = stop
            else:
                depth = max(depth + net * left, 0.0)
                left = 0.0
            peak, peak_bytes = max(peak, depth), max(peak_bytes, depth * size[i])
    return episodes, blocked, longest, peak, peak_bytes
