"""Temporary queues and topics: made for a link and gone with it, consumed from by that link's connection alone.

A temporary queue is a queue and a temporary topic a fanout exchange, so capacities, limits, stops and the console hold
for them with no code of their own; neither is kept through a restart. Their names cannot be guessed, and one that has
gone is never created again by whoever attaches to it: what is sent there late is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING

from brokers.admin import InvalidValue, NotAllowed, NotFound
from brokers.engine.queues.queue import Queue
from brokers.engine.registry.exchange import Exchange

if TYPE_CHECKING:
    from brokers.engine.broker import Broker
    from brokers.engine.connection import Connection

QUEUE_PREFIX, TOPIC_PREFIX = "temporary-queue.", "temporary-topic."

#: So many may a connection have at a time.
MOST = 256


class TooMany(NotAllowed):
    """The connection has as many as it may have."""


class Temporary:
    """`unguessable`: gives a word that no other call gives; the server has a random source for it."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        numbers = count(1)
        self.unguessable: Callable[[], str] = lambda: f"{next(numbers)}"
        self._owners: dict[Queue | Exchange, Connection] = {}

    def create_queue(self, connection: Connection) -> Queue:
        """Raises TooMany."""
        self._check_number(connection)
        host = self.broker.virtualhosts[connection.virtualhost]
        queue = self.broker.create_queue(host, QUEUE_PREFIX + self.unguessable(), transient=True)
        self._owners[queue] = connection
        return queue

    def create_topic(self, connection: Connection) -> Exchange:
        """Raises TooMany."""
        self._check_number(connection)
        host = self.broker.virtualhosts[connection.virtualhost]
        name = TOPIC_PREFIX + self.unguessable()
        exchange = self.broker.routing.create_exchange(host, name, "fanout", transient=True)
        self._owners[exchange] = connection
        return exchange

    def _check_number(self, connection: Connection) -> None:
        if sum(owner is connection for owner in self._owners.values()) >= MOST:
            raise TooMany(f"a connection may have {MOST} temporary queues and topics at a time")

    def delete(self, node: Queue | Exchange) -> None:
        """Its link has ended: it goes, and with it the subscriptions of a topic. Idempotent."""
        if node not in self._owners:
            return
        why = f"{node.name} was temporary: the link that it was made for has ended"
        if isinstance(node, Queue):
            self.broker.delete_queue(node, why)
            return
        for queue in list(node.bindings):
            if queue in self.broker.subscriptions.of:
                self.broker.delete_queue(queue, why)
        self.broker.routing.delete_exchange(node)

    def forget(self, node: Queue | Exchange) -> None:
        """It is being deleted."""
        self._owners.pop(node, None)

    def owner(self, node: Queue | Exchange) -> Connection | None:
        """The connection that it was made for; None: it is not temporary."""
        return self._owners.get(node)

    def check_consumer(self, connection: Connection, address: str, *, durable: bool = False) -> None:
        """Whether a connection may consume from an address, as far as that is temporary. Raises NotAllowed,
        InvalidValue for a durable subscription."""
        if not address.startswith((QUEUE_PREFIX, TOPIC_PREFIX)):
            return
        host = self.broker.virtualhosts[connection.virtualhost]
        node = host.queues.get(address) or host.exchanges.get(address.partition("/")[0])
        owner = self._owners.get(node) if node is not None else None
        if owner is not None and owner is not connection:
            raise NotAllowed(f"{address} is temporary: only the connection that it was made for may consume from it")
        if owner is not None and durable:
            raise InvalidValue({"durable": f"{address} is temporary: it has no durable subscriptions"})


def check_not_gone(name: str) -> None:
    """A name that is nothing and that a client asks for: it is not created if it can only have been temporary. Raises
    NotFound."""
    if name.startswith((QUEUE_PREFIX, TOPIC_PREFIX)):
        raise NotFound(f"there is no {name}: what is temporary goes with the link that it was made for")
