"""Who sends a request, by `Authorization` alone, and from which page. Cookies count for nothing here, so there is no
CSRF token; but browsers also remember passwords of Basic, so requests of other sites' pages are refused.

Over plain HTTP a page can suppress all that says where a request comes from: a browser sends `Sec-Fetch-Site` only to
HTTPS and to its own machine, and no `Referer` if the page forbids it. Such a GET of an image or a link looks like that
of a program, but for the browser's name.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from axes.handlers.proxy import AxesProxyHandler
from django.conf import settings
from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from django.http import HttpRequest

from brokers import input_limits as limits
from console.access.sign_ins import record_failure, record_sign_in
from console.access.tokens import PREFIX, BadToken, authenticate_token
from console.live.origin import is_same_origin

#: For how long a verified password is not hashed again, in s: tools send it with each request, and the hash is slow on
#: purpose. The user is read each time: a changed password or a deactivated user ends it at once.
VERIFIED_FOR = 60.0
_MOST_VERIFIED = 500
_WAY = "with a password, for requests to /jolokia/"

#: How the names of browsers begin, all of them.
_BROWSERS = "Mozilla/"


class SignInRefused(Exception):
    """`status`: of the HTTP answer. The message is a sentence."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = dict(headers or {})


@dataclass
class _Verified:
    """Digests of names and passwords that were correct, until when, by the monotonic clock, and for which user and
    stored hash."""

    key: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    entries: dict[bytes, tuple[float, int, str]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def digest(self, name: str, password: str) -> bytes:
        return hmac.digest(self.key, f"{len(name)}:{name}{password}".encode(), "sha256")

    def add(self, digest: bytes, user: User) -> None:
        with self.lock:
            while len(self.entries) >= _MOST_VERIFIED:
                self.entries.pop(next(iter(self.entries)))
            self.entries[digest] = (time.monotonic() + VERIFIED_FOR, user.pk, user.password)

    def user(self, digest: bytes) -> User | None:
        with self.lock:
            until, key, password = self.entries.get(digest, (0.0, 0, ""))
            if until <= time.monotonic():
                self.entries.pop(digest, None)
                return None
        return User.objects.filter(pk=key, password=password, is_active=True).first()


_verified = _Verified()


def sign_in(request: HttpRequest) -> None:
    """Set `user` and `auth` of the request, as the API does. Raises SignInRefused."""
    kind, _, given = request.headers.get("Authorization", "").partition(" ")
    if kind.lower() == "bearer":
        _use_token(request, given.strip())
    elif kind.lower() == "basic":
        name, password = _name_and_password(given.strip())
        if password.startswith(PREFIX):
            _use_token(request, password, owner=name)
        else:
            request.user = _user(request, name, password)
            request.auth = None  # type: ignore[attr-defined]
    else:
        raise _unauthorized("Sign in with a user's name and password (Basic) or with an API token (Bearer).")


def _use_token(request: HttpRequest, secret: str, owner: str | None = None) -> None:
    """`owner`: the name that was sent with a token as password, for tools that know Basic alone."""
    try:
        token = authenticate_token(secret)
    except BadToken as error:
        raise _unauthorized(str(error)) from None
    if owner is not None and owner != token.user.get_username():
        raise _unauthorized("The user name is not that of the token's owner.")
    request.user, request.auth = token.user, token  # type: ignore[attr-defined]


def _name_and_password(encoded: str) -> tuple[str, str]:
    try:
        text = base64.b64decode(encoded, validate=True).decode()
    except (binascii.Error, ValueError):
        raise _unauthorized("The credentials are not base64 of UTF-8.") from None
    name, _, password = text.partition(":")
    if not 0 < len(name) <= limits.LABEL or not 0 < len(password) <= limits.TEXT or "\x00" in text:
        raise _unauthorized("The name or the password is not correct.")
    return name, password


def _user(request: HttpRequest, name: str, password: str) -> User:
    """Return the user. Failures count as those of the sign-in page, and lock the name for the address as there."""
    digest = _verified.digest(name, password)
    if (known := _verified.user(digest)) is not None:
        if not AxesProxyHandler.is_allowed(request, {"username": name}):
            record_failure(request, name, f"{_WAY}, locked after too many failures")
            raise _locked()
        return known
    user = authenticate(request=request, username=name, password=password)
    if getattr(request, "axes_locked_out", False):
        request.axes_locked_out = False  # type: ignore[attr-defined]  # else the middleware answers with its page
        record_failure(request, name, f"{_WAY}, locked after too many failures")
        raise _locked()
    if not isinstance(user, User):
        record_failure(request, name, _WAY)
        raise _unauthorized("The name or the password is not correct.")
    record_sign_in(request, user, _WAY, repeated=True)
    AxesProxyHandler.user_logged_in(User, request=request, user=user)  # resets the failures, as on the page
    _verified.add(digest, user)
    return user


def _locked() -> SignInRefused:
    seconds = int(settings.AXES_COOLOFF_TIME.total_seconds())
    return SignInRefused(429, "Too many failed attempts to sign in. Try again later.", {"Retry-After": str(seconds)})


def _unauthorized(message: str) -> SignInRefused:
    return SignInRefused(401, message, {"WWW-Authenticate": 'Basic realm="Headgate", charset="UTF-8"'})


def cross_origin(request: HttpRequest) -> str:
    """Return the configured origin that the request comes from (`HEADGATE_JOLOKIA_ORIGINS`); "" for a request of a
    program or of the console's own origin. Raises SignInRefused for every other page."""
    origin = request.headers.get("Origin", "")
    if origin in settings.HEADGATE_JOLOKIA_ORIGINS:
        return origin
    if not origin:
        origin = _origin_of(request.headers.get("Referer", ""))
        if not origin and request.headers.get("Sec-Fetch-Site", "none") in ("none", "same-origin"):
            return ""
    if origin and is_same_origin(_headers(request, origin), "wss" if request.is_secure() else "ws"):
        return ""
    raise SignInRefused(403, "Pages of other origins may not call this; an administrator can allow an origin.")


def check_change_by_get(request: HttpRequest) -> None:
    """Raise SignInRefused for a change by GET that a browser sends without a word of its page, with a password of
    Basic, which it may have remembered. A token of Bearer is never remembered, and a POST of another page has its
    origin."""
    remembered = request.headers.get("Authorization", "").partition(" ")[0].lower() == "basic"
    says_where = any(name in request.headers for name in ("Origin", "Referer", "Sec-Fetch-Site"))
    if remembered and not says_where and request.headers.get("User-Agent", "").startswith(_BROWSERS):
        raise SignInRefused(
            403,
            "A browser may change nothing by GET over plain HTTP with a name and password: use POST, HTTPS, or an API"
            " token (Bearer).",
        )


def _origin_of(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return "null"
    return f"{parts.scheme}://{parts.netloc}" if url else ""


def _headers(request: HttpRequest, origin: str) -> dict[bytes, Any]:
    return {b"origin": origin, b"host": request.META.get("HTTP_HOST", "")}
