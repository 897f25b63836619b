"""A WebSocket client of an ASGI application, without a server (Channels' own needs the Daphne server)."""

from __future__ import annotations

import json
from typing import Any

from asgiref.testing import ApplicationCommunicator

from console.live import frame_writer


class WebSocket(ApplicationCommunicator):
    """A client. `closed`: the close code, after the application has closed the connection. `writes_frames`: its server
    offers to write frames."""

    def __init__(
        self,
        application: Any,
        path: str = "/ws/live/",
        query: str = "",
        headers: Any = (),
        *,
        writes_frames: bool = False,
    ) -> None:
        self.frames_written = 0
        self.closed: int | None = None
        scope = {
            "type": "websocket",
            "path": path,
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in headers],
            "subprotocols": [],
        }
        # The application's task, which this creates, has its context.
        before = frame_writer.offered.set(_Writer(self) if writes_frames else None)
        super().__init__(application, scope)
        frame_writer.offered.reset(before)

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


class _Writer(frame_writer.FrameWriter):
    """Frames arrive in the order in which they and messages are written."""

    def __init__(self, client: WebSocket) -> None:
        self.client = client
        self.is_full = False

    def write(self, frame: bytes) -> bool:
        if self.is_full:
            return False
        assert self.client.closed is None
        self.client.frames_written += 1
        self.client.output_queue.put_nowait({"type": "websocket.send", "text": text_of(frame)})
        return True


def text_of(frame: bytes) -> str:
    """Return the text of a server's frame (RFC 6455, 5.2): the last of its message, not masked and not compressed."""
    assert frame[0] == 0x81
    length, head = frame[1], 2
    assert not length & 0x80
    if length >= 126:
        size = 2 if length == 126 else 8
        length, head = int.from_bytes(frame[2 : 2 + size], "big"), 2 + size
    assert len(frame) == head + length
    return frame[head:].decode()
