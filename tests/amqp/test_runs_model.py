"""A broker that handles messages in runs does what one does that handles them one by one.

The same random history, of clients and of operators, goes to two brokers without sockets: what the clients see of each
delivery, and what each queue counts, is the same after every step.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from proton import Collector, Connection, Delivery, Described, Message, Terminus, Transport, symbol, ulong

from brokers.amqp import proton as pn
from brokers.amqp import runs
from brokers.amqp.connection import AmqpConnection
from brokers.amqp.container import Container
from brokers.engine.broker import Broker
from brokers.engine.registry.transaction import Transaction
from brokers.engine.values.stops import Scope
from tests.engine.fake_store import FakeStores
from tests.interop.peers import absent

NOW = 1_700_000_000_000
HOST = "default"


class Wire:
    """The socket of a connection."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.closed = False

    def write(self, data: bytes) -> None:
        self.data += data

    def close(self) -> None:
        self.closed = True

    def prefer(self) -> None: ...


class Client:
    """A client of Proton's with one connection. `sent`, `received`: deliveries, the oldest first."""

    def __init__(self, half: Half) -> None:
        self.wire = Wire()
        self.connection = Connection()
        self.connection.container, self.connection.hostname = "client", HOST
        self.collector = Collector()
        self.connection.collect(self.collector)
        self.transport = Transport()
        self.transport.sasl().allowed_mechs("ANONYMOUS")
        self.transport.bind(self.connection)
        self.connection.open()
        self.sessions = [self.connection.session(), self.connection.session()]
        for session in self.sessions:
            session.open()
        self.broker = AmqpConnection(half.container, self.wire, ("127.0.0.1", 1), anonymous=True, plain=False)
        self.senders: list[Any] = []
        self.receivers: list[Any] = []
        self.coordinator: Any = None
        self.transaction: bytes | None = None
        self.sent: list[Delivery] = []
        self.received: list[tuple[bytes, bool]] = []
        self.waiting: list[Delivery] = []  # received, not settled
        self.acknowledged: list[Delivery] = []  # accepted and not settled: the broker confirms
        self.number = 0

    @property
    def links(self) -> list[Any]:
        return [*self.senders, *self.receivers]

    def forget(self, link: Any) -> None:
        (self.senders if link in self.senders else self.receivers).remove(link)
        self.waiting = [delivery for delivery in self.waiting if delivery.link != link]

    def attach(self, kind: str, queue: str, session: int, presettled: bool) -> None:
        self.number += 1
        link = getattr(self.sessions[session], kind)(f"link-{self.number}")
        (link.target if kind == "sender" else link.source).address = queue
        if queue == TOPIC and kind == "receiver" and self.number % 2:  # a durable subscription
            link.source.durability = Terminus.DELIVERIES
            link.source.expiry_policy = Terminus.EXPIRE_NEVER
        if presettled:
            link.snd_settle_mode = link.SND_SETTLED
        link.open()
        (self.senders if kind == "sender" else self.receivers).append(link)

    def send(self, sender: Any, message: bytes, how: str, pump: Callable[[], None]) -> None:
        if sender.credit <= 0:
            return
        self.number += 1
        delivery = sender.delivery(str(self.number))
        if how == "aborted":
            sender.stream(message[:5])
            pump()
            delivery.abort()
            return
        if how.startswith("transaction") and self.transaction:
            delivery.local.data = [self.transaction]
            delivery.update(0x34)
        elif how == "odd transaction":
            delivery.local.data = ODD_IDS[self.number % len(ODD_IDS)]
            delivery.update(0x34)
        sender.stream(message)
        sender.advance()
        if how.endswith("settled"):
            delivery.settle()
        else:
            self.sent.append(delivery)

    def take(self) -> None:
        """Receive what has arrived."""
        for receiver in self.receivers:
            while (delivery := receiver.current) is not None and delivery.readable and not delivery.partial:
                self.received.append((receiver.recv(delivery.pending), delivery.settled))
                receiver.advance()
                if delivery.settled:
                    delivery.settle()
                else:
                    self.waiting.append(delivery)

    def declare(self) -> None:
        if self.coordinator is None:
            self.coordinator = self.sessions[0].sender("coordinator")
            self.coordinator.target.type = Terminus.COORDINATOR
            self.coordinator.target.capabilities.put_object(symbol("amqp:local-transactions"))
            self.coordinator.open()

    def control(self, body: Described) -> Delivery | None:
        if self.coordinator is None or self.coordinator.credit <= 0:
            return None
        self.number += 1
        delivery: Delivery = self.coordinator.delivery(str(self.number))
        self.coordinator.send(Message(body=body).encode())
        self.coordinator.advance()
        return delivery


