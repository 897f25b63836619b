"""Sign-in at an OpenID Connect provider, by mozilla-django-oidc, with additional checks.

The library checks signature, nonce, state and PKCE. This module adds: discovery of the endpoints from the issuer;
checks of the token's issuer, audience and expiry; userinfo must have the token's subject; and accounts are identified
by issuer and subject, never by an e-mail address or a name, which can be reassigned.
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

from console.access.administration import sync_groups
from console.access.models import OidcIdentity
from console.access.oidc_settings import Oidc

log = logging.getLogger(__name__)

#: Timeout of requests to the provider, and validity of cached discovery documents, in seconds.
_SECONDS, _CACHE_SECONDS = 10, 3600.0
_ALGORITHM = "RS256"
_ENDPOINTS = {
    "OIDC_OP_AUTHORIZATION_ENDPOINT": "authorization_endpoint",
    "OIDC_OP_TOKEN_ENDPOINT": "token_endpoint",
    "OIDC_OP_USER_ENDPOINT": "userinfo_endpoint",
    "OIDC_OP_JWKS_ENDPOINT": "jwks_uri",
}


class ProviderUnavailable(Exception):
    """The provider does not respond, or its response is invalid. The message is a sentence for users."""


def configured() -> Oidc | None:
    found: Oidc | None = settings.HEADGATE_OIDC
    return found


def setting(name: str, *default: Any) -> Any:
    """Return a setting of the library, from the console's settings or the provider's discovery document. Raises
    ProviderUnavailable."""
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
_discovery_lock = threading.Lock()


def _discovered(issuer: str) -> dict[str, Any]:
    with _discovery_lock:
        at, document = _documents.get(issuer, (float("-inf"), {}))
        if time.monotonic() - at < _CACHE_SECONDS:
            return document
        try:
            answer = requests.get(f"{issuer}/.well-known/openid-configuration", timeout=_SECONDS)
            answer.raise_for_status()
            document = dict(answer.json())
        except (requests.RequestException, ValueError) as error:
            log.warning("%s does not respond: %s", issuer, error)
            raise ProviderUnavailable(
                "The sign-in service does not respond. Try again, or sign in with a password."
            ) from None
        if str(document.get("issuer", "")).rstrip("/") != issuer:
            log.warning("the discovery document of %s has the issuer %s", issuer, document.get("issuer"))
            raise ProviderUnavailable(
                "The sign-in service has another issuer than configured. Contact an administrator."
            )
        _documents[issuer] = (time.monotonic(), document)
        return document


class OidcBackend(OIDCAuthenticationBackend):  # type: ignore[misc]
    """Authenticates users by their identity at the provider."""

    get_settings = staticmethod(setting)

    def __init__(self) -> None:
        # The library's initialization needs the provider: only in `authenticate`, since Django creates backends often.
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
            raise SuspiciousOperation("the token has another issuer")
        if oidc.client_id not in (audience if isinstance(audience, list) else [audience]):
            raise SuspiciousOperation("the token has another audience")
        if payload.get("azp", oidc.client_id) != oidc.client_id:
            raise SuspiciousOperation("the token has another authorized party")
        if "exp" not in payload or not payload.get("sub"):
            raise SuspiciousOperation("the token has no subject or no expiry")
        return payload

    def get_userinfo(self, access_token: str, id_token: str, payload: dict[str, Any]) -> dict[str, Any]:
        if not self.OIDC_OP_USER_ENDPOINT:
            return payload
        userinfo: dict[str, Any] = super().get_userinfo(access_token, id_token, payload)
        if userinfo.get("sub") != payload["sub"]:
            raise SuspiciousOperation("userinfo has another subject")
        return {**payload, **userinfo}

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
            # The same name does not prove the same person.
            raise SuspiciousOperation(f"the user {name} already exists and does not use single sign-on")
        try:
            with transaction.atomic():
                user = User.objects.create_user(name, email=str(claims.get("email") or ""))
                OidcIdentity.objects.create(user=user, issuer=oidc.issuer, subject=claims["sub"])
        except IntegrityError as error:
            # Perhaps the user signed in twice concurrently.
            if not (made := self.filter_users_by_claims(claims)):
                raise SuspiciousOperation(f"the user {name} has just been created") from error
            user = made[0]
        return self.update_user(user, claims)

    def update_user(self, user: User, claims: dict[str, Any]) -> User:
        """Synchronize membership in the groups that the settings assign to the provider."""
        oidc = configured()
        assert oidc is not None
        claim = claims.get(oidc.groups_claim, [])
        claimed = {str(name) for name in claim} if isinstance(claim, list) else {str(claim)}
        governed = {group for groups in oidc.groups.values() for group in groups}
        wanted = {group for name, groups in oidc.groups.items() if name in claimed for group in groups}
        address = self.request.META.get("REMOTE_ADDR") or ""
        sync_groups(user, wanted, governed, by=oidc.issuer, address=address)
        return user


def _issuer() -> str:
    oidc = configured()
    assert oidc is not None
    return oidc.issuer
