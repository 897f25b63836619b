"""Messages of a queue: list, read one and its body, summarize; and the dead-letter queues of a broker."""

from __future__ import annotations

import codecs
import re
from typing import Any

from django.http import HttpRequest, HttpResponseBase
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from brokers.admin import InvalidValue
from console.api import messages_schema, schema
from console.api.base_views import BrokerView, choice_in, number_in, object_in
from console.api.message_filter import FILTER, by_parameter, match_in
from console.api.streaming import streamed
from console.operations import messages

MOST = 200
_ORDERS = ("queue", "unacknowledged")
_QUEUE = schema.parameter("object", f"The queue. {schema.OBJECT}", required=True)


class MessagesView(BrokerView):
    @extend_schema(
        parameters=[
            schema.BROKER,
            _QUEUE,
            *FILTER,
            schema.parameter(
                "order",
                "queue: in the order of delivery. unacknowledged: acquired messages first, the oldest first.",
                enum=_ORDERS,
                default="queue",
            ),
            schema.parameter("after", "Next page: `next` of the previous page."),
            schema.parameter("count", f"Number of messages, 1 to {MOST}.", int, default=50),
        ],
        responses={200: messages_schema.MessagePage, **messages_schema.LISTING},
        operation_id="messages_list",
        summary="List messages of a queue",
        description="Without bodies. Takes no message from the queue and delays no consumer.",
    )
    def get(self, request: Request) -> Response:
        query = request.query_params
        name, match = object_in(query), match_in(query)
        order = choice_in(query, "order", _ORDERS, "queue")
        count = number_in(query, "count", 50, 1, MOST)
        try:
            found = messages.list_messages(
                self.link, name, match, order=order, after=query.get("after") or None, count=count
            )
        except InvalidValue as error:
            raise by_parameter(error) from None
        page = {"results": found["messages"], "next": found["next"], "searched": found["searched"], "match": match}
        return Response(page)


class MessageSummaryView(BrokerView):
    @extend_schema(
        parameters=[schema.BROKER, _QUEUE, *FILTER],
        responses={200: messages_schema.MessageSummary, **messages_schema.LISTING},
        summary="Count messages of a queue by dead-letter reason",
        description="Counts for about a second at most; `complete` is whether that was all of the queue.",
    )
    def get(self, request: Request) -> Response:
        query = request.query_params
        try:
            return Response(messages.summarize(self.link, object_in(query), match_in(query)))
        except InvalidValue as error:
            raise by_parameter(error) from None


class MessageView(BrokerView):
    @extend_schema(
        parameters=[
            schema.BROKER,
            _QUEUE,
            schema.parameter("offset", "Where the part of the body begins, bytes.", int, default=0),
            schema.parameter("size", f"Largest part of the body, 1 to {messages.PART:,} bytes.", int, default=65_536),
        ],
        responses={200: messages_schema.MessageWithBody, **messages_schema.READING},
        summary="Read a message",
        description="Needs the role of message reader. Each call is audited, without the content.",
    )
    def get(self, request: Request, identifier: str) -> Response:
        query = request.query_params
        offset = number_in(query, "offset", 0, 0, 1 << 53)
        size = number_in(query, "size", 65_536, 1, messages.PART)
        answer = messages.read_message(self.actor, self.link, object_in(query), identifier, offset=offset, size=size)
        part = messages.body_of(answer)
        ends = offset + len(part) >= answer["body_bytes"]
        shown = {
            "message": answer["message"],
            "body_kind": answer["body_kind"],
            "body": answer["body"],
            "body_text": _text(part, begins=offset == 0, ends=ends),
            "body_bytes": answer["body_bytes"],
            "offset": offset,
            "cut": not ends,
        }
        return Response(shown, headers={"Cache-Control": "no-store"})


class MessageBodyView(BrokerView):
    @extend_schema(
        parameters=[schema.BROKER, _QUEUE],
        responses={
            (200, "application/octet-stream"): OpenApiResponse(
                {"type": "string", "format": "binary"}, description="The body"
            ),
            **messages_schema.READING,
        },
        summary="Download the body of a message",
        description="All of the body, as it is in the message: bytes, or UTF-8 of a text or of JSON. Needs the role of"
        " message reader; audited. If the message or the broker is lost meanwhile, the download ends early.",
    )
    def get(self, request: Request, identifier: str) -> HttpResponseBase:
        first, parts = messages.read_body(self.actor, self.link, object_in(request.query_params), identifier)
        ending = _ENDINGS.get(first["body_kind"], "bin")
        stem = re.sub(r"[^A-Za-z0-9._-]", "_", identifier)[:80]
        whole: HttpRequest = request._request
        answer = streamed(whole, parts, "application/octet-stream", f"message-{stem}.{ending}")
        answer["Content-Length"] = str(first["body_bytes"])
        answer["Cache-Control"] = "no-store"
        return answer


#: By the kind of the body.
_ENDINGS = {"text": "txt", "value": "json", "sequence": "json"}


class DeadLettersView(BrokerView):
    @extend_schema(
        parameters=[schema.BROKER],
        responses={200: messages_schema.DeadLetterQueues, **messages_schema.LISTING},
        summary="List dead-letter queues",
        description="The queues to which other queues send their dead letters, those with most messages first.",
    )
    def get(self, request: Request) -> Response:
        return Response({"results": messages.dead_letter_queues(self.link)})


def _text(part: bytes, *, begins: bool, ends: bool) -> Any:
    """Return a part of a body as text; None if it is not UTF-8. A character may be cut at either end of a part that
    does not begin or end the body."""
    if not begins:
        part = part[next((n for n, byte in enumerate(part[:3]) if byte & 0xC0 != 0x80), min(len(part), 3)) :]
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(part, final=ends)
    except UnicodeDecodeError:
        return None
