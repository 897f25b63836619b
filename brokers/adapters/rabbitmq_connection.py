"""A connection to RabbitMQ by AMQP 0-9-1, with aiormq: that of the account whose management is used.

With https to the management there is TLS here, with the same authorities, or no connection at all.

However the connection ends (cut, closed by RabbitMQ, or silent, and at whichever step), that is a `SourceLost` within
`NOTICED_SECONDS`. aiormq alone does not promise it: calls on a connection that ends meanwhile raise RuntimeError, a
bare Exception or CancelledError, and a channel may never hear of the end.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

import aiormq
from aiormq.connection import TransportFactory
from yarl import URL

from brokers.adapters.addresses import AddressRefused, check_address
from brokers.adapters.http import trusting
from brokers.adapters.kinds import Account

# Its errors are raised, too, and said once by those who catch them.
logging.getLogger("aiormq").setLevel(logging.CRITICAL)

#: Time to connect, and for each step of it, s.
SECONDS = 10.0
#: Time between heartbeats, s: a connection without any for three of them has ended.
HEARTBEAT = 10
#: Time until a connection that has ended, or is silent, is noticed and left, s: three heartbeats of aiormq (one second
#: more each), two of its looks at them, one of ours, and closing.
NOTICED_SECONDS = 3 * (HEARTBEAT + 1) + 2 * HEARTBEAT / 2 + HEARTBEAT + SECONDS


class SourceLost(Exception):
    """Nothing comes from here now. `refused`: trying again soon is no use. The message is for operators."""

    def __init__(self, message: str, *, refused: bool = False) -> None:
        super().__init__(message)
        self.refused = refused


@dataclass(frozen=True, slots=True)
class Listener:
    """Where RabbitMQ listens for AMQP 0-9-1."""

    host: str
    port: int
    tls: bool


def listener_of(url: str, listeners: Iterable[Mapping[str, Any]]) -> Listener | None:
    """Return the listener for the address of a management, with TLS exactly if that has; None if there is none.
    `listeners`: as the management lists them."""
    address = urlsplit(url)
    tls = address.scheme == "https"
    wanted = "amqp/ssl" if tls else "amqp"
    ports = sorted(int(each["port"]) for each in listeners if each.get("protocol") == wanted)
    return Listener(address.hostname or "", ports[0], tls) if ports else None


class _Transport(TransportFactory):
    """Connects to addresses that brokers may have, after all names are resolved."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self._context = context
        self._writer: asyncio.StreamWriter | None = None

    def abort(self) -> None:
        """End the connection at once, however little the other side does."""
        if self._writer is not None:
            self._writer.transport.abort()

    async def create(self, url: URL, **_: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, self._writer = await self._opened(url)
        return reader, self._writer

    async def _opened(self, url: URL) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host = url.host or ""
        found = await asyncio.get_running_loop().getaddrinfo(host, url.port, type=1)
        failure: OSError = OSError(f"{host} has no address")
        for family, _kind, _protocol, _name, address in found:
            check_address(str(address[0]))
            try:
                return await asyncio.open_connection(
                    str(address[0]), url.port, family=family, ssl=self._context,
                    server_hostname=host if self._context is not None else None,
                )  # fmt: skip
            except ssl.SSLCertVerificationError as error:
                raise SourceLost(
                    f"the certificate of {host}:{url.port} is not trusted: {error.verify_message}"
                ) from None
            except OSError as error:
                failure = error
        raise failure


class Connecting:
    """Connects to a virtual host as the user of an account. `purpose`: what RabbitMQ refuses when it refuses the user,
    and the name of the connection."""

    def __init__(self, listener: Listener, account: Account, virtualhost: str, purpose: str) -> None:
        self._listener = listener
        self.account = account
        self.virtualhost = virtualhost
        self._purpose = purpose
        self.place = f"{listener.host}:{listener.port}"

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[aiormq.Connection]:
        """Yield an open connection, which is closed afterwards however little the other side does. Raises
        SourceLost."""
        with self.losing():
            context = self._context()
            transport = _Transport(context)
            connection = self._connection(transport)
        try:
            with self.losing():
                # An attempt that does not end in time is left after as long again, without waiting for the other side.
                leaving = asyncio.get_running_loop().call_later(2 * SECONDS, transport.abort)
                try:
                    async with asyncio.timeout(SECONDS):
                        await connection.connect()
                finally:
                    leaving.cancel()
            yield connection
        finally:
            try:
                with suppress(SourceLost), self.losing():
                    async with asyncio.timeout(SECONDS):
                        await connection.close()
            finally:
                transport.abort()

    def _context(self) -> ssl.SSLContext | None:
        try:
            return trusting(self.account.authority) if self._listener.tls else None
        except ValueError as error:
            raise SourceLost(str(error)) from None

    async def stream(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return a new connection on which nothing is said yet. To be used within `losing`."""
        return await _Transport(self._context()).create(self._url())

    def _url(self) -> URL:
        address, account = self._listener, self.account
        return URL.build(
            scheme="amqps" if address.tls else "amqp",
            host=address.host,
            port=address.port,
            user=account.username,
            password=account.password,
            path="/" + quote(self.virtualhost, safe=""),
            query={"heartbeat": str(HEARTBEAT), "name": f"Headgate: {self._purpose}"},
            encoded=False,
        )

    def _connection(self, transport: _Transport) -> aiormq.Connection:
        connection = aiormq.Connection(self._url(), transport_factory=transport)
        assert connection.vhost == self.virtualhost
        return connection

    @contextmanager
    def losing(self) -> Iterator[None]:
        """Raise SourceLost for whatever aiormq raises. It also raises CancelledError where it has cancelled its own
        tasks, and other errors where the task that waits for it is cancelled: only the task itself knows."""
        task = asyncio.current_task()
        assert task is not None
        cancelled = task.cancelling()
        try:
            yield
        except SourceLost:
            raise
        except (Exception, asyncio.CancelledError) as error:
            if task.cancelling() > cancelled:
                raise asyncio.CancelledError from error
            raise self._lost(error) from None

    def _lost(self, error: BaseException) -> SourceLost:
        refusals = (
            aiormq.exceptions.AuthenticationError,
            aiormq.exceptions.ProbableAuthenticationError,
            aiormq.exceptions.ChannelAccessRefused,
            aiormq.exceptions.InvalidFrameError,  # no access to the virtual host
        )
        if isinstance(error, refusals):
            return SourceLost(f"{self.place} refuses {self.account.username} the {self._purpose}", refused=True)
        if isinstance(error, AddressRefused):
            return SourceLost(str(error), refused=True)
        if isinstance(error, TimeoutError):
            return SourceLost(f"no answer from {self.place} within {SECONDS:g} s")
        return SourceLost(f"{self._purpose}: the connection to {self.place} failed: {error or type(error).__name__}")
