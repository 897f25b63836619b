"""Serializers of the requests and responses of messages, dead letters and message jobs."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiResponse
from rest_framework import serializers

from console.api.fields import CountField, FlagField, ObjectNameField, TextField
from console.api.message_filter import STATES
from console.api.schema import (
    OBJECT,
    READ_REFUSALS,
    REASON,
    WRITE_REFUSALS,
    Refusal,
    number_field,
    object_field,
    text_field,
)
from console.operations.message_acts import MOST_NAMED

_NULL: dict[str, Any] = {"allow_null": True}
_MOST = 1 << 53
#: Characters of an identifier of a message.
_IDENTIFIER = 200

NOT_OFFERED = OpenApiResponse(Refusal, description="This broker does not offer that.")
READING = {
    **READ_REFUSALS,
    403: OpenApiResponse(Refusal, description="Not signed in, or without the necessary role."),
    409: NOT_OFFERED,
}
LISTING = {**READ_REFUSALS, 409: NOT_OFFERED}
WRITING = {**WRITE_REFUSALS, 409: NOT_OFFERED}


class DeadLetter(serializers.Serializer[Any]):
    reason = text_field("Why it was dead-lettered.")
    queue = text_field("Name of the queue that it comes from.")
    failed_deliveries = number_field("Failed deliveries there.", **_NULL)
    description = text_field("Description by the consumer that rejected it.")


class Message(serializers.Serializer[Any]):
    id = text_field("Identifier: stable while the message is in the queue, and not reused.")
    position = number_field("Place in the order of delivery, from 1; null: acquired or delayed.", **_NULL)
    at = number_field("Arrival, ms since the epoch; null: not known.", **_NULL)
    size = number_field("Size, bytes.")
    durable = serializers.BooleanField(help_text="Whether it survives a restart of the broker.")
    priority = number_field("Priority.")
    redeliveries = number_field("Failed deliveries from this queue.")
    state = serializers.ChoiceField(choices=list(STATES), help_text="available, acquired (a consumer has it), delayed.")
    consumer = text_field("Object name of the consumer that acquired it; null: none.", **_NULL)
    expires = number_field("Time of expiry, ms since the epoch; null: none.", **_NULL)
    due = number_field("Delivery time of a delayed message, ms since the epoch; null: none.", **_NULL)
    properties = serializers.DictField(help_text="Standard properties that are set.")
    application_properties = serializers.DictField(help_text="Application properties.")
    dead_letter = DeadLetter(allow_null=True, help_text="Where a dead letter comes from, and why; null: none.")


class MessagePage(serializers.Serializer[Any]):
    results = Message(many=True)
    next = text_field("Value of `after` for the next page; null: the end was reached.", **_NULL)
    searched = number_field("Messages that were searched. There may be fewer results than `count`, with a `next`.")
    match = serializers.DictField(help_text="The filter, for `match` of the calls that act on messages.")


class MessageWithBody(serializers.Serializer[Any]):
    message = serializers.DictField(help_text="As in the list, with annotations, delivery_annotations and footer.")
    body_kind = text_field("data, text, value, sequence, none or undecodable.")
    body = text_field("This part of the body, base64: bytes, or UTF-8 of a text or of JSON.")
    body_text = text_field("This part as text; null: it is not UTF-8.", **_NULL)
    body_bytes = number_field("Size of the whole body, bytes.")
    offset = number_field("Where this part begins, bytes.")
    cut = serializers.BooleanField(help_text="Whether there is more of the body behind this part.")


class DeadLetterGroup(serializers.Serializer[Any]):
    reason = text_field("Why; empty: messages that are no dead letters.")
    queue = text_field("Name of the queue that they come from; empty: none.")
    messages = number_field("Number of messages.")
    bytes = number_field("Their size, bytes.")
    oldest_at = number_field("Arrival of the oldest, ms since the epoch; null: not known.", **_NULL)


class MessageSummary(serializers.Serializer[Any]):
    groups = DeadLetterGroup(many=True)
    searched = number_field("Messages that were searched.")
    complete = serializers.BooleanField(help_text="Whether the whole queue was searched.")


class DeadLetterQueue(serializers.Serializer[Any]):
    object = object_field()
    virtualhost = text_field("Virtual host.")
    name = text_field("Name of the queue.")
    state = text_field("Flow-control state; null: not known.", **_NULL)
    depth_messages = number_field("Depth, messages.", **_NULL)
    depth_bytes = number_field("Depth, bytes.", **_NULL)
    oldest_message_at = number_field("Arrival of the oldest message, ms since the epoch; null: not known.", **_NULL)
    sources = number_field("Queues whose dead letters go to it.")
    consumers = number_field("Attached consumers.", **_NULL)


class DeadLetterQueues(serializers.Serializer[Any]):
    results = DeadLetterQueue(many=True)


# -- acting -----------------------------------------------------------------------------------------------------------


def _least(help_text: str) -> serializers.IntegerField:
    return number_field(help_text, required=False, min_value=0, max_value=_MOST)


class MessageMatch(serializers.Serializer[Any]):
    # Empty texts are refused: taken as omitted, they would match every message.
    selector = TextField("JMS selector.", required=False, allow_blank=False)
    properties = serializers.DictField(
        child=TextField(allow_blank=True), required=False, help_text="Application or standard property -> its value."
    )
    older_than_ms = _least("Arrived longer ago, ms.")
    newer_than_ms = _least("Arrived within this time, ms.")
    min_bytes = _least("Minimum size, bytes.")
    max_bytes = _least("Maximum size, bytes.")
    min_redeliveries = _least("Minimum number of failed deliveries.")
    max_redeliveries = _least("Maximum number of failed deliveries.")
    state = serializers.ChoiceField(choices=list(STATES), required=False, help_text="State of the messages.")
    dead_letter_reason = TextField("Reason of the dead letters.", required=False, allow_blank=False)
    dead_letter_queue = TextField(
        "Name of the queue that the dead letters come from.", required=False, allow_blank=False
    )


class MessageActRequest(serializers.Serializer[Any]):
    object = ObjectNameField(OBJECT)
    ids = serializers.ListField(
        child=TextField(max_length=_IDENTIFIER),
        required=False,
        allow_empty=False,
        max_length=MOST_NAMED,
        help_text="Identifiers of messages. Either these or `match`.",
    )
    match = MessageMatch(required=False, help_text="All messages with these conditions; {}: all of the queue.")
    reason = TextField(REASON, default="")
    preview = FlagField("Return what would be done; change nothing.")


class MessageTargetRequest(MessageActRequest):
    to = TextField("Name of the target queue, in the same virtual host.", max_length=255)


class MessageMoveRequest(MessageActRequest):
    to = TextField("Name of the target queue, in the same virtual host.", max_length=255, default="")
    dead_letter = FlagField(
        "Move to the effective dead-letter queue of the queue. If `to` names it, too, the move is refused with 409 if"
        " it is another one by now."
    )


class SkippedMessage(serializers.Serializer[Any]):
    id = text_field("Identifier.")
    why = text_field("Why nothing was done with it.")


class MessageActAnswer(serializers.Serializer[Any]):
    messages = number_field("Messages that were acted on, or would be.")
    bytes = number_field("Their size, bytes.")
    skipped = SkippedMessage(many=True, help_text="The first 100 messages that were skipped.")
    skipped_messages = number_field("Number of skipped messages.")
    blocked = text_field("Why the target takes no more messages now; empty: it does.")
    complete = serializers.BooleanField(help_text="Whether all messages were reached.")
    to = text_field("Name of the target queue; empty: none.")


class MessageJob(serializers.Serializer[Any]):
    id = number_field("Number of the job.")
    created = serializers.DateTimeField(help_text="Start time.")
    finished = serializers.DateTimeField(allow_null=True, help_text="End time.")
    user_name = text_field("User who started it.")
    broker = text_field("Slug of the broker.")
    object = object_field()
    action = text_field("move, copy, retry or delete.")
    to = text_field("Name of the target queue; empty: none.")
    match = serializers.DictField(help_text="Conditions of the messages.")
    reason = text_field(REASON)
    state = text_field("running, interrupted or done.")
    stalled = serializers.BooleanField(help_text="Its worker has stopped while the state is running: it goes on soon.")
    blocked = text_field("Why it waits; empty: it does not.")
    error = text_field("Why it was interrupted.")
    messages = number_field("Messages acted on so far.")
    bytes = number_field("Their size, bytes.")
    skipped = number_field("Messages skipped so far.")
    searched = number_field("Messages searched so far; those that a blocked target refused count again.")
    depth = number_field("Depth of the queue when it began, messages; null: not known.", **_NULL)
    percent = number_field(
        "Part of `depth` that it has searched, percent; 100 only when it is done. null: not known, also when more was"
        " searched than the depth.",
        **_NULL,
    )
    at_least = serializers.BooleanField(
        help_text="The counts may miss a batch: a worker or the connection was lost before its answer."
    )
    unconfirmed = number_field(
        "Messages of an interrupted copy that may be in the target already, at most; see resume. 0: none."
    )


class MessageJobStarted(serializers.Serializer[Any]):
    job = MessageJob()


class MessageJobSteer(serializers.Serializer[Any]):
    reason = TextField(REASON, default="")


class MessageJobResume(MessageJobSteer):
    unconfirmed = serializers.ChoiceField(
        choices=["repeat", "skip"],
        required=False,
        help_text="Of a copy whose last batch is unconfirmed: repeat (some may be copied twice) or skip (some may not"
        " be copied).",
    )


class PublishRequest(serializers.Serializer[Any]):
    object = ObjectNameField(OBJECT)
    body = TextField("Body as text; or `body_base64`.", required=False, allow_blank=True)
    body_base64 = TextField("Body as base64 of bytes.", required=False, allow_blank=True)
    body_kind = serializers.ChoiceField(
        choices=["data", "text"],
        required=False,
        help_text="data: bytes; text: an AMQP string. Omitted: text with `body`, data with `body_base64`.",
    )
    durable = FlagField("Store it, so that it survives a restart of the broker.", default=True)
    priority = CountField("Priority, 0 to 9.", default=4, max_value=9)
    ttl = TextField("Time to live: 90s, 10m, 2h. Empty: unlimited.", default="")
    properties = serializers.DictField(default=dict, help_text="Standard properties, such as subject.")
    application_properties = serializers.DictField(default=dict, help_text="Application properties.")
    reason = TextField(REASON, default="")


class Published(serializers.Serializer[Any]):
    outcome = text_field(
        "accepted; parked: a producer's message would wait now, and this one was not taken; rejected; discarded."
    )
    id = text_field("Identifier of the message in the queue; null: it is not in the queue.", **_NULL)
    sentence = text_field("What came of it.")
