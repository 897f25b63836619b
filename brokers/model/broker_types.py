"""The declared managed types of the broker as a whole and of its virtual hosts: defaults, limits of use, totals."""

from __future__ import annotations

from brokers.model.declarations import Attribute, Kind, ManagedType, Notification
from brokers.model.policy_fields import POLICY, POLICY_CHANGED
from brokers.model.policy_operations import EXPLAIN, PREVIEW_CHANGE
from brokers.model.stop_operations import STARTED, STOPPED, stop_and_start
from brokers.model.versions import VERSION

_A = Attribute


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


LIVE_TOTALS = (
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
        "Operator stops: maps of scope, object, pattern, reason, actor, since (ms), until (ms), below (%),"
        " stage (a map while it is being lifted step by step), halted (a map if a staged start halted: actor, reason,"
        " since, queue, percent, limit).",
    ),
)

BROKER = ManagedType(
    "Broker",
    "The broker process: its defaults for every queue, and its totals.",
    (),
    (
        _A("product", Kind.STRING, "What the broker is."),
        _A("product_version", Kind.STRING, "The broker's version."),
        _A("started", Kind.TIMESTAMP, "When the broker process started.", "ms"),
        *POLICY,
        *LIVE_TOTALS,
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
        VERSION,
    ),
    (*stop_and_start("the broker", pattern=True, queues=True), EXPLAIN, PREVIEW_CHANGE),
    (
        Notification("limit-exceeded", "HGT-1006", "The broker uses more of a resource than its limit."),
        Notification("limit-cleared", "HGT-1007", "The broker is back at or below its limit."),
        Notification("broker-ready", "BRK-1004", "The broker has recovered its objects and takes connections."),
        POLICY_CHANGED,
        STOPPED,
        STARTED,
    ),
)

VIRTUAL_HOST = ManagedType(
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
            "An open transaction with messages that is idle for this long is rolled back. 0: never.",
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
        _A("store_overfull", Kind.BOOLEAN, "Its store blocks all its producers now."),
        _A("store_used_bytes", Kind.INTEGER, "What its stored messages take on disk.", "bytes"),
        *POLICY,
        *LIVE_TOTALS,
        VERSION,
    ),
    (*stop_and_start("the virtual host", pattern=True), EXPLAIN),
    (
        Notification("store-recovery-start", "MST-1004", "The broker began to recover stored messages."),
        Notification("store-recovered", "MST-1005", "Stored messages were recovered."),
        Notification("store-recovery-complete", "MST-1006", "All stored messages are recovered."),
        Notification("store-overfull", "MST-1008", "The store is above its limit, or its disk is full."),
        Notification("store-underfull", "MST-1009", "The store has room again."),
        POLICY_CHANGED,
        STOPPED,
        STARTED,
    ),
    creatable=True,
    deletable=True,
)
