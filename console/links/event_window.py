"""A window of a broker's newest events, in order and without gaps. Pure: no I/O and no thread.

A reader requests the events after a number. It gets either all of them, or the events that are left and the number of
the first one, so that a reader always detects missed events.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from brokers.admin import Event


@dataclass(frozen=True, slots=True)
class Tail:
    """Events after a number, consecutive. `expired_before`: if not None, events below that number have expired before
    the reader got them, and `events` starts from it. `last`: if not None, the reader continues after that number:
    events up to it that are not in `events` are not visible to the reader."""

    events: tuple[Event, ...]
    expired_before: int | None = None
    last: int | None = None

    @property
    def position(self) -> int | None:
        """The number to continue after; None: unchanged."""
        return self.last if self.last is not None else self.events[-1].number if self.events else None


class EventWindow:
    """At most `capacity` events. Written by one thread; readers in other threads acquire the link's lock."""

    def __init__(self, capacity: int = 5000) -> None:
        self._events: deque[Event] = deque(maxlen=capacity)
        self.capacity = capacity
        #: Number of the newest event that was ever added; None before the first.
        self.last: int | None = None

    @property
    def first(self) -> int | None:
        return self._events[0].number if self._events else None

    def begin_after(self, number: int) -> None:
        """Clear the window; the next event is `number` + 1."""
        self._events.clear()
        self.last = number

    def add(self, events: Iterable[Event]) -> list[Event]:
        """Add the events that are new, and return these. A gap in the numbers clears the window first."""
        new = []
        for event in events:
            if self.last is not None and event.number <= self.last:
                continue
            if self.last is not None and event.number > self.last + 1:
                self._events.clear()
            self._events.append(event)
            self.last = event.number
            new.append(event)
        return new

    def after(self, number: int) -> Tail:
        """Return the events after `number`. A number above the newest means that the broker restarted its numbers, and
        returns the whole window."""
        if self.last is None:
            return Tail(())
        first = self.first if self.first is not None else self.last + 1
        if number > self.last:
            return Tail(tuple(self._events), first)
        if number + 1 < first:
            return Tail(tuple(self._events), first)
        # From the right end: there are many readers, each a few events behind.
        newest = list(islice(reversed(self._events), self.last - number))
        return Tail(tuple(reversed(newest)))
