"""Serializers of the API of all brokers."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from brokers.model import TYPES
from console.api.schema import (
    Condition,
    Event,
    QueueGroup,
    number_field,
    object_field,
    page_of,
    parameter,
    shape_of,
    text_field,
)
from console.live.fleet.brokers import COUNTS
from console.live.fleet.members import STATES
from console.live.overview import SHOWN

MEMBERS = [
    parameter("broker", "Slug of a broker; repeated: several. Omitted: all.", many=True),
    parameter("tag", "Brokers with this tag; repeated: with any of the tags.", many=True),
    parameter("broker_kind", "Brokers of this kind; repeated: of any of the kinds.", many=True),
]

_WORDS = {
    "queues": "Number of queues",
    "overfull_queues": "Number of overfull queues",
    "stopped_queues": "Number of stopped queues",
    "producers": "Attached producers",
    "blocked_producers": "Blocked producers",
    "consumers": "Consumers",
    "depth_messages": "Messages in queues",
    "depth_bytes": "Bytes in queues",
}


def _counts(unknown: str) -> dict[str, Any]:
    return {name: number_field(f"{_WORDS[name]}; null: {unknown}.", allow_null=True) for name in COUNTS}


class WorstCondition(serializers.Serializer[Any]):
    kind = text_field("Identifier of the condition.")
    title = text_field("Title of the condition.")
    object = object_field()
    severity = serializers.ChoiceField(choices=["trouble", "warning"], help_text="As for conditions.")
    saw = text_field("Evidence for the condition.")
    since = number_field("When it was first detected, ms since the epoch by the broker's clock.")


class _Member(serializers.Serializer[Any]):
    slug = text_field("Identifier of the broker in paths and `?broker=`.")
    title = text_field("Display name.")
    kind = text_field("Kind of broker: headgate, or one of those that can be added.")
    tags = serializers.ListField(child=serializers.CharField(), help_text="Tags such as prod or eu.")
    state = serializers.ChoiceField(choices=list(STATES), help_text="State of the connection.")
    since = number_field("Time of the last change of the connection, ms since the epoch.")
    error = text_field("Why it is disconnected; empty if connected.")
    as_of = number_field("Time of the snapshot, ms since the epoch; null: none yet.", allow_null=True)
    stale = serializers.BooleanField(help_text="The broker does not respond: its values are those of `as_of`.")
    worst = WorstCondition(allow_null=True, help_text="Most severe condition; null: none, or no snapshot yet.")
    conditions = number_field("Number of active conditions; null: no snapshot yet.", allow_null=True)
    partial = serializers.ListField(  # type: ignore[assignment]  # a serializer's class has no attribute of a field
        child=serializers.CharField(), help_text="Names of sums that lack queues whose value is not known."
    )


_by_state = {"all": number_field("In all."), **{state: number_field(f"State {state}.") for state in STATES}}
BrokersByState: Any = type("BrokersByState", (serializers.Serializer,), _by_state)


class _Totals(serializers.Serializer[Any]):
    brokers = BrokersByState(help_text="Number of brokers.")
    conditions = number_field("Number of active conditions; null: of no broker known.", allow_null=True)
    partial = serializers.DictField(  # type: ignore[assignment]  # as above
        child=serializers.IntegerField(),
        help_text="Name of a sum: number of brokers whose part is missing or incomplete. Others are complete.",
    )
    stale = number_field("Number of brokers whose part is as of an earlier snapshot.")


FleetBroker: Any = type("FleetBroker", (_Member,), _counts("not known"))
FleetTotals: Any = type("FleetTotals", (_Totals,), _counts("of no broker known"))


class Snapshots(serializers.Serializer[Any]):
    as_of = number_field("Time of the oldest snapshot, ms since the epoch; null: there is none.", allow_null=True)
    stale = serializers.BooleanField(help_text="One of the brokers is not connected: see `stale` of each.")


class Fleet(Snapshots):
    totals = FleetTotals()
    brokers = FleetBroker(many=True, help_text="Those in trouble first.")


def _of_broker() -> dict[str, Any]:
    return {"broker": text_field("Slug of the broker."), "broker_title": text_field("Display name of the broker.")}


_QUEUE = TYPES["Queue"]
FleetQueue = shape_of(
    "FleetQueue",
    [attribute for name in SHOWN if (attribute := _QUEUE.attribute(name)) is not None],
    required=False,
    **_of_broker(),
    object=object_field(),
    version=number_field("Version of the queue.", allow_null=True),
    stale=serializers.BooleanField(help_text="The broker does not respond: values are as of its last snapshot."),
    starting=serializers.BooleanField(help_text="A staged start of its producers is running."),
)
FleetQueues: Any = type("FleetQueuePage", (page_of(FleetQueue), Snapshots), {})


class FleetQueueGroup(QueueGroup):
    brokers = number_field("Number of brokers that have queues of the group.")


FleetQueueGroups: Any = type("FleetQueueGroupPage", (page_of(FleetQueueGroup), Snapshots), {})
FleetCondition: Any = type("FleetCondition", (Condition,), _of_broker())
FleetEvent: Any = type("FleetEvent", (Event,), _of_broker())


class FleetConditions(page_of(FleetCondition), Snapshots):  # type: ignore[misc]
    kinds = serializers.DictField(
        child=serializers.IntegerField(), help_text="Number of conditions of each kind, regardless of filters."
    )


class FleetEvents(Snapshots):
    events = FleetEvent(many=True, help_text="The newest first.")
