"""Messages parked outside a queue, unsettled, in order of arrival and by producer, and their size in bytes.

Those of one producer are found, and each is removed, without a look at the others: thousands of producers may be
unblocked, or lost, at the same time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from brokers.engine.flow.enrolment import Enrolment
from brokers.engine.flow.producer import Producer, Receipt


@dataclass(slots=True, eq=False)
class ParkedMessage:
    """A message that has been parked `since` (ms), until `deadline` (ms) at most. `enrolment`: its part in a
    transaction, None outside one. `number`: higher than those of messages that were parked before it."""

    receipt: Receipt
    body: bytes
    since: int
    deadline: int
    enrolment: Enrolment | None = None
    number: int = 0

    @property
    def producer(self) -> Producer:
        return self.receipt.producer


_Messages = OrderedDict[ParkedMessage, None]


class Parked:
    """`bytes`: the size of their bodies, all of which are in memory."""

    __slots__ = ("_last", "_messages", "_of", "bytes")

    def __init__(self) -> None:
        self._messages: _Messages = OrderedDict()
        self._of: dict[Producer, _Messages] = {}
        self._last = 0
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[ParkedMessage]:
        return iter(self._messages)

    @property
    def first(self) -> ParkedMessage:
        return next(iter(self._messages))

    @property
    def producers(self) -> Collection[Producer]:
        """Those of which a message is parked."""
        return self._of.keys()

    def first_of(self, producer: Producer) -> ParkedMessage | None:
        """Return the oldest message of a producer."""
        return next(iter(self._of.get(producer, ())), None)

    def append(self, message: ParkedMessage) -> None:
        self._last = message.number = self._last + 1
        self._messages[message] = None
        self._of.setdefault(message.producer, OrderedDict())[message] = None
        self.bytes += len(message.body)

    def popleft(self) -> ParkedMessage:
        first = self.first
        self.remove(first)
        return first

    def remove(self, message: ParkedMessage) -> None:
        producer = message.producer
        del self._messages[message]
        own = self._of[producer]
        del own[message]
        if not own:
            del self._of[producer]
        self.bytes -= len(message.body)

    def take(self, wanted: Callable[[ParkedMessage], bool]) -> list[ParkedMessage]:
        """Remove and return the messages for which `wanted` is true; the others stay in order."""
        return self._take([each for each in self._messages if wanted(each)])

    def take_of(self, producer: Producer) -> list[ParkedMessage]:
        """Remove and return the messages of a producer, in order."""
        return self._take(list(self._of.get(producer, ())))

    def _take(self, messages: list[ParkedMessage]) -> list[ParkedMessage]:
        for each in messages:
            self.remove(each)
        return messages
