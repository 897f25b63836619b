"""The URL of the console for links in notifications: read, entered and removed."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from console.access.actor import Actor
from console.alerts.console_url import (
    MAX_LENGTH,
    SOURCES,
    console_url_json,
    enter_console_url,
    remove_console_url,
)
from console.api import schema
from console.api.base_views import PersonalView
from console.api.fields import TextField


class ConsoleUrlGiven(serializers.Serializer[Any]):
    url = TextField(
        "Scheme, host and port at which recipients of notifications reach this console.", max_length=MAX_LENGTH
    )


class ConsoleUrl(serializers.Serializer[Any]):
    url = serializers.CharField(help_text="Effective URL; empty: not known, notifications have no links.")
    source = serializers.ChoiceField(  # type: ignore[assignment]  # a serializer's class has no attribute of a field
        choices=list(SOURCES), help_text="`environment`: HEADGATE_URL, which takes precedence over an entered one."
    )
    entered = serializers.CharField(help_text="What an administrator entered; empty: nothing.")
    changed = serializers.DateTimeField(allow_null=True, help_text="When it was entered.")
    changed_by = serializers.CharField()


class ConsoleUrlView(PersonalView):
    @extend_schema(
        responses={200: ConsoleUrl, 403: schema.Refusal},
        summary="Get the URL of the console for links in notifications",
    )
    def get(self, request: Request) -> Response:
        return Response(console_url_json())

    @extend_schema(
        request=ConsoleUrlGiven,
        responses={200: ConsoleUrl, **schema.WRITE_REFUSALS},
        summary="Enter the URL of the console (administrators)",
        description="Notifications link to it from the next attempt of a delivery on. It does not become a trusted"
        " origin. Refused while HEADGATE_URL is set.",
    )
    def patch(self, request: Request) -> Response:
        enter_console_url(Actor.of(request._request), self.body["url"])
        return Response(console_url_json())

    @extend_schema(
        responses={204: None, **schema.WRITE_REFUSALS}, summary="Remove the entered URL of the console (administrators)"
    )
    def delete(self, request: Request) -> Response:
        remove_console_url(Actor.of(request._request))
        return Response(status=204)
