"""The shapes of the history's answers, for the OpenAPI description. Times are ms since the epoch; null is not known."""

from __future__ import annotations

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse
from rest_framework import serializers

from console.api.schema import INVALID, Refusal, number_field, parameter, text_field
from console.history.query import blocked
from console.history.query.incident import GROUPS
from console.history.query.series import FIELDS

REFUSALS: dict[int, Any] = {
    400: INVALID,
    403: OpenApiResponse(Refusal, description="Not signed in."),
    404: OpenApiResponse(Refusal, description="Nothing has been recorded yet."),
    503: OpenApiResponse(Refusal, description="The tables cannot be read."),
}

BROKER = parameter("broker", "Name of a broker in the history, imported ones included; all of them if it is left out.")
RANGE = [
    parameter("from", "ms since the epoch, or ISO 8601 with a zone; left out: a day before `until`."),
    parameter("until", "As `from`; left out: now. At most 1,200 days after it."),
]
QUEUE = [
    parameter("broker", "Name of a broker in the history; the first configured one if it is left out."),
    parameter("virtualhost", "The queue's virtual host.", default="default"),
    parameter("queue", "The queue's name.", required=True),
]
MAYBE_QUEUE = [
    parameter(
        "broker", "Name of a broker in the history; left out: all of them, or of a queue the first configured one."
    ),
    parameter("virtualhost", "Only of this virtual host."),
    parameter("queue", "Only of this queue."),
]
MEASURE = parameter(
    "measure",
    "Which time: `blocked`, of producers that flow control held; `overfull` or `stopped`, of queues in that state.",
    enum=list(blocked.MEASURES),
    default="blocked",
)
FILE = parameter("as", "Format of the file.", enum=["csv", "parquet"], default="csv")
FILE_ANSWER = OpenApiResponse(OpenApiTypes.BINARY, description="The rows, sent while they are read.")


def _list(says: str) -> serializers.ListField:
    return serializers.ListField(child=serializers.FloatField(allow_null=True), help_text=says)


def _spans(says: str) -> serializers.ListField:
    return serializers.ListField(child=serializers.ListField(child=serializers.IntegerField()), help_text=says)


class KnownBroker(serializers.Serializer[Any]):
    broker = text_field("Its name in the history.")
    first = number_field("The first moment that somebody looked.")
    last = number_field("The last one.")
    imported = serializers.BooleanField(help_text="Whether all that is known comes from logs.")


class Known(serializers.Serializer[Any]):
    recorded = serializers.BooleanField(help_text="Whether anything is known at all.")
    landed = serializers.BooleanField(
        help_text="Nothing is known yet, but recordings or imported logs wait to be worked out."
    )
    now = number_field("The server's time.")
    brokers = KnownBroker(many=True)


class KnownQueue(serializers.Serializer[Any]):
    broker = text_field("Its broker.")
    virtualhost = text_field("Its virtual host.")
    name = text_field("Its name.")
    first = number_field("The first day that is known of it.")
    last = number_field("The last one.")


_range: dict[str, Any] = {"from": number_field("Beginning of the range."), "until": number_field("End of the range.")}
_PER_POINT = " For each of `at`."

