"""Records of what must survive a restart: one per object, left in the turn at each change.

A record is a plain map of settings, without derived values. The services of exchanges, policies, stops, subscriptions
and users write their own records; `restoring.py` restores them all.
"""

from __future__ import annotations

from brokers.engine.flow.turn import PersistRecord, Turn
from brokers.engine.queues.queue import Queue
from brokers.engine.registry.registry import Registry
from brokers.engine.registry.virtualhost import VirtualHost
from brokers.engine.services.shortages import Shortages


class Records:
    """See the module."""

    def __init__(self, registry: Registry, turn: Turn, shortages: Shortages) -> None:
        self.registry = registry
        self.turn = turn
        self.shortages = shortages

    def persist_queue(self, queue: Queue) -> None:
        if queue.transient:
            return
        record = {
            "virtualhost": queue.virtualhost,
            "name": queue.name,
            "own": queue.own,
            "version": queue.version,
            "store_id": queue.store_id,
        }
        self.turn.records.append(PersistRecord("queue", str(queue.object_name), record))

    def persist_virtualhost(self, host: VirtualHost) -> None:
        record = {
            "name": host.name,
            "version": host.version,
            "defaults": host.defaults,
            "create_on_attach": host.create_on_attach,
            "anonymous": host.anonymous,
            "durable_queues": host.durable_queues,
            "transaction_idle_limit_ms": host.transaction_idle_limit_ms,
            "store_limits": host.store_limits,
            "left_out": host.left_out,
        }
        self.turn.records.append(PersistRecord("virtualhost", str(host.object_name), record))

    def persist_broker(self) -> None:
        record = {
            "version": self.registry.version,
            "defaults": self.registry.defaults,
            "last_store_id": self.registry.last_store_id,
            "limits": self.shortages.limits,
        }
        self.turn.records.append(PersistRecord("broker", "", record))
