"""Who asks, and what they may: for programs that want to know before they try."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response

from console.access.models import ApiToken
from console.api.reading import PersonalView
from console.permissions.rights import Role

_ANY = "empty: every one"


class GrantShape(serializers.Serializer[Any]):
    role = serializers.ChoiceField(choices=[role.value for role in Role], help_text="What they may.")
    broker = serializers.CharField(help_text=f"Slug of the broker; {_ANY}.", allow_blank=True)
    virtualhost = serializers.CharField(help_text=f"Name of the virtual host; {_ANY}.", allow_blank=True)


class TokenShape(serializers.Serializer[Any]):
    name = serializers.CharField(help_text="What its owner calls it.")
    expires = serializers.DateTimeField(help_text="From then on it lets nobody in.")


class Me(serializers.Serializer[Any]):
    user = serializers.CharField(help_text="Name of the user.")
    token = TokenShape(help_text="The token that was used; null with a session.", allow_null=True)
    grants = GrantShape(many=True, help_text="Their roles; of a token, as far as it goes.")


class MeView(PersonalView):
    permission_classes = [IsAuthenticated]

    @extend_schema(responses={200: Me}, summary="Who you are, and what you may")
    def get(self, request: Request) -> Response:
        token = request.auth
        told = None if not isinstance(token, ApiToken) else {"name": token.name, "expires": token.expires}
        grants = [{"role": g.role, "broker": g.broker, "virtualhost": g.virtualhost} for g in self.rights.grants]
        return Response({"user": request.user.get_username(), "token": told, "grants": grants})
