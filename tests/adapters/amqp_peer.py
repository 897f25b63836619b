"""A RabbitMQ in memory, with policies and their events alone: a management that lists them, and a peer that speaks AMQP
0-9-1 and sends an event for each change. It can cut, close or leave its connections at any step."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping
from typing import Any

import pamqp.frame
from pamqp import commands
from pamqp.common import FieldTable
from pamqp.header import ContentHeader, ProtocolHeader
from pamqp.heartbeat import Heartbeat

from brokers.admin import NotFound

#: Steps of a connection: what the peer has just received, or is about to send.
STEPS = (
    "connect", "ProtocolHeader", "Connection.StartOk", "Connection.TuneOk", "Connection.Open", "Channel.Open",
    "Confirm.Select", "Queue.Declare", "Queue.Bind", "Basic.Qos", "Basic.Consume", "delivery", "half a delivery",
    "Basic.Ack", "idle",
)  # fmt: skip
#: What can become of a connection. silent: nothing is read or sent any more. reset: without what was sent. half: only
#: this direction is closed. closed: as `rabbitmqctl close_all_user_connections` does.
FAULTS = ("cut", "reset", "half", "silent", "closed")

_ANSWERS: Mapping[str, Callable[[], Any]] = {
    "Connection.StartOk": lambda: commands.Connection.Tune(2047, 131072, 10),
    "Connection.Open": commands.Connection.OpenOk,
    "Channel.Open": commands.Channel.OpenOk,
    "Confirm.Select": commands.Confirm.SelectOk,
    "Queue.Declare": lambda: commands.Queue.DeclareOk("q", 0, 0),
    "Queue.Bind": commands.Queue.BindOk,
    "Basic.Qos": commands.Basic.QosOk,
    "Channel.Close": commands.Channel.CloseOk,
    "Connection.Close": commands.Connection.CloseOk,
}


class FakeRabbit:
    """`now`: ms since the epoch. `fault`: what happens at which step, once; None: nothing. `refuses`: new connections.
    `listens`: whether the management shows a listener, and `has_exchange`: the event exchange."""

    base = "http://127.0.0.1:15672/api"

    def __init__(self, now: Callable[[], int]) -> None:
        self.now = now
        self.policies: dict[str, dict[str, Any]] = {}
        self.fault: tuple[str, str] | None = None
        self.refuses = False
        self.listens = self.has_exchange = True
        self.connections: list[Peer] = []
        self.attached = 0

    # -- the management -------------------------------------------------------------------------------------------

    async def request(self, method: str, path: str, **_: Any) -> Any:
        match path.removeprefix("/").split("/")[0]:
            case "overview":
                listeners = [{"protocol": "amqp", "port": 5672}] if self.listens else []
                return {"rabbitmq_version": "3.10.8", "listeners": listeners, "object_totals": {}}
            case "whoami":
                return {"name": "guest", "tags": "administrator"}
            case "exchanges" if not self.has_exchange:
                raise NotFound("no exchange")
            case "exchanges":
                return {}
            case "policies":
                return [dict(policy) for policy in self.policies.values()]
            case "queues" if "disable_stats" in (_.get("query") or {}):
                return []
            case "queues" | "connections" | "channels":
                return {"items": [], "page_count": 1}
            case "vhosts":
                return [{"name": "/"}]
            case "health":
                return {}
        return []

    async def close(self) -> None:
        pass

    def set_policy(self, length: int, user: str) -> None:
        """Change the policy, with an event for those who receive them."""
        policy = {
            "vhost": "/", "name": "theirs", "pattern": "^orders$", "apply-to": "queues", "priority": 0,
            "definition": {"max-length": length, "overflow": "reject-publish"},
        }  # fmt: skip
        self.policies["theirs"] = policy
        for peer in list(self.connections):
            peer.deliver("policy.set", {**policy, "user_who_performed_action": user, "timestamp_in_ms": self.now()})

    # -- AMQP -----------------------------------------------------------------------------------------------------

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a connection: what a client has of it."""
        if self.refuses:
            raise ConnectionRefusedError("nothing listens there")
        if self.fault is not None and self.fault[0] == "connect":
            (_, fault), self.fault = self.fault, None
            if fault == "silent":
                await asyncio.Event().wait()
            raise ConnectionResetError("cut while connecting")
        ours, theirs = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=ours)
        self.connections.append(Peer(self, reader, writer))
        return await asyncio.open_connection(sock=theirs)

    def end_all(self, fault: str) -> None:
        for peer in list(self.connections):
            peer.suffer(fault)

    async def stop(self) -> None:
        self.end_all("reset")
        await asyncio.sleep(0)


