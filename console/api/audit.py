"""The audit trail, newest first, and the way back from one of its rows."""

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
from console.api.reading import MAX_PAGE_SIZE, PersonalView, choice_in, number_in
from console.api.streaming import streamed
from console.audit.models import AuditEntry, AuditQuerySet, Outcome
from console.audit.search import COLUMNS, AuditSearch
from console.incident.timeline import harmless
from console.links.visible import visible_link
from console.operations.policies import FIELDS

_FILTERS = [
    schema.parameter("broker", "Only of this broker."),
    schema.parameter("virtualhost", "Only about this virtual host and what is in it."),
    schema.parameter("object", "Only about this object, by its object name."),
    schema.parameter("operation", "Only attempts of this operation."),
    schema.parameter("outcome", "Only with this outcome.", enum=Outcome.values),
    schema.parameter("user", "Only by this user."),
    schema.parameter("search", "Text that must occur in the object, reason, detail, user, operation or address."),
    schema.parameter("from", "Not before: a time in ISO 8601, or ms since the epoch."),
    schema.parameter("until", "Before: as from."),
]
#: Rows of one part of a file.
_PART = 1000


class AuditView(PersonalView):
    @extend_schema(
        parameters=[*_FILTERS, *schema.PAGE],
        responses={200: schema.page_of(schema.AuditRow), 400: schema.INVALID, 403: schema.READ_REFUSALS[403]},
        summary="Who did what, when, from where and why",
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
        parameters=[*_FILTERS, schema.parameter("as", "The kind of file.", enum=["csv", "json"], default="csv")],
        responses={(200, "application/octet-stream"): OpenApiTypes.BINARY, **schema.READ_REFUSALS},
        summary="Take the audit trail away, as CSV or JSON",
        description="All rows that match, the newest first, sent while they are read.",
    )
    def get(self, request: Request) -> StreamingHttpResponse:
        kind = choice_in(request.query_params, "as", _FILES, "csv")
        media, written = _FILES[kind]
        rows = AuditSearch.parse(request.query_params).of(AuditEntry.objects.as_visible(self.rights))
        return streamed(request._request, written(_parts(rows)), media, f"audit.{kind}", database=True)


def _parts(rows: AuditQuerySet) -> Iterator[list[dict[str, Any]]]:
    """All rows, some at a time, each time from where the last one ended: nothing is held open in between."""
    rows = rows.order_by("-id")
    below = None
    while part := list((rows if below is None else rows.filter(id__lt=below)).values(*COLUMNS)[:_PART]):
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
    """One list, with a row on each line."""
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
        summary="Tell what reverting an audit row would do",
    )
    def get(self, request: Request, number: int) -> Response:
        entry = self._entry(number)
        broker = visible_link(self.rights, entry.broker)
        change = operations.reversal(broker, entry)
        known = set(change.attributes) <= {*FIELDS, "priority"}
        preview = operations.preview_changes(broker, [change]) if known else None
        return Response({"change": change.shown(), "preview": preview})

    @extend_schema(
        request=policies_schema.RevertRequest,
        responses={200: policies_schema.Reverted, **schema.WRITE_REFUSALS, 409: schema.Refusal},
        summary="Undo what an audit row says was done",
        description="Refused if what it changed has been changed since. It is audited like any other change.",
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
