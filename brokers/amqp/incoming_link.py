"""Links on which clients send: assembly of messages of many frames, and their transactions."""

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
from brokers.amqp.runs import Lane, Producing, address
from brokers.engine.flow.usage import Resource, Usage
from brokers.engine.registry.transaction import ROLLED_BACK, State, Transaction
from brokers.engine.values.outcomes import Outcome

#: Maximum message size in bytes, announced to clients and enforced.
MAX_MESSAGE_SIZE = 128 << 20

#: Maximum number by which a client's delivery count may exceed its credit: more than is ever withdrawn at once, and
#: small enough for Proton's 32 bits.
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
    """A link on which the client sends: assembles messages of many frames, and finds their transactions. `plain`: the
    state of messages is not read, since they are in no transaction: so on a connection without a coordinator, after the
    link's first message, since reading each state costs a hundredth of the throughput. `lane`: collects runs, from the
    link's first message on."""

    __slots__ = ("lane", "parts", "plain", "size")

    max_size = MAX_MESSAGE_SIZE

    def __init__(self, context: LinkContext, pointer: Any) -> None:
        super().__init__(context, pointer)
        self.parts: list[bytes] = []
        self.plain = False
        self.size = 0
        self.lane: Lane | None = None

    def receive(self, delivery: Any) -> bytes | None:
        """Return the whole message once its last frame has arrived. A message larger than `max_size` ends the link."""
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
        """The memory used by messages of all clients."""
        return self.context.broker.shortages.usages[Resource.MEMORY]

    def begin_lane(self, owner: Producing, order: object) -> None:
        """Collect runs from now on, if there is the extension."""
        runs = self.context.runs
        if runs is not None and self.lane is None:
            self.lane = runs.Lane(address(self.pointer), owner, order, True)

    def _end_lane(self) -> None:
        if self.lane is not None:
            self.lane.end()
            self.lane = None

    def release(self) -> None:
        self.forget_parts()
        self._end_lane()

    def forget_parts(self) -> None:
        if self.size:
            self.memory.arriving -= self.size
        self.parts.clear()
        self.size = 0

    def on_flow(self) -> None:
        if self.far_ahead:
            self.end(TRANSFER_LIMIT, "the link's delivery count exceeds all credit that it got")
        else:
            self.on_count()

    def on_count(self) -> None:
        """The client has sent its delivery count."""

    @property
    def far_ahead(self) -> bool:
        return bool(link_credit(self.pointer) < -MOST_AHEAD)

    def refuse(self, delivery: Any, condition: str, text: str) -> None:
        """Reject a delivery that violates the protocol, and end the link. The delivery is settled: a client that
        continues to send must not fill the memory with unsettled deliveries."""
        self.reject(delivery, condition, text)
        self.end(condition, text)

    def accept(self, delivery: Any) -> None:
        """Accept and settle a delivery, in its transaction if it has one."""
        if self.plain or delivery_remote_state(delivery) != TRANSACTIONAL:
            delivery_update(delivery, ACCEPTED)
        else:
            identity = pn.transactional_state(delivery)[0]
            transaction = self._transactions.get(identity)
            # None: it has ended
            state = pn.accepted_in(identity) if transaction is None else self.accepted_in(transaction)
            pn.delivery_update_in(delivery, state)
        delivery_settle(delivery)

    def accepted_in(self, transaction: Transaction) -> Any:
        """Return the state of deliveries that are accepted in this transaction."""
        if transaction.accepted is None:
            transaction.accepted = pn.accepted_in(transaction.id)
        return transaction.accepted

    def reject(self, delivery: Any, condition: str, text: str) -> None:
        """Reject and settle a delivery, in its transaction if that is open."""
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
        """Return whether a complete message is in a transaction; called for every message unless the link is plain."""
        if delivery_remote_state(delivery) == TRANSACTIONAL:
            return True
        self.plain = not self.context.transacted
        return False

    def transaction_of(self, delivery: Any) -> Transaction | None:
        """Return the open transaction of a message. None: there is none, and the message was rejected, or the link
        ended if the message was sent settled."""
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
