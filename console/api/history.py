"""The recorded history: time series, top lists, heat map, episodes, events of an incident; and their downloads.

Read only. It covers every recorded or imported broker, whether this console is connected to it or not.
"""

from __future__ import annotations

from django.conf import settings
from django.http import StreamingHttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from brokers.admin import InvalidValue
from console.access.user_rights import request_rights
from console.api import history_schema as shapes
from console.api import schema
from console.api.base_views import MAX_PAGE_SIZE, choice_in, choices_in, number_in
from console.api.history_downloads import KINDS as FILES
from console.api.history_downloads import download
from console.api.history_reading import (
    broker_in,
    history,
    maybe_queue_in,
    now_ms,
    queue_in,
    range_in,
)
from console.api.history_why import render_events
from console.api.strict import StrictAPIView
from console.history.query import blocked, catalog, episode_list, incident
from console.history.query.series import RESOLUTIONS, series
from console.history.query.totals import totals
from console.history.storage.durations import HOUR
from console.history.storage.reader import NothingRecorded
from console.history.whatif import recommendations
from console.links.unreported import brokers_without_producers

_RESOLUTIONS = ("auto", *(resolution.name for resolution in RESOLUTIONS))
_SORTS = tuple(f"{sign}{name}" for name in episode_list.SORTS for sign in ("", "-"))


class HistoryCatalogView(StrictAPIView):
    @extend_schema(
        responses={200: shapes.HistoryCatalog, **shapes.REFUSALS},
        summary="List recorded brokers",
        description="While nothing has been processed, `recorded` is false and `brokers` is empty.",
    )
    def get(self, request: Request) -> Response:
        reader = history(request)
        try:
            brokers = catalog.brokers(reader)
        except NothingRecorded:
            brokers = []
        from console.history.storage.backlog import find_backlog

        landed = not brokers and (reader.is_published() or bool(find_backlog(settings.HEADGATE_HISTORY_URL).files))
        return Response(
            {
                "recorded": bool(brokers),
                "landed": landed,
                "recommendations": recommendations.are_computed(reader),
                "now": now_ms(),
                "brokers": brokers,
            }
        )


class HistoryQueuesView(StrictAPIView):
    @extend_schema(
        parameters=[
            shapes.BROKER,
            schema.parameter("search", "Text in the queue's name."),
            schema.parameter("count", "1 to 500.", int, default=100),
        ],
        responses={200: shapes.RecordedQueue(many=True), **shapes.REFUSALS},
        summary="List recorded queues",
    )
    def get(self, request: Request) -> Response:
        query = request.query_params
        most = number_in(query, "count", 100, 1, MAX_PAGE_SIZE)
        search = query.get("search", "").strip()
        return Response(catalog.queues(history(request), broker=broker_in(query), search=search, most=most))


class SeriesView(StrictAPIView):
    @extend_schema(
        parameters=[
            *shapes.QUEUE,
            *shapes.RANGE,
            schema.parameter(
                "resolution",
                "Resolution of the points; `auto`: chosen by the length of the range.",
                enum=_RESOLUTIONS,
                default="auto",
            ),
        ],
        responses={200: shapes.Series, **shapes.REFUSALS},
        summary="Get a queue's time series",
        description="Depth, limits of that time, rates, overfull time and stopped time. Null means no data, never 0;"
        " `unwatched` lists the spans that were not recorded.",
    )
    def get(self, request: Request) -> Response:
        query = request.query_params
        queue = queue_in(query)
        begin, end = range_in(query)
        resolution = choice_in(query, "resolution", _RESOLUTIONS, "auto")
        try:
            found = series(
                history(request),
                queue,
                begin,
                end,
                resolution=resolution,
                now=now_ms(),
                unreported=queue.broker in brokers_without_producers(request_rights(request._request)),
            )
        except ValueError as error:
            raise InvalidValue({"resolution": str(error)}) from None
        about = {"broker": queue.broker, "virtualhost": queue.virtualhost, "queue": queue.name}
        return Response(about | found)


