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
from dataclasses import dataclass
from enum import Enum
from hashlib import sha256
from typing import Any

from pamqp import base, commands
from pamqp.frame import marshal, unmarshal
from pamqp.header import ProtocolHeader

from brokers.adapters.rabbitmq_connection import SECONDS, Connecting, SourceLost
from brokers.adapters.rabbitmq_properties import before_its_death, for_publisher

_METHOD, _HEADER, _BODY, _HEARTBEAT, _END = 1, 2, 3, 8, b"\xce"
_CHANNEL = 1
#: Seconds without any frame after which RabbitMQ ends the connection, and what was taken returns. No step here takes as
#: long, so none is sent.
HEARTBEAT = 30
#: Most messages that a run takes: those that it leaves stay unacknowledged meanwhile.
MOST_TAKEN = 1_000_000


@dataclass(frozen=True, slots=True)
class Target:
    """Where a message belongs: in a queue, with its first routing key."""

    queue: str
    routing_key: str


class Fate(Enum):
    """What becomes of a message that belongs nowhere now."""

    LEFT = 1
    DELETED = 2


@dataclass(frozen=True, slots=True)
class Taken:
    """A message as its frames have it. `header`: the payload of its content header, see `rabbitmq_properties`."""

    tag: int
    header: bytes
    body: tuple[bytes, ...]


class ChannelClosed(SourceLost):
    """RabbitMQ has refused a step: what was taken is in its place again, and `reopen` makes another channel."""


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
            with suppress(SourceLost):  # RabbitMQ has returned what was taken when it confirms the end
                await self._call(commands.Channel.Close(200, "", 0, 0), commands.Channel.CloseOk)
                await self._call(commands.Connection.Close(200, "", 0, 0), commands.Connection.CloseOk, channel=0)
        finally:
            with suppress(OSError):
                self._writer.transport.abort()

    async def _open(self) -> None:
        account, host = self._connecting.account, self._connecting.virtualhost
        with self._connecting.losing():
            self._writer.write(marshal(ProtocolHeader(), 0))
        await self._answer(commands.Connection.Start)
        login = f"\0{account.username}\0{account.password}"
        start = commands.Connection.StartOk({"connection_name": "Headgate: parked messages"}, "PLAIN", login, "en_US")
        tune = await self._call(start, commands.Connection.Tune, channel=0)
        await self._send(commands.Connection.TuneOk(tune.channel_max, tune.frame_max, HEARTBEAT), 0)
        await self._call(commands.Connection.Open(host), commands.Connection.OpenOk, channel=0)
        await self._open_channel()

    async def reopen(self) -> None:
        """Go on after ChannelClosed."""
        await self._send(commands.Channel.CloseOk(), _CHANNEL)
        await self._open_channel()

    async def _open_channel(self) -> None:
        await self._call(commands.Channel.Open(), commands.Channel.OpenOk)
        await self._call(commands.Confirm.Select(), commands.Confirm.SelectOk)

    async def exchange_to(self, queue: str) -> str:
        """Return the name of an exchange that passes all to a queue, with the routing key as it is. The name is always
        the same, so that a run that is cut leaves none behind that a later one does not find."""
        name = f"headgate-return.{sha256(queue.encode()).hexdigest()[:16]}"
        declare = commands.Exchange.Declare(exchange=name, exchange_type="fanout", auto_delete=True)
        await self._call(declare, commands.Exchange.DeclareOk)
        # pamqp refuses most characters in names of queues. Class and method, a reserved number, the queue, the
        # exchange, no routing key, nowait, no arguments.
        bind = struct.pack(">HHH", 50, 20, 0) + _short(queue) + _short(name) + _short("") + b"\0" + struct.pack(">I", 0)
        with self._connecting.losing():
            self._writer.write(_frame(_METHOD, bind))
        await self._answer(commands.Queue.BindOk)
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

    async def publish(self, message: Taken, exchange: str, routing_key: str) -> bool:
        """Return whether a queue has accepted the message: it may refuse it, or there may be none."""
        header = for_publisher(before_its_death(message.header), self._connecting.account.username)
        method = commands.Basic.Publish(exchange=exchange, routing_key=routing_key, mandatory=True)
        frames = [marshal(method, _CHANNEL), _frame(_HEADER, header)]
        frames += [_frame(_BODY, part) for part in message.body]
        with self._connecting.losing():
            self._writer.write(b"".join(frames))
        answer = await self._answer(commands.Basic.Ack, commands.Basic.Nack, commands.Basic.Return)
        if isinstance(answer, commands.Basic.Return):
            await self._content()
            await self._answer(commands.Basic.Ack)
        return isinstance(answer, commands.Basic.Ack)

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
                raise SourceLost(f"{self._connecting.place} has sent a frame of type {kind} instead of an answer")
            _, _, frame = unmarshal(_frame(_METHOD, payload))
            if isinstance(frame, expected):
                return frame
            if isinstance(frame, commands.Channel.Close):
                raise ChannelClosed(f"{self._connecting.place}: {frame.reply_text}")
            if isinstance(frame, commands.Connection.Close):
                raise SourceLost(f"{self._connecting.place}: {frame.reply_text}", refused=frame.reply_code == 530)

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
                while True:
                    kind, _, size = struct.unpack(">BHI", await self._reader.readexactly(7))
                    payload = (await self._reader.readexactly(size + 1))[:-1]
                    if kind != _HEARTBEAT:
                        return kind, payload


def _short(text: str) -> bytes:
    encoded = text.encode()
    return bytes([len(encoded)]) + encoded


def _frame(kind: int, payload: bytes) -> bytes:
    return struct.pack(">BHI", kind, _CHANNEL, len(payload)) + payload + _END


@dataclass(slots=True)
class Moved:
    """What a run has done with messages: `accepted` by their queues, `refused` by them, `left` where they were."""

    accepted: int = 0
    refused: int = 0
    left: int = 0


async def move_back(session: Session, queue: str, place: Callable[[Taken], Target | Fate]) -> Moved:
    """Move the messages of `queue` to where they belong, in their order. `place`: says where that is. Those of a queue
    that has refused one stay."""
    moved = Moved()
    exchanges: dict[str, str] = {}
    refusing: set[str] = set()
    for _ in range(MOST_TAKEN):
        if (message := await session.take(queue)) is None:
            break
        target = place(message)
        if isinstance(target, Fate):
            if target is Fate.DELETED:
                await session.acknowledge(message)
            else:
                moved.left += 1
            continue
        if target.queue in refusing:
            moved.refused += 1
            continue
        try:
            if target.queue not in exchanges:
                exchanges[target.queue] = await session.exchange_to(target.queue)
            accepted = await session.publish(message, exchanges[target.queue], target.routing_key)
        except ChannelClosed:  # a permission for this queue is missing, or it has just gone: others go on
            refusing.add(target.queue)
            exchanges.pop(target.queue, None)
            moved.refused = moved.left = 0  # they are taken again
            await session.reopen()
            continue
        if accepted:
            await session.acknowledge(message)
            moved.accepted += 1
        else:
            refusing.add(target.queue)
            moved.refused += 1
    for exchange in exchanges.values():
        await session.delete_exchange(exchange)
    return moved
