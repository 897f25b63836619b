"""Smoothed rates at which queues fill and drain: the "current rates" of conditions and estimates. Pure.

A broker samples a queue's counters about once a second, and only while they change: no sample means no traffic. Times
are in ms since the epoch, by the broker's clock.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

#: Time constant of the smoothing, s: a burst of one second is no trend, and traffic 30 s ago is not current.
SMOOTHED = 8.0
#: Longest time between samples of a queue with continuous traffic, ms.
_STEP = 2000


class Rates(NamedTuple):
    """Messages in and out per second, and the growth of the depth in bytes per second (negative: it shrinks).
    `observed_ms`: how long the queue has been observed; below some seconds the rates are unreliable. `quiet_ms`: time
    since the last enqueued message."""

    messages_in: float = 0.0
    messages_out: float = 0.0
    bytes_net: float = 0.0
    observed_ms: int = 0
    quiet_ms: int = 0

    @property
    def messages_net(self) -> float:
        return self.messages_in - self.messages_out

    @property
    def growth(self) -> tuple[float, float]:
        """The growth of the depth in messages and in bytes per second."""
        return (self.messages_net, self.bytes_net)

    def net(self, unit: str) -> float:
        """Return the growth of the depth per second; `unit` is `messages` or `bytes`."""
        return self.messages_net if unit == "messages" else self.bytes_net


NO_RATES = Rates()


@dataclass(slots=True)
class _QueueState:
    first: int
    at: int
    enqueued: int
    dequeued: int
    size: int
    filled: int  # time of the latest sample with a newly enqueued message
    rates: tuple[float, float, float] = (0.0, 0.0, 0.0)


class Trends:
    """Rates of queues, by the text of the queue's name."""

    def __init__(self) -> None:
        self._queues: dict[str, _QueueState] = {}
        self._weight = (0, 0.0)  # a time since the sample before, ms, and the weight of a new sample after it

    def take(self, queue: str, at: int, values: Mapping[str, Any]) -> None:
        """Process a sample of a queue: `enqueued_messages`, `dequeued_messages` and `depth_bytes` at time `at`. A
        sample without one of them is ignored."""
        enqueued, dequeued, size = (
            values.get("enqueued_messages"),
            values.get("dequeued_messages"),
            values.get("depth_bytes"),
        )
        if enqueued is None or dequeued is None or size is None:
            return
        state = self._queues.get(queue)
        if state is None or at < state.at or enqueued < state.enqueued or dequeued < state.dequeued:
            # A new queue, or counters that restarted.
            self._queues[queue] = _QueueState(at, at, enqueued, dequeued, size, at)
            return
        passed = at - state.at
        if passed <= 0:
            return
        before = state.rates
        if passed > _STEP:
            # There was no traffic until a second ago: it would have caused a sample.
            before = _faded(before, passed - 1000)
            passed = 1000
        weight = 1.0 if state.at == state.first else self._weight_after(passed)
        per_second = 1000 / passed
        state.rates = (
            before[0] + weight * ((enqueued - state.enqueued) * per_second - before[0]),
            before[1] + weight * ((dequeued - state.dequeued) * per_second - before[1]),
            before[2] + weight * ((size - state.size) * per_second - before[2]),
        )
        if enqueued > state.enqueued:
            state.filled = at
        state.at, state.enqueued, state.dequeued, state.size = at, enqueued, dequeued, size

    def _weight_after(self, passed: int) -> float:
        """Return the weight of a sample `passed` ms after the one before: the same for nearly all queues."""
        if self._weight[0] != passed:
            self._weight = passed, 1 - math.exp(-passed / 1000 / SMOOTHED)
        return self._weight[1]

    def growth(self, queue: str) -> tuple[float, float]:
        """Return the growth of a queue in messages and bytes per second as of its last sample. By the rates at a later
        time, which have faded, it grows at most as fast."""
        state = self._queues.get(queue)
        if state is None:
            return (0.0, 0.0)
        messages_in, messages_out, bytes_net = state.rates
        return (messages_in - messages_out, bytes_net)

    def of(self, queue: str, now: int) -> Rates:
        """Return the rates at time `now`; `NO_RATES` for an unknown queue."""
        state = self._queues.get(queue)
        if state is None:
            return NO_RATES
        silent = max(0, now - state.at)
        rates = state.rates if silent <= _STEP else _faded(state.rates, silent - 1000)
        observed, quiet = max(0, now - state.first), max(0, now - state.filled)
        return Rates(rates[0], rates[1], rates[2], observed, quiet)

    def shift(self, by: int) -> None:
        """Move stored times by `by` ms, after the broker's clock was set."""
        for state in self._queues.values():
            state.first, state.at, state.filled = state.first + by, state.at + by, state.filled + by

    def drop(self, queue: str) -> None:
        self._queues.pop(queue, None)


def _faded(rates: tuple[float, float, float], ms: int) -> tuple[float, float, float]:
    """Return the rates after `ms` without traffic."""
    factor = math.exp(-ms / 1000 / SMOOTHED)
    return (rates[0] * factor, rates[1] * factor, rates[2] * factor)
