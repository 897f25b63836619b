"""Stop and start the producers of a scope, and look beforehand at what that would touch."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from console import operations
from console.api import schema
from console.api.reading import BrokerView, body_of, name_in, text_in


class StopProducersView(BrokerView):
    @extend_schema(
        parameters=[schema.BROKER],
        request=schema.StopRequest,
        responses={200: schema.StopAnswer, **schema.WRITE_REFUSALS},
        summary="Stop all producers of a scope",
        description="Idempotent, kept across restarts of the broker, and audited with its reason.",
    )
    def post(self, request: Request) -> Response:
        body = body_of(request)
        answer = operations.stop_producers(
            self.actor,
            self.link,
            name_in(body, "scope"),
            reason=text_in(body, "reason"),
            pattern=text_in(body, "pattern"),
        )
        return Response(dict(answer))


class StartProducersView(BrokerView):
    @extend_schema(
        parameters=[schema.BROKER],
        request=schema.StopRequest,
        responses={200: schema.StopAnswer, **schema.WRITE_REFUSALS},
        summary="Start all producers of a scope",
        description="Lifts the operator's stops of the scope; an overfull queue still holds its producers.",
    )
    def post(self, request: Request) -> Response:
        body = body_of(request)
        answer = operations.start_producers(
            self.actor,
            self.link,
            name_in(body, "scope"),
            reason=text_in(body, "reason"),
            pattern=text_in(body, "pattern"),
        )
        return Response(dict(answer))


class StopPreviewView(BrokerView):
    @extend_schema(
        parameters=[schema.BROKER],
        request=schema.StopScope,
        responses={200: schema.StopPreview, **schema.READ_REFUSALS},
        summary="Tell what a stop would touch",
    )
    def post(self, request: Request) -> Response:
        body = body_of(request)
        return Response(operations.preview_stop(self.link, name_in(body, "scope"), pattern=text_in(body, "pattern")))
