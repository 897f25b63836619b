"""The shapes of stops, starts and saved selections, for the OpenAPI description."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from brokers.model import QUEUE_STATES, TYPES
from console.api.schema import REASON, number_field, object_field, shape_of, text_field

_BROKERS = serializers.ListField(
    child=serializers.CharField(),
    required=False,
    help_text='Slugs of brokers, or ["*"] for all of them; the scope is then the broker. Each answers by itself.',
)


class StopScope(serializers.Serializer[Any]):
    scope = text_field("Object name of the broker, a virtual host, an exchange or a queue.")
    pattern = text_field(
        "Only queues whose name matches: * one word, > or # any number of words at the end.", required=False
    )
    queues = serializers.ListField(
        child=serializers.CharField(),
        required=False,
        help_text="Only these queues, by object names; the scope is then the broker. Each gets a stop of its own.",
    )
    selection = number_field(
        "Only the queues of this saved selection, as it is now, instead of queues; the scope is then the broker.",
        required=False,
    )
    brokers = _BROKERS


class SelectionRequest(serializers.Serializer[Any]):
    name = text_field("What people choose it by.", required=False, max_length=80)
    shared = serializers.BooleanField(required=False, help_text="Whether everybody sees it; that needs an operator.")
    search = text_field("Text in the queue's name.", required=False, allow_blank=True, max_length=200)
    states = serializers.ListField(child=serializers.ChoiceField(choices=list(QUEUE_STATES)), required=False)
    queues = serializers.ListField(
        child=serializers.CharField(), required=False, allow_null=True, help_text="Object names, instead of a filter."
    )


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
    search = text_field("Text in the queue's name.", required=False, allow_blank=True)
    states = serializers.ListField(child=serializers.ChoiceField(choices=list(QUEUE_STATES)), required=False)


class StopPreviewRequest(StopScope):
    match = StopMatch(required=False, help_text="Queues as the overview shows them, instead of queues.")
    reason = text_field("As for the stop itself; it changes nothing here.", required=False, allow_blank=True)


class StopRequest(StopScope):
    reason = text_field(REASON)
    for_ms = number_field("Start them again by itself after so long.", required=False)
    below = number_field(
        "Start them again by itself when all its queues are down to so many percent of their capacity.", required=False
    )


class StartRequest(StopScope):
    reason = text_field(REASON)
    only = serializers.BooleanField(required=False, help_text="Lift this very stop, and none inside its scope.")
    rate = number_field("Staged: so many messages a second into each queue, doubled with every step.", required=False)
    step_ms = number_field("Staged: how long a step lasts; 10 s if it is left out.", required=False)
    halt = number_field("Staged: stop everybody again if a queue is above so many percent.", required=False)


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
