"""Reconstruct what producers wanted to send from what was recorded of a queue. Pure.

Only what arrived is recorded. While the queue was overfull, the demand of its producers has to be inferred. Three
reconstructions use the same rates, measured in the last seconds before a block and the first seconds after it:

- *dropped*, low and high: producers do not send later what they could not. They would have continued at the lower, or
  the higher, of the two rates.
- *deferred*: producers send everything later, as fast as they were seen to. From its first block until its depth falls
  below the resume level, the queue received exactly what was wanted in that time: at the rate before, then at the rate
  after, the change being when the totals agree.

The record often decides between them. Producers that arrive several times as fast after a block as before it send what
they could not: nothing was dropped. If fewer messages arrived than both rates demand, they were dropped: nothing was
deferred. The other reconstructions remain, and results are the range over them.

Further assumptions: consumers take the messages that they took while there was a backlog; without a backlog they could
take more, at the rate of their best half minute. While an operator stopped the queue's producers, they wanted to send
nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from console.history.whatif.replay import Floats, Traffic

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

#: The rate beside a block is measured over this many seconds, and over as many messages, but over no more than the
#: last.
_BESIDE_SECONDS, _BESIDE_MESSAGES, _BESIDE_LONGEST = 2.0, 20.0, 60.0
#: Seconds over which the best rate of consumers is measured: in samples, and in parts of minutes.
_BEST, _BEST_COARSE = 30.0, 5.0
#: An interval of which producers could send for a smaller share has no reliable rate.
_OPEN_SHARE = 0.02
#: Arrivals after a block beyond those at the higher rate beside it, as a share of these, that show that messages were
#: deferred.
_CAUGHT_UP = 1.0
#: The overfull share of a part of a minute whose open time is that of deferred messages.
_FULL_SHARE = 0.9
#: Missing arrivals in overfull time, as a share of those at the lower rate beside it, that show that messages were
#: dropped.
_MISSING = 0.3
#: Messages on which these decisions are based, at least.
_ENOUGH = 20.0
#: The least rate at the beginning of a period with deferred messages, as a multiple of the mean rate in it.
_FRONT = 1.5
#: The rate at which deferred messages arrive, where no block was followed by open time, messages/s.
_AT_ONCE = 1e6


@dataclass(frozen=True, slots=True)
class Recorded:
    """n recorded intervals of a queue. `seconds`: length, 0 in a gap; `came`: messages in; `taken`: messages/s out;
    `overfull`: overfull seconds; `stopped`: share of the interval in which an operator stopped its producers; `depth`:
    messages at its end; `size`: bytes of a message; `resume`: the resume level in messages; `restart`: depth in
    messages at the start of an interval after a gap, otherwise -1; `is_fine`: the depth at the end of each interval is
    exact."""

    seconds: Floats
    came: Floats
    taken: Floats
    overfull: Floats
    stopped: Floats
    depth_before: Floats
    depth: Floats
    size: Floats
    resume: Floats
    restart: Floats
    is_fine: bool = True

    @property
    def observed_seconds(self) -> float:
        return float(self.seconds.sum())

    @property
    def overfull_seconds(self) -> float:
        return float(self.overfull.sum())


@dataclass(frozen=True, slots=True)
class Demand:
    """The reconstructions that agree with the record. `dropped`, `deferred`: whether such a reconstruction is among
    them."""

    traffics: tuple[Traffic, ...]
    dropped: bool
    deferred: bool


def demand_of(recorded: Recorded) -> Demand:
    """Return the reconstructions that the record does not exclude; one if the queue never was overfull."""
    service = _service(recorded)
    seconds, came = recorded.seconds, recorded.came
    open_seconds = np.maximum(seconds * (1 - recorded.stopped) - recorded.overfull, 0.0)
    known = _per_second(came, seconds)

    def traffic(rates: Floats, send_rate: float = 0.0) -> Traffic:
        return Traffic(seconds, rates, service, recorded.size, recorded.restart, send_rate)

    if not recorded.overfull.any():
        return Demand((traffic(known),), dropped=False, deferred=False)
    before, after = _rates_beside(came, open_seconds, seconds)
    missed = _per_second(recorded.overfull, seconds)
    low, high = np.fmin(before, after), np.fmax(before, after)
    dropped = [traffic(known + missed * np.nan_to_num(rate)) for rate in (low, high)]
    found = _deferred(recorded, known, open_seconds, before, after)
    deferred = [traffic(rates, found.send_rate) for rates in found.rates]
    if found.excludes_dropped == found.excludes_deferred:
        return Demand((*dropped, *deferred), dropped=True, deferred=True)
    if found.excludes_deferred:
        return Demand(tuple(dropped), dropped=True, deferred=False)
    return Demand(tuple(deferred), dropped=False, deferred=True)


def _per_second(values: Floats, seconds: Floats) -> Floats:
    """Return the values by second; 0 in gaps."""
    found: Floats = np.divide(values, seconds, out=np.zeros(len(values)), where=seconds > 0)
    return found


@dataclass(frozen=True, slots=True)
class _Deferred:
    """Demand under which everything is sent later, low and high, the rate at which it is, and what the record
    excludes."""

    rates: tuple[Floats, ...]
    send_rate: float
    excludes_dropped: bool
    excludes_deferred: bool


def _deferred(recorded: Recorded, known: Floats, open_seconds: Floats, before: Floats, after: Floats) -> _Deferred:
    rates = known.copy()
    lasting = known.copy()
    runs = _busy_runs(recorded)
    usual = _usual_rate(runs, recorded, open_seconds)
    periods = [_period(recorded, first, end, before, after, open_seconds) for first, end in runs]
    for one in periods:
        inside = slice(one.first, one.end)
        seconds = recorded.seconds[inside]
        if not one.is_over:
            # What is still unsent at the end is unknown: anything from nothing to the rate before for the whole time.
            lasting[inside] = rates[inside] = one.begin_rate
            if usual < one.mean:
                rates[inside] = _of_one_change(seconds, one.total, one.begin_rate, usual)
            continue
        if one.has_rest:
            rates[one.end] = lasting[one.end] = min(rates[one.end], one.end_rate)
        lasting[inside] = rates[inside] = _of_one_change(seconds, one.total, one.begin_rate, one.end_rate)
    later = _after_first_blocks(recorded, periods)
    caught_up = sum(float(recorded.came[index].sum()) for index, _rate in later)
    later_seconds = sum(float(open_seconds[index].sum()) for index, _rate in later)
    expected = sum(float(open_seconds[index].sum()) * rate for index, rate in later)
    over = [one for one in periods if one.is_over]
    wanted = sum(min(one.begin_rate, one.end_rate) * one.seconds for one in over)
    missing = wanted - sum(one.total for one in over)
    return _Deferred(
        (rates,) if len(over) == len(periods) else (rates, lasting),
        caught_up / later_seconds if later_seconds > 0 and caught_up >= _ENOUGH else _AT_ONCE,
        excludes_dropped=_is_evident(caught_up - expected, _CAUGHT_UP * expected),
        excludes_deferred=_is_evident(missing, _MISSING * wanted),
    )


def _is_evident(messages: float, least: float) -> bool:
    """Return whether a difference of this many messages is no coincidence."""
    return messages >= _ENOUGH and messages > least


@dataclass(frozen=True, slots=True)
class _Period:
    """A busy run of intervals, `first` to `end`. `total`: messages that were wanted in it; `seconds`: its length;
    `begin_rate`, `end_rate`: messages/s before and after it, the latter NaN if it lasts to the end of the record or to
    a gap; `has_rest`: the interval after it contains some of the total."""

    first: int
    end: int
    seconds: float
    total: float
    begin_rate: float
    end_rate: float
    has_rest: bool

    @property
    def is_over(self) -> bool:
        return not np.isnan(self.end_rate)

    @property
    def mean(self) -> float:
        return self.total / self.seconds


def _period(  # noqa: PLR0917 - columns of the same intervals
    recorded: Recorded, first: int, end: int, before: Floats, after: Floats, open_seconds: Floats
) -> _Period:
    seconds, total = (float(values[first:end].sum()) for values in (recorded.seconds, recorded.came))
    begin_rate = total / seconds if np.isnan(before[first]) else float(before[first])
    # The second after it may contain the rest of what was deferred.
    beyond = end + 1 if recorded.is_fine else end
    if beyond >= len(before) or recorded.seconds[end : beyond + 1].min() == 0:
        return _Period(first, end, seconds, total, begin_rate, np.nan, has_rest=False)
    end_rate = float(after[beyond])
    rest = max(float(recorded.came[end]) - end_rate * float(open_seconds[end]), 0.0) if recorded.is_fine else 0.0
    total += rest
    # Unsent messages remained to its end, so more arrived at its beginning than later.
    begin_rate = max(begin_rate, _FRONT * total / seconds)
    return _Period(first, end, seconds, total, begin_rate, end_rate, has_rest=rest > 0)


def _after_first_blocks(recorded: Recorded, periods: list[_Period]) -> list[tuple[Ints, float]]:
    """Return, for each period, the intervals after its first block, and the highest rate beside it, messages/s."""
    found = []
    for one in periods:
        later = np.arange(one.first + 1, one.end)
        if not recorded.is_fine:
            # Parts of minutes have an exact rate of sending only if they are overfull nearly always.
            full = later[recorded.overfull[later] >= _FULL_SHARE * recorded.seconds[later]]
            later = full if recorded.came[full].sum() >= _ENOUGH else later
        found.append((later, max(one.begin_rate, one.end_rate) if one.is_over else one.begin_rate))
    return found


def _of_one_change(seconds: Floats, total: float, begin_rate: float, end_rate: float) -> Floats:
    """Return rates that begin at one and end at the other, with this total; the mean rate where there are none."""
    lasting = float(seconds.sum())
    mean = total / lasting
    if not end_rate < mean < begin_rate:
        return np.full(len(seconds), mean)
    changed = (total - end_rate * lasting) / (begin_rate - end_rate)
    of_begin = np.clip((changed - (np.cumsum(seconds) - seconds)) / np.maximum(seconds, 1e-9), 0.0, 1.0)
    rates: Floats = begin_rate * of_begin + end_rate * (1 - of_begin)
    return rates


def _usual_rate(runs: list[tuple[int, int]], recorded: Recorded, open_seconds: Floats) -> float:
    """Return the mean rate outside these runs, messages/s; NaN if there is none."""
    outside = np.ones(len(open_seconds), bool)
    for first, end in runs:
        outside[first:end] = False
    seconds = float(open_seconds[outside].sum())
    return float(recorded.came[outside].sum()) / seconds if seconds > 0 else np.nan


def _busy_runs(recorded: Recorded) -> list[tuple[int, int]]:
    """Return (first, end) of each run of intervals from one that is overfull until the depth falls below the resume
    level: while producers have unsent messages, it does not."""
    over = recorded.overfull > 0
    if recorded.is_fine:
        margin = np.maximum(recorded.taken * recorded.seconds / 2, 1.0)
        stays = (recorded.depth >= np.maximum(recorded.resume - margin, 1.0)) & (recorded.seconds > 0)
    else:
        stays = np.zeros(len(over), bool)
    # The number of the run of intervals that stay or are overfull; a run counts from its first overfull interval on.
    inside = over | stays
    inside &= recorded.seconds > 0
    edges = np.diff(np.concatenate([[False], inside, [False]]).astype(np.int8))
    periods = []
    for first, end in zip(np.flatnonzero(edges == 1), np.flatnonzero(edges == -1), strict=True):
        overfull = np.flatnonzero(over[first:end])
        if len(overfull):
            periods.append((int(first + overfull[0]), int(end)))
    return periods


def _rates_beside(came: Floats, open_seconds: Floats, seconds: Floats) -> tuple[Floats, Floats]:
    """Return, for each interval, the rates at which messages arrived in the last open seconds up to its end and in the
    first from its start, messages/s; NaN where there are none."""

    def up_to(came: Floats, open_seconds: Floats, seconds: Floats) -> Floats:
        reliable = open_seconds > _OPEN_SHARE * seconds
        messages = np.concatenate([[0.0], np.cumsum(came[reliable])])
        times = np.concatenate([[0.0], np.cumsum(open_seconds[reliable])])
        last = np.cumsum(reliable)  # number of reliable intervals up to here
        begin = np.minimum(
            np.searchsorted(times, times[last] - _BESIDE_SECONDS, side="right") - 1,
            np.searchsorted(messages, messages[last] - _BESIDE_MESSAGES, side="right") - 1,
        )
        begin = np.maximum(begin, np.searchsorted(times, times[last] - _BESIDE_LONGEST, side="left"))
        begin = np.clip(begin, 0, np.maximum(last - 1, 0))
        passed = times[last] - times[begin]
        arrived = messages[last] - messages[begin]
        rates: Floats = np.divide(arrived, passed, out=np.full(len(came), np.nan), where=passed > 0)
        return rates

    return up_to(came, open_seconds, seconds), up_to(came[::-1], open_seconds[::-1], seconds[::-1])[::-1]


def _service(recorded: Recorded) -> Floats:
    """Return the messages/s that consumers could take in each interval."""
    seconds, taken = recorded.seconds, recorded.taken
    # More than the messages of one second in flight.
    backlog = (np.minimum(recorded.depth_before, recorded.depth) > taken) | (recorded.overfull > seconds / 2)
    if not recorded.is_fine:
        backlog |= recorded.came > taken * (seconds + 1)
    best = _best(taken * seconds, seconds, _BEST if recorded.is_fine else _BEST_COARSE)
    could: Floats = np.where(backlog, taken, np.maximum(taken, best))
    return could


def _best(went: Floats, seconds: Floats, lasting: float) -> float:
    """Return the highest rate over intervals that together last at least `lasting` seconds, messages/s."""
    times = np.concatenate([[0.0], np.cumsum(seconds)])
    if times[-1] <= 0:
        return 0.0
    messages = np.concatenate([[0.0], np.cumsum(went)])
    end = np.searchsorted(times, times + min(lasting, times[-1]) - 1e-6)
    begin = np.flatnonzero((end < len(times)) & (end > np.arange(len(times))))
    rates = (messages[end[begin]] - messages[begin]) / (times[end[begin]] - times[begin])
    return float(rates.max())