class TopView(StrictAPIView):
    @extend_schema(
        parameters=[
            shapes.BROKER,
            *shapes.RANGE,
            schema.parameter("of", "What to list.", enum=list(blocked.SUBJECTS), default="queues"),
            shapes.MEASURE,
            schema.parameter("count", "1 to 500.", int, default=10),
        ],
        responses={200: shapes.Top, **shapes.REFUSALS},
        summary="List the most blocked queues, producers or virtual hosts",
    )
    def get(self, request: Request) -> Response:
        query = request.query_params
        begin, end = range_in(query)
        found = blocked.top(
            history(request),
            choice_in(query, "of", blocked.SUBJECTS, "queues"),
            begin,
            end,
            now=now_ms(),
            measure=choice_in(query, "measure", blocked.MEASURES, "blocked"),
            broker=broker_in(query),
            most=number_in(query, "count", 10, 1, MAX_PAGE_SIZE),
            unreported=brokers_without_producers(request_rights(request._request)),
        )
        return Response(found)


class HeatView(StrictAPIView):
    @extend_schema(
        parameters=[
            shapes.BROKER,
            *shapes.RANGE,
            shapes.MEASURE,
            schema.parameter("count", "Number of queues, the most blocked first: 1 to 100.", int, default=25),
        ],
        responses={200: shapes.Heat, **shapes.REFUSALS},
        summary="Get blocked time by queue and time slot",
        description="Each value is the queue's ms of the measure in the slot that starts at `at`; null: not recorded.",
    )
    def get(self, request: Request) -> Response:
        query = request.query_params
        begin, end = range_in(query)
        found = blocked.heat(
            history(request),
            begin,
            end,
            now=now_ms(),
            measure=choice_in(query, "measure", blocked.MEASURES, "blocked"),
            broker=broker_in(query),
            most=number_in(query, "count", 25, 1, 100),
            unreported=brokers_without_producers(request_rights(request._request)),
        )
        return Response(found)


class TotalsView(StrictAPIView):
    @extend_schema(
        parameters=[
            schema.parameter("broker", "Name of a recorded broker; repeated: their sums; default: all.", many=True),
            schema.parameter("from", "ms since the epoch, or ISO 8601 with a zone; default: an hour before `until`."),
            shapes.RANGE[1],
        ],
        responses={200: shapes.Totals, **shapes.REFUSALS},
        summary="Get throughput, depth and blocked producer time of brokers over time",
        description="Sums over the visible queues. Null means no data, never 0; `unwatched` names what a sum lacks.",
    )
    def get(self, request: Request) -> Response:
        query = request.query_params
        begin, end = range_in(query, default=HOUR)
        found = totals(
            history(request),
            begin,
            end,
            now=now_ms(),
            brokers=sorted({name.strip() for name in query.getlist("broker") if name.strip()}),
            unreported=brokers_without_producers(request_rights(request._request)),
        )
        return Response(found)


def _episodes_in(request: Request) -> episode_list.EpisodeQuery:
    query = request.query_params
    begin, end = range_in(query)
    queue = maybe_queue_in(query)
    sort = choice_in(query, "sort", _SORTS, "-start")
    return episode_list.EpisodeQuery(
        begin,
        end,
        now_ms(),
        broker=queue.broker if queue else broker_in(query),
        virtualhost=queue.virtualhost if queue else query.get("virtualhost", ""),
        queue=queue.name if queue else "",
        kind=choice_in(query, "kind", episode_list.KINDS),
        search=query.get("search", "").strip(),
        sort=sort,
        unreported=brokers_without_producers(request_rights(request._request)),
    )


_EPISODES = [
    *shapes.MAYBE_QUEUE,
    *shapes.RANGE,
    schema.parameter("kind", "Only episodes of this kind.", enum=list(episode_list.KINDS)),
    schema.parameter("search", "Text in the queue, scope, actor, reasons or cause of the end."),
    schema.parameter("sort", "Sort order; `-` for descending.", enum=_SORTS, default="-start"),
]


