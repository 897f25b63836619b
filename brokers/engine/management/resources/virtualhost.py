"""The managed type VirtualHost."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from brokers.admin import NotAllowed
from brokers.engine.broker import Broker
from brokers.engine.management.resources.policies import (
    add_policy_changed_fact,
    explanation,
    merged_policy,
    merged_values,
    policy_of,
)
from brokers.engine.management.resources.resource import Change, ManagedResource, Values
from brokers.engine.management.resources.shared_readers import (
    item_readers,
    open_transactions,
    policy_readers,
    stops_at_time_of_day,
    total_readers,
    totals,
)
from brokers.engine.management.resources.stop_operations import stop_operations
from brokers.engine.registry.connection import Connection
from brokers.engine.registry.virtualhost import DEFAULT, VirtualHost
from brokers.engine.services.shortages import STORE_LIMITS, check_store_limits
from brokers.engine.values.policy import NOTHING, Layers, fields
from brokers.engine.values.stops import Scope
from brokers.model import ObjectName


class VirtualHostResource(ManagedResource[VirtualHost]):
    type_name = "VirtualHost"

    def __init__(self, broker: Broker) -> None:
        super().__init__()
        self.broker = broker
        self.readers = {
            "name": lambda host: host.name,
            "create_on_attach": lambda host: host.create_on_attach,
            "anonymous": lambda host: host.anonymous,
            "durable_queues": lambda host: host.durable_queues,
            "transaction_idle_limit_ms": lambda host: host.transaction_idle_limit_ms,
            **item_readers(STORE_LIMITS, lambda host: host.store_limits),
            "store_overfull": lambda host: host.store_usage.overfull,
            "store_used_bytes": lambda host: host.store.used_bytes if host.store else 0,
            **policy_readers(lambda host: host.defaults),
            **total_readers(self.read_together),
            "connections": lambda host: sum(1 for _ in self._connections(host)),
            "open_transactions": lambda host: open_transactions(self._connections(host)),
            "stops": lambda host: stops_at_time_of_day(
                broker.turn, (stop for stop in broker.stops.values() if stop.scope.virtualhost in ("", host.name))
            ),
            "version": lambda host: host.version,
        }
        self.operations = {
            **stop_operations(broker, lambda host, given: Scope(host.name, pattern=given.get("pattern", ""))),
            "explain": lambda host, _: explanation(
                self._layers(host), self._layers(host)._replace(virtualhost=NOTHING)
            ),
        }

    def _connections(self, host: VirtualHost) -> Iterable[Connection]:
        return (each for each in self.broker.connections.values() if each.virtualhost == host.name)

    def _layers(self, host: VirtualHost) -> Layers:
        return Layers(virtualhost=fields(host.defaults), broker=fields(self.broker.registry.defaults))

    def _explain(self, host: VirtualHost, given: Values) -> dict[str, Any]:
        layers = self._layers(host)
        return explanation(layers, layers._replace(virtualhost=NOTHING))

    def read_together(self, thing: VirtualHost) -> Values:
        return totals(thing.queues.values())

    def all(self) -> Iterable[VirtualHost]:
        return self.broker.virtualhosts.values()

    def look_up(self, name: ObjectName) -> VirtualHost:
        return self.broker.virtualhost(name["name"])

    def name_of(self, thing: VirtualHost) -> ObjectName:
        return thing.object_name

    def create_object(self, values: Values, actor: str) -> VirtualHost:
        broker = self.broker
        defaults = Layers(virtualhost=fields(policy_of(values)), broker=fields(broker.registry.defaults))
        broker.enforcement.effective(defaults)  # refused before anything is created
        created = broker.create_virtualhost(values["name"])
        self._set(created, values)
        broker.records.persist_virtualhost(created)
        return created

    def update_object(self, thing: VirtualHost, change: Change) -> None:
        self._set(thing, change.after)
        thing.version += 1
        self.broker.records.persist_virtualhost(thing)
        add_policy_changed_fact(self.broker.turn, thing.object_name, f"vh(/{thing.name})", change)

    def _set(self, host: VirtualHost, values: Values) -> None:
        limits = merged_values(host.store_limits, values, STORE_LIMITS)
        check_store_limits(limits)
        self.broker.set_virtualhost_defaults(host, merged_policy(host.defaults, values))
        self.broker.shortages.set_store_limits(host, limits)
        host.create_on_attach = values.get("create_on_attach", host.create_on_attach)
        allowed, host.anonymous = host.anonymous, values.get("anonymous", host.anonymous)
        if allowed and not host.anonymous:
            self.broker.accounts.end_anonymous_connections(host.name)
        host.durable_queues = values.get("durable_queues", host.durable_queues)
        host.transaction_idle_limit_ms = values.get("transaction_idle_limit_ms", host.transaction_idle_limit_ms)

    def delete_object(self, thing: VirtualHost, actor: str) -> None:
        if thing.name == DEFAULT:
            raise NotAllowed(f"virtual host {DEFAULT} is the default of clients: it cannot be deleted")
        self.broker.delete_virtualhost(thing)
