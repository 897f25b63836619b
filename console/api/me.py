"""The current user and their permissions, so that clients can check before they call."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response

from console.access.models import ApiToken
from console.api.base_views import PersonalView
from console.permissions.rights import Role

_ANY = "empty: all"


class GrantShape(serializers.Serializer[Any]):
    role = serializers.ChoiceField(choices=[role.value for role in Role], help_text="Role.")
    broker = serializers.CharField(help_text=f"Slug of the broker; {_ANY}.", allow_blank=True)
    virtualhost = serializers.CharField(help_text=f"Name of the virtual host; {_ANY}.", allow_blank=True)


class TokenShape(serializers.Serializer[Any]):
    name = serializers.CharField(help_text="Name of the token.")
    expires = serializers.DateTimeField(help_text="When the token expires.")


class Me(serializers.Serializer[Any]):
    user = serializers.CharField(help_text="Name of the user.")
    token = TokenShape(help_text="Token of this request; null with a session.", allow_null=True)
    grants = GrantShape(many=True, help_text="Roles of the user, restricted to those of the token.")


class MeView(PersonalView):
    permission_classes = [IsAuthenticated]

    @extend_schema(responses={200: Me}, summary="Get current user and permissions")
    def get(self, request: Request) -> Response:
        token = request.auth
        shown = None if not isinstance(token, ApiToken) else {"name": token.name, "expires": token.expires}
        grants = [{"role": g.role, "broker": g.broker, "virtualhost": g.virtualhost} for g in self.rights.grants]
        return Response({"user": request.user.get_username(), "token": shown, "grants": grants})
