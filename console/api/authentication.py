"""Authentication of API clients by `Authorization: Bearer` and a token. Pages use their session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed

from console.access.tokens import BadToken, authenticate_token

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from rest_framework.request import Request

    from console.access.models import ApiToken


class BearerAuthentication(BaseAuthentication):
    """Must be the first authentication class: it makes the response to a failed sign-in 401 with `WWW-Authenticate`."""

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        kind, _, secret = request.headers.get("Authorization", "").partition(" ")
        if kind.lower() != "bearer":
            return None
        try:
            token = authenticate_token(secret.strip())
        except BadToken as error:
            raise AuthenticationFailed(str(error)) from None
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="Headgate"'


class BearerScheme(OpenApiAuthenticationExtension):
    """The OpenAPI security scheme of tokens."""

    target_class = BearerAuthentication
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:
        return {"type": "http", "scheme": "bearer", "description": "A token, created in the console under API tokens."}
