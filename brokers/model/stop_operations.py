"""The declared operations that stop and start the producers of a scope, preview a stop and report its progress; the
notifications."""

from __future__ import annotations

from brokers.model.declarations import Attribute, Kind, Notification, Operation

_A = Attribute

REASON = _A("reason", Kind.STRING, "The operator's reason; stored with the stop and shown to all users.")
ACTOR = _A("actor", Kind.STRING, "The user on whose behalf the call is made, if not the connection's own.")
_PATTERN = _A(
    "pattern",
    Kind.STRING,
    "Only queues whose name matches: * stands for one word, > or # for any number of words at the end. Empty: all.",
)
_QUEUES = _A("queues", Kind.LIST, "Only these queues, by their object names: each is stopped or started on its own.")
_CLIENT = (
    _A("user", Kind.STRING, "Only producers of clients that signed in as this user. Empty or not set: of all users."),
    _A(
        "container_id",
        Kind.STRING,
        "Only producers of clients with this container-id, the client's name for itself. Empty or not set: of all.",
    ),
    _A("link", Kind.STRING, "Only producers whose link has this name. Empty or not set: all of their clients."),
)
#: Arguments that restrict a stop to clients.
CLIENT_ARGUMENTS = frozenset(argument.name for argument in _CLIENT)
_END = (
    _A("for_ms", Kind.INTEGER, "Start them automatically after this time. 0 or not set: never.", "ms"),
    _A(
        "below",
        Kind.INTEGER,
        "Start them automatically when the depth of every covered queue is at or below this part of its capacity; for"
        " clients, of every queue at which their producers are blocked, or were since the stop. 0 or not set: never.",
        "%",
    ),
)
_STAGE = (
    _A(
        "rate",
        Kind.INTEGER,
        "Staged: messages per second that each queue accepts at first, doubled with every step; after six steps there"
        " is no limit. 0 or not set: no stages.",
        "messages/s",
    ),
    _A("step_ms", Kind.INTEGER, "Staged: how long a step lasts. Not set: 10 s.", "ms"),
    _A("halt", Kind.INTEGER, "Staged: stop all producers again if a queue is above this part of its capacity.", "%"),
)
_ONLY = _A("only", Kind.BOOLEAN, "Lift exactly this stop, and none inside its scope.")
EFFECT = _A(
    "effect",
    Kind.STRING,
    "What the request expects the stop to do to producers: hold (they wait, nothing is lost), trickle (they are slowed"
    " to the pace of the consumers), reject (their messages are refused) or cut (their connections are closed). It must"
    " be named unless it is hold. Empty or not set: hold.",
    choices=("", "hold", "trickle", "reject", "cut"),
)
_PROGRESS_ANSWER = (
    _A("queues", Kind.INTEGER, "Queues that the call covers.", "queues"),
    _A("producers", Kind.INTEGER, "Producers attached to those queues.", "producers"),
    _A("stopped", Kind.INTEGER, "Producers that are blocked and have no credit.", "producers"),
    _A("draining", Kind.INTEGER, "Blocked producers whose messages in flight may still arrive.", "producers"),
)
#: Queues that `fullest` has.
MOST_FULLEST = 10
_DEPTH_END = (
    _A(
        "queues_above",
        Kind.INTEGER,
        "If a stop of exactly this scope ends at a depth: queues that are above it, for which the stop waits. None:"
        " there is no such stop, or it is not known.",
        "queues",
        nullable=True,
    ),
    _A(
        "fullest",
        Kind.LIST,
        "If a stop of exactly this scope ends at a depth: the fullest of the queues whose depth counts, at most"
        f" {MOST_FULLEST}: maps of queue (object name) and percent (of its capacity, rounded up).",
        nullable=True,
    ),
)
_STOP_ANSWER = (
    *_PROGRESS_ANSWER,
    _A("changed", Kind.BOOLEAN, "False if the stop existed already, or did not exist."),
    _A("changed_queues", Kind.LIST, "The named queues whose own stop this call created or removed."),
    _A("missing", Kind.INTEGER, "Named queues that do not exist.", "queues"),
    _A("unstoppable", Kind.INTEGER, "Queues of the scope that cannot be stopped: their producers go on.", "queues"),
)
_PREVIEW_ANSWER = (
    _A("queues", Kind.INTEGER, "Queues that a stop would cover.", "queues"),
    _A("producers", Kind.INTEGER, "Producers that a stop would cover.", "producers"),
    _A(
        "unstoppable",
        Kind.INTEGER,
        "Queues of the scope that cannot be stopped: their producers would go on.",
        "queues",
    ),
    _A("fault", Kind.STRING, "Why this stop cannot be made; empty: it can."),
)


def stop_and_start(scope: str, *, pattern: bool, queues: bool = False) -> tuple[Operation, ...]:
    """`pattern`: a pattern can narrow the scope; `queues`: a list of queues can. Clients can narrow every scope; they
    are the last arguments, since Jolokia's clients give arguments by their place."""
    queues_of = (*((_PATTERN,) if pattern else ()), *((_QUEUES,) if queues else ()))
    selecting = (*queues_of, *_CLIENT)
    arguments = (REASON, ACTOR, *queues_of)
    return (
        Operation(
            "stop-producers",
            f"Block every producer of {scope} until producers are started again, or until the given end."
            " Idempotent, survives restarts.",
            (*arguments, *_END, EFFECT, *_CLIENT),
            _STOP_ANSWER,
            "change",
            producer_effect="hold",
        ),
        Operation(
            "start-producers",
            f"Lift the operator's stop of {scope}. An overfull queue still blocks its producers. Idempotent.",
            (*arguments, _ONLY, *_STAGE, *_CLIENT),
            _STOP_ANSWER,
            "change",
        ),
        Operation(
            "preview-stop",
            f"Return whether {scope} can be stopped, and how many of its queues cannot. Changes nothing.",
            selecting,
            _PREVIEW_ANSWER,
        ),
        Operation(
            "stop-progress",
            f"Return how many producers of {scope} are blocked, of how many messages may still arrive, and which queues"
            " a stop that ends at a depth waits for. Changes nothing.",
            selecting,
            (*_PROGRESS_ANSWER, *_DEPTH_END),
        ),
    )


STOPPED = Notification("producers-stopped", "HGT-1001", "An operator stopped the producers of a scope.")
STARTED = Notification("producers-started", "HGT-1002", "An operator started the producers of a scope again.")
