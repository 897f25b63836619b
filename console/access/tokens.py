"""The secrets of tokens: made once, told once, kept as a digest, and looked up when a program signs in."""

from __future__ import annotations

import hashlib
import secrets
from datetime import datetime, timedelta

from django.utils import timezone

from console.access.models import ApiToken

#: So that people, and programs that look for leaked secrets, know one when they see it.
PREFIX = "headgate_"
_SHOWN = len(PREFIX) + 3
#: `last_used` is kept to this, so that not each request writes.
_USED = timedelta(minutes=1)


class BadToken(Exception):
    """A token that lets nobody in. The message is a sentence for people."""


def new_secret() -> str:
    return PREFIX + secrets.token_urlsafe(32)


def digest_of(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def beginning_of(secret: str) -> str:
    return secret[:_SHOWN]


def signed_in(secret: str) -> ApiToken:
    """The token of that secret, which has now been used. Raises BadToken."""
    token = ApiToken.objects.select_related("user").filter(digest=digest_of(secret)).first()
    if token is None:
        raise BadToken("This token is not known. Make one in the console: your name, API tokens.")
    if token.revoked is not None:
        raise BadToken(f"The token {token.name} was revoked on {_told(token.revoked)}. Make another one.")
    now = timezone.now()
    if token.expires <= now:
        raise BadToken(f"The token {token.name} expired on {_told(token.expires)}. Make another one.")
    if not token.user.is_active:
        raise BadToken(f"{token.user.get_username()}, whose token this is, may not sign in any more.")
    if token.last_used is None or now - token.last_used > _USED:
        ApiToken.objects.filter(pk=token.pk).update(last_used=now)
    return token


def _told(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d at %H:%M} UTC"
