"""Simulate a queue's traffic with other limits. Pure, compiled by numba.

The traffic is one of those that `demand.py` reconstructs from what was recorded. Rates are constant within an interval;
crossings of the levels are computed exactly. Gaps are skipped: the simulation continues after a gap from the recorded
depth.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit

Floats = npt.NDArray[np.float64]

#: Crossings of the stop level simulated one by one within an interval; further cycles are computed at once.
_TURNS = 6


@dataclass(frozen=True, slots=True)
class Traffic:
    """n intervals. `seconds`: length; `demand`: messages/s that producers want to send; `service`: messages/s that
    consumers can take; `size`: bytes of a message; `restart`: depth in messages at the start of an interval after a
    gap, otherwise -1. `send_rate`: messages/s at which producers send later what they could not send while blocked; 0:
    they never send it."""

    seconds: Floats
    demand: Floats
    service: Floats
    size: Floats
    restart: Floats
    send_rate: float = 0.0

    @property
    def observed_seconds(self) -> float:
        return float(self.seconds.sum())


@dataclass(frozen=True, slots=True)
class Limits:
    """Levels as in samples. A stop level of 0: no limit; a resume level of 0 with a stop level: resume when empty. A
    queue without a resume level has its stop level here, as DOMAIN.md says. Raises ValueError for a negative level and
    for a resume level above its stop level."""

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


def replay(traffic: Traffic, limits: Limits) -> Outcome:
    """Simulate the traffic with these limits."""
    return Outcome(
        *_replay(
            traffic.seconds,
            traffic.demand,
            traffic.service,
            traffic.size,
            traffic.restart,
            traffic.send_rate,
            limits.stop_messages,
            limits.resume_messages,
            limits.stop_bytes,
            limits.resume_bytes,
        )
    )


@njit(cache=True)  # type: ignore[untyped-decorator]
def _replay(  # noqa: C901, PLR0912, PLR0915, PLR0917 - compiled as one: no keywords, and no calls in its loop
    seconds: Floats,
    demand: Floats,
    service: Floats,
    size: Floats,
    restart: Floats,
    send_rate: float,
    stop_messages: float,
    resume_messages: float,
    stop_bytes: float,
    resume_bytes: float,
) -> tuple[int, float, float, float, float]:  # pragma: no cover - compiled
    depth, is_blocked, unsent = 0.0, False, 0.0
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
            depth, lasting, unsent = restart[i], 0.0, 0.0
            is_blocked = depth > stop
            episodes += is_blocked
        left, fresh, out = seconds[i], demand[i], service[i]
        # What producers send once they are unblocked with messages that they could not send.
        pent_up = max(fresh, send_rate)
        if left > 0:
            peak, peak_bytes = max(peak, depth), max(peak_bytes, depth * size[i])
        turns = 0
        while left > 0:
            if is_blocked and depth > resume:
                passed = min(left, (depth - resume) / out) if out > 0 else left
                depth = resume if passed < left else max(depth - out * passed, 0.0)
                if send_rate > 0:
                    unsent += fresh * passed
                blocked += passed
                lasting += passed
                longest = max(longest, lasting)
                left -= passed
                continue
            into = pent_up if unsent > 0 else fresh
            if is_blocked and stop <= resume and into > out:
                # Without a distance between the levels producers send at the rate at which consumers take messages.
                passed = left
                if send_rate > 0:
                    into = pent_up
                    if unsent > 0 and fresh < out:
                        passed = min(left, unsent / (out - fresh))
                    unsent = unsent + (fresh - out) * passed if passed == left else 0.0
                    unsent = max(unsent, 0.0)
                share = 1.0 - out / into
                blocked += passed * share
                lasting += passed * share
                longest = max(longest, lasting)
                left -= passed
                continue
            if is_blocked:
                is_blocked, lasting = False, 0.0
            if depth > stop or (depth >= stop and into > out):
                is_blocked = True
                episodes += 1
                turns += 1
                if turns > _TURNS and resume < stop and pent_up > out > 0:
                    closed, opened = (stop - resume) / out, (stop - resume) / (pent_up - out)
                    whole = int(left / (closed + opened))
                    if send_rate > 0:
                        more = fresh * (closed + opened) - pent_up * opened
                        if more < 0:
                            whole = min(whole, int(unsent / -more))
                        unsent = max(unsent + whole * more, 0.0)
                    episodes += whole
                    blocked += whole * closed
                    if whole > 0:
                        longest = max(longest, closed)
                    left -= whole * (closed + opened)
                    turns = 0
                continue
            net = into - out
            passed = left
            is_last = False
            if unsent > 0 and into > fresh and unsent / (into - fresh) <= passed:
                passed, is_last = unsent / (into - fresh), True
            if net > 0 and (stop - depth) / net < passed:
                passed, is_last = (stop - depth) / net, False
                depth = stop
            else:
                depth = max(depth + net * passed, 0.0)
            unsent = 0.0 if is_last else max(unsent - (into - fresh) * passed, 0.0)
            left -= passed
            peak, peak_bytes = max(peak, depth), max(peak_bytes, depth * size[i])
    return episodes, blocked, longest, peak, peak_bytes
