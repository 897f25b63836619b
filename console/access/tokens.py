"""Secrets of API tokens: generated, stored as a digest, and looked up for authentication."""

from __future__ import annotations

import hashlib
import secrets
from datetime import datetime, timedelta

from django.utils import timezone

from console.access.models import ApiToken

#: Makes tokens recognizable, also to scanners for leaked secrets.
PREFIX = "headgate_"
_SHOWN = len(PREFIX) + 3
#: Resolution of `last_used`, so that not every request writes to the database.
_USED = timedelta(minutes=1)


class BadToken(Exception):
    """The token cannot be used. The message is a sentence for users."""


def new_secret() -> str:
    return PREFIX + secrets.token_urlsafe(32)


def digest_of(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def visible_prefix(secret: str) -> str:
    return secret[:_SHOWN]


def authenticate_token(secret: str) -> ApiToken:
    """Return the token with this secret, and update its last use. Raises BadToken."""
    token = ApiToken.objects.select_related("user").filter(digest=digest_of(secret)).first()
    if token is None:
        raise BadToken("This token is not known. Create one in the console: your name, API tokens.")
    if token.revoked is not None:
        raise BadToken(f"The token {token.name} was revoked on {_date(token.revoked)}. Create a new one.")
    now = timezone.now()
    if token.expires <= now:
        raise BadToken(f"The token {token.name} expired on {_date(token.expires)}. Create a new one.")
    if not token.user.is_active:
        raise BadToken(f"The owner of this token, {token.user.get_username()}, is deactivated.")
    if token.last_used is None or now - token.last_used > _USED:
        ApiToken.objects.filter(pk=token.pk).update(last_used=now)
    return token


def _date(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d at %H:%M} UTC"
