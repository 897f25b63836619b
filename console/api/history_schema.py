"""Response serializers of the history, for the OpenAPI description. Times are ms since the epoch; null: no data."""

from __future__ import annotations

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema_serializer
from rest_framework import serializers

from console.api.schema import INVALID, Refusal, number_field, page_of, parameter, text_field
from console.history.query import blocked
from console.history.query.incident import GROUPS
from console.history.query.series import FIELDS
from console.history.query.totals import FIELDS as TOTALS
from console.history.whatif.kinds import KINDS

REFUSALS: dict[int, Any] = {
    400: INVALID,
    403: OpenApiResponse(Refusal, description="Not signed in."),
    404: OpenApiResponse(Refusal, description="Nothing has been recorded yet."),
    503: OpenApiResponse(Refusal, description="The tables cannot be read."),
}

BROKER = parameter("broker", "Name of a recorded or imported broker; default: all brokers.")
RANGE = [
    parameter("from", "ms since the epoch, or ISO 8601 with a zone; default: a day before `until`."),
    parameter("until", "As `from`; default: now. At most 1,200 days after `from`."),
]
QUEUE = [
    parameter("broker", "Name of a recorded or imported broker; default: the first configured one."),
    parameter("virtualhost", "The queue's virtual host.", default="default"),
    parameter("queue", "The queue's name.", required=True),
]
MAYBE_QUEUE = [
    parameter(
        "broker", "Name of a recorded or imported broker; default: all, or with `queue` the first configured one."
    ),
    parameter("virtualhost", "Only of this virtual host."),
    parameter("queue", "Only of this queue."),
]
MEASURE = parameter(
    "measure",
    "`blocked`: time of producers blocked by flow control; `overfull`, `stopped`: time of queues in that state.",
    enum=list(blocked.MEASURES),
    default="blocked",
)
FILE = parameter("as", "Format of the file.", enum=["csv", "parquet"], default="csv")
FILE_ANSWER = OpenApiResponse(OpenApiTypes.BINARY, description="The rows, streamed.")


def _list(description: str) -> serializers.ListField:
    return serializers.ListField(child=serializers.FloatField(allow_null=True), help_text=description)


def _spans(description: str) -> serializers.ListField:
    return serializers.ListField(child=serializers.ListField(child=serializers.IntegerField()), help_text=description)


class RecordedBroker(serializers.Serializer[Any]):
    broker = text_field("Its name in the history.")
    first = number_field("First recorded moment.")
    last = number_field("Last recorded moment.")
    imported = serializers.BooleanField(help_text="Whether all data comes from imported logs.")


class HistoryCatalog(serializers.Serializer[Any]):
    recorded = serializers.BooleanField(help_text="Whether the history has data.")
    landed = serializers.BooleanField(
        help_text="Whether recording has started, or landing files await their first processing, while the history has"
        " no data."
    )
    recommendations = serializers.BooleanField(help_text="Whether recommendations have been computed for all queues.")
    now = number_field("The server's time.")
    brokers = RecordedBroker(many=True)


class RecordedQueue(serializers.Serializer[Any]):
    broker = text_field("Its broker.")
    virtualhost = text_field("Its virtual host.")
    name = text_field("Its name.")
    first = number_field("First recorded day.")
    last = number_field("Last recorded day.")


_range: dict[str, Any] = {"from": number_field("Start of the range."), "until": number_field("End of the range.")}
_PER_POINT = " For each of `at`."

Series = extend_schema_serializer(deprecate_fields=["held"])(
    type(
        "Series",
        (serializers.Serializer,),
        {
            "broker": text_field("Name of the broker."),
            "virtualhost": text_field("The queue's virtual host."),
            "queue": text_field("The queue's name."),
            **_range,
            "resolution": text_field("raw, minute, hour or day."),
            "step_ms": number_field("ms per point; 0: raw points."),
            "known": number_field("Number of points with data."),
            "at": serializers.ListField(child=serializers.IntegerField(), help_text="Times of the points, ascending."),
            "state": serializers.ListField(
                child=serializers.CharField(allow_null=True),
                allow_null=True,
                help_text="Raw points: the queue's state.",
            ),
            "continuous": serializers.ListField(
                child=serializers.BooleanField(),
                allow_null=True,
                help_text="Raw points: whether the values apply until the next point; those of log entries do not.",
            ),
            "held": serializers.ListField(
                child=serializers.BooleanField(), allow_null=True, help_text="Deprecated: use `continuous`."
            ),
            "total_blocked_ms": number_field(
                "Blocked producer time within the recorded time of the range; of a longer block, the part in it. null:"
                " unknown.",
                allow_null=True,
            ),
            "unwatched": _spans("Spans, each [from, until], that were not recorded."),
            **{name: _list(f"{name.replace('_', ' ').capitalize()}.{_PER_POINT}") for name in FIELDS},
        },
    )
)


