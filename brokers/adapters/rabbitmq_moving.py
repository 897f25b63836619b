"""Moves messages from a queue of RabbitMQ to others as they are, over AMQP 0-9-1: no client sees another message.

Clients decode a message's properties and encode them again, which changes them: aiormq and py-amqp write integers of
headers in other sizes, on which Java clients fail, and aiormq adds a message-id. So properties and body are passed on
here byte for byte. Methods are pamqp's. A message is acknowledged when RabbitMQ has confirmed the other one: one whose
connection ends between the two is there twice, and none is lost.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from enum import Enum
from secrets import token_hex
from typing import Any

from pamqp import base, commands
from pamqp.frame import marshal, unmarshal
from pamqp.header import ContentHeader, ProtocolHeader

from brokers.adapters.rabbitmq_connection import SECONDS, Connecting, SourceLost

_METHOD, _HEADER, _BODY, _END = 1, 2, 3, b"\xce"
_CHANNEL = 1
#: In a content header: where the flags of the properties are, and those of the last ones.
_FLAGS, _USER_ID, _APP_ID, _CLUSTER_ID = 12, 1 << 4, 1 << 3, 1 << 2
#: Most messages that a run moves: those that it leaves stay unacknowledged meanwhile.
MOST_MOVED = 100_000


@dataclass(frozen=True, slots=True)
class Target:
    """Where a message belongs: in a queue, with its first routing key."""

    queue: str
    routing_key: str


class Fate(Enum):
    LEFT = 1
    DELETED = 2


class Outcome(Enum):
    ACCEPTED = 1
    REFUSED = 2
    UNROUTABLE = 3


@dataclass(frozen=True, slots=True)
class Taken:
    """A message as its frames have it. `header`: the payload of its content header."""

    tag: int
    header: bytes
    body: tuple[bytes, ...]

    @property
    def headers(self) -> dict[str, Any]:
        return dict(self._properties().headers or {})

    def publishable_by(self, user: str) -> Taken:
        """Return the message as a user may publish it: RabbitMQ refuses the user-id of another one."""
        properties = self._properties()
        if not properties.user_id or properties.user_id == user:
            return self
        (flags,) = struct.unpack_from(">H", self.header, _FLAGS)
        # It is followed by app-id and cluster-id only, which are short strings, too.
        after = ((_APP_ID, properties.app_id), (_CLUSTER_ID, properties.cluster_id))
        end = len(self.header) - sum(1 + len((text or "").encode()) for flag, text in after if flags & flag)
        start = end - 1 - len(properties.user_id.encode())
        before = self.header[:_FLAGS] + struct.pack(">H", flags & ~_USER_ID) + self.header[_FLAGS + 2 : start]
        return replace(self, header=before + self.header[end:])

    def _properties(self) -> commands.Basic.Properties:
        _, _, frame = unmarshal(_frame(_HEADER, self.header))
        assert isinstance(frame, ContentHeader)
        return frame.properties


class Session:
    """A channel that has confirms. Each step raises SourceLost if it has no answer in time, and for whatever RabbitMQ
    says instead."""

    def __init__(self, connecting: Connecting) -> None:
        self._connecting = connecting
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Session]:
        with self._connecting.losing():
            async with asyncio.timeout(SECONDS):
                self._reader, self._writer = await self._connecting.stream()
        try:
            await self._open()
            yield self
        finally:
            with suppress(OSError):
                self._writer.transport.abort()  # what was taken and not acknowledged returns to its place

    async def _open(self) -> None:
        account, host = self._connecting.account, self._connecting.virtualhost
        with self._connecting.losing():
            self._writer.write(marshal(ProtocolHeader(), 0))
        await self._answer(commands.Connection.Start)
        login = f"\0{account.username}\0{account.password}"
        start = commands.Connection.StartOk({"connection_name": "Headgate: parked messages"}, "PLAIN", login, "en_US")
        tune = await self._call(start, commands.Connection.Tune, channel=0)
        # No heartbeats: each step has its own time.
        await self._send(commands.Connection.TuneOk(tune.channel_max, tune.frame_max, 0), 0)
        await self._call(commands.Connection.Open(host), commands.Connection.OpenOk, channel=0)
        await self._call(commands.Channel.Open(), commands.Channel.OpenOk)
        await self._call(commands.Confirm.Select(), commands.Confirm.SelectOk)

    async def exchange_to(self, queue: str) -> str:
        """Return the name of a new exchange, which passes all to a queue, with the routing key as it is. It is deleted
        with this connection's last use of it."""
        name = f"headgate-return.{token_hex(8)}"
        declare = commands.Exchange.Declare(exchange=name, exchange_type="fanout", auto_delete=True)
        await self._call(declare, commands.Exchange.DeclareOk)
        await self._call(commands.Queue.Bind(queue=queue, exchange=name), commands.Queue.BindOk)
        return name

    async def delete_exchange(self, name: str) -> None:
        await self._call(commands.Exchange.Delete(exchange=name), commands.Exchange.DeleteOk)

    async def take(self, queue: str) -> Taken | None:
        """Take the next message of a queue, without acknowledging it; None: there is none."""
        got = await self._call(commands.Basic.Get(queue=queue), commands.Basic.GetOk, commands.Basic.GetEmpty)
        if isinstance(got, commands.Basic.GetEmpty):
            return None
        header, body = await self._content()
        return Taken(got.delivery_tag, header, body)

    async def publish(self, message: Taken, exchange: str, routing_key: str) -> Outcome:
        message = message.publishable_by(self._connecting.account.username)
        method = commands.Basic.Publish(exchange=exchange, routing_key=routing_key, mandatory=True)
        frames = [marshal(method, _CHANNEL), _frame(_HEADER, message.header)]
        frames += [_frame(_BODY, part) for part in message.body]
        with self._connecting.losing():
            self._writer.write(b"".join(frames))
        answer = await self._answer(commands.Basic.Ack, commands.Basic.Nack, commands.Basic.Return)
        if isinstance(answer, commands.Basic.Return):
            await self._content()
            await self._answer(commands.Basic.Ack)
            return Outcome.UNROUTABLE
        return Outcome.ACCEPTED if isinstance(answer, commands.Basic.Ack) else Outcome.REFUSED

    async def acknowledge(self, message: Taken) -> None:
        await self._send(commands.Basic.Ack(message.tag), _CHANNEL)

    async def _call(self, method: base.Frame, *expected: type, channel: int = _CHANNEL) -> Any:
        await self._send(method, channel)
        return await self._answer(*expected)

    async def _send(self, method: base.Frame, channel: int) -> None:
        with self._connecting.losing():
            self._writer.write(marshal(method, channel))
            async with asyncio.timeout(SECONDS):
                await self._writer.drain()

    async def _answer(self, *expected: type) -> Any:
        while True:
            kind, payload = await self._next()
            if kind != _METHOD:
                continue  # a heartbeat
            _, _, frame = unmarshal(_frame(_METHOD, payload))
            if isinstance(frame, expected):
                return frame
            if isinstance(frame, commands.Channel.Close | commands.Connection.Close):
                refused = frame.reply_code in (403, 530)
                raise SourceLost(f"{self._connecting.place}: {frame.reply_text}", refused=refused)

    async def _content(self) -> tuple[bytes, tuple[bytes, ...]]:
        _, header = await self._next()
        (size,) = struct.unpack_from(">Q", header, 4)
        parts: list[bytes] = []
        while sum(map(len, parts)) < size:
            parts.append((await self._next())[1])
        return header, tuple(parts)

    async def _next(self) -> tuple[int, bytes]:
        with self._connecting.losing():
            async with asyncio.timeout(SECONDS):
                kind, _, size = struct.unpack(">BHI", await self._reader.readexactly(7))
                return kind, (await self._reader.readexactly(size + 1))[:-1]


