"""When messages expire: those whose bodies are in memory, by number. Only messages with a TTL cost anything.

An expired message is never dispatched or browsed: the queue removes it before. It is also removed about a second after
its expiry, with or without consumers; one that a consumer has acquired stays until it is returned. For messages in a
backlog, the backlog has the expiry (`backlog.py`).
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from brokers.engine.values.message import NEVER

#: Removed messages that may remain in the heap before it is rebuilt.
_SLACK = 1024


class Deadlines:
    """`at`: number -> expiry of the message, ms. `soonest`: no message that `due` has not returned expires earlier."""

    __slots__ = ("_heap", "at", "soonest")

    def __init__(self) -> None:
        self.at: dict[int, int] = {}
        self._heap: list[tuple[int, int]] = []
        self.soonest = NEVER

    def add(self, number: int, at: int) -> None:
        self.at[number] = at
        if len(self._heap) > 2 * len(self.at) + _SLACK:
            self._heap = [(at, number) for number, at in self.at.items()]
            heapify(self._heap)
        else:
            heappush(self._heap, (at, number))
        self.soonest = self._heap[0][0]

    def forget(self, number: int) -> int:
        """Remove a message that has left the queue or is in a backlog. Return its expiry."""
        return self.at.pop(number, NEVER)

    def shorten(self) -> list[tuple[int, int]]:
        """Have only messages in the heap that are there, after many were removed; return the one before."""
        before, self._heap = self._heap, [(at, number) for number, at in self.at.items()]
        heapify(self._heap)
        self.soonest = self._heap[0][0] if self._heap else NEVER
        return before

    def due(self, now: int) -> list[int]:
        """Return the numbers of messages that have expired since the last call. They stay in `at`."""
        heap, found = self._heap, []
        while heap and heap[0][0] <= now:
            at, number = heappop(heap)
            if self.at.get(number) == at:
                found.append(number)
        self.soonest = heap[0][0] if heap else NEVER
        return found
