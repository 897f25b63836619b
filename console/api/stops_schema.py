"""The shapes of stops, starts and saved selections, for the OpenAPI description."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from brokers.model import QUEUE_STATES, TYPES
from console.api.fields import CountField, FlagField, ObjectNameField, TextField, change_of
from console.api.schema import REASON, number_field, object_field, shape_of, text_field
from console.operations.stops import MOST_NAMED

_BROKERS = serializers.ListField(
    child=TextField(),
    required=False,
    allow_empty=False,
    help_text='Slugs of brokers, or ["*"] for all of them; the scope is then the broker. Each answers by itself.',
)


class StopScope(serializers.Serializer[Any]):
    scope = ObjectNameField("Object name of the broker, a virtual host, an exchange or a queue.")
    pattern = TextField(
        "Only queues whose name matches: * one word, > or # any number of words at the end.", default=""
    )
    queues = serializers.ListField(
        child=TextField(),
        required=False,
        allow_null=True,
        help_text="Only these queues, by object names; the scope is then the broker. Each gets a stop of its own.",
    )
    selection = number_field(
        "Only the queues of this saved selection, as it is now, instead of queues; the scope is then the broker.",
        required=False,
    )
    brokers = _BROKERS


class SelectionGiven(serializers.Serializer[Any]):
    name = TextField("What people choose it by.", max_length=80)
    shared = FlagField("Whether everybody sees it; that needs an operator.")
    search = TextField("Text in the queue's name.", default="", max_length=200)
    states = serializers.ListField(child=serializers.ChoiceField(choices=list(QUEUE_STATES)), default=list)
    queues = serializers.ListField(
        child=TextField(),
        default=None,
        allow_null=True,
        min_length=1,
        max_length=MOST_NAMED,
        help_text="Object names, instead of a filter.",
    )


SelectionChange = change_of("SelectionChange", SelectionGiven)


class Selection(serializers.Serializer[Any]):
    id = number_field("Its number.")
    name = text_field("What people choose it by.")
    shared = serializers.BooleanField()
    owner = text_field("Whose it is.")
    own = serializers.BooleanField(help_text="Whether it is yours.")
    search = text_field("Text in the queue's name.")
    states = serializers.ListField(child=serializers.ChoiceField(choices=list(QUEUE_STATES)))
    queues = serializers.ListField(child=serializers.CharField(), allow_null=True)


class StopMatch(serializers.Serializer[Any]):
    search = TextField("Text in the queue's name.", default="")
    states = serializers.ListField(child=serializers.ChoiceField(choices=list(QUEUE_STATES)), default=list)


class StopPreviewRequest(StopScope):
    match = StopMatch(required=False, help_text="Queues as the overview shows them, instead of queues.")
    reason = TextField("As for the stop itself; it changes nothing here.", default="")


class StopRequest(StopScope):
    reason = TextField(REASON, allow_blank=True)  # an empty one is refused where the attempt is audited
    for_ms = CountField("Resume automatically after this many milliseconds. 0: not by time.")
    below = CountField(
        "Resume automatically when the depth of all its queues is at or below this percentage of their capacity. 0: at"
        " no depth."
    )


class StartRequest(StopScope):
    reason = TextField(REASON, allow_blank=True)  # an empty one is refused where the attempt is audited
    only = FlagField("Lift this very stop, and none inside its scope.")
    rate = CountField("Staged start: messages per second into each queue, doubled with every step. 0: not staged.")
    step_ms = CountField("Staged start: duration of a step in milliseconds; 0: 10 s.")
    halt = CountField("Staged start: stop all producers again if a queue is above this percentage. 0: do not.")


_stop = TYPES["Broker"].operation("stop-producers")
assert _stop is not None
_EACH = serializers.ListField(
    child=serializers.DictField(), required=False, help_text="With brokers: what each answered, or its error."
)
StopAnswer = shape_of("StopAnswer", _stop.returns, brokers=_EACH)


class StopProgress(serializers.Serializer[Any]):
    queues = number_field("Queues it touches.")
    producers = number_field("Producers attached to them.")
    draining = number_field("Of them, those from whom messages may still arrive.")
    stopped = number_field("Of them, those that are held and hold no credit.")
    brokers = _EACH


class PreviewQueue(serializers.Serializer[Any]):
    object = object_field()
    virtualhost = text_field("Its virtual host.")
    name = text_field("Its name.")
    state = text_field("Its flow-control state.")
    depth_messages = number_field("Messages held.")
    depth_bytes = number_field("Bytes held.")
    producers = number_field("Attached producers.")


class StopPreview(serializers.Serializer[Any]):
    queues = number_field("Queues that it would touch.")
    producers = number_field("Producers attached to them.")
    already_stopped = number_field("Queues among them that are stopped already.")
    percent_used = number_field("How full the fullest of them is; null without a capacity.", allow_null=True)
    largest = PreviewQueue(many=True, help_text="The queues with the most producers.")
    objects = serializers.ListField(
        child=serializers.CharField(), required=False, help_text="With match: the queues that match."
    )
    brokers = _EACH