_unreported = {
    "unreported": serializers.ListField(
        child=serializers.CharField(),
        help_text="Brokers that do not report the blocked producers of queues: their blocked time is unknown.",
    )
}


class TopRow(serializers.Serializer[Any]):
    broker = text_field("Its broker.")
    virtualhost = text_field("Its virtual host.")
    name = text_field("Name of the queue or virtual host; for a producer its client and link.")
    queues = text_field("For a producer: the queues it published to.", allow_null=True)
    blocked_ms = number_field("Blocked producer time; null: the broker does not report it.", allow_null=True)
    overfull_ms = number_field("Overfull time.", allow_null=True)
    stopped_ms = number_field("Time stopped by an operator.", allow_null=True)
    watched_ms = number_field("Recorded time.", allow_null=True)
    episodes = number_field("Number of times it became overfull.", allow_null=True)
    blocks = number_field("Number of times a producer was blocked.", allow_null=True)
    messages_max = number_field("Highest depth in messages.", allow_null=True)
    bytes_max = number_field("Highest depth in bytes.", allow_null=True)


Top = type(
    "Top",
    (serializers.Serializer,),
    {
        **_range,
        "step_ms": number_field("The range is rounded to multiples of this."),
        "rows": TopRow(many=True),
        **_unreported,
    },
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
        "bucket_ms": number_field("ms per slot."),
        "at": serializers.ListField(child=serializers.IntegerField(), help_text="Start of each slot."),
        "queues": HeatQueue(many=True, help_text="The most blocked queues, in descending order."),
        "values": serializers.ListField(
            child=serializers.ListField(child=serializers.IntegerField(allow_null=True)),
            help_text="For each queue and slot: ms of the measure; null: not recorded.",
        ),
        "unwatched": serializers.DictField(
            child=_spans("Spans of one broker, each [from, until]."),
            help_text="For each broker of `queues`: spans that were not recorded.",
        ),
        **_unreported,
    },
)


_TOTALS = {
    "rate_in": "Messages per second that arrived",
    "rate_out": "Messages per second that were acknowledged or taken out",
    "messages": "Mean depth in messages",
    "bytes": "Mean depth in bytes",
    "blocked_ms": "Blocked producer time, ms",
}

Totals = type(
    "Totals",
    (serializers.Serializer,),
    {
        **_range,
        "step_ms": number_field("ms per point; the range is rounded to multiples of this."),
        "at": serializers.ListField(child=serializers.IntegerField(), help_text="Start of each point."),
        **{name: _list(f"{_TOTALS[name]}, in all.{_PER_POINT} Null: not known.") for name in TOTALS},
        "unwatched": serializers.DictField(
            child=_spans("Spans of one broker, each [from, until]."),
            help_text="For each broker: spans that were not recorded, which the sums lack.",
        ),
        **_unreported,
    },
)


class Episode(serializers.Serializer[Any]):
    id = text_field("Stable identifier.")
    kind = text_field("overfull or stopped.")
    broker = text_field("Its broker.")
    virtualhost = text_field("The queue's virtual host.", allow_null=True)
    queue = text_field("The queue; null for an operator's stop, which has a scope.", allow_null=True)
    scope = text_field("Scope of an operator's stop.", allow_null=True)
    start = number_field("Start.")
    end = number_field("End; null: ongoing. `released_by` restart: the last known moment before it.", allow_null=True)
    known_until = number_field("Its end; of an ongoing one the last recorded moment of its broker.")
    duration_ms = number_field("Duration.", allow_null=True)
    peak_messages = number_field("Highest depth in messages.", allow_null=True)
    peak_bytes = number_field("Highest depth in bytes.", allow_null=True)
    stop_messages = number_field("The stop level in messages; 0: none.", allow_null=True)
    stop_bytes = number_field("The stop level in bytes; 0: none.", allow_null=True)
    producers = number_field("Number of blocked producers.", allow_null=True)
    connections = number_field("Number of their connections.", allow_null=True)
    blocked_ms = number_field("Blocked producer time.", allow_null=True)
    actor = text_field("User who stopped the producers.", allow_null=True)
    reason = text_field("Reason of the stop.", allow_null=True)
    released_by = text_field("Cause of the end.", allow_null=True)
    released_actor = text_field("User who ended it.", allow_null=True)
    released_reason = text_field("Reason given for the end.", allow_null=True)


