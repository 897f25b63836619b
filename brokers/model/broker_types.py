"""The declared managed types of the broker as a whole and of its virtual hosts: defaults, limits of use, totals."""

from __future__ import annotations

from brokers.model.declarations import Attribute, Kind, ManagedType, Notification
from brokers.model.policy_fields import POLICY, POLICY_CHANGED
from brokers.model.policy_operations import EXPLAIN, PREVIEW_CHANGE
from brokers.model.stop_operations import STARTED, STOPPED, stop_and_start
from brokers.model.versions import VERSION

_A = Attribute


def _usage(what: str, used: str, whole: str, default: str) -> tuple[Attribute, ...]:
    """The attributes of a resource's limit and use. `used`: the measured data."""
    return (
        _A(
            f"{what}_limit",
            Kind.LEVEL,
            f"Above this, producers of more {used} are blocked: bytes, or a percentage of {what}_total. Not set:"
            f" {default} of {whole}. 0: no limit.",
            "bytes",
            writable=True,
            nullable=True,
        ),
        _A(
            f"{what}_total",
            Kind.INTEGER,
            f"Basis of a {what}_limit in percent. 0 or not set: {whole}.",
            "bytes",
            writable=True,
            nullable=True,
        ),
        _A(f"{what}_limit_bytes", Kind.INTEGER, f"Effective value of {what}_limit. 0: no limit.", "bytes"),
        _A(f"{what}_limit_origin", Kind.STRING, f"Origin of {what}_limit_bytes: set here, or the default."),
        _A(f"{what}_used_bytes", Kind.INTEGER, f"Bytes of {used}.", "bytes"),
    )


LIVE_TOTALS = (
    _A("queues", Kind.INTEGER, "Queues.", "queues"),
    _A("overfull_queues", Kind.INTEGER, "Queues that are overfull now.", "queues"),
    _A("stopped_queues", Kind.INTEGER, "Queues whose producers an operator has stopped.", "queues"),
    _A("connections", Kind.INTEGER, "Open connections.", "connections"),
    _A("open_transactions", Kind.INTEGER, "Open transactions of clients.", "transactions"),
    _A("producers", Kind.INTEGER, "Attached producers.", "producers"),
    _A("blocked_producers", Kind.INTEGER, "Producers that are blocked now.", "producers"),
    _A("consumers", Kind.INTEGER, "Attached consumers.", "consumers"),
    _A("depth_messages", Kind.INTEGER, "Messages in all queues.", "messages"),
    _A("depth_bytes", Kind.INTEGER, "Bytes in all queues.", "bytes"),
    _A(
        "stops",
        Kind.LIST,
        "Operator stops: maps of scope, object, pattern, reason, actor, since (ms), until (ms), below (%),"
        " stage (a map during a staged start), halted (a map if a staged start halted: actor, reason,"
        " since, queue, percent, limit).",
    ),
)

BROKER = ManagedType(
    "Broker",
    "The broker process: its defaults for every queue, and its totals.",
    (),
    (
        _A("product", Kind.STRING, "The broker's product name."),
        _A("product_version", Kind.STRING, "The broker's version."),
        _A("started", Kind.TIMESTAMP, "When the broker process started.", "ms"),
        *POLICY,
        *LIVE_TOTALS,
        _A("last_event", Kind.INTEGER, "Number of the newest event."),
        _A("log", Kind.STRING, "Path of the broker log on the broker's host, beside its rotated files."),
        _A("journal", Kind.STRING, "Identity of the event journal; each journal numbers its own events."),
        *_usage("memory", "bodies of messages in memory", "the machine's or the container's memory", "40%"),
        *_usage("store", "stored messages on disk", "the disk's size", "80%"),
        *_usage("temp", "spooled messages on disk", "the disk's size", "15%"),
        _A(
            "shortages",
            Kind.LIST,
            "Limits that are exceeded now, as the reasons of blocked producers: RESOURCE-overfull, or"
            " RESOURCE-overfull on NODE. Resources: memory, store, temp, disk.",
        ),
        VERSION,
    ),
    (*stop_and_start("the broker", pattern=True, queues=True), EXPLAIN, PREVIEW_CHANGE),
    (
        Notification("limit-exceeded", "HGT-1006", "The broker uses more of a resource than its limit."),
        Notification("limit-cleared", "HGT-1007", "The broker is back at or below its limit."),
        Notification("broker-ready", "BRK-1004", "The broker has recovered its objects and accepts connections."),
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
            "Create an unknown queue when a client attaches to it; if not set, the client gets amqp:not-found.",
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
            "Below this many bytes on disk they are unblocked. Not set: store_overfull_bytes.",
            "bytes",
            writable=True,
            nullable=True,
        ),
        _A("store_overfull", Kind.BOOLEAN, "Its store blocks all its producers now."),
        _A("store_used_bytes", Kind.INTEGER, "Disk space of its stored messages.", "bytes"),
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
        Notification("store-underfull", "MST-1009", "The store is below its limit, and its disk has free space."),
        POLICY_CHANGED,
        STOPPED,
        STARTED,
    ),
    creatable=True,
    deletable=True,
)
