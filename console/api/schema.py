"""Serializers of requests and responses that several parts of the API share. Those of managed objects are derived from
`brokers/model/`, so that OpenAPI describes a new attribute without a change here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema_field, extend_schema_serializer
from rest_framework import serializers

from brokers.model import TYPES, Attribute, Kind
from console.api.fields import ObjectNameField, TextField
from console.api.strict import ANY
from console.audit.models import AuditEntry
from console.conditions.detectors import DETECTORS
from console.links import queue_filter

Shape = type[serializers.Serializer[Any]]

_TYPES_OF_JSON: dict[Kind, dict[str, Any]] = {
    Kind.STRING: {"type": "string"},
    Kind.INTEGER: {"type": "integer", "format": "int64", "minimum": 0},
    Kind.NUMBER: {"type": "number"},
    Kind.BOOLEAN: {"type": "boolean"},
    Kind.LEVEL: {
        "oneOf": [
            {"type": "integer", "format": "int64", "minimum": 0},
            {"type": "string", "pattern": r"^\d{1,3}(\.\d{1,3})?%$", "example": "80%"},
        ]
    },
    Kind.TIMESTAMP: {"type": "integer", "format": "int64", "minimum": 0},
    Kind.NAME: {"type": "string", "example": "type=Queue,virtualhost=default,name=orders"},
    Kind.LIST: {"type": "array", "items": {}},
    Kind.MAP: {"type": "object", "additionalProperties": True},
}


def _field(attribute: Attribute, *, required: bool) -> serializers.Field[Any, Any, Any, Any]:
    described = dict(_TYPES_OF_JSON[attribute.kind])
    if attribute.choices:
        described["enum"] = [*attribute.choices, *([None] if attribute.nullable else [])]
    unit = f" Unit: {attribute.unit}." if attribute.unit else ""
    shape: type[serializers.JSONField] = extend_schema_field(described)(
        type("AttributeField", (serializers.JSONField,), {})
    )
    return shape(required=required, allow_null=attribute.nullable, help_text=attribute.description + unit)


def shape_of(name: str, attributes: Iterable[Attribute], *, required: bool = True, **more: Any) -> Shape:
    """Return a serializer class with `more` fields and then a field for each declared attribute."""
    fields = {attribute.name: _field(attribute, required=required) for attribute in attributes}
    return type(name, (serializers.Serializer,), {**more, **fields})


def text_field(help_text: str, **options: Any) -> serializers.CharField:
    return serializers.CharField(help_text=help_text, **options)


def number_field(help_text: str, **options: Any) -> serializers.IntegerField:
    return serializers.IntegerField(help_text=help_text, **options)


OBJECT = "Object name, such as type=Queue,virtualhost=default,name=orders."


def object_field() -> serializers.CharField:
    return text_field(OBJECT)


Queue = shape_of("Queue", TYPES["Queue"].attributes, object=object_field())
Producer = shape_of("Producer", TYPES["Producer"].attributes, object=object_field())
BrokerAttributes = shape_of("BrokerAttributes", TYPES["Broker"].attributes)

REASON = "Why, in the operator's words."
VERSION = "Version of the object that you read: refused if the object has changed since."


class ManagedObject(serializers.Serializer[Any]):
    name = object_field()
    version = number_field("Version of the object.")
    attributes = serializers.DictField(help_text="Attributes that its type declares; see brokers/{slug}/types/.")


class ObjectPage(serializers.Serializer[Any]):
    total = number_field("Number of matching objects.")
    offset = number_field("Objects skipped before the first one here.")
    items = ManagedObject(many=True)


class ObjectChange(serializers.Serializer[Any]):
    version = number_field(VERSION)
    attributes = serializers.DictField(help_text="Writable attributes and their new values. All are set, or none.")
    reason = TextField(REASON, default="")


class ObjectCreation(serializers.Serializer[Any]):
    object = ObjectNameField(OBJECT)
    attributes = serializers.DictField(default=dict, help_text="Attributes that can be given on creation.")
    reason = TextField(REASON, default="")


class OperationCall(serializers.Serializer[Any]):
    arguments = serializers.DictField(default=dict, help_text="Arguments that the operation declares.")


class Snapshot(serializers.Serializer[Any]):
    """Responses from the console's snapshot of a broker, which is updated while the broker responds."""

    as_of = number_field("Time of the snapshot, ms since the epoch by the console's clock.")
    stale = serializers.BooleanField(help_text="The broker does not respond: the snapshot is outdated.")


class Broker(serializers.Serializer[Any]):
    slug = text_field("Identifier of the broker in paths and `?broker=`.")
    title = text_field("Display name.")
    connected = serializers.BooleanField(help_text="Whether the console is connected to the broker.")
    since = number_field("Time of the last change of `connected`, ms since the epoch.")
    error = text_field("Why it is disconnected; empty if connected.")
    as_of = number_field("Time of the console's snapshot, ms since the epoch; null: none yet.", allow_null=True)
    stale = serializers.BooleanField(help_text="The broker does not respond: the snapshot is outdated.")


