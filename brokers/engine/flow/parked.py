"""Messages parked outside a queue, unsettled, in the order in which they came, and the bytes that they take."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from brokers.engine.flow.overflow import Waiting


class Parked:
    """`bytes`: of their bodies, all of which are in memory."""

    __slots__ = ("_messages", "bytes")

    def __init__(self) -> None:
        self._messages: deque[Waiting] = deque()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[Waiting]:
        return iter(self._messages)

    @property
    def first(self) -> Waiting:
        return self._messages[0]

    def append(self, waiting: Waiting) -> None:
        self._messages.append(waiting)
        self.bytes += len(waiting.body)

    def popleft(self) -> Waiting:
        first = self._messages.popleft()
        self.bytes -= len(first.body)
        return first

    def remove(self, waiting: Waiting) -> None:
        self._messages.remove(waiting)
        self.bytes -= len(waiting.body)

    def take(self, wanted: Callable[[Waiting], bool]) -> list[Waiting]:
        """Take out those that are wanted; the others keep their order."""
        taken = [each for each in self._messages if wanted(each)]
        if taken:
            self._messages = deque(each for each in self._messages if not wanted(each))
            self.bytes -= sum(len(each.body) for each in taken)
        return taken
