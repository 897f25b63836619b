"""The storage of a queue: where the bodies of its messages are, and when a message is safe.

Bodies are in memory (HERE), in the message store (STORE) or in the broker's temp store (TEMP). `TransientStorage` is
for messages that need not survive a restart, `DurableStorage` for durable ones; each queue has one of the two.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from brokers.engine.flow.metering import Meter
from brokers.engine.flow.producer import Producer, Receipt
from brokers.engine.flow.usage import Resource, Usage
from brokers.engine.queues.backlog import Entry
from brokers.engine.queues.lane import PriorityLane
from brokers.engine.queues.purging import Taken
from brokers.engine.values.message import Header, Message
from brokers.engine.values.outcomes import Verdict


class Unsafe:
    """A message that the store has not confirmed, or a transient one behind such a message. `moved`: it is in the store
    as a message of another queue. `transaction`: the number of its transaction; 0: none. `answered`: of a message that
    is part of another queue until it is stored: called with whether it is."""

    __slots__ = ("answered", "body", "late", "moved", "number", "receipt", "stored", "ticket", "transaction")

    count = 1

    def __init__(
        self,
        number: int,
        body: bytes,
        ticket: int,
        receipt: Receipt | None = None,
        *,
        stored: bool,
        moved: bool = False,
        transaction: int = 0,
        answered: Callable[[bool], None] | None = None,
    ) -> None:
        self.number = number
        self.body = body
        self.ticket = ticket
        self.receipt = receipt
        self.stored = stored
        self.moved = moved
        self.late = False  # later messages are visible already
        self.transaction = transaction
        self.answered = answered


class UnsafeRun:
    """A run (`runs.py`) that the store has not confirmed, or a transient one behind such messages. `number`: that of
    its first message; `size`: of all bodies, in bytes; `transaction`: as in `Unsafe`."""

    __slots__ = ("bodies", "number", "receipt", "size", "stored", "ticket", "transaction")

    def __init__(
        self,
        number: int,
        bodies: Sequence[bytes],
        size: int,
        ticket: int,
        receipt: Receipt | None,
        *,
        stored: bool,
        transaction: int = 0,
    ) -> None:
        self.number = number
        self.bodies = bodies
        self.size = size
        self.ticket = ticket
        self.receipt = receipt
        self.stored = stored
        self.transaction = transaction

    @property
    def count(self) -> int:
        return len(self.bodies)


class Storage(Protocol):
    """`unsafe`: messages that are invisible until the store confirms them. `stored`: how many messages are in the
    message store or being written to it."""

    unsafe: deque[Unsafe | UnsafeRun]
    stored: int

    @property
    def spooling(self) -> bool:
        """Whether the bodies of new messages go to the temp store, unless they are durable."""
        ...

    # -- what is used -------------------------------------------------------------------------------------------

    def usages(self, meter: Meter) -> tuple[tuple[Usage, ...], tuple[Usage, ...]]:
        """Return the usages that transient messages affect, and those that durable ones affect in addition."""
        ...

    def resource_of(self, body: bytes) -> Resource:
        """Return the resource that a message would use now."""
        ...

    def resources(self, producer: Producer) -> tuple[Resource, ...]:
        """Return the resources that the producer's next message may use, if it is like the last one."""
        ...

    def weigh(self, meter: Meter) -> None:
        """Count what the stores use now."""
        ...

    def has_room(self, lane: PriorityLane) -> bool:
        """Return whether bodies may be loaded before a consumer has credit for them."""
        ...

    # -- messages -----------------------------------------------------------------------------------------------

    def place(self, header: Header, body: bytes, producer: Producer | None, receipt: Receipt | None) -> Verdict:
        """Add a message with this header."""
        ...

    def spool(self, number: int, body: bytes) -> None:
        """Put the body of a message into the temp store, if the queue's policy says so."""
        ...

    def entry(self, number: int, body: bytes, expires: int) -> Entry:
        """Return the backlog entry of a message that was in memory."""
        ...

    def bodies(self, found: list[Entry]) -> dict[int, bytes] | None:
        """Return bodies by message number; None if a store cannot be read now."""
        ...

    def loaded(self, number: int, place: int) -> None:
        """Record that the body of a message of the backlog is in memory now."""
        ...

    def forget(self, message: Message) -> None:
        """Remove a message that no consumer has acquired."""
        ...

    def forget_entry(self, entry: Entry) -> None:
        """Remove a message whose body may be in a store."""
        ...

    def purge(self, taken: Taken) -> int:
        """Remove messages that no consumer has acquired, and that are in no lane any more. Return the ticket of the
        change that must be safe first; 0: none was stored."""
        ...

    def left(self, messages: list[Message]) -> None:
        """Note that some messages of a purge, whose bodies were in memory, are being freed."""
        ...

    def drop_all(self) -> None:
        """Remove all messages: the queue is deleted."""
        ...

    # -- confirmations of the stores ----------------------------------------------------------------------------

    def spooled(self, ticket: int, *, stored: bool) -> bool:
        """Handle a confirmation of the temp store, up to this ticket. Return False if no body is left to confirm."""
        ...
