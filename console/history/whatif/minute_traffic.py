"""Convert a queue's minutes to the intervals from which `demand.py` reconstructs demand. Pure.

The page of one queue and the recommendations for all queues use this module, so their figures agree. The overfull time
of a minute is the part of the queue's episodes in it (`pipeline/rollups.py`).

A minute that is overfull in part is split, since messages do not arrive evenly in it: into a part at the rate of the
minute beside it, and a burst. The burst fills the queue to its stop level, and from its resume level again for every
further episode; with the rate of consumers in overfull time this determines how long producers could send in the
burst, and so its rate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass

import numpy as np

from console.history.storage.durations import MINUTE
from console.history.whatif.demand import Bools, Recorded
from console.history.whatif.replay import Floats, Limits

#: Columns of the table `minutes` that it reads, besides `ms`, the time of each minute.
COLUMNS = (
    "messages_mean",
    "bytes_mean",
    "messages_max",
    "bytes_max",
    "messages_in",
    "messages_out",
    "overfull_ms",
    "stopped_ms",
    "blocked_ms",
    "episodes",
    "stop_messages",
    "resume_messages",
    "stop_bytes",
    "resume_bytes",
)
#: SQL condition of the minutes that it reads.
KNOWN = "kind = 'queue' AND known_ms > 0 AND messages_mean IS NOT NULL"
#: Fewer samples or minutes are not enough data.
FEWEST = 3
_SECONDS = MINUTE / 1000
#: The shortest time in which a burst fills a queue, seconds.
_SHORTEST = 0.5
#: In a minute that is overfull for more than this share the consumers took what they could.
_OVER_ALL = 0.9
#: The shortest time between two runs of overfull time within a minute, seconds.
_SHORTEST_PAUSE = 15.0
#: The rate of consumers in overfull time is at most this multiple of that of their best minute.
_FASTER = 4.0


def recorded_of_minutes(got: Mapping[str, Floats], *, bursts: bool) -> Recorded:
    """Convert at least FEWEST minutes of one queue: `ms` and COLUMNS, in order, NaN for missing values. `bursts`:
    split minutes that are overfull in part; otherwise messages arrive evenly in each minute."""
    n = len(got["ms"])
    came, went, size, depth, peak = (
        np.nan_to_num(got[name])
        for name in ("messages_in", "messages_out", "bytes_mean", "messages_mean", "messages_max")
    )
    overfull = np.minimum(np.nan_to_num(got["overfull_ms"]) / 1000, _SECONDS)
    stopped = np.nan_to_num(got["stopped_ms"]) > MINUTE / 2
    size = carried(np.divide(size, depth, out=np.full(n, np.nan), where=depth > 0))
    stop, resume = levels_in_messages(got, size)
    joined = np.concatenate([[False], np.diff(got["ms"]) <= 1.5 * MINUTE])
    over = overfull > 0
    before, after = over & joined & np.roll(over, 1), over & np.roll(over & joined, -1)
    before[0] = after[-1] = False
    depth_before = _depths_before(depth, came - went, joined, stop)
    highest = np.where(np.isfinite(stop), np.maximum(peak, stop), peak)
    episodes = np.nan_to_num(got["episodes"])
    taken = _taken_while_overfull(went, overfull, episodes, highest - resume, over & ~before)
    quiet = _quiet_rates(came / _SECONDS, ~over & ~stopped)
    parts: list[_Part] = []
    for k in range(n):
        is_partial = over[k] and overfull[k] < _OVER_ALL * _SECONDS
        rate_taken = max(went[k] / _SECONDS, taken[k]) if is_partial else went[k] / _SECONDS
        whole = _Part(k, _SECONDS, came[k], rate_taken, overfull[k], depth_before[k], depth[k])
        is_followed = k + 1 < n and joined[k + 1]
        is_split = bursts and over[k] and joined[k] and is_followed and not stopped[k]
        was_deep = not before[k] and depth_before[k] >= max(resume[k], 1.0)
        if not is_split or was_deep or overfull[k] > _SECONDS - _SHORTEST or np.isnan(quiet[k]):
            parts.append(whole)
            continue
        if before[k] and after[k]:
            # While it has unsent messages the depth is between the levels: a lower mean shows a part without.
            idle = _SECONDS * (1 - depth[k] * 2 / max(highest[k] + resume[k], 1e-9))
            parts += _with_pause(whole, quiet[k], min(idle, _SECONDS - overfull[k]), highest[k])
            continue
        refilled = max(highest[k] - resume[k], 0.0)
        first_fill = 0.0 if before[k] else max(stop[k] - depth_before[k], 0.0) - refilled
        parts += _split(
            whole,
            went[k],
            quiet[k],
            taken[k],
            max(first_fill + episodes[k] * refilled, 0.0),
            max(highest[k], depth_before[k]) if before[k] else highest[k],
            resume[k],
            bool(before[k]),
            bool(after[k]),
        )
    index, seconds, came, taken, overfull, starts, ends = (
        np.array(column) for column in zip(*(astuple(part) for part in parts), strict=True)
    )
    begins = np.flatnonzero(np.diff(index, prepend=-1) & ~joined[index])
    restart = np.full(len(index), -1.0)
    restart[begins] = starts[begins]
    return Recorded(
        seconds,
        came,
        taken,
        overfull,
        stopped[index].astype(float),
        starts,
        ends,
        size[index],
        resume[index],
        restart,
        is_fine=False,
    )


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of minute `index`: its length, messages in, messages/s that consumers took, overfull seconds, and depths
    at its begin and end."""

    index: int
    seconds: float
    came: float
    taken: float
    overfull: float
    depth_before: float
    depth: float


