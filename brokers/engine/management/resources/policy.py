"""The managed type Policy: a destination policy, which sets policy fields for the queues that its pattern matches."""

from __future__ import annotations

from collections.abc import Iterable

from brokers.admin import InvalidValue
from brokers.engine.broker import Broker
from brokers.engine.management.resources.policies import explanation, merged_policy, policy_of
from brokers.engine.management.resources.resource import Change, ManagedResource, Values
from brokers.engine.management.resources.shared_readers import policy_readers
from brokers.engine.values.policy import Layers, Policy, fields
from brokers.model import ObjectName


class PolicyResource(ManagedResource[Policy]):
    type_name = "Policy"

    def __init__(self, broker: Broker) -> None:
        super().__init__()
        self.broker = broker
        self.readers = {
            "virtualhost": lambda policy: policy.virtualhost,
            "pattern": lambda policy: policy.pattern,
            "priority": lambda policy: policy.priority,
            **policy_readers(lambda policy: policy.given),
            "queues": lambda policy: broker.virtualhosts[policy.virtualhost].policies.count(policy.pattern),
            "version": lambda policy: policy.version,
        }
        self.operations = {
            "explain": lambda policy, _: explanation(
                self._around(policy)._replace(pattern=policy.layer), self._around(policy)
            )
        }

    def _around(self, policy: Policy) -> Layers:
        host = self.broker.virtualhosts[policy.virtualhost]
        return Layers(virtualhost=fields(host.defaults), broker=fields(self.broker.registry.defaults))

    def all(self) -> Iterable[Policy]:
        return (policy for host in self.broker.virtualhosts.values() for policy in host.policies.by_pattern.values())

    def look_up(self, name: ObjectName) -> Policy:
        return self.broker.enforcement.policy(name["virtualhost"], name["pattern"])

    def name_of(self, thing: Policy) -> ObjectName:
        return thing.object_name

    def create_object(self, values: Values, actor: str) -> Policy:
        if not values["virtualhost"]:
            raise InvalidValue({"virtualhost": "virtualhost is empty: a policy belongs to a virtual host"})
        host, priority = self.broker.virtualhost(values["virtualhost"]), values.get("priority", 0)
        return self.broker.enforcement.create_policy(
            host, values["pattern"], policy_of(values), priority=priority, actor=actor
        )

    def update_object(self, thing: Policy, change: Change) -> None:
        given, priority = merged_policy(thing.given, change.after), change.after.get("priority", thing.priority)
        self.broker.enforcement.update_policy(thing, given, priority=priority, actor=change.actor)

    def delete_object(self, thing: Policy, actor: str) -> None:
        self.broker.enforcement.delete_policy(thing, actor=actor)
