"""The declared managed types of queues, of the policies for patterns of queues, and of exchanges."""

from __future__ import annotations

from brokers.model.declarations import Attribute, Kind, ManagedType, Notification, Operation
from brokers.model.message_operations import MESSAGE_NOTIFICATIONS, MESSAGE_OPERATIONS
from brokers.model.policy_fields import POLICY, POLICY_CHANGED
from brokers.model.policy_operations import EXPLAIN
from brokers.model.stop_operations import ACTOR, REASON, STARTED, STOPPED, stop_and_start
from brokers.model.topic_types import SLOW_CONSUMER
from brokers.model.versions import VERSION

_A = Attribute

QUEUE_STATES = ("NORMAL", "OVERFULL", "STOPPED", "OVERFULL_STOPPED")

_BINDING = (
    _A("queue", Kind.STRING, "The queue's name; it is in the exchange's virtual host.", required=True),
    _A("key", Kind.STRING, "The binding key. Not set: empty."),
    ACTOR,
)

QUEUE = ManagedType(
    "Queue",
    "A first-in first-out queue with producers, consumers and a flow-control policy.",
    ("virtualhost", "name"),
    (
        _A("virtualhost", Kind.STRING, "The virtual host it belongs to.", creatable=True, required=True),
        _A("name", Kind.STRING, "The queue's name.", creatable=True, required=True),
        _A(
            "durable",
            Kind.BOOLEAN,
            "Durable messages in it are stored before they are accepted, and survive a restart of the broker.",
            creatable=True,
        ),
        _A(
            "temporary_for",
            Kind.STRING,
            "The connection that owns a temporary queue; its end deletes the queue. Empty: none.",
        ),
        _A("state", Kind.STRING, "The flow-control state.", choices=QUEUE_STATES),
        _A("depth_messages", Kind.INTEGER, "Depth in messages, acquired ones included.", "messages"),
        _A("depth_bytes", Kind.INTEGER, "Depth in bytes, acquired messages included.", "bytes"),
        _A("unacknowledged_messages", Kind.INTEGER, "Messages sent to consumers and not settled.", "messages"),
        _A(
            "delayed_messages",
            Kind.INTEGER,
            "Messages before their delivery time, and dead letters that wait until the store has room for them: part of"
            " the depth, not delivered to consumers.",
            "messages",
        ),
        _A("delayed_bytes", Kind.INTEGER, "Bytes of delayed messages, part of the depth.", "bytes"),
        _A("next_delivery_time", Kind.TIMESTAMP, "When the next delayed message is due.", "ms", nullable=True),
        _A(
            "uncommitted_messages",
            Kind.INTEGER,
            "Messages of open transactions, part of the depth.",
            "messages",
        ),
        _A("uncommitted_bytes", Kind.INTEGER, "Bytes of open transactions, part of the depth.", "bytes"),
        _A(
            "parked_messages",
            Kind.INTEGER,
            "Parked messages: arrived while the queue was overfull, unsettled, not part of the depth.",
            "messages",
        ),
        _A("parked_bytes", Kind.INTEGER, "Bytes of parked messages: they count as memory.", "bytes"),
        _A(
            "oldest_message_at",
            Kind.TIMESTAMP,
            "When the oldest message that consumers may get arrived, to about a second. None: there is none, or it"
            " arrived before the broker's last start.",
            "ms",
            nullable=True,
        ),
        _A("dead_letter_sources", Kind.INTEGER, "Queues whose dead letters go to it.", "queues"),
        *POLICY,
        _A("effective_capacity_bytes", Kind.INTEGER, "Effective capacity. 0: no limit.", "bytes"),
        _A("effective_stop_bytes", Kind.INTEGER, "Effective stop level. 0: no limit.", "bytes"),
        _A("effective_resume_bytes", Kind.INTEGER, "Effective resume level.", "bytes"),
        _A("effective_capacity_messages", Kind.INTEGER, "Effective capacity. 0: no limit.", "messages"),
        _A("effective_stop_messages", Kind.INTEGER, "Effective stop level. 0: no limit.", "messages"),
        _A("effective_resume_messages", Kind.INTEGER, "Effective resume level.", "messages"),
        _A("producers", Kind.INTEGER, "Attached producers.", "producers"),
        _A("blocked_producers", Kind.INTEGER, "Producers that are blocked now.", "producers"),
        _A(
            "waiting_producers",
            Kind.INTEGER,
            "Producers that are not blocked and wait for credit.",
            "producers",
        ),
        _A("draining_producers", Kind.INTEGER, "Producers whose credit is being withdrawn.", "producers"),
        _A("consumers", Kind.INTEGER, "Attached consumers.", "consumers"),
        _A(
            "credit", Kind.INTEGER, "Outstanding credit of the producers, including credit being withdrawn.", "messages"
        ),
        _A("rate_in", Kind.NUMBER, "Messages enqueued in the last second.", "messages/s"),
        _A("rate_out", Kind.NUMBER, "Messages dequeued in the last second.", "messages/s"),
        _A("enqueued_messages", Kind.INTEGER, "Total number of messages enqueued.", "messages"),
        _A("dequeued_messages", Kind.INTEGER, "Total number of messages dequeued.", "messages"),
        _A("overfull_since", Kind.TIMESTAMP, "When it became overfull, if it is.", "ms", nullable=True),
        _A("stopped_since", Kind.TIMESTAMP, "When it was stopped, if it is.", "ms", nullable=True),
        _A("rejected_messages", Kind.INTEGER, "Messages rejected because the queue was overfull.", "messages"),
        _A(
            "longest_wait_ms",
            Kind.INTEGER,
            "The longest time for which it has blocked a producer or withheld a settlement.",
            "ms",
        ),
        _A("dropped_messages", Kind.INTEGER, "Messages that the ring queue has dropped.", "messages"),
        _A("expired_messages", Kind.INTEGER, "Messages removed because their time to live had passed.", "messages"),
        _A(
            "dead_lettered_messages",
            Kind.INTEGER,
            "Messages moved to the dead-letter queue because they were rejected or their deliveries failed too often.",
            "messages",
        ),
        _A(
            "discarded_messages",
            Kind.INTEGER,
            "Messages removed for the same reasons without a dead-letter queue.",
            "messages",
        ),
        _A("overfull_count", Kind.INTEGER, "How often it became overfull.", "times"),
        _A("overfull_ms", Kind.INTEGER, "Total time for which it has been overfull.", "ms"),
        _A("stops", Kind.LIST, "Operator stops of its producers: maps of scope, reason, actor, since (ms)."),
        _A("policy", Kind.STRING, "Pattern of the best matching policy, if there is one.", nullable=True),
        _A("bindings", Kind.LIST, "Its bindings: maps of exchange, key."),
        VERSION,
    ),
    (
        *stop_and_start("the queue", pattern=False),
        *MESSAGE_OPERATIONS,
        EXPLAIN,
        Operation(
            "check",
            "Get the effective limits that these attributes would have, or their errors. Changes nothing.",
            (_A("attributes", Kind.MAP, "Policy attributes as for an update.", required=True),),
            (_A("effective", Kind.MAP, "Effective attribute -> its value with these attributes."),),
        ),
        Operation(
            "purge",
            "Remove every message that no consumer has acquired.",
            (REASON, ACTOR),
            (_A("messages", Kind.INTEGER, "Messages removed.", "messages"),),
            "destroy",
        ),
    ),
    (
        Notification("queue-created", "QUE-1001", "The queue was created."),
        Notification("queue-deleted", "QUE-1002", "The queue was deleted."),
        Notification("queue-overfull", "QUE-1003", "The queue went above its stop level."),
        Notification("queue-underfull", "QUE-1004", "The depth fell to the queue's resume level or below."),
        Notification("queue-dropped", "QUE-1005", "A ring queue dropped its oldest messages."),
        Notification("queue-purged", "HGT-1004", "An operator removed the queue's messages."),
        Notification("queue-dead-lettered", "HGT-1011", "Messages were moved to the dead-letter queue."),
        Notification(
            "queue-discarded",
            "HGT-1012",
            "Messages were discarded because there is no dead-letter queue.",
        ),
        *MESSAGE_NOTIFICATIONS,
        SLOW_CONSUMER,
        POLICY_CHANGED,
        STOPPED,
        STARTED,
    ),
    creatable=True,
    deletable=True,
)

