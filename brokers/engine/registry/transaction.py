"""A client's transaction: its messages and acknowledgements take effect together or not at all (AMQP 1.0, part 4).

A message published in a transaction uses its credit and counts in its queue's depth on arrival (`flow/gate.py`), so
concurrent transactions overshoot no more than other messages. A parked message has no outcome yet, and a commit waits
for it. A rejected message is not part of the transaction; its client gets the outcome and may commit all the same. If
the client sent it settled, it gets no outcome: then the transaction fails. An acknowledged message stays with its
consumer until the transaction ends.

A transaction is written to the store as a whole, and is invisible until the store has answered.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any, Protocol

from brokers.engine.flow.producer import Producer
from brokers.engine.flow.turn import Turn
from brokers.engine.ports import ProducerConnection, TransactionPort
from brokers.engine.queues.consumer import Consumer
from brokers.engine.queues.queue import Message, Queue
from brokers.engine.registry.published import Published
from brokers.engine.values.outcomes import Verdict

#: The error condition of a transaction that is rolled back.
ROLLED_BACK = "amqp:transaction:rollback"


class State(Enum):
    OPEN = "open"
    COMMITTING = "its client has requested the commit"
    WRITING = "the store has it and has not answered"
    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"


class Place(Protocol):
    """Where a message of a transaction may wait."""

    def abandon(self, transaction: Transaction) -> None:
        """Drop the messages of a transaction that is rolled back."""
        ...


class TransactionOwner(Protocol):
    """What commits and rolls back transactions: see `services/transactions.py`."""

    @property
    def turn(self) -> Turn: ...

    def proceed(self, transaction: Transaction) -> None:
        """Commit a transaction without parked messages."""
        ...

    def fail(self, transaction: Transaction, condition: str, description: str) -> None:
        """Roll a transaction back on the broker's decision."""
        ...


class TransactionConnection(ProducerConnection, Protocol):
    """The connection that declared a transaction. `transactions`: the open ones, by the id that the client uses."""

    transactions: dict[bytes, Transaction]


class Acknowledgement:
    """What happens to an acquired message at the commit. `removes`: it is removed; `rejected`: see `Queue.reject`; else
    it is returned, see `Queue.put_back`. `settled`: the client has settled it, so a rollback returns it to the queue.
    `returned`: a rollback has left it with its consumer. `delivery` belongs to the protocol layer."""

    __slots__ = ("barred", "consumer", "delivery", "failed", "message", "rejected", "removes", "returned", "settled")

    def __init__(
        self,
        consumer: Consumer,
        message: Message,
        *,
        removes: bool,
        failed: bool,
        barred: bool,
        settled: bool,
        rejected: bool = False,
    ) -> None:
        self.consumer = consumer
        self.message = message
        self.removes = removes
        self.rejected = rejected
        self.failed = failed
        self.barred = barred
        self.settled = settled
        self.returned = False
        self.delivery: Any = None

    def put_back(self, *, failed: bool, barred: bool = False) -> None:
        self.consumer.queue.put_back(self.consumer, self.message, failed=failed, barred=barred)


class Enrolment:
    """A message's part in a transaction. `unsettled`: its client gets the outcome."""

    __slots__ = ("transaction", "unsettled")

    def __init__(self, transaction: Transaction, *, unsettled: bool) -> None:
        self.transaction = transaction
        self.unsettled = unsettled

    @property
    def over(self) -> bool:
        return self.transaction.state not in (State.OPEN, State.COMMITTING)

    def refused(self, place: Place | None = None) -> None:
        """Record that the message was rejected; `place`: where it waited."""
        if not self.unsettled:
            self.lost()
        elif place is not None:
            self.transaction.wait_ended(place)

    def lost(self) -> None:
        """Fail the transaction: the message is lost, and its client cannot know."""
        self.transaction.fail(ROLLED_BACK, "a message of the transaction, which was sent settled, was rejected")


