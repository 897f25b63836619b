"""The shapes of requests and answers, for the OpenAPI description. Those of managed objects are derived from
`brokers/model/`, so that a new attribute is described here without a line of its own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema_field
from rest_framework import serializers

from brokers.model import TYPES, Attribute, Kind
from console.api.fields import ObjectNameField, TextField
from console.api.strict import ANY
from console.audit.models import AuditEntry
from console.conditions.detectors import DETECTORS

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
    """A serializer class with a field for each declared attribute, and `more` fields before them."""
    fields = {attribute.name: _field(attribute, required=required) for attribute in attributes}
    return type(name, (serializers.Serializer,), {**more, **fields})


def text_field(says: str, **options: Any) -> serializers.CharField:
    return serializers.CharField(help_text=says, **options)


def number_field(says: str, **options: Any) -> serializers.IntegerField:
    return serializers.IntegerField(help_text=says, **options)


OBJECT = "Object name, such as type=Queue,virtualhost=default,name=orders."


def object_field() -> serializers.CharField:
    return text_field(OBJECT)


Queue = shape_of("Queue", TYPES["Queue"].attributes, object=object_field())
Producer = shape_of("Producer", TYPES["Producer"].attributes, object=object_field())
BrokerAttributes = shape_of("BrokerAttributes", TYPES["Broker"].attributes)

REASON = "Why, in the operator's words."
VERSION = "The version that the change was made from."


class ManagedObject(serializers.Serializer[Any]):
    name = object_field()
    version = number_field("Number of the object's last change.")
    attributes = serializers.DictField(help_text="The attributes that its type declares; see the broker's types.")


class ObjectPage(serializers.Serializer[Any]):
    total = number_field("Objects that match.")
    offset = number_field("Place of the first one here among them.")
    items = ManagedObject(many=True)


class ObjectChange(serializers.Serializer[Any]):
    version = number_field(VERSION)
    attributes = serializers.DictField(help_text="Writable attributes and their new values; all are set, or none.")
    reason = TextField(REASON, default="")


class ObjectCreation(serializers.Serializer[Any]):
    object = ObjectNameField(OBJECT)
    attributes = serializers.DictField(default=dict, help_text="Attributes that can be given on creation.")
    reason = TextField(REASON, default="")


class OperationCall(serializers.Serializer[Any]):
    arguments = serializers.DictField(default=dict, help_text="Arguments that the operation declares.")


class Snapshot(serializers.Serializer[Any]):
    """Answers from the console's snapshot of a broker, which it keeps up to date while the broker answers."""

    as_of = number_field("What is told of the broker was so then, ms since the epoch by the console's clock.")
    stale = serializers.BooleanField(help_text="The broker does not answer now: what is told is of the past.")


class Broker(serializers.Serializer[Any]):
    slug = text_field("Short name in paths and `?broker=`.")
    title = text_field("Name for people.")
    connected = serializers.BooleanField(help_text="Whether the console is connected to it now.")
    since = number_field("Since when that is so, ms since the epoch.")
    error = text_field("Why it is not connected; empty if it is.")
    as_of = number_field(
        "What is known of it was so then, ms since the epoch; null: nothing is known.", allow_null=True
    )
    stale = serializers.BooleanField(help_text="It does not answer now: what is known of it is of the past.")


class BrokerDetail(Broker):
    attributes = BrokerAttributes(allow_null=True, help_text="As of `as_of`; null before the first connection.")


class Event(serializers.Serializer[Any]):
    number = number_field("Grows by one for ever.")
    at = number_field("ms since the epoch.")
    kind = text_field("Name of a declared notification.")
    object = object_field()
    text = text_field("The line of the broker log.")
    attributes = serializers.DictField(help_text="Facts of this kind.")


class EventPage(Snapshot):
    newest = number_field("Number of the newest event there is.")
    last = number_field("Number to go on after: events up to it are here, but for those that you may not see.")
    expired_before = number_field(
        "Events below this number are no longer kept, and some of them were asked for; null if none.", allow_null=True
    )
    events = Event(many=True)


class TimelineEntry(serializers.Serializer[Any]):
    id = text_field("e and the number of an event, or a and that of an audit row.")
    number = number_field("That number.")
    told_by = serializers.ChoiceField(
        choices=["broker", "people"], help_text="Whether it is an event or of the audit trail."
    )
    at = number_field("ms since the epoch.")
    kind = text_field("Kind of the event, or the operation.")
    object = object_field()
    queue = text_field("Object name of the queue it is about, if it is about one.", allow_null=True)
    producer = text_field("Client and link of the producer it is about, if it is about one.", allow_null=True)
    actor = text_field("Who did it; empty if nobody did.")
    outcome = text_field("Of what people did: done, refused, failed or unknown.")
    reason = text_field(REASON)
    text = text_field("The line of the broker log, or the detail of the audit row.")


