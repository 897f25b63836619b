"""The events of a broker since a number."""

from __future__ import annotations

import asyncio

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from console.api import schema
from console.api.reading import BrokerView, number_in, snapshot_of
from console.live.watching import event_shown

_MOST = 1000


class EventsView(BrokerView):
    @extend_schema(
        parameters=[
            schema.BROKER,
            schema.parameter("after", "Number of the last event you have; left out: the newest ones.", int),
            schema.parameter("count", f"1 to {_MOST}.", int, default=100),
        ],
        responses={200: schema.EventPage, **schema.READ_REFUSALS},
        summary="Events since a number",
        description="In ascending order, none left out. `expired_before` tells that some of them are no longer kept.",
    )
    def get(self, request: Request) -> Response:
        link = self.link
        snapshot = snapshot_of(link)
        count = number_in(request.query_params, "count", 100, 1, _MOST)
        after = number_in(request.query_params, "after", -1, 0, 1 << 62)
        if after < 0:
            after = max(0, link.newest_event - count)
        tail = asyncio.run(link.events_after(after, count))
        return Response(
            {
                **snapshot,
                "newest": link.newest_event,
                "expired_before": tail.expired_before,
                "last": tail.position if tail.position is not None else after,
                "events": [event_shown(event) for event in tail.events],
            }
        )
