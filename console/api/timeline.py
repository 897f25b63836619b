"""Everything that happened, searched, live and to take away."""

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
from console.api.reading import BrokerView, choice_in, number_in, snapshot_of, time_in
from console.audit.models import AuditEntry
from console.incident import timeline
from console.incident.timeline import Search
from console.links.link import BrokerLink

#: Entries of one download.
MOST = 20_000

#: Of brokers' objects; those of the console's own things are known once somebody did them.
_CALLS = (operation.name for managed_type in TYPES.values() for operation in managed_type.operations)
_KINDS = tuple(dict.fromkeys((*NOTIFICATIONS, "create", "update", "delete", *_CALLS)))

_FILTERS = [
    schema.BROKER,
    schema.parameter("search", "Text that must occur in an entry, whatever the case."),
    schema.parameter("kind", "Only of these kinds of events or operations.", many=True),
    schema.parameter("actor", "Only by this person."),
    schema.parameter("queue", "Only about queues with this in their name, or about the one with this object name."),
    schema.parameter("producer", "Only about producers with this in their client or link."),
    schema.parameter("told_by", "Only what the broker told, or what people did.", enum=["broker", "people"]),
    schema.parameter("from", "Not before: ms since the epoch, or ISO 8601 with a zone."),
    schema.parameter("until", "Before: as `from`."),
]


class TimelineView(BrokerView):
    @extend_schema(
        parameters=[
            *_FILTERS,
            schema.parameter("before_event", "Go on from there: before_event of the page before.", int),
            schema.parameter("before_audit", "Go on from there: before_audit of the page before.", int),
            schema.parameter("after_event", "Only what came since: newest_event of the answer before.", int),
            schema.parameter("after_audit", "Only what came since: newest_audit of the answer before.", int),
            schema.parameter("count", "1 to 500.", int, default=100),
        ],
        responses={200: schema.TimelinePage, **schema.READ_REFUSALS},
        summary="Events, edits, stops and starts in one stream, the newest first",
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
            entries = timeline.news(link, search, after_event=after_event, after_audit=after_audit)
            return Response({"entries": entries, **newest})
        page = timeline.page(link, search, before_event=before_event, before_audit=before_audit, count=count)
        return Response({**asdict(page), **newest})


class TimelineDownloadView(BrokerView):
    @extend_schema(
        parameters=[*_FILTERS, schema.parameter("as", "The kind of file.", enum=["csv", "json"], default="csv")],
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
        summary="Take the timeline away, as CSV or JSON",
        description=f"The newest {MOST:,} entries that match; the header Headgate-More tells whether there are more,"
        " Headgate-As-Of as of when the broker's events are, ms since the epoch.",
    )
    def get(self, request: Request) -> HttpResponse:
        kind = choice_in(request.query_params, "as", ("csv", "json"), "csv")
        search = search_in(request.query_params)
        snapshot = _snapshot(self.link, search)
        entries, more = timeline.everything(self.link, search, most=MOST)
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
    """Notifications and operations that brokers declare, and whatever people did. Raises InvalidValue."""
    wanted = tuple(kind for kind in query.getlist("kind") if kind)
    for kind in wanted:
        if kind not in _KINDS and not AuditEntry.objects.filter(operation=kind).exists():
            raise InvalidValue({"kind": f"kind is {kind!r}: it must be one of {', '.join(_KINDS)}"})
    return wanted


def _snapshot(link: BrokerLink, search: Search) -> dict[str, Any]:
    """What people did is the console's own, and known whatever the broker does."""
    if search.told_by == "people":
        return {"as_of": link.as_of, "stale": not link.connected}
    return snapshot_of(link)


def search_in(query: QueryDict) -> Search:
    """Raises InvalidValue."""
    return Search(
        text=query.get("search", "").strip(),
        kinds=_kinds_in(query),
        actor=query.get("actor", "").strip(),
        queue=query.get("queue", "").strip(),
        producer=query.get("producer", "").strip(),
        told_by=choice_in(query, "told_by", ("broker", "people")),
        since=time_in(query, "from") or 0,
        until=time_in(query, "until") or 0,
    )
