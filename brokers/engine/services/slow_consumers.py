"""Slow-consumer policies: their changes, and the check of all subscriptions once a second.

`registry/slow_consumer.py` says which consumers are slow. With the policy `topicdelete` slow consumers are disconnected
with an error and the subscription is deleted with its messages, durable or not, so that its publishers continue. With
`log` an event is published each time that a subscription becomes slow.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from brokers.admin import AlreadyExists, NotFound
from brokers.engine.flow.turn import PersistRecord, Turn
from brokers.engine.queues.queue import Queue
from brokers.engine.registry.registry import Registry
from brokers.engine.registry.slow_consumer import FIELDS, SlowConsumerPolicy, Value, best, check, words
from brokers.engine.registry.subscription import Subscription
from brokers.engine.registry.virtualhost import VirtualHost
from brokers.engine.values.events import policy_words, queue_subject
from brokers.engine.values.names import check_name


class SlowConsumers:
    """`watched`: subscription -> its best matching policy, for those that have one."""

    def __init__(self, registry: Registry, turn: Turn) -> None:
        self.registry = registry
        self.turn = turn
        self.watched: dict[Subscription, SlowConsumerPolicy] = {}

    # -- the check ------------------------------------------------------------------------------------------------

    def find_slow(self) -> list[tuple[Queue, str]]:
        """Check all subscriptions, about once a second, and add facts for those that have become slow. Return the
        queues to delete, with the error for their consumers."""
        found = list[tuple[Queue, str]]()
        now = self.turn.now
        for subscription in self.registry.subscriptions.values():
            subscription.arrivals.sample(subscription.queue.gate.enqueued, now)
        for subscription, policy in list(self.watched.items()):
            reached = policy.reached(subscription, now) if subscription.queue.gate.depth_messages else {}
            if not reached:
                subscription.slow_since = None
            elif subscription.slow_since is None:
                subscription.slow_since = now
                self._add_slow_fact(subscription, policy, reached)
            if reached and policy.deletes:
                why = f"subscription {subscription.queue.name} was deleted: {words(policy, reached)}"
                found.append((subscription.queue, why))
        return found

    def _add_slow_fact(
        self, subscription: Subscription, policy: SlowConsumerPolicy, reached: Mapping[str, tuple[int, int]]
    ) -> None:
        queue, spec = subscription.queue, subscription.spec
        attributes = {
            **queue.event_attributes(),
            "policy": policy.name,
            "action": policy.given["policy"],
            "topic": spec.topic,
            "subscription": spec.name,
            "client": spec.client,
            "clients": [consumer.connection.client for consumer in queue.dispatcher.destructive],
            "reached": {trigger: {"value": value, "limit": limit} for trigger, (value, limit) in reached.items()},
        }
        subject = queue_subject(queue.virtualhost, queue.name)
        self.turn.add_fact("slow-consumer", queue.object_name, subject, words(policy, reached), attributes)

    def add(self, subscription: Subscription) -> None:
        host = self.registry.virtualhosts[subscription.queue.virtualhost]
        self._watch(subscription, best(host.slow_consumer_policies.values(), subscription))

    def forget(self, subscription: Subscription) -> None:
        self.watched.pop(subscription, None)

    def _watch(self, subscription: Subscription, policy: SlowConsumerPolicy | None) -> None:
        if policy is not self.watched.get(subscription):
            subscription.slow_since = None  # by another policy
        if policy is None:
            self.watched.pop(subscription, None)
        else:
            self.watched[subscription] = policy

    # -- policies -------------------------------------------------------------------------------------------------

    def policy(self, virtualhost: str, name: str) -> SlowConsumerPolicy:
        try:
            return self.registry.virtualhost(virtualhost).slow_consumer_policies[name]
        except KeyError:
            raise NotFound(f"there is no slow-consumer policy {name} in virtual host {virtualhost}") from None

    def create(
        self, host: VirtualHost, name: str, given: Mapping[str, Value], *, actor: str = ""
    ) -> SlowConsumerPolicy:
        """Create a slow-consumer policy. Raises InvalidValue, AlreadyExists."""
        check_name("slow-consumer policy", name)
        if name in host.slow_consumer_policies:
            raise AlreadyExists(f"there is a slow-consumer policy {name} in virtual host {host.name} already")
        check(given)
        policy = SlowConsumerPolicy(host.name, name, dict(given))
        self._replace(host, None, policy, actor)
        return policy

    def update(self, policy: SlowConsumerPolicy, changes: Mapping[str, Any], *, actor: str = "") -> SlowConsumerPolicy:
        """Replace a policy and return the new one; None among the changes: not set. Raises InvalidValue."""
        merged = {**policy.given, **changes}
        given = {name: value for name, value in merged.items() if value is not None}
        check(given)
        after = SlowConsumerPolicy(policy.virtualhost, policy.name, given, policy.version + 1)
        self._replace(self.registry.virtualhosts[policy.virtualhost], policy, after, actor)
        return after

    def delete(self, policy: SlowConsumerPolicy, *, actor: str = "") -> None:
        self._replace(self.registry.virtualhosts[policy.virtualhost], policy, None, actor)

    def _replace(
        self, host: VirtualHost, before: SlowConsumerPolicy | None, after: SlowConsumerPolicy | None, actor: str
    ) -> None:
        policy = after or before
        assert policy is not None
        if after is None:
            del host.slow_consumer_policies[policy.name]
        else:
            host.slow_consumer_policies[policy.name] = after
        for subscription in self.registry.subscriptions.values():
            if subscription.queue.virtualhost == host.name:
                self.add(subscription)
        self._add_policy_fact(policy, before.given if before else {}, after.given if after else {}, actor)
        record = None if after is None else _record(after)
        self.turn.records.append(PersistRecord("slow-consumer-policy", str(policy.object_name), record))

    def _add_policy_fact(
        self, policy: SlowConsumerPolicy, before: Mapping[str, Value], after: Mapping[str, Value], actor: str
    ) -> None:
        changed = [name for name in FIELDS if before.get(name) != after.get(name)]
        old, new = {name: before.get(name) for name in changed}, {name: after.get(name) for name in changed}
        change = "created" if not before else "deleted" if not after else "changed"
        text = policy_words(old, new, change) if change == "changed" else policy_words(before, after, change)
        facts = {"before": old, "after": new, "change": change, "actor": actor}
        subject = f"vh(/{policy.virtualhost})/slow-consumer-policy({policy.name})"
        self.turn.add_fact("policy-changed", policy.object_name, subject, text, facts)

    def restore(self, record: Mapping[str, Any]) -> None:
        """Restore a policy from a record, before the subscriptions of its virtual host."""
        policy = SlowConsumerPolicy(record["virtualhost"], record["name"], dict(record["given"]), record["version"])
        self.registry.virtualhost(policy.virtualhost).slow_consumer_policies[policy.name] = policy


def _record(policy: SlowConsumerPolicy) -> dict[str, Any]:
    return {
        "virtualhost": policy.virtualhost,
        "name": policy.name,
        "given": dict(policy.given),
        "version": policy.version,
    }
