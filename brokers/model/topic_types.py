"""The declared managed types of topics: subscriptions, and the policies that define slow consumers."""

from __future__ import annotations

from brokers.model.declarations import Attribute, Kind, ManagedType, Notification
from brokers.model.policy_fields import POLICY_CHANGED
from brokers.model.versions import VERSION

_A = Attribute

#: Reported for the subscription's queue, which has the depth.
SLOW_CONSUMER = Notification(
    "slow-consumer", "HGT-1010", "A subscription's consumer is slow: a trigger of its slow-consumer policy is reached."
)

SUBSCRIPTION = ManagedType(
    "Subscription",
    "A client's subscription to a topic: a queue of its own, bound to the topic's exchange. Clients create them;"
    " deleting one disconnects its consumers and removes its messages.",
    ("virtualhost", "name"),
    (
        _A("virtualhost", Kind.STRING, "The virtual host it belongs to."),
        _A("name", Kind.STRING, "The name of its queue: subscriptions.TOPIC.CLIENT|NAME."),
        _A("held_in", Kind.NAME, "The queue with its messages."),
        _A("topic", Kind.STRING, "What the client subscribed to."),
        _A("exchange", Kind.STRING, "The exchange that its queue is bound to."),
        _A("key", Kind.STRING, "The binding key."),
        _A("client", Kind.STRING, "The client's name for itself (its container-id). Empty: all clients."),
        _A("subscription", Kind.STRING, "The subscription's own name. Empty: it belongs to one link."),
        _A("durable", Kind.BOOLEAN, "It persists without an attached consumer, also across restarts."),
        _A("shared", Kind.BOOLEAN, "Several consumers may share it: each message goes to one of them."),
        _A("selector", Kind.STRING, "Only messages that match it. Empty: all."),
        _A("no_local", Kind.BOOLEAN, "Exclude messages that its own client publishes."),
        _A("created", Kind.TIMESTAMP, "When it was created.", "ms"),
        _A("consumers", Kind.INTEGER, "Attached consumers.", "consumers"),
        _A("depth_messages", Kind.INTEGER, "Depth in messages, acquired ones included.", "messages"),
        _A("depth_bytes", Kind.INTEGER, "Depth in bytes, acquired messages included.", "bytes"),
        _A("unacknowledged_messages", Kind.INTEGER, "Messages sent to consumers and not settled.", "messages"),
        _A(
            "message_age_ms",
            Kind.INTEGER,
            "Age of its oldest unsettled message, to about a second, counted from the last restart at most.",
            "ms",
        ),
        _A("slow_consumer_policy", Kind.STRING, "The best matching slow-consumer policy.", nullable=True),
        _A("slow_since", Kind.TIMESTAMP, "When that policy found it slow, if it is.", "ms", nullable=True),
        VERSION,
    ),
    (),
    (
        Notification("subscription-created", "SUB-1001", "A client subscribed to a topic."),
        Notification("subscription-deleted", "SUB-1002", "A subscription has ended."),
    ),
    deletable=True,
)

SLOW_CONSUMER_POLICY = ManagedType(
    "SlowConsumerPolicy",
    "Which consumers of topics are slow, and the action for them. If several match, the best match of the topic"
    " applies, then of the subscription's name: the longest literal prefix, then fewer wildcards.",
    ("virtualhost", "name"),
    (
        _A("virtualhost", Kind.STRING, "The virtual host it belongs to.", creatable=True, required=True),
        _A("name", Kind.STRING, "The policy's name.", creatable=True, required=True),
        _A(
            "topic",
            Kind.STRING,
            "The topics it applies to: * stands for one word, > or # for any number of words at the end. Not set:"
            " all; then subscription must be set.",
            writable=True,
            nullable=True,
        ),
        _A(
            "subscription",
            Kind.STRING,
            "The names of subscriptions it applies to, likewise. Not set: all, also those without a name.",
            writable=True,
            nullable=True,
        ),
        _A(
            "depth",
            Kind.INTEGER,
            "Slow at this many unacknowledged bytes. 0 or not set: not checked.",
            "bytes",
            writable=True,
            nullable=True,
        ),
        _A(
            "messageAge",
            Kind.INTEGER,
            "Slow when the oldest message has been unacknowledged for this long. 0 or not set: not checked.",
            "ms",
            writable=True,
            nullable=True,
        ),
        _A(
            "messageCount",
            Kind.INTEGER,
            "Slow at this many unacknowledged messages. 0 or not set: not checked.",
            "messages",
            writable=True,
            nullable=True,
        ),
        _A(
            "policy",
            Kind.STRING,
            "log: an event reports it. topicdelete: also disconnect the consumer with an error and delete its"
            " subscription with its messages, durable or not.",
            writable=True,
            required=True,
            choices=("log", "topicdelete"),
        ),
        _A("subscriptions", Kind.INTEGER, "Subscriptions of which it is the best match.", "subscriptions"),
        VERSION,
    ),
    (),
    (POLICY_CHANGED,),
    creatable=True,
    deletable=True,
)
