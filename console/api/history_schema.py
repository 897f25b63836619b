"""The shapes of the history's answers, for the OpenAPI description. Times are ms since the epoch; null is not known."""

from __future__ import annotations

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse
from rest_framework import serializers

from console.api.schema import INVALID, Refusal, asked
from console.history import blocked
from console.history.incident import GROUPS
from console.history.series import FIELDS

REFUSALS: dict[int, Any] = {
    400: INVALID,
    403: OpenApiResponse(Refusal, description="Not signed in."),
    404: OpenApiResponse(Refusal, description="Nothing has been recorded yet."),
    503: OpenApiResponse(Refusal, description="The tables cannot be read."),
}

BROKER = asked("broker", "Name of a broker in the history, imported ones included; all of them if it is left out.")
RANGE = [
    asked("from", "ms since the epoch, or ISO 8601 with a zone; left out: a day before `until`."),
    asked("until", "As `from`; left out: now. At most 1,200 days after it."),
]
QUEUE = [
    asked("broker", "Name of a broker in the history; the first configured one if it is left out."),
    asked("virtualhost", "The queue's virtual host.", default="default"),
    asked("queue", "The queue's name.", required=True),
]
MAYBE_QUEUE = [
    asked("broker", "Name of a broker in the history; left out: all of them, or of a queue the first configured one."),
    asked("virtualhost", "Only of this virtual host."),
    asked("queue", "Only of this queue."),
]
MEASURE = asked(
    "measure",
    "Which time: `blocked`, of producers that flow control held; `overfull` or `stopped`, of queues in that state.",
    enum=list(blocked.MEASURES),
    default="blocked",
)
FILE = asked("as", "Format of the file.", enum=["csv", "parquet"], default="csv")
FILE_ANSWER = OpenApiResponse(OpenApiTypes.BINARY, description="The rows, sent while they are read.")


def _int(says: str, *, null: bool = False) -> serializers.IntegerField:
    return serializers.IntegerField(help_text=says, allow_null=null)


def _text(says: str, *, null: bool = False) -> serializers.CharField:
    return serializers.CharField(help_text=says, allow_null=null)


def _list(says: str) -> serializers.ListField:
    return serializers.ListField(child=serializers.FloatField(allow_null=True), help_text=says)


def _spans(says: str) -> serializers.ListField:
    return serializers.ListField(child=serializers.ListField(child=serializers.IntegerField()), help_text=says)


class KnownBroker(serializers.Serializer[Any]):
    broker = _text("Its name in the history.")
    first = _int("The first moment that somebody looked.")
    last = _int("The last one.")
    imported = serializers.BooleanField(help_text="Whether all that is known comes from logs.")


class Known(serializers.Serializer[Any]):
    recorded = serializers.BooleanField(help_text="Whether anything is known at all.")
    landed = serializers.BooleanField(
        help_text="Nothing is known yet, but recordings or imported logs wait to be worked out."
    )
    now = _int("The server's time.")
    brokers = KnownBroker(many=True)


class KnownQueue(serializers.Serializer[Any]):
    broker = _text("Its broker.")
    virtualhost = _text("Its virtual host.")
    name = _text("Its name.")
    first = _int("The first day that is known of it.")
    last = _int("The last one.")


_range: dict[str, Any] = {"from": _int("Beginning of the range."), "until": _int("End of the range.")}
_PER_POINT = " For each of `at`."

Series = type(
    "Series",
    (serializers.Serializer,),
    {
        "broker": _text("Name of the broker."),
        "virtualhost": _text("The queue's virtual host."),
        "queue": _text("The queue's name."),
        **_range,
        "resolution": _text("raw, minute, hour or day."),
        "step_ms": _int("ms of each point; 0: as they came."),
        "known": _int("Points of which something is known."),
        "at": serializers.ListField(child=serializers.IntegerField(), help_text="Times of the points, ascending."),
        "held": serializers.ListField(
            child=serializers.BooleanField(),
            allow_null=True,
            help_text="Raw points: whether the values hold until the next one; what a log tells are single moments.",
        ),
        "unwatched": _spans("Spans, each [from, until], in which nobody looked."),
        **{name: _list(f"{name.replace('_', ' ').capitalize()}.{_PER_POINT}") for name in FIELDS},
    },
)


class TopRow(serializers.Serializer[Any]):
    broker = _text("Its broker.")
    virtualhost = _text("Its virtual host.")
    name = _text("Name of the queue or virtual host; of a producer its client and link.")
    queues = _text("Of a producer: where it published.", null=True)
    blocked_ms = _int("Time that its producers, or it, were held.", null=True)
    overfull_ms = _int("Time overfull.", null=True)
    stopped_ms = _int("Time under an operator's stop.", null=True)
    watched_ms = _int("Time that somebody looked, in which there was something to tell.", null=True)
    episodes = _int("Times that it became overfull.", null=True)
    blocks = _int("Times that a producer was blocked.", null=True)
    messages_max = _int("Greatest depth in messages.", null=True)
    bytes_max = _int("Greatest depth in bytes.", null=True)


Top = type(
    "Top",
    (serializers.Serializer,),
    {**_range, "step_ms": _int("The range was made whole to this."), "rows": TopRow(many=True)},
)


class HeatQueue(serializers.Serializer[Any]):
    broker = _text("Its broker.")
    virtualhost = _text("Its virtual host.")
    name = _text("Its name.")
    total_ms = _int("Sum of its row.")


