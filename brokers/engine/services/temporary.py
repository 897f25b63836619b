"""Temporary queues and topics: created for a link, deleted with it, and consumed by that link's connection only.

A temporary queue is a queue and a temporary topic a fanout exchange, so capacities, limits, stops and the console apply
to them without special code; they do not survive a restart. Their names cannot be guessed, and attaching to a deleted
one does not create it again: late messages are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from brokers.admin import InvalidValue, NotAllowed
from brokers.engine.queues.queue import Queue
from brokers.engine.registry.connection import Connection
from brokers.engine.registry.exchange import Exchange
from brokers.engine.registry.registry import Registry
from brokers.engine.services.queue_lifecycle import QueueLifecycle
from brokers.engine.services.routing import Routing
from brokers.engine.services.temporary_names import QUEUE_PREFIX, TOPIC_PREFIX

#: Temporary queues and topics that a connection may have at a time.
MOST = 256


class TooMany(NotAllowed):
    """The connection has the maximum number of temporary queues and topics."""


class Temporary:
    """`unguessable`: returns a unique word; the server sets a random one."""

    def __init__(self, registry: Registry, routing: Routing, queues: QueueLifecycle) -> None:
        self.registry = registry
        self.routing = routing
        self.queues = queues
        numbers = count(1)
        self.unguessable: Callable[[], str] = lambda: f"{next(numbers)}"

    def create_queue(self, connection: Connection) -> Queue:
        """Raises TooMany."""
        self._check_number(connection)
        host = self.registry.virtualhosts[connection.virtualhost]
        queue = self.queues.create(host, QUEUE_PREFIX + self.unguessable(), transient=True)
        self.registry.owners[queue] = connection
        return queue

    def create_topic(self, connection: Connection) -> Exchange:
        """Raises TooMany."""
        self._check_number(connection)
        host = self.registry.virtualhosts[connection.virtualhost]
        name = TOPIC_PREFIX + self.unguessable()
        exchange = self.routing.create_exchange(host, name, "fanout", transient=True)
        self.registry.owners[exchange] = connection
        return exchange

    def _check_number(self, connection: Connection) -> None:
        if sum(owner is connection for owner in self.registry.owners.values()) >= MOST:
            raise TooMany(f"a connection may have {MOST} temporary queues and topics at a time")

    def delete(self, node: Queue | Exchange) -> None:
        """Delete a temporary queue or topic whose link has ended, with the subscriptions of a topic. Idempotent."""
        if node not in self.registry.owners:
            return
        why = f"{node.name} was temporary: the link that created it has ended"
        if isinstance(node, Queue):
            self.queues.delete(node, why)
            return
        for queue in list(node.bindings):
            if queue in self.registry.subscriptions:
                self.queues.delete(queue, why)
        self.routing.delete_exchange(node)

    def owner(self, node: Queue | Exchange) -> Connection | None:
        """Return the connection that it was created for; None: it is not temporary."""
        return self.registry.owners.get(node)

    def check_consumer(self, connection: Connection, node: Queue | Exchange, *, durable: bool = False) -> None:
        """Raise NotAllowed unless the connection may consume from what its address was resolved to, and InvalidValue
        for a durable subscription to a temporary queue or topic. Not by the address: several lead to one queue."""
        owner = self.registry.owners.get(node)
        if owner is None:
            return
        if owner is not connection:
            raise NotAllowed(f"{node.name} is temporary: only the connection that created it may consume from it")
        if durable:
            raise InvalidValue({"durable": f"{node.name} is temporary: it has no durable subscriptions"})
