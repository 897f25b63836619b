"""Answers of the stores: messages recovered at start, confirmed changes and spooled bodies."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import groupby

from brokers.engine.queues.agenda import Agenda
from brokers.engine.queues.queue import Queue
from brokers.engine.registry.virtualhost import VirtualHost
from brokers.engine.services.records import Records
from brokers.engine.services.transactions import Transactions
from brokers.engine.values.message import LEFT_OUT, MOST_LEFT_OUT


class StoredMessages:
    """See the module."""

    def __init__(self, agenda: Agenda[Queue], transactions: Transactions, records: Records) -> None:
        self.agenda = agenda
        self.turn = agenda.turn
        self.transactions = transactions
        self.records = records

    def recover(
        self, host: VirtualHost, messages: Iterable[tuple[int, int, int, int, int]], *, incomplete: bool = False
    ) -> int:
        """Recover the stored messages of a virtual host: (queue number, number, size, failed deliveries, expiry),
        sorted by queue and number. Messages of queues that no longer exist are dropped from the store. `incomplete`:
        there may be more, which a later start can read. Return the number of messages."""
        queues = {q.store_id: q for q in host.queues.values() if q.durable is not None}
        count = 0
        for number, rows in groupby(messages, lambda row: row[0]):
            queue = queues.get(number)
            if queue is None:
                if host.store is not None:
                    host.store.drop_queue(number)
                continue
            assert queue.durable is not None
            for _, place, size, failed, expires in rows:
                queue.durable.recover(place, size, failed, expires)
            count += queue.gate.depth_messages
            queue.gate.measure()
            self.agenda.changed.add(queue)
        if incomplete:
            self._leave_out(host, queues.values())
        for queue in queues.values():
            queue.arrivals.recover(queue.gate.enqueued)
            queue.sampled = (queue.gate.enqueued, queue.lanes.dequeued)
        return count

    def _leave_out(self, host: VirtualHost, queues: Collection[Queue]) -> None:
        """Have no new message take the number of one that cannot be read now, and with it its place in the store."""
        known = max((queue.gate.enqueued for queue in queues), default=0) // LEFT_OUT
        host.left_out = min(max(host.left_out, known) + 1, MOST_LEFT_OUT)
        for queue in queues:
            queue.gate.enqueued = max(queue.gate.enqueued, host.left_out * LEFT_OUT)
        self.records.persist_virtualhost(host)

    def committed(
        self, virtualhost: str, ticket: int, *, stored: bool, removed: bool, refused: Collection[int] = ()
    ) -> None:
        """Handle the answer of a virtual host's store for all changes up to this ticket: whether messages are stored,
        whether other changes are safe, and the numbers of refused transactions."""
        for queue in [q for q in self.agenda.unsafe if q.virtualhost == virtualhost]:
            durable = queue.durable
            if durable is None or not durable.committed(ticket, stored=stored, removed=removed, refused=refused):
                self.agenda.unsafe.discard(queue)
        self.transactions.committed(virtualhost, ticket, refused)

    def spooled(self, ticket: int, *, stored: bool) -> None:
        """Handle the answer of the temp store for all bodies up to this ticket."""
        for queue in list(self.agenda.spooling):
            if not queue.storage.spooled(ticket, stored=stored):
                self.agenda.spooling.discard(queue)
            self.agenda.changed.add(queue)  # it uses less memory
