"""Limit the share of a broker's time that impact previews use.

A preview of a change to 10,000 queues takes the broker half a second, in which it transfers no messages, and an editor
requests one after each keystroke. At each broker, one preview runs at a time, followed by a pause of four times its
duration: previews use at most a fifth of the broker's time, and small ones (milliseconds) hardly wait.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from brokers.admin import AdminError

#: Ratio of the pause after a preview to its duration.
_PAUSE_RATIO = 4
#: Longest wait for a turn, and longest pause after one preview, s.
_WAIT_LIMIT, _LONGEST_PAUSE = 10.0, 5.0


class TooManyPreviews(AdminError):
    """Other previews occupy the broker for longer than the limit."""


class Turns:
    """The turns of previews at one broker."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._one = threading.Lock()
        self._free_at = 0.0

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for a turn and take it for the duration of the block. Raises TooManyPreviews."""
        until = self._clock() + _WAIT_LIMIT
        if not self._one.acquire(timeout=_WAIT_LIMIT):
            raise TooManyPreviews("too many previews at this broker: try again in some seconds")
        try:
            if self._free_at > until:
                raise TooManyPreviews("too many previews at this broker: try again in some seconds")
            self._sleep(max(0.0, self._free_at - self._clock()))
            began = self._clock()
            try:
                yield
            finally:
                took = self._clock() - began
                self._free_at = self._clock() + min(_LONGEST_PAUSE, _PAUSE_RATIO * took)
        finally:
            self._one.release()


_turns: defaultdict[str, Turns] = defaultdict(Turns)


def turns_at(broker: str) -> Turns:
    """Return the turns at the broker with this slug."""
    return _turns[broker]
