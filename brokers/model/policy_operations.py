"""The declared read-only operations on policies: explanation of effective values, and preview of changes."""

from __future__ import annotations

from brokers.model.declarations import Attribute, Kind, Operation

_A = Attribute

#: Maximum number of changes in one preview, and of queues that it names.
MOST_CHANGES = 10_000
MOST_QUEUES = 200

EXPLAIN = Operation(
    "explain",
    "Get the effective value of each policy field and its origin.",
    (),
    (
        _A(
            "fields",
            Kind.MAP,
            "Field -> map of value, origin (own, pattern PATTERN, exchange NAME, virtualhost, broker, built-in;"
            " argument NAME of the queue, operator policy NAME; None: not known).",
        ),
        _A("inherited", Kind.MAP, "The same, if the object itself set nothing."),
    ),
)

PREVIEW_CHANGE = Operation(
    "preview-change",
    "Get the impact of policy changes, made together, on the queues, or the errors in them.",
    (
        _A(
            "changes",
            Kind.LIST,
            "Maps of object (its name), action (update; create or delete for a Policy), attributes (policy fields, and"
            " the priority of a Policy) and optionally version: the change is refused if the object has changed. Or,"
            " instead of object and version, objects: a map of names to versions or None.",
            required=True,
        ),
        _A("largest", Kind.INTEGER, "How many queues to name, the most affected first. Not set: 20."),
        _A(
            "one_by_one",
            Kind.BOOLEAN,
            "The changes of queues will be made one by one: a queue that refuses its own is reported and left out.",
        ),
    ),
    (
        _A("queues", Kind.INTEGER, "Queues that use what is changed.", "queues"),
        _A("changed", Kind.INTEGER, "Queues of which an effective value changes.", "queues"),
        _A("overfull", Kind.INTEGER, "Queues that become overfull now.", "queues"),
        _A("released", Kind.INTEGER, "Queues that are overfull now and no longer would be.", "queues"),
        _A("held", Kind.INTEGER, "Running producers that would be blocked. None: not known.", "producers"),
        _A("freed", Kind.INTEGER, "Blocked producers that would run. None: not known.", "producers"),
        _A("dropped", Kind.INTEGER, "Approximate number of messages that ring queues would drop now.", "messages"),
        _A("refused", Kind.INTEGER, "Queues that would refuse their own change; see one_by_one.", "queues"),
        _A("refusals", Kind.LIST, "The first of the refused queues: maps of object, detail."),
        _A("versions", Kind.MAP, "Object of a change -> its current version; None if it does not exist."),
        _A(
            "largest",
            Kind.LIST,
            "Maps of object, virtualhost, name, producers, depth_messages, depth_bytes; changes: field -> map of"
            " before, before_origin, after, after_origin; before and after: maps of state, the effective_ limits,"
            " blocked_producers, headroom_messages, headroom_bytes (None: no limit) and full_in_ms (at the rates of the"
            " last second; None: never); dropped (messages, about).",
        ),
    ),
)
