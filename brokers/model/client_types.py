"""The declared managed types of what clients open: connections, producers and consumers."""

from __future__ import annotations

from brokers.model.declarations import Attribute, Kind, ManagedType, Notification, Operation
from brokers.model.stop_operations import ACTOR, REASON
from brokers.model.versions import VERSION

_A = Attribute

PRODUCER_STATES = ("RUNNING", "BLOCKED")


def _close(what: str) -> tuple[Operation, ...]:
    return (
        Operation("close", f"End the {what}. The client may open it again.", (REASON, ACTOR), (), "destroy"),
        Operation(
            "preview-close",
            f"Return what the end of the {what} would undo. Changes nothing.",
            (),
            (
                _A("producers", Kind.INTEGER, "Producers that would end.", "producers"),
                _A("consumers", Kind.INTEGER, "Consumers that would end.", "consumers"),
                _A(
                    "redelivered_messages",
                    Kind.INTEGER,
                    "Unacknowledged messages that would return to their queues, with one failed delivery each.",
                    "messages",
                ),
                _A(
                    "unsettled_messages",
                    Kind.INTEGER,
                    "Messages sent whose outcome the client would not learn; it may send them again.",
                    "messages",
                ),
                _A(
                    "rolled_back_transactions",
                    Kind.INTEGER,
                    "Open transactions that would be rolled back.",
                    "transactions",
                ),
                _A("rolled_back_messages", Kind.INTEGER, "Messages published in them.", "messages"),
            ),
        ),
    )


CONNECTION = ManagedType(
    "Connection",
    "An AMQP connection of a client.",
    ("virtualhost", "id"),
    (
        _A("virtualhost", Kind.STRING, "The virtual host it opened."),
        _A("id", Kind.INTEGER, "Number of the connection since the broker started."),
        _A("remote_address", Kind.STRING, "The peer's host and port."),
        _A("container_id", Kind.STRING, "The client's name for itself."),
        _A("user", Kind.STRING, "The user that signed in; anonymous if none did."),
        _A("product", Kind.STRING, "The client's library, as it calls itself; empty if it does not.", nullable=True),
        _A("product_version", Kind.STRING, "The library's version, as it reports it; else empty.", nullable=True),
        _A("opened", Kind.TIMESTAMP, "When it was opened.", "ms"),
        _A("producers", Kind.INTEGER, "Producers on it.", "producers"),
        _A("consumers", Kind.INTEGER, "Consumers on it.", "consumers"),
        _A("blocked_producers", Kind.INTEGER, "Producers on it that are blocked.", "producers"),
        _A(
            "unacknowledged_messages",
            Kind.INTEGER,
            "Messages its consumers received and have not settled.",
            "messages",
        ),
        _A("open_transactions", Kind.INTEGER, "Its open transactions.", "transactions"),
        _A("oldest_transaction", Kind.TIMESTAMP, "When the oldest of them began.", "ms", nullable=True),
        _A("idle_timeout", Kind.INTEGER, "The client's idle time-out. 0: none.", "ms"),
        VERSION,
    ),
    _close("connection"),
    (
        Notification("connection-opened", "CON-1001", "A client opened a connection."),
        Notification("connection-closed", "CON-1002", "A connection ended."),
        Notification(
            "transaction-timed-out",
            "CON-1011",
            "A transaction with messages was idle for too long, and was rolled back.",
        ),
    ),
    searched=("remote_address", "container_id", "user", "product"),
)

PRODUCER = ManagedType(
    "Producer",
    "A sending link of a client, and whether flow control blocks it.",
    ("virtualhost", "id"),
    (
        _A("virtualhost", Kind.STRING, "The virtual host it publishes in."),
        _A("id", Kind.INTEGER, "Number of the link since the broker started."),
        _A("queue", Kind.NAME, "The queue it publishes to."),
        _A("connection", Kind.NAME, "The connection it belongs to."),
        _A("link", Kind.STRING, "The link's name, as the client chose it."),
        _A("client", Kind.STRING, "User, container and address of the client, for people."),
        _A("state", Kind.STRING, "Whether flow control blocks it.", choices=PRODUCER_STATES),
        _A(
            "reasons",
            Kind.LIST,
            "Why it is blocked: queue-overfull:NAME, operator-stop:SCOPE, RESOURCE-overfull, connection-flow.",
        ),
        _A("blocked_since", Kind.TIMESTAMP, "When it was blocked; None while it runs.", "ms", nullable=True),
        _A("blocked_ms", Kind.INTEGER, "Total time for which it has been blocked.", "ms"),
        _A("blocked_count", Kind.INTEGER, "How often it was blocked.", "times"),
        _A("release", Kind.STRING, "What would unblock it, as a sentence; empty while it runs."),
        _A(
            "waits_for",
            Kind.STRING,
            "What it waits for while it is not blocked and has no credit, as a sentence; otherwise empty.",
        ),
        _A(
            "waiting_since",
            Kind.TIMESTAMP,
            "Since when it has been without credit, reported after a moment; None if it is blocked.",
            "ms",
            nullable=True,
        ),
        _A("unsettled_messages", Kind.INTEGER, "Messages it has sent that are not settled yet.", "messages"),
        _A("draining", Kind.BOOLEAN, "Its credit was withdrawn; messages in flight may still arrive."),
        _A("credit", Kind.INTEGER, "Messages it may send now.", "messages"),
        _A("messages", Kind.INTEGER, "Messages it has published.", "messages"),
        _A("bytes", Kind.INTEGER, "Bytes it has published.", "bytes"),
        VERSION,
    ),
    _close("producer's link"),
    (
        Notification("producer-blocked", "CHN-1005", "Flow control blocks the producer."),
        Notification("producer-released", "CHN-1006", "The producer is unblocked: no reason is left."),
        Notification("producer-detached", "HGT-1005", "The broker ended a link that broke the protocol."),
    ),
    searched=("queue", "link", "client"),
)

CONSUMER = ManagedType(
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
        _A("credit", Kind.INTEGER, "Messages it is ready to receive.", "messages"),
        _A("unacknowledged_messages", Kind.INTEGER, "Messages it received and has not settled.", "messages"),
        _A("messages", Kind.INTEGER, "Messages sent to it.", "messages"),
        VERSION,
    ),
    _close("consumer's link"),
    (Notification("consumer-detached", "HGT-1017", "An operator ended a consumer's link."),),
    searched=("queue", "link", "client"),
)
