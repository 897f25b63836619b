"""What must survive a restart, as records: one for each object, kept at each change, and taken up again at start.

A record is a plain map with what was set, never what follows from it. Exchanges, policies and stops keep their own
where they are made; this module knows all of them at start, since their order matters then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from brokers.engine.flow.turn import Keep
from brokers.engine.queues.queue import Queue
from brokers.engine.registry.virtualhost import VirtualHost
from brokers.engine.values.stops import Stop

if TYPE_CHECKING:
    from brokers.engine.broker import Broker


class Records:
    """See the module."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker

    def keep_queue(self, queue: Queue) -> None:
        if queue.transient:
            return
        record = {
            "virtualhost": queue.virtualhost,
            "name": queue.name,
            "own": queue.own,
            "version": queue.version,
            "store_id": queue.store_id,
        }
        self.broker.turn.keep.append(Keep("queue", str(queue.object_name), record))

    def keep_virtualhost(self, host: VirtualHost) -> None:
        record = {
            "name": host.name,
            "version": host.version,
            "defaults": host.defaults,
            "create_on_attach": host.create_on_attach,
            "anonymous": host.anonymous,
            "durable_queues": host.durable_queues,
            "transaction_idle_limit_ms": host.transaction_idle_limit_ms,
            "store_limits": host.store_limits,
        }
        self.broker.turn.keep.append(Keep("virtualhost", str(host.object_name), record))

    def keep_broker(self) -> None:
        record = {
            "version": self.broker.version,
            "defaults": self.broker.defaults,
            "last_store_id": self.broker.last_store_id,
            "limits": self.broker.shortages.limits,
        }
        self.broker.turn.keep.append(Keep("broker", "", record))

    def restore(self, records: Iterable[tuple[str, str, Mapping[str, Any]]]) -> None:
        """Take up the records of an earlier run, in any order; kinds that are not the engine's are passed over."""
        kinds: dict[str, list[Mapping[str, Any]]] = {}
        for kind, key, record in records:
            if kind == "user":
                self.broker.accounts.restore(key, record)
            kinds.setdefault(kind, []).append(record)
        for record in kinds.get("broker", ()):
            self.broker.version, self.broker.defaults = record["version"], dict(record["defaults"])
            self.broker.last_store_id = record.get("last_store_id", 0)
            self.broker.shortages.set_limits(record.get("limits", {}))
        for record in kinds.get("virtualhost", ()):
            host = self.broker.add_virtualhost(record["name"])
            host.version, host.defaults = record["version"], dict(record["defaults"])
            host.create_on_attach, host.anonymous = record["create_on_attach"], record["anonymous"]
            host.durable_queues = record.get("durable_queues", False)
            host.transaction_idle_limit_ms = record.get("transaction_idle_limit_ms", 0)
            self.broker.shortages.set_store_limits(host, record.get("store_limits", {}))
        for record in kinds.get("stop", ()):
            stop = Stop.from_record(dict(record))
            self.broker.stops[stop.scope] = stop
        for record in kinds.get("policy", ()):
            self.broker.enforcement.restore_policy(record)
        for record in kinds.get("exchange", ()):
            self.broker.routing.restore_exchange(record)
        for record in kinds.get("queue", ()):
            host, number = self.broker.virtualhost(record["virtualhost"]), record.get("store_id", 0)
            if number:
                self.broker.open_store(host)
            queue = self.broker.add_queue(host, record["name"], record["own"], number)
            queue.version = record["version"]
        for record in kinds.get("binding", ()):
            self.broker.routing.restore_binding(record)
        for record in kinds.get("slow-consumer-policy", ()):
            self.broker.slow_consumers.restore(record)
        for record in kinds.get("subscription", ()):
            self.broker.subscriptions.restore(record)
        for queue in self.broker.queues():
            settings, limits = self.broker.enforcement.settle(self.broker.enforcement.layers_of(queue))
            queue.set_limits(limits, settings)
            self.broker.stopping.stop_covered(queue)
            self.broker.turn.changed.add(queue)
            queue.stopped_since = min((stop.since for stop in queue.stops.values()), default=None)
        self.broker.turn.take_facts()  # they were stated in that run
        self.broker.turn.take_keep()
