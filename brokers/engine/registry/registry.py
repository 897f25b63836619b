"""Look-ups of a broker's objects by name or number, and the broker's own settings.

The registry has no rules and adds no facts; services do. A look-up by name raises NotFound of `brokers.admin`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from brokers.admin import NotFound
from brokers.engine.flow.producer import Producer
from brokers.engine.queues.consumer import Consumer
from brokers.engine.queues.queue import Queue
from brokers.engine.registry.connection import Connection
from brokers.engine.registry.exchange import Exchange
from brokers.engine.registry.subscription import Subscription
from brokers.engine.registry.virtualhost import VirtualHost
from brokers.engine.values.policy import Value
from brokers.engine.values.stops import Scope, Stop


class Registry:
    """`defaults`: policy fields for every queue. `version`: of the broker's own settings. `last_store_id`: the last
    number of a durable queue, never reused. `connections`, `producers`, `consumers`: by number, unique among all of
    them. `stops`: operators' stops. `subscriptions`: by their queues. `owners`: the connection that each temporary
    queue and topic was created for."""

    def __init__(self) -> None:
        self.version = 1
        self.defaults: dict[str, Value] = {}
        self.last_store_id = 0
        self.virtualhosts: dict[str, VirtualHost] = {}
        self.connections: dict[int, Connection] = {}
        self.producers: dict[int, Producer] = {}
        self.consumers: dict[int, Consumer] = {}
        self.stops: dict[Scope, Stop] = {}
        self.subscriptions: dict[Queue, Subscription] = {}
        self.owners: dict[Queue | Exchange, Connection] = {}
        self._numbers = count(1)

    def next_number(self) -> int:
        """Return a new number for a connection or a link."""
        return next(self._numbers)

    def virtualhost(self, name: str) -> VirtualHost:
        try:
            return self.virtualhosts[name]
        except KeyError:
            raise NotFound(f"there is no virtual host {name}") from None

    def queue(self, virtualhost: str, name: str) -> Queue:
        try:
            return self.virtualhost(virtualhost).queues[name]
        except KeyError:
            raise NotFound(f"there is no queue {name} in virtual host {virtualhost}") from None

    def exchange(self, virtualhost: str, name: str) -> Exchange:
        try:
            return self.virtualhost(virtualhost).exchanges[name]
        except KeyError:
            raise NotFound(f"there is no exchange {name} in virtual host {virtualhost}") from None

    def subscription(self, virtualhost: str, name: str) -> Subscription:
        """Return the subscription whose queue has this name."""
        queue = self.virtualhost(virtualhost).queues.get(name)
        found = self.subscriptions.get(queue) if queue is not None else None
        if found is None:
            raise NotFound(f"there is no subscription {name} in virtual host {virtualhost}")
        return found

    def host_of(self, thing: Queue | Exchange) -> VirtualHost:
        """Return the virtual host of an existing queue or exchange."""
        return self.virtualhosts[thing.virtualhost]

    def queues(self) -> Iterator[Queue]:
        for host in self.virtualhosts.values():
            yield from host.queues.values()

    def has(self, queue: Queue) -> bool:
        """Return whether the queue still exists: consumers may return messages after it was deleted."""
        host = self.virtualhosts.get(queue.virtualhost)
        return host is not None and host.queues.get(queue.name) is queue