POLICY_FOR_PATTERN = ManagedType(
    "Policy",
    "A flow-control policy for the queues of a virtual host whose names match a pattern. If several match, the best"
    " match applies: the longest literal prefix, then fewer wildcards, then the higher priority.",
    ("virtualhost", "pattern"),
    (
        _A("virtualhost", Kind.STRING, "The virtual host it belongs to.", creatable=True, required=True),
        _A(
            "pattern",
            Kind.STRING,
            "The queues it applies to: * stands for one word, > or # for any number of words at the end.",
            creatable=True,
            required=True,
        ),
        _A("priority", Kind.INTEGER, "Decides between patterns that match equally well.", writable=True),
        *POLICY,
        _A("queues", Kind.INTEGER, "Queues of which it is the best match.", "queues"),
        VERSION,
    ),
    (EXPLAIN,),
    (POLICY_CHANGED,),
    creatable=True,
    deletable=True,
)

EXCHANGE = ManagedType(
    "Exchange",
    "Routes messages by their routing key to the queues that are bound to it, which inherit its policy.",
    ("virtualhost", "name"),
    (
        _A("virtualhost", Kind.STRING, "The virtual host it belongs to.", creatable=True, required=True),
        _A("name", Kind.STRING, "The exchange's name.", creatable=True, required=True),
        _A(
            "exchange_type",
            Kind.STRING,
            "direct: to queues bound with exactly that key. topic: where the binding key matches, * being one word,"
            " # or > any number of words. fanout: to every bound queue.",
            creatable=True,
            required=True,
            choices=("direct", "topic", "fanout"),
        ),
        *POLICY,
        _A("queues", Kind.INTEGER, "Queues that are bound to it.", "queues"),
        _A("bindings", Kind.LIST, "Its bindings: maps of queue, key."),
        _A("stops", Kind.LIST, "Operator stops of the queues bound to it: maps like those of a queue."),
        VERSION,
    ),
    (
        *stop_and_start("every queue that is bound to the exchange", pattern=False),
        EXPLAIN,
        Operation(
            "bind",
            "Bind a queue with a key. Idempotent; the queue inherits the exchange's policy at once.",
            _BINDING,
            (_A("changed", Kind.BOOLEAN, "False if it was bound like that already."),),
            "change",
        ),
        Operation(
            "unbind",
            "Remove the binding of a queue with a key. Idempotent.",
            _BINDING,
            (_A("changed", Kind.BOOLEAN, "False if there was no such binding."),),
            "change",
        ),
    ),
    (
        Notification("exchange-created", "EXH-1001", "The exchange was created."),
        Notification("exchange-deleted", "EXH-1002", "The exchange was deleted."),
        Notification("binding-created", "BND-1001", "A queue was bound to the exchange."),
        Notification("binding-deleted", "BND-1002", "A binding was removed."),
        POLICY_CHANGED,
        STOPPED,
        STARTED,
    ),
    creatable=True,
    deletable=True,
)
