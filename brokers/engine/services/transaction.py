"""Local transactions: what is published and acknowledged in one counts together or not at all (AMQP 1.0, part 4).

A message published in a transaction uses its credit and counts in its queue's depth from its arrival on
(`flow/gate.py`), so concurrent transactions overshoot no more than others do. One that has to wait outside its queue
has no outcome yet, and a commit waits for it. A message that is refused is none of the transaction's; its client hears
of it and may commit all the same, except if it settled the message beforehand and so hears of nothing: then the
transaction is lost. An acknowledged message stays with its consumer until the transaction is over.

What goes to the store goes there as a whole, and nothing of the transaction is seen before the store has answered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from enum import Enum
from typing import Any, Protocol

from brokers.engine.flow.producer import Producer
from brokers.engine.flow.turn import Discharged, Turn
from brokers.engine.ports import TransactionPort
from brokers.engine.queues.consumer import Consumer
from brokers.engine.queues.queue import Message, Queue
from brokers.engine.registry.connection import Connection
from brokers.engine.registry.registry import Registry
from brokers.engine.values.outcomes import Verdict

#: Transactions that a connection may have open.
MOST_OPEN = 1000

ROLLED_BACK, TIMED_OUT = "amqp:transaction:rollback", "amqp:transaction:timeout"


class State(Enum):
    OPEN = "open"
    COMMITTING = "its client has asked for the commit"
    WRITING = "the store has it and has not answered"
    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"


class Place(Protocol):
    """Where a message of a transaction may wait."""

    def abandon(self, transaction: Transaction) -> None:
        """The transaction is rolled back: its messages there have their outcome, and nothing more is said of them."""
        ...


class Acknowledgement:
    """What becomes of a consumer's message at the commit. `removes`: it goes for good; `rejected`: see `Queue.reject`;
    else it goes back, see `Queue.put_back`. `settled`: its client has forgotten it, so that after a rollback it goes
    back to the queue. `returned`: after a rollback it is its consumer's as before. `delivery` belongs to the protocol
    layer."""

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
    """A message's part in a transaction. `told`: its client hears what becomes of it."""

    __slots__ = ("told", "transaction")

    def __init__(self, transaction: Transaction, *, told: bool) -> None:
        self.transaction = transaction
        self.told = told

    @property
    def over(self) -> bool:
        return self.transaction.state not in (State.OPEN, State.COMMITTING)

    def refused(self, place: Place | None = None) -> None:
        """It was not taken; `place`: where it waited."""
        if not self.told:
            self.lost()
        elif place is not None:
            self.transaction.arrived(place)

    def lost(self) -> None:
        """It has gone, and its client does not know."""
        self.transaction.doom(ROLLED_BACK, "a message of the transaction could not be taken, and nobody was to be told")


