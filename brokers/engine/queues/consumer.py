"""A receiving link of a client on a queue."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from brokers.engine.flow.gate import FlowGate
from brokers.engine.ports import ConsumerConnection, ConsumerPort
from brokers.engine.values.message import Message, number_of, rank_of
from brokers.model import ObjectName, object_name

#: Messages that each of several consumers gets at a time.
BATCH = 16


class Source(Protocol):
    """What a consumer receives from: the queue, as a client's link and a transaction use it."""

    @property
    def name(self) -> str: ...

    @property
    def object_name(self) -> ObjectName: ...

    @property
    def gate(self) -> FlowGate: ...

    @property
    def failed_deliveries(self) -> Mapping[int, int]:
        """Message number -> failed deliveries, if not 0."""
        ...

    @property
    def expiries(self) -> Mapping[int, int]:
        """Message number -> expiry in ms, for messages that expire."""
        ...

    def touch(self) -> None: ...

    def remove(self, consumer: Consumer, message: Message) -> int: ...

    def acknowledge_run(self, consumer: Consumer, messages: list[Message]) -> None: ...

    def reject(self, consumer: Consumer, message: Message, words: str = "") -> int: ...

    def put_back(self, consumer: Consumer, message: Message, *, failed: bool = False, barred: bool = False) -> None: ...

    def confirm(self, consumer: Consumer, ticket: int) -> None: ...

    def is_durable(self, body: bytes) -> bool: ...

    def buffer_removal(self, message: Message) -> None: ...

    def retire(self, consumer: Consumer, message: Message) -> None: ...

    def detach_consumer(self, consumer: Consumer) -> None: ...


class Consumer:
    """`credit`: messages that may be sent to it now. A browser gets copies and removes nothing. `selects`: whether an
    encoded message matches; None: all do. `positions`: rank of a priority -> the number of the last message that was
    sent to a browser or examined for the selector; `to_revisit`: earlier messages to examine again. `oldest`: the
    sequence number of its oldest unsettled message, if the protocol layer knows it. `acquired`: the messages that it
    has, in any order. `handle` belongs to the protocol layer."""

    __slots__ = (
        "acquired",
        "browsing",
        "connection",
        "credit",
        "handle",
        "id",
        "link",
        "messages",
        "name",
        "oldest",
        "positions",
        "queue",
        "selects",
        "to_revisit",
        "unacknowledged",
    )

    def __init__(
        self,
        number: int,
        connection: ConsumerConnection,
        queue: Source,
        link: str,
        *,
        browsing: bool,
        handle: ConsumerPort,
        selects: Callable[[bytes], bool] | None = None,
    ) -> None:
        self.id = number
        self.connection = connection
        self.queue = queue
        self.link = link
        self.browsing = browsing
        self.handle = handle
        self.credit = 0
        self.messages = 0
        self.unacknowledged = 0
        self.selects = selects
        self.positions: dict[int, int] = {}
        self.to_revisit: list[int] = []
        self.acquired: Callable[[], Iterable[Message]] = lambda: ()
        self.oldest: Callable[[], int | None] = lambda: None
        self.name: ObjectName = object_name("Consumer", virtualhost=connection.virtualhost, id=number)

    def position(self, rank: int) -> int:
        """Return the number up to which messages of this rank have been examined."""
        return self.positions.get(rank, number_of(0, 4 - rank))

    def revisit_all(self) -> None:
        """Examine all messages again: some that it skipped may be for it now."""
        self.positions.clear()
        self.to_revisit.clear()

    def revisit(self, number: int) -> None:
        """Examine a message that was returned to the queue, or whose delivery time has come, if it was skipped."""
        if number <= self.position(rank_of(number)):
            at = bisect_left(self.to_revisit, number)
            if self.to_revisit[at : at + 1] != [number]:
                self.to_revisit.insert(at, number)


#: Messages that consumers have got, in order.
Batches = list[tuple[Consumer, list[Message]]]