class InOrder(dict[Any, None]):
    """A set whose elements come in the order in which they were added, in both brokers."""

    add = dict.setdefault
    update = lambda self, more: [self.add(each) for each in more]  # noqa: E731
    discard = lambda self, each: dict.pop(self, each, None)  # noqa: E731
    pop = lambda self: self.popitem()[0]  # noqa: E731


class Half:
    """One of the two brokers, with its clients. `pieces`: decides how its input is cut, in the same way for both."""

    def __init__(self, extension: Any) -> None:
        self.now = NOW
        self.stores = FakeStores()
        self.broker = Broker(NOW, stores=self.stores)
        self.broker.agenda.touched, self.broker.agenda.redispatch = InOrder(), InOrder()  # type: ignore[assignment]
        host = self.broker.create_virtualhost(HOST)
        host.create_on_attach = host.anonymous = True
        self.container = Container(self.broker, SimpleNamespace(), {}, lambda: self.now)  # type: ignore[arg-type]
        self.container.runs = extension
        for name, own in QUEUES.items():
            self.broker.create_queue(host, name, own, durable=name == "stored")
        self.container.finish()
        self.pieces = random.Random(942)
        self.facts: list[str] = []
        self.container.settle = lambda facts, records: self.facts.extend(fact.text for fact in facts) or True
        self.clients = [Client(self) for _ in range(2)]
        self.pump()

    def pump(self) -> None:
        """Carry bytes both ways until there are none."""
        moved = True
        while moved:
            moved = False
            for client in self.clients:
                moved |= self._to_broker(client)
            for client in self.clients:
                moved |= self._to_client(client)

    def _to_broker(self, client: Client) -> bool:
        transport, data = client.transport, b""
        while (pending := transport.pending()) > 0:
            data += transport.peek(pending)
            transport.pop(pending)
        at = 0
        while at < len(data) and not client.wire.closed:
            size = self.pieces.choice([len(data), len(data), 1 + self.pieces.randrange(400)])
            self.turn(
                lambda piece: client.broker.receive(pn.from_buffer("char[]", piece), len(piece)), data[at:][:size]
            )
            at += size
        return bool(data)

    def _to_client(self, client: Client) -> bool:
        data = left = bytes(client.wire.data)
        client.wire.data.clear()
        while left and (capacity := client.transport.capacity()) > 0:
            client.transport.push(left[:capacity])
            left = left[capacity:]
        collector = client.collector
        while collector.peek():
            collector.pop()
        client.take()
        return bool(data)

    def turn(self, what: Any, *arguments: Any) -> None:
        self.container.begin()
        what(*arguments)
        self.container.finish()

    @property
    def queues(self) -> list[Any]:
        return list(self.broker.virtualhosts[HOST].queues.values())

    def seen(self) -> dict[str, Any]:
        return {
            "queues": [
                (
                    q.name,
                    q.gate.state,
                    (q.gate.depth_messages, q.gate.depth_bytes, q.gate.enqueued, q.gate.rejected, len(q.gate.parked)),
                    (q.lanes.dequeued, q.lanes.dropped, q.dead_lettered, q.discarded),
                    (q.gate.ledger.reserved, q.gate.ledger.granted),
                    [(p.credit, p.withdrawn, p.messages, p.bytes, p.unsettled) for p in q.gate.producers],
                    [(c.credit, c.messages, c.unacknowledged) for c in q.dispatcher.destructive],
                )
                for q in self.queues
            ],
            "clients": [
                (
                    client.wire.closed,
                    [(d.remote_state, d.settled) for d in client.sent],
                    client.received,
                    [(d.remote_state, d.settled) for d in client.acknowledged],
                    [link.credit for link in client.senders],
                    [(link.state, link.remote_condition and link.remote_condition.name) for link in client.links],
                )
                for client in self.clients
            ],
            # Several queues of one connection may be handled in another order: each has its own order.
            "facts": {q.name: [fact for fact in self.facts if f"({q.name})" in fact] for q in self.queues},
            "count": len(self.facts),
            "stored": {name: store.stored for name, store in self.stores.by_name.items()},
        }


QUEUES: dict[str, dict[str, int | str]] = {
    "orders": {"capacity_messages": 12, "flow_resume_messages": "50%"},
    "wide": {},
    "stored": {"capacity_messages": 30},
    "ring": {"capacity_messages": 5, "overflow": "ring"},
    "rejecting": {"capacity_bytes": 2000, "mechanism": "reject"},
}