def _split(  # noqa: PLR0917 - numbers of one minute
    minute: _Part,
    went: float,
    rate: float,
    taken: float,
    filled: float,
    highest: float,
    resume: float,
    before: bool,
    after: bool,
) -> list[_Part]:
    """Split a minute in which a run of overfull time begins (not `before`) or ends (not `after`), or both. `went`:
    messages out; `rate`: messages/s that arrived in quiet minutes beside it; `taken`: that consumers took while
    overfull; `filled`: messages that made it overfull."""
    is_open, over = minute.seconds - minute.overfull, minute.overfull
    more = minute.came - rate * is_open
    if more >= filled / 2 and taken > rate * 1.05 and filled > 0:
        sending = float(np.clip((more - filled) / (taken - rate), _SHORTEST, is_open))
        burst_came = max(minute.came - rate * (is_open - sending), 0.0)
        out = min(taken * (sending + over), went)
        burst = [_Part(minute.index, sending + over, burst_came, out / (sending + over), over, highest, highest)]
    else:
        # No more arrived than usual: the consumers took less.
        sending = 0.0 if before else min(filled / rate, is_open) if rate > 0 else is_open
        burst_came = min(rate * sending, minute.came)
        out = min(max(highest - resume, 0.0), went) if not after else 0.0
        burst = [_Part(minute.index, over, 0.0, out / over, over, highest, highest)]
        if sending > 0:
            burst.insert(0, _Part(minute.index, sending, burst_came, 0.0, 0.0, highest, highest))
    rest = is_open - sending
    if rest <= 0:
        return burst
    sides = 2 - before - after
    came, rest_taken = max(minute.came - burst_came, 0.0) / sides, max(went - out, 0.0) / rest

    def side(depth: float) -> list[_Part]:
        return [_Part(minute.index, rest / sides, came, rest_taken, 0.0, depth, depth)]

    return [*([] if before else side(minute.depth_before)), *burst, *([] if after else side(0.0))]


def _with_pause(minute: _Part, rate: float, idle: float, highest: float) -> list[_Part]:
    """Split a minute at whose begin and end a queue was overfull, with `idle` seconds between in which it was not."""
    if idle < _SHORTEST_PAUSE:
        return [minute]
    half = (minute.seconds - idle) / 2
    came = min(rate * idle, minute.came * idle / minute.seconds)
    busy = _Part(
        minute.index, half, (minute.came - came) / 2, minute.taken, min(minute.overfull / 2, half), highest, highest
    )
    return [busy, _Part(minute.index, idle, came, minute.taken, 0.0, 0.0, 0.0), busy]


