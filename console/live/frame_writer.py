"""Write whole WebSocket frames to a socket, so that a frame for many pages is encoded once.

An ASGI server encodes and frames each message for each socket, which for a hundred pages takes longer than to make the
message. The server's protocol (`console/management/web_socket.py`) offers its writer to the application, as the value
of `offered` in the context of the application's task. Without one, as under another server, pages send messages.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar

from websockets.frames import Frame, Opcode

#: The writer of the socket whose application runs in this context.
offered: ContextVar[FrameWriter | None] = ContextVar("offered", default=None)


class FrameWriter:
    """Writes to an open socket. The server's protocol sets `is_full` while asyncio has paused its writing."""

    def __init__(self, transport: asyncio.WriteTransport) -> None:
        self._transport = transport
        self.is_full = False

    def write(self, frame: bytes) -> bool:
        """Write a frame; return False if the peer does not read fast enough. What is written while the socket is being
        closed is lost. Only between the ASGI messages `websocket.accept` and `websocket.close`."""
        if self.is_full:
            return False
        if not self._transport.is_closing():
            self._transport.write(frame)
        return True


def text_frame(text: str) -> bytes:
    """Return a message as a server sends it: one frame, unmasked and uncompressed."""
    # Half of a surrogate pair cannot be sent, and must not end the events of all pages.
    return Frame(Opcode.TEXT, text.encode(errors="replace")).serialize(mask=False)