TOPIC = "topic://news"

KINDS = {
    "plain": lambda n: Message(body=str(n)),
    "medium": lambda n: Message(body="x" * 150),
    "returned": lambda n: Message(body=str(n), delivery_count=2),
    "large": lambda n: Message(body="x" * 3_000),
    "growing": lambda n: Message(body="x" * (50 * n)),
    "durable": lambda n: Message(body=str(n), durable=True),
    "urgent": lambda n: Message(body=str(n), priority=7),
    "short-lived": lambda n: Message(body=str(n), ttl=0.2),
    "late": lambda n: Message(body=str(n), annotations={symbol("x-opt-delivery-delay"): 100}),
    "jms": lambda n: Message(body=str(n), durable=True, annotations={symbol("x-opt-jms-msg-type"): 5}),
    "frames": lambda n: Message(body="x" * 70_000),
}


def pick(links: list[Any], number: int) -> Any:
    return links[number % len(links)] if links else None


def attach(half: Half, who: int, kind: str, queue: str, presettled: bool) -> None:
    client = half.clients[who]
    if len(client.links) < 18:
        client.attach(kind, queue, client.number % 2, presettled)


def send(half: Half, who: int, burst: list[tuple[int, str, str, int]]) -> None:
    """Send on several links, interleaved, before anything goes to the broker."""
    client = half.clients[who]
    for which, kind, how, count in burst:
        for number in range(count):
            if (sender := pick(client.senders, which)) is not None:
                client.send(sender, KINDS[kind](number).encode(), how, half.pump)


def credit(half: Half, who: int, which: int, count: int, drain: bool) -> None:
    if (receiver := pick(half.clients[who].receivers, which)) is not None:
        receiver.flow(count)
        receiver.drain_mode = drain


def settle(half: Half, who: int, count: int, how: str) -> None:
    client = half.clients[who]
    taken, client.waiting = client.waiting[:count], client.waiting[count:]
    for delivery in taken:
        if how == "transaction" and client.transaction:
            delivery.local.data = [client.transaction, Described(ulong(0x24), [])]
            delivery.update(0x34)
        elif how == "odd transaction":
            delivery.local.data = [client.transaction, *ODD_OUTCOMES[client.number % len(ODD_OUTCOMES)]]
            delivery.update(0x34)
        else:
            delivery.update(OUTCOMES.get(how, Delivery.ACCEPTED))
        if how == "unsettled":
            client.acknowledged.append(delivery)
        else:
            delivery.settle()


#: States of a delivery in a transaction whose id or outcome is not as usual.
ODD_IDS: list[Any] = [[], [None], [b""], [b"12345678"], [b"123456789"], ["12345678"], [[b"12345678"]]]
ODD_OUTCOMES: list[list[Any]] = [
    [],
    [None],
    [ulong(0x24)],
    [Described(symbol("amqp:accepted:list"), [])],
    [Described(ulong(0x26), [])],
    [Described(ulong(0x27), [True, True])],
    [Described(ulong(0x24), []), None],
]

OUTCOMES = {"rejected": Delivery.REJECTED, "released": Delivery.RELEASED, "modified": Delivery.MODIFIED}


def close(half: Half, who: int, which: int, detach: bool) -> None:
    client = half.clients[who]
    if (link := pick(client.links, which)) is not None:
        (link.detach if detach else link.close)()
        client.forget(link)


def transact(half: Half, who: int, what: str) -> None:
    client = half.clients[who]
    client.declare()
    half.pump()
    if what == "declare":
        if client.transaction is None and (delivery := client.control(Described(ulong(0x31), [None]))) is not None:
            half.pump()
            given = delivery.remote.data
            client.transaction = bytes(given[0]) if given else None
            delivery.settle()
    elif client.transaction is not None:
        delivery = client.control(Described(ulong(0x32), [client.transaction, what == "roll back"]))
        client.transaction = None
        if delivery is not None:
            half.pump()
            delivery.settle()


def write(half: Half, fault: bool) -> None:
    for name, store in half.stores.by_name.items():
        half.turn(lambda store=store, name=name: store.write(half.broker, name, fault=fault))