class Peer:
    """RabbitMQ's side of a connection."""

    def __init__(self, rabbit: FakeRabbit, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._rabbit, self._reader, self._writer = rabbit, reader, writer
        self._consumed, self._tag = False, ""
        self._delivered = 0
        self._tasks = [asyncio.ensure_future(self._serve()), asyncio.ensure_future(self._beat())]

    async def _serve(self) -> None:
        try:
            await self._reader.readexactly(8)
            self._receive(ProtocolHeader())
            while True:
                head = await self._reader.readexactly(7)
                size = int.from_bytes(head[3:7], "big")
                _, channel, frame = pamqp.frame.unmarshal(head + await self._reader.readexactly(size + 1))
                if not isinstance(frame, Heartbeat):
                    self._receive(frame, channel)
        except (asyncio.IncompleteReadError, OSError):
            self._end()

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(5)
            self._send(Heartbeat(), 0)

    def _receive(self, frame: Any, channel: int = 0) -> None:
        if self._comes_to(frame.name):
            return
        if isinstance(frame, ProtocolHeader):
            capabilities: FieldTable = {"basic.nack": True, "consumer_cancel_notify": True, "publisher_confirms": True}
            self._send(commands.Connection.Start(0, 9, {"capabilities": capabilities}, "PLAIN"), 0)
        elif frame.name in _ANSWERS:
            self._send(_ANSWERS[frame.name](), channel)
        elif frame.name == "Basic.Consume":
            self._send(commands.Basic.ConsumeOk(frame.consumer_tag), channel)
            self._tag, self._consumed = frame.consumer_tag, True
            self._rabbit.attached += 1
        if frame.name in ("Connection.Close", "Connection.CloseOk"):
            self._end()

    def deliver(self, key: str, headers: Mapping[str, Any]) -> None:
        if not self._consumed or self._comes_to("delivery"):
            return
        self._delivered += 1
        sent = commands.Basic.Deliver(self._tag, self._delivered, False, "amq.rabbitmq.event", key)
        properties = commands.Basic.Properties(headers=dict(headers))
        head = pamqp.frame.marshal(sent, 1)
        if self._rabbit.fault is not None and self._rabbit.fault[0] == "half a delivery":
            self._writer.write(head[: len(head) // 2])
            self._comes_to("half a delivery")
            return
        self._writer.write(head + pamqp.frame.marshal(ContentHeader(0, 0, properties), 1))

    def _comes_to(self, step: str) -> bool:
        """Return whether the connection suffers a fault at this step."""
        if self._rabbit.fault is None or self._rabbit.fault[0] != step:
            return False
        (_, fault), self._rabbit.fault = self._rabbit.fault, None
        self.suffer(fault)
        return True

    def suffer(self, fault: str) -> None:
        match fault:
            case "cut":
                self._end()
            case "reset":
                self._end()
                self._writer.transport.abort()
            case "half":
                self._consumed = False
                self._writer.write_eof()
            case "silent":
                self._consumed = False
                self._stop()
            case "closed":
                self._consumed = False
                self._send(commands.Connection.Close(320, "CONNECTION_FORCED - a test", 0, 0), 0)

    def _send(self, frame: Any, channel: int) -> None:
        if not self._writer.is_closing():
            self._writer.write(pamqp.frame.marshal(frame, channel))

    def _stop(self) -> None:
        for task in self._tasks:
            task.cancel()

    def _end(self) -> None:
        self._consumed = False
        self._stop()
        self._writer.close()
        if self in self._rabbit.connections:
            self._rabbit.connections.remove(self)
