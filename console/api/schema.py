"""The shapes of requests and answers, for the OpenAPI description. Those of managed objects are derived from
`brokers/managed.py`, so that a new attribute is described here without a line of its own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema_field
from rest_framework import serializers

from brokers.managed import POLICY, QUEUE_STATES, TYPES, Attribute, Kind
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


def _text(says: str, **options: Any) -> serializers.CharField:
    return serializers.CharField(help_text=says, **options)


def _number(says: str, **options: Any) -> serializers.IntegerField:
    return serializers.IntegerField(help_text=says, **options)


def _object_text() -> serializers.CharField:
    return _text("Object name, such as type=Queue,virtualhost=default,name=orders.")


Queue = shape_of("Queue", TYPES["Queue"].attributes, object=_object_text())
Producer = shape_of("Producer", TYPES["Producer"].attributes, object=_object_text())
BrokerAttributes = shape_of("BrokerAttributes", TYPES["Broker"].attributes)

_REASON = "Why, in the operator's words."
_VERSION = "The version that the change was made from."

PolicyChange = shape_of(
    "PolicyChange",
    POLICY,
    required=False,
    version=_number(_VERSION),
    reason=_text(_REASON, required=False),
)
PolicyCheck = shape_of("PolicyCheck", POLICY, required=False)
Effective = shape_of("Effective", [a for a in TYPES["Queue"].attributes if a.name.startswith("effective_")])


class PolicyChecked(serializers.Serializer[Any]):
    effective = Effective()


class ManagedObject(serializers.Serializer[Any]):
    name = _object_text()
    version = _number("Number of the object's last change.")
    attributes = serializers.DictField(help_text="The attributes that its type declares; see the broker's types.")


class ObjectPage(serializers.Serializer[Any]):
    total = _number("Objects that match.")
    offset = _number("Place of the first one here among them.")
    items = ManagedObject(many=True)


class ObjectChange(serializers.Serializer[Any]):
    version = _number(_VERSION)
    attributes = serializers.DictField(help_text="Writable attributes and their new values; all are set, or none.")
    reason = _text(_REASON, required=False)


class ObjectCreation(serializers.Serializer[Any]):
    object = _object_text()
    attributes = serializers.DictField(required=False, help_text="Attributes that can be given on creation.")
    reason = _text(_REASON, required=False)


class OperationCall(serializers.Serializer[Any]):
    arguments = serializers.DictField(required=False, help_text="Arguments that the operation declares.")


_BROKERS = serializers.ListField(
    child=serializers.CharField(),
    required=False,
    help_text='Slugs of brokers, or ["*"] for all of them; the scope is then the broker. Each answers by itself.',
)


class StopScope(serializers.Serializer[Any]):
    scope = _text("Object name of the broker, a virtual host, an exchange or a queue.")
    pattern = _text(
        "Only queues whose name matches: * one word, > or # any number of words at the end.", required=False
    )
    queues = serializers.ListField(
        child=serializers.CharField(),
        required=False,
        help_text="Only these queues, by object names; the scope is then the broker. Each gets a stop of its own.",
    )
    selection = _number(
        "Only the queues of this saved selection, as it is now, instead of queues; the scope is then the broker.",
        required=False,
    )
    brokers = _BROKERS


class SelectionRequest(serializers.Serializer[Any]):
    name = _text("What people choose it by.", required=False, max_length=80)
    shared = serializers.BooleanField(required=False, help_text="Whether everybody sees it; that needs an operator.")
    search = _text("Text in the queue's name.", required=False, allow_blank=True, max_length=200)
    states = serializers.ListField(child=serializers.ChoiceField(choices=list(QUEUE_STATES)), required=False)
    queues = serializers.ListField(
        child=serializers.CharField(), required=False, allow_null=True, help_text="Object names, instead of a filter."
    )


class Selection(serializers.Serializer[Any]):
    id = _number("Its number.")
    name = _text("What people choose it by.")
    shared = serializers.BooleanField()
    owner = _text("Whose it is.")
    own = serializers.BooleanField(help_text="Whether it is yours.")
    search = _text("Text in the queue's name.")
    states = serializers.ListField(child=serializers.ChoiceField(choices=list(QUEUE_STATES)))
    queues = serializers.ListField(child=serializers.CharField(), allow_null=True)


class StopPreviewRequest(StopScope):
    match = serializers.DictField(required=False, help_text="search and states as on the overview, instead of queues.")


class StopRequest(StopScope):
    reason = _text(_REASON)
    for_ms = _number("Start them again by itself after so long.", required=False)
    below = _number(
        "Start them again by itself when all its queues are down to so many percent of their capacity.", required=False
    )


class StartRequest(StopScope):
    reason = _text(_REASON)
    only = serializers.BooleanField(required=False, help_text="Lift this very stop, and none inside its scope.")
    rate = _number("Staged: so many messages a second into each queue, doubled with every step.", required=False)
    step_ms = _number("Staged: how long a step lasts; 10 s if it is left out.", required=False)
    halt = _number("Staged: stop everybody again if a queue is above so many percent.", required=False)


_stop = TYPES["Broker"].operation("stop-producers")
assert _stop is not None
_EACH = serializers.ListField(
    child=serializers.DictField(), required=False, help_text="With brokers: what each answered, or its error."
)
StopAnswer = shape_of("StopAnswer", _stop.returns, brokers=_EACH)


class StopProgress(serializers.Serializer[Any]):
    queues = _number("Queues it touches.")
    producers = _number("Producers attached to them.")
    draining = _number("Of them, those from whom messages may still arrive.")
    stopped = _number("Of them, those that are held and hold no credit.")
    brokers = _EACH


class PreviewQueue(serializers.Serializer[Any]):
    object = _object_text()
    virtualhost = _text("Its virtual host.")
    name = _text("Its name.")
    state = _text("Its flow-control state.")
    depth_messages = _number("Messages held.")
    depth_bytes = _number("Bytes held.")
    producers = _number("Attached producers.")


class StopPreview(serializers.Serializer[Any]):
    queues = _number("Queues that it would touch.")
    producers = _number("Producers attached to them.")
    already_stopped = _number("Queues among them that are stopped already.")
    percent_used = _number("How full the fullest of them is; null without a capacity.", allow_null=True)
    largest = PreviewQueue(many=True, help_text="The queues with the most producers.")
    objects = serializers.ListField(
        child=serializers.CharField(), required=False, help_text="With match: the queues that match."
    )
    brokers = _EACH


class PolicyScope(serializers.Serializer[Any]):
    object = _object_text()
    version = _number("Number of the object's last change.")
    queues = _number("Queues beneath it; of a pattern those that it is the best match of.", required=False)
    set = serializers.DictField(help_text="The policy fields that it sets, and its priority if that is not 0.")


class PolicyPattern(PolicyScope):
    pattern = _text("The names it is for.")
    priority = _number("Decides between patterns that match equally well.")
    rank = serializers.ListField(
        child=serializers.IntegerField(), help_text="Words of its literal prefix, and its wildcards."
    )


class PolicyNamed(PolicyScope):
    name = _text("Its name.")


class PolicyHost(PolicyNamed):
    patterns = PolicyPattern(many=True, help_text="In the order in which they match.")
    exchanges = PolicyNamed(many=True)


class PolicyQueue(PolicyNamed):
    virtualhost = _text("Its virtual host.")


class PolicyQueuePage(serializers.Serializer[Any]):
    count = _number("Queues that set a field themselves.")
    page = _number("Number of this page, from 1.")
    page_size = _number("Rows of a full page.")
    results = PolicyQueue(many=True)


class PolicyScopes(serializers.Serializer[Any]):
    broker = PolicyScope()
    virtualhosts = PolicyHost(many=True)
    queues = PolicyQueuePage()


class PolicyChangeAsked(serializers.Serializer[Any]):
    object = _object_text()
    action = serializers.ChoiceField(
        ["update", "create", "delete"], required=False, help_text="create and delete: of a Policy. Default: update."
    )
    attributes = serializers.DictField(
        required=False, help_text="Policy fields, null meaning inherited; and the priority of a Policy."
    )
    version = _number(_VERSION, required=False, allow_null=True)


class PolicyChanges(serializers.Serializer[Any]):
    changes = PolicyChangeAsked(many=True)
    largest = _number("Queues to name; those that most happens to come first. Default: 20.", required=False)


_preview = TYPES["Broker"].operation("preview-change")
assert _preview is not None
ChangePreview = shape_of("ChangePreview", _preview.returns)


class PolicyChangeShown(PolicyChangeAsked):
    was = serializers.DictField(help_text="What the attributes are now.")


class PolicyApplied(serializers.Serializer[Any]):
    object = _object_text()
    action = _text("update, create or delete.")
    outcome = _text("done, refused, failed or unknown.")
    version = _number("The object's version now; null if it is not known, or the object gone.", allow_null=True)
    detail = _text("A sentence, unless it is done.")


class PatternOrder(serializers.Serializer[Any]):
    virtualhost = _text("Name of the virtual host.")
    patterns = serializers.ListField(child=serializers.CharField(), help_text="All of its patterns, the best first.")
    reason = _text(_REASON, required=False)
    dry_run = serializers.BooleanField(required=False, help_text="Tell and preview only.")


class PatternOrderAnswer(serializers.Serializer[Any]):
    changes = PolicyChangeShown(many=True)
    preview = ChangePreview(allow_null=True)
    applied = PolicyApplied(many=True)


class PolicyFile(serializers.Serializer[Any]):
    yaml = _text("The file, see `manage.py policies`.")


class PolicyFileRequest(PolicyFile):
    prune = serializers.BooleanField(required=False, help_text="Unset what the file does not name.")
    dry_run = serializers.BooleanField(required=False, help_text="Tell what would be changed, and change nothing.")
    digest = _text("Of the dry run: refused if there is another difference now.", required=False)
    reason = _text(_REASON, required=False)


class PolicyFileAnswer(serializers.Serializer[Any]):
    changes = PolicyChangeShown(many=True)
    problems = serializers.DictField(help_text="Object name, or nothing -> what is wrong.")
    left_alone = serializers.ListField(
        child=serializers.CharField(), help_text="Objects that set something and that the file does not name."
    )
    digest = _text("Names this difference.")
    preview = ChangePreview(allow_null=True, help_text="Of a dry run whose changes would not be refused.")
    applied = PolicyApplied(many=True)


class BulkSelection(serializers.Serializer[Any]):
    virtualhost = _text("Only in this virtual host.", required=False)
    pattern = _text("Only queues whose name matches.", required=False)
    search = _text("Only queues with this in their name.", required=False)
    states = serializers.ListField(child=serializers.CharField(), required=False, help_text="Only in these states.")
    objects = serializers.ListField(
        child=serializers.CharField(), required=False, help_text="Exactly these queues, by object name."
    )


class BulkRequest(serializers.Serializer[Any]):
    selection = BulkSelection()
    attributes = serializers.DictField(help_text="Policy fields and their new values; null: inherited.")
    reason = _text(_REASON, required=False)


class BulkPreviewRequest(serializers.Serializer[Any]):
    selection = BulkSelection()
    attributes = serializers.DictField(required=False, help_text="As for the edit; without them queues are told only.")


class BulkPreview(serializers.Serializer[Any]):
    count = _number("Queues that are chosen.")
    queues = PolicyQueue(many=True, help_text="The first of them by name, 200 at most.")
    preview = ChangePreview(allow_null=True)


class BulkJob(serializers.Serializer[Any]):
    id = _number("Number of the job.")
    created = serializers.DateTimeField(help_text="When it was begun.")
    finished = serializers.DateTimeField(allow_null=True, help_text="When its last queue was done.")
    user_name = _text("On whose behalf.")
    broker = _text("Slug of the broker.")
    reason = _text(_REASON)
    attributes = serializers.DictField(help_text="What is set; empty for an undo.")
    selection = serializers.DictField(help_text="What was asked for.")
    undo_of = _number("The job that this one undoes.", allow_null=True)
    undone_by = serializers.ListField(child=serializers.IntegerField(), help_text="Jobs that undo this one.")
    state = _text("running, interrupted or done.")
    stalled = serializers.BooleanField(help_text="It says it runs, and whoever ran it has gone: resume it.")
    error = _text("Why it was interrupted.")
    total = _number("Queues.")
    counts = serializers.DictField(child=serializers.IntegerField(), help_text="State of queues -> how many.")


class BulkRow(serializers.Serializer[Any]):
    object = _object_text()
    state = _text("waiting, changing, done, unchanged or failed.")
    detail = _text("Why it failed.")
    wanted = serializers.DictField(help_text="What its fields should be.")
    before = serializers.DictField(allow_null=True, help_text="What they were.")


class BulkSteer(serializers.Serializer[Any]):
    reason = _text(_REASON, required=False)


class Reversal(serializers.Serializer[Any]):
    change = PolicyChangeShown()
    preview = ChangePreview(allow_null=True, help_text="Null where the change is not of policy fields alone.")


class RevertRequest(serializers.Serializer[Any]):
    reason = _text(_REASON, required=False)
    version = _number("The object's version that was shown.", required=False, allow_null=True)


class Reverted(serializers.Serializer[Any]):
    version = _number("The object's version now; null if it is gone.", allow_null=True)


class Broker(serializers.Serializer[Any]):
    slug = _text("Short name in paths and `?broker=`.")
    title = _text("Name for people.")
    connected = serializers.BooleanField(help_text="Whether the console is connected to it now.")
    since = _number("Since when that is so, ms since the epoch.")
    error = _text("Why it is not connected; empty if it is.")


class BrokerDetail(Broker):
    attributes = BrokerAttributes(allow_null=True, help_text="As last read; null before the first connection.")


class Event(serializers.Serializer[Any]):
    number = _number("Grows by one for ever.")
    at = _number("ms since the epoch.")
    kind = _text("Name of a declared notification.")
    object = _object_text()
    text = _text("The line of the broker log.")
    attributes = serializers.DictField(help_text="Facts of this kind.")


class EventPage(serializers.Serializer[Any]):
    newest = _number("Number of the newest event there is.")
    last = _number("Number to go on after: events up to it are here, but for those that you may not see.")
    expired_before = _number(
        "Events below this number are no longer kept, and some of them were asked for; null if none.", allow_null=True
    )
    events = Event(many=True)


class TimelineEntry(serializers.Serializer[Any]):
    id = _text("e and the number of an event, or a and that of an audit row.")
    number = _number("That number.")
    told_by = serializers.ChoiceField(
        choices=["broker", "people"], help_text="Whether it is an event or of the audit trail."
    )
    at = _number("ms since the epoch.")
    kind = _text("Kind of the event, or the operation.")
    object = _object_text()
    queue = _text("Object name of the queue it is about, if it is about one.", allow_null=True)
    producer = _text("Client and link of the producer it is about, if it is about one.", allow_null=True)
    actor = _text("Who did it; empty if nobody did.")
    outcome = _text("Of what people did: done, refused, failed or unknown.")
    reason = _text(_REASON)
    text = _text("The line of the broker log, or the detail of the audit row.")


class TimelinePage(serializers.Serializer[Any]):
    entries = TimelineEntry(many=True)
    newest_event = _number("Number of the newest event there is.")
    newest_audit = _number("Number of the newest audit row there is.")
    before_event = _number("For the next page.", required=False)
    before_audit = _number("For the next page.", required=False)
    more = serializers.BooleanField(required=False, help_text="There may be older ones.")
    searched_to = _number("How far back it was looked, ms since the epoch.", required=False, allow_null=True)


class Condition(serializers.Serializer[Any]):
    kind = serializers.ChoiceField(choices=list(DETECTORS), help_text="What was detected.")
    title = _text("The same for people.")
    object = _object_text()
    severity = serializers.ChoiceField(
        choices=["trouble", "warning"], help_text="trouble: producers are held or messages endangered now."
    )
    saw = _text("What was seen.")
    advice = _text("What to do about it.")
    since = _number("When it was first seen, ms since the epoch.")


class Why(serializers.Serializer[Any]):
    asked = _object_text()
    blocked = serializers.BooleanField(help_text="Whether it is blocked now.")
    says = _text("The answer in one sentence.")
    queue = serializers.DictField(help_text="The queue's attributes.")
    producer = serializers.DictField(allow_null=True, help_text="The producer's attributes, if one was asked about.")
    causes = serializers.ListField(
        child=serializers.DictField(),
        help_text="What holds the producers now, each enough by itself: kind (queue, stop, store, memory, temp), title,"
        " since, resume_ms (when it ends by itself; null if nobody can tell, and then because says why); of a queue"
        " its limits with the origin of every field; of a stop its scope, reason and actor.",
    )
    resume_ms = _number("When the last cause ends at the present rates, in ms from now.", allow_null=True)
    drain = serializers.DictField(help_text="By how much the depth shrinks in a second, in messages and bytes.")
    consumers = serializers.ListField(child=serializers.DictField(), help_text="Each with what it is doing.")
    consumers_total = _number("Consumers attached.")
    producers = serializers.ListField(child=serializers.DictField(), help_text="Everybody it holds up.")
    producers_total = _number("Producers attached.")
    connections = serializers.ListField(
        child=serializers.DictField(), help_text="Their connections, each with its links to this and other queues."
    )


class AuditRow(serializers.ModelSerializer[AuditEntry]):
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
    detail = _text("A sentence for people.")


class Stale(Refusal):
    current = serializers.DictField(help_text="The object as it is now: name, version and attributes.")


def page_of(shape: Shape) -> Shape:
    """A page of rows, as the lists with `page` and `page_size` answer it."""
    name = shape.__name__
    fields = {
        "count": _number("Rows that match."),
        "page": _number("Number of this page, from 1."),
        "page_size": _number("Rows of a full page."),
        "results": shape(many=True),
    }
    return type(f"{name}Page", (serializers.Serializer,), fields)


class Conditions(page_of(Condition)):  # type: ignore[misc]
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
    503: OpenApiResponse(Refusal, description="The broker cannot be reached."),
}
WRITE_REFUSALS: dict[int, Any] = {
    **READ_REFUSALS,
    403: OpenApiResponse(Refusal, description="Not signed in, or not an operator."),
}
STALE = OpenApiResponse(Stale, description="The object has changed since that version.")


def asked(name: str, says: str, kind: type = str, **options: Any) -> OpenApiParameter:
    """A query parameter."""
    return OpenApiParameter(name, kind, OpenApiParameter.QUERY, description=says, **options)


BROKER = asked("broker", "Slug of the broker; the default one if it is left out.")
SEARCH = asked("search", "Text that must occur in the object's name, whatever the case.")
SORT = asked("sort", "Attributes separated by commas, each with - before it for descending.")
PAGE = [asked("page", "From 1.", int, default=1), asked("page_size", "1 to 500.", int, default=100)]
