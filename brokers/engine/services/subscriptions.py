"""Subscriptions of clients: created on attach, resumed by name, and ended.

Each has a queue of its own, bound to its exchange: capacities, overflow and stops apply to it as to every other queue.
Deleting the queue deletes the subscription, and vice versa.
"""

from __future__ import annotations

from itertools import count

from brokers.admin import AdminError, AlreadyExists, InvalidValue, NotFound
from brokers.engine.flow.turn import Detach, Turn
from brokers.engine.registry.connection import Connection
from brokers.engine.registry.exchange import Exchange
from brokers.engine.registry.registry import Registry
from brokers.engine.registry.subscription import Subscription, SubscriptionSpec, identity, queue_name
from brokers.engine.registry.virtualhost import VirtualHost
from brokers.engine.services.active_subscriptions import ActiveSubscriptions
from brokers.engine.services.queue_lifecycle import QueueLifecycle
from brokers.engine.services.routing import Routing


class Subscriptions:
    """See the module."""

    def __init__(
        self, registry: Registry, turn: Turn, routing: Routing, queues: QueueLifecycle, active: ActiveSubscriptions
    ) -> None:
        self.registry = registry
        self.turn = turn
        self.routing = routing
        self.queues = queues
        self.active = active
        self._numbers = count(1)

    def subscribe(self, connection: Connection, spec: SubscriptionSpec) -> Subscription:
        """The subscription that a link of this connection is to consume from. One that has the name but not the rest of
        the spec gives way, unless it is used: AlreadyExists. Raises InvalidValue, NotFound, AdminError."""
        host = self.registry.virtualhosts[connection.virtualhost]
        there = host.subscriptions.get(spec.identity) if spec.name else None
        if there is not None and there.spec != spec:
            if there.queue.dispatcher.destructive:
                present, wanted = there.spec.words(), spec.words()
                raise AlreadyExists(f"subscription {spec.name} is in use for {present}: it cannot change to {wanted}")
            self.queues.delete(there.queue)
            there = None
        if there is None:
            return self._create(host, connection, spec)
        self._bind(host, there)
        if not spec.shared:
            self._steal(there)
        return there

    def named(self, connection: Connection, name: str, *, of_all_clients: bool) -> Subscription:
        """Return a durable subscription of a client, or of all clients, to unsubscribe. Raises NotFound, or
        AlreadyExists if it is in use."""
        host = self.registry.virtualhosts[connection.virtualhost]
        client = "" if of_all_clients else connection.container_id
        found = host.subscriptions.get(identity(client, name, durable=True))
        if found is None:
            whose = f"client {client}" if client else "all clients"
            raise NotFound(f"there is no durable subscription {name} of {whose} in virtual host {host.name}")
        if found.queue.dispatcher.destructive:
            raise AlreadyExists(f"subscription {name} is in use: it cannot be ended")
        return found

    def left(self, virtualhost: str, queue: str) -> None:
        """End the subscription of a queue that a consumer has left, if it was the last one and it is not durable."""
        host = self.registry.virtualhosts.get(virtualhost)
        left = None if host is None else host.queues.get(queue)
        found = None if left is None else self.registry.subscriptions.get(left)
        if found is not None and not found.spec.durable:
            self.unsubscribe(found)

    def unsubscribe(self, subscription: Subscription) -> None:
        """End a subscription, unless consumers still use it. Idempotent."""
        queue = subscription.queue
        if self.registry.subscriptions.get(queue) is subscription and not queue.dispatcher.destructive:
            self.queues.delete(queue)

    def _create(self, host: VirtualHost, connection: Connection, spec: SubscriptionSpec) -> Subscription:
        matches = self.active.compiled(spec.selector)  # refused before anything is created
        name = queue_name(spec, next(self._numbers))
        queue = self.queues.create(host, name, durable=spec.durable, transient=not spec.durable)
        subscription = Subscription(spec, queue, self.turn.time_of_day, None if spec.name else connection)
        try:
            self._bind(host, subscription)
        except AdminError:
            self.queues.delete(queue)
            raise
        subscription.matches = matches
        self.active.created(subscription)
        return subscription

    def _bind(self, host: VirtualHost, subscription: Subscription) -> None:
        spec = subscription.spec
        self.routing.bind(host.exchanges[spec.exchange], subscription.queue, spec.key)

    def _steal(self, subscription: Subscription) -> None:
        """Detach the previous link of the subscription: its client reconnected before the broker noticed the loss."""
        for consumer in subscription.queue.dispatcher.destructive:
            consumer.credit = 0
            text = f"subscription {subscription.spec.name} was attached again by client {subscription.spec.client}"
            self.turn.effects.append(Detach(consumer.handle, "amqp:link:stolen", text))


def everything(exchange: Exchange) -> str:
    """Return the binding key for all messages of an exchange. Raises InvalidValue if there is none."""
    if exchange.kind == "direct":
        name = exchange.name
        raise InvalidValue(
            {"key": f"{name} is a direct exchange: subscribe to {name}/KEY, with the key of the messages"}
        )
    return "#" if exchange.kind == "topic" else ""
