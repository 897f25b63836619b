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

from brokers.model.declarations import Attribute, Kind, Operation

_A = Attribute

#: Console roles that a call needs beyond what its effect says, see `Operation.role`.
MESSAGE_READER, PUBLISHER = "message-reader", "publisher"

#: Where a message is: ready for a consumer, with a consumer, before its delivery time.
STATES = AVAILABLE, ACQUIRED, DELAYED = "available", "acquired", "delayed"
#: In order of delivery; those that consumers have acquired first, the oldest first.
ORDERS = QUEUE_ORDER, UNACKNOWLEDGED = "queue", "unacknowledged"

#: Maximum number of messages in one answer, and that one call moves, copies or deletes.
MOST_LISTED, MOST_HANDLED = 200, 1000
#: Bytes of a body in one answer.
USUAL_PART, MOST_OF_BODY = 65_536, 1 << 20

_MATCH = _A(
    "match",
    Kind.MAP,
    "Conditions, all of which must hold: selector (JMS), properties (map: name -> text that it equals; an application"
    " property, or a standard one such as subject), older_than_ms, newer_than_ms (since their arrival), min_bytes,"
    " max_bytes, min_redeliveries, max_redeliveries, state, dead_letter_reason, dead_letter_queue. Not set: all.",
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

#: The operations that the broker implements.
MESSAGE_OPERATIONS = (LIST_MESSAGES,)
