"""Links on which clients send: messages of many frames put together, and the transactions that they are in."""

from __future__ import annotations

from typing import Any

from brokers.amqp import proton as pn
from brokers.amqp.link import RESOURCE_LIMIT, TRANSFER_LIMIT, UNKNOWN_TRANSACTION, Link
from brokers.amqp.link_context import LinkContext
from brokers.amqp.proton import (
    ACCEPTED,
    REJECTED,
    TRANSACTIONAL,
    delivery_partial,
    delivery_pending,
    delivery_remote_state,
    delivery_settle,
    delivery_settled,
    delivery_update,
    link_credit,
    link_recv,
    unpack,
)
from brokers.engine.flow.usage import Resource, Usage
from brokers.engine.registry.transaction import ROLLED_BACK, State, Transaction
from brokers.engine.values.outcomes import Outcome

#: The largest message that is taken, in bytes; announced to clients, and held against them.
MAX_MESSAGE_SIZE = 128 << 20

#: Deliveries that a client may claim to have sent beyond its credit: more than were ever taken back at once, and few
#: enough to count on from in Proton's 32 bits.
MOST_AHEAD = 1 << 24

NO_MEMORY = "the broker has no memory for the message now"

#: AMQP error condition and text.
WHY_REJECTED = {
    Outcome.REJECTED: (RESOURCE_LIMIT, "queue {queue} is full"),
    Outcome.NOT_STORED: (RESOURCE_LIMIT, "queue {queue} cannot store the message now: see the broker's log"),
    Outcome.ROLLED_BACK: (ROLLED_BACK, "the message's transaction was rolled back"),
}

SCRATCH_SIZE = 1 << 20
SCRATCH = pn.new("char[]", SCRATCH_SIZE)


class IncomingLink(Link):
    """A link on which the client sends: puts messages of many frames together, and finds the transactions of those that
    are in one. `plain`: messages are taken to be in none; so they are on a connection that has no coordinator, once the
    link's first was not, since to ask each one costs a hundredth of the broker's speed."""

    __slots__ = ("parts", "plain", "size")

    max_size = MAX_MESSAGE_SIZE

    def __init__(self, context: LinkContext, pointer: Any) -> None:
        super().__init__(context, pointer)
        self.parts: list[bytes] = []
        self.plain = False
        self.size = 0

    def receive(self, delivery: Any) -> bytes | None:
        """The whole message, once its last frame is here. Larger than `max_size`: the link has ended."""
        length = delivery_pending(delivery)
        if length <= SCRATCH_SIZE:
            taken = link_recv(self.pointer, SCRATCH, length)
            data = unpack(SCRATCH, taken) if taken > 0 else b""
        else:
            buffer = pn.new("char[]", length)
            taken = link_recv(self.pointer, buffer, length)
            data = unpack(buffer, taken) if taken > 0 else b""
        if self.parts or delivery_partial(delivery):
            return self._join(delivery, data)
        return bytes(data)

    def _join(self, delivery: Any, data: bytes) -> bytes | None:
        self.parts.append(data)
        self.size += len(data)
        memory = self.memory
        memory.arriving += len(data)
        if memory.exhausted:
            self.forget_parts()
            self.refuse(delivery, RESOURCE_LIMIT, NO_MEMORY)
            return None
        if self.size > self.max_size:
            self.forget_parts()
            text = f"a message may have {self.max_size:,} bytes at most"
            self.refuse(delivery, "amqp:link:message-size-exceeded", text)
            return None
        if delivery_partial(delivery):
            return None
        whole = b"".join(self.parts)
        self.forget_parts()
        return whole

    @property
    def memory(self) -> Usage:
        """What messages in memory use, of all clients."""
        return self.context.broker.shortages.usages[Resource.MEMORY]

    def let_go(self) -> None:
        self.forget_parts()

    def forget_parts(self) -> None:
        if self.size:
            self.memory.arriving -= self.size
        self.parts.clear()
        self.size = 0

    def on_flow(self) -> None:
        if self.far_ahead:
            self.end(TRANSFER_LIMIT, "the link's delivery count is ahead of all credit that it was given")
        else:
            self.on_count()

    def on_count(self) -> None:
        """The client says how many deliveries it has sent."""

    @property
    def far_ahead(self) -> bool:
        return bool(link_credit(self.pointer) < -MOST_AHEAD)

    def refuse(self, delivery: Any, condition: str, text: str) -> None:
        """Reject a delivery that breaks the protocol, and end the link. It is settled, since a client that sends on
        regardless must not fill our memory with deliveries that are not."""
        self.reject(delivery, condition, text)
        self.end(condition, text)

    def accept(self, delivery: Any) -> None:
        """Accept and settle it, in its transaction if it is in one."""
        if self.plain or delivery_remote_state(delivery) != TRANSACTIONAL:
            delivery_update(delivery, ACCEPTED)
        else:
            pn.delivery_update_in(delivery, self._accepted_in(pn.transactional_state(delivery)[0]))
        delivery_settle(delivery)

    def _accepted_in(self, identity: bytes) -> Any:
        transaction = self._transactions.get(identity)
        if transaction is None:  # it is over
            return pn.accepted_in(identity)
        if transaction.accepted is None:
            transaction.accepted = pn.accepted_in(identity)
        return transaction.accepted

    def reject(self, delivery: Any, condition: str, text: str) -> None:
        """Reject and settle it, in its transaction if it is in one that is open."""
        identity = b""
        if not self.plain and delivery_remote_state(delivery) == TRANSACTIONAL:
            identity = pn.transactional_state(delivery)[0]
        if identity in self._transactions:
            pn.delivery_update_in(delivery, pn.rejected_in(identity, condition, text))
        else:
            pn.delivery_error(delivery, condition, text)
            delivery_update(delivery, REJECTED)
        delivery_settle(delivery)

    @property
    def _transactions(self) -> dict[bytes, Transaction]:
        engine = self.context.engine
        return {} if engine is None else engine.transactions

    def watch_transactions(self) -> None:
        self.plain = False

    def in_transaction(self, delivery: Any) -> bool:
        """Whether a whole message is in one; asked of every message unless the link is plain."""
        if delivery_remote_state(delivery) == TRANSACTIONAL:
            return True
        self.plain = not self.context.transacted
        return False

    def transaction_of(self, delivery: Any) -> Transaction | None:
        """The open transaction of a message that is in one. None: there is none, and the message has been rejected,
        or the link ended if its client would not have heard of that."""
        transaction = self._transactions.get(pn.transactional_state(delivery)[0])
        if transaction is not None and transaction.state is State.OPEN:
            return transaction
        if transaction is not None and transaction.fault is not None:
            self.reject(delivery, *transaction.fault)
        elif delivery_settled(delivery):
            self.refuse(delivery, UNKNOWN_TRANSACTION, "a message is in a transaction that is not open")
        else:
            self.reject(delivery, UNKNOWN_TRANSACTION, "the message is in a transaction that is not open")
        return None
