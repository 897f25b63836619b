"""When messages expire: those whose bodies are in memory, by number. Only messages with a TTL cost anything.

An expired message is never dispatched or browsed: the queue looks here first. It goes away by time, too, within a
second or so, consumers or not; one that a consumer holds is the consumer's until it comes back. In a backlog the expiry
waits with the message (`backlog.py`).
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from brokers.engine.values.message import NEVER

#: So many messages that have gone may be in the heap before it is made anew.
_SLACK = 1024


class Deadlines:
    """`at`: number -> when the message expires, ms. `soonest`: none of those expires before that have not been told as
    due."""

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
        """The message has gone, or waits in a backlog. When it would have expired."""
        return self.at.pop(number, NEVER)

    def due(self, now: int) -> list[int]:
        """The numbers of messages that have expired since the last call. They are still in `at`."""
        heap, found = self._heap, []
        while heap and heap[0][0] <= now:
            at, number = heappop(heap)
            if self.at.get(number) == at:
                found.append(number)
        self.soonest = heap[0][0] if heap else NEVER
        return found
