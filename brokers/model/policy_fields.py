"""The declared fields of a flow-control policy, for every scope that may set them, and the notification of a change."""

from __future__ import annotations

from brokers.model.declarations import Attribute, Kind, Notification

_A = Attribute

#: The fields of a flow-control policy. A queue, a destination policy, an exchange, a virtual host and the broker each
#: may set each of them; the most specific value that is set applies (DOMAIN.md section 5). None: not set here.
#: Capacities are declared before the levels that may be parts of them; choices are declared with the strictest first.
POLICY: tuple[Attribute, ...] = (
    _A(
        "capacity_bytes",
        Kind.INTEGER,
        "Capacity of a queue in bytes. 0: no limit.",
        "bytes",
        writable=True,
        nullable=True,
    ),
    _A(
        "capacity_messages",
        Kind.INTEGER,
        "Capacity of a queue in messages. 0: no limit.",
        "messages",
        writable=True,
        nullable=True,
    ),
    _A(
        "flow_stop_bytes",
        Kind.LEVEL,
        "Above this many bytes the queue is overfull; absolute, or a percentage of capacity_bytes."
        " 0: no limit. Not set: 100%.",
        "bytes",
        writable=True,
        nullable=True,
    ),
    _A(
        "flow_stop_messages",
        Kind.LEVEL,
        "Above this many messages the queue is overfull; absolute, or a percentage of capacity_messages."
        " 0: no limit. Not set: 100%.",
        "messages",
        writable=True,
        nullable=True,
    ),
    _A(
        "flow_resume_bytes",
        Kind.LEVEL,
        "An overfull queue resumes at or below this many bytes; absolute, or a percentage of capacity_bytes."
        " Not set: the stop level.",
        "bytes",
        writable=True,
        nullable=True,
    ),
    _A(
        "flow_resume_messages",
        Kind.LEVEL,
        "An overfull queue resumes at or below this many messages; absolute, or a percentage of capacity_messages."
        " Not set: the stop level.",
        "messages",
        writable=True,
        nullable=True,
    ),
    _A(
        "flow_control",
        Kind.STRING,
        "off: the queue's limits block no producer. Operator stops still do. Not set: on.",
        writable=True,
        nullable=True,
        choices=("on", "off"),
    ),
    _A(
        "mechanism",
        Kind.STRING,
        "How an overfull queue throttles its producers: block (no credit), hold (settlements are withheld),"
        " reject (their messages are rejected) or reject-after (the same, after reject_after_ms); these two apply"
        " while a limit of the broker or the virtual host is exceeded, too. Not set: block.",
        writable=True,
        nullable=True,
        choices=("block", "hold", "reject", "reject-after"),
    ),
    _A(
        "reject_after_ms",
        Kind.INTEGER,
        "With mechanism reject-after: how long a message is parked before it is rejected. Not set: 1,000.",
        "ms",
        writable=True,
        nullable=True,
    ),
    _A(
        "spool",
        Kind.STRING,
        "disk: messages above the capacity are spooled to the temporary store, and temp_limit blocks producers"
        " instead. Not set: memory.",
        writable=True,
        nullable=True,
        choices=("memory", "disk"),
    ),
    _A(
        "overflow",
        Kind.STRING,
        "What an overfull queue does: block its producers, or drop its oldest messages (ring). Not set: producers.",
        writable=True,
        nullable=True,
        choices=("producers", "ring"),
    ),
    _A(
        "producer_window_bytes",
        Kind.INTEGER,
        "Maximum outstanding credit of a producer in bytes: its credit times the queue's largest recent message,"
        " one message at least. 0 or not set: only producer_window_messages applies.",
        "bytes",
        writable=True,
        nullable=True,
    ),
    _A(
        "producer_window_messages",
        Kind.INTEGER,
        "Maximum outstanding credit of a producer. 0 or not set: 1,000.",
        "messages",
        writable=True,
        nullable=True,
    ),
    _A(
        "maximum_deliveries",
        Kind.INTEGER,
        "After this number of failed deliveries a message is moved to the dead-letter queue, or discarded if there"
        " is none. 0 or not set: no limit.",
        "times",
        writable=True,
        nullable=True,
    ),
    _A(
        "dead_letter_queue",
        Kind.STRING,
        "The queue of the same virtual host for messages that consumers reject or whose deliveries fail too often;"
        " created on demand. Empty, or the queue itself: none, such messages are discarded. Not set: none.",
        writable=True,
        nullable=True,
    ),
)

POLICY_CHANGED = Notification(
    "policy-changed",
    "HGT-1003",
    "An attribute of the object was changed, or a destination policy was created or deleted.",
)
