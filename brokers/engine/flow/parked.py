"""Messages parked outside a queue, unsettled, in order of arrival, and their size in bytes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from brokers.engine.flow.enrolment import Enrolment
from brokers.engine.flow.producer import Producer, Receipt


@dataclass(slots=True, eq=False)
class ParkedMessage:
    """A message that has been parked `since` (ms), until `deadline` (ms) at most. `enrolment`: its part in a
    transaction, None outside one."""

    receipt: Receipt
    body: bytes
    since: int
    deadline: int
    enrolment: Enrolment | None = None

    @property
    def producer(self) -> Producer:
        return self.receipt.producer


class Parked:
    """`bytes`: the size of their bodies, all of which are in memory."""

    __slots__ = ("_messages", "bytes")

    def __init__(self) -> None:
        self._messages: deque[ParkedMessage] = deque()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[ParkedMessage]:
        return iter(self._messages)

    @property
    def first(self) -> ParkedMessage:
        return self._messages[0]

    def append(self, message: ParkedMessage) -> None:
        self._messages.append(message)
        self.bytes += len(message.body)

    def popleft(self) -> ParkedMessage:
        first = self._messages.popleft()
        self.bytes -= len(first.body)
        return first

    def remove(self, message: ParkedMessage) -> None:
        self._messages.remove(message)
        self.bytes -= len(message.body)

    def take(self, wanted: Callable[[ParkedMessage], bool]) -> list[ParkedMessage]:
        """Remove and return the messages for which `wanted` is true; the others stay in order."""
        taken = [each for each in self._messages if wanted(each)]
        if taken:
            self._messages = deque(each for each in self._messages if not wanted(each))
            self.bytes -= sum(len(each.body) for each in taken)
        return taken
