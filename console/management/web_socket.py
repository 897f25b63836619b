"""uvicorn's WebSocket protocol, which also offers a writer of whole frames (`console/live/frame_writer.py`).

It overrides methods of `asyncio.Protocol` alone. What it needs of uvicorn beyond that (checked with 0.54.0): that it
creates the application's task while it receives the handshake's bytes, and writes each message at once, as one frame,
so that frames in between are whole. If the task is created elsewhere, no writer is offered, and pages send messages;
`tests/console/live/test_web_socket.py` fails then.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from console.live.frame_writer import FrameWriter, offered


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """See the module."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._writer = FrameWriter(transport)
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        before = offered.set(self._writer)
        try:
            super().data_received(data)
        finally:
            offered.reset(before)

    def pause_writing(self) -> None:
        self._writer.is_full = True
        super().pause_writing()

    def resume_writing(self) -> None:
        self._writer.is_full = False
        super().resume_writing()
