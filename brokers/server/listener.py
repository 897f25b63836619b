"""The socket side of a connection: an asyncio protocol that feeds `AmqpConnection` and writes for it.

With TLS, asyncio's own TLS layer is between the socket and this, with two differences. A close reads the rest of the
input within the call: so closing waits for the loop's next round, and further input is dropped. And a peer cannot
close one direction only.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import cast

from brokers.amqp import proton as pn
from brokers.amqp.connection import AmqpConnection
from brokers.amqp.container import Container
from brokers.engine.services.certificates import subject_of
from brokers.loopback import is_loopback

log = logging.getLogger("headgate.broker")

# One buffer for all connections: the loop reads into it and passes it on before it reads again.
_SIZE = 1 << 18
_BUFFER = bytearray(_SIZE)
_VIEW = memoryview(_BUFFER)  # a slice of it is no copy: the TLS layer reads into slices
_POINTER = pn.from_buffer("char[]", _BUFFER)

#: Unsent bytes at which dispatch to a connection pauses.
HIGH_WATER = 1 << 20

SHUT_SECONDS = 1.0


class Listener(asyncio.BufferedProtocol):
    """One client's socket. It is in `listeners` while it is open."""

    def __init__(self, container: Container, listeners: set[Listener], prefer: Callable[[object], None]) -> None:
        self.container = container
        self.preferred = prefer
        self.listeners = listeners
        self.tls = False
        self._closing = False
        self._cut: asyncio.TimerHandle | None = None  # aborts a close that takes too long
        self.transport: asyncio.Transport | None = None
        self.connection: AmqpConnection | None = None
        self.closed = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.listeners.add(self)
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=HIGH_WATER)
        peer = transport.get_extra_info("peername")
        own = transport.get_extra_info("sockname")
        self.tls = transport.get_extra_info("sslcontext") is not None
        self.connection = AmqpConnection(
            self.container,
            self,
            (peer[0], peer[1]) if peer else ("?", 0),
            anonymous=any(host.anonymous for host in self.container.broker.virtualhosts.values()),
            # Without TLS a password must not leave the machine.
            plain=self.tls or bool(own and is_loopback(own[0])),
            certificate=_certificate_subject(transport),
        )

    def get_buffer(self, sizehint: int) -> memoryview:
        return _VIEW

    def buffer_updated(self, nbytes: int) -> None:
        if self.connection is not None and not self._closing:
            container = self.container
            container.begin()
            try:
                self.connection.receive(_POINTER, nbytes)
                container.finish()
            except Exception:  # a bug in the broker: it costs this connection, and no other
                log.exception("connection from %s closed after an internal error", self.connection.remote_address)
                self.close()

    def eof_received(self) -> bool:
        """Handle the end of the peer's input. Return True to close the socket here, since the peer may not read either;
        the TLS layer closes it in any case."""
        self.close()
        return not self.tls

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
        self.transport = None
        self.listeners.discard(self)
        self.closed.set()
        if self._cut is not None:
            self._cut.cancel()  # a transport that has ended cannot be aborted
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

    # -- `Wire`, for the connection -----------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        if self.transport is not None and not self._closing and not self.transport.is_closing():
            self.transport.write(data)

    def prefer(self) -> None:
        if self.transport is not None:
            self.preferred(self.transport.get_extra_info("socket"))

    def close(self) -> None:
        """Close the socket once everything is written, or after `SHUT_SECONDS` if the peer does not read."""
        if self.transport is None or self._closing or self.transport.is_closing():
            return
        self._closing = True
        loop = asyncio.get_running_loop()
        if self.tls:
            loop.call_soon(self._close_tls, self.transport)
            self._cut = loop.call_later(SHUT_SECONDS, self.transport.abort)  # the socket's buffer cannot be inspected
            return
        self.transport.close()
        if self.transport.get_write_buffer_size():
            self._cut = loop.call_later(SHUT_SECONDS, self.transport.abort)

    @staticmethod
    def _close_tls(transport: asyncio.Transport) -> None:
        """Close once: a second `close` would make a later `abort` do nothing."""
        if not transport.is_closing():
            transport.close()


def _certificate_subject(transport: asyncio.BaseTransport) -> str | None:
    """Return the subject of the client certificate that TLS has verified, if there is one."""
    if not transport.get_extra_info("peercert"):
        return None
    certificate = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
    try:
        return subject_of(certificate)
    except ValueError as error:
        log.info("a client certificate cannot be decoded: %s", error)
        return None