class BrokerDetail(Broker):
    attributes = BrokerAttributes(allow_null=True, help_text="As of `as_of`; null before the first connection.")


class Event(serializers.Serializer[Any]):
    number = number_field("Sequence number.")
    at = number_field("Time, ms since the epoch.")
    kind = text_field("Name of the notification that the type declares.")
    object = object_field()
    text = text_field("Message, as in the broker's log.")
    attributes = serializers.DictField(help_text="Attributes that the notification declares.")


class EventPage(Snapshot):
    newest = number_field("Number of the newest event.")
    last = number_field("Continue after this number. All visible events up to it are in the response.")
    expired_before = number_field(
        "Events below this number are no longer retained although requested; null: none are missing.", allow_null=True
    )
    events = Event(many=True)


@extend_schema_serializer(deprecate_fields=["told_by"])
class TimelineEntry(serializers.Serializer[Any]):
    id = text_field("Identifier: e and the number of an event, or a and the number of an audit entry.")
    number = number_field("Number of the event or audit entry.")
    source = serializers.ChoiceField(  # type: ignore[assignment]  # a serializer's class has no attribute of a field
        choices=["broker", "people"], help_text="broker: an event; people: an entry of the audit trail."
    )
    told_by = serializers.ChoiceField(choices=["broker", "people"], help_text="Deprecated: use source.")
    at = number_field("Time, ms since the epoch.")
    kind = text_field("Kind of the event, or the operation.")
    object = object_field()
    queue = text_field("Object name of the affected queue; null: none.", allow_null=True)
    producer = text_field("Client and link of the affected producer; null: none.", allow_null=True)
    actor = text_field("User who did it; empty for events.")
    outcome = text_field("Outcome of an audit entry: done, refused, failed or unknown.")
    reason = text_field(REASON)
    text = text_field("Message of the event, or detail of the audit entry.")


class TimelinePage(Snapshot):
    as_of = number_field(
        "Time of the snapshot with the events, ms since the epoch; null: no snapshot.", allow_null=True
    )
    entries = TimelineEntry(many=True)
    newest_event = number_field("Number of the newest event.")
    newest_audit = number_field("Number of the newest audit entry.")
    before_event = number_field("Value of the parameter for the next page.", required=False)
    before_audit = number_field("Value of the parameter for the next page.", required=False)
    more = serializers.BooleanField(
        required=False,
        help_text="Whether there may be older entries; with after_event: whether some were left out: search again.",
    )
    searched_to = number_field("Time that the search has reached, ms since the epoch.", required=False, allow_null=True)


class Condition(serializers.Serializer[Any]):
    kind = serializers.ChoiceField(choices=list(DETECTORS), help_text="Identifier of the condition.")
    title = text_field("Title of the condition.")
    object = object_field()
    severity = serializers.ChoiceField(
        choices=["trouble", "warning"], help_text="trouble: producers are blocked or messages at risk now."
    )
    saw = text_field("Evidence for the condition.")
    advice = text_field("Recommended action.")
    since = number_field("When it was first detected, ms since the epoch.")


@extend_schema_serializer(deprecate_fields=["asked", "says"])
class Why(serializers.Serializer[Any]):
    object = object_field()
    asked = text_field("Deprecated: use object.")
    blocked = serializers.BooleanField(
        allow_null=True, help_text="Whether it is blocked now; null: the broker does not report it."
    )
    summary = text_field("Explanation in one sentence.")
    says = text_field("Deprecated: use summary.")
    notes = serializers.ListField(
        child=serializers.CharField(), help_text="What is inferred, and what this broker does not report, as sentences."
    )
    queue = serializers.DictField(
        allow_null=True, help_text="Attributes of the queue; null if the broker does not report that of the producer."
    )
    producer = serializers.DictField(allow_null=True, help_text="Attributes of the producer; null of a queue.")
    causes = serializers.ListField(
        child=serializers.DictField(),
        help_text="What blocks the producers now; each cause alone suffices. Fields: kind (queue, stop, store, memory,"
        " temp, disk, or reported: by the producers' reasons alone), title, since, blocks (whether it blocks producers;"
        " deprecated: holds), resume_ms (time until it ends; null if unknown, and `because` says why); of a queue"
        " to_drain (deprecated: to_go) and its limits with the origin of every field and effective (deprecated: binds);"
        " of a stop its scope, reason, actor, and effect on producers.",
    )
    resume_ms = number_field("Estimated time until the last cause ends, ms; null: unknown.", allow_null=True)
    drain = serializers.DictField(help_text="Decrease of the depth, messages and bytes per second.")
    consumers = serializers.ListField(child=serializers.DictField(), help_text="Consumers, each with its activity.")
    consumers_total = number_field("Number of attached consumers; null: not known.", allow_null=True)
    producers = serializers.ListField(child=serializers.DictField(), help_text="Producers of the queue, blocked first.")
    producers_total = number_field("Number of attached producers; null: not known.", allow_null=True)
    connections = serializers.ListField(
        child=serializers.DictField(),
        help_text="Their connections, each with blocked_producers (deprecated: held) and its links to this and other"
        " queues.",
    )


