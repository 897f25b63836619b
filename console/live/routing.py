"""Which WebSocket goes where: origin checked first, then the session, then the path."""

from __future__ import annotations

from channels.auth import AuthMiddlewareStack
from channels.routing import URLRouter
from channels.security.websocket import AllowedHostsOriginValidator
from django.urls import path

from console.live.consumer import LiveConsumer

websocket_application = AllowedHostsOriginValidator(
    AuthMiddlewareStack(URLRouter([path("ws/live/", LiveConsumer.as_asgi())]))  # type: ignore[arg-type, list-item]
)
