"""Routing of WebSockets: check the origin, then the session, then the path."""

from __future__ import annotations

from channels.auth import AuthMiddlewareStack
from channels.routing import URLRouter
from django.urls import path

from console.live.consumer import LiveConsumer
from console.live.fleet.consumer import FleetConsumer
from console.live.origin import SameOriginOnly

websocket_application = SameOriginOnly(
    AuthMiddlewareStack(
        URLRouter(
            [
                path("ws/live/", LiveConsumer.as_asgi()),  # type: ignore[arg-type, list-item]
                path("ws/fleet/", FleetConsumer.as_asgi()),  # type: ignore[arg-type, list-item]
            ]
        )
    )
)
