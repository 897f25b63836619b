"""Record what real clients send to a broker: `uv run python -m tests.faults.record` writes `recorded/*.hex`.

Each conversation goes through a relay that keeps the client's bytes. Message bodies are runs of one letter where they
are large, so that the files stay small.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from proton import UNDESCRIBED, Array, Data, Message, Terminus, symbol, uint, ulong
from proton.reactor import Container, DurableSubscription, LinkOption, Selector
from proton.utils import BlockingConnection, SendException
from scramp import ScramClient

from brokers.drivers.bundled import BundledBroker
from brokers.model import object_name
from tests.amqp.frames import AMQP_HEADER, CLOSE, FLOW, OPEN, SASL_HEADER, TRANSFER, Peer, described, frame
from tests.faults.nursery import nursery
from tests.faults.recordings import FOLDER, NAME, PASSWORD, frames, write


class Relay:
    """A port that passes connections on to another one. `sent`: what came from the client."""

    def __init__(self, port: int) -> None:
        self.target = port
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port = self.server.getsockname()[1]
        self.sent = b""
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        client, _ = self.server.accept()
        broker = socket.create_connection(("127.0.0.1", self.target))
        back = threading.Thread(target=self._pass, args=(broker, client, False), daemon=True)
        back.start()
        self._pass(client, broker, True)
        back.join()
        client.close()
        broker.close()
        self.server.close()

    def _pass(self, source: socket.socket, target: socket.socket, keep: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if keep:
                    self.sent += data
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)


class _Topic(LinkOption):  # type: ignore[misc]
    def apply(self, link: Any) -> None:
        terminus = link.source if link.is_receiver else link.target
        terminus.capabilities.put_object(Array(UNDESCRIBED, Data.SYMBOL, symbol("topic")))


class _Copy(LinkOption):  # type: ignore[misc]
    def apply(self, link: Any) -> None:
        link.source.distribution_mode = Terminus.DIST_MODE_COPY


def _connect(port: int, **options: Any) -> Any:
    given = {"allowed_mechs": "ANONYMOUS", "virtual_host": NAME, **options}
    container = Container()
    container.container_id = "recorded"
    return BlockingConnection(f"127.0.0.1:{port}", timeout=10, container=container, **given)


def _work(port: int) -> None:
    """A producer, a consumer and a browser of one queue."""
    connection = _connect(port)
    sender = connection.create_sender("work", name="sends")
    for number in range(4):
        sender.send(Message(body={"order": number}, durable=number % 2 == 0, priority=number, ttl=60_000))
    browser = connection.create_receiver("work", name="looks", credit=4, options=_Copy())
    browser.receive()
    receiver = connection.create_receiver("work", name="takes", credit=4)
    for settle in (receiver.accept, receiver.release, receiver.reject, receiver.accept):
        receiver.receive()
        settle()
    for link in (browser, receiver, sender):
        link.close()
    connection.close()


def _selectors(port: int) -> None:
    """Consumers with selectors."""
    connection = _connect(port)
    sender = connection.create_sender("chosen")
    for number in range(4):
        sender.send(Message(body="x", properties={"colour": "red", "size": number, "cheap": number < 2}))
    for text in ("colour = 'red' AND size BETWEEN 1 AND 2", "colour LIKE 'r%' AND NOT (cheap OR size IN ('1'))"):
        receiver = connection.create_receiver("chosen", name=text[:6], credit=2, options=Selector(text))
        receiver.receive()
        receiver.accept()
        receiver.close()
    connection.close()


def _durable_subscription(port: int) -> None:
    """A durable subscription to a topic, to which its client reconnects."""
    connection = _connect(port)
    subscribe = [_Topic(), DurableSubscription()]
    receiver = connection.create_receiver("news", name="mine", credit=5, options=subscribe)
    sender = connection.create_sender("news", options=_Topic())
    for number in range(3):
        sender.send(Message(body=number, subject="news", durable=True))
    receiver.receive()
    receiver.accept()
    receiver.link.detach()
    sender.send(Message(body="by now it is detached", durable=True))
    receiver = connection.create_receiver("news", name="mine", credit=5, options=subscribe)
    receiver.receive()
    receiver.accept()
    receiver.close()
    connection.close()


def _transactions(port: int) -> None:
    """Two transactions that publish and consume: one is committed, one rolled back."""
    peer = Peer(port).open(hostname=NAME)
    peer.attach(None, name="control", handle=0, target=described(0x30))
    peer.attach("orders", name="out", handle=1)
    peer.attach("orders", name="in", handle=2, role=True)
    peer.give_credit(10, handle=2)
    for fail in (False, True):
        peer.transfer(Message(body=described(0x31)).encode(), handle=0)
        declared = peer.expect(0x15).field(4)
        transaction = bytes(declared.value[0])
        for _ in range(2):
            peer.transfer(handle=1, state=described(0x34, transaction))
        peer.transfer(Message(body="no transaction").encode(), handle=1)
        taken = peer.expect(TRANSFER)
        state = described(0x34, transaction, described(0x24))
        peer.write(frame(0x15, True, uint(int(taken.field(1))), None, True, state))
        peer.transfer(Message(body=described(0x32, transaction, fail)).encode(), handle=0)
        while peer.expect(0x15).field(4).descriptor != 0x24:
            pass
    peer.write(frame(CLOSE))
    peer.expect_end()


def _large(port: int) -> None:
    """A message of several frames."""
    connection = _connect(port)
    connection.create_sender("large").send(Message(body="x" * 200_000, durable=True))
    receiver = connection.create_receiver("large", credit=1)
    receiver.receive()
    receiver.accept()
    connection.close()


def _anonymous_sender(port: int) -> None:
    """A sender without an address, whose messages name their queues."""
    connection = _connect(port)
    sender = connection.create_sender(None)
    for queue in ("one", "two", "one"):
        sender.send(Message(address=queue, body="x", id=ulong(7), correlation_id="c", reply_to="one"))
    with contextlib.suppress(SendException):
        sender.send(Message(address="", body="to no queue"))
    connection.close()


def _ignores_credit(port: int) -> None:
    """An old client: it sends without credit, settled and unsettled, and leaves a message unfinished."""
    peer = Peer(port).open(hostname=NAME)
    peer.attach("small", name="sends", handle=0)
    for number in range(30):
        peer.transfer(b"\x00\x53\x75\xa0\x04" + number.to_bytes(4, "big"), settled=number % 3 == 0)
    peer.write(frame(FLOW, uint(0), uint(2048), uint(30), uint(2048), uint(0), uint(30), uint(0), uint(99), None, True))
    peer.transfer(b"\x00\x53\x75\xa0\x40half", more=True)
    peer.transfer(b"of it", more=True, aborted=True, number=30)
    peer.write(frame(CLOSE))
    peer.expect_end()


def _credit(port: int) -> None:
    """A hand-made consumer: credit given, taken back, drained, and an empty frame between."""
    peer = Peer(port)
    peer.open(hostname=NAME, idle_timeout=30_000)
    peer.attach("drained", name="takes", handle=0, role=True)
    peer.attach("drained", name="sends", handle=1)
    peer.expect(FLOW)
    for _ in range(3):
        peer.transfer(handle=1)
    for credit, drain in ((2, False), (0, False), (10, True)):
        peer.give_credit(credit, drain=drain)
    peer.write(b"\x00\x00\x00\x08\x02\x00\x00\x00")
    peer.write(frame(0x15, True, uint(0), uint(1), True, described(0x24)))
    peer.write(frame(0x15, True, uint(2), None, True, described(0x27, True, True, {symbol("why"): "x"})))
    peer.write(frame(0x16, uint(0), True))
    peer.write(frame(0x17))
    peer.write(frame(CLOSE))
    peer.expect_end()


def _management(port: int) -> None:
    """A manager of a virtual host: queries, a queue created, changed, stopped, read and deleted."""

    async def manage() -> None:
        broker = await BundledBroker.connect("127.0.0.1", port, NAME, PASSWORD)
        name = object_name("Queue", virtualhost=NAME, name="managed")
        for kind in ("Queue", "Producer", "VirtualHost", "Policy"):
            await broker.query(kind)
        await broker.create(name, {"durable": True, "capacity_messages": 10})
        await broker.update(name, {"capacity_messages": 20}, version=1)
        await broker.call(name, "stop-producers", {"reason": "recorded"})
        await broker.call(name, "start-producers", {})
        await broker.read(name)
        await broker.delete(name)
        await broker.close()

    asyncio.run(manage())


def _sasl_plain(port: int) -> None:
    """Signed in with PLAIN."""
    connection = _connect(port, allowed_mechs="PLAIN", user=NAME, password=PASSWORD)
    connection.create_sender("signed").send(Message(body="in"))
    connection.close()


def _sasl_scram(port: int) -> None:
    """Signed in with SCRAM-SHA-256, whose second answer fits that conversation only."""
    scram = ScramClient(["SCRAM-SHA-256"], NAME, PASSWORD)
    peer = Peer(port)
    first = scram.get_client_first().encode()
    peer.write(SASL_HEADER + frame(0x41, symbol("SCRAM-SHA-256"), first, "host", kind=1))
    scram.set_server_first(_said(peer, 0x42))
    peer.write(frame(0x43, scram.get_client_final().encode(), kind=1))
    scram.set_server_final(_said(peer, 0x44, 1))
    peer.write(AMQP_HEADER + frame(OPEN, "scram", NAME) + frame(0x11, None, uint(0), uint(9), uint(9)))
    peer.write(frame(CLOSE))
    peer.expect_end()


def _said(peer: Peer, code: int, field: int = 0) -> str:
    """The text in a field of the next SASL frame of this kind."""
    while True:
        head = _exactly(peer, 8)
        if head[:4] == b"AMQP":
            continue
        data = Data()
        data.decode(_exactly(peer, int.from_bytes(head[:4], "big") - 8))
        data.rewind()
        data.next()
        value = data.get_object()
        if value.descriptor == code:
            return bytes(value.value[field]).decode()


def _exactly(peer: Peer, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = peer.socket.recv(count - len(data))
        assert more, "the broker has closed the connection"
        data += more
    return data


CONVERSATIONS: dict[str, Callable[[int], None]] = {
    "anonymous_sender": _anonymous_sender,
    "credit": _credit,
    "durable_subscription": _durable_subscription,
    "ignores_credit": _ignores_credit,
    "large": _large,
    "management": _management,
    "sasl_plain": _sasl_plain,
    "sasl_scram": _sasl_scram,
    "selectors": _selectors,
    "transactions": _transactions,
    "work": _work,
}


async def _prepare(data: Path, port: int) -> None:
    """The virtual host and the user of the recordings."""
    secret = (data / "console.secret").read_text().strip()
    broker = await BundledBroker.connect("127.0.0.1", port, "console", secret)
    host = {"anonymous": True, "create_on_attach": True, "durable_queues": True}
    await broker.create(object_name("VirtualHost", name=NAME), host)
    grants = [f"{NAME}:publish,consume,manage"]
    await broker.create(object_name("User", name=NAME), {"password": PASSWORD, "grants": grants})
    await broker.close()


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, nursery(Path(folder) / "data") as brokers:
        pid, port = brokers.start()
        asyncio.run(_prepare(Path(folder) / "data", port))
        for name, converse in CONVERSATIONS.items():
            relay = Relay(port)
            converse(relay.port)
            relay.thread.join(10)
            write(name, str(converse.__doc__).splitlines()[0], relay.sent)
            print(f"{name}: {len(frames(relay.sent))} frames, {len(relay.sent):,} bytes")
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
