"""A queue's recorded traffic against another capacity and resume level: the replay itself. Pure numbers, compiled.

What is assumed, and where it comes from:
- While producers were held, they would have gone on at the rate of the minute before, and what they did not send
  then they do not send later. Without this, any capacity above the recorded one would look as if it avoided everything,
  since a queue never grows beyond the capacity that it had.
- Consumers take what they took while there was a backlog. Without one they could do more than they had to: as much as
  in their best half minute of the recorded time.
- While an operator had stopped the queue, nobody would have sent anything under any policy.
- Within an interval (two samples) rates are even; crossings of the levels are reckoned exactly.
- Nobody knows what happened in a gap: the replay goes on behind it from the recorded depth.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

#: Samples further apart than this many times what is usual have a gap in between.
_GAP = 3.0
#: Seconds before a hold whose rate producers would have gone on at.
_BEFORE = 60.0
#: Seconds over which consumers' best counts.
_BEST = 30.0
#: Crossings of levels that are followed one by one within an interval; then whole turns are counted.
_TURNS = 6


@dataclass(frozen=True, slots=True)
class Traffic:
    """n intervals between samples. `seconds` long; `demand` and `service` messages/s; `size` bytes of a message;
    `restart`: the depth to begin the interval with, where what was before is not known, else -1; `held`: seconds of the
    interval in which the queue was overfull in fact; `depth` recorded at its end."""

    seconds: Floats
    demand: Floats
    service: Floats
    size: Floats
    restart: Floats
    held: Floats
    depth: Floats

    @property
    def observed_seconds(self) -> float:
        return float(self.seconds.sum())


@dataclass(frozen=True, slots=True)
class Limits:
    """Levels as samples tell them: 0 = no limit. A resume level of 0 beside a limit means: when empty."""

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
                raise ValueError(f"resume_{unit} {resume:g} is above stop_{unit} {stop:g}: it would never resume")

    @property
    def limited(self) -> bool:
        return self.stop_messages > 0 or self.stop_bytes > 0

    def scaled(self, factor: float, resume_share: float | None = None) -> Limits:
        """The same limits `factor` times as high; `resume_share` of the stop level, or as it is in proportion."""

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
    """What a policy would have come to. `peak_*`: the greatest depth, which is the memory or disk that it needs."""

    episodes: int
    blocked_seconds: float
    longest_seconds: float
    peak_messages: float
    peak_bytes: float


@dataclass(frozen=True, slots=True)
class Samples:
    """n samples of one queue, ascending in `at` (ms). `enqueued`, `dequeued`: the counters. `held_ms`: of each of the
    n - 1 intervals, how long the queue was overfull, if it is known better than the samples tell it."""

    at: Floats
    depth_messages: Floats
    depth_bytes: Floats
    enqueued: Floats
    dequeued: Floats
    overfull: Bools
    stopped: Bools
    held_ms: Floats | None = None


def traffic(samples: Samples, longest_ms: float | None = None) -> Traffic:
    """The intervals between the samples. `longest_ms`: a longer one is a gap; None: three times the median."""
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
    if samples.held_ms is None:
        held = (samples.overfull[:-1].astype(float) + samples.overfull[1:]) / 2 * seconds
        # When within the interval it became overfull is not known: its rate says nothing.
        told = (open_seconds > 0) & (held == 0)
    else:
        held = np.clip(samples.held_ms / 1000, 0.0, seconds)
        open_seconds = np.maximum(open_seconds - held, 0.0)
        told = open_seconds > 0.1 * seconds
    rate = np.divide(came, open_seconds, out=np.zeros(len(came)), where=told)
    demand = np.where(told, rate, _rate_before(came, open_seconds, told)) * (1 - stop_share)
    taken = np.divide(went, seconds, out=np.zeros(len(went)), where=seconds > 0)
    backlog = np.minimum(depth[:-1], depth[1:]) > taken  # more than is on its way in a second
    service = np.where(backlog, taken, np.maximum(taken, _best(went, seconds)))
    size = _carried(np.divide(samples.depth_bytes, depth, out=np.full(len(depth), np.nan), where=depth > 0))[1:]
    restart = np.full(len(length), -1.0)
    restart[0] = depth[0]
    after_gap = np.flatnonzero(unknown[:-1]) + 1
    restart[after_gap] = depth[after_gap]
    return Traffic(seconds, demand, service, size, restart, np.where(unknown, 0.0, held), depth[1:])


def _best(went: Floats, seconds: Floats) -> float:
    """The highest rate over about `_BEST` seconds."""
    known = seconds > 0
    if not known.any():
        return 0.0
    together = min(max(1, round(_BEST / float(np.median(seconds[known])))), int(known.sum()))
    window = np.ones(together)
    rates = np.convolve(went[known], window, "valid") / np.convolve(seconds[known], window, "valid")
    return float(rates.max())


def _rate_before(came: Floats, open_seconds: Floats, told: Bools) -> Floats:
    """For each interval the mean rate of what was told in the last `_BEFORE` seconds in which producers could send; at
    the beginning that of what comes first."""
    if not told.any():
        return np.zeros(len(came))
    messages = np.concatenate([[0.0], np.cumsum(came[told])])
    seconds = np.concatenate([[0.0], np.cumsum(open_seconds[told])])
    last = np.maximum(np.cumsum(told), 1)  # so many told ones up to here
    first = np.minimum(np.searchsorted(seconds, seconds[last] - _BEFORE, side="right") - 1, last - 1)
    first = np.maximum(first, 0)
    rates: Floats = (messages[last] - messages[first]) / (seconds[last] - seconds[first])
    return rates


def replay(traffic: Traffic, limits: Limits) -> Outcome:
    """What these limits would have come to."""
    return Outcome(
        *_replay(traffic.seconds, traffic.demand, traffic.service, traffic.size, traffic.restart, *_of(limits))
    )


def _of(limits: Limits) -> tuple[float, float, float, float]:
    return limits.stop_messages, limits.resume_messages, limits.stop_bytes, limits.resume_bytes


def _carried(values: Floats) -> Floats:
    """Each NaN replaced by the last value before it, or by the first of all; 0 if there is none."""
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
    depth, held = 0.0, False
    episodes, blocked, lasting, longest, peak, peak_bytes = 0, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(len(seconds)):
        # Both limits in messages, at the size that messages have here.
        stop = stop_messages if stop_messages > 0 else np.inf
        resume = resume_messages if stop_messages > 0 else np.inf
        if stop_bytes > 0 and size[i] > 0:
            stop = min(stop, stop_bytes / size[i])
            resume = min(resume, resume_bytes / size[i])
        resume = min(resume, stop)
        if restart[i] >= 0:
            depth, lasting = restart[i], 0.0
            held = depth > stop
            episodes += held
        left, into, out = seconds[i], demand[i], service[i]
        if left > 0:
            peak, peak_bytes = max(peak, depth), max(peak_bytes, depth * size[i])
        turns = 0
        while left > 0:
            if held and depth > resume:
                passed = min(left, (depth - resume) / out) if out > 0 else left
                depth = resume if passed < left else max(depth - out * passed, 0.0)
                blocked += passed
                lasting += passed
                longest = max(longest, lasting)
                left -= passed
                continue
            if held and stop <= resume and into > out:
                # No room between the levels: producers are let in one by one, as consumers make room.
                share = 1.0 - out / into
                blocked += left * share
                lasting += left * share
                longest = max(longest, lasting)
                left = 0.0
                continue
            if held:
                held, lasting = False, 0.0
            if depth > stop or (depth >= stop and into > out):
                held = True
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
