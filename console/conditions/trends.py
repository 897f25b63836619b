"""How fast each queue fills and drains, smoothed over some seconds: what "at the present rates" means. Pure.

A broker tells a queue's counters about once a second, and only while they change: silence after the last sample means
that nothing moved. Times are the broker's, ms since the epoch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

#: Seconds over which rates are smoothed: a second's burst is no trend, and half a minute ago is not now.
SMOOTHED = 8.0
#: Between samples of a queue that changes all the time there is never more than this, ms.
_STEP = 2000


@dataclass(frozen=True, slots=True)
class Rates:
    """Per second: messages in and out, and by how many bytes the depth grows (shrinks, below 0). `seen_ms`: for how
    long the queue has been looked at; rates of less than some seconds are a guess. `quiet_ms`: for how long no message
    has come in."""

    messages_in: float = 0.0
    messages_out: float = 0.0
    bytes_net: float = 0.0
    seen_ms: int = 0
    quiet_ms: int = 0

    @property
    def messages_net(self) -> float:
        return self.messages_in - self.messages_out

    def net(self, unit: str) -> float:
        """By how much the depth grows in a second, in `messages` or `bytes`."""
        return self.messages_net if unit == "messages" else self.bytes_net


NO_RATES = Rates()


@dataclass(slots=True)
class _Seen:
    first: int
    at: int
    enqueued: int
    dequeued: int
    size: int
    filled: int  # when a message came in last, as far as samples show
    rates: tuple[float, float, float] = (0.0, 0.0, 0.0)


class Trends:
    """Rates by the text of the queue's name."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}

    def take(self, queue: str, at: int, values: Mapping[str, Any]) -> None:
        """A sample of a queue: `enqueued_messages`, `dequeued_messages` and `depth_bytes` as of `at`."""
        enqueued, dequeued, size = (
            values.get("enqueued_messages"),
            values.get("dequeued_messages"),
            values.get("depth_bytes"),
        )
        if enqueued is None or dequeued is None or size is None:
            return
        seen = self._seen.get(queue)
        if seen is None or at < seen.at or enqueued < seen.enqueued or dequeued < seen.dequeued:
            self._seen[queue] = _Seen(at, at, enqueued, dequeued, size, at)  # new, or a broker that counts anew
            return
        passed = at - seen.at
        if passed <= 0:
            return
        moved = (enqueued - seen.enqueued, dequeued - seen.dequeued, size - seen.size)
        before = seen.rates
        if passed > _STEP:
            # Nothing moved until a second ago, or a sample would have told.
            before = _faded(before, passed - 1000)
            passed = 1000
        weight = 1 - math.exp(-passed / 1000 / SMOOTHED)
        if seen.at == seen.first:
            weight = 1.0
        now = tuple(old + weight * (by * 1000 / passed - old) for old, by in zip(before, moved, strict=True))
        filled = at if enqueued > seen.enqueued else seen.filled
        self._seen[queue] = _Seen(seen.first, at, enqueued, dequeued, size, filled, (now[0], now[1], now[2]))

    def of(self, queue: str, now: int) -> Rates:
        """The rates as of `now`."""
        seen = self._seen.get(queue)
        if seen is None:
            return NO_RATES
        silent = max(0, now - seen.at)
        rates = seen.rates if silent <= _STEP else _faded(seen.rates, silent - 1000)
        return Rates(*rates, seen_ms=max(0, now - seen.first), quiet_ms=max(0, now - seen.filled))

    def shift(self, by: int) -> None:
        """The broker's clock was set by so many ms, and with it what is remembered."""
        for seen in self._seen.values():
            seen.first, seen.at, seen.filled = seen.first + by, seen.at + by, seen.filled + by

    def drop(self, queue: str) -> None:
        self._seen.pop(queue, None)


def _faded(rates: tuple[float, float, float], ms: int) -> tuple[float, float, float]:
    """The rates after so long without any movement."""
    keep = math.exp(-ms / 1000 / SMOOTHED)
    return (rates[0] * keep, rates[1] * keep, rates[2] * keep)
