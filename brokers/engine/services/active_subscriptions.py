"""The existing subscriptions: their registration, facts and records, and which of them a message matches.

`subscriptions.py` creates and ends them for clients.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from brokers.engine.flow.turn import PersistRecord, Turn
from brokers.engine.queues.queue import Queue
from brokers.engine.registry.connection import Connection
from brokers.engine.registry.registry import Registry
from brokers.engine.registry.subscription import Subscription, SubscriptionSpec
from brokers.engine.registry.virtualhost import VirtualHost
from brokers.engine.services.slow_consumers import SlowConsumers
from brokers.engine.values.events import queue_subject

#: A selector -> whether it matches an encoded message. Raises InvalidValue.
Compile = Callable[[str], Callable[[bytes], bool]]


class ActiveSubscriptions:
    """`compile`: compiles selectors, set by the protocol layer; None: selectors are ignored."""

    def __init__(self, registry: Registry, turn: Turn, slow_consumers: SlowConsumers) -> None:
        self.registry = registry
        self.turn = turn
        self.slow_consumers = slow_consumers
        self.compile: Compile | None = None
        self._selective: dict[Queue, Subscription] = {}  # those with a selector or `no_local`

    def compiled(self, selector: str) -> Callable[[bytes], bool] | None:
        """Compile a selector; None: every message matches. Raises InvalidValue."""
        return self.compile(selector) if self.compile is not None and selector else None

    def wanting(self, queues: Sequence[Queue], body: bytes, publisher: Connection) -> Sequence[Queue]:
        """Return those of the queues a message is routed to whose subscriptions match it."""
        selective = self._selective
        if not selective:
            return queues
        return tuple(q for q in queues if q not in selective or selective[q].wants(body, publisher))

    def created(self, subscription: Subscription) -> None:
        """Register and persist a new subscription."""
        spec, queue = subscription.spec, subscription.queue
        self._register(self.registry.host_of(queue), subscription)
        self._add_fact("subscription-created", subscription, f"Create{' : Durable' if spec.durable else ''}")
        if spec.durable:
            record = {
                "virtualhost": queue.virtualhost,
                "queue": queue.name,
                "wish": asdict(spec),
                "created": subscription.created,
            }
            self.turn.records.append(PersistRecord("subscription", str(subscription.object_name), record))

    def forget(self, queue: Queue) -> None:
        """Remove the subscription of a queue that is being deleted."""
        found = self.registry.subscriptions.pop(queue, None)
        if found is None:
            return
        self._selective.pop(queue, None)
        self.slow_consumers.forget(found)
        self._add_fact("subscription-deleted", found, "Close")
        if found.spec.name:
            del self.registry.host_of(queue).subscriptions[found.spec.identity]
        if found.spec.durable:
            self.turn.records.append(PersistRecord("subscription", str(found.object_name), None))

    def restore(self, record: Mapping[str, Any]) -> None:
        """Restore a subscription from a record, after its queue. Ignored if the queue no longer exists."""
        host = self.registry.virtualhost(record["virtualhost"])
        queue = host.queues.get(record["queue"])
        if queue is not None:
            subscription = Subscription(SubscriptionSpec(**record["wish"]), queue, record["created"])
            subscription.matches = self.compiled(subscription.spec.selector)
            self._register(host, subscription)

    def _register(self, host: VirtualHost, subscription: Subscription) -> None:
        queue, spec = subscription.queue, subscription.spec
        self.registry.subscriptions[queue] = subscription
        if spec.name:
            host.subscriptions[spec.identity] = subscription
        if spec.no_local or subscription.matches is not None:
            self._selective[queue] = subscription
        self.slow_consumers.add(subscription)

    def _add_fact(self, kind: str, subscription: Subscription, words: str) -> None:
        spec, queue = subscription.spec, subscription.queue
        self.turn.add_fact(
            kind,
            subscription.object_name,
            queue_subject(queue.virtualhost, queue.name),
            f"{words} : {spec.words()}",
            {"queue": str(queue.object_name), "virtualhost": queue.virtualhost, **asdict(spec)},
        )
