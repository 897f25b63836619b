"""Slow-consumer policies: their match by topic and subscription name, and their triggers.

A consumer of a subscription is slow when the subscription's queue is at or above one of the policy's triggers: `depth`
in bytes, `messageAge` of the oldest unacknowledged message in ms, `messageCount`. Of several policies the one with the
best match of the topic applies, then of the subscription's name; both match like policies of queues
(`brokers/model/patterns.py`). Wildcards in the topic of a subscription are plain words in this match: a policy for
`stocks.*` covers the subscription to `stocks.>`, a policy for `stocks.ibm` does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from brokers.admin import InvalidValue
from brokers.engine.registry.subscription import Subscription
from brokers.model import ObjectName, object_name
from brokers.model.patterns import Rank, match_rank, matches, pattern_fault

Value = int | str

TOPIC_DELETE, LOG = "topicdelete", "log"
TRIGGERS = ("depth", "messageAge", "messageCount")
FIELDS = ("topic", "subscription", *TRIGGERS, "policy")


@dataclass(frozen=True, slots=True, eq=False)
class SlowConsumerPolicy:
    """`given`: the values of those `FIELDS` that are set. Immutable: an update replaces it. The higher its `rank`, the
    better its match, for all subscriptions that it covers."""

    virtualhost: str
    name: str
    given: Mapping[str, Value]
    version: int = 1
    object_name: ObjectName = field(init=False)
    rank: tuple[Rank, Rank, str] = field(init=False)

    def __post_init__(self) -> None:
        named = object_name("SlowConsumerPolicy", virtualhost=self.virtualhost, name=self.name)
        object.__setattr__(self, "object_name", named)
        object.__setattr__(self, "rank", (match_rank(self.topic), match_rank(self.subscription), self.name))

    @property
    def topic(self) -> str:
        return str(self.given.get("topic") or ">")

    @property
    def subscription(self) -> str:
        return str(self.given.get("subscription") or ">")

    @property
    def deletes(self) -> bool:
        return self.given["policy"] == TOPIC_DELETE

    def covers(self, subscription: Subscription) -> bool:
        spec = subscription.spec
        return matches(self.topic, spec.topic) and matches(self.subscription, spec.name)

    def reached(self, subscription: Subscription, now: int) -> dict[str, tuple[int, int]]:
        """Return the reached triggers of a subscription: trigger -> (value, limit)."""
        found = {}
        for trigger in TRIGGERS:
            limit = self.given.get(trigger)
            if isinstance(limit, int) and limit:
                measured = _measured(trigger, subscription, now)
                if measured >= limit:
                    found[trigger] = (measured, limit)
        return found


def _measured(trigger: str, subscription: Subscription, now: int) -> int:
    """Return the value of a trigger, without delayed messages, which no consumer can receive yet."""
    queue = subscription.queue
    if trigger == "depth":
        return queue.gate.depth_bytes - queue.lanes.delayed.depth_bytes
    return (
        subscription.message_age(now)
        if trigger == "messageAge"
        else queue.gate.depth_messages - len(queue.lanes.delayed)
    )


def best(policies: Iterable[SlowConsumerPolicy], subscription: Subscription) -> SlowConsumerPolicy | None:
    return max((p for p in policies if p.covers(subscription)), key=lambda p: p.rank, default=None)


def check(given: Mapping[str, Value]) -> None:
    """Raise InvalidValue for fields that a policy cannot have."""
    wrong = {name: fault for name in ("topic", "subscription") if (fault := pattern_fault(str(given.get(name) or "")))}
    if not (given.get("topic") or given.get("subscription")):
        wrong["topic"] = "neither topic nor subscription is set: topic > stands for every topic"
    if not any(given.get(trigger) for trigger in TRIGGERS):
        wrong["messageCount"] = f"none of {', '.join(TRIGGERS)} is set: no consumer would be slow"
    if wrong:
        raise InvalidValue(wrong)


def words(policy: SlowConsumerPolicy, reached: Mapping[str, tuple[int, int]]) -> str:
    """Return the words of the event."""
    texts = {"depth": "Size : {:,} bytes, Limit : {:,}", "messageAge": "Age : {:,} ms, Limit : {:,}"}
    each = [texts.get(trigger, "Messages : {:,}, Limit : {:,}").format(*both) for trigger, both in reached.items()]
    return f"Slow Consumer : {', '.join(each)}, Policy : {policy.name} ({policy.given['policy']})"
