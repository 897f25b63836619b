"""The declared operations on the messages of a queue: list, read, summarize, move, copy, retry, delete, publish.

The work of a call is bounded: it searches a part of the queue, and `next` says where the following call goes on. None
of them takes a message from a consumer, and listing takes none at all.

A message is a map: `id` (stable while it is in the queue, not reused), `position` (from 1, in the order of delivery;
None: acquired or delayed), `at` (arrival in the queue, ms, to about a second; None: not known, as for a message that
arrived before the broker's last start and has no creation time), `size` (bytes), `durable`, `priority`, `redeliveries`
(failed deliveries from this queue), `state`, `consumer` (object name of the one that acquired it, or None), `expires`
and `due` (expiry and delivery time, ms, or None), `properties` and `application_properties` (name -> value, long ones
cut), `dead_letter` (None, or a map of reason, queue, failed_deliveries, description).
"""

from __future__ import annotations

from brokers.model.declarations import Attribute, Kind, Notification, Operation
from brokers.model.stop_operations import ACTOR, REASON

_A = Attribute

#: Console roles that a call needs beyond what its effect says, see `Operation.role`.
MESSAGE_READER, PUBLISHER = "message-reader", "publisher"

#: Where a message is: ready for a consumer, with a consumer, before its delivery time.
STATES = AVAILABLE, ACQUIRED, DELAYED = "available", "acquired", "delayed"
#: In order of delivery; those that consumers have acquired first, the oldest first.
ORDERS = QUEUE_ORDER, UNACKNOWLEDGED = "queue", "unacknowledged"

#: Maximum number of messages in one answer, and that one call moves, copies or deletes.
MOST_LISTED, MOST_HANDLED = 200, 1000
BODY_KINDS = ("data", "text", "value", "sequence", "none", "undecodable")
#: Bytes of a body in one answer.
USUAL_PART, MOST_OF_BODY = 65_536, 1 << 20

_MATCH = _A(
    "match",
    Kind.MAP,
    "Conditions, all of which must hold: selector (JMS), properties (map: name -> text that it equals; an application"
    " property, or a standard one such as subject), older_than_ms, newer_than_ms (since their arrival), min_bytes,"
    " max_bytes, min_redeliveries, max_redeliveries, state, dead_letter_reason, dead_letter_queue. Not set: all. A"
    " section of properties above 64 KiB is not searched.",
    nullable=True,
)
_AFTER = _A("after", Kind.STRING, "Where to go on: `next` of the call before. Not set: from the front.", nullable=True)
_NEXT = _A("next", Kind.STRING, "Where the next call goes on; None: the end was reached.", nullable=True)
_SEARCHED = _A("searched", Kind.INTEGER, "Messages that this call has searched.", "messages")

LIST_MESSAGES = Operation(
    "list-messages",
    "List messages of the queue, without bodies. Takes none, and delays no consumer.",
    (
        _MATCH,
        _A(
            "order",
            Kind.STRING,
            "queue, or not set: in order of delivery. unacknowledged: acquired ones first.",
            choices=("", *ORDERS),
        ),
        _AFTER,
        _A("count", Kind.INTEGER, f"Maximum number, 1 to {MOST_LISTED}. 0 or not set: 50.", "messages"),
    ),
    (_A("messages", Kind.LIST, "The messages: maps, see the documentation of the model."), _NEXT, _SEARCHED),
)

_IDS = _A("ids", Kind.LIST, f"The messages, by their ids: {MOST_HANDLED:,} at most. Or match.", nullable=True)
_SELECTION = (
    _IDS,
    _MATCH,
    _AFTER,
    _A(
        "until",
        Kind.STRING,
        "Only messages that arrived up to this mark: `until` of the first call. Not set: up to now.",
        nullable=True,
    ),
    _A("count", Kind.INTEGER, f"Maximum number, 1 to {MOST_HANDLED:,}. 0 or not set: {MOST_HANDLED:,}.", "messages"),
    _A("preview", Kind.BOOLEAN, "Count the messages, at most `count` if that is set, and change nothing."),
    REASON,
    ACTOR,
)
_TO = _A("to", Kind.STRING, "The other queue's name; it is in the same virtual host.", required=True)
_CHANGE_ANSWER = (
    _A("messages", Kind.INTEGER, "Messages that were changed.", "messages"),
    _A("bytes", Kind.INTEGER, "Their bytes.", "bytes"),
    _A("skipped", Kind.LIST, "Messages that were left as they are: maps of id, why."),
    _SEARCHED,
    _NEXT,
    _A("until", Kind.STRING, "The mark for further calls: they do not touch messages that arrive from now on."),
    _A(
        "blocked",
        Kind.STRING,
        'Why the target takes no more now: the rest stays where it is, and a later call goes on. "": it does.',
    ),
)

