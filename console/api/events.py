"""Events of a broker after a sequence number."""

from __future__ import annotations

import asyncio

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from console.api import schema
from console.api.base_views import BrokerView, number_in, snapshot_of
from console.live.watching import event_json

_MAX_EVENTS = 1000


class EventsView(BrokerView):
    @extend_schema(
        parameters=[
            schema.BROKER,
            schema.parameter("after", "Number of the last event that you have; omitted: the newest events.", int),
            schema.parameter("count", f"Number of events, 1 to {_MAX_EVENTS}.", int, default=100),
        ],
        responses={200: schema.EventPage, **schema.READ_REFUSALS},
        summary="List events after a sequence number",
        description="In ascending order, without gaps. `expired_before` is set if some of them are no longer retained.",
    )
    def get(self, request: Request) -> Response:
        link = self.link
        snapshot = snapshot_of(link)
        count = number_in(request.query_params, "count", 100, 1, _MAX_EVENTS)
        after = number_in(request.query_params, "after", -1, 0, 1 << 62)
        if after < 0:
            after = link.newest_position(count)
        tail = asyncio.run(link.events_after(after, count))
        return Response(
            {
                **snapshot,
                "newest": link.newest_event,
                "expired_before": tail.expired_before,
                "last": tail.position if tail.position is not None else after,
                "events": [event_json(event) for event in tail.events],
            }
        )
