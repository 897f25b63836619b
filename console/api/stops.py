"""Stop and start the producers of a scope, and look beforehand at what that would touch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from console import operations
from console.api import schema
from console.api.reading import BrokerView, body_of, name_in, text_in


class _ScopeView(BrokerView):
    """Stop and start take the same body and give the same answer."""

    def answer(self, request: Request, operation: Callable[..., Mapping[str, Any]]) -> Response:
        body = body_of(request)
        reason, pattern = text_in(body, "reason"), text_in(body, "pattern")
        return Response(dict(operation(self.actor, self.link, name_in(body, "scope"), reason=reason, pattern=pattern)))


class StopProducersView(_ScopeView):
    @extend_schema(
        parameters=[schema.BROKER],
        request=schema.StopRequest,
        responses={200: schema.StopAnswer, **schema.WRITE_REFUSALS},
        summary="Stop all producers of a scope",
        description="Idempotent, kept across restarts of the broker, and audited with its reason.",
    )
    def post(self, request: Request) -> Response:
        return self.answer(request, operations.stop_producers)


class StartProducersView(_ScopeView):
    @extend_schema(
        parameters=[schema.BROKER],
        request=schema.StopRequest,
        responses={200: schema.StopAnswer, **schema.WRITE_REFUSALS},
        summary="Start all producers of a scope",
        description="Lifts the operator's stops of the scope; an overfull queue still holds its producers.",
    )
    def post(self, request: Request) -> Response:
        return self.answer(request, operations.start_producers)


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
