"""A timer that sleeps until something is due: no intervals while there is nothing to do.

After each turn the service plans with the time at which the engine is due next. The loop's timer runs by another clock
than the engine, and stands still while the machine sleeps: `look`, once a second, notices what is overdue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from brokers.engine.values.message import NEVER


class Alarm:
    """Calls `ring` when it is due. Times are the engine's, ms."""

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring
        self._timer: asyncio.TimerHandle | None = None
        #: When it rings; NEVER: it is off.
        self.at = NEVER

    def plan(self, now: int, due: int) -> None:
        """Ring at `due`, unless that is NEVER or it rings earlier anyway."""
        if due < self.at:
            if self._timer is not None:
                self._timer.cancel()
            self.at = due
            self._timer = asyncio.get_running_loop().call_later(max(0, due - now) / 1000, self._due)

    def look(self, now: int) -> None:
        """Ring now if it is overdue."""
        if self.at <= now:
            self._due()

    def stop(self) -> None:
        """Turn it off."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self.at = None, NEVER

    def _due(self) -> None:
        self.stop()
        self._ring()
