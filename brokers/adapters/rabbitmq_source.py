"""The connection to RabbitMQ over which the events of its event exchange come: AMQP 0-9-1, by aiormq.

A queue of this connection alone receives them. It is bounded and drops its oldest messages, so that it never fills a
broker, however slowly they are read. Only acknowledgements are sent, so an alarm of the broker does not block the
connection. With https to the management there is TLS here, with the same authorities, or no connection at all.

However the connection ends (cut, closed by RabbitMQ, or silent, and at whichever step), that is a `SourceLost` within
`NOTICED_SECONDS`. aiormq alone does not promise it: calls on a connection that ends meanwhile raise RuntimeError, a
bare Exception or CancelledError, and a channel may never hear of the end.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import ssl
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import aiormq
from aiormq.abc import AbstractChannel, DeliveredMessage
from aiormq.connection import TransportFactory
from pamqp.common import FieldTable
from yarl import URL

from brokers.adapters.addresses import AddressRefused, check_address
from brokers.adapters.http import trusting
from brokers.adapters.json_text import well_formed
from brokers.adapters.kinds import Account
from brokers.adapters.rabbitmq_events import EXCHANGE, KEYS, VIRTUALHOST
from brokers.adapters.rabbitmq_reading import EVENTS_PREFIX

# Its errors are raised, too, and said once by those who catch them.
logging.getLogger("aiormq").setLevel(logging.CRITICAL)

#: Most events that wait in the broker, and here.
MOST_WAITING, UNACKNOWLEDGED = 10_000, 200
#: Time to connect, and for each step of it, s.
SECONDS = 10.0
#: Time between heartbeats, s: a connection without any for three of them has ended.
HEARTBEAT = 10
#: Time until a connection that has ended, or is silent, is noticed and left, s: three heartbeats of aiormq (one second
#: more each), two of its looks at them, one of ours, and closing.
NOTICED_SECONDS = 3 * (HEARTBEAT + 1) + 2 * HEARTBEAT / 2 + HEARTBEAT + SECONDS

Event = tuple[str, Mapping[str, Any]]


class SourceLost(Exception):
    """There are no events from here now. `refused`: trying again soon is no use. The message is for operators."""

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


class EventExchange:
    """The event exchange at a listener, as the user of an account."""

    def __init__(self, listener: Listener, account: Account) -> None:
        self._listener = listener
        self._account = account
        self.place = f"{listener.host}:{listener.port}"

    @asynccontextmanager
    async def attached(self) -> AsyncIterator[AsyncIterator[Event]]:
        """Receive events from now on. Raises SourceLost, also while they are iterated."""
        with self._losing():
            context = self._context()
            transport = _Transport(context)
            connection = self._connection(transport)
        try:
            with self._losing():
                # An attempt that does not end in time is left after as long again, without waiting for the other side.
                leaving = asyncio.get_running_loop().call_later(2 * SECONDS, transport.abort)
                try:
                    async with asyncio.timeout(SECONDS):
                        await connection.connect()
                finally:
                    leaving.cancel()
                async with asyncio.timeout(SECONDS):
                    events = await self._consuming(connection)
            yield events
        finally:
            try:
                with suppress(SourceLost), self._losing():
                    async with asyncio.timeout(SECONDS):
                        await connection.close()
            finally:
                transport.abort()

    def _context(self) -> ssl.SSLContext | None:
        try:
            return trusting(self._account.authority) if self._listener.tls else None
        except ValueError as error:
            raise SourceLost(str(error)) from None

    def _connection(self, transport: _Transport) -> aiormq.Connection:
        address, account = self._listener, self._account
        url = URL.build(
            scheme="amqps" if address.tls else "amqp", host=address.host, port=address.port, user=account.username,
            password=account.password, path="/%2F", query={"heartbeat": str(HEARTBEAT), "name": "Headgate: events"},
            encoded=False,
        )  # fmt: skip
        connection = aiormq.Connection(url, transport_factory=transport)
        assert connection.vhost == VIRTUALHOST
        return connection

    @contextmanager
    def _losing(self) -> Iterator[None]:
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

    async def _consuming(self, connection: aiormq.Connection) -> AsyncIterator[Event]:
        channel = await connection.channel()
        queue = f"{EVENTS_PREFIX}{secrets.token_hex(8)}"
        bounds: FieldTable = {"x-max-length": MOST_WAITING, "x-overflow": "drop-head"}
        await channel.queue_declare(queue, exclusive=True, auto_delete=True, durable=False, arguments=bounds)
        for key in KEYS:
            await channel.queue_bind(queue, EXCHANGE, key)
        await channel.basic_qos(prefetch_count=UNACKNOWLEDGED)
        arrived: asyncio.Queue[DeliveredMessage | None] = asyncio.Queue()

        def ended(*_: object) -> None:
            arrived.put_nowait(None)

        channel.closing.add_done_callback(ended)
        channel.on_consumer_cancel_callbacks.add(ended)
        await channel.basic_consume(queue, arrived.put, exclusive=True)
        return self._received(connection, channel, arrived)

    async def _received(
        self,
        connection: aiormq.Connection,
        channel: AbstractChannel,
        arrived: asyncio.Queue[DeliveredMessage | None],
    ) -> AsyncIterator[Event]:
        """Yield what has arrived, also when the connection has ended since."""
        while (message := await self._next(connection, channel, arrived)) is not None:
            yield str(message.routing_key), well_formed(dict(message.header.properties.headers or {}))
            if message.delivery_tag is not None:
                # A connection that is lost meanwhile may never report that the acknowledgement was written.
                with suppress(SourceLost), self._losing():
                    async with asyncio.timeout(SECONDS):
                        await channel.basic_ack(message.delivery_tag, wait=False)
        raise SourceLost(f"the connection to {self.place} has ended")

    async def _next(
        self,
        connection: aiormq.Connection,
        channel: AbstractChannel,
        arrived: asyncio.Queue[DeliveredMessage | None],
    ) -> DeliveredMessage | None:
        """Return the next message; None: there will be none."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(HEARTBEAT):
                    return await arrived.get()
            if not connection.is_opened or channel.is_closed:
                return None

    def _lost(self, error: BaseException) -> SourceLost:
        refusals = (
            aiormq.exceptions.AuthenticationError,
            aiormq.exceptions.ProbableAuthenticationError,
            aiormq.exceptions.ChannelAccessRefused,
            aiormq.exceptions.InvalidFrameError,  # no access to the virtual host
        )
        if isinstance(error, refusals):
            return SourceLost(f"{self.place} refuses {self._account.username} the event exchange", refused=True)
        if isinstance(error, AddressRefused):
            return SourceLost(str(error), refused=True)
        if isinstance(error, TimeoutError):
            return SourceLost(f"no answer from {self.place} within {SECONDS:g} s")
        return SourceLost(f"cannot receive events from {self.place}: {error or type(error).__name__}")
