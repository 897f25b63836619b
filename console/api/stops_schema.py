"""Serializers of the requests and responses of stops, starts and saved selections."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiResponse
from rest_framework import serializers

from brokers.model import QUEUE_STATES, TYPES
from console.api.fields import CountField, FlagField, ObjectNameField, TextField, change_of
from console.api.schema import REASON, Refusal, number_field, object_field, shape_of, text_field
from console.links.queue_filter import QUICK_FILTERS
from console.operations.stops import MOST_NAMED

_BROKERS = serializers.ListField(
    child=TextField(),
    required=False,
    allow_empty=False,
    help_text='Slugs of brokers, or ["*"] for all; the scope must be type=Broker. Each broker has its own result.',
)


class StopScope(serializers.Serializer[Any]):
    scope = ObjectNameField("Object name of the broker, a virtual host, an exchange or a queue.")
    pattern = TextField(
        "Queues with a matching name: * matches one word; > or # matches any number of words at the end.", default=""
    )
    queues = serializers.ListField(
        child=TextField(),
        required=False,
        allow_null=True,
        help_text="These queues, by object name; the scope must be type=Broker. Each queue gets a stop of its own.",
    )
    user = TextField("Only producers of clients that signed in as this user. Empty: of all.", default="")
    container_id = TextField(
        "Only producers of clients with this container-id, also of connections they open later. Empty: of all.",
        default="",
    )
    link = TextField("Only producers whose link has this name. Empty: all of their clients.", default="")
    selection = number_field(
        "Number of a saved selection, instead of queues; the scope must be type=Broker.",
        required=False,
    )
    brokers = _BROKERS
    tags = serializers.ListField(
        child=TextField(),
        required=False,
        allow_empty=False,
        help_text="Instead of brokers: all that have one of these tags.",
    )


_ONLY = "Queues that match all these quick filters, as of `GET /api/v1/queues/?only=`."


class SelectionGiven(serializers.Serializer[Any]):
    name = TextField("Name of the selection.", max_length=80)
    shared = FlagField("Whether all users see it; requires the role operator.")
    search = TextField("Queues with this text in their name.", default="", max_length=200)
    states = serializers.ListField(child=serializers.ChoiceField(choices=list(QUEUE_STATES)), default=list)
    only = serializers.ListField(
        child=serializers.ChoiceField(choices=list(QUICK_FILTERS)), default=list, help_text=_ONLY
    )
    queues = serializers.ListField(
        child=TextField(),
        default=None,
        allow_null=True,
        min_length=1,
        max_length=MOST_NAMED,
        help_text="Object names of queues, instead of a filter.",
    )


SelectionChange = change_of("SelectionChange", SelectionGiven)


class Selection(serializers.Serializer[Any]):
    id = number_field("Number of the selection.")
    name = text_field("Name of the selection.")
    shared = serializers.BooleanField()
    owner = text_field("User name of the owner.")
    own = serializers.BooleanField(help_text="Whether you own it.")
    search = text_field("Queues with this text in their name.")
    states = serializers.ListField(child=serializers.ChoiceField(choices=list(QUEUE_STATES)))
    only = serializers.ListField(child=serializers.ChoiceField(choices=list(QUICK_FILTERS)), help_text=_ONLY)
    queues = serializers.ListField(child=serializers.CharField(), allow_null=True)


class StopMatch(serializers.Serializer[Any]):
    search = TextField("Queues with this text in their name.", default="")
    states = serializers.ListField(child=serializers.ChoiceField(choices=list(QUEUE_STATES)), default=list)
    only = serializers.ListField(
        child=serializers.ChoiceField(choices=list(QUICK_FILTERS)), default=list, help_text=_ONLY
    )


class StopPreviewRequest(StopScope):
    match = StopMatch(required=False, help_text="Filter of queues, instead of queues.")
    reason = TextField("As for the stop itself; ignored here.", default="")
    action = serializers.ChoiceField(
        choices=["stop", "start"], default="stop", help_text="What is previewed: whether a broker can do it may differ."
    )


class StopRequest(StopScope):
    reason = TextField(
        REASON, allow_blank=True
    )  # the operation refuses an empty reason, so that the attempt is audited
    for_ms = CountField("Resume automatically after this many milliseconds. 0: no time limit.")
    until = CountField(
        "Resume automatically at this time by the broker's clock, ms since the epoch; instead of for_ms. 0: no time"
        " limit."
    )
    below = CountField(
        "Resume automatically when the depth of all its queues (of clients: of those that their producers were stopped"
        " at) is at or below this percentage of their capacity. 0: no limit."
    )

    effect = serializers.ChoiceField(
        choices=["hold", "trickle", "reject", "cut"],
        default="hold",
        help_text="What the stop does to producers on this broker, as its operation declares (`producer_effect`)."
        " Anything but hold must be named, or the stop is refused with 409.",
    )
    effects = serializers.ListField(
        child=serializers.ChoiceField(choices=["hold", "trickle", "reject", "cut"]),
        default=list,
        help_text="The same for several brokers: a stop may do any of these to producers. Each other effect is refused"
        " with 409, and then nothing is changed on any broker.",
    )


class UnconfirmedEffect(Refusal):
    effect = text_field("What the stop does to producers on this broker: send it as `effect` to confirm.")
    brokers = serializers.ListField(
        child=serializers.DictField(),
        required=False,
        help_text="With `brokers` or `tags`: broker, title, effect and sentence of each whose effect is not named.",
    )


EFFECT = OpenApiResponse(UnconfirmedEffect, description="On this broker the stop does not hold producers.")


class StartRequest(StopScope):
    reason = TextField(
        REASON, allow_blank=True
    )  # the operation refuses an empty reason, so that the attempt is audited
    only = FlagField("Lift only this stop, not those nested in its scope.")
    rate = CountField("Staged start: messages per second into each queue, doubled with every step. 0: not staged.")
    step_ms = CountField("Staged start: duration of a step in milliseconds; 0: 10 s.")
    halt = CountField("Staged start: stop all producers again if a queue is above this percentage. 0: do not.")


_stop = TYPES["Broker"].operation("stop-producers")
assert _stop is not None
_EACH = serializers.ListField(
    child=serializers.DictField(),
    required=False,
    help_text="With `brokers` or `tags`: the result of each, or its `error`. Of a stop or start, `outcome` is done,"
    " refused or failed (nothing was changed), or unknown (no answer in time: it may have been done). Of a stop,"
    " `earlier` is the stop of this scope before (since, until, below, replaced, after), and `made` the one that the"
    " call has made (since, until, below).",
)
_AT_LEAST = serializers.ListField(
    child=serializers.CharField(),
    required=False,
    help_text="Names of the numbers that miss unknown values, and so are lower limits.",
)
_BEFORE = serializers.ListField(
    child=serializers.DictField(),
    required=False,
    help_text="Of a stop on one broker: the stops of exactly these scopes that were in force already (object, reason,"
    " actor, since, until, below). Of these, the call can have changed the end only, which is now `after` (until,"
    " below; null: not known). `replaced`: it was in a staged start, or after a halted one, which the stop has"
    " replaced.",
)
_MADE = serializers.ListField(
    child=serializers.DictField(),
    required=False,
    help_text="Of a stop on one broker: the stops that it has made, as they are right after it (object, since, until,"
    " below). An undo lifts only those that still have these values. One that is missing here was not seen.",
)
StopAnswer = shape_of(
    "StopAnswer", _stop.returns, brokers=_EACH, at_least=_AT_LEAST, stops_before=_BEFORE, stops_made=_MADE
)


class StopProgress(serializers.Serializer[Any]):
    queues = number_field("Number of affected queues.")
    producers = number_field("Producers attached to these queues; null: unknown at this broker.", allow_null=True)
    draining = number_field(
        "Producers that may still have messages in flight; null: unknown at this broker.", allow_null=True
    )
    stopped = number_field(
        "Producers that are blocked and have no outstanding credit; null: unknown at this broker.",
        allow_null=True,
    )
    stop = serializers.DictField(
        allow_null=True,
        required=False,
        help_text="The stop of exactly this scope that is in force: reason, actor, since, until, below.",
    )
    queues_above = number_field(
        "If this stop ends at a depth: number of queues that are above it. null: it does not, or not known.",
        required=False,
        allow_null=True,
    )
    fullest = serializers.ListField(
        child=serializers.DictField(),
        required=False,
        allow_null=True,
        help_text="If this stop ends at a depth: the fullest of the queues whose depth counts, at most 10: queue"
        " (object name) and percent (of its capacity, rounded up).",
    )
    at_least = _AT_LEAST
    brokers = _EACH


class PreviewQueue(serializers.Serializer[Any]):
    object = object_field()
    virtualhost = text_field("Virtual host.")
    name = text_field("Name of the queue.")
    state = text_field("Flow-control state.")
    depth_messages = number_field("Depth in messages.")
    depth_bytes = number_field("Depth in bytes.")
    producers = number_field("Number of attached producers; null: unknown at this broker.", allow_null=True)


class StopPreview(serializers.Serializer[Any]):
    queues = number_field("Number of affected queues.")
    producers = number_field("Producers attached to these queues; null: unknown at this broker.", allow_null=True)
    already_stopped = number_field("Affected queues that are already stopped.")
    none_stopped = serializers.BooleanField(
        help_text="Whether it is known that none of these queues is stopped.", required=False
    )
    percent_used = number_field(
        "Highest usage of a queue, percent of its capacity; null without a capacity.", allow_null=True
    )
    effect = text_field("What a stop does to producers here: hold, trickle, reject or cut.", required=False)
    remark = text_field("What an operator must know of this effect.", required=False)
    arguments = serializers.ListField(
        child=serializers.CharField(), required=False, help_text="Arguments that stops and starts have on this broker."
    )
    unstoppable = number_field("Queues that cannot be stopped here; null: unknown.", allow_null=True)
    cannot = text_field("Why this stop cannot be made; empty: it can.", required=False)
    at_least = _AT_LEAST
    largest = PreviewQueue(many=True, help_text="The queues with the most producers.")
    objects = serializers.ListField(
        child=serializers.CharField(),
        required=False,
        help_text="With `match` or `selection`: object names of the queues.",
    )
    brokers = _EACH
