"""The broker's listeners: one or several addresses without encryption, and one with TLS whose files can be renewed.

The TLS context of an asyncio server cannot be exchanged. So a new server takes over a duplicate of the listening socket
when the files have changed: the queue of those who knock stays, and so do the connections that are open.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from brokers.amqp.container import Container
from brokers.loopback import is_loopback
from brokers.server.listener import SHUT_SECONDS, Listener
from brokers.server.tls import TlsError, TlsFiles

BACKLOG = 1024

#: Time for a client's TLS handshake, s.
HANDSHAKE_SECONDS = 15.0

log = logging.getLogger("headgate.broker")


@dataclass(frozen=True, slots=True)
class TlsAddress:
    """Port 0: any that is free."""

    files: TlsFiles
    host: str = "127.0.0.1"
    port: int = 5671


class CannotListen(OSError):
    """An address cannot be listened on. The message is a sentence that names it."""


class Listening:
    """`listeners`: those of open connections. `prefer`: see `Listener`."""

    def __init__(
        self,
        container: Container,
        listeners: set[Listener],
        prefer: Callable[[object], None],
        *,
        hosts: Sequence[str],
        port: int,
        tls: TlsAddress | None,
    ) -> None:
        self.container = container
        self.listeners = listeners
        self._prefer = prefer
        self.hosts = tuple(hosts)
        self.port = port
        self.tls = tls
        self.tls_port = tls.port if tls else 0
        self._servers: list[asyncio.Server] = []
        self._tls_server: asyncio.Server | None = None
        self._tls_socket: socket.socket | None = None
        self._stamp: object = None

    async def start(self) -> None:
        """Start listening. Raises CannotListen, TlsError; then nothing is left open."""
        try:
            for host in self.hosts:
                listening = _bound(host, self.port, "--port")
                self.port = listening.getsockname()[1]
                loop = asyncio.get_running_loop()
                server = await loop.create_server(self._connected, sock=listening, backlog=BACKLOG)
                self._servers.append(server)
                if not is_loopback(host):
                    log.warning(
                        "Other machines can reach %s:%d and nothing is encrypted: messages can be read on the way, and"
                        " passwords (PLAIN) are not taken there; --tls-certificate listens with TLS",
                        host,
                        self.port,
                    )
            if self.tls is not None:
                await self._start_tls(self.tls)
        except BaseException:
            self.close()
            raise

    async def _start_tls(self, tls: TlsAddress) -> None:
        self._stamp, context = tls.files.stamp(), tls.files.context()
        self._tls_socket = _bound(tls.host, tls.port, "--tls-port")
        self.tls_port = self._tls_socket.getsockname()[1]
        await self._serve_tls(self._tls_socket, context)

    async def renew_tls(self, *, only_if_changed: bool = False) -> None:
        """Load the current files; if they are invalid, log that and continue with the old ones."""
        if self.tls is None or self._tls_socket is None:
            return
        stamp = self.tls.files.stamp()
        if only_if_changed and stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            context = self.tls.files.context()
        except TlsError as error:
            log.error("the TLS files have changed and are invalid; the old ones remain in use: %s", error)
            return
        await self._serve_tls(self._tls_socket, context)
        log.info("TLS files reloaded")

    async def _serve_tls(self, listening: socket.socket, context: ssl.SSLContext) -> None:
        before = self._tls_server
        self._tls_server = await asyncio.get_running_loop().create_server(
            self._connected,
            sock=listening.dup(),
            backlog=BACKLOG,
            ssl=context,
            ssl_handshake_timeout=HANDSHAKE_SECONDS,
            ssl_shutdown_timeout=SHUT_SECONDS,
        )
        if before is not None:
            before.close()

    def _connected(self) -> Listener:
        return Listener(self.container, self.listeners, self._prefer)

    def close(self) -> None:
        """Accept no more connections; open ones stay."""
        for server in [*self._servers, *([self._tls_server] if self._tls_server else [])]:
            server.close()
        self._servers.clear()
        if self._tls_socket is not None:
            self._tls_socket.close()
        self._tls_server = self._tls_socket = None


def _bound(host: str, port: int, option: str) -> socket.socket:
    """Return a listening socket."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        made = socket.socket(family, kind, protocol)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                with contextlib.suppress(OSError):
                    made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            made.bind(address)
            made.listen(BACKLOG)
        except BaseException:
            made.close()
            raise
    except OSError as error:
        raise CannotListen(
            f"cannot listen on {host}:{port}: {error.strerror or error}. Is another broker running? See {option}."
        ) from error
    return made
