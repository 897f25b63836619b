"""The transactions of a broker: declared, committed, rolled back, and ended when they are idle for too long.

A transaction is written to the store as a whole, and is invisible until the store has answered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection

from brokers.engine.flow.turn import Discharged, Turn
from brokers.engine.ports import TransactionPort
from brokers.engine.queues.consumer import Consumer
from brokers.engine.queues.queue import Queue
from brokers.engine.registry.connection import Connection
from brokers.engine.registry.registry import Registry
from brokers.engine.registry.transaction import ROLLED_BACK, State, Transaction

#: Transactions that a connection may have open.
MOST_OPEN = 1000

#: The error condition of a transaction that was idle for too long.
TIMED_OUT = "amqp:transaction:timeout"


class Transactions:
    """See the module."""

    def __init__(self, registry: Registry, turn: Turn) -> None:
        self.registry = registry
        self.turn = turn
        self._last = 0
        self._open: dict[int, Transaction] = {}
        self._writing: deque[tuple[str, int, Transaction]] = deque()  # (virtual host, ticket, transaction)

    def declare(self, connection: Connection, handle: TransactionPort[Transaction]) -> Transaction | None:
        """Declare a transaction; return None if the connection has too many. `handle` gets the Discharged effects."""
        if len(connection.transactions) >= MOST_OPEN:
            return None
        self._last += 1
        transaction = Transaction(self, self._last, connection, handle, self.turn.now)
        self._open[transaction.number] = connection.transactions[transaction.id] = transaction
        return transaction

    def commit(self, transaction: Transaction) -> None:
        """Commit a transaction. A Discharged effect follows, now or later."""
        if transaction.state is State.OPEN:
            transaction.state = State.COMMITTING
            transaction.committing_since = self.turn.now
            if not transaction.waiting:
                self.proceed(transaction)
        elif transaction.state is State.ROLLED_BACK:
            self._end(transaction)

    def roll_back(self, transaction: Transaction) -> None:
        """Roll back a transaction for its client. Once it is being written, the store's answer decides."""
        if transaction.state in (State.OPEN, State.COMMITTING):
            self._undo(transaction)
        if transaction.state is not State.WRITING:
            self._end(transaction)

    def fail(self, transaction: Transaction, condition: str, description: str) -> None:
        """Roll back a transaction on the broker's decision. Its client gets the error when it discharges it."""
        committing = transaction.state is State.COMMITTING
        if committing or transaction.state is State.OPEN:
            transaction.fault = condition, description
            self._undo(transaction)
            if committing:
                self._end(transaction)
            else:
                self.turn.effects.append(Discharged(transaction.handle, transaction))

    def proceed(self, transaction: Transaction) -> None:
        """Commit a transaction without parked messages."""
        host = self.registry.virtualhosts[transaction.connection.virtualhost]
        transaction.published = [p for p in transaction.published if host.queues.get(p.queue.name) is p.queue]
        queues = {p.queue: None for p in transaction.published}
        removed = [a for a in transaction.acknowledged if a.removes and a.consumer.queue.is_durable(a.message[1])]
        if host.store is None or not (removed or any(p.needs_store for p in transaction.published)):
            self._apply(transaction)
            return
        transaction.state = State.WRITING
        ticket = host.store.begin(transaction.number)
        transaction.published = [
            each for each in transaction.published if not each.commit_stored(ticket, transaction.number)
        ]
        for each in removed:
            each.consumer.queue.buffer_removal(each.message)
        host.store.end()
        for queue in queues:
            queue.touch()
        self._writing.append((host.name, ticket, transaction))

    def committed(self, virtualhost: str, ticket: int, refused: Collection[int]) -> None:
        """Handle the answer of a virtual host's store for all groups up to this ticket. `refused`: the numbers of the
        refused transactions."""
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
        for published in transaction.published:
            if self._has(published.queue):
                published.commit()
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
        taken: dict[Queue, tuple[int, int]] = {}
        for queue, bodies, size, *_ in transaction.published:
            messages, total = taken.get(queue, (0, 0))
            taken[queue] = messages + len(bodies), total + size
        transaction.published = []
        for queue, (messages, size) in taken.items():
            if self._has(queue):
                queue.gate.roll_back(messages, size)
        for each in transaction.acknowledged:
            if each.settled or not self._attached(each.consumer):
                each.put_back(failed=True)
            else:
                each.returned = True

    def _end(self, transaction: Transaction) -> None:
        """Remove an ended transaction, and notify its client."""
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
        """End the transactions that the store of a deleted virtual host will not answer."""
        for each in [w for w in self._writing if w[0] == virtualhost]:
            self._writing.remove(each)
            self._end(each[2])

    def sweep(self) -> None:
        """Roll back transactions that have messages and were idle for too long; called once a second."""
        now = self.turn.now
        for transaction in list(self._open.values()):
            host = self.registry.virtualhosts[transaction.connection.virtualhost]
            idle = now - transaction.active_at
            if 0 < host.transaction_idle_limit_ms <= idle and transaction.idle:
                connection = transaction.connection
                transaction.fail(TIMED_OUT, f"the transaction was idle for {idle:,} ms")
                facts = {"client": connection.client, "idle_ms": idle}
                words = f"Idle Transaction : {idle:,} ms"
                self.turn.add_fact("transaction-timed-out", connection.name, connection.subject, words, facts)
