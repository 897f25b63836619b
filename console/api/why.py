"""Why a queue or a producer is blocked: causes, producers, consumers and connections."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from brokers.admin import InvalidValue, NotFound
from console.api import schema
from console.api.base_views import BrokerView, object_in
from console.incident.why import why_now


class WhyView(BrokerView):
    @extend_schema(
        parameters=[
            schema.BROKER,
            schema.parameter("object", "Object name of a queue or a producer.", required=True),
        ],
        responses={200: schema.Why, **schema.READ_REFUSALS},
        summary="Explain why a queue or a producer is blocked",
    )
    def get(self, request: Request) -> Response:
        name = object_in(request.query_params)
        if name.type not in ("Queue", "Producer"):
            raise InvalidValue({"object": f"object is {name}: it must be a queue or a producer"})
        answer = why_now(self.link, name)
        if "gone" in answer:
            raise NotFound(f"there is no {name.type.lower()} {name}")
        return Response(answer)
