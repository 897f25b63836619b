"""The newest events of a broker, in order and without a hole between them. Pure: no I/O, no thread of its own.

A reader asks for what came after the number it has. The answer is either all of it, or the number of the first event
that is still here, so that a reader always knows whether it missed something.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from brokers.admin import Event


@dataclass(frozen=True, slots=True)
class Tail:
    """`events` ascend by one. `expired_before`: if not None, events below that number are not here any more and the
    reader has not had them; `events` starts from it. `last`: if not None, every event up to that number was looked at
    and the reader goes on from there, since some are not for them."""

    events: tuple[Event, ...]
    expired_before: int | None = None
    last: int | None = None

    @property
    def position(self) -> int | None:
        """The number to go on after; None: the one that was asked for."""
        return self.last if self.last is not None else self.events[-1].number if self.events else None


class EventWindow:
    """At most `keep` events. Written by one thread; a reader of another thread holds the link's lock."""

    def __init__(self, keep: int = 5000) -> None:
        self._events: deque[Event] = deque(maxlen=keep)
        self.keep = keep
        #: Number of the newest event that was ever here; None before the first.
        self.last: int | None = None

    @property
    def first(self) -> int | None:
        return self._events[0].number if self._events else None

    def begin_after(self, number: int) -> None:
        """Forget everything; the next event is `number` + 1."""
        self._events.clear()
        self.last = number

    def add(self, events: Iterable[Event]) -> list[Event]:
        """Take the events that are new; a hole in the numbers empties the window first. Returns the new ones."""
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
        """What came after event `number`. A number that was never reached means that the broker counts anew."""
        if self.last is None:
            return Tail(())
        first = self.first if self.first is not None else self.last + 1
        if number > self.last:
            return Tail(tuple(self._events), first)
        if number + 1 < first:
            return Tail(tuple(self._events), first)
        # From the right end: readers are a few events behind, and many.
        newest = list(islice(reversed(self._events), self.last - number))
        return Tail(tuple(reversed(newest)))
