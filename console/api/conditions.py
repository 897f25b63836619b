"""Active conditions of a broker."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from console.api import schema
from console.api.base_views import BrokerView, choice_in, number_in, snapshot_of
from console.conditions.detectors import DETECTORS, SEVERITIES
from console.live.conditions import MOST, conditions_page


class ConditionsView(BrokerView):
    @extend_schema(
        parameters=[
            schema.BROKER,
            schema.parameter("object", "Conditions of the object with this object name."),
            schema.parameter("kind", "Conditions of this kind.", enum=list(DETECTORS)),
            schema.parameter("severity", "Conditions of this severity.", enum=list(SEVERITIES)),
            schema.SEARCH,
            *schema.PAGE,
        ],
        responses={200: schema.Conditions, **schema.READ_REFUSALS},
        operation_id="conditions_list",
        summary="List active conditions, most severe first",
    )
    def get(self, request: Request) -> Response:
        query, link = request.query_params, self.link
        snapshot = snapshot_of(link)
        return Response(
            snapshot
            | conditions_page(
                link.conditions(),
                about=query.get("object", ""),
                kind=choice_in(query, "kind", DETECTORS),
                severity=choice_in(query, "severity", SEVERITIES),
                search=query.get("search", ""),
                page=number_in(query, "page", 1, 1, 1 << 31),
                size=number_in(query, "page_size", 100, 1, MOST),
            )
        )
