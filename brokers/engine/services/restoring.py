"""The restoration of an earlier run's records at start, in order of their dependencies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from brokers.engine.queues.agenda import Agenda
from brokers.engine.queues.queue import Queue
from brokers.engine.registry.registry import Registry
from brokers.engine.services.accounts import Accounts
from brokers.engine.services.active_subscriptions import ActiveSubscriptions
from brokers.engine.services.enforcement import Enforcement
from brokers.engine.services.queue_lifecycle import QueueLifecycle
from brokers.engine.services.routing import Routing
from brokers.engine.services.shortages import Shortages
from brokers.engine.services.slow_consumers import SlowConsumers
from brokers.engine.services.stopping import Stopping
from brokers.engine.services.stores import OpenStores
from brokers.engine.services.virtualhost_lifecycle import VirtualHostLifecycle
from brokers.engine.values.stops import Stop

Record = Mapping[str, Any]


class Restoring:
    """See the module."""

    def __init__(
        self,
        registry: Registry,
        agenda: Agenda[Queue],
        *,
        stores: OpenStores,
        accounts: Accounts,
        shortages: Shortages,
        enforcement: Enforcement,
        routing: Routing,
        stopping: Stopping,
        slow_consumers: SlowConsumers,
        subscriptions: ActiveSubscriptions,
        queues: QueueLifecycle,
        virtualhosts: VirtualHostLifecycle,
    ) -> None:
        self.registry = registry
        self.agenda = agenda
        self.turn = agenda.turn
        self.stores = stores
        self.accounts = accounts
        self.shortages = shortages
        self.enforcement = enforcement
        self.routing = routing
        self.stopping = stopping
        self.slow_consumers = slow_consumers
        self.subscriptions = subscriptions
        self.queues = queues
        self.virtualhosts = virtualhosts

    def restore(self, records: Iterable[tuple[str, str, Record]]) -> None:  # noqa: C901 - a loop for each kind, in order
        """Restore the broker. `records`: (kind, key, record), in any order; kinds of others than the engine are
        ignored. Raises InvalidValue for a damaged user."""
        kinds: dict[str, list[Record]] = {}
        for kind, key, record in records:
            if kind == "user":
                self.accounts.restore(key, record)
            kinds.setdefault(kind, []).append(record)
        for record in kinds.get("broker", ()):
            self._restore_broker(record)
        for record in kinds.get("virtualhost", ()):
            self._restore_virtualhost(record)
        for record in kinds.get("stop", ()):
            stop = Stop.from_record(dict(record))
            self.registry.stops[stop.scope] = stop
        for record in kinds.get("policy", ()):
            self.enforcement.restore_policy(record)
        for record in kinds.get("exchange", ()):
            self.routing.restore_exchange(record)
        for record in kinds.get("queue", ()):
            self._restore_queue(record)
        for record in kinds.get("binding", ()):
            self.routing.restore_binding(record)
        for record in kinds.get("slow-consumer-policy", ()):
            self.slow_consumers.restore(record)
        for record in kinds.get("subscription", ()):
            self.subscriptions.restore(record)
        self._apply()
        self.turn.take_facts()  # the earlier run has journaled them
        self.turn.take_records()

    def _restore_broker(self, record: Record) -> None:
        self.registry.version, self.registry.defaults = record["version"], dict(record["defaults"])
        self.registry.last_store_id = record.get("last_store_id", 0)
        self.shortages.set_limits(record.get("limits", {}))

    def _restore_virtualhost(self, record: Record) -> None:
        host = self.virtualhosts.add(record["name"])
        host.version, host.defaults = record["version"], dict(record["defaults"])
        host.create_on_attach, host.anonymous = record["create_on_attach"], record["anonymous"]
        host.durable_queues = record.get("durable_queues", False)
        host.transaction_idle_limit_ms = record.get("transaction_idle_limit_ms", 0)
        self.shortages.set_store_limits(host, record.get("store_limits", {}))
        host.left_out = record.get("left_out", 0)

    def _restore_queue(self, record: Record) -> None:
        host, number = self.registry.virtualhost(record["virtualhost"]), record.get("store_id", 0)
        if number:
            self.stores.open(host)
        queue = self.queues.add(host, record["name"], record["own"], number)
        queue.version = record["version"]

    def _apply(self) -> None:
        """Apply the effective limits and stops to every queue."""
        for queue in self.registry.queues():
            settings, limits = self.enforcement.effective(self.enforcement.layers_of(queue))
            queue.gate.set_limits(limits, settings)
            self.registry.host_of(queue).limits_changed()
            self.stopping.stop_covered(queue)
            self.agenda.changed.add(queue)
            queue.gate.stopped_since = min((stop.since for stop in queue.gate.stops.values()), default=None)
