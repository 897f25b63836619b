"""The events of RabbitMQ's event exchange, over AMQP 0-9-1.

A queue of this connection alone receives them. It is bounded and drops its oldest messages, so that it never fills a
broker, however slowly they are read. Only acknowledgements are sent, so an alarm of the broker does not block the
connection.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiormq
from aiormq.abc import AbstractChannel, DeliveredMessage
from pamqp.common import FieldTable

from brokers.adapters.json_text import well_formed
from brokers.adapters.kinds import Account
from brokers.adapters.rabbitmq_connection import HEARTBEAT, SECONDS, Connecting, Listener, SourceLost
from brokers.adapters.rabbitmq_events import EXCHANGE, KEYS, VIRTUALHOST
from brokers.adapters.rabbitmq_reading import EVENTS_PREFIX

#: Most events that wait in the broker, and here.
MOST_WAITING, UNACKNOWLEDGED = 10_000, 200

Event = tuple[str, Mapping[str, Any]]


class EventExchange:
    """The event exchange at a listener, as the user of an account."""

    def __init__(self, listener: Listener, account: Account) -> None:
        self._connecting = Connecting(listener, account, VIRTUALHOST, "event exchange")
        self.place = self._connecting.place

    @asynccontextmanager
    async def attached(self) -> AsyncIterator[AsyncIterator[Event]]:
        """Receive events from now on. Raises SourceLost, also while they are iterated."""
        async with self._connecting.connected() as connection:
            with self._connecting.losing():
                async with asyncio.timeout(SECONDS):
                    events = await self._consuming(connection)
            yield events

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
                with suppress(SourceLost), self._connecting.losing():
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