class EpisodesView(StrictAPIView):
    @extend_schema(
        parameters=[*_EPISODES, *schema.PAGE],
        responses={200: schema.page_of(shapes.Episode), **shapes.REFUSALS},
        summary="List episodes",
        description="An episode lasts from overfull to underfull, or from an operator's stop to the start. Lists"
        " those that overlap the range; for one queue, operators' stops that covered it, too.",
    )
    def get(self, request: Request) -> Response:
        query = request.query_params
        number = number_in(query, "page", 1, 1, 1 << 31)
        size = number_in(query, "page_size", 100, 1, MAX_PAGE_SIZE)
        count, rows = episode_list.page(history(request), _episodes_in(request), number, size)
        return Response({"count": count, "page": number, "page_size": size, "results": rows})


class EpisodesFileView(StrictAPIView):
    @extend_schema(
        parameters=[*_EPISODES, shapes.FILE],
        responses={(200, "application/octet-stream"): shapes.FILE_ANSWER, **shapes.REFUSALS},
        summary="Export episodes",
    )
    def get(self, request: Request) -> StreamingHttpResponse:
        kind = choice_in(request.query_params, "as", FILES, "csv")
        rows = episode_list.every(history(request), _episodes_in(request))
        return download(request._request, rows, kind, "episodes")


def _events_in(request: Request) -> incident.EventQuery:
    query = request.query_params
    begin, end = range_in(query)
    queue = maybe_queue_in(query)
    return incident.EventQuery(
        begin,
        end,
        broker=queue.broker if queue else broker_in(query),
        virtualhost=queue.virtualhost if queue else query.get("virtualhost", ""),
        queue=queue.name if queue else "",
        kinds=tuple(query.getlist("kind")),
        groups=choices_in(query, "group", incident.GROUPS),
        search=query.get("search", "").strip(),
    )


_EVENTS = [
    *shapes.MAYBE_QUEUE,
    *shapes.RANGE,
    schema.parameter("kind", "Only events of this kind. May be repeated.", many=True),
    schema.parameter("group", "Only events of this group. May be repeated.", enum=list(incident.GROUPS), many=True),
    schema.parameter("search", "Text in the log line, object, client, actor or reason."),
]


class HistoryEventsView(StrictAPIView):
    @extend_schema(
        parameters=[
            *_EVENTS,
            schema.parameter("order", "Order by time.", enum=["ascending", "descending"], default="ascending"),
            *schema.PAGE,
        ],
        responses={200: shapes.EventPage, **shapes.REFUSALS},
        summary="List events",
        description="Events of flow control, operators' edits and actions, and broker events. For one queue, the list"
        " includes changes of the scopes and policies that apply to it. `groups` counts all matching events.",
    )
    def get(self, request: Request) -> Response:
        query = request.query_params
        number = number_in(query, "page", 1, 1, 1 << 31)
        size = number_in(query, "page_size", 100, 1, MAX_PAGE_SIZE)
        order = choice_in(query, "order", ("ascending", "descending"), "ascending")
        found = incident.page(history(request), _events_in(request), number, size, newest_first=order == "descending")
        results = render_events(found["events"])
        return Response(
            {"count": found["count"], "groups": found["groups"], "page": number, "page_size": size, "results": results}
        )


class HistoryEventsFileView(StrictAPIView):
    @extend_schema(
        parameters=[*_EVENTS, shapes.FILE],
        responses={(200, "application/octet-stream"): shapes.FILE_ANSWER, **shapes.REFUSALS},
        summary="Export events",
    )
    def get(self, request: Request) -> StreamingHttpResponse:
        kind = choice_in(request.query_params, "as", FILES, "csv")
        return download(request._request, incident.every(history(request), _events_in(request)), kind, "events")