class AuditRow(serializers.ModelSerializer[AuditEntry]):
    reason = text_field(REASON, source="shown_reason", read_only=True)
    detail = text_field(
        "Arguments and result, or the error message; truncated if very long, with a mark.",
        source="shown_detail",
        read_only=True,
    )

    class Meta:
        model = AuditEntry
        fields = [
            "id",
            "at",
            "user_name",
            "source_address",
            "broker",
            "virtualhost",
            "object",
            "operation",
            "reason",
            "before",
            "after",
            "outcome",
            "detail",
            "request_id",
        ]


class Refusal(serializers.Serializer[Any]):
    detail = text_field("Error message.")


class Stale(Refusal):
    current = serializers.DictField(help_text="Current state of the object: name, version and attributes.")


def page_of(shape: Shape) -> Shape:
    """Return the serializer of a page of rows, for lists with `page` and `page_size`."""
    name = shape.__name__
    fields = {
        "count": number_field("Number of matching rows."),
        "page": number_field("Number of this page, from 1."),
        "page_size": number_field("Rows per page."),
        "results": shape(many=True),
    }
    return type(f"{name}Page", (serializers.Serializer,), fields)


class QueueGroup(serializers.Serializer[Any]):
    name = text_field("Virtual host, or prefix; empty: the queues whose names have no prefix.")
    queues = number_field("Number of queues.")
    overfull_queues = number_field("Queues above their stop level.")
    stopped_queues = number_field("Queues stopped by an operator.")
    producers = number_field("Attached producers; null: not known.", allow_null=True)
    blocked_producers = number_field("Blocked producers; null: not known.", allow_null=True)
    consumers = number_field("Consumers; null: not known.", allow_null=True)
    depth_messages = number_field("Messages in its queues; null: not known.", allow_null=True)
    depth_bytes = number_field("Bytes in its queues; null: not known.", allow_null=True)
    rate_in = serializers.FloatField(allow_null=True, help_text="Messages enqueued, messages/s; null: not known.")
    rate_out = serializers.FloatField(allow_null=True, help_text="Messages dequeued, messages/s; null: not known.")
    partial = serializers.ListField(  # type: ignore[assignment]  # a serializer's class has no attribute of a field
        child=serializers.CharField(), help_text="Names of numbers that lack queues whose value is not known."
    )


class QueueGroups(page_of(QueueGroup), Snapshot):  # type: ignore[misc]
    pass


class Conditions(page_of(Condition), Snapshot):  # type: ignore[misc]
    kinds = serializers.DictField(
        child=serializers.IntegerField(), help_text="Number of conditions of each kind, regardless of filters."
    )


INVALID = OpenApiResponse(
    {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "string"}}},
    description="Errors by field.",
)
READ_REFUSALS: dict[int, Any] = {
    400: INVALID,
    403: OpenApiResponse(Refusal, description="Not signed in."),
    404: OpenApiResponse(Refusal, description="Unknown broker or object."),
    503: OpenApiResponse(Refusal, description="The broker does not respond, or there is no snapshot of it yet."),
}
WRITE_REFUSALS: dict[int, Any] = {
    **READ_REFUSALS,
    403: OpenApiResponse(Refusal, description="Not signed in, or without the necessary role."),
}
STALE = OpenApiResponse(Stale, description="The object has changed since that version.")


def parameter(name: str, description: str, kind: type = str, **options: Any) -> OpenApiParameter:
    """Return the declaration of a query parameter."""
    return OpenApiParameter(name, kind, OpenApiParameter.QUERY, description=description, **options)


ATTRIBUTE = parameter(ANY, "Any attribute of the type: objects with this value; repeated: with any of the values.")
BROKER = parameter("broker", "Slug of the broker; omitted: the first in the configuration.")
SEARCH = parameter("search", "Text in the object's name; case is ignored.")
QUICK_FILTERS = parameter(
    "only",
    "`blocked`: queues with blocked producers; `nearly-full`: at 80% of the stop level or above; `no-consumers`:"
    " without a consumer. Repeated: queues that match all of them. What is not known does not match.",
    enum=list(queue_filter.QUICK_FILTERS),
    many=True,
)
SORT = parameter("sort", "Attributes separated by commas; a leading - sorts in descending order.")
PAGE = [
    parameter("page", "Page number, from 1.", int, default=1),
    parameter("page_size", "Rows per page, 1 to 500.", int, default=100),
]
