"""A clock that starts with the time of day and advances steadily, unaffected by changes of the machine's clock.

Durations are measured with it (in the engine: time to live, timed stops, staged starts, time-outs; in the console:
since when a broker has not answered, the duration of a condition), so that a clock that is set forward by an hour
expires nothing, and one that is set back delays nothing. Times that are shown or stored (events, `since`, records on
the disk) are times of day: the steady time plus `ahead`. That sum is never later than the time of day itself: clocks
are read in ns and rounded down once, since their milliseconds do not begin at the same moment. So what was observed
before a moment has no later time than that moment, in any process of the machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable

#: Smaller differences are not a step, ms: both clocks are disciplined in the same way.
STEP_MS = 500


_NS = 1_000_000  # in 1 ms


def time_of_day() -> int:
    """ms since the epoch."""
    return time.time_ns() // _NS


def uptime() -> int:
    """ms since the machine started, its sleep included where the system counts it."""
    return _uptime_ns() // _NS


def _uptime_ns() -> int:
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class SteadyClock:
    """`ahead`: how much the time of day is ahead of `now`, ms, at the last `look`. Both clocks it reads are in ns."""

    def __init__(
        self, time_of_day_ns: Callable[[], int] = time.time_ns, steady_ns: Callable[[], int] = _uptime_ns
    ) -> None:
        self.time_of_day_ns = time_of_day_ns
        self._steady_ns = steady_ns
        self._base_ns = time_of_day_ns() - steady_ns()
        self.ahead = 0

    def now(self) -> int:
        """ms since the epoch, as if the clock had never been set since the start."""
        return (self._base_ns + self._steady_ns()) // _NS

    def look(self) -> int:
        """Return by how many ms the clock has been set since the last look; 0 if it has not."""
        ahead = (self.time_of_day_ns() - self._base_ns - self._steady_ns()) // _NS
        step = ahead - self.ahead
        if abs(step) < STEP_MS:
            return 0
        self.ahead = ahead  # assigned, not added: several threads may look at once
        return step

    def shown(self) -> int:
        """Return how much the time of day is ahead of `now` at this moment, ms."""
        self.look()
        return self.ahead
