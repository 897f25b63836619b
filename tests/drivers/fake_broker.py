"""The broker's end of a driver's connection, controlled by a test: it answers, falls silent, or disconnects.

Proton's server side on an asyncio socket. SASL is Proton's own for ANONYMOUS and none at all otherwise, so sign-in is
answered by the broker's own SASL layer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from proton import Collector, Condition, Connection, Delivery, Described, Event, Link, Message, Transport, symbol

from brokers.amqp.sasl import SaslServer
from brokers.model import TYPES
from brokers.server.management_draft import capabilities

Answer = Callable[[Message], Message | None]


def answer_to(request: Message, body: Any, status: int = 200, **properties: Any) -> Message:
    return Message(
        body=body,
        correlation_id=request.correlation_id,
        properties={"statusCode": status, "statusDescription": "as configured", **properties},
    )


def discovery(request: Message) -> Message | None:
    """What a broker of this release answers about its types."""
    match request.properties["operation"]:
        case "GET-CAPABILITIES":
            return answer_to(request, {name: capabilities(declared) for name, declared in TYPES.items()})
        case "GET-TYPES":
            return answer_to(request, {name: [] for name in TYPES})
        case "GET-ATTRIBUTES":
            return answer_to(request, {t.name: [a.name for a in t.attributes] for t in TYPES.values()})
        case "GET-OPERATIONS":
            return answer_to(
                request,
                {t.name: {o.name: [a.name for a in o.arguments] for o in t.operations} for t in TYPES.values()},
            )
    return None


class Users:
    def check_plain(self, name: str, password: str) -> bool:
        return (name, password) == ("console", "secret")

    def scram(self) -> Callable[[str], None]:
        return lambda _name: None


class FakeBroker:
    """`answer` gets every management request; None sends nothing. `refuse`: address -> condition that ends a
    link from or to it."""

    def __init__(self) -> None:
        self.answer: Answer = lambda request: answer_to(request, {})
        self.refuse: dict[str, Condition] = {}
        self.requests: list[Message] = []
        self.request_credit = 100
        self.peers: list[Peer] = []
        self.sign_in = True
        self.open_connections = True
        self.attached: asyncio.Queue[tuple[Peer, Link]] = asyncio.Queue()
        self.flowed = asyncio.Event()
        self.port = 0

    async def __aenter__(self) -> FakeBroker:
        self._server = await asyncio.get_running_loop().create_server(lambda: Peer(self), "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for peer in self.peers:
            peer.break_off()
        await self._server.wait_closed()


class Peer(asyncio.Protocol):
    """One connection at the fake broker."""

    def __init__(self, broker: FakeBroker) -> None:
        self.broker = broker
        self.sasl = SaslServer(Users(), anonymous=False, plain=True)
        self.connection, self.collector = Connection(), Collector()
        self.connection.collect(self.collector)
        self.transport = Transport(Transport.SERVER)
        self.transport.max_frame_size = 4096
        self.transport.bind(self.connection)
        self.reply_links: dict[str, Link] = {}
        self.gone = asyncio.get_running_loop().create_future()
        self.closed_properly = False
        self.silent = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.socket = transport
        self.broker.peers.append(self)

    def connection_lost(self, _exc: Exception | None) -> None:
        self.gone.set_result(None)

    def break_off(self) -> None:
        self.socket.abort()

    def data_received(self, data: bytes) -> None:
        if self.silent or not self.broker.sign_in:
            return
        if not self.sasl.done:
            self.socket.write(self.sasl.receive(data))
            if self.sasl.failed:
                self.socket.close()
            if not self.sasl.done:
                return
            data = self.sasl.rest
        while data:
            size = self.transport.capacity()
            self.transport.push(data[:size])
            data = data[size:]
        self.pump()

    def pump(self) -> None:
        while (event := self.collector.peek()) is not None:
            self.on_event(event)
            self.collector.pop()
        while not self.silent and (pending := self.transport.pending()) > 0:
            data = self.transport.peek(pending)
            self.socket.write(data)
            self.transport.pop(len(data))

    def on_event(self, event: Event) -> None:
        if event.type == Event.CONNECTION_REMOTE_OPEN:
            if self.broker.open_connections:
                self.connection.open()
        elif event.type == Event.SESSION_REMOTE_OPEN:
            event.session.open()
        elif event.type == Event.LINK_REMOTE_OPEN:
            self.on_link(event.link)
        elif event.type == Event.LINK_FLOW:
            self.broker.flowed.set()
        elif event.type == Event.LINK_REMOTE_CLOSE:
            event.link.close()
        elif event.type == Event.CONNECTION_REMOTE_CLOSE:
            self.closed_properly = True
            self.connection.close()
        elif event.type == Event.DELIVERY and event.link.is_receiver:
            self.on_request(event.link)

    def on_link(self, link: Link) -> None:
        address = link.remote_source.address if link.is_sender else link.remote_target.address
        link.source.copy(link.remote_source)
        link.target.copy(link.remote_target)
        link.snd_settle_mode = link.remote_snd_settle_mode
        link.open()
        if condition := self.broker.refuse.get(address):
            link.condition = condition
            link.close()
        elif link.is_receiver:
            link.flow(self.broker.request_credit)
        elif address == "$management":
            self.reply_links[link.remote_target.address] = link
        else:
            self.broker.attached.put_nowait((self, link))

    def on_request(self, link: Link) -> None:
        while (delivery := link.current) is not None and delivery.readable and not delivery.partial:
            request = Message()
            request.decode(link.recv(delivery.pending))
            delivery.update(Delivery.ACCEPTED)
            link.advance()
            delivery.settle()
            link.flow(1)
            self.broker.requests.append(request)
            answer = discovery(request) or self.broker.answer(request)
            if answer is not None:
                self.send(self.reply_links[request.reply_to], answer)

    def send(self, link: Link, message: Message) -> None:
        message.send(link)
        self.pump()

    def end(self, link: Link, condition: Condition | None) -> None:
        link.condition = condition
        link.close()
        self.pump()


def after_filter(link: Link) -> Any:
    """Return the event number after which the client starts; None without a filter."""
    data = link.remote_source.filter
    data.rewind()
    if not data.next():
        return None
    value = data.get_object()[symbol("headgate:after")]
    assert isinstance(value, Described)
    assert value.descriptor == "headgate:after"
    return value.value
