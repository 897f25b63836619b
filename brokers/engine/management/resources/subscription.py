"""The managed types Subscription and SlowConsumerPolicy."""

from __future__ import annotations

from collections.abc import Iterable

from brokers.engine.broker import Broker
from brokers.engine.management.resources.resource import Change, ManagedResource, Values
from brokers.engine.management.resources.shared_readers import item_readers, time_reader
from brokers.engine.registry.slow_consumer import FIELDS, SlowConsumerPolicy
from brokers.engine.registry.subscription import Subscription
from brokers.model import ObjectName


class SubscriptionResource(ManagedResource[Subscription]):
    type_name = "Subscription"

    def __init__(self, broker: Broker) -> None:
        super().__init__()
        self.broker = broker
        self.readers = {
            "virtualhost": lambda s: s.queue.virtualhost,
            "name": lambda s: s.queue.name,
            "held_in": lambda s: str(s.queue.object_name),
            "topic": lambda s: s.spec.topic,
            "exchange": lambda s: s.spec.exchange,
            "key": lambda s: s.spec.key,
            "client": lambda s: s.spec.client,
            "durable": lambda s: s.spec.durable,
            "shared": lambda s: s.spec.shared,
            "selector": lambda s: s.spec.selector,
            "no_local": lambda s: s.spec.no_local,
            "subscription": lambda s: s.spec.name,
            "created": lambda s: s.created,
            "consumers": lambda s: s.queue.consumer_count,
            "depth_messages": lambda s: s.queue.gate.depth_messages,
            "depth_bytes": lambda s: s.queue.gate.depth_bytes,
            "unacknowledged_messages": lambda s: s.queue.lanes.unacknowledged,
            "message_age_ms": lambda s: s.message_age(broker.turn.now),
            "slow_consumer_policy": self._slow_consumer_policy,
            "slow_since": time_reader(broker.turn, lambda s: s.slow_since),
            "version": lambda s: s.version,
        }

    def _slow_consumer_policy(self, subscription: Subscription) -> str | None:
        policy = self.broker.slow_consumers.watched.get(subscription)
        return policy.name if policy is not None else None

    def all(self) -> Iterable[Subscription]:
        return self.broker.registry.subscriptions.values()

    def look_up(self, name: ObjectName) -> Subscription:
        return self.broker.registry.subscription(name["virtualhost"], name["name"])

    def name_of(self, thing: Subscription) -> ObjectName:
        return thing.object_name

    def delete_object(self, thing: Subscription, actor: str) -> None:
        by = f" by {actor}" if actor else ""
        self.broker.delete_queue(thing.queue, f"subscription {thing.queue.name} was deleted{by}")


class SlowConsumerPolicyResource(ManagedResource[SlowConsumerPolicy]):
    type_name = "SlowConsumerPolicy"

    def __init__(self, broker: Broker) -> None:
        super().__init__()
        self.broker = broker
        watched = broker.slow_consumers.watched
        self.readers = {
            "virtualhost": lambda policy: policy.virtualhost,
            "name": lambda policy: policy.name,
            **item_readers(FIELDS, lambda policy: policy.given),
            "subscriptions": lambda policy: sum(1 for each in watched.values() if each is policy),
            "version": lambda policy: policy.version,
        }

    def all(self) -> Iterable[SlowConsumerPolicy]:
        hosts = self.broker.virtualhosts.values()
        return (policy for host in hosts for policy in host.slow_consumer_policies.values())

    def look_up(self, name: ObjectName) -> SlowConsumerPolicy:
        return self.broker.slow_consumers.policy(name["virtualhost"], name["name"])

    def name_of(self, thing: SlowConsumerPolicy) -> ObjectName:
        return thing.object_name

    def create_object(self, values: Values, actor: str) -> SlowConsumerPolicy:
        host = self.broker.virtualhost(values["virtualhost"])
        given = {name: values[name] for name in FIELDS if values.get(name) is not None}
        return self.broker.slow_consumers.create(host, values["name"], given, actor=actor)

    def update_object(self, thing: SlowConsumerPolicy, change: Change) -> None:
        self.broker.slow_consumers.update(thing, change.after, actor=change.actor)

    def delete_object(self, thing: SlowConsumerPolicy, actor: str) -> None:
        self.broker.slow_consumers.delete(thing, actor=actor)
