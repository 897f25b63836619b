"""The time that a log covers: where its lines were understood. Pure.

A line that should be an event and could not be read may be the beginning or the end of an episode. So the time from
the line understood before it to the line understood after it is not covered.
"""

from __future__ import annotations


class Understood:
    """Collects spans of understood lines, in the order of the file."""

    def __init__(self, start: int | None = None, last: int | None = None, *, broken: bool = True) -> None:
        self._start, self._last = start, last
        self.broken = broken  # the next understood line begins a new span
        self._spans: list[tuple[int, int]] = []

    @property
    def state(self) -> list[int | None]:
        return [self._start, self._last, int(self.broken)]

    def line(self, at: int) -> None:
        """Add the time of an understood line, ms."""
        if self.broken:
            self._finish()
            self._start = self._last = at
            self.broken = False
        elif self._start is not None and self._last is not None:
            self._start, self._last = min(self._start, at), max(self._last, at)

    def unread(self) -> None:
        """A line that should have been an event follows the last one."""
        self.broken = True

    def take(self) -> list[tuple[int, int]]:
        """Return the spans since the last call, as (first ms, last ms). The present one continues from its end."""
        spans, self._spans = self._spans, []
        if self._start is not None and self._last is not None:
            spans.append((self._start, self._last))
            self._start = self._last
        return [(first, last) for first, last in spans if last > first]

    def _finish(self) -> None:
        if self._start is not None and self._last is not None:
            self._spans.append((self._start, self._last))
        self._start = self._last = None
