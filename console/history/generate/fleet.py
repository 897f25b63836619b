"""Simulate a realistic year of many queues, day by day: periodic traffic, incidents, and the effects of flow control.
Pure: no file, no clock; the same seed generates the same year.

Every queue has a daily and a weekly rhythm. Most of the time its consumers keep up. Occasionally they lag, disconnect,
or the producers surge: then the queue fills up, and producers are blocked and unblocked at its stop and resume levels,
computed to the second. Operators stop producers in incidents, and raise capacities after them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

MINUTES = 1440
OVERFULL, UNDERFULL = 0, 1
_TURNS = 4  # maximum number of blocks within a minute


@dataclass(frozen=True, slots=True)
class Crossing:
    """A queue becomes overfull or underfull at `second` of the day, with `depth` messages."""

    queue: int
    second: float
    kind: int
    depth: float


@dataclass(frozen=True, slots=True)
class Stop:
    """An operator stops `queues` from `begin` to `end` (minutes of the day)."""

    queues: tuple[int, ...]
    begin: int
    end: int
    actor: str
    reason: str


@dataclass(frozen=True, slots=True)
class Edit:
    """An operator changes a capacity (messages) in a minute of the day."""

    queue: int
    minute: int
    before: int
    after: int
    actor: str


@dataclass(slots=True)
class Day:
    """Arrays of queue x minute. `depth`, `overfull` and levels are those at the end of each minute; `came` and `went`
    messages within it; `stopped`: by an operator."""

    came: Floats
    went: Floats
    depth: Floats
    overfull: Bools
    stopped: Bools
    capacity: Floats
    resume: Floats
    crossings: list[Crossing] = field(default_factory=list)
    stops: list[Stop] = field(default_factory=list)
    edits: list[Edit] = field(default_factory=list)


OPERATORS = ("anna", "olga", "ben", "marco", "yuki")
REASONS = (
    "warehouse consumers are down, let the queue empty first",
    "database failover in progress",
    "poison messages, consumers crash on them",
    "release of the billing service",
    "disk of the message store nearly full",
    "load test got out of hand",
)


class Fleet:
    """The queues, in their state at the end of the last generated day."""

    def __init__(self, queues: int, seed: int) -> None:
        self.chance = np.random.default_rng(seed)
        chance = self.chance
        self.count = queues
        #: Messages per second in the busiest hour.
        self.peak = np.exp(chance.normal(1.5, 1.2, queues)).clip(0.2, 400)
        self.message_bytes = np.exp(chance.normal(6.8, 1.0, queues)).clip(60, 200_000).round()
        self.producers = chance.integers(1, 6, queues)
        self.consumers = chance.integers(1, 5, queues)
        #: Capacity in seconds of peak traffic; for a tenth of the queues it is never reached.
        seconds = np.where(chance.random(queues) < 0.1, 40_000, chance.uniform(90, 1200, queues))
        self.capacity = np.maximum((self.peak * seconds).round(-1), 50.0)
        #: Most queues resume at 80%, some so close to the capacity that they flap.
        self.resume_share = chance.choice([0.8, 0.7, 0.5, 0.97], queues, p=[0.7, 0.14, 0.1, 0.06])
        self.by_bytes = chance.random(queues) < 0.3
        self.night = chance.random(queues) < 0.15  # batch jobs, which run at night
        self.phase = chance.normal(0, 45, queues)  # minutes
        #: A few queues have most of the incidents.
        weight = chance.pareto(1.2, queues) + 0.05
        self.trouble = weight / weight.sum()
        self.depth = np.zeros(queues)
        self.overfull = np.zeros(queues, bool)
        self.edited = np.zeros(queues, int)

    def day(self, weekday: int) -> Day:
        """Simulate the next day; `weekday` 0 is Monday."""
        chance = self.chance
        rate = self._rates(weekday)
        served = np.repeat((self.peak * 2)[:, None], MINUTES, axis=1)
        capacity = np.repeat(self.capacity[:, None], MINUTES, axis=1)
        stopped = np.zeros((self.count, MINUTES), bool)
        busy = set(np.flatnonzero((self.depth > self.peak) | self.overfull).tolist())
        struck = self._incidents(weekday, rate, served)
        busy |= struck
        stops = self._stops(stopped, sorted(struck))
        for stop in stops:
            busy |= set(stop.queues)
        edits = self._edits(capacity, sorted(struck))
        resume = capacity * self.resume_share[:, None]
        came = rate * 60
        went = came.copy()
        depth = (rate * chance.random(rate.shape, np.float32) * 0.4).round()  # messages in transit
        overfull = np.zeros((self.count, MINUTES), bool)
        made = Day(came, went, depth, overfull, stopped, capacity, resume, [], stops, edits)
        if busy:
            self._flow(np.array(sorted(busy)), rate, served, made)
        self.capacity = capacity[:, -1].copy()
        quiet = np.ones(self.count, bool)
        quiet[sorted(busy)] = False
        self.depth[quiet], self.overfull[quiet] = 0.0, False
        return made

    # -- traffic and incidents ---------------------------------------------------------------------------------

    def _rates(self, weekday: int) -> Floats:
        """Return the demand in messages per second, by queue and minute."""
        minute = np.arange(MINUTES)[None, :] + self.phase[:, None]
        hour = minute / 60
        office = np.exp(-(((hour - 10.5) / 2.4) ** 2)) + 0.9 * np.exp(-(((hour - 15.5) / 2.8) ** 2)) + 0.06
        night = np.exp(-(((hour - 2.5) / 1.5) ** 2)) + 0.02
        shape = np.where(self.night[:, None], night, office)
        week = (1.0, 1.05, 1.0, 0.98, 0.9, 0.4, 0.3)[weekday]
        noise = self.chance.normal(1, 0.08, (self.count, MINUTES // 5)).clip(0.6, 1.5).repeat(5, axis=1)
        rates: Floats = self.peak[:, None] * shape * week * noise
        return rates

    def _incidents(self, weekday: int, rate: Floats, served: Floats) -> set[int]:
        chance = self.chance
        struck = set()
        for _ in range(chance.poisson(self.count * (0.045 if weekday < 5 else 0.015))):
            queue = int(chance.choice(self.count, p=self.trouble))
            begin = int(chance.choice([chance.uniform(0, MINUTES), chance.normal(620, 120), chance.normal(930, 120)]))
            begin = min(max(begin, 0), MINUTES - 5)
            end = min(begin + int(np.exp(chance.normal(3.4, 0.8))) + 3, MINUTES)
            span = slice(begin, end)
            match int(chance.integers(0, 10)):
                case 0 | 1:  # consumers disconnect
                    served[queue, span] = 0.0
                case 2 | 3 | 4:  # producers surge
                    rate[queue, span] = rate[queue, span] * chance.uniform(2, 6) + self.peak[queue]
                    served[queue, span] = self.peak[queue] * chance.uniform(0.8, 1.6)
                case _:  # consumers lag
                    served[queue, span] = rate[queue, span].mean() * chance.uniform(0.3, 0.95)
            struck.add(queue)
        return struck

    def _stops(self, stopped: Bools, struck: list[int]) -> list[Stop]:
        chance = self.chance
        stops = []
        for _ in range(chance.poisson(0.4)):
            many = chance.random() < 0.2
            if struck and not many:
                queues = [int(chance.choice(struck))]
            else:
                queues = sorted(int(q) for q in chance.choice(self.count, min(self.count, 12), replace=False))
            begin = int(chance.integers(0, MINUTES - 90))
            end = begin + int(chance.integers(4, 80))
            stopped[queues, begin:end] = True
            actor, reason = OPERATORS[chance.integers(len(OPERATORS))], REASONS[chance.integers(len(REASONS))]
            stops.append(Stop(tuple(queues), begin, end, actor, reason))
        return stops

    def _edits(self, capacity: Floats, struck: list[int]) -> list[Edit]:
        chance = self.chance
        edits = []
        for queue in struck:
            if self.edited[queue] >= 3 or chance.random() > 0.05:
                continue
            minute = int(chance.integers(480, 1080))
            before = int(self.capacity[queue])
            after = round(before * float(chance.choice([1.5, 2, 4])))
            capacity[queue, minute:] = after
            self.edited[queue] += 1
            edits.append(Edit(queue, minute, before, after, OPERATORS[chance.integers(len(OPERATORS))]))
        return edits

    def _flow(self, busy: npt.NDArray[np.int64], rate: Floats, served: Floats, day: Day) -> None:
        """Simulate all busy queues minute by minute, and within a minute from one crossing of a level to the next."""
        depth, overfull = self.depth[busy], self.overfull[busy]
        rate, served, stopped = rate[busy], served[busy], day.stopped[busy]
        capacity, resume = day.capacity[busy], day.resume[busy]
        for minute in range(MINUTES):
            left = np.full(len(busy), 60.0)
            came = np.zeros(len(busy))
            before = depth.copy()
            full, low, serve = capacity[:, minute], resume[:, minute], served[:, minute]
            for _ in range(_TURNS):
                inflow = np.where(overfull | stopped[:, minute], 0.0, rate[:, minute])
                net = np.where((depth <= 0) & (inflow < serve), 0.0, inflow - serve)
                with np.errstate(divide="ignore", invalid="ignore"):
                    until = np.where(
                        overfull,
                        np.where(depth <= low, 0.0, np.where(net < 0, (depth - low) / -net, np.inf)),
                        np.where(depth > full, 0.0, np.where(net > 0, (full + 1 - depth) / net, np.inf)),
                    )
                passed = np.minimum(left, until)
                depth = np.maximum(depth + net * passed, 0.0)
                came += inflow * passed
                left -= passed
                crossed = (until <= 60.0) & (passed == until) & (left > 0)
                if not crossed.any():
                    break
                for index in np.flatnonzero(crossed):
                    kind = UNDERFULL if overfull[index] else OVERFULL
                    second = minute * 60 + 60 - left[index]
                    day.crossings.append(Crossing(int(busy[index]), float(second), kind, float(depth[index])))
                overfull = overfull ^ crossed
            day.came[busy, minute] = came
            day.went[busy, minute] = came - (depth - before)
            day.depth[busy, minute] = depth
            day.overfull[busy, minute] = overfull
        self.depth[busy], self.overfull[busy] = depth, overfull
