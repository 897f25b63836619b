"""The declared managed objects: every type with its attributes, operations and notifications, and the names of objects.

One declaration serves everybody: management answers (GET-TYPES, GET-ATTRIBUTES, GET-OPERATIONS), the HTTP API's
schema, forms, and the object browser are derived from it, so a new attribute is one line here and one value where
the object is read. What a declaration is made of stands in `brokers/model.py`.

This module holds declarations and the syntax of object names only: no value of a running broker, no I/O.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from brokers.model import (
    Attribute,
    Kind,
    ManagedType,
    Notification,
    Operation,
    check_arguments,
    check_attributes,
    parse_count,
    parse_level,
)
from brokers.policy_fields import POLICY
from brokers.policy_operations import EXPLAIN, PREVIEW_CHANGE
from brokers.topic_types import SLOW_CONSUMER, topic_types

__all__ = [
    "NOTIFICATIONS",
    "POLICY",
    "PRODUCER_STATES",
    "QUEUE_STATES",
    "TYPES",
    "Attribute",
    "Kind",
    "ManagedType",
    "Notification",
    "ObjectName",
    "Operation",
    "check_arguments",
    "check_attributes",
    "object_name",
    "parse_count",
    "parse_level",
]


@dataclass(frozen=True, slots=True)
class ObjectName:
    """The name of a managed object, such as `type=Queue,virtualhost=default,name=orders`.

    `keys` keep the order their type declares. A value with one of `,="\\` or white space at its ends is written in
    double quotes, with backslash before a quote or a backslash.
    """

    type: str
    keys: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return ",".join([f"type={self.type}", *(f"{k}={_quote(v)}" for k, v in self.keys)])

    def __getitem__(self, key: str) -> str:
        for k, v in self.keys:
            if k == key:
                return v
        raise KeyError(key)

    def get(self, key: str, default: str = "") -> str:
        return next((v for k, v in self.keys if k == key), default)

    @classmethod
    def parse(cls, text: str) -> ObjectName:
        """Raise ValueError, naming the text, unless it is the name of an object of a declared type."""
        return _kept(text) if len(text) <= _LONGEST_KEPT else _parsed(text)


#: Characters of a name that is worth keeping; longer ones are only ever made up.
_LONGEST_KEPT = 600


@lru_cache(maxsize=50_000)  # the names of thousands of queues come by every second
def _kept(text: str) -> ObjectName:
    return _parsed(text)


def _parsed(text: str) -> ObjectName:
    pairs: list[tuple[str, str]] = []
    at = 0
    while at < len(text):
        match = _PAIR.match(text, at)
        if not match:
            raise ValueError(f"{text!r} is not an object name: cannot read it from {text[at:]!r}")
        raw = match["value"]
        pairs.append((match["key"], re.sub(r"\\(.)", r"\1", raw[1:-1]) if raw.startswith('"') else raw))
        at = match.end()
    if not pairs or pairs[0][0] != "type":
        raise ValueError(f"{text!r} is not an object name: it must start with type=")
    if len(dict(pairs)) != len(pairs):
        raise ValueError(f"{text!r} is not an object name: it has a key twice")
    return object_name(pairs[0][1], **dict(pairs[1:]))


_PAIR = re.compile(r'(?P<key>[a-z_]+)=(?P<value>"(?:[^"\\]|\\.)*"|[^,="\\]*)(?:,(?=.)|$)', re.DOTALL)


def _quote(value: str) -> str:
    if value and value == value.strip() and not re.search(r'[,="\\]', value):
        return value
    return '"' + re.sub(r'(["\\])', r"\\\1", value) + '"'


def object_name(type_name: str, /, **keys: str | int) -> ObjectName:
    """Build a name; raise ValueError if the type is unknown or its keys are not the declared ones."""
    declared = TYPES.get(type_name)
    if declared is None:
        raise ValueError(f"{type_name!r} is not a type of managed objects: there are {', '.join(TYPES)}")
    if set(keys) != set(declared.keys):
        wanted = ", ".join(declared.keys) or "no keys"
        raise ValueError(f"a name of type {type_name} has {wanted}, not {', '.join(keys) or 'none'}")
    return ObjectName(type_name, tuple((k, str(keys[k])) for k in declared.keys))


# ---------------------------------------------------------------------------------------------------------------
# The declarations
# ---------------------------------------------------------------------------------------------------------------

_A = Attribute

_REASON = _A("reason", Kind.STRING, "Why, in the operator's words; kept with the stop and shown to everybody.")
_ACTOR = _A("actor", Kind.STRING, "On whose behalf the call is made, if not the connection's own user's.")
_PATTERN = _A(
    "pattern",
    Kind.STRING,
    "Only queues whose name matches: * stands for one word, > or # for any number of words at the end. Empty: all.",
)
_QUEUES = _A("queues", Kind.LIST, "Only these queues, by their object names: each is stopped or started by itself.")
_END = (
    _A("for_ms", Kind.INTEGER, "Start them again by itself after so long. 0 or not set: at no time.", "ms"),
    _A(
        "below",
        Kind.INTEGER,
        "Start them again by itself when all queues it covers are down to this part of their capacity. 0 or not set: at"
        " no depth.",
        "%",
    ),
)
_STAGE = (
    _A(
        "rate",
        Kind.INTEGER,
        "Staged: let so many messages a second into each queue at first, doubled with every step; after six nobody"
        " is held back. 0 or not set: all at once.",
        "messages/s",
    ),
    _A("step_ms", Kind.INTEGER, "Staged: how long a step lasts. Not set: 10 s.", "ms"),
    _A("halt", Kind.INTEGER, "Staged: stop everybody again if a queue is above this part of its capacity.", "%"),
)
_ONLY = _A("only", Kind.BOOLEAN, "Lift this very stop, and none that lies inside its scope.")
_BINDING = (
    _A("queue", Kind.STRING, "The queue's name; it is in the exchange's virtual host.", required=True),
    _A("key", Kind.STRING, "The binding key. Not set: empty."),
    _ACTOR,
)
_STOP_ANSWER = (
    _A("queues", Kind.INTEGER, "Queues that the call touched.", "queues"),
    _A("producers", Kind.INTEGER, "Producers attached to those queues.", "producers"),
    _A("stopped", Kind.INTEGER, "Producers that are blocked and hold no credit.", "producers"),
    _A("draining", Kind.INTEGER, "Blocked producers whose messages in flight may still arrive.", "producers"),
    _A("changed", Kind.BOOLEAN, "False when the same stop was (or was not) already in force."),
    _A("changed_queues", Kind.LIST, "Of the queues that were named, those whose own stop came or went by this call."),
    _A("missing", Kind.INTEGER, "Queues that were named and are not there.", "queues"),
)


def _stop_and_start(scope: str, *, pattern: bool, queues: bool = False) -> tuple[Operation, ...]:
    """`pattern`: it may be narrowed by a pattern; `queues`: to some queues."""
    arguments = (_REASON, _ACTOR, *((_PATTERN,) if pattern else ()), *((_QUEUES,) if queues else ()))
    return (
        Operation(
            "stop-producers",
            f"Block every producer of {scope} until producers are started again, or until the end that is given."
            " Idempotent, kept across restarts.",
            (*arguments, *_END),
            _STOP_ANSWER,
            "change",
        ),
        Operation(
            "start-producers",
            f"Lift the operator's stop of {scope}. An overfull queue still holds its producers. Idempotent.",
            (*arguments, _ONLY, *_STAGE),
            _STOP_ANSWER,
            "change",
        ),
    )


def _usage(what: str, used: str, whole: str, default: str) -> tuple[Attribute, ...]:
    """The attributes that limit what the broker uses, and show it. `used`: what is measured, and whose producers are
    blocked."""
    return (
        _A(
            f"{what}_limit",
            Kind.LEVEL,
            f"Above this, {used} block the producers of more: bytes, or a percentage of {what}_total. Not set:"
            f" {default} of {whole}. 0: no limit.",
            "bytes",
            writable=True,
            nullable=True,
        ),
        _A(
            f"{what}_total",
            Kind.INTEGER,
            f"What {what}_limit in percent is a part of. 0 or not set: {whole}.",
            "bytes",
            writable=True,
            nullable=True,
        ),
        _A(f"{what}_limit_bytes", Kind.INTEGER, f"What {what}_limit comes to. 0: no limit.", "bytes"),
        _A(f"{what}_limit_origin", Kind.STRING, f"Where {what}_limit_bytes comes from: set here, or the default."),
        _A(f"{what}_used_bytes", Kind.INTEGER, f"Bytes of {used}.", "bytes"),
    )


_VERSION = _A("version", Kind.INTEGER, "Number of the object's last change; a change made from another is refused.")
_LIVE_TOTALS = (
    _A("queues", Kind.INTEGER, "Queues.", "queues"),
    _A("overfull_queues", Kind.INTEGER, "Queues that are overfull now.", "queues"),
    _A("stopped_queues", Kind.INTEGER, "Queues whose producers an operator has stopped.", "queues"),
    _A("connections", Kind.INTEGER, "Open connections.", "connections"),
    _A("open_transactions", Kind.INTEGER, "Transactions that clients have begun and not ended.", "transactions"),
    _A("producers", Kind.INTEGER, "Attached producers.", "producers"),
    _A("blocked_producers", Kind.INTEGER, "Producers that are blocked now.", "producers"),
    _A("consumers", Kind.INTEGER, "Attached consumers.", "consumers"),
    _A("depth_messages", Kind.INTEGER, "Messages in all queues.", "messages"),
    _A("depth_bytes", Kind.INTEGER, "Bytes in all queues.", "bytes"),
    _A(
        "stops",
        Kind.LIST,
        "Operator stops in force: maps of scope, object, pattern, reason, actor, since (ms), until (ms), below (%),"
        " stage (a map while it is being lifted step by step), halted (a map if a staged start halted: actor, reason,"
        " since, queue, percent, limit).",
    ),
)

_POLICY_CHANGED = Notification(
    "policy-changed", "HGT-1003", "An attribute of the object was changed, or a destination policy came or went."
)
_STOPPED = Notification("producers-stopped", "HGT-1001", "An operator stopped the producers of a scope.")
_STARTED = Notification("producers-started", "HGT-1002", "An operator started the producers of a scope again.")

QUEUE_STATES = ("NORMAL", "OVERFULL", "STOPPED", "OVERFULL_STOPPED")
PRODUCER_STATES = ("RUNNING", "BLOCKED")

TYPES: dict[str, ManagedType] = {
    t.name: t
    for t in (
        ManagedType(
            "Broker",
            "The broker process: its defaults for every queue, and its totals.",
            (),
            (
                _A("product", Kind.STRING, "What the broker is."),
                _A("product_version", Kind.STRING, "The broker's version."),
                _A("started", Kind.TIMESTAMP, "When the broker process started.", "ms"),
                *POLICY,
                *_LIVE_TOTALS,
                _A("last_event", Kind.INTEGER, "Number of the newest event."),
                _A("log", Kind.STRING, "File on the broker's host that has the broker log; older ones lie beside it."),
                _A("journal", Kind.STRING, "Identity of the event journal: another one counts its own events."),
                *_usage("memory", "bodies of messages in memory", "the machine's or the container's memory", "40%"),
                *_usage("store", "stored messages on disk", "the disk's room", "80%"),
                *_usage("temp", "spooled messages on disk", "the disk's room", "15%"),
                _A(
                    "shortages",
                    Kind.LIST,
                    "Limits that are exceeded now, as reasons to be blocked.",
                ),
                _VERSION,
            ),
            (*_stop_and_start("the broker", pattern=True, queues=True), EXPLAIN, PREVIEW_CHANGE),
            (
                Notification("limit-exceeded", "HGT-1006", "The broker uses more of a resource than its limit."),
                Notification("limit-cleared", "HGT-1007", "The broker is back at or below its limit."),
                Notification("broker-ready", "BRK-1004", "The broker has recovered its objects and takes connections."),
                _POLICY_CHANGED,
                _STOPPED,
                _STARTED,
            ),
        ),
        ManagedType(
            "VirtualHost",
            "A name space of queues with its own defaults and admission rules.",
            ("name",),
            (
                _A("name", Kind.STRING, "The virtual host's name.", creatable=True, required=True),
                _A(
                    "create_on_attach",
                    Kind.BOOLEAN,
                    "Create an unknown queue when a client attaches to it; else the client gets amqp:not-found.",
                    writable=True,
                ),
                _A(
                    "anonymous",
                    Kind.BOOLEAN,
                    "Let clients that did not sign in publish and consume (never manage).",
                    writable=True,
                ),
                _A(
                    "durable_queues",
                    Kind.BOOLEAN,
                    "Queues that clients create by attaching are durable: durable messages in them are stored.",
                    writable=True,
                ),
                _A(
                    "transaction_idle_limit_ms",
                    Kind.INTEGER,
                    "A transaction that holds messages and did nothing for so long is rolled back. 0: never.",
                    "ms",
                    writable=True,
                ),
                _A(
                    "store_overfull_bytes",
                    Kind.INTEGER,
                    "Above this many bytes on disk all producers of the virtual host are blocked. Not set: never.",
                    "bytes",
                    writable=True,
                    nullable=True,
                ),
                _A(
                    "store_underfull_bytes",
                    Kind.INTEGER,
                    "Below this many bytes on disk they are released. Not set: store_overfull_bytes.",
                    "bytes",
                    writable=True,
                    nullable=True,
                ),
                _A("store_overfull", Kind.BOOLEAN, "Its store holds all its producers now."),
                _A("store_used_bytes", Kind.INTEGER, "What its stored messages take on disk.", "bytes"),
                *POLICY,
                *_LIVE_TOTALS,
                _VERSION,
            ),
            (*_stop_and_start("the virtual host", pattern=True), EXPLAIN),
            (
                Notification("store-recovery-start", "MST-1004", "The broker began to recover stored messages."),
                Notification("store-recovered", "MST-1005", "Stored messages were recovered."),
                Notification("store-recovery-complete", "MST-1006", "All stored messages are recovered."),
                Notification("store-overfull", "MST-1008", "The store is above its limit, or its disk is full."),
                Notification("store-underfull", "MST-1009", "The store has room again."),
                _POLICY_CHANGED,
                _STOPPED,
                _STARTED,
            ),
            creatable=True,
            deletable=True,
        ),
        ManagedType(
            "Queue",
            "A first-in first-out queue with producers, consumers and a flow-control policy.",
            ("virtualhost", "name"),
            (
                _A("virtualhost", Kind.STRING, "The virtual host it belongs to.", creatable=True, required=True),
                _A("name", Kind.STRING, "The queue's name.", creatable=True, required=True),
                _A(
                    "durable",
                    Kind.BOOLEAN,
                    "Durable messages in it are stored before they are accepted, and outlive the broker.",
                    creatable=True,
                ),
                _A(
                    "temporary_for",
                    Kind.STRING,
                    "The connection that a temporary queue was made for, with which it goes. Empty: none.",
                ),
                _A("state", Kind.STRING, "The flow-control state.", choices=QUEUE_STATES),
                _A("depth_messages", Kind.INTEGER, "Messages held, acquired ones included.", "messages"),
                _A("depth_bytes", Kind.INTEGER, "Bytes held, acquired messages included.", "bytes"),
                _A("unacknowledged_messages", Kind.INTEGER, "Messages sent to consumers and not settled.", "messages"),
                _A(
                    "delayed_messages",
                    Kind.INTEGER,
                    "Messages whose delivery time has not come, part of the depth: no consumer can have them.",
                    "messages",
                ),
                _A("delayed_bytes", Kind.INTEGER, "Their bytes, part of the depth.", "bytes"),
                _A("next_delivery_time", Kind.TIMESTAMP, "When the next of them is due.", "ms", nullable=True),
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
                    "Messages that were sent and wait for room, unsettled: not part of the depth.",
                    "messages",
                ),
                _A("parked_bytes", Kind.INTEGER, "Bytes of parked messages: they count as memory.", "bytes"),
                *POLICY,
                _A("effective_capacity_bytes", Kind.INTEGER, "Capacity in force. 0: no limit.", "bytes"),
                _A("effective_stop_bytes", Kind.INTEGER, "Stop level in force. 0: no limit.", "bytes"),
                _A("effective_resume_bytes", Kind.INTEGER, "Resume level in force.", "bytes"),
                _A("effective_capacity_messages", Kind.INTEGER, "Capacity in force. 0: no limit.", "messages"),
                _A("effective_stop_messages", Kind.INTEGER, "Stop level in force. 0: no limit.", "messages"),
                _A("effective_resume_messages", Kind.INTEGER, "Resume level in force.", "messages"),
                _A("producers", Kind.INTEGER, "Attached producers.", "producers"),
                _A("blocked_producers", Kind.INTEGER, "Producers that are blocked now.", "producers"),
                _A(
                    "waiting_producers",
                    Kind.INTEGER,
                    "Producers without credit that nothing blocks: they wait for their turn.",
                    "producers",
                ),
                _A("draining_producers", Kind.INTEGER, "Producers whose credit is being taken back.", "producers"),
                _A("consumers", Kind.INTEGER, "Attached consumers.", "consumers"),
                _A("credit", Kind.INTEGER, "Credit handed out to producers or not yet back from them.", "messages"),
                _A("rate_in", Kind.NUMBER, "Messages enqueued in the last second.", "messages/s"),
                _A("rate_out", Kind.NUMBER, "Messages dequeued in the last second.", "messages/s"),
                _A("enqueued_messages", Kind.INTEGER, "Messages ever enqueued.", "messages"),
                _A("dequeued_messages", Kind.INTEGER, "Messages ever dequeued.", "messages"),
                _A("overfull_since", Kind.TIMESTAMP, "When it became overfull, if it is.", "ms", nullable=True),
                _A("stopped_since", Kind.TIMESTAMP, "When it was stopped, if it is.", "ms", nullable=True),
                _A("rejected_messages", Kind.INTEGER, "Messages rejected because it was full.", "messages"),
                _A("longest_wait_ms", Kind.INTEGER, "The longest that it has held a producer or a message.", "ms"),
                _A("dropped_messages", Kind.INTEGER, "Messages that a ring queue has dropped.", "messages"),
                _A("expired_messages", Kind.INTEGER, "Messages that went because their time was up.", "messages"),
                _A(
                    "dead_lettered_messages",
                    Kind.INTEGER,
                    "Messages moved to the dead-letter queue: rejected, or their deliveries failed too often.",
                    "messages",
                ),
                _A(
                    "discarded_messages",
                    Kind.INTEGER,
                    "Messages removed for the same reasons, there being no dead-letter queue.",
                    "messages",
                ),
                _A("overfull_count", Kind.INTEGER, "How often it became overfull.", "times"),
                _A("overfull_ms", Kind.INTEGER, "How long it has been overfull in all.", "ms"),
                _A("stops", Kind.LIST, "Operator stops that hold it: maps of scope, reason, actor, since (ms)."),
                _A("policy", Kind.STRING, "Pattern of the policy that matches it best, if any does.", nullable=True),
                _A("bindings", Kind.LIST, "What it is bound to: maps of exchange, key."),
                _VERSION,
            ),
            (
                *_stop_and_start("the queue", pattern=False),
                EXPLAIN,
                Operation(
                    "check",
                    "Tell which limits would be in force with these attributes, or what is wrong with them. Changes"
                    " nothing.",
                    (_A("attributes", Kind.MAP, "Policy attributes as for an update.", required=True),),
                    (_A("effective", Kind.MAP, "Effective attribute -> its value with these attributes."),),
                ),
                Operation(
                    "purge",
                    "Remove every message that no consumer has acquired.",
                    (_REASON, _ACTOR),
                    (_A("messages", Kind.INTEGER, "Messages removed.", "messages"),),
                    "destroy",
                ),
            ),
            (
                Notification("queue-created", "QUE-1001", "The queue was created."),
                Notification("queue-deleted", "QUE-1002", "The queue was deleted."),
                Notification("queue-overfull", "QUE-1003", "The queue went above its stop level."),
                Notification("queue-underfull", "QUE-1004", "The queue came down to its resume level."),
                Notification("queue-dropped", "QUE-1005", "A full ring queue dropped its oldest messages."),
                Notification("queue-purged", "HGT-1004", "An operator removed the queue's messages."),
                Notification("queue-dead-lettered", "HGT-1011", "Messages were moved to the dead-letter queue."),
                Notification(
                    "queue-discarded", "HGT-1012", "Messages that consumers gave up were removed: no dead-letter queue."
                ),
                SLOW_CONSUMER,
                _POLICY_CHANGED,
                _STOPPED,
                _STARTED,
            ),
            creatable=True,
            deletable=True,
        ),
        ManagedType(
            "Policy",
            "A flow-control policy for the queues of a virtual host whose names match a pattern. Of several the best"
            " match counts: the longest literal prefix, then fewer wildcards, then the higher priority.",
            ("virtualhost", "pattern"),
            (
                _A("virtualhost", Kind.STRING, "The virtual host it belongs to.", creatable=True, required=True),
                _A(
                    "pattern",
                    Kind.STRING,
                    "The queues it is for: * stands for one word, > or # for any number of words at the end.",
                    creatable=True,
                    required=True,
                ),
                _A("priority", Kind.INTEGER, "Decides between patterns that match equally well.", writable=True),
                *POLICY,
                _A("queues", Kind.INTEGER, "Queues that it is the best match of.", "queues"),
                _VERSION,
            ),
            (EXPLAIN,),
            (_POLICY_CHANGED,),
            creatable=True,
            deletable=True,
        ),
        ManagedType(
            "Exchange",
            "Routes messages by their routing key to the queues that are bound to it, which inherit its policy.",
            ("virtualhost", "name"),
            (
                _A("virtualhost", Kind.STRING, "The virtual host it belongs to.", creatable=True, required=True),
                _A("name", Kind.STRING, "The exchange's name.", creatable=True, required=True),
                _A(
                    "exchange_type",
                    Kind.STRING,
                    "direct: to queues bound with the very key. topic: where the binding key matches, * being one word,"
                    " # or > any number of words. fanout: to every bound queue.",
                    creatable=True,
                    required=True,
                    choices=("direct", "topic", "fanout"),
                ),
                *POLICY,
                _A("queues", Kind.INTEGER, "Queues that are bound to it.", "queues"),
                _A("bindings", Kind.LIST, "Its bindings: maps of queue, key."),
                _A("stops", Kind.LIST, "Operator stops of all that is bound to it: maps as those of a queue."),
                _VERSION,
            ),
            (
                *_stop_and_start("every queue that is bound to the exchange", pattern=False),
                EXPLAIN,
                Operation(
                    "bind",
                    "Bind a queue with a key. Idempotent; the queue inherits the exchange's policy at once.",
                    _BINDING,
                    (_A("changed", Kind.BOOLEAN, "False when it was bound so already."),),
                    "change",
                ),
                Operation(
                    "unbind",
                    "Remove the binding of a queue with a key. Idempotent.",
                    _BINDING,
                    (_A("changed", Kind.BOOLEAN, "False when there was no such binding."),),
                    "change",
                ),
            ),
            (
                Notification("exchange-created", "EXH-1001", "The exchange was created."),
                Notification("exchange-deleted", "EXH-1002", "The exchange was deleted."),
                Notification("binding-created", "BND-1001", "A queue was bound to the exchange."),
                Notification("binding-deleted", "BND-1002", "A binding was removed."),
                _POLICY_CHANGED,
                _STOPPED,
                _STARTED,
            ),
            creatable=True,
            deletable=True,
        ),
        *topic_types(_VERSION, _POLICY_CHANGED),
        ManagedType(
            "Connection",
            "An AMQP connection of a client.",
            ("virtualhost", "id"),
            (
                _A("virtualhost", Kind.STRING, "The virtual host it opened."),
                _A("id", Kind.INTEGER, "Number of the connection since the broker started."),
                _A("remote_address", Kind.STRING, "The peer's host and port."),
                _A("container_id", Kind.STRING, "The name that the client gave itself."),
                _A("user", Kind.STRING, "Who signed in; anonymous if nobody did."),
                _A("opened", Kind.TIMESTAMP, "When it was opened.", "ms"),
                _A("producers", Kind.INTEGER, "Producers on it.", "producers"),
                _A("consumers", Kind.INTEGER, "Consumers on it.", "consumers"),
                _A("open_transactions", Kind.INTEGER, "Transactions it has begun and not ended.", "transactions"),
                _A("oldest_transaction", Kind.TIMESTAMP, "When the oldest of them began.", "ms", nullable=True),
                _A("idle_timeout", Kind.INTEGER, "The client's idle time-out. 0: none.", "ms"),
                _VERSION,
            ),
            (Operation("close", "End the connection.", (_REASON, _ACTOR), (), "destroy"),),
            (
                Notification("connection-opened", "CON-1001", "A client opened a connection."),
                Notification("connection-closed", "CON-1002", "A connection ended."),
                Notification(
                    "transaction-timed-out",
                    "CON-1011",
                    "A transaction held messages for too long, and was rolled back.",
                ),
            ),
            searched=("remote_address", "container_id", "user"),
        ),
        ManagedType(
            "Producer",
            "A sending link of a client, and whether flow control holds it.",
            ("virtualhost", "id"),
            (
                _A("virtualhost", Kind.STRING, "The virtual host it publishes in."),
                _A("id", Kind.INTEGER, "Number of the link since the broker started."),
                _A("queue", Kind.NAME, "The queue it publishes to."),
                _A("connection", Kind.NAME, "The connection it belongs to."),
                _A("link", Kind.STRING, "The link's name, as the client chose it."),
                _A("client", Kind.STRING, "User, container and address of the client, for people."),
                _A("state", Kind.STRING, "Whether flow control holds it.", choices=PRODUCER_STATES),
                _A("reasons", Kind.LIST, "Why it is blocked: queue-overfull:NAME, operator-stop:SCOPE."),
                _A("blocked_since", Kind.TIMESTAMP, "When it was blocked; None while it runs.", "ms", nullable=True),
                _A("blocked_ms", Kind.INTEGER, "How long it has been blocked in all.", "ms"),
                _A("blocked_count", Kind.INTEGER, "How often it was blocked.", "times"),
                _A("release", Kind.STRING, "What would release it, in words; empty while it runs."),
                _A(
                    "waits_for",
                    Kind.STRING,
                    "What it waits for while nothing blocks it and it has no credit, in words; else empty.",
                ),
                _A(
                    "waiting_since",
                    Kind.TIMESTAMP,
                    "Since when it has been without credit, once that has lasted a moment; None if it is blocked.",
                    "ms",
                    nullable=True,
                ),
                _A("unsettled_messages", Kind.INTEGER, "Messages it has sent that are not settled yet.", "messages"),
                _A("draining", Kind.BOOLEAN, "Its credit was taken back; what was on its way may still arrive."),
                _A("credit", Kind.INTEGER, "Messages it may send now.", "messages"),
                _A("messages", Kind.INTEGER, "Messages it has published.", "messages"),
                _A("bytes", Kind.INTEGER, "Bytes it has published.", "bytes"),
                _VERSION,
            ),
            (),
            (
                Notification("producer-blocked", "CHN-1005", "Flow control holds the producer."),
                Notification("producer-released", "CHN-1006", "The producer's last reason to be blocked has gone."),
                Notification("producer-detached", "HGT-1005", "The broker ended a link that broke the protocol."),
            ),
            searched=("queue", "link", "client"),
        ),
        ManagedType(
            "Consumer",
            "A receiving link of a client.",
            ("virtualhost", "id"),
            (
                _A("virtualhost", Kind.STRING, "The virtual host it consumes in."),
                _A("id", Kind.INTEGER, "Number of the link since the broker started."),
                _A("queue", Kind.NAME, "The queue it consumes from."),
                _A("connection", Kind.NAME, "The connection it belongs to."),
                _A("link", Kind.STRING, "The link's name, as the client chose it."),
                _A("client", Kind.STRING, "User, container and address of the client, for people."),
                _A("browsing", Kind.BOOLEAN, "It reads copies and removes nothing."),
                _A("credit", Kind.INTEGER, "Messages it is ready to take.", "messages"),
                _A("unacknowledged_messages", Kind.INTEGER, "Messages it got and has not settled.", "messages"),
                _A("messages", Kind.INTEGER, "Messages sent to it.", "messages"),
                _VERSION,
            ),
            searched=("queue", "link", "client"),
        ),
        ManagedType(
            "User",
            "Who may sign in to the broker, and what the user may do there. Only administrators see and change users.",
            ("name",),
            (
                _A("name", Kind.STRING, "What the user signs in as.", creatable=True, required=True),
                _A(
                    "password",
                    Kind.STRING,
                    "Never shown. A user made without one gets a generated password, told once, unless it has a"
                    " certificate_subject.",
                    writable=True,
                    secret=True,
                ),
                _A("has_password", Kind.BOOLEAN, "A password signs in."),
                _A(
                    "certificate_subject",
                    Kind.STRING,
                    "Subject of the client certificate that signs in as this user (EXTERNAL), as RFC 4514 writes it:"
                    " CN=anna,O=Example. Not set: none does.",
                    writable=True,
                    nullable=True,
                ),
                _A(
                    "administrator",
                    Kind.BOOLEAN,
                    "Manages the broker, its users and every virtual host. To publish and consume it needs grants.",
                    writable=True,
                ),
                _A(
                    "grants",
                    Kind.LIST,
                    'Rights per virtual host: texts such as "default:publish,consume". The rights are publish, consume'
                    " and manage; * is every virtual host.",
                    writable=True,
                ),
                _A("connections", Kind.INTEGER, "Open connections of the user.", "connections"),
                _VERSION,
            ),
            (
                Operation(
                    "renew-password",
                    "Give the user a generated password, which the answer tells this once, and end its connections.",
                    (_REASON, _ACTOR),
                    (
                        _A(
                            "password",
                            Kind.STRING,
                            "The new password. It is not kept anywhere: note it now.",
                            secret=True,
                        ),
                    ),
                    "destroy",
                ),
            ),
            (
                Notification("user-created", "USR-1001", "The user was created."),
                Notification("user-changed", "USR-1002", "The user's password, certificate or rights were changed."),
                Notification("user-deleted", "USR-1003", "The user was deleted."),
            ),
            creatable=True,
            deletable=True,
        ),
    )
}

NOTIFICATIONS: dict[str, Notification] = {n.name: n for t in TYPES.values() for n in t.notifications}
