"""The managed type Exchange, with its bindings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from brokers.engine.broker import Broker
from brokers.engine.management.resources.policies import add_policy_changed_fact, explanation, merged_policy, policy_of
from brokers.engine.management.resources.resource import Change, ManagedResource, Values
from brokers.engine.management.resources.shared_readers import policy_readers, stops_at_time_of_day
from brokers.engine.management.resources.stop_operations import stop_operations
from brokers.engine.registry.exchange import Exchange
from brokers.engine.values.policy import Layers, fields
from brokers.engine.values.stops import Scope, Stop
from brokers.model import ObjectName


class ExchangeResource(ManagedResource[Exchange]):
    type_name = "Exchange"

    def __init__(self, broker: Broker) -> None:
        super().__init__()
        self.broker = broker
        self.readers = {
            "virtualhost": lambda exchange: exchange.virtualhost,
            "name": lambda exchange: exchange.name,
            "exchange_type": lambda exchange: exchange.kind,
            **policy_readers(lambda exchange: exchange.own),
            "queues": lambda exchange: len(exchange.bindings),
            "stops": lambda exchange: stops_at_time_of_day(broker.turn, self._stops(exchange)),
            "bindings": lambda exchange: [
                {"queue": queue.name, "key": key} for queue, keys in exchange.bindings.items() for key in keys
            ],
            "version": lambda exchange: exchange.version,
        }
        self.operations = {
            **stop_operations(broker, lambda exchange, _: _scope(exchange)),
            "explain": self._explain,
            "bind": self._bind,
            "unbind": self._unbind,
        }

    def _stops(self, exchange: Exchange) -> Iterable[Stop]:
        here = (exchange.virtualhost, exchange.name)
        return (s for s in self.broker.stops.values() if (s.scope.virtualhost, s.scope.exchange) == here)

    def all(self) -> Iterable[Exchange]:
        return (exchange for host in self.broker.virtualhosts.values() for exchange in host.exchanges.values())

    def look_up(self, name: ObjectName) -> Exchange:
        return self.broker.registry.exchange(name["virtualhost"], name["name"])

    def name_of(self, thing: Exchange) -> ObjectName:
        return thing.object_name

    def create_object(self, values: Values, actor: str) -> Exchange:
        host = self.broker.virtualhost(values["virtualhost"])
        return self.broker.routing.create_exchange(
            host, values["name"], values["exchange_type"], policy_of(values), actor=actor
        )

    def update_object(self, thing: Exchange, change: Change) -> None:
        self.broker.routing.set_policy(thing, merged_policy(thing.own, change.after))
        subject = f"vh(/{thing.virtualhost})/ex({thing.kind}/{thing.name})"
        add_policy_changed_fact(self.broker.turn, thing.object_name, subject, change)

    def delete_object(self, thing: Exchange, actor: str) -> None:
        self.broker.routing.delete_exchange(thing, actor=actor)

    def _explain(self, exchange: Exchange, given: Values) -> dict[str, Any]:
        host = self.broker.virtualhosts[exchange.virtualhost]
        around = Layers(virtualhost=fields(host.defaults), broker=fields(self.broker.registry.defaults))
        return explanation(around._replace(exchanges=((exchange.origin, fields(exchange.own)),)), around)

    def _bind(self, exchange: Exchange, given: Values) -> dict[str, Any]:
        queue = self.broker.queue(exchange.virtualhost, given["queue"])
        return {"changed": self.broker.routing.bind(exchange, queue, given.get("key", ""), actor=given["actor"])}

    def _unbind(self, exchange: Exchange, given: Values) -> dict[str, Any]:
        queue = self.broker.queue(exchange.virtualhost, given["queue"])
        return {"changed": self.broker.routing.unbind(exchange, queue, given.get("key", ""), actor=given["actor"])}


def _scope(exchange: Exchange) -> Scope:
    return Scope(exchange.virtualhost, exchange=exchange.name)
