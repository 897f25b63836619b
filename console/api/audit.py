"""The audit trail: list, export, and revert a change that it records."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
from collections.abc import Iterable, Iterator
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder
from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from brokers.admin import NotFound
from console import operations
from console.api import policies_schema, schema
from console.api.base_views import MAX_PAGE_SIZE, PersonalView, choice_in, number_in
from console.api.streaming import streamed
from console.audit.models import AuditEntry, AuditQuerySet, Outcome
from console.audit.search import COLUMNS, AuditSearch
from console.incident.timeline import harmless
from console.links.visible import visible_link
from console.operations.policies import FIELDS

_FILTERS = [
    schema.parameter("broker", "Entries of this broker, by slug."),
    schema.parameter("virtualhost", "Entries about this virtual host and the objects in it."),
    schema.parameter("object", "Entries about the object with this object name."),
    schema.parameter("operation", "Entries of this operation."),
    schema.parameter("outcome", "Entries with this outcome.", enum=Outcome.values),
    schema.parameter("user", "Entries of this user."),
    schema.parameter(
        "request", "Entries of the request with this id (`X-Request-ID` of its response, `request_id` in the log)."
    ),
    schema.parameter("search", "Text in the object, reason, detail, user, operation, address or request id."),
    schema.parameter("from", "Entries from this time on: ISO 8601, or ms since the epoch."),
    schema.parameter("until", "Entries before this time; format as for `from`."),
]
#: Rows that an export reads at a time.
_BATCH = 1000


class AuditView(PersonalView):
    @extend_schema(
        parameters=[*_FILTERS, *schema.PAGE],
        responses={200: schema.page_of(schema.AuditRow), 400: schema.INVALID, 403: schema.READ_REFUSALS[403]},
        summary="List audit entries, newest first",
    )
    def get(self, request: Request) -> Response:
        query = request.query_params
        number = number_in(query, "page", 1, 1, 1 << 31)
        size = number_in(query, "page_size", 100, 1, MAX_PAGE_SIZE)
        rows = AuditSearch.parse(query).of(AuditEntry.objects.as_visible(self.rights))
        shown = schema.AuditRow(rows[(number - 1) * size : number * size], many=True).data
        return Response({"count": rows.count(), "page": number, "page_size": size, "results": shown})


class AuditFileView(PersonalView):
    @extend_schema(
        parameters=[*_FILTERS, schema.parameter("as", "Format of the file.", enum=["csv", "json"], default="csv")],
        responses={(200, "application/octet-stream"): OpenApiTypes.BINARY, **schema.READ_REFUSALS},
        summary="Export the audit trail as CSV or JSON",
        description="All matching entries, newest first, streamed.",
    )
    def get(self, request: Request) -> StreamingHttpResponse:
        kind = choice_in(request.query_params, "as", _FILES, "csv")
        media, written = _FILES[kind]
        rows = AuditSearch.parse(request.query_params).of(AuditEntry.objects.as_visible(self.rights))
        return streamed(request._request, written(_parts(rows)), media, f"audit.{kind}", database=True)


def _parts(rows: AuditQuerySet) -> Iterator[list[dict[str, Any]]]:
    """Yield all rows in batches, each by a query of its own that starts after the last row: no cursor stays open."""
    rows = rows.order_by("-id")
    below = None
    while part := list((rows if below is None else rows.filter(id__lt=below)).values(*COLUMNS)[:_BATCH]):
        below = part[-1]["id"]
        yield part


def _csv(parts: Iterable[list[dict[str, Any]]]) -> Iterator[bytes]:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(COLUMNS)
    for part in parts:
        for row in part:
            writer.writerow([harmless(_cell(row[column])) for column in COLUMNS])
        yield out.getvalue().encode()
        out.seek(0)
        out.truncate()
    yield out.getvalue().encode()


def _cell(value: Any) -> Any:
    if isinstance(value, dt.datetime):
        return value.isoformat()
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value


def _json(parts: Iterable[list[dict[str, Any]]]) -> Iterator[bytes]:
    """Yield a JSON list with one row per line."""
    before = "["
    for part in parts:
        lines = [json.dumps(row, cls=DjangoJSONEncoder, ensure_ascii=False) for row in part]
        yield (before + "\n" + ",\n".join(lines)).encode()
        before = ","
    yield b"[]\n" if before == "[" else b"\n]\n"


_FILES = {"csv": ("text/csv; charset=utf-8", _csv), "json": ("application/json", _json)}


class RevertView(PersonalView):
    @extend_schema(
        responses={200: policies_schema.Reversal, **schema.READ_REFUSALS},
        summary="Preview the impact of reverting an audit entry",
    )
    def get(self, request: Request, number: int) -> Response:
        entry = self._entry(number)
        broker = visible_link(self.rights, entry.broker)
        change = operations.reversal(broker, entry)
        policy_only = set(change.attributes) <= {*FIELDS, "priority"}
        preview = operations.preview_changes(broker, [change]) if policy_only else None
        return Response({"change": change.as_json(), "preview": preview})

    @extend_schema(
        request=policies_schema.RevertRequest,
        responses={200: policies_schema.Reverted, **schema.WRITE_REFUSALS, 409: schema.Refusal},
        summary="Revert the change of an audit entry",
        description="Refused if the object has been changed since. The reversal is audited like any other change.",
    )
    def post(self, request: Request, number: int) -> Response:
        entry = self._entry(number)
        after = operations.revert(
            self.actor,
            visible_link(self.rights, entry.broker),
            entry,
            version=self.body["version"],
            reason=self.body["reason"],
        )
        return Response({"version": after})

    def _entry(self, number: int) -> AuditEntry:
        entry = AuditEntry.objects.as_visible(self.rights).filter(pk=number).first()
        if entry is None:
            raise NotFound(f"there is no audit row {number}")
        return entry
