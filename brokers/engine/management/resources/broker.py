"""The managed type Broker: the broker process with its defaults, limits and totals."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from brokers.engine.broker import Broker
from brokers.engine.flow.usage import Resource
from brokers.engine.management.preview import Preview
from brokers.engine.management.resources.policies import (
    add_policy_changed_fact,
    explanation,
    merged_policy,
    merged_values,
)
from brokers.engine.management.resources.resource import Change, ManagedResource, Reader, Values
from brokers.engine.management.resources.shared_readers import (
    item_readers,
    open_transactions,
    policy_readers,
    stops_at_time_of_day,
    time_reader,
    total_readers,
    totals,
)
from brokers.engine.management.resources.stop_operations import stop_operations
from brokers.engine.services.shortages import LIMITS, check_limits
from brokers.engine.values.policy import Layers, fields
from brokers.engine.values.stops import Scope
from brokers.model import ObjectName

PRODUCT = "Headgate broker"

#: The default number of queues that a preview lists.
NAMED = 20

_LIMIT_ATTRIBUTES = tuple(name for names in LIMITS.values() for name in names)


class BrokerResource(ManagedResource[Broker]):
    type_name = "Broker"

    def __init__(self, broker: Broker) -> None:
        super().__init__()
        self.broker = broker
        self.preview = Preview(broker)
        shortages = broker.shortages
        self.readers = {
            "product": lambda b: PRODUCT,
            "product_version": lambda b: b.product_version,
            "started": time_reader(broker.turn, lambda b: b.started),
            **policy_readers(lambda b: b.registry.defaults),
            **total_readers(self.read_together),
            "connections": lambda b: len(b.connections),
            "open_transactions": lambda b: open_transactions(b.connections.values()),
            **item_readers(_LIMIT_ATTRIBUTES, lambda b: shortages.limits),
            **self._usage_readers(),
            "shortages": lambda b: [usage.reason for usage in shortages.usages.values() if usage.overfull],
            "stops": lambda b: stops_at_time_of_day(b.turn, b.stops.values()),
            "last_event": lambda b: b.last_event,
            "log": lambda b: b.log,
            "journal": lambda b: b.journal,
            "version": lambda b: b.registry.version,
        }
        self.operations = {
            **stop_operations(broker, lambda _, given: Scope(pattern=given.get("pattern", ""))),
            "explain": lambda b, _: explanation(Layers(broker=fields(b.registry.defaults)), Layers()),
            "preview-change": self._preview_change,
        }

    def _usage_readers(self) -> dict[str, Reader[Broker]]:
        """Return readers of each limited resource's usage, effective limit, and the origin of that limit."""
        shortages = self.broker.shortages

        def readers(resource: Resource) -> dict[str, Reader[Broker]]:
            name = resource.name.lower()
            return {
                f"{name}_limit_bytes": lambda _: shortages.effective_limit(resource),
                f"{name}_limit_origin": lambda _: shortages.origin(resource),
                f"{name}_used_bytes": lambda _: shortages.used(resource),
            }

        return {name: read for resource in LIMITS for name, read in readers(resource).items()}

    def read_together(self, thing: Broker) -> Values:
        return totals(thing.queues())

    def all(self) -> Iterable[Broker]:
        return [self.broker]

    def look_up(self, name: ObjectName) -> Broker:
        return self.broker

    def name_of(self, thing: Broker) -> ObjectName:
        return thing.object_name

    def update_object(self, thing: Broker, change: Change) -> None:
        limits = merged_values(thing.shortages.limits, change.after, _LIMIT_ATTRIBUTES)
        check_limits(limits)
        thing.set_broker_defaults(merged_policy(thing.registry.defaults, change.after))
        thing.shortages.set_limits(limits)
        thing.registry.version += 1
        thing.records.persist_broker()
        add_policy_changed_fact(thing.turn, thing.object_name, "broker", change)

    def _preview_change(self, broker: Broker, given: Values) -> dict[str, Any]:
        one_by_one = given.get("one_by_one", False)
        return self.preview.preview(given["changes"], given.get("largest", NAMED), one_by_one=one_by_one)
