"""Each declared managed type by its name, in the order in which they are listed. A new type is added here."""

from __future__ import annotations

from brokers.model.broker_types import BROKER, VIRTUAL_HOST
from brokers.model.client_types import CONNECTION, CONSUMER, PRODUCER
from brokers.model.declarations import ManagedType, Notification
from brokers.model.queue_types import EXCHANGE, POLICY_FOR_PATTERN, QUEUE
from brokers.model.topic_types import SLOW_CONSUMER_POLICY, SUBSCRIPTION
from brokers.model.user_type import USER

_DECLARED = (
    BROKER,
    VIRTUAL_HOST,
    QUEUE,
    POLICY_FOR_PATTERN,
    EXCHANGE,
    SUBSCRIPTION,
    SLOW_CONSUMER_POLICY,
    CONNECTION,
    PRODUCER,
    CONSUMER,
    USER,
)

TYPES: dict[str, ManagedType] = {declared.name: declared for declared in _DECLARED}

NOTIFICATIONS: dict[str, Notification] = {n.name: n for t in TYPES.values() for n in t.notifications}
