"""Signing in at an OpenID Connect provider, by mozilla-django-oidc; what it leaves open is closed here.

The library checks signature, nonce, state and PKCE. This adds: the endpoints are discovered from the issuer; the
token's issuer, audience and age are checked; whom userinfo tells of must be whom the token names; and an account is
known by issuer and subject, never by an e-mail address or a name, which others may come to hold.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

import jwt
import requests
from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import SuspiciousOperation
from django.db import IntegrityError, transaction
from mozilla_django_oidc.auth import OIDCAuthenticationBackend
from mozilla_django_oidc.utils import import_from_settings

from console.access.administration import join_as_told
from console.access.models import OidcIdentity
from console.access.oidc_settings import Oidc

log = logging.getLogger(__name__)

_SECONDS = 10
_KEPT = 3600.0
_ALGORITHM = "RS256"
_ENDPOINTS = {
    "OIDC_OP_AUTHORIZATION_ENDPOINT": "authorization_endpoint",
    "OIDC_OP_TOKEN_ENDPOINT": "token_endpoint",
    "OIDC_OP_USER_ENDPOINT": "userinfo_endpoint",
    "OIDC_OP_JWKS_ENDPOINT": "jwks_uri",
}


class ProviderAway(Exception):
    """The provider cannot be asked, or tells nonsense. The message is a sentence for people."""


def configured() -> Oidc | None:
    found: Oidc | None = settings.HEADGATE_OIDC
    return found


def setting(name: str, *default: Any) -> Any:
    """The library's settings: from ours, and from what the provider tells of itself. Raises ProviderAway."""
    oidc = configured()
    assert oidc is not None
    if name in _ENDPOINTS:
        return _discovered(oidc.issuer).get(_ENDPOINTS[name], "")
    known = {
        "OIDC_RP_CLIENT_ID": oidc.client_id,
        "OIDC_RP_CLIENT_SECRET": oidc.secret,
        "OIDC_RP_SIGN_ALGO": _ALGORITHM,
        "OIDC_RP_SCOPES": oidc.scopes,
        "OIDC_USE_PKCE": True,
        "OIDC_TIMEOUT": _SECONDS,
        "OIDC_AUTHENTICATION_CALLBACK_URL": "oidc-callback",
    }
    return known[name] if name in known else import_from_settings(name, *default)


_documents: dict[str, tuple[float, dict[str, Any]]] = {}
_asking = threading.Lock()


def _discovered(issuer: str) -> dict[str, Any]:
    with _asking:
        at, document = _documents.get(issuer, (float("-inf"), {}))
        if time.monotonic() - at < _KEPT:
            return document
        try:
            answer = requests.get(f"{issuer}/.well-known/openid-configuration", timeout=_SECONDS)
            answer.raise_for_status()
            document = dict(answer.json())
        except (requests.RequestException, ValueError) as error:
            log.warning("%s cannot be asked: %s", issuer, error)
            raise ProviderAway("The sign-in service does not answer. Try again, or sign in with a password.") from None
        if str(document.get("issuer", "")).rstrip("/") != issuer:
            log.warning("%s says that it is %s", issuer, document.get("issuer"))
            raise ProviderAway("The sign-in service says that it is another one. Tell an administrator.")
        _documents[issuer] = (time.monotonic(), document)
        return document


class OidcBackend(OIDCAuthenticationBackend):  # type: ignore[misc]
    """Lets in whom the provider vouches for."""

    get_settings = staticmethod(setting)

    def __init__(self) -> None:
        # Asked only when somebody comes back from the provider: this is made at each request, too.
        self.UserModel = User

    def authenticate(self, request: Any, **credentials: Any) -> User | None:
        if configured() is None or request is None or "nonce" not in credentials:
            return None
        super().__init__()
        found: User | None = super().authenticate(request, **credentials)
        return found if found is not None and found.is_active else None

    def verify_token(self, token: str, **kwargs: Any) -> dict[str, Any]:
        oidc = configured()
        assert oidc is not None
        try:
            payload: dict[str, Any] = super().verify_token(token, **kwargs)
        except (jwt.PyJWTError, KeyError) as error:
            raise SuspiciousOperation(f"the token is not valid: {error}") from None
        audience = payload.get("aud")
        if str(payload.get("iss", "")).rstrip("/") != oidc.issuer:
            raise SuspiciousOperation("the token is of another issuer")
        if oidc.client_id not in (audience if isinstance(audience, list) else [audience]):
            raise SuspiciousOperation("the token is for somebody else")
        if payload.get("azp", oidc.client_id) != oidc.client_id:
            raise SuspiciousOperation("the token was given to somebody else")
        if "exp" not in payload or not payload.get("sub"):
            raise SuspiciousOperation("the token does not say whom it is about, or until when")
        return payload

    def get_userinfo(self, access_token: str, id_token: str, payload: dict[str, Any]) -> dict[str, Any]:
        if not self.OIDC_OP_USER_ENDPOINT:
            return payload
        told: dict[str, Any] = super().get_userinfo(access_token, id_token, payload)
        if told.get("sub") != payload["sub"]:
            raise SuspiciousOperation("userinfo tells of somebody else")
        return {**payload, **told}

    def verify_claims(self, claims: dict[str, Any]) -> bool:
        return bool(claims.get("sub"))

    def filter_users_by_claims(self, claims: dict[str, Any]) -> list[User]:
        identity = OidcIdentity.objects.select_related("user").filter(issuer=_issuer(), subject=claims["sub"]).first()
        return [identity.user] if identity is not None else []

    def create_user(self, claims: dict[str, Any]) -> User:
        oidc = configured()
        assert oidc is not None
        name = str(claims.get(oidc.name_claim) or claims["sub"])[:150]
        if User.objects.filter(username__iexact=name).exists():
            # Whoever has the name here is not thereby whoever has it there.
            raise SuspiciousOperation(f"there is a user {name} already who does not sign in this way")
        try:
            with transaction.atomic():
                user = User.objects.create_user(name, email=str(claims.get("email") or ""))
                OidcIdentity.objects.create(user=user, issuer=oidc.issuer, subject=claims["sub"])
        except IntegrityError as error:
            # Perhaps they came in two windows at once.
            if not (made := self.filter_users_by_claims(claims)):
                raise SuspiciousOperation(f"somebody has become {name} in this very moment") from error
            user = made[0]
        return self.update_user(user, claims)

    def update_user(self, user: User, claims: dict[str, Any]) -> User:
        """In the groups that the provider tells, of those that it has a say in; in others as before."""
        oidc = configured()
        assert oidc is not None
        told = claims.get(oidc.groups_claim, [])
        claimed = {str(name) for name in told} if isinstance(told, list) else {str(told)}
        governed = {group for groups in oidc.groups.values() for group in groups}
        wanted = {group for name, groups in oidc.groups.items() if name in claimed for group in groups}
        address = self.request.META.get("REMOTE_ADDR") or ""
        join_as_told(user, wanted, governed, by=oidc.issuer, address=address)
        return user


def _issuer() -> str:
    oidc = configured()
    assert oidc is not None
    return oidc.issuer
