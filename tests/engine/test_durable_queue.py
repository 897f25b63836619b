"""A durable queue against a plain list: what is seen when and in which order, what is stored, what a crash leaves."""

from __future__ import annotations

from unittest import mock

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from brokers.engine import deep_queue, durable_queue
from brokers.engine.durable_queue import DurableQueue
from brokers.engine.message import NEVER, PLAIN, Header
from brokers.engine.queue import Message
from brokers.managed import object_name
from brokers.testing import InMemoryBroker
from tests.engine.fake_store import FakeStore, FakeStores

NAME = object_name("Queue", virtualhost="default", name="q")

#: Small, so that the backlog, loads and the limit of loads in a turn all come into it.
SMALL = {"READY_MESSAGES": 4, "READY_BYTES": 120}
SMALL_LOADS = {"LOAD_MESSAGES": 3, "LOAD_BYTES": 60, "LOADS": 2}


class DurableQueueModel(RuleBasedStateMachine):
    """`line`: (body, safe) of what is in the queue and with nobody, in order. A body that begins with D is durable."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = [
            mock.patch.multiple(durable_queue, **SMALL),
            mock.patch.multiple(deep_queue, **SMALL_LOADS),
        ]
        for patch in self.patches:
            patch.start()
        self.stores = FakeStores()
        self.line: list[tuple[bytes, bool]] = []
        self.held: list[Message] = []
        self.count = 0
        self.records: list[tuple[str, str, dict[str, object]]] = []
        self.begin()

    def teardown(self) -> None:
        for patch in self.patches:
            patch.stop()

    def begin(self) -> None:
        self.broker = InMemoryBroker()
        engine = self.broker.engine
        engine.stores = self.stores
        engine.turn.header = lambda body: Header(durable=True) if body.startswith(b"D") else PLAIN
        host = engine.virtualhost("default")
        engine.last_store_id = 0
        queue = engine.create_queue(host, "q", durable=True)
        assert isinstance(queue, DurableQueue)
        self.queue, self.store = queue, self.stores.by_name["default"]
        rows = [(q, number, len(body), 0, NEVER) for (q, number), body in sorted(self.store.stored.items())]
        assert engine.recover(host, rows) == len(rows)
        self.producer = self.broker.attach_producer("q")
        self.consumer = self.broker.attach_consumer("q")

    @property
    def visible(self) -> list[bytes]:
        """What a consumer may have: all before the first that is not safe yet."""
        bodies = []
        for body, safe in self.line:
            if not safe:
                break
            bodies.append(body)
        return bodies

    @rule(durable=st.lists(st.booleans(), min_size=1, max_size=12), size=st.integers(0, 50))
    def publish(self, durable: list[bool], size: int) -> None:
        for each in durable:
            self.count += 1
            body = b"%c%d" % (b"T"[0] if not each else b"D"[0], self.count) + b"." * size
            self.producer.credit = 1
            self.queue.ledger.reserved += 1
            assert self.queue.publish(self.producer, body)
            self.line.append((body, not each))
        self.broker._end_turn()

    @rule(fault=st.booleans())
    def write(self, fault: bool) -> None:
        self.store.write(self.broker.engine, fault=fault)
        self.broker._end_turn()
        self.line = [(body, True) for body, safe in self.line if safe or not fault]

    @rule(count=st.integers(1, 15))
    def take(self, count: int) -> None:
        self.consumer.credit = count
        self.queue.touch()
        self.broker._end_turn()
        got = [message for _, message in self.broker.acquired]
        self.broker.acquired.clear()
        self.consumer.credit = 0
        assert [body for _, body in got] == self.visible[:count]
        self.line = self.line[len(got) :]
        self.held += got

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        message = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
        ticket = self.queue.remove(self.consumer, message)
        assert bool(ticket) == message[1].startswith(b"D")
        self.broker._end_turn()

    @precondition(lambda self: self.held)
    @rule(failed=st.booleans())
    def give_back(self, failed: bool) -> None:
        for message in self.held:
            self.queue.put_back(self.consumer, message, failed=failed)
        self.line = [(body, True) for _, body in sorted(self.held)] + self.line
        self.held = []

    @rule(count=st.integers(1, 6))
    def drop_oldest(self, count: int) -> None:
        for _ in range(count):
            if self.queue.drop_oldest():
                self.line.pop(0)
        assert self.queue.drop_oldest() is False or self.line.pop(0)

    @rule()
    def purge(self) -> None:
        count = self.queue.purge()
        assert count == len(self.visible)
        self.line = self.line[count:]

    @rule(seen=st.integers(0, 60), count=st.integers(1, 10))
    def browse(self, seen: int, count: int) -> None:
        found = self.queue.copies(seen, count)
        assert [number for number, _ in found] == sorted(number for number, _ in found)
        assert all(number > seen for number, _ in found)
        every = self.queue.copies(0, 1)
        assert [body for _, body in every] == self.visible[:1]
        self.broker._end_turn()

    @rule()
    def restart(self) -> None:
        """All that was only buffered is gone, and so is what is not durable; what consumers hold comes back."""
        kept = set(self.store.stored.values())
        self.store.puts, self.store.removed = [], []
        everything = [body for _, body in sorted(self.held)] + [body for body, _ in self.line]
        self.line = [(body, True) for body in everything if body in kept]
        self.held = []
        # What was settled, and not yet out of the store, is there again: nobody had been told.
        again = [body for _, body in sorted(self.store.stored.items()) if (body, True) not in self.line]
        self.begin()
        in_order = [body for _, body in sorted(self.store.stored.items())]
        self.line = sorted([*self.line, *((body, True) for body in again)], key=lambda e: in_order.index(e[0]))

    @invariant()
    def depth_and_places_agree(self) -> None:
        queue = self.queue
        assert queue.depth_messages == len(self.line) + len(self.held)
        assert queue.depth_bytes == sum(len(b) for b, _ in self.line) + sum(len(b) for _, b in self.held)
        assert queue.unacknowledged == len(self.held)
        assert 0 <= queue.memory_bytes <= queue.depth_bytes
        waiting = {body for _, _, body in self.store.puts} | set(self.store.stored.values())
        durable = [b for b, _ in self.line if b.startswith(b"D")] + [b for _, b in self.held if b.startswith(b"D")]
        assert set(durable) <= waiting
        assert queue.stored == len(durable)

    @invariant()
    def what_nobody_told_is_not_pending_for_ever(self) -> None:
        assert (self.queue in self.broker.engine.turn.unsafe) or not (self.queue.unsafe or self.queue.removing)


DurableQueueModel.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestDurableQueueModel = DurableQueueModel.TestCase


def test_a_store_that_cannot_be_read_holds_up_its_queue_and_loses_nothing() -> None:
    broker = InMemoryBroker()
    broker.engine.stores = FakeStores()
    broker.engine.turn.header = lambda body: Header(durable=True)
    broker.management.create(NAME, {"durable": True})
    store = broker.engine.virtualhost("default").store
    queue = broker.engine.queue("default", "q")
    assert isinstance(store, FakeStore)
    with mock.patch.multiple(durable_queue, **SMALL), mock.patch.multiple(deep_queue, **SMALL_LOADS):
        assert broker.publish(broker.attach_producer("q"), 20) == 20
        store.write(broker.engine)
        store.readable = False
        consumer = broker.attach_consumer("q")
        consumer.credit = 20
        queue.touch()
        broker.advance(1000)
        assert len(broker.acquired) < 20
        assert queue.depth_messages == 20
        store.readable = True
        broker.advance(1000)
        assert [message[0] for _, message in broker.acquired] == list(range(1, 21))