Heat = type(
    "Heat",
    (serializers.Serializer,),
    {
        **_range,
        "bucket_ms": _int("ms of a slot."),
        "at": serializers.ListField(child=serializers.IntegerField(), help_text="Beginnings of the slots."),
        "queues": HeatQueue(many=True, help_text="Those that lost the most, in that order."),
        "values": serializers.ListField(
            child=serializers.ListField(child=serializers.IntegerField(allow_null=True)),
            help_text="For each queue, for each slot: ms lost; null where nobody looked.",
        ),
    },
)


class Episode(serializers.Serializer[Any]):
    id = _text("Stays the same.")
    kind = _text("overfull or stopped.")
    broker = _text("Its broker.")
    virtualhost = _text("The queue's virtual host.", null=True)
    queue = _text("The queue; null for a stop, which has a scope.", null=True)
    scope = _text("What an operator stopped.", null=True)
    start = _int("When it began.")
    end = _int("When it ended; null: it has not.", null=True)
    duration_ms = _int("How long it lasted.", null=True)
    peak_messages = _int("Greatest depth in messages.", null=True)
    peak_bytes = _int("Greatest depth in bytes.", null=True)
    stop_messages = _int("The stop level in messages; 0: none.", null=True)
    stop_bytes = _int("The stop level in bytes; 0: none.", null=True)
    producers = _int("Producers that were held.", null=True)
    connections = _int("Their connections.", null=True)
    blocked_ms = _int("Time that those producers lost.", null=True)
    actor = _text("Who stopped.", null=True)
    reason = _text("Why.", null=True)
    released_by = _text("What ended it.", null=True)
    released_actor = _text("Who ended it.", null=True)
    released_reason = _text("Why.", null=True)


_EVENT_TEXTS = {
    "broker": "Its broker.",
    "run": "Whose numbers these are.",
    "kind": "Name of a declared notification.",
    "object": "Object name.",
    "object_type": "Type of the object.",
    "virtualhost": "Virtual host.",
    "queue": "Queue.",
    "client": "The client.",
    "link": "The producer's link.",
    "connection": "The connection, as the log has it.",
    "channel": "The channel, as the log has it.",
    "state": "The queue's state just after it.",
    "actor": "Who did it.",
    "reason": "Why; of an edit as the audit trail has it.",
    "scope": "What was stopped or started.",
    "pattern": "Pattern of that scope.",
    "text": "The line of the broker log.",
    "source": "recorder, log or made.",
}
_EVENT_NUMBERS = {
    "number": "Unique in its run.",
    "at": "When.",
    "sequence": "Order of those at one time.",
    "depth_messages": "Depth just after it.",
    "depth_bytes": "Depth just after it.",
    "blocked_producers": "Producers of the queue that are held just after it.",
    "stop_messages": "The level that it names.",
    "stop_bytes": "The level that it names.",
    "resume_messages": "The level that it names.",
    "resume_bytes": "The level that it names.",
    "queues": "Queues that a stop or start touched.",
    "producers": "Producers attached to them.",
    "lasted_ms": "How long what it ends had lasted.",
    "messages": "Messages dropped or purged.",
}
_NEVER_NULL = ("broker", "run", "kind", "source", "number", "at", "sequence")
HistoryEvent = type(
    "HistoryEvent",
    (serializers.Serializer,),
    {
        **{name: _text(says, null=name not in _NEVER_NULL) for name, says in _EVENT_TEXTS.items()},
        **{name: _int(says, null=name not in _NEVER_NULL) for name, says in _EVENT_NUMBERS.items()},
        "reasons": serializers.ListField(
            child=serializers.CharField(), allow_null=True, help_text="Why a producer is blocked."
        ),
        "before": serializers.DictField(allow_null=True, help_text="Of an edit: the old values."),
        "after": serializers.DictField(allow_null=True, help_text="Of an edit: the new values."),
    },
)


class EventPage(serializers.Serializer[Any]):
    count = _int("Events that match.")
    groups = serializers.DictField(
        child=serializers.IntegerField(), help_text=f"Events that match, by group: {', '.join(GROUPS)}."
    )
    page = _int("Number of this page, from 1.")
    page_size = _int("Rows of a full page.")
    results = HistoryEvent(many=True)


EventPage.__name__ = "HistoryEventPage"


def _float(says: str) -> serializers.FloatField:
    return serializers.FloatField(help_text=says, allow_null=True)


FleetAdvice = type(
    "FleetAdvice",
    (serializers.Serializer,),
    {
        "broker": _text("The queue's broker."),
        "virtualhost": _text("Its virtual host."),
        "queue": _text("Its name."),
        "from": _int("Beginning of what was replayed."),
        "until": _int("Its end: the last moment that somebody looked at the broker, by then."),
        "kind": _text("raise-capacity, add-consumers, lower-resume, never-reached, no-limit or none."),
        "text": _text("A sentence for people."),
        "observed_seconds": _float("Time that was replayed."),
        "recorded_blocked_seconds": _float("How long its producers were held in fact."),
        "replayed_blocked_seconds": _float("The same as the replay makes it out."),
        "replayed_episodes": _int("Times overfull, as the replay makes it out.", null=True),
        "peak_messages": _float("Greatest depth in fact."),
        "peak_bytes": _float("Greatest depth in fact."),
        **{
            f"{prefix}{level}_{unit}": _float(f"{'Recommended ' if prefix else ''}{level} level; 0: none.".capitalize())
            for prefix in ("", "recommended_")
            for level in ("stop", "resume")
            for unit in ("messages", "bytes")
        },
        "recommended_blocked_seconds": _float("What the recommended limits would have come to."),
        "recommended_episodes": _int("What they would have come to.", null=True),
        "recommended_peak_bytes": _float("The memory or disk that they need."),
    },
)
