"""When a broker was started, from how long it says that it has been up. Pure.

An uptime is older than the answer that has it: by the time that the answer took, or by the age of statistics. So the
start that follows from it differs with each answer, and can only look later than it was. Of a cluster the uptime is
that of its oldest node, and falls when that node alone is started again. The cluster was started again if all of its
nodes were, since it was last read: then the oldest has been up for less time than has passed since then.
"""

from __future__ import annotations

#: Age of an uptime at most, ms: nodes report every 5 s, later on a busy machine.
OLDEST = 20_000


class Uptime:
    """`restarts`: how often the broker was found to have been started again."""

    def __init__(self) -> None:
        self.restarts = 0
        self._started: int | None = None
        self._up = 0
        self._read_at = 0

    def clock_set(self, step: int) -> None:
        """The clock was set by `step` ms."""
        self._read_at += step
        self._started = None if self._started is None else self._started + step

    def started(self, up: int, now: int) -> int:
        """Return when the broker was started, ms since the epoch. `up`: what it says, ms. `now`: of the answer."""
        passed = now - self._read_at
        if self._started is None or now - up < self._started:
            self._started = now - up
        elif up < passed and (up < self._up or up + OLDEST < passed):
            self._started = now - up
            self.restarts += 1
        self._up, self._read_at = up, now
        return self._started
