"""The declared managed types of topics: subscriptions, and the policies that tell who is a slow consumer."""

from __future__ import annotations

from brokers.model.declarations import Attribute, Kind, ManagedType, Notification
from brokers.model.policy_fields import POLICY_CHANGED
from brokers.model.versions import VERSION

_A = Attribute

#: Stated on the subscription's queue, where its depth is shown.
SLOW_CONSUMER = Notification(
    "slow-consumer", "HGT-1010", "A subscription's consumer is slow: a trigger of its slow-consumer policy is reached."
)

SUBSCRIPTION = ManagedType(
    "Subscription",
    "What a client wants of a topic: a queue of its own, bound to the topic's exchange. Clients create them;"
    " deleting one disconnects its consumers and removes its messages.",
    ("virtualhost", "name"),
    (
        _A("virtualhost", Kind.STRING, "The virtual host it belongs to."),
        _A("name", Kind.STRING, "The name of its queue: subscriptions.TOPIC.CLIENT|NAME."),
        _A("held_in", Kind.NAME, "The queue that gathers its messages."),
        _A("topic", Kind.STRING, "What the client subscribed to."),
        _A("exchange", Kind.STRING, "The exchange that its queue is bound to."),
        _A("key", Kind.STRING, "The binding key."),
        _A("client", Kind.STRING, "The client's name for itself (its container-id). Empty: all clients."),
        _A("subscription", Kind.STRING, "The subscription's own name. Empty: it belongs to one link."),
        _A("durable", Kind.BOOLEAN, "It stays when no consumer is attached, also through a restart."),
        _A("shared", Kind.BOOLEAN, "Several consumers may share it: each message goes to one of them."),
        _A("selector", Kind.STRING, "Only messages that match it. Empty: all."),
        _A("no_local", Kind.BOOLEAN, "Without messages that its own client publishes."),
        _A("created", Kind.TIMESTAMP, "When it was created.", "ms"),
        _A("consumers", Kind.INTEGER, "Attached consumers.", "consumers"),
        _A("depth_messages", Kind.INTEGER, "Depth in messages, acquired ones included.", "messages"),
        _A("depth_bytes", Kind.INTEGER, "Depth in bytes, acquired messages included.", "bytes"),
        _A("unacknowledged_messages", Kind.INTEGER, "Messages sent to consumers and not settled.", "messages"),
        _A(
            "message_age_ms",
            Kind.INTEGER,
            "Since its oldest message came that is not settled, to about a second; since a restart at most.",
            "ms",
        ),
        _A("slow_consumer_policy", Kind.STRING, "The policy that matches it best.", nullable=True),
        _A("slow_since", Kind.TIMESTAMP, "When that found it slow, if it is.", "ms", nullable=True),
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
    "Which consumers of topics are slow, and what is done about them. Of several the best match of the topic"
    " counts, then of the subscription's name: the longest literal prefix, then fewer wildcards.",
    ("virtualhost", "name"),
    (
        _A("virtualhost", Kind.STRING, "The virtual host it belongs to.", creatable=True, required=True),
        _A("name", Kind.STRING, "The policy's name.", creatable=True, required=True),
        _A(
            "topic",
            Kind.STRING,
            "The topics it is for: * stands for one word, > or # for any number of words at the end. Not set:"
            " all, and then subscription must be.",
            writable=True,
            nullable=True,
        ),
        _A(
            "subscription",
            Kind.STRING,
            "The names of subscriptions it is for, likewise. Not set: all, also those without a name.",
            writable=True,
            nullable=True,
        ),
        _A(
            "depth",
            Kind.INTEGER,
            "Slow at this many bytes that are not acknowledged. 0 or not set: no matter.",
            "bytes",
            writable=True,
            nullable=True,
        ),
        _A(
            "messageAge",
            Kind.INTEGER,
            "Slow when the oldest message is not acknowledged for this long. 0 or not set: no matter.",
            "ms",
            writable=True,
            nullable=True,
        ),
        _A(
            "messageCount",
            Kind.INTEGER,
            "Slow at this many messages that are not acknowledged. 0 or not set: no matter.",
            "messages",
            writable=True,
            nullable=True,
        ),
        _A(
            "policy",
            Kind.STRING,
            "log: an event says so. topicdelete: the consumer is disconnected with an error, too, and its"
            " subscription deleted with its messages, durable or not.",
            writable=True,
            required=True,
            choices=("log", "topicdelete"),
        ),
        _A("subscriptions", Kind.INTEGER, "Subscriptions that it is the best match of.", "subscriptions"),
        VERSION,
    ),
    (),
    (POLICY_CHANGED,),
    creatable=True,
    deletable=True,
)
