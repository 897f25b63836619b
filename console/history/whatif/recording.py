"""What was recorded of a queue in a range, as the simulation needs it: intervals, limits, blocked time, consumers.
Pure.

`recording_of_samples` and `recording_of_minutes` convert columns of the tables; a value that is unknown is NaN.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from console.history.whatif.demand import Bools, Demand, Recorded, demand_of
from console.history.whatif.minute_traffic import (
    FEWEST,
    carried,
    highest,
    levels_in_messages,
    limits_at_end,
    recorded_of_minutes,
)
from console.history.whatif.replay import Floats, Limits


@dataclass(frozen=True, slots=True)
class Blocked:
    """Recorded blocked producer time of a queue, as README.md defines it. `seconds`: all of it; `per_overfull_second`:
    of one overfull second, the mean number of blocked producers."""

    seconds: float = 0.0
    per_overfull_second: float = 1.0


@dataclass(frozen=True, slots=True)
class Consumers:
    """The queue's consumers in its samples while it was overfull. `most`: highest number of them;
    `unacknowledged_share`: mean share of its messages that they had received and not acknowledged."""

    most: float
    unacknowledged_share: float


@dataclass(frozen=True, slots=True)
class Recording:
    """`source`: samples or minutes; `demands`: of samples one, of minutes two, with and without bursts in a minute;
    `current`: the effective limits at the end; `is_constant`: they were effective in the whole range; `peak_*`:
    highest depth; `consumers`: None if they are unknown."""

    source: str
    intervals: Recorded
    demands: tuple[Demand, ...]
    current: Limits
    is_constant: bool
    peak_messages: float
    peak_bytes: float
    blocked: Blocked = field(default_factory=Blocked)
    consumers: Consumers | None = None

    @property
    def observed_seconds(self) -> float:
        return self.intervals.observed_seconds

    @property
    def overfull_seconds(self) -> float:
        return self.intervals.overfull_seconds


#: Columns of the table `samples` that `recording_of_samples` reads, besides `ms` and `state`.
SAMPLE_COLUMNS = (
    "depth_messages",
    "depth_bytes",
    "enqueued_messages",
    "dequeued_messages",
    "overfull_ms",
    "consumers",
    "unacknowledged_messages",
    "stop_messages",
    "resume_messages",
    "stop_bytes",
    "resume_bytes",
)


def recording_of_samples(
    got: Mapping[str, Floats], state: list[str], longest_ms: float, blocked: Blocked | None = None
) -> Recording | None:
    """Convert `ms` and SAMPLE_COLUMNS of one queue, in order. `longest_ms`: longer intervals are gaps. Return None
    without enough data."""
    if len(got["ms"]) < FEWEST:
        return None
    overfull = np.array([one.startswith("OVERFULL") for one in state])
    stopped = np.array([one.endswith("STOPPED") for one in state])
    intervals = intervals_of_samples(got, overfull, stopped, longest_ms)
    return Recording(
        "samples",
        intervals,
        (demand_of(intervals),),
        limits_at_end(got),
        _is_constant(got),
        highest(got["depth_messages"]),
        highest(got["depth_bytes"]),
        blocked or Blocked(),
        _consumers(got, overfull),
    )


def recording_of_minutes(got: Mapping[str, Floats], consumers: Consumers | None = None) -> Recording | None:
    """Convert `ms` and `minute_traffic.COLUMNS` of one queue, in order. `consumers`: minutes do not have them. Return
    None without enough data."""
    if len(got["ms"]) < FEWEST:
        return None
    intervals = recorded_of_minutes(got, bursts=True)
    both = (intervals, recorded_of_minutes(got, bursts=False)) if intervals.overfull.any() else (intervals,)
    return Recording(
        "minutes",
        intervals,
        tuple(demand_of(one) for one in both),
        limits_at_end(got),
        _is_constant(got),
        highest(got["messages_max"]),
        highest(got["bytes_max"]),
        blocked_of_minutes(got),
        consumers,
    )


def blocked_of_minutes(got: Mapping[str, Floats]) -> Blocked:
    """Return the blocked producer time of minutes with `blocked_ms`, `overfull_ms` and `stopped_ms`."""
    blocked, overfull, stopped = (np.nan_to_num(got[f"{name}_ms"]) for name in ("blocked", "overfull", "stopped"))
    by_limits = (overfull > 0) & (stopped == 0)
    during = float(overfull[by_limits].sum())
    producers = float(blocked[by_limits].sum()) / during if during else 1.0
    return Blocked(float(blocked.sum()) / 1000, producers)


def intervals_of_samples(got: Mapping[str, Floats], overfull: Bools, stopped: Bools, longest_ms: float) -> Recorded:
    """Convert samples to the n - 1 intervals between them."""
    depth = got["depth_messages"]
    length = np.diff(got["ms"]) / 1000
    came, went = np.diff(got["enqueued_messages"]), np.diff(got["dequeued_messages"])
    unknown = (length <= 0) | (length > longest_ms / 1000) | ~(came >= 0) | ~(went >= 0)
    seconds, came, went = (np.where(unknown, 0.0, values) for values in (length, came, went))
    over = _overfull_seconds(got["overfull_ms"], overfull, seconds)
    size = carried(
        np.divide(np.nan_to_num(got["depth_bytes"]), depth, out=np.full(len(depth), np.nan), where=depth > 0)
    )[1:]
    _stop, resume = levels_in_messages({name: values[1:] for name, values in got.items()}, size)
    restart = np.full(len(length), -1.0)
    restart[0] = depth[0]
    after_gap = np.flatnonzero(unknown[:-1]) + 1
    restart[after_gap] = depth[after_gap]
    return Recorded(
        seconds,
        came,
        np.divide(went, seconds, out=np.zeros(len(went)), where=seconds > 0),
        over,
        (stopped[:-1].astype(float) + stopped[1:]) / 2,
        depth[:-1],
        depth[1:],
        size,
        resume,
        restart,
    )


def _overfull_seconds(total_ms: Floats, overfull: Bools, seconds: Floats) -> Floats:
    """Return the overfull seconds of each interval: by the broker's total, which is exact. Without one, or if it does
    not grow while the queue is overfull, by the states at both ends."""
    by_state = (overfull[:-1].astype(float) + overfull[1:]) / 2 * seconds
    counted = np.diff(total_ms) / 1000
    throughout = overfull[:-1] & overfull[1:] & (counted >= 0)
    if counted[throughout].sum() < seconds[throughout].sum() / 2:
        return by_state
    return np.clip(np.where(counted >= 0, counted, by_state), 0.0, seconds)


def _is_constant(got: Mapping[str, Floats]) -> bool:
    names = ("stop_messages", "resume_messages", "stop_bytes", "resume_bytes")
    return all(len(np.unique(got[name][~np.isnan(got[name])])) <= 1 for name in names)


def _consumers(got: Mapping[str, Floats], overfull: Bools) -> Consumers | None:
    counts, unacknowledged = got["consumers"][overfull], got["unacknowledged_messages"][overfull]
    depth = got["depth_messages"][overfull]
    known = ~np.isnan(counts)
    if not known.any():
        return None
    shares = np.divide(unacknowledged, depth, out=np.zeros(len(depth)), where=(depth > 0) & ~np.isnan(unacknowledged))
    return Consumers(float(counts[known].max()), float(shares.mean()))
