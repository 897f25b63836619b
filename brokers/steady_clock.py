"""A time that begins as the time of day and goes on steadily, whatever the machine's clock is set to.

Everything that lasts is reckoned in it (in the engine: time to live, timed stops, staged starts, time-outs; in the
console: since when a broker has not answered, for how long a condition has been there), so that a clock that is set
forward by an hour expires nothing, and one that is set back holds nothing for an hour. Where a time is shown or kept
(events, `since`, records on the disk) the time of day is given: that is so much `ahead`.
"""

from __future__ import annotations

import time
from collections.abc import Callable

#: Smaller differences are no step, ms: both clocks are kept right in the same way.
STEP_MS = 500


def time_of_day() -> int:
    """ms since the epoch."""
    return time.time_ns() // 1_000_000


def uptime() -> int:
    """ms since the machine started, its sleep included where the system counts it."""
    which = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime_ns(which) // 1_000_000


class SteadyClock:
    """`ahead`: how much the time of day is ahead of `now`, ms, as of the last `look`."""

    def __init__(self, time_of_day: Callable[[], int] = time_of_day, steady: Callable[[], int] = uptime) -> None:
        self.time_of_day = time_of_day
        self._steady = steady
        self._base = time_of_day() - steady()
        self.ahead = 0

    def now(self) -> int:
        """ms since the epoch, as if the clock had never been set since the start."""
        return self._base + self._steady()

    def look(self) -> int:
        """Whether the clock has been set since the last look: by so many ms, 0 if not."""
        ahead = self.time_of_day() - self.now()
        step = ahead - self.ahead
        if abs(step) < STEP_MS:
            return 0
        self.ahead = ahead  # not added to: several threads may look at once
        return step

    def shown(self) -> int:
        """How much the time of day is ahead of `now`, ms, as of this moment."""
        self.look()
        return self.ahead