class Transaction:
    """`id`: the id that its client uses. `began`, `active_at`, `committing_since`: ms since the epoch. `waiting`: place
    -> number of messages that wait there. `fault`: AMQP error condition and text, if the broker has rolled it back.
    `handle`, `accepted` belong to the protocol layer."""

    __slots__ = (
        "accepted",
        "acknowledged",
        "active_at",
        "began",
        "committing_since",
        "connection",
        "fault",
        "handle",
        "id",
        "number",
        "owner",
        "presettled_enrolment",
        "published",
        "state",
        "unsettled_enrolment",
        "waiting",
    )

    def __init__(
        self,
        owner: TransactionOwner,
        number: int,
        connection: TransactionConnection,
        handle: TransactionPort[Transaction],
        now: int,
    ) -> None:
        self.owner = owner
        self.number = number
        self.id = number.to_bytes(8, "big")
        self.connection = connection
        self.handle = handle
        self.accepted: Any = None
        self.began = self.active_at = now
        self.state = State.OPEN
        self.committing_since: int | None = None
        self.fault: tuple[str, str] | None = None
        self.unsettled_enrolment = Enrolment(self, unsettled=True)
        self.presettled_enrolment = Enrolment(self, unsettled=False)
        self.published: list[Published] = []
        self.acknowledged: list[Acknowledgement] = []
        self.waiting: dict[Place, int] = {}

    @property
    def idle(self) -> bool:
        """Whether it is open and has messages, which others may wait for."""
        return self.state is State.OPEN and bool(self.published or self.acknowledged or self.waiting)

    @property
    def uses_resources(self) -> bool:
        """Whether its commit may end a shortage: it has messages, which others can consume then, or removes some."""
        return bool(self.published) or any(each.removes for each in self.acknowledged)

    @property
    def published_messages(self) -> int:
        """How many messages it has published, without parked ones."""
        return sum(len(each.bodies) for each in self.published)

    def enrolment(self, *, unsettled: bool) -> Enrolment:
        """Return the enrolment of a message that is published now. `unsettled`: its client gets the outcome."""
        self.active_at = self.owner.turn.now
        return self.unsettled_enrolment if unsettled else self.presettled_enrolment

    def publish(self, producer: Producer, body: bytes, *, unsettled: bool) -> Verdict:
        """Publish a message to the producer's queue."""
        enrolment = self.enrolment(unsettled=unsettled)
        verdict = producer.queue.publish_in(enrolment, producer, body)
        if not verdict:
            enrolment.refused()
        return verdict

    def publish_run(self, producer: Producer, bodies: Sequence[bytes], size: int, *, durable: bool) -> None:
        """Publish a run within its allowance to the producer's queue, as `Queue.publish_run`: all of it is accepted.
        For an open transaction."""
        self.active_at = self.owner.turn.now
        producer.queue.enrol_run(self, producer, bodies, size, durable=durable)

    def acknowledge(self, acknowledgement: Acknowledgement) -> None:
        self.active_at = self.owner.turn.now
        self.acknowledged.append(acknowledgement)

    def acknowledge_run(self, consumer: Consumer, messages: Sequence[Message]) -> None:
        """Remove messages that the client has accepted and settled, at the commit."""
        self.active_at = self.owner.turn.now
        self.acknowledged += [
            Acknowledgement(consumer, message, removes=True, failed=False, barred=False, settled=True)
            for message in messages
        ]

    def wait(self, place: Place) -> None:
        self.waiting[place] = self.waiting.get(place, 0) + 1

    def add_published(self, queue: Queue, body: bytes) -> None:
        """Record one of its messages, which counts in the queue until the commit or rollback."""
        self.published.append(Published(queue, (body,), len(body)))

    def add_published_run(self, queue: Queue, bodies: Sequence[bytes], size: int, *, durable: bool) -> None:
        """As `add_published`, with all messages of a run."""
        self.published.append(Published(queue, bodies, size, run=True, durable=durable))

    def takes_from(self, place: object) -> bool:
        """Return whether its commit removes messages from the queue of this gate."""
        return any(each.consumer.queue.gate is place for each in self.acknowledged)

    def wait_ended(self, place: Place) -> None:
        """Record that one of its messages no longer waits there."""
        left = self.waiting.pop(place, 0) - 1
        if left > 0:
            self.waiting[place] = left
        if not self.waiting and self.state is State.COMMITTING:
            self.owner.proceed(self)

    def fail(self, condition: str, description: str) -> None:
        """Roll it back now; its client gets the error when it discharges the transaction."""
        self.owner.fail(self, condition, description)
