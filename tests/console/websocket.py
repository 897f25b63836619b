"""A WebSocket client of an ASGI application, without a server (Channels' own needs the Daphne server)."""

from __future__ import annotations

import json
from typing import Any

from asgiref.testing import ApplicationCommunicator


class WebSocket(ApplicationCommunicator):
    """A client. `closed`: the close code, after the application has closed the connection."""

    def __init__(self, application: Any, path: str = "/ws/live/", query: str = "", headers: Any = ()) -> None:
        self.closed: int | None = None
        scope = {
            "type": "websocket",
            "path": path,
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in headers],
            "subprotocols": [],
        }
        super().__init__(application, scope)

    async def open(self) -> bool:
        """Connect, and return whether the application accepted."""
        await self.send_input({"type": "websocket.connect"})
        answer = await self.receive_output(5)
        if answer["type"] == "websocket.close":
            self.closed = answer.get("code", 1000)
        return bool(answer["type"] == "websocket.accept")

    async def send(self, **message: Any) -> None:
        await self.send_input({"type": "websocket.receive", "text": json.dumps(message)})

    async def frame(self, limit: float = 5) -> dict[str, Any]:
        """Return the next frame within `limit` seconds; {} if the application closed the connection."""
        answer = await self.receive_output(limit)
        if answer["type"] == "websocket.close":
            self.closed = answer.get("code", 1000)
            return {}
        content = json.loads(answer["text"])
        assert isinstance(content, dict)
        return content

    async def frame_of(self, kind: str, limit: float = 5) -> dict[str, Any]:
        """Return the next frame of this type, skipping others."""
        while (content := await self.frame(limit))["type"] != kind:
            pass
        return content

    async def leave(self) -> None:
        await self.send_input({"type": "websocket.disconnect", "code": 1000})
        await self.wait(5)