def wait(half: Half, ms: int) -> None:
    for _ in range(ms // 50):
        half.now += 50
        half.turn(half.broker.sweep)
        half.turn(half.broker.expire)
        half.turn(half.broker.release)


def lose(half: Half, who: int) -> None:
    """The connection is lost, and another one takes its place."""
    half.turn(half.clients[who].broker.lost)
    half.clients[who] = Client(half)


DO = {
    "attach": attach,
    "send": send,
    "credit": credit,
    "settle": settle,
    "close": close,
    "transact": transact,
    "write": write,
    "wait": wait,
    "lose": lose,
    "stop": lambda half: half.turn(half.broker.stopping.stop_producers, Scope(), "incident", "ann"),
    "start": lambda half: half.turn(half.broker.stopping.start_producers, Scope(), "over", "ann"),
    "capacity": lambda half, count: half.turn(half.broker.set_own_policy, half.queues[0], {"capacity_messages": count}),
    "purge": lambda half, which: half.turn(pick(half.queues, which).lanes.purge),
}

BEGIN = [
    *[("attach", 0, kind, queue, False) for queue in (*QUEUES, TOPIC) for kind in ("sender", "receiver")],
    *[("attach", 1, kind, queue, False) for queue in ("stored", TOPIC, "orders") for kind in ("sender", "receiver")],
    *[("credit", client, link, 8, False) for client in (0, 1) for link in range(6)],
]


def history(seed: int, length: int) -> list[tuple[Any, ...]]:
    chance = random.Random(seed)
    some = lambda: chance.randint(1, 25)  # noqa: E731
    odd = ["odd transaction"] if chance.random() < 0.2 else []  # they end links
    who, which = (lambda: chance.choice([0, 0, 1])), (lambda: chance.randrange(6))

    def burst() -> tuple[int, str, str, int]:
        kind = chance.choice(["plain", "durable", "medium", *KINDS])
        return (
            chance.choice([which(), 5]),
            kind,
            chance.choice([""] * 12 + ["transaction"] * 6 + ["settled", "transaction settled", "aborted"] + odd),
            some(),
        )

    make: dict[str, tuple[int, Any]] = {
        "send": (8, lambda: (who(), [burst() for _ in range(chance.randint(1, 4))])),
        "settle": (
            6,
            lambda: (
                who(),
                some(),
                chance.choice(["accepted"] * 5 + ["transaction"] * 3 + ["unsettled", *OUTCOMES, *odd]),
            ),
        ),
        "credit": (5, lambda: (who(), which(), some(), chance.random() < 0.2)),
        "write": (4, lambda: (chance.random() < 0.2,)),
        "attach": (
            1,
            lambda: (
                who(),
                chance.choice(["sender", "receiver"]),
                chance.choice([*QUEUES, TOPIC, TOPIC]),
                chance.random() < 0.3,
            ),
        ),
        "close": (1, lambda: (who(), which(), chance.random() < 0.5)),
        "transact": (3, lambda: (who(), chance.choice(["declare", "declare", "commit", "roll back"]))),
        "wait": (2, lambda: (chance.choice([50, 300]),)),
        "lose": (0.2, lambda: (who(),)),
        "stop": (0.3, tuple),
        "start": (0.6, tuple),
        "capacity": (0.5, lambda: (chance.choice([0, 5, 40]),)),
        "purge": (0.3, lambda: (which(),)),
    }
    names = chance.choices(list(make), [weight for weight, _ in make.values()], k=length)
    return [*BEGIN, *((name, *make[name][1]()) for name in names)]


@pytest.fixture(scope="module")
def extension() -> Any:
    return runs.load() or absent("the C extension brokers.amqp._runs is not built", "install gcc, and `uv sync`")


@pytest.mark.parametrize("seed", range(80))
def test_clients_and_queues_see_the_same_with_runs_and_without(extension: Any, seed: int) -> None:
    halves = [Half(extension), Half(None)]
    for number, step in enumerate(history(seed, 80)):
        for half in halves:
            DO[step[0]](half, *step[1:])
            half.pump()
        seen, expected = (half.seen() for half in halves)
        assert seen == expected, (number, step)


def test_histories_have_runs_in_transactions(extension: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else what the test above says of them would mean nothing."""
    lengths: dict[str, list[int]] = {"publish_run": [], "acknowledge_run": []}
    for name, found in lengths.items():
        usual = getattr(Transaction, name)

        def counted(
            self: Any, who: Any, run: Any, *more: Any, usual: Any = usual, found: Any = found, **of: Any
        ) -> Any:
            found.append(len(run))
            return usual(self, who, run, *more, **of)

        monkeypatch.setattr(Transaction, name, counted)
    for seed in range(25):
        half = Half(extension)
        for step in history(seed, 80):
            DO[step[0]](half, *step[1:])
            half.pump()
    assert all(len(found) > 20 and max(found) > 5 for found in lengths.values()), lengths
