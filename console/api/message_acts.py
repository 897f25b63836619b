"""Act on messages: move, copy, retry, delete, publish; and the jobs that do so for all that a filter finds."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from brokers.admin import InvalidValue, NotFound
from console.api import messages_schema, schema
from console.api.base_views import BrokerView, PersonalView, number_in, object_in
from console.celery import send
from console.intake.durations import parse_duration
from console.messages import jobs, tasks
from console.messages.models import MessageJob
from console.operations import message_acts
from console.operations.dead_letter_target import dead_letter_target
from console.operations.message_acts import Act
from console.permissions.rights import Role

#: Bytes of the body of a test message: in base64, and with its properties, it fits into one request to the broker.
MOST_OF_BODY = 1 << 19

_RESPONSES = {200: messages_schema.MessageActAnswer, 202: messages_schema.MessageJobStarted, **messages_schema.WRITING}
_HOW = (
    " Messages named by `ids` are handled at once. With `match`, a job in the background handles all messages that"
    " arrived before it began. Messages that a consumer has acquired are skipped."
)


class _ActView(BrokerView):
    action: str

    def post(self, request: Request) -> Response:
        body = self.body
        ids, match = body.get("ids"), body.get("match")
        if (ids is None) == (match is None):
            raise InvalidValue({"ids": "give either ids or match ({}: all messages of the queue)"})
        act = Act(self.action, body["object"], self.target(), ids, None if match is None else dict(match))
        if body["preview"]:
            return Response({**message_acts.preview_act(self.link, act).as_json(), "to": act.to})
        if ids is not None:
            done = message_acts.act_on_named(self.actor, self.link, act, reason=body["reason"])
            return Response({**done.as_json(), "to": act.to})
        job = jobs.begin(self.actor, self.link, act, reason=body["reason"])
        send(tasks.carry_out, job.pk)
        job.refresh_from_db()
        return Response({"job": job_of(job)}, status=202)

    def target(self) -> str:
        """Return the name of the target queue, "" for actions without."""
        return str(self.body.get("to", ""))


class MoveMessagesView(_ActView):
    action = "move"

    def target(self) -> str:
        to = super().target()
        if self.body["dead_letter"]:
            return dead_letter_target(self.link, self.body["object"], to)
        if not to:
            raise InvalidValue({"to": "to is missing: name the target queue, or set dead_letter"})
        return to

    @extend_schema(
        parameters=[schema.BROKER],
        request=messages_schema.MessageMoveRequest,
        responses=_RESPONSES,
        summary="Move messages to another queue",
        description="Each message is in one of the two queues at any moment, also if the broker is killed. In the"
        " queue's dead-letter queue they are dead letters, with the reason moved-by-operator, which a retry returns."
        + _HOW,
    )
    def post(self, request: Request) -> Response:
        return super().post(request)


class CopyMessagesView(_ActView):
    action = "copy"

    @extend_schema(
        parameters=[schema.BROKER],
        request=messages_schema.MessageTargetRequest,
        responses=_RESPONSES,
        summary="Copy messages to another queue",
        description="The messages stay in their queue." + _HOW,
    )
    def post(self, request: Request) -> Response:
        return super().post(request)


class RetryMessagesView(_ActView):
    action = "retry"

    @extend_schema(
        parameters=[schema.BROKER],
        request=messages_schema.MessageActRequest,
        responses=_RESPONSES,
        summary="Move dead letters back to the queues that they come from",
        description="Other messages are skipped." + _HOW,
    )
    def post(self, request: Request) -> Response:
        return super().post(request)


class DeleteMessagesView(_ActView):
    action = "delete"

    @extend_schema(
        parameters=[schema.BROKER],
        request=messages_schema.MessageActRequest,
        responses=_RESPONSES,
        summary="Delete messages",
        description="They cannot be restored." + _HOW,
    )
    def post(self, request: Request) -> Response:
        return super().post(request)


class PublishMessageView(BrokerView):
    @extend_schema(
        parameters=[schema.BROKER],
        request=messages_schema.PublishRequest,
        responses={200: messages_schema.Published, **messages_schema.WRITING},
        summary="Publish a test message",
        description="Needs the role of publisher. Audited without the content. The message is subject to the queue's"
        " flow control, like any other.",
    )
    def post(self, request: Request) -> Response:
        body = self.body
        arguments = {
            **_content(body),
            "durable": body["durable"],
            "priority": body["priority"],
            "ttl_ms": parse_duration("ttl", body["ttl"]) if body["ttl"].strip() else None,
            "properties": body["properties"] or None,
            "application_properties": body["application_properties"] or None,
        }
        try:
            answer = message_acts.publish(self.actor, self.link, body["object"], arguments, reason=body["reason"])
        except InvalidValue as error:
            named = {"ttl_ms": "ttl", "body": "body_base64" if "body_base64" in body else "body"}
            raise InvalidValue({named.get(field, field): text for field, text in error.errors.items()}) from None
        return Response({name: answer.get(name) for name in ("outcome", "id", "sentence")})


def _content(body: Mapping[str, Any]) -> dict[str, str]:
    """Return the arguments `body` (base64) and `body_kind`. Raises InvalidValue."""
    if "body" in body and "body_base64" in body:
        raise InvalidValue({"body_base64": "give either body or body_base64"})
    if "body_base64" in body:
        try:
            content = base64.b64decode(body["body_base64"], validate=True)
        except (binascii.Error, ValueError):
            raise InvalidValue({"body_base64": "body_base64 is not base64"}) from None
    else:
        content = body.get("body", "").encode()
    if len(content) > MOST_OF_BODY:
        field = "body_base64" if "body_base64" in body else "body"
        raise InvalidValue({field: f"{field} has {len(content):,} bytes: {MOST_OF_BODY:,} at most"})
    kind = body.get("body_kind") or ("data" if "body_base64" in body else "text")
    return {"body": base64.b64encode(content).decode(), "body_kind": kind}


# -- jobs -------------------------------------------------------------------------------------------------------------


class MessageJobsView(BrokerView):
    @extend_schema(
        parameters=[schema.BROKER, schema.parameter("object", "Only jobs of this queue."), *schema.PAGE],
        responses={200: schema.page_of(messages_schema.MessageJob), **schema.READ_REFUSALS},
        operation_id="message_jobs_list",
        summary="List message jobs, newest first",
    )
    def get(self, request: Request) -> Response:
        query = request.query_params
        number = number_in(query, "page", 1, 1, 1 << 31)
        size = number_in(query, "page_size", 20, 1, 100)
        link = self.link
        found = MessageJob.objects.filter(broker=link.slug)
        if link.only_hosts is not None:
            found = found.filter(virtualhost__in=link.only_hosts)
        if query.get("object"):
            found = found.filter(object=str(object_in(query)))
        shown = [job_of(job) for job in found[(number - 1) * size : number * size]]
        return Response({"count": found.count(), "page": number, "page_size": size, "results": shown})


class _JobView(PersonalView):
    def job(self, number: int) -> MessageJob:
        """Return the job. Raises NotFound, also if the user may not see its queue."""
        job: MessageJob | None = MessageJob.objects.filter(pk=number).first()
        if job is None or not jobs.is_visible(job, self.rights.hosts(Role.VIEWER, job.broker)):
            raise NotFound(f"there is no message job {number}")
        return job


class MessageJobView(_JobView):
    @extend_schema(
        responses={200: messages_schema.MessageJob, **schema.READ_REFUSALS},
        summary="Get a message job and its progress",
    )
    def get(self, request: Request, number: int) -> Response:
        return Response(job_of(self.job(number)))


class MessageJobInterruptView(_JobView):
    @extend_schema(
        request=messages_schema.MessageJobSteer,
        responses={200: messages_schema.MessageJob, **schema.WRITE_REFUSALS},
        summary="Interrupt a message job",
        description="It ends after the batch that is being handled, and can be resumed.",
    )
    def post(self, request: Request, number: int) -> Response:
        jobs.interrupt(self.actor, self.job(number), reason=self.body["reason"])
        return Response(job_of(self.job(number)))


class MessageJobResumeView(_JobView):
    @extend_schema(
        request=messages_schema.MessageJobResume,
        responses={200: messages_schema.MessageJob, **schema.WRITE_REFUSALS},
        summary="Resume a message job",
        description="It goes on behind the last batch whose answer arrived.",
    )
    def post(self, request: Request, number: int) -> Response:
        body, job = self.body, self.job(number)
        jobs.resume(self.actor, job, reason=body["reason"], unconfirmed=body.get("unconfirmed", ""))
        send(tasks.carry_out, job.pk)
        return Response(job_of(self.job(number)))


def job_of(job: MessageJob) -> dict[str, Any]:
    return {
        "id": job.pk,
        "created": job.created,
        "finished": job.finished,
        "user_name": job.user_name,
        "broker": job.broker,
        "object": job.object,
        "action": job.action,
        "to": job.to,
        "match": job.match,
        "reason": job.reason,
        "state": job.state,
        "stalled": jobs.is_stalled(job),
        "blocked": job.blocked,
        "error": job.error,
        "messages": job.messages,
        "bytes": job.bytes,
        "skipped": job.skipped,
        "searched": job.searched,
        "depth": job.depth,
        "percent": job.percent,
        "at_least": job.at_least,
        "unconfirmed": job.unconfirmed if job.state == "interrupted" and job.action == "copy" else 0,
    }