MOVE_MESSAGES = Operation(
    "move-messages",
    "Move messages to another queue that has room for them. One that a consumer has acquired is skipped. In the queue's"
    " dead-letter queue they are dead letters, with the reason moved-by-operator.",
    (_TO, *_SELECTION),
    _CHANGE_ANSWER,
    "change",
)
COPY_MESSAGES = Operation(
    "copy-messages",
    "Copy messages to another queue that has room for them. One that a consumer has acquired is skipped.",
    (_TO, *_SELECTION),
    _CHANGE_ANSWER,
    "change",
)
RETRY_MESSAGES = Operation(
    "retry-messages",
    "Move dead letters back to the queues that they came from, without the annotations of dead letters.",
    _SELECTION,
    _CHANGE_ANSWER,
    "change",
)
DELETE_MESSAGES = Operation(
    "delete-messages",
    "Delete messages. One that a consumer has acquired is skipped.",
    _SELECTION,
    _CHANGE_ANSWER,
    "destroy",
)
READ_MESSAGE = Operation(
    "read-message",
    "Read one message, with a part of its body. Takes none.",
    (
        _A("id", Kind.STRING, "The message's id.", required=True),
        _A("offset", Kind.INTEGER, "Where the part of the body begins.", "bytes"),
        _A("size", Kind.INTEGER, f"Maximum size of the part, to {MOST_OF_BODY:,}. Not set: {USUAL_PART:,}.", "bytes"),
    ),
    (
        _A("message", Kind.MAP, "The message, with annotations, delivery_annotations and footer: maps."),
        _A(
            "body_kind",
            Kind.STRING,
            "data: bytes; text; value, sequence: JSON of it; none: there is no body; undecodable: the bytes of the"
            " whole message.",
            choices=BODY_KINDS,
        ),
        _A("body", Kind.STRING, "The part of the body, in base64; text and JSON in UTF-8."),
        _A("body_bytes", Kind.INTEGER, "Size of the whole body in that form.", "bytes"),
        _A("cut", Kind.BOOLEAN, "There is more of the body than this part."),
    ),
    role=MESSAGE_READER,
)
SUMMARIZE_MESSAGES = Operation(
    "summarize-messages",
    "Count the messages, by reason and source queue of dead letters.",
    (_MATCH, _AFTER),
    (
        _A(
            "groups",
            Kind.LIST,
            'Maps of reason and queue (both "": no dead letters), messages, bytes, oldest_at (ms; None: not known), of'
            " the part of the queue that this call has searched.",
        ),
        _NEXT,
        _SEARCHED,
    ),
)
PUBLISH_MESSAGE = Operation(
    "publish-message",
    "Publish a test message through the flow control that a producer's message meets.",
    (
        _A("body", Kind.STRING, "The body, in base64."),
        _A("body_kind", Kind.STRING, "data: bytes; text, or not set: UTF-8.", choices=("", "data", "text")),
        _A("durable", Kind.BOOLEAN, "It survives a restart of the broker, in a durable queue."),
        _A("priority", Kind.INTEGER, "0 to 9. Not set: 4."),
        _A("ttl_ms", Kind.INTEGER, "Time to live. 0 or not set: it does not expire.", "ms"),
        _A("properties", Kind.MAP, "Standard properties, such as subject: name -> text."),
        _A("application_properties", Kind.MAP, "The application's own: name -> text, number or boolean."),
        REASON,
        ACTOR,
    ),
    (
        _A(
            "outcome",
            Kind.STRING,
            "accepted: the queue has it; parked: a producer's message would wait now, and this one was not taken;"
            " rejected; discarded: a ring queue dropped it at once.",
            choices=("accepted", "parked", "rejected", "discarded"),
        ),
        _A("id", Kind.STRING, "The message's id in the queue, if it is there.", nullable=True),
        _A("sentence", Kind.STRING, "What came of it, for people."),
    ),
    "change",
    role=PUBLISHER,
)

MESSAGE_OPERATIONS = (
    LIST_MESSAGES,
    READ_MESSAGE,
    SUMMARIZE_MESSAGES,
    MOVE_MESSAGES,
    COPY_MESSAGES,
    RETRY_MESSAGES,
    DELETE_MESSAGES,
    PUBLISH_MESSAGE,
)

MESSAGE_NOTIFICATIONS = (
    Notification("messages-moved", "HGT-1013", "An operator moved messages to another queue."),
    Notification("messages-copied", "HGT-1014", "An operator copied messages to another queue."),
    Notification("messages-deleted", "HGT-1015", "An operator deleted messages of the queue."),
    Notification("test-message-published", "HGT-1016", "An operator published a test message."),
)
