"""The socket side of a connection: an asyncio protocol that feeds `AmqpConnection` and writes for it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import cast

from brokers.amqp import proton as pn
from brokers.amqp.connection import AmqpConnection
from brokers.amqp.container import Container

log = logging.getLogger("headgate.broker")

# One buffer for all connections: the loop reads into it and hands it over before it reads again.
_SIZE = 1 << 18
_BUFFER = bytearray(_SIZE)
_POINTER = pn.from_buffer("char[]", _BUFFER)

#: Unsent bytes at which nothing more is dispatched to a connection.
HIGH_WATER = 1 << 20

SHUT_SECONDS = 1.0


class Listener(asyncio.BufferedProtocol):
    """One client's socket. It stands in `listeners` while it is open."""

    def __init__(
        self, container: Container, listeners: set[Listener], prefer: Callable[[object], None], *, loopback: bool
    ) -> None:
        self.container = container
        self.preferred = prefer
        self.listeners = listeners
        self.loopback = loopback
        self.transport: asyncio.Transport | None = None
        self.connection: AmqpConnection | None = None
        self.closed = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.listeners.add(self)
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=HIGH_WATER)
        peer = transport.get_extra_info("peername")
        address = f"{peer[0]}:{peer[1]}" if peer else "?"
        anonymous = any(host.anonymous for host in self.container.broker.virtualhosts.values())
        # Without TLS a password may only cross the machine itself.
        self.connection = AmqpConnection(self.container, self, address, anonymous=anonymous, plain=self.loopback)

    def get_buffer(self, sizehint: int) -> bytearray:
        return _BUFFER

    def buffer_updated(self, nbytes: int) -> None:
        if self.connection is not None:
            container = self.container
            container.begin()
            try:
                self.connection.receive(_POINTER, nbytes)
                container.finish()
            except Exception:  # a fault of ours: it costs this connection, and no other
                log.exception("connection from %s ended by a fault of the broker", self.connection.remote_address)
                self.close()

    def eof_received(self) -> bool:
        """The peer sends no more. True: we close the socket ourselves, since it may not read either."""
        self.close()
        return True

    def pause_writing(self) -> None:
        if self.connection is not None:
            self.connection.pause()

    def resume_writing(self) -> None:
        if self.connection is not None:
            self.container.begin()
            self.connection.resume()
            self.container.finish()

    def connection_lost(self, exc: Exception | None) -> None:
        connection, self.connection = self.connection, None
        self.listeners.discard(self)
        self.closed.set()
        if connection is not None:
            self.container.begin()
            connection.lost()
            self.container.finish()

    async def shut(self) -> None:
        """Close, and wait until it is closed."""
        self.close()
        try:
            await asyncio.wait_for(self.closed.wait(), SHUT_SECONDS)
        except TimeoutError:
            if self.transport is not None:
                self.transport.abort()
            await self.closed.wait()

    # -- what the connection asks for ---------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(data)

    def prefer(self) -> None:
        if self.transport is not None:
            self.preferred(self.transport.get_extra_info("socket"))

    def close(self) -> None:
        """Close the socket once everything is written, or after `SHUT_SECONDS` if the peer does not read."""
        if self.transport is not None and not self.transport.is_closing():
            self.transport.close()
            if self.transport.get_write_buffer_size():
                asyncio.get_running_loop().call_later(SHUT_SECONDS, self.transport.abort)
