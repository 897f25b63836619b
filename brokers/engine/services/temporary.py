"""Temporary queues and topics: made for a link and gone with it, consumed from by that link's connection alone.

A temporary queue is a queue and a temporary topic a fanout exchange, so capacities, limits, stops and the console hold
for them with no code of their own; neither is kept through a restart. Their names cannot be guessed, and one that has
gone is never created again by a client that attaches to it: what is sent there late is refused.
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
from brokers.engine.services.temporary_names import QUEUE_PREFIX, TOPIC_PREFIX, is_temporary

#: Temporary queues and topics that a connection may have at a time.
MOST = 256


class TooMany(NotAllowed):
    """The connection has as many as it may have."""


class Temporary:
    """`unguessable`: gives a word that no other call gives; the server has a random source for it."""

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
        """Its link has ended: it goes, and with it the subscriptions of a topic. Idempotent."""
        if node not in self.registry.owners:
            return
        why = f"{node.name} was temporary: the link that it was made for has ended"
        if isinstance(node, Queue):
            self.queues.delete(node, why)
            return
        for queue in list(node.bindings):
            if queue in self.registry.subscriptions:
                self.queues.delete(queue, why)
        self.routing.delete_exchange(node)

    def owner(self, node: Queue | Exchange) -> Connection | None:
        """The connection that it was made for; None: it is not temporary."""
        return self.registry.owners.get(node)

    def check_consumer(self, connection: Connection, address: str, *, durable: bool = False) -> None:
        """Whether a connection may consume from an address, if that is temporary. Raises NotAllowed,
        InvalidValue for a durable subscription."""
        if not is_temporary(address):
            return
        host = self.registry.virtualhosts[connection.virtualhost]
        node = host.queues.get(address) or host.exchanges.get(address.partition("/")[0])
        owner = self.registry.owners.get(node) if node is not None else None
        if owner is not None and owner is not connection:
            raise NotAllowed(f"{address} is temporary: only the connection that it was made for may consume from it")
        if owner is not None and durable:
            raise InvalidValue({"durable": f"{address} is temporary: it has no durable subscriptions"})
