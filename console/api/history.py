"""What the history tells: series, top lists, heat map, episodes, events of an incident; and downloads of rows.

Read only. Any broker that was recorded or imported may be asked about, whether this console is connected to it or not.
"""

from __future__ import annotations

from django.conf import settings
from django.http import StreamingHttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from brokers.admin import InvalidValue
from console.api import history_schema as shapes
from console.api import schema
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
from console.api.history_why import shown
from console.api.reading import MAX_PAGE_SIZE, choice_in, choices_in, number_in
from console.api.strict import StrictAPIView
from console.history.query import blocked, catalog, episode_list, incident
from console.history.query.series import RESOLUTIONS, series
from console.history.storage.backlog import find_backlog
from console.history.storage.reader import NothingRecorded

_RESOLUTIONS = ("auto", *(resolution.name for resolution in RESOLUTIONS))
_SORTS = tuple(f"{sign}{name}" for name in episode_list.SORTS for sign in ("", "-"))


class KnownView(StrictAPIView):
    @extend_schema(
        responses={200: shapes.Known, **shapes.REFUSALS},
        summary="What the history knows of",
        description="`recorded` is false until the first rows are there; `brokers` is empty then.",
    )
    def get(self, request: Request) -> Response:
        try:
            brokers = catalog.brokers(history(request))
        except NothingRecorded:
            brokers = []
        landed = not brokers and bool(find_backlog(settings.HEADGATE_HISTORY_URL).files)
        return Response({"recorded": bool(brokers), "landed": landed, "now": now_ms(), "brokers": brokers})


class QueuesKnownView(StrictAPIView):
    @extend_schema(
        parameters=[
            shapes.BROKER,
            schema.parameter("search", "Text that must occur in the queue's name."),
            schema.parameter("count", "1 to 500.", int, default=100),
        ],
        responses={200: shapes.KnownQueue(many=True), **shapes.REFUSALS},
        summary="Queues that the history knows",
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
                "resolution", "Of the points; `auto`: what fits the range.", enum=_RESOLUTIONS, default="auto"
            ),
        ],
        responses={200: shapes.Series, **shapes.REFUSALS},
        summary="One queue over time",
        description="Depth, levels as they were then, rates, and time overfull and stopped. Null is not known, never 0;"
        " `unwatched` are the spans in which nobody looked.",
    )
    def get(self, request: Request) -> Response:
        query = request.query_params
        queue = queue_in(query)
        begin, end = range_in(query)
        asked = choice_in(query, "resolution", _RESOLUTIONS, "auto")
        try:
            found = series(history(request), queue, begin, end, asked=asked, now=now_ms())
        except ValueError as error:
            raise InvalidValue({"resolution": str(error)}) from None
        about = {"broker": queue.broker, "virtualhost": queue.virtualhost, "queue": queue.name}
        return Response(about | found)


class TopView(StrictAPIView):
    @extend_schema(
        parameters=[
            shapes.BROKER,
            *shapes.RANGE,
            schema.parameter("of", "What is listed.", enum=list(blocked.SUBJECTS), default="queues"),
            shapes.MEASURE,
            schema.parameter("count", "1 to 500.", int, default=10),
        ],
        responses={200: shapes.Top, **shapes.REFUSALS},
        summary="Who lost the most time",
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
        )
        return Response(found)


class HeatView(StrictAPIView):
    @extend_schema(
        parameters=[
            shapes.BROKER,
            *shapes.RANGE,
            shapes.MEASURE,
            schema.parameter("count", "Queues, those that lost the most: 1 to 100.", int, default=25),
        ],
        responses={200: shapes.Heat, **shapes.REFUSALS},
        summary="Blocked time by queue and time",
        description="A value is the ms lost by the queue in the slot after `at`; null where nobody looked.",
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
        )
        return Response(found)


def _episodes_in(request: Request) -> episode_list.Wanted:
    query = request.query_params
    begin, end = range_in(query)
    queue = maybe_queue_in(query)
    sort = choice_in(query, "sort", _SORTS, "-start")
    return episode_list.Wanted(
        begin,
        end,
        now_ms(),
        broker=queue.broker if queue else broker_in(query),
        virtualhost=queue.virtualhost if queue else query.get("virtualhost", ""),
        queue=queue.name if queue else "",
        kind=choice_in(query, "kind", episode_list.KINDS),
        search=query.get("search", "").strip(),
        sort=sort,
    )


_EPISODES = [
    *shapes.MAYBE_QUEUE,
    *shapes.RANGE,
    schema.parameter("kind", "Only of this kind.", enum=list(episode_list.KINDS)),
    schema.parameter("search", "Text in the queue, scope, actor, reasons or what released it."),
    schema.parameter("sort", "By what; - before it for descending.", enum=_SORTS, default="-start"),
]


class EpisodesView(StrictAPIView):
    @extend_schema(
        parameters=[*_EPISODES, *schema.PAGE],
        responses={200: schema.page_of(shapes.Episode), **shapes.REFUSALS},
        summary="Episodes: from overfull to underfull, from a stop to its start",
        description="Those that touch the range. Asked for one queue, operators' stops that covered it are among them.",
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
        summary="Episodes as a file",
    )
    def get(self, request: Request) -> StreamingHttpResponse:
        kind = choice_in(request.query_params, "as", FILES, "csv")
        rows = episode_list.every(history(request), _episodes_in(request))
        return download(request._request, rows, kind, "episodes")


def _events_in(request: Request) -> incident.Wanted:
    query = request.query_params
    begin, end = range_in(query)
    queue = maybe_queue_in(query)
    return incident.Wanted(
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
    schema.parameter("kind", "Only of this kind; several: any of them.", many=True),
    schema.parameter("group", "Only of this group; several: any of them.", enum=list(incident.GROUPS), many=True),
    schema.parameter("search", "Text in the line of the log, the object, client, actor or reason."),
]


class HistoryEventsView(StrictAPIView):
    @extend_schema(
        parameters=[
            *_EVENTS,
            schema.parameter("order", "Of time.", enum=["ascending", "descending"], default="ascending"),
            *schema.PAGE,
        ],
        responses={200: shapes.EventPage, **shapes.REFUSALS},
        summary="What happened in a range, in order",
        description="Events of flow control, operators' edits and actions, and the broker's own. Asked for one queue,"
        " what was done to scopes and policies that it lies in is among them. `groups` counts all that match.",
    )
    def get(self, request: Request) -> Response:
        query = request.query_params
        number = number_in(query, "page", 1, 1, 1 << 31)
        size = number_in(query, "page_size", 100, 1, MAX_PAGE_SIZE)
        order = choice_in(query, "order", ("ascending", "descending"), "ascending")
        found = incident.page(history(request), _events_in(request), number, size, newest_first=order == "descending")
        results = shown(found["events"])
        return Response(
            {"count": found["count"], "groups": found["groups"], "page": number, "page_size": size, "results": results}
        )


class HistoryEventsFileView(StrictAPIView):
    @extend_schema(
        parameters=[*_EVENTS, shapes.FILE],
        responses={(200, "application/octet-stream"): shapes.FILE_ANSWER, **shapes.REFUSALS},
        summary="Events as a file",
    )
    def get(self, request: Request) -> StreamingHttpResponse:
        kind = choice_in(request.query_params, "as", FILES, "csv")
        return download(request._request, incident.every(history(request), _events_in(request)), kind, "events")
