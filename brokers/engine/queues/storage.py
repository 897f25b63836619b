"""What a queue asks of its storage: where the bodies of its messages are, and when a message is safe.

Bodies are in memory (HERE), in the message store (STORE) or in the broker's temp store (TEMP). `TransientStorage` keeps
messages that need not survive a restart, `DurableStorage` those that must; each queue has one of the two.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from brokers.engine.flow.metering import Meter
from brokers.engine.flow.producer import Producer, Receipt
from brokers.engine.flow.usage import Resource, Usage
from brokers.engine.queues.backlog import Entry
from brokers.engine.queues.lane import PriorityLane
from brokers.engine.values.message import Header, Message
from brokers.engine.values.outcomes import Verdict


class Unsafe:
    """A message that is not in the store yet, or not to be stored but behind one that is not. `moved`: it is in the
    store, as another queue's. `transaction`: the number of the one that it is stored or lost with; 0: it is in none."""

    __slots__ = ("body", "late", "moved", "number", "receipt", "stored", "ticket", "transaction")

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
    ) -> None:
        self.number = number
        self.body = body
        self.ticket = ticket
        self.receipt = receipt
        self.stored = stored
        self.moved = moved
        self.late = False  # others that came later are seen already
        self.transaction = transaction


class Storage(Protocol):
    """`unsafe`: messages that consumers cannot have before the store has answered. `stored`: how many of its messages
    are in the message store, or on their way there."""

    unsafe: deque[Unsafe]
    stored: int

    @property
    def spooling(self) -> bool:
        """What comes now goes to the temp store, unless it is for the message store."""
        ...

    # -- what is used -------------------------------------------------------------------------------------------

    def usages(self, meter: Meter) -> tuple[tuple[Usage, ...], tuple[Usage, ...]]:
        """What its messages may use that are not stored, and what those use that are."""
        ...

    def resource_of(self, body: bytes) -> Resource:
        """What a message would use now."""
        ...

    def resources(self, producer: Producer) -> tuple[Resource, ...]:
        """What the producer's next message may use, if that is like its last."""
        ...

    def weigh(self, meter: Meter) -> None:
        """Count what the stores take now."""
        ...

    def has_room(self, lane: PriorityLane) -> bool:
        """Whether bodies may be in memory before a consumer wants them."""
        ...

    # -- messages -----------------------------------------------------------------------------------------------

    def place(self, header: Header, body: bytes, producer: Producer | None, receipt: Receipt | None) -> Verdict:
        """Take in a message, by what its header asks for."""
        ...

    def spool(self, number: int, body: bytes) -> None:
        """Put the body of a message to the temp store, if the policy of the queue says so."""
        ...

    def entry(self, number: int, body: bytes, expires: int) -> Entry:
        """A message that was in memory, for the backlog."""
        ...

    def bodies(self, found: list[Entry]) -> dict[int, bytes] | None:
        """By number; None if a store cannot be read now."""
        ...

    def loaded(self, number: int, place: int) -> None:
        """The body of a message of the backlog is in memory from now on."""
        ...

    def forget(self, message: Message) -> None:
        """A message goes that no consumer had."""
        ...

    def forget_entry(self, entry: Entry) -> None:
        """The same of a message whose body may be elsewhere."""
        ...

    def drop_all(self) -> None:
        """The queue has been deleted: its messages go with it."""
        ...

    # -- what the stores answer ---------------------------------------------------------------------------------

    def spooled(self, ticket: int, *, stored: bool) -> bool:
        """What became of bodies on their way to the temp store. False: nothing is left to wait for."""
        ...