def _depths_before(depth: Floats, grown: Floats, joined: Bools, stop: Floats) -> Floats:
    """Return the depth at the start of each minute, from what came in and went out since the last minute of little
    change, whose mean is the depth in it."""
    total = np.concatenate([[0.0], np.cumsum(grown)])
    little = np.abs(grown) <= 0.05 * np.where(np.isfinite(stop), stop, np.maximum(depth, 1.0))
    offset = carried(np.where(little | ~joined, depth - (total[:-1] + total[1:]) / 2, np.nan))
    # The minute itself must not decide about its own start.
    earlier = np.where(joined, np.roll(offset, 1), offset)
    depths: Floats = np.maximum(total[:-1] + earlier, 0.0)
    return depths


def _quiet_rates(rates: Floats, quiet: Bools) -> Floats:
    """Return, for each minute, the lower of the rates in the quiet minutes next to it on both sides; NaN if there is
    none."""
    known = np.where(quiet, rates, np.nan)
    sides = []
    for values in (known, known[::-1]):
        at = np.flatnonzero(~np.isnan(values))
        if not len(at):
            return np.full(len(rates), np.nan)
        last = np.searchsorted(at, np.arange(len(values)), side="right") - 1
        sides.append(np.where(last >= 0, values[at[np.maximum(last, 0)]], np.nan))
    lower: Floats = np.fmin(sides[0], sides[1][::-1])
    return lower


def _taken_while_overfull(went: Floats, overfull: Floats, episodes: Floats, drained: Floats, begins: Floats) -> Floats:
    """Return the messages/s that consumers took in each overfull minute: those of the minute, or more if its run of
    overfull minutes emptied the queue from its highest depth to its resume level sooner. `begins`: where a run
    begins."""
    run = np.cumsum(begins)
    over = overfull > 0
    taken = went / _SECONDS
    if not over.any():
        return taken
    total = np.bincount(run[over], overfull[over])
    emptied = np.bincount(run[over], (episodes * np.maximum(drained, 0.0))[over])
    rates = np.divide(emptied, total, out=np.zeros(len(total)), where=total > 0)
    rates = np.minimum(rates, _FASTER * taken.max())
    return np.where(over, np.maximum(taken, rates[np.minimum(run, len(rates) - 1)]), taken)


def levels_in_messages(got: Mapping[str, Floats], size: Floats) -> tuple[Floats, Floats]:
    """Return the stop and resume levels in messages of this size, the stricter of both units; infinite without a
    limit. Where there is no resume level, it is the stop level."""
    stop, resume = np.full(len(size), np.inf), np.full(len(size), np.inf)
    for unit, of_one in (("messages", np.ones(len(size))), ("bytes", size)):
        limit, again = np.nan_to_num(got[f"stop_{unit}"]), got[f"resume_{unit}"]
        again = np.where(np.isnan(again), limit, again)
        known = (limit > 0) & (of_one > 0)
        stop = np.minimum(stop, np.divide(limit, of_one, out=np.full(len(size), np.inf), where=known))
        resume = np.minimum(resume, np.divide(again, of_one, out=np.full(len(size), np.inf), where=known))
    return stop, np.where(np.isfinite(stop), np.minimum(resume, stop), 0.0)


def limits_at_end(got: Mapping[str, Floats]) -> Limits:
    """Return the last known value of each limit: without a stop level 0, no limit; without a resume level the stop
    level."""

    def last(name: str, otherwise: float = 0.0) -> float:
        known = got[name][~np.isnan(got[name])]
        return float(known[-1]) if len(known) else otherwise

    stops = {unit: last(f"stop_{unit}") for unit in ("messages", "bytes")}
    resumes = {unit: min(last(f"resume_{unit}", stop), stop) for unit, stop in stops.items()}
    return Limits(stops["messages"], resumes["messages"], stops["bytes"], resumes["bytes"])


def highest(values: Floats) -> float:
    """Return the highest value that is not NaN; 0 if there is none."""
    known = values[~np.isnan(values)]
    return float(known.max()) if len(known) else 0.0


def carried(values: Floats) -> Floats:
    """Replace each NaN by the last value before it, or else by the first value; 0 if there is none."""
    known = np.flatnonzero(~np.isnan(values))
    if not len(known):
        return np.zeros(len(values))
    last = np.searchsorted(known, np.arange(len(values)), side="right") - 1
    return values[known[np.maximum(last, 0)]]