class TimelinePage(Snapshot):
    as_of = number_field("As of when events are, ms since the epoch; null: none is known.", allow_null=True)
    entries = TimelineEntry(many=True)
    newest_event = number_field("Number of the newest event there is.")
    newest_audit = number_field("Number of the newest audit row there is.")
    before_event = number_field("For the next page.", required=False)
    before_audit = number_field("For the next page.", required=False)
    more = serializers.BooleanField(required=False, help_text="There may be older ones.")
    searched_to = number_field("How far back it was looked, ms since the epoch.", required=False, allow_null=True)


class Condition(serializers.Serializer[Any]):
    kind = serializers.ChoiceField(choices=list(DETECTORS), help_text="What was detected.")
    title = text_field("The same for people.")
    object = object_field()
    severity = serializers.ChoiceField(
        choices=["trouble", "warning"], help_text="trouble: producers are held or messages endangered now."
    )
    saw = text_field("What was seen.")
    advice = text_field("What to do about it.")
    since = number_field("When it was first seen, ms since the epoch.")


class Why(serializers.Serializer[Any]):
    asked = object_field()
    blocked = serializers.BooleanField(help_text="Whether it is blocked now.")
    says = text_field("The answer in one sentence.")
    queue = serializers.DictField(help_text="The queue's attributes.")
    producer = serializers.DictField(allow_null=True, help_text="The producer's attributes, if one was asked about.")
    causes = serializers.ListField(
        child=serializers.DictField(),
        help_text="What holds the producers now, each enough by itself: kind (queue, stop, store, memory, temp), title,"
        " since, resume_ms (when it ends by itself; null if nobody can tell, and then because says why); of a queue"
        " its limits with the origin of every field; of a stop its scope, reason and actor.",
    )
    resume_ms = number_field("When the last cause ends at the present rates, in ms from now.", allow_null=True)
    drain = serializers.DictField(help_text="By how much the depth shrinks in a second, in messages and bytes.")
    consumers = serializers.ListField(child=serializers.DictField(), help_text="Each with what it is doing.")
    consumers_total = number_field("Consumers attached.")
    producers = serializers.ListField(child=serializers.DictField(), help_text="Everybody it holds up.")
    producers_total = number_field("Producers attached.")
    connections = serializers.ListField(
        child=serializers.DictField(), help_text="Their connections, each with its links to this and other queues."
    )


class AuditRow(serializers.ModelSerializer[AuditEntry]):
    reason = text_field(REASON, source="shown_reason", read_only=True)
    detail = text_field(
        "Arguments and answer, or the sentence of the refusal; what is very long is cut off, with a mark.",
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
        ]


class Refusal(serializers.Serializer[Any]):
    detail = text_field("A sentence for people.")


class Stale(Refusal):
    current = serializers.DictField(help_text="The object as it is now: name, version and attributes.")


def page_of(shape: Shape) -> Shape:
    """A page of rows, as the lists with `page` and `page_size` answer it."""
    name = shape.__name__
    fields = {
        "count": number_field("Rows that match."),
        "page": number_field("Number of this page, from 1."),
        "page_size": number_field("Rows of a full page."),
        "results": shape(many=True),
    }
    return type(f"{name}Page", (serializers.Serializer,), fields)


class Conditions(page_of(Condition), Snapshot):  # type: ignore[misc]
    kinds = serializers.DictField(
        child=serializers.IntegerField(), help_text="How many there are of each kind, whatever is asked for."
    )


INVALID = OpenApiResponse(
    {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "string"}}},
    description="What is wrong, by field.",
)
READ_REFUSALS: dict[int, Any] = {
    400: INVALID,
    403: OpenApiResponse(Refusal, description="Not signed in."),
    404: OpenApiResponse(Refusal, description="No such broker or object."),
    503: OpenApiResponse(Refusal, description="The broker does not answer, or nothing is known of it."),
}
WRITE_REFUSALS: dict[int, Any] = {
    **READ_REFUSALS,
    403: OpenApiResponse(Refusal, description="Not signed in, or not an operator."),
}
STALE = OpenApiResponse(Stale, description="The object has changed since that version.")


def parameter(name: str, says: str, kind: type = str, **options: Any) -> OpenApiParameter:
    """A query parameter."""
    return OpenApiParameter(name, kind, OpenApiParameter.QUERY, description=says, **options)


ATTRIBUTE = parameter(ANY, "Any attribute that the type has: only objects with this value; several: any of them.")
BROKER = parameter("broker", "Slug of the broker; the default one if it is left out.")
SEARCH = parameter("search", "Text that must occur in the object's name, whatever the case.")
SORT = parameter("sort", "Attributes separated by commas, each with - before it for descending.")
PAGE = [parameter("page", "From 1.", int, default=1), parameter("page_size", "1 to 500.", int, default=100)]
