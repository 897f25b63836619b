"""The timeline: search, new entries, and export."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from django.http import HttpResponse, QueryDict
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from brokers.admin import InvalidValue
from brokers.model import NOTIFICATIONS, TYPES
from console.api import schema
from console.api.base_views import BrokerView, choice_in, number_in, snapshot_of, time_in
from console.audit.models import AuditEntry
from console.incident import timeline
from console.incident.timeline import Search
from console.links.link import BrokerLink

#: Entries of one download.
MOST = 20_000

#: Kinds of brokers' objects. Operations on the console's own objects are known once the audit trail has one.
_CALLS = (operation.name for managed_type in TYPES.values() for operation in managed_type.operations)
_KINDS = tuple(dict.fromkeys((*NOTIFICATIONS, "create", "update", "delete", *_CALLS)))

_SOURCES = ("broker", "people")

_FILTERS = [
    schema.BROKER,
    schema.parameter("search", "Only entries with this text, case-insensitive."),
    schema.parameter("kind", "Only these kinds of events or operations.", many=True),
    schema.parameter("actor", "Only entries of this user."),
    schema.parameter("queue", "Only queues whose name contains this text, or the queue with this object name."),
    schema.parameter("producer", "Only producers whose client or link contains this text."),
    schema.parameter("source", "Only events of the broker, or only the audit trail.", enum=_SOURCES),
    schema.parameter("told_by", "Deprecated: use source.", enum=_SOURCES, deprecated=True),
    schema.parameter("from", "Not before: ms since the epoch, or ISO 8601 with a zone."),
    schema.parameter("until", "Before: as `from`."),
]


class TimelineView(BrokerView):
    @extend_schema(
        parameters=[
            *_FILTERS,
            schema.parameter("before_event", "Next page: before_event of the previous page.", int),
            schema.parameter("before_audit", "Next page: before_audit of the previous page.", int),
            schema.parameter("after_event", "Only new entries: newest_event of the previous answer.", int),
            schema.parameter("after_audit", "Only new entries: newest_audit of the previous answer.", int),
            schema.parameter("count", "1 to 500.", int, default=100),
        ],
        responses={200: schema.TimelinePage, **schema.READ_REFUSALS},
        summary="Search the timeline",
        description="Events of the broker and rows of the audit trail in one stream, the newest first.",
    )
    def get(self, request: Request) -> Response:
        query = request.query_params
        search, link = search_in(query), self.link
        after_event = number_in(query, "after_event", -1, 0, 1 << 62)
        after_audit = number_in(query, "after_audit", -1, 0, 1 << 62)
        before_event = number_in(query, "before_event", 0, 0, 1 << 62)
        before_audit = number_in(query, "before_audit", 0, 0, 1 << 62)
        count = number_in(query, "count", 100, 1, 500)
        snapshot = _snapshot(link, search)
        newest = {**snapshot, "newest_event": link.newest_event, "newest_audit": timeline.newest_audit(link)}
        if after_event >= 0 and after_audit >= 0:
            entries, more = timeline.news(link, search, after_event=after_event, after_audit=after_audit)
            return Response({"entries": entries, "more": more, **newest})
        page = timeline.page(link, search, before_event=before_event, before_audit=before_audit, count=count)
        return Response({**asdict(page), **newest})


class TimelineDownloadView(BrokerView):
    @extend_schema(
        parameters=[*_FILTERS, schema.parameter("as", "File format.", enum=["csv", "json"], default="csv")],
        responses={
            (200, "text/csv"): OpenApiResponse({"type": "string"}, description="The file"),
            (200, "application/json"): OpenApiResponse(
                {
                    "type": "object",
                    "properties": {
                        "as_of": {"type": "integer"},
                        "stale": {"type": "boolean"},
                        "more": {"type": "boolean"},
                        "entries": {"type": "array", "items": {}},
                    },
                },
                description="The file",
            ),
            **schema.READ_REFUSALS,
        },
        summary="Export the timeline",
        description=f"The newest {MOST:,} entries that match, as CSV or JSON. Header Headgate-More: whether there are"
        " more; Headgate-As-Of: the time of the snapshot with the broker's events, ms since the epoch.",
    )
    def get(self, request: Request) -> HttpResponse:
        kind = choice_in(request.query_params, "as", ("csv", "json"), "csv")
        search = search_in(request.query_params)
        snapshot = _snapshot(self.link, search)
        entries, more = timeline.entries_for_export(self.link, search, limit=MOST)
        if kind == "csv":
            content, media = timeline.as_csv(entries), "text/csv; charset=utf-8"
        else:
            content, media = json.dumps({**snapshot, "more": more, "entries": entries}, indent=1), "application/json"
        answer = HttpResponse(content, content_type=media)
        answer["Content-Disposition"] = f'attachment; filename="timeline-{self.link.slug}.{kind}"'
        answer["Headgate-More"] = "true" if more else "false"
        answer["Headgate-As-Of"] = str(snapshot["as_of"])
        return answer


def _kinds_in(query: QueryDict) -> tuple[str, ...]:
    """Return the kinds of the query: declared notifications and operations, and those in the audit trail. Raises
    InvalidValue."""
    wanted = tuple(kind for kind in query.getlist("kind") if kind)
    for kind in wanted:
        if kind not in _KINDS and not AuditEntry.objects.filter(operation=kind).exists():
            raise InvalidValue({"kind": f"kind is {kind!r}: it must be one of {', '.join(_KINDS)}"})
    return wanted


def _snapshot(link: BrokerLink, search: Search) -> dict[str, Any]:
    """Return the age of the data. The audit trail is the console's own and available without the broker. Raises
    BrokerUnreachable."""
    if search.source == "people":
        return {"as_of": link.as_of, "stale": not link.connected}
    return snapshot_of(link)


def search_in(query: QueryDict) -> Search:
    """Return the search of a query. Raises InvalidValue."""
    return Search(
        text=query.get("search", "").strip(),
        kinds=_kinds_in(query),
        actor=query.get("actor", "").strip(),
        queue=query.get("queue", "").strip(),
        producer=query.get("producer", "").strip(),
        source=choice_in(query, "source", _SOURCES) or choice_in(query, "told_by", _SOURCES),
        since=time_in(query, "from") or 0,
        until=time_in(query, "until") or 0,
    )