class Transaction:
    """`id`: what its client calls it. `began`, `active_at`, `committing_since`: ms since the epoch. `waiting`: how many
    messages wait, and where. `fault`: AMQP error condition and text, if the broker has rolled it back. `handle`,
    `accepted` belong to the protocol layer."""

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
        "published",
        "state",
        "told",
        "untold",
        "waiting",
    )

    def __init__(
        self, owner: Transactions, number: int, connection: Connection, handle: TransactionPort, now: int
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
        self.told = Enrolment(self, told=True)
        self.untold = Enrolment(self, told=False)
        self.published: list[tuple[Queue, bytes]] = []
        self.acknowledged: list[Acknowledgement] = []
        self.waiting: dict[Place, int] = {}

    @property
    def idle(self) -> bool:
        """It holds something that others may want, and its client has not asked for its end."""
        return self.state is State.OPEN and bool(self.published or self.acknowledged or self.waiting)

    def enrolment(self, *, told: bool) -> Enrolment:
        """For a message that is published in it now. `told`: its client hears what becomes of it."""
        self.active_at = self.owner.turn.now
        return self.told if told else self.untold

    def publish(self, producer: Producer, body: bytes, *, told: bool) -> Verdict:
        """Publish to the producer's queue."""
        enrolment = self.enrolment(told=told)
        verdict = producer.queue.publish_in(enrolment, producer, body)
        if not verdict:
            enrolment.refused()
        return verdict

    def acknowledge(self, acknowledgement: Acknowledgement) -> None:
        self.active_at = self.owner.turn.now
        self.acknowledged.append(acknowledgement)

    def wait(self, place: Place) -> None:
        self.waiting[place] = self.waiting.get(place, 0) + 1

    def add_published(self, queue: Queue, body: bytes) -> None:
        """A message of it counts in the queue from now on."""
        self.published.append((queue, body))

    def takes_from(self, place: Any) -> bool:
        """Whether its commit takes messages out of the queue behind this gate."""
        return any(each.consumer.queue.gate is place for each in self.acknowledged)

    def arrived(self, place: Place) -> None:
        """A message waits there no longer."""
        left = self.waiting.pop(place, 0) - 1
        if left > 0:
            self.waiting[place] = left
        if not self.waiting and self.state is State.COMMITTING:
            self.owner.go_on(self)

    def doom(self, condition: str, description: str) -> None:
        """Roll it back now; its client is told when it discharges it."""
        self.owner.doom(self, condition, description)


class Transactions:
    """All of a broker's."""

    def __init__(self, registry: Registry, turn: Turn) -> None:
        self.registry = registry
        self.turn = turn
        self._last = 0
        self._open: dict[int, Transaction] = {}
        self._writing: deque[tuple[str, int, Transaction]] = deque()  # (virtual host, ticket, transaction)

    def declare(self, connection: Connection, handle: TransactionPort) -> Transaction | None:
        """None: the connection has too many open. `handle` is told by Discharged effects."""
        if len(connection.transactions) >= MOST_OPEN:
            return None
        self._last += 1
        transaction = Transaction(self, self._last, connection, handle, self.turn.now)
        self._open[transaction.number] = connection.transactions[transaction.id] = transaction
        return transaction

    def commit(self, transaction: Transaction) -> None:
        """A Discharged effect follows, now or later."""
        if transaction.state is State.OPEN:
            transaction.state = State.COMMITTING
            transaction.committing_since = self.turn.now
            if not transaction.waiting:
                self.go_on(transaction)
        elif transaction.state is State.ROLLED_BACK:
            self._end(transaction)

    def roll_back(self, transaction: Transaction) -> None:
        """The client wants it, or has gone. Once the store has it, the store decides."""
        if transaction.state in (State.OPEN, State.COMMITTING):
            self._undo(transaction)
        if transaction.state is not State.WRITING:
            self._end(transaction)

    def doom(self, transaction: Transaction, condition: str, description: str) -> None:
        """The broker rolls it back. Its client may go on to use it, in vain, until it discharges it."""
        asked = transaction.state is State.COMMITTING
        if asked or transaction.state is State.OPEN:
            transaction.fault = condition, description
            self._undo(transaction)
            if asked:
                self._end(transaction)
            else:
                self.turn.effects.append(Discharged(transaction.handle, transaction))

    def go_on(self, transaction: Transaction) -> None:
        """Commit what waits for nothing more."""
        host = self.registry.virtualhosts[transaction.connection.virtualhost]
        transaction.published = [(q, b) for q, b in transaction.published if host.queues.get(q.name) is q]
        queues = [q for q, _ in transaction.published]
        removed = [a for a in transaction.acknowledged if a.removes and a.consumer.queue.keeps(a.message[1])]
        if host.store is None or not (removed or any(q.keeps(b) for q, b in transaction.published)):
            self._apply(transaction)
            return
        transaction.state = State.WRITING
        ticket = host.store.begin(transaction.number)
        transaction.published = [
            (queue, body)
            for queue, body in transaction.published
            if not queue.commit_stored(body, ticket, transaction.number)
        ]
        for each in removed:
            each.consumer.queue.buffer_removal(each.message)
        host.store.end()
        for queue in queues:
            queue.touch()
        self._writing.append((host.name, ticket, transaction))

    def committed(self, virtualhost: str, ticket: int, refused: Collection[int]) -> None:
        """The store of the virtual host has answered for all groups up to this ticket; `refused`: the numbers of the
        transactions that it could not take."""
        answered = [w for w in self._writing if w[0] == virtualhost and w[1] <= ticket]
        for each in answered:
            self._writing.remove(each)
            transaction = each[2]
            if transaction.number in refused:
                transaction.fault = ROLLED_BACK, "the store cannot take the transaction now: see the broker's log"
                self._undo(transaction)
                self._end(transaction)
            else:
                self._apply(transaction)

    def _apply(self, transaction: Transaction) -> None:
        transaction.state = State.COMMITTED
        for queue, body in transaction.published:
            if self._has(queue):
                queue.commit(body)
        for each in transaction.acknowledged:
            if each.removes:
                each.consumer.queue.retire(each.consumer, each.message)
            elif each.rejected:
                each.consumer.queue.reject(each.consumer, each.message)
            else:
                each.put_back(failed=each.failed, barred=each.barred and self._attached(each.consumer))
        self._end(transaction)

    def _undo(self, transaction: Transaction) -> None:
        transaction.state = State.ROLLED_BACK
        waiting, transaction.waiting = transaction.waiting, {}
        for place in waiting:
            place.abandon(transaction)
        taken: dict[Queue, list[int]] = {}
        for queue, body in transaction.published:
            taken.setdefault(queue, []).append(len(body))
        transaction.published = []
        for queue, sizes in taken.items():
            if self._has(queue):
                queue.gate.roll_back(len(sizes), sum(sizes))
        for each in transaction.acknowledged:
            if each.settled or not self._attached(each.consumer):
                each.put_back(failed=True)
            else:
                each.returned = True

    def _end(self, transaction: Transaction) -> None:
        """It is over, and its client knows or is about to."""
        transaction.published = []
        self._open.pop(transaction.number, None)
        transaction.connection.transactions.pop(transaction.id, None)
        self.turn.effects.append(Discharged(transaction.handle, transaction))

    def _has(self, queue: Queue) -> bool:
        host = self.registry.virtualhosts.get(queue.virtualhost)
        return host is not None and host.queues.get(queue.name) is queue

    def _attached(self, consumer: Consumer) -> bool:
        return consumer.id in self.registry.consumers

    def forget(self, virtualhost: str) -> None:
        """The virtual host is gone, and its store will not answer."""
        for gone in [w for w in self._writing if w[0] == virtualhost]:
            self._writing.remove(gone)
            self._end(gone[2])

    def sweep(self) -> None:
        """Once a second: roll back those that have held something for too long without doing anything."""
        now = self.turn.now
        for transaction in list(self._open.values()):
            host = self.registry.virtualhosts[transaction.connection.virtualhost]
            idle = now - transaction.active_at
            if 0 < host.transaction_idle_limit_ms <= idle and transaction.idle:
                connection = transaction.connection
                transaction.doom(TIMED_OUT, f"nothing was done in the transaction for {idle:,} ms")
                facts = {"client": connection.client, "idle_ms": idle}
                words = f"Idle Transaction : {idle:,} ms"
                self.turn.state("transaction-timed-out", connection.name, connection.subject, words, facts)
