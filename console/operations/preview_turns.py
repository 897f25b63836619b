"""Previews of changes take turns, so that a broker's own work goes first.

A preview of a change for ten thousand queues keeps the broker busy for half a second, in which it moves no message; and
people who type ask for one after the other. At each broker one is made at a time, and then none for four times as long
as it took: previews have a fifth of the broker at most, small ones (milliseconds) never wait to speak of.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from brokers.admin import AdminError

#: Of the time that previews leave to the broker, to the time that they take.
_REST = 4
#: Seconds that somebody waits for a turn, and that one preview can keep the others waiting at most.
_PATIENCE, _LONGEST = 10.0, 5.0


class TooManyPreviews(AdminError):
    """Others are before this one, for longer than anybody would wait."""


class Turns:
    """The turns at one broker."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._one = threading.Lock()
        self._free_at = 0.0

    @contextmanager
    def turn(self) -> Iterator[None]:
        """For a preview's time. Raises TooManyPreviews."""
        until = self._clock() + _PATIENCE
        if not self._one.acquire(timeout=_PATIENCE):
            raise TooManyPreviews("others are looking at what their changes would do: try again in a moment")
        try:
            if self._free_at > until:
                raise TooManyPreviews("others are looking at what their changes would do: try again in a moment")
            self._sleep(max(0.0, self._free_at - self._clock()))
            began = self._clock()
            try:
                yield
            finally:
                took = self._clock() - began
                self._free_at = self._clock() + min(_LONGEST, _REST * took)
        finally:
            self._one.release()


_turns: defaultdict[str, Turns] = defaultdict(Turns)


def in_turn(broker: str) -> Turns:
    """The turns at the broker of that slug."""
    return _turns[broker]
