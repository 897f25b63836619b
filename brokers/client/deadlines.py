"""The deadlines of a waiting send: its timeout, and its periodic log lines. No clock of its own: time is a
parameter."""

from __future__ import annotations

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """Time in seconds, and waiting for it."""

    def now(self) -> float:
        """Return the time of a monotonic clock."""

    def wait(self, condition: threading.Condition, seconds: float | None) -> None:
        """Wait until `condition`, whose lock the caller owns, is notified, or `timeout` has passed; None: no limit."""


class SystemClock:
    def now(self) -> float:
        return time.monotonic()

    def wait(self, condition: threading.Condition, seconds: float | None) -> None:
        condition.wait(seconds)


class Deadline:
    """From `began` on. `timeout` and `notify_period` in seconds, above 0; None: never. ValueError names a wrong one."""

    def __init__(self, began: float, timeout: float | None, notify_period: float | None) -> None:
        check("send_timeout", timeout)
        check("notify_period", notify_period)
        self.began = began
        self._end = None if timeout is None else began + timeout
        self._period = notify_period
        self._next_notice = None if notify_period is None else began + notify_period

    def waited(self, now: float) -> float:
        return now - self.began

    def over(self, now: float) -> bool:
        return self._end is not None and now >= self._end

    def notice(self, now: float) -> bool:
        """Return whether a log line is due; true once per period."""
        if self._period is None or self._next_notice is None or now < self._next_notice:
            return False
        while self._next_notice <= now:  # one notice after a clock step, not one per period
            self._next_notice += self._period
        return True

    def next(self, now: float) -> float | None:
        """Seconds until `over` or `notice` may change."""
        ends = [at for at in (self._end, self._next_notice) if at is not None]
        return max(0.0, min(ends) - now) if ends else None


def check(name: str, seconds: float | None) -> None:
    if seconds is not None and not seconds > 0:
        raise ValueError(f"{name} must be above 0 seconds, or None, and is {seconds!r}")
