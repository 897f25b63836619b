"""Probes: `/healthz`, whether the process runs, and `/readyz`, whether it is able to serve. Both without sign-in, tiny,
and never cached; users with a role get the state of each part from `/readyz`."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.db import OperationalError
from django.http import HttpRequest, HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response

from console.api import schema
from console.api.base_views import PersonalView
from console.health.database import database_answers, impatient
from console.health.presence import running_processes
from console.links.visible import visible_links

_NEVER_CACHED = {"Cache-Control": "no-store"}


@login_not_required
def healthz(request: HttpRequest) -> HttpResponse:
    """Answer that this process runs. Uses neither the database nor a broker."""
    return HttpResponse("ok\n", content_type="text/plain; charset=utf-8", headers=_NEVER_CACHED)


class Part(serializers.Serializer[Any]):
    name = schema.text_field("database, worker, beat, recorder, history, or `broker` and its slug.")
    state = serializers.ChoiceField(["up", "down"], help_text="Whether it answers, is connected, or runs.")
    detail = schema.text_field("Why a broker is not connected; empty: connected, or not a broker.")


class Readiness(serializers.Serializer[Any]):
    status = serializers.ChoiceField(["ready", "not ready"], help_text="Whether this process is able to serve.")
    parts = Part(many=True, required=False, help_text="Only for users with a role.")


class ReadyView(PersonalView):
    permission_classes = [AllowAny]

    def perform_authentication(self, request: Request) -> None:
        """Authenticate later: sessions and tokens are in the database, which may hang."""

    @extend_schema(
        responses={200: Readiness, 503: Readiness, 400: schema.INVALID},
        operation_id="readyz",
        summary="Whether the console is able to serve",
        description="200 if the database answers within two seconds, else 503. A disconnected broker and a background"
        " process that does not run make no console unable to serve: they are listed for users with a role.",
    )
    def get(self, request: Request) -> Response:
        if not database_answers():
            return _not_ready()
        found: dict[str, Any] = {"status": "ready"}
        if _has_credentials(request):
            try:
                with impatient():
                    if request.user.is_authenticated and self.rights.grants:
                        found["parts"] = self._parts()
            except OperationalError:
                return _not_ready()
        return Response(found, headers=_NEVER_CACHED)

    def _parts(self) -> list[dict[str, str]]:
        processes = [_part(kind, runs) for kind, runs in running_processes().items()]
        brokers = [
            _part(f"broker {link.slug}", link.connected, "" if link.connected else link.status.error)
            for link in visible_links(self.rights)
        ]
        return [_part("database", True), *processes, *brokers]


def _part(name: str, up: bool, detail: str = "") -> dict[str, str]:
    return {"name": name, "state": "up" if up else "down", "detail": detail}


def _has_credentials(request: Request) -> bool:
    return "Authorization" in request.headers or settings.SESSION_COOKIE_NAME in request.COOKIES


def _not_ready() -> Response:
    return Response({"status": "not ready"}, status=503, headers=_NEVER_CACHED)
