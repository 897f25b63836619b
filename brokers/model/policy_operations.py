"""The declared operations that tell what policies do, and would do. They change nothing."""

from __future__ import annotations

from brokers.model.declarations import Attribute, Kind, Operation

_A = Attribute

#: Changes that one preview takes at most, and queues that it names at most.
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
            "Field -> map of value, origin (own, pattern PATTERN, exchange NAME, virtualhost, broker, built-in).",
        ),
        _A("inherited", Kind.MAP, "The same, if the object itself set nothing."),
    ),
)

PREVIEW_CHANGE = Operation(
    "preview-change",
    "Get the impact that changes of policies, made together, would have on the queues, or what is wrong with them.",
    (
        _A(
            "changes",
            Kind.LIST,
            "Maps of object (its name), action (update; create or delete for a Policy), attributes (policy fields, and"
            " the priority of a Policy) and, if the change shall be refused when the object has changed, version. Or,"
            " instead of object and version, objects: a map of names to versions or None.",
            required=True,
        ),
        _A("largest", Kind.INTEGER, "How many queues to name, those that most happens to first. Not set: 20."),
        _A(
            "one_by_one",
            Kind.BOOLEAN,
            "The changes of queues will be made one by one: a queue that refuses its own is reported and left out.",
        ),
    ),
    (
        _A("queues", Kind.INTEGER, "Queues that look at what is changed.", "queues"),
        _A("changed", Kind.INTEGER, "Queues for which another value comes into force.", "queues"),
        _A("overfull", Kind.INTEGER, "Queues that become overfull now.", "queues"),
        _A("released", Kind.INTEGER, "Queues that are overfull and would not be.", "queues"),
        _A("held", Kind.INTEGER, "Producers that run and would be blocked.", "producers"),
        _A("freed", Kind.INTEGER, "Producers that are blocked and would run.", "producers"),
        _A("dropped", Kind.INTEGER, "Messages that ring queues would drop now, about.", "messages"),
        _A("refused", Kind.INTEGER, "Queues that would refuse their own change; see one_by_one.", "queues"),
        _A("refusals", Kind.LIST, "Of these the first: maps of object, detail."),
        _A("versions", Kind.MAP, "Object of a change -> its version now; None for one that is not there."),
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
