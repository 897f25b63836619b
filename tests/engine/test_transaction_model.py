"""Transactions against plain lists: in any sequence of steps, each takes effect as a whole or not at all."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from brokers.engine.queues.queue import Message, Queue
from brokers.engine.registry.transaction import Acknowledgement, State, Transaction
from brokers.engine.values.message import PLAIN, Header
from brokers.testing import InMemoryBroker
from tests.engine.fake_store import FakeStores
from tests.engine.ports import Link

CAPACITY = 12


class Client:
    """A client with a producer and a consumer of each queue, and its actions in the open transaction."""

    def __init__(self, broker: InMemoryBroker, queues: list[Queue]) -> None:
        engine = broker.engine
        self.connection = broker._client("default")
        self.producers = [engine.attach_producer(self.connection, q, "s", 0, Link()) for q in queues]
        self.consumers = [engine.attach_consumer(self.connection, q, "r", Link(), browsing=False) for q in queues]
        self.acquired: list[tuple[int, Message]] = []  # (queue, message)
        self.transaction: Transaction | None = None
        self.sent: list[tuple[int, bytes]] = []  # in it
        self.acknowledged: list[tuple[int, Message, bool]] = []  # in it; whether it is removed


class TransactionModel(RuleBasedStateMachine):
    """`contents`: the available messages of two queues, a durable and a transient one, in order. `unsafe`: messages
    that become visible in the durable queue when the store has confirmed them."""

    def __init__(self) -> None:
        super().__init__()
        self.broker = InMemoryBroker()
        engine = self.broker.engine
        self.stores = FakeStores()
        engine.stores.provider = self.stores
        engine.turn.header = lambda body: Header(durable=True) if body.startswith(b"D") else PLAIN
        host = engine.virtualhost("default")
        policy = {"capacity_messages": CAPACITY}
        self.queues = [
            engine.create_queue(host, "d", policy, durable=True),
            engine.create_queue(host, "t", policy),
        ]
        self.store = self.stores.by_name["default"]
        self.clients = [Client(self.broker, self.queues) for _ in range(2)]
        self.over: list[Client] = []  # with a commit that the store has not answered
        self.contents: list[list[bytes]] = [[], []]
        self.unsafe: set[bytes] = set()
        self.in_doubt: dict[Client, list[bytes]] = {}
        self.count = 0
        self.broker._end_turn()

    def end_turn(self) -> None:
        self.broker._end_turn()

    def body(self, durable: bool) -> bytes:
        self.count += 1
        return b"%s%d" % (b"D" if durable else b"T", self.count)

    # -- what clients do ------------------------------------------------------------------------------------------

    def in_transaction(self, client: Client) -> Transaction | None:
        """Return the client's open transaction, declared if necessary; None while a commit is unanswered."""
        if client.transaction is None:
            client.transaction = self.broker.engine.transactions.declare(client.connection, Link())
        assert client.transaction is not None
        return client.transaction if client.transaction.state is State.OPEN else None

    @rule(who=st.integers(0, 1), where=st.integers(0, 1), durable=st.booleans(), count=st.integers(1, 5))
    def send(self, who: int, where: int, durable: bool, count: int) -> None:
        client = self.clients[who]
        transaction = self.in_transaction(client)
        for _ in range(count):
            if transaction is None or not client.producers[where].credit:
                break
            body = self.body(durable)
            assert transaction.publish(client.producers[where], body, unsettled=True)
            client.sent.append((where, body))
            self.end_turn()

    @rule(who=st.integers(0, 1), where=st.integers(0, 1), durable=st.booleans(), count=st.integers(1, 20))
    def send_run(self, who: int, where: int, durable: bool, count: int) -> None:
        client, queue = self.clients[who], self.queues[where]
        producer, transaction = client.producers[where], self.in_transaction(client)
        count = min(count, queue.run_allowance(producer).messages)
        if transaction is None or not count:
            return
        bodies = [self.body(durable) for _ in range(count)]
        transaction.publish_run(producer, bodies, sum(map(len, bodies)), durable=durable)
        client.sent += [(where, body) for body in bodies]
        self.end_turn()

    @rule(who=st.integers(0, 1), where=st.integers(0, 1), count=st.integers(1, 5))
    def send_in_none(self, who: int, where: int, count: int) -> None:
        for _ in range(count):
            producer = self.clients[who].producers[where]
            if producer.credit:
                body = self.body(durable=False)
                assert self.queues[where].publish(producer, body)
                self.contents[where].append(body)
                self.end_turn()

    def visible(self, where: int) -> list[bytes]:
        line = self.contents[where]
        return line[: next((at for at, body in enumerate(line) if body in self.unsafe), len(line))]

    @precondition(lambda self: self.visible(0) or self.visible(1))
    @rule(who=st.integers(0, 1), count=st.integers(1, 4), data=st.data())
    def take(self, who: int, count: int, data: st.DataObject) -> None:
        client = self.clients[who]
        where = data.draw(st.sampled_from([w for w in (0, 1) if self.visible(w)]))
        consumer = client.consumers[where]
        consumer.credit = count
        self.queues[where].touch()
        self.end_turn()
        consumer.credit = 0
        got, self.broker.acquired = [m for _, m in self.broker.acquired], []
        assert [m[1] for m in got] == self.visible(where)[:count]
        del self.contents[where][: len(got)]
        client.acquired += [(where, m) for m in got]

    @precondition(lambda self: any(c.acquired for c in self.clients))
    @rule(removes=st.booleans(), settled=st.booleans(), data=st.data())
    def acknowledge(self, removes: bool, settled: bool, data: st.DataObject) -> None:
        client = data.draw(st.sampled_from([c for c in self.clients if c.acquired]))
        transaction = self.in_transaction(client)
        if transaction is None:
            return
        where, message = client.acquired.pop(0)
        transaction.acknowledge(
            Acknowledgement(
                client.consumers[where], message, removes=removes, failed=False, barred=False, settled=settled
            )
        )
        client.acknowledged.append((where, message, removes))

    @precondition(lambda self: any(c.acquired for c in self.clients))
    @rule(data=st.data())
    def acknowledge_run(self, data: st.DataObject) -> None:
        client = data.draw(st.sampled_from([c for c in self.clients if c.acquired]))
        transaction = self.in_transaction(client)
        if transaction is None:
            return
        where = client.acquired[0][0]
        run = [message for w, message in client.acquired if w == where]
        client.acquired = [(w, message) for w, message in client.acquired if w != where]
        transaction.acknowledge_run(client.consumers[where], run)
        client.acknowledged += [(where, message, True) for message in run]

    @precondition(lambda self: self.busy())
    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        client = data.draw(st.sampled_from(self.busy()))
        transaction = self.in_transaction(client)
        assert transaction is not None
        self.broker.engine.transactions.commit(transaction)
        assert transaction.state in (State.COMMITTED, State.WRITING)
        if transaction.state is State.COMMITTED:
            self.committed(client)
        else:
            self.over.append(client)
            self.contents[0] += (durable := [body for where, body in client.sent if where == 0])
            self.unsafe.update(durable)
            client.sent = [(where, body) for where, body in client.sent if where == 1]
            self.in_doubt[client] = durable
        self.end_turn()

    @precondition(lambda self: self.busy())
    @rule(data=st.data())
    def roll_back(self, data: st.DataObject) -> None:
        client = data.draw(st.sampled_from(self.busy()))
        transaction = self.in_transaction(client)
        assert transaction is not None
        self.broker.engine.transactions.roll_back(transaction)
        self.rolled_back(client)
        self.end_turn()

    def busy(self) -> list[Client]:
        """Return the clients with actions in an open transaction."""
        return [c for c in self.clients if c not in self.over and (c.sent or c.acknowledged)]

    @precondition(lambda self: self.over)
    @rule(data=st.data())
    def write(self, data: st.DataObject) -> None:
        fates = [data.draw(st.booleans()) for _ in self.over]
        numbers = [c.transaction.number for c in self.over if c.transaction is not None]
        refused = [number for number, fate in zip(numbers, fates, strict=True) if not fate]
        self.store.write(self.broker.engine, refused=refused)
        self.unsafe = set()
        for client, fate in zip(self.over, fates, strict=True):
            durable = self.in_doubt.pop(client)
            assert client.transaction is not None
            assert client.transaction.state is (State.COMMITTED if fate else State.ROLLED_BACK)
            if fate:
                self.committed(client)
            else:
                assert client.transaction.fault is not None
                self.contents[0] = [body for body in self.contents[0] if body not in durable]
                self.rolled_back(client)
        self.over = []
        self.end_turn()

    # -- expectations ---------------------------------------------------------------------------------------------

    def committed(self, client: Client) -> None:
        for where, body in client.sent:
            self.contents[where].append(body)
        for where, message, removes in client.acknowledged:
            if not removes:
                self.give_back(where, message)
        self.begin_again(client)

    def rolled_back(self, client: Client) -> None:
        transaction = client.transaction
        assert transaction is not None
        for (where, message, _), acknowledgement in zip(client.acknowledged, transaction.acknowledged, strict=True):
            if acknowledgement.settled:
                self.give_back(where, message)
                assert self.queues[where].lanes.deliveries[message[0]]
            else:
                assert acknowledgement.returned
                client.acquired.append((where, message))
        self.begin_again(client)

    def give_back(self, where: int, message: Message) -> None:
        numbers = {
            body: number for number, body in [*self.queues[where].lanes.returned, *self.queues[where].lanes.usual.ready]
        }
        assert numbers[message[1]] == message[0]
        line = self.contents[where]
        line.insert(sum(numbers.get(body, message[0] + 1) < message[0] for body in line), message[1])

    def begin_again(self, client: Client) -> None:
        client.transaction, client.sent, client.acknowledged = None, [], []

    @invariant()
    def everything_is_counted_once(self) -> None:
        for where, queue in enumerate(self.queues):
            sent = [b for c in self.clients for w, b in c.sent if w == where]
            away = [m for c in self.clients for w, m in c.acquired if w == where]
            away += [m for c in self.clients for w, m, _ in c.acknowledged if w == where]
            assert queue.gate.depth_messages == len(self.contents[where]) + len(sent) + len(away)
            assert queue.gate.depth_messages <= CAPACITY + 1
            assert queue.lanes.unacknowledged == len(away)
            assert [m[1] for m in queue.lanes.copies(queue.lanes.usual, 0, 100)] == self.visible(where)

    @invariant()
    def what_is_stored_is_what_has_been_committed(self) -> None:
        if not self.over:
            there = {b for b in self.contents[0] if b.startswith(b"D")}
            there |= {m[1] for c in self.clients for w, m in c.acquired if w == 0 and m[1].startswith(b"D")}
            there |= {m[1] for c in self.clients for w, m, _ in c.acknowledged if w == 0 and m[1].startswith(b"D")}
            assert set(self.store.stored.values()) == there

    def teardown(self) -> None:
        for client in self.clients:
            self.broker.engine.close_connection(client.connection)
        self.store.write(self.broker.engine)
        assert not self.broker.engine.transactions._open
        assert [q.gate.uncommitted_messages for q in self.queues] == [0, 0]


TransactionModel.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestTransactions = TransactionModel.TestCase
