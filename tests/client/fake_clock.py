"""A clock that stands still until a test advances it. Only time is simulated: notifications wake a waiter as usual."""

from __future__ import annotations

import threading

from tests.amqp.broker_thread import WITHIN, wait_until


class FakeClock:
    def __init__(self) -> None:
        self._now = 1000.0
        self._lock = threading.Lock()
        self._waiting: list[tuple[threading.Condition, float | None]] = []

    def now(self) -> float:
        with self._lock:
            return self._now

    def wait(self, condition: threading.Condition, seconds: float | None) -> None:
        with self._lock:
            waiter = (condition, None if seconds is None else self._now + seconds)
            self._waiting.append(waiter)
        try:
            assert condition.wait(WITHIN), f"nothing happened within {WITHIN:g} s, and the clock did not advance"
        finally:
            with self._lock:
                self._waiting.remove(waiter)

    @property
    def waiters(self) -> int:
        with self._lock:
            return len(self._waiting)

    def advance(self, seconds: float, waiters: int = 1) -> None:
        """Wait until `threads` threads wait, advance the clock, and return when those whose deadline has passed are
        awake."""
        wait_until(lambda: self.waiters >= waiters, f"{waiters} threads wait")
        with self._lock:
            self._now += seconds
            due = [w for w in self._waiting if w[1] is not None and w[1] <= self._now]
        for condition, _ in due:
            with condition:
                condition.notify_all()
        wait_until(lambda: not any(w is d for d in due for w in list(self._waiting)), "they are awake")
