"""The connection to RabbitMQ over which the events of its event exchange come: AMQP 0-9-1, by aiormq.

A queue of this connection alone receives them. It is bounded and drops its oldest messages, so that it never fills a
broker, however slowly they are read. Only acknowledgements are sent, so an alarm of the broker does not block the
connection. With https to the management there is TLS here, with the same authorities, or no connection at all.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
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

_FAILURES = (TimeoutError, OSError, AddressRefused, aiormq.exceptions.AMQPError)

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

    async def create(self, url: URL, **_: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
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
        connection: aiormq.Connection | None = None
        try:
            try:
                connection = await self._connected()
                async with asyncio.timeout(SECONDS):
                    events = await self._consuming(connection)
            except _FAILURES as error:
                raise self._lost(error) from None
            yield events
        finally:
            if connection is not None:
                with suppress(Exception):
                    async with asyncio.timeout(SECONDS):
                        await connection.close()

    async def _connected(self) -> aiormq.Connection:
        address, account = self._listener, self._account
        url = URL.build(
            scheme="amqps" if address.tls else "amqp", host=address.host, port=address.port, user=account.username,
            password=account.password, path="/%2F", query={"heartbeat": str(HEARTBEAT), "name": "Headgate: events"},
            encoded=False,
        )  # fmt: skip
        try:
            context = trusting(account.authority) if address.tls else None
        except ValueError as error:
            raise SourceLost(str(error)) from None
        connection = aiormq.Connection(url, transport_factory=_Transport(context))
        assert connection.vhost == VIRTUALHOST
        async with asyncio.timeout(SECONDS):
            await connection.connect()
        return connection

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
        return self._received(channel, arrived)

    async def _received(
        self, channel: AbstractChannel, arrived: asyncio.Queue[DeliveredMessage | None]
    ) -> AsyncIterator[Event]:
        while (message := await arrived.get()) is not None:
            yield str(message.routing_key), well_formed(dict(message.header.properties.headers or {}))
            if message.delivery_tag is not None:
                # A connection that is lost meanwhile may never report that the acknowledgement was written.
                with suppress(aiormq.exceptions.AMQPError, OSError, TimeoutError):
                    async with asyncio.timeout(SECONDS):
                        await channel.basic_ack(message.delivery_tag, wait=False)
        raise SourceLost(f"the connection to {self.place} has ended")

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