def _frame(kind: int, payload: bytes) -> bytes:
    return struct.pack(">BHI", kind, _CHANNEL, len(payload)) + payload + _END


@dataclass(slots=True)
class Moved:
    """How many messages a run has moved to their queues, and how many these refused."""

    accepted: int = 0
    refused: int = 0


async def move_back(session: Session, queue: str, place: Callable[[Taken], Target | Fate]) -> Moved:
    """Move the messages of `queue` to where they belong, in their order. `place`: says where that is. Those of a queue
    that has refused one stay."""
    moved = Moved()
    exchanges: dict[str, str] = {}
    refusing: set[str] = set()
    for _ in range(MOST_MOVED):
        if (message := await session.take(queue)) is None:
            break
        target = place(message)
        if target is Fate.DELETED:
            await session.acknowledge(message)
        if isinstance(target, Fate):
            continue
        if target.queue not in exchanges:
            exchanges[target.queue] = await session.exchange_to(target.queue)
        if target.queue not in refusing:
            outcome = await session.publish(message, exchanges[target.queue], target.routing_key)
            if outcome is Outcome.ACCEPTED:
                await session.acknowledge(message)
                moved.accepted += 1
                continue
            refusing.add(target.queue)
        moved.refused += 1
    for exchange in exchanges.values():
        await session.delete_exchange(exchange)
    return moved
