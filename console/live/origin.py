"""Accept WebSockets only from pages of this console, by their whole origin. Browsers send cookies to all ports of a
host, so the host name alone is not enough."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import SplitResult, urlsplit

from channels.security.websocket import WebsocketDenier
from django.conf import settings
from django.http.request import split_domain_port, validate_host
from django.utils.http import is_same_domain

#: Scheme, host and port.
Origin = tuple[str, str, int]

_PORTS = {"http": 80, "https": 443}


class SameOriginOnly:
    """ASGI middleware: deny WebSockets of other origins before the session is read."""

    def __init__(self, application: Any) -> None:
        self.application = application

    async def __call__(self, scope: Any, receive: Any, send: Any) -> Any:
        headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
        if is_same_origin(headers, scope.get("scheme", "ws")):
            return await self.application(scope, receive, send)
        return await WebsocketDenier()(scope, receive, send)


def is_same_origin(headers: Mapping[bytes, str], scheme: str) -> bool:
    """Return whether the Origin header matches the requested host, which must be an allowed one, or a trusted origin of
    the settings (HEADGATE_TRUSTED_ORIGINS, HEADGATE_URL; for a console behind a proxy), never the URL that an
    administrator entered for links. `scheme`: `ws` or `wss`."""
    origin = _origin(headers.get(b"origin", ""))
    if origin is None:
        return False
    if any(_matches(origin, trusted) for trusted in [*settings.CSRF_TRUSTED_ORIGINS, settings.HEADGATE_URL]):
        return True
    host = headers.get(b"host", "")
    if not validate_host(split_domain_port(host)[0], settings.ALLOWED_HOSTS):
        return False
    schemes = {"https" if scheme == "wss" else "http", *(["https"] if settings.HTTPS else [])}
    return any(origin == _origin(f"{each}://{host}") for each in schemes)


def _matches(origin: Origin, trusted: str) -> bool:
    """Return whether an origin matches a trusted one, which may have a wildcard as in Django: `https://*.example.org`."""
    scheme, _, host = trusted.partition("://")
    if not host.startswith("*."):
        return origin == _origin(trusted)
    parent = _origin(f"{scheme}://{host[2:]}")
    return parent is not None and origin[::2] == parent[::2] and is_same_domain(origin[1], f".{parent[1]}")


def _origin(text: str) -> Origin | None:
    """Parse an origin; None for an invalid one, such as `null`."""
    try:
        parts: SplitResult = urlsplit(text)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in _PORTS or not parts.hostname:
        return None
    return parts.scheme, parts.hostname, port or _PORTS[parts.scheme]