Series = type(
    "Series",
    (serializers.Serializer,),
    {
        "broker": text_field("Name of the broker."),
        "virtualhost": text_field("The queue's virtual host."),
        "queue": text_field("The queue's name."),
        **_range,
        "resolution": text_field("raw, minute, hour or day."),
        "step_ms": number_field("ms of each point; 0: as they came."),
        "known": number_field("Points of which something is known."),
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
    broker = text_field("Its broker.")
    virtualhost = text_field("Its virtual host.")
    name = text_field("Name of the queue or virtual host; of a producer its client and link.")
    queues = text_field("Of a producer: where it published.", allow_null=True)
    blocked_ms = number_field("Time that its producers, or it, were held.", allow_null=True)
    overfull_ms = number_field("Time overfull.", allow_null=True)
    stopped_ms = number_field("Time under an operator's stop.", allow_null=True)
    watched_ms = number_field("Time that somebody looked, in which there was something to tell.", allow_null=True)
    episodes = number_field("Times that it became overfull.", allow_null=True)
    blocks = number_field("Times that a producer was blocked.", allow_null=True)
    messages_max = number_field("Greatest depth in messages.", allow_null=True)
    bytes_max = number_field("Greatest depth in bytes.", allow_null=True)


Top = type(
    "Top",
    (serializers.Serializer,),
    {**_range, "step_ms": number_field("The range was made whole to this."), "rows": TopRow(many=True)},
)


class HeatQueue(serializers.Serializer[Any]):
    broker = text_field("Its broker.")
    virtualhost = text_field("Its virtual host.")
    name = text_field("Its name.")
    total_ms = number_field("Sum of its row.")


Heat = type(
    "Heat",
    (serializers.Serializer,),
    {
        **_range,
        "bucket_ms": number_field("ms of a slot."),
        "at": serializers.ListField(child=serializers.IntegerField(), help_text="Beginnings of the slots."),
        "queues": HeatQueue(many=True, help_text="Those that lost the most, in that order."),
        "values": serializers.ListField(
            child=serializers.ListField(child=serializers.IntegerField(allow_null=True)),
            help_text="For each queue, for each slot: ms lost; null where nobody looked.",
        ),
    },
)


class Episode(serializers.Serializer[Any]):
    id = text_field("Stays the same.")
    kind = text_field("overfull or stopped.")
    broker = text_field("Its broker.")
    virtualhost = text_field("The queue's virtual host.", allow_null=True)
    queue = text_field("The queue; null for a stop, which has a scope.", allow_null=True)
    scope = text_field("What an operator stopped.", allow_null=True)
    start = number_field("When it began.")
    end = number_field("When it ended; null: it has not.", allow_null=True)
    duration_ms = number_field("How long it lasted.", allow_null=True)
    peak_messages = number_field("Greatest depth in messages.", allow_null=True)
    peak_bytes = number_field("Greatest depth in bytes.", allow_null=True)
    stop_messages = number_field("The stop level in messages; 0: none.", allow_null=True)
    stop_bytes = number_field("The stop level in bytes; 0: none.", allow_null=True)
    producers = number_field("Producers that were held.", allow_null=True)
    connections = number_field("Their connections.", allow_null=True)
    blocked_ms = number_field("Time that those producers lost.", allow_null=True)
    actor = text_field("Who stopped.", allow_null=True)
    reason = text_field("Why.", allow_null=True)
    released_by = text_field("What ended it.", allow_null=True)
    released_actor = text_field("Who ended it.", allow_null=True)
    released_reason = text_field("Why.", allow_null=True)


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
        **{name: text_field(says, allow_null=name not in _NEVER_NULL) for name, says in _EVENT_TEXTS.items()},
        **{name: number_field(says, allow_null=name not in _NEVER_NULL) for name, says in _EVENT_NUMBERS.items()},
        "reasons": serializers.ListField(
            child=serializers.CharField(), allow_null=True, help_text="Why a producer is blocked."
        ),
        "before": serializers.DictField(allow_null=True, help_text="Of an edit: the old values."),
        "after": serializers.DictField(allow_null=True, help_text="Of an edit: the new values."),
    },
)


class EventPage(serializers.Serializer[Any]):
    count = number_field("Events that match.")
    groups = serializers.DictField(
        child=serializers.IntegerField(), help_text=f"Events that match, by group: {', '.join(GROUPS)}."
    )
    page = number_field("Number of this page, from 1.")
    page_size = number_field("Rows of a full page.")
    results = HistoryEvent(many=True)


EventPage.__name__ = "HistoryEventPage"


def _float(says: str) -> serializers.FloatField:
    return serializers.FloatField(help_text=says, allow_null=True)


FleetAdvice = type(
    "FleetAdvice",
    (serializers.Serializer,),
    {
        "broker": text_field("The queue's broker."),
        "virtualhost": text_field("Its virtual host."),
        "queue": text_field("Its name."),
        "from": number_field("Beginning of what was replayed."),
        "until": number_field("Its end: the last moment that somebody looked at the broker, by then."),
        "kind": text_field("raise-capacity, add-consumers, lower-resume, never-reached, no-limit or none."),
        "text": text_field("A sentence for people."),
        "observed_seconds": _float("Time that was replayed."),
        "recorded_blocked_seconds": _float("How long its producers were held in fact."),
        "replayed_blocked_seconds": _float("The same as the replay makes it out."),
        "replayed_episodes": number_field("Times overfull, as the replay makes it out.", allow_null=True),
        "peak_messages": _float("Greatest depth in fact."),
        "peak_bytes": _float("Greatest depth in fact."),
        **{
            f"{prefix}{level}_{unit}": _float(f"{'Recommended ' if prefix else ''}{level} level; 0: none.".capitalize())
            for prefix in ("", "recommended_")
            for level in ("stop", "resume")
            for unit in ("messages", "bytes")
        },
        "recommended_blocked_seconds": _float("What the recommended limits would have come to."),
        "recommended_episodes": number_field("What they would have come to.", allow_null=True),
        "recommended_peak_bytes": _float("The memory or disk that they need."),
    },
)
