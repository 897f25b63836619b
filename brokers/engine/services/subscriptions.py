"""Subscriptions at work: made when clients attach to topics, found again by their names, and ended.

Each has a queue of its own, bound to its exchange: what that means for capacities, full queues and stops is told where
it is for every other queue. A queue and its subscription go together, whichever is deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from itertools import count
from typing import TYPE_CHECKING, Any

from brokers.admin import AdminError, AlreadyExists, InvalidValue, NotFound
from brokers.engine.flow.turn import Detach, Keep
from brokers.engine.queues.queue import Queue
from brokers.engine.registry.exchange import Exchange
from brokers.engine.registry.subscription import Subscription, Wish, identity, queue_name
from brokers.engine.registry.virtualhost import VirtualHost
from brokers.engine.values.events import queue_subject

if TYPE_CHECKING:
    from brokers.engine.broker import Broker
    from brokers.engine.connection import Connection

#: A selector -> what it says of an encoded message. Raises InvalidValue.
Compile = Callable[[str], Callable[[bytes], bool]]


class Subscriptions:
    """`of`: by their queues. `compile`: how selectors are read, if the protocol layer can; where it cannot, none is to
    be asked for."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.of: dict[Queue, Subscription] = {}
        self.compile: Compile | None = None
        self._choosy: dict[Queue, Subscription] = {}  # those that do not want every message of their topic
        self._numbers = count(1)

    def subscription(self, virtualhost: str, name: str) -> Subscription:
        """By the name of its queue. Raises NotFound."""
        queue = self.broker.virtualhost(virtualhost).queues.get(name)
        found = self.of.get(queue) if queue is not None else None
        if found is None:
            raise NotFound(f"there is no subscription {name} in virtual host {virtualhost}")
        return found

    # -- clients ------------------------------------------------------------------------------------------------

    def subscribe(self, connection: Connection, wish: Wish) -> Subscription:
        """The subscription that a link of this connection is to consume from. One that has the name but not the rest of
        the wish gives way, unless it is used: AlreadyExists. Raises InvalidValue, NotFound, AdminError."""
        host = self.broker.virtualhosts[connection.virtualhost]
        there = host.subscriptions.get(wish.identity) if wish.name else None
        if there is not None and there.wish != wish:
            if there.queue.takers:
                is_, asked = _told(there.wish), _told(wish)
                raise AlreadyExists(f"subscription {wish.name} is in use for {is_}: it cannot become one for {asked}")
            self.broker.delete_queue(there.queue)
            there = None
        if there is None:
            return self._create(host, connection, wish)
        self._bind(host, there)
        if not wish.shared:
            self._steal(there)
        return there

    def named(self, connection: Connection, name: str, *, everybody: bool) -> Subscription:
        """A durable subscription of a client, or of everybody, that it may unsubscribe. Raises NotFound, AlreadyExists
        if it is used."""
        host = self.broker.virtualhosts[connection.virtualhost]
        client = "" if everybody else connection.container_id
        found = host.subscriptions.get(identity(client, name, durable=True))
        if found is None:
            whose = f"client {client}" if client else "all clients"
            raise NotFound(f"there is no durable subscription {name} of {whose} in virtual host {host.name}")
        if found.queue.takers:
            raise AlreadyExists(f"subscription {name} is in use: it cannot be ended")
        return found

    def left(self, queue: Queue) -> None:
        """A consumer of this queue has gone. The last takes with it what is not durable."""
        found = self.of.get(queue)
        if found is not None and not found.wish.durable:
            self.unsubscribe(found)

    def unsubscribe(self, subscription: Subscription) -> None:
        """A client wants no more of it: it ends, unless others still use it. Idempotent."""
        queue = subscription.queue
        if self.of.get(queue) is subscription and not queue.takers:
            self.broker.delete_queue(queue)

    def forget(self, queue: Queue) -> None:
        """Its queue is being deleted."""
        found = self.of.pop(queue, None)
        if found is None:
            return
        self._choosy.pop(queue, None)
        self.broker.slow_consumers.forget(found)
        self._state("subscription-deleted", found, "Close")
        if found.wish.name:
            del self.broker.virtualhosts[queue.virtualhost].subscriptions[found.wish.identity]
        if found.wish.durable:
            self.broker.turn.keep.append(Keep("subscription", str(found.object_name), None))

    # -- messages -------------------------------------------------------------------------------------------------

    def wanting(self, queues: Sequence[Queue], body: bytes, publisher: Connection) -> Sequence[Queue]:
        """Those of the queues that a message was routed to that want it."""
        choosy = self._choosy
        if not choosy:
            return queues
        return tuple(q for q in queues if q not in choosy or choosy[q].wants(body, publisher))

    # -- inside ---------------------------------------------------------------------------------------------------

    def _create(self, host: VirtualHost, connection: Connection, wish: Wish) -> Subscription:
        matches = self.compile(wish.selector) if self.compile is not None and wish.selector else None
        name = queue_name(wish, next(self._numbers))
        queue = self.broker.create_queue(host, name, durable=wish.durable, transient=not wish.durable)
        subscription = Subscription(wish, queue, self.broker.turn.time_of_day, None if wish.name else connection)
        try:
            self._bind(host, subscription)
        except AdminError:
            self.broker.delete_queue(queue)
            raise
        subscription.matches = matches
        self._add(host, subscription)
        self._state("subscription-created", subscription, f"Create{' : Durable' if wish.durable else ''}")
        self._keep(subscription)
        return subscription

    def _bind(self, host: VirtualHost, subscription: Subscription) -> None:
        wish = subscription.wish
        self.broker.routing.bind(host.exchanges[wish.exchange], subscription.queue, wish.key)

    def _add(self, host: VirtualHost, subscription: Subscription) -> None:
        queue, wish = subscription.queue, subscription.wish
        self.of[queue] = subscription
        if wish.name:
            host.subscriptions[wish.identity] = subscription
        if wish.no_local or subscription.matches is not None:
            self._choosy[queue] = subscription
        self.broker.slow_consumers.add(subscription)

    def _steal(self, subscription: Subscription) -> None:
        """The same link again: a client that has lost its connection comes back before the broker knows of the loss."""
        for consumer in subscription.queue.takers:
            consumer.credit = 0
            text = f"subscription {subscription.wish.name} was attached again by client {subscription.wish.client}"
            self.broker.turn.effects.append(Detach(consumer, "amqp:link:stolen", text))

    def _state(self, kind: str, subscription: Subscription, words: str) -> None:
        wish, queue = subscription.wish, subscription.queue
        self.broker.turn.state(
            kind,
            subscription.object_name,
            queue_subject(queue.virtualhost, queue.name),
            f"{words} : {_told(wish)}",
            {"queue": str(queue.object_name), "virtualhost": queue.virtualhost, **asdict(wish)},
        )

    # -- records --------------------------------------------------------------------------------------------------

    def _keep(self, subscription: Subscription) -> None:
        if subscription.wish.durable:
            queue = subscription.queue
            record = {
                "virtualhost": queue.virtualhost,
                "queue": queue.name,
                "wish": asdict(subscription.wish),
                "created": subscription.created,
            }
            self.broker.turn.keep.append(Keep("subscription", str(subscription.object_name), record))

    def restore(self, record: Mapping[str, Any]) -> None:
        """Take up a record of an earlier run, after its queue. One whose queue is no longer kept is passed over."""
        host = self.broker.virtualhost(record["virtualhost"])
        queue = host.queues.get(record["queue"])
        if queue is not None:
            wish = Wish(**record["wish"])
            subscription = Subscription(wish, queue, record["created"])
            if self.compile is not None and wish.selector:
                subscription.matches = self.compile(wish.selector)
            self._add(host, subscription)


def everything(exchange: Exchange) -> str:
    """The binding key for all that an exchange routes. Raises InvalidValue if there is none."""
    if exchange.kind == "direct":
        name = exchange.name
        raise InvalidValue(
            {"key": f"{name} is a direct exchange: subscribe to {name}/KEY, with the key of the messages"}
        )
    return "#" if exchange.kind == "topic" else ""


def _told(wish: Wish) -> str:
    """A wish in words, for people and for the log."""
    words = [f"Topic : {wish.topic}", f"Client : {wish.client or 'all'}"]
    if wish.name:
        words.append(f"Name : {wish.name}{' (shared)' if wish.shared else ''}")
    if wish.selector:
        words.append(f"Selector : {wish.selector}")
    return ", ".join(words)
