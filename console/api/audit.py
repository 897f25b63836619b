"""The audit trail, newest first, and the way back from one of its rows."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from brokers.admin import InvalidValue, NotFound
from console import operations
from console.api import schema
from console.api.reading import MOST_AT_ONCE, PersonalView, body_of, number_in, text_in
from console.audit.models import AuditEntry, Outcome
from console.operations.policies import FIELDS
from console.seen import link_seen

_CONDITIONS = {
    "broker": "broker",
    "object": "object",
    "operation": "operation",
    "outcome": "outcome",
    "user": "user_name",
}


class AuditView(PersonalView):
    @extend_schema(
        parameters=[
            schema.asked("broker", "Only of this broker."),
            schema.asked("object", "Only about this object, by its object name."),
            schema.asked("operation", "Only attempts of this operation."),
            schema.asked("outcome", "Only with this outcome.", enum=Outcome.values),
            schema.asked("user", "Only by this user."),
            *schema.PAGE,
        ],
        responses={200: schema.page_of(schema.AuditRow), 400: schema.INVALID, 403: schema.READ_REFUSALS[403]},
        summary="Who did what, when, from where and why",
    )
    def get(self, request: Request) -> Response:
        query = request.query_params
        number = number_in(query, "page", 1, 1, 1 << 31)
        size = number_in(query, "page_size", 100, 1, MOST_AT_ONCE)
        given = {field: query[parameter] for parameter, field in _CONDITIONS.items() if query.get(parameter)}
        rows = AuditEntry.objects.seen_by(self.rights).filter(**given)
        shown = schema.AuditRow(rows[(number - 1) * size : number * size], many=True).data
        return Response({"count": rows.count(), "page": number, "page_size": size, "results": shown})


class RevertView(PersonalView):
    @extend_schema(
        responses={200: schema.Reversal, **schema.READ_REFUSALS},
        summary="Tell what reverting an audit row would do",
    )
    def get(self, request: Request, number: int) -> Response:
        entry = self._entry(number)
        broker = link_seen(self.rights, entry.broker)
        change = operations.reversal(broker, entry)
        known = set(change.attributes) <= {*FIELDS, "priority"}
        preview = operations.preview_changes(broker, [change]) if known else None
        return Response({"change": change.shown(), "preview": preview})

    @extend_schema(
        request=schema.RevertRequest,
        responses={200: schema.Reverted, **schema.WRITE_REFUSALS, 409: schema.Refusal},
        summary="Undo what an audit row says was done",
        description="Refused if what it changed has been changed since. It is audited like any other change.",
    )
    def post(self, request: Request, number: int) -> Response:
        body, entry = body_of(request), self._entry(number)
        version = body.get("version")
        if version is not None and (isinstance(version, bool) or not isinstance(version, int)):
            raise InvalidValue({"version": f"version is {version!r}: it must be a whole number"})
        after = operations.revert(
            self.actor,
            link_seen(self.rights, entry.broker),
            entry,
            version=version,
            reason=text_in(body, "reason"),
        )
        return Response({"version": after})

    def _entry(self, number: int) -> AuditEntry:
        entry = AuditEntry.objects.seen_by(self.rights).filter(pk=number).first()
        if entry is None:
            raise NotFound(f"there is no audit row {number}")
        return entry
