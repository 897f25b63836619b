"""How many deliveries a worker attempts at once, so that receivers that hang hold up neither others nor other tasks.

One at a time to a receiver; `AT_ONCE` in all, of which `FAILING` to receivers whose last attempt failed. What finds no
lane stays due. Whenever a lane becomes free, the receiver with due deliveries that was attempted longest ago is next:
one that works before those that fail.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager

#: The worker has more threads: `console/management/commands/worker.py`.
AT_ONCE, FAILING = 4, 2


class Lanes:
    """Of one process; its receivers by number, None for all that are gone. Its methods can be called in any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._busy: set[int | None] = set()
        self._failing: set[int | None] = set()
        self._last: dict[int | None, int] = {}  # receiver -> number of its last attempt
        self._attempts = 0

    @contextmanager
    def lane(self, receiver: int | None) -> Iterator[bool]:
        """Occupy a lane; False: none is free for this receiver."""
        with self._lock:
            free = self._is_free(receiver)
            if free:
                self._busy.add(receiver)
                self._attempts += 1
                self._last[receiver] = self._attempts
        try:
            yield free
        finally:
            if free:
                with self._lock:
                    self._busy.discard(receiver)

    def attempted(self, receiver: int | None, *, failed: bool) -> None:
        """Remember the outcome of an attempt."""
        with self._lock:
            (self._failing.add if failed else self._failing.discard)(receiver)

    def next_of(self, receivers: Collection[int | None]) -> list[int | None]:
        """Return the receiver to attempt next; none if there is no free lane for any of them."""
        with self._lock:
            free = [each for each in receivers if self._is_free(each)]
            return sorted(free, key=lambda each: (each in self._failing, self._last.get(each, 0)))[:1]

    def _is_free(self, receiver: int | None) -> bool:
        if receiver in self._busy or len(self._busy) >= AT_ONCE:
            return False
        return receiver not in self._failing or len(self._busy & self._failing) < FAILING