_EVENT_TEXTS = {
    "broker": "Its broker.",
    "run": "Recorder run that numbered the event.",
    "kind": "Name of the event.",
    "object": "Object name.",
    "object_type": "Type of the object.",
    "virtualhost": "Virtual host.",
    "queue": "Queue.",
    "client": "The client.",
    "link": "The producer's link.",
    "connection": "The connection as in the log.",
    "channel": "The channel as in the log.",
    "state": "The queue's state after the event.",
    "actor": "User who acted.",
    "reason": "Reason; for an edit from the audit trail.",
    "scope": "Stopped or started scope.",
    "pattern": "Name pattern of that scope.",
    "text": "Line of the broker log.",
    "source": "recorder, log or made (generated).",
}
_EVENT_NUMBERS = {
    "number": "Unique within its run.",
    "at": "Time.",
    "sequence": "Order of events with the same time.",
    "depth_messages": "Depth after the event.",
    "depth_bytes": "Depth after the event.",
    "blocked_producers": "Blocked producers of the queue after the event.",
    "stop_messages": "The reported level.",
    "stop_bytes": "The reported level.",
    "resume_messages": "The reported level.",
    "resume_bytes": "The reported level.",
    "queues": "Queues affected by a stop or start.",
    "producers": "Producers attached to them.",
    "lasted_ms": "Duration of the state that the event ends.",
    "messages": "Messages dropped or purged.",
}
_NEVER_NULL = ("broker", "run", "kind", "source", "number", "at", "sequence")
HistoryEvent = type(
    "HistoryEvent",
    (serializers.Serializer,),
    {
        **{
            name: text_field(description, allow_null=name not in _NEVER_NULL)
            for name, description in _EVENT_TEXTS.items()
        },
        **{
            name: number_field(description, allow_null=name not in _NEVER_NULL)
            for name, description in _EVENT_NUMBERS.items()
        },
        "reasons": serializers.ListField(
            child=serializers.CharField(), allow_null=True, help_text="Reasons why a producer is blocked."
        ),
        "before": serializers.DictField(allow_null=True, help_text="For an edit: the old values."),
        "after": serializers.DictField(allow_null=True, help_text="For an edit: the new values."),
    },
)


class EventPage(serializers.Serializer[Any]):
    count = number_field("Number of matching events.")
    groups = serializers.DictField(
        child=serializers.IntegerField(), help_text=f"Number of matching events by group: {', '.join(GROUPS)}."
    )
    page = number_field("Number of this page, from 1.")
    page_size = number_field("Rows per page.")
    results = HistoryEvent(many=True)


EventPage.__name__ = "HistoryEventPage"


def _float(description: str) -> serializers.FloatField:
    return serializers.FloatField(help_text=description, allow_null=True)


Recommendation = type(
    "Recommendation",
    (serializers.Serializer,),
    {
        "broker": text_field("The queue's broker."),
        "virtualhost": text_field("Its virtual host."),
        "queue": text_field("Its name."),
        "from": number_field("Start of the replayed range."),
        "until": number_field("End of the replayed range: the broker's last recorded moment at that time."),
        "kind": text_field(f"{', '.join(KINDS[:-1])} or {KINDS[-1]}."),
        "text": text_field("The recommendation as a sentence."),
        "observed_seconds": _float("Replayed time."),
        "recorded_blocked_seconds": _float("Recorded blocked producer time, as in the top lists."),
        "recorded_overfull_seconds": _float("Recorded overfull time."),
        "simulated_blocked_low_seconds": _float("Simulated blocked producer time under the current limits, at least."),
        "simulated_blocked_high_seconds": _float("The same, at most."),
        "peak_messages": _float("Highest recorded depth."),
        "peak_bytes": _float("Highest recorded depth."),
        **{
            f"{prefix}{level}_{unit}": _float(f"{'Recommended ' if prefix else ''}{level} level; 0: none.".capitalize())
            for prefix in ("", "recommended_")
            for level in ("stop", "resume")
            for unit in ("messages", "bytes")
        },
        "recommended_blocked_low_seconds": _float(
            "Simulated blocked producer time under the recommended limits, at least."
        ),
        "recommended_blocked_high_seconds": _float("The same, at most."),
        "replayed_blocked_seconds": _float("Deprecated: use `simulated_blocked_high_seconds`."),
        "recommended_blocked_seconds": _float("Deprecated: use `recommended_blocked_high_seconds`."),
        "recommended_peak_bytes": _float("Memory or disk required by the recommended limits."),
    },
)


class RequiredBytes(serializers.Serializer[Any]):
    broker = text_field("The broker.")
    required_bytes = number_field("What its recommended capacities need together, beyond the recorded peaks.")
    memory_free_bytes = number_field("Free memory below its limit now; absent: not known.", required=False)
    store_free_bytes = number_field("Free disk space below its store's limit now; absent: not known.", required=False)


class Recommendations(page_of(Recommendation)):  # type: ignore[misc]
    required = RequiredBytes(many=True)
