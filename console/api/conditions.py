"""What looks wrong at a broker now."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from brokers.admin import InvalidValue
from console.api import schema
from console.api.reading import BrokerView
from console.conditions.detectors import DETECTORS


class ConditionsView(BrokerView):
    @extend_schema(
        parameters=[
            schema.BROKER,
            schema.asked("object", "Only of this object, by its object name."),
            schema.asked("kind", "Only of this kind.", enum=list(DETECTORS)),
        ],
        responses={200: schema.Condition(many=True), **schema.READ_REFUSALS},
        summary="What looks wrong now, trouble first",
    )
    def get(self, request: Request) -> Response:
        kind = request.query_params.get("kind", "")
        if kind and kind not in DETECTORS:
            raise InvalidValue({"kind": f"kind is {kind!r}: it must be one of {', '.join(DETECTORS)}"})
        found = self.link.conditions(request.query_params.get("object", ""))
        return Response([condition.shown() for condition in found if kind in ("", condition.finding.kind)])
