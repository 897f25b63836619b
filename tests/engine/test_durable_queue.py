"""A durable queue against a plain list: visibility, order, expiry, and what survives a crash."""

from __future__ import annotations

from unittest import mock

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from brokers.engine.flow.usage import Usage
from brokers.engine.queues import dispatching, durable_storage, lanes, purging
from brokers.engine.queues.queue import Message
from brokers.engine.values.message import NEVER, PLAIN, Header
from brokers.model import object_name
from brokers.testing import InMemoryBroker
from tests.engine.fake_store import FakeStore, FakeStores
from tests.engine.ports import Link

NAME = object_name("Queue", virtualhost="default", name="q")

#: Small, so that the test reaches the backlog, loads and the limit of loads in a turn.
SMALL = {"READY_MESSAGES": 4, "READY_BYTES": 120}
SMALL_LOADS = {"LOAD_MESSAGES": 3, "LOAD_BYTES": 60}


def header(body: bytes) -> Header:
    """Return the header of a body `D|T number priority ttl filling`: D is durable."""
    kind, _, priority, ttl, _ = body.split(b" ")
    header = Header(kind == b"D", int(priority), int(ttl))
    return PLAIN if header == PLAIN else header


def came(body: bytes) -> int:
    return int(body.split(b" ")[1])


def place(body: bytes) -> tuple[int, int]:
    """Return the message's rank in the order of dispatch."""
    return -header(body).priority, came(body)


class DurableQueueModel(RuleBasedStateMachine):
    """`expected`: (body, safe) of the available messages, in order of arrival. `due`: body -> expiry."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = [
            mock.patch.multiple(durable_storage, **SMALL),
            mock.patch.multiple(lanes, **SMALL_LOADS),
            mock.patch.multiple(dispatching, LOADS=2),
            mock.patch.object(purging, "PORTION", 2),
        ]
        for patch in self.patches:
            patch.start()
        self.stores = FakeStores()
        self.expected: list[tuple[bytes, bool]] = []
        self.due: dict[bytes, int] = {}
        self.now = 0
        self.acquired: list[Message] = []
        self.count = 0
        self.waiting: list[int] = []  # tickets of purges that are not safe yet
        self.records: list[tuple[str, str, dict[str, object]]] = []
        self.begin()

    def teardown(self) -> None:
        for patch in self.patches:
            patch.stop()

    def begin(self) -> None:
        self.broker = InMemoryBroker()
        engine = self.broker.engine
        engine.stores.provider = self.stores
        engine.turn.header = header
        self.now = engine.turn.now = max(self.now, engine.turn.now)
        host = engine.virtualhost("default")
        engine.registry.last_store_id = 0
        queue = engine.create_queue(host, "q", durable=True)
        assert queue.durable is not None
        self.queue, self.store = queue, self.stores.by_name["default"]
        stored = sorted(self.store.stored.items())
        rows = [(q, number, len(body), 0, self.store.expiries[q, number]) for (q, number), body in stored]
        assert engine.recover(host, rows) == len(rows)
        self.producer = self.broker.attach_producer("q")
        self.consumer = self.broker.attach_consumer("q")

    @property
    def visible(self) -> list[bytes]:
        """Return the visible messages in order: all that arrived before the first one that is not safe."""
        bodies = []
        for body, safe in self.expected:
            if not safe:
                break
            bodies.append(body)
        return sorted(bodies, key=place)

    def end(self) -> None:
        """End the turn, and remove expired messages."""
        self.broker._end_turn()
        self.broker.engine.expire()
        self.broker._end_turn()
        gone = [body for body in self.visible if self.due.get(body, NEVER) <= self.now]
        self.expected = [(body, safe) for body, safe in self.expected if body not in gone]

    @rule(
        durable=st.lists(st.booleans(), min_size=1, max_size=12),
        size=st.integers(0, 50),
        priority=st.sampled_from([4, 4, 4, 0, 5, 9]),
        ttl=st.sampled_from([0, 0, 0, 100, 1000]),
    )
    def publish(self, durable: list[bool], size: int, priority: int, ttl: int) -> None:
        for each in durable:
            self.count += 1
            body = b"%s %d %d %d %s" % (b"D" if each else b"T", self.count, priority, ttl, b"." * size)
            self.producer.credit = 1
            self.queue.gate.ledger.reserved += 1
            assert self.queue.publish(self.producer, body)
            self.expected.append((body, not each))
            if ttl:
                self.due[body] = self.now + ttl
        self.end()

    @rule(durable=st.booleans(), count=st.integers(1, 12), size=st.integers(0, 50))
    def publish_run(self, durable: bool, count: int, size: int) -> None:
        kind = b"D" if durable else b"T"
        bodies = [b"%s %d 4 0 %s" % (kind, self.count + each, b"." * size) for each in range(1, count + 1)]
        self.count += count
        self.producer.credit = count
        self.queue.gate.ledger.reserved += count
        assert self.queue.publish_run(self.producer, bodies, sum(map(len, bodies)), durable=durable)
        self.expected += [(body, not durable) for body in bodies]
        self.end()

    @rule(ms=st.sampled_from([50, 100, 900]))
    def time_passes(self, ms: int) -> None:
        self.broker.advance(ms)
        self.now = self.broker.engine.turn.now
        assert not self.broker.acquired
        self.end()

    @rule(fault=st.booleans())
    def write(self, fault: bool) -> None:
        self.store.write(self.broker.engine, fault=fault)
        self.expected = [(body, True) for body, safe in self.expected if safe or not fault]
        self.end()

    @rule(count=st.integers(1, 15))
    def take(self, count: int) -> None:
        self.consumer.credit = count
        self.queue.touch()
        self.broker._end_turn()
        got = [message for _, message in self.broker.acquired]
        self.broker.acquired.clear()
        self.consumer.credit = 0
        assert [body for _, body in got] == self.visible[:count]
        self.forget([body for _, body in got])
        self.acquired += got

    def forget(self, bodies: list[bytes]) -> None:
        self.expected = [(body, safe) for body, safe in self.expected if body not in bodies]

    @precondition(lambda self: self.acquired)
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        message = self.acquired.pop(data.draw(st.integers(0, len(self.acquired) - 1)))
        ticket = self.queue.remove(self.consumer, message)
        assert bool(ticket) == message[1].startswith(b"D")
        self.broker._end_turn()

    @precondition(lambda self: self.acquired)
    @rule(count=st.integers(1, 12))
    def settle_run(self, count: int) -> None:
        self.queue.acknowledge_run(self.consumer, self.acquired[:count])
        del self.acquired[:count]
        self.broker._end_turn()

    @precondition(lambda self: self.acquired)
    @rule(failed=st.booleans())
    def give_back(self, failed: bool) -> None:
        for message in self.acquired:
            self.queue.put_back(self.consumer, message, failed=failed)
        self.expected = sorted([*self.expected, *((body, True) for _, body in self.acquired)], key=lambda e: came(e[0]))
        self.acquired = []
        self.end()

    @rule(count=st.integers(1, 6))
    def drop_oldest(self, count: int) -> None:
        for _ in range(count):
            visible = self.visible
            assert self.queue.lanes.drop_oldest() is bool(visible)
            if visible:
                lowest = min(header(body).priority for body in visible)
                self.forget([next(body for body in visible if header(body).priority == lowest)])

    @rule()
    def purge(self) -> None:
        """The rest of its messages is freed later, and none of them is there any more."""
        stored = sum(body.startswith(b"D") for body in self.visible)
        count, ticket = self.queue.lanes.purge()
        assert count == len(self.visible)
        if stored:
            self.waiting.append(ticket)
            assert self.queue.durable is not None
            self.queue.durable.when_safe(ticket, lambda: self.waiting.remove(ticket))
        self.forget(self.visible)

    @rule()
    def free(self) -> None:
        self.broker.engine.agenda.free_some()

    @rule(count=st.integers(1, 10), all_seen=st.booleans())
    def browse(self, count: int, all_seen: bool) -> None:
        """A browser gets the messages that a consumer would get, in that order, each once."""
        connection = self.consumer.connection
        browser = self.broker.engine.attach_consumer(connection, self.queue, "browser", Link(), browsing=True)
        wanted = self.visible if all_seen else self.visible[:count]
        shown: list[bytes] = []
        while len(shown) < len(wanted):
            browser.credit = min(count, len(wanted) - len(shown))
            self.queue.touch()
            self.broker._end_turn()
            assert self.broker.acquired, "a browser did not get all messages"
            shown += [body for _, (_, body) in self.broker.acquired]
            self.broker.acquired.clear()
        assert shown == wanted
        self.broker.engine.detach(browser)
        self.broker._end_turn()

    @rule(kind=st.sampled_from([b"D", b"T"]), credit=st.integers(1, 6))
    def choose(self, kind: bytes, credit: int) -> None:
        """A consumer with a selector gets the matching messages, in order."""
        connection = self.consumer.connection
        chooser = self.broker.engine.attach_consumer(
            connection, self.queue, "chooser", None, browsing=False, selects=lambda body: body.startswith(kind)
        )
        chooser.credit = credit
        self.queue.touch()
        self.broker._end_turn()
        got = [message for _, message in self.broker.acquired]
        self.broker.acquired.clear()
        assert [body for _, body in got] == [body for body in self.visible if body.startswith(kind)][:credit]
        self.forget([body for _, body in got])
        for message in got[1:]:
            self.queue.put_back(chooser, message)
            self.expected.append((message[1], True))
        self.expected.sort(key=lambda e: came(e[0]))
        chooser.credit = 0
        for message in got[:1]:
            self.queue.remove(chooser, message)
        self.broker.engine.detach(chooser)
        self.end()

    @rule()
    def restart(self) -> None:
        """Restart: buffered and transient messages are lost, acquired ones are available again."""
        stored = set(self.store.stored.values())
        self.store.puts, self.store.removed = [], []
        self.acquired, self.waiting = [], []
        self.begin()
        # Settled messages that are still in the store are back: their removal was not confirmed.
        self.expected = [(body, True) for body in sorted(stored, key=came)]
        self.end()

    @invariant()
    def depth_and_places_agree(self) -> None:
        queue = self.queue
        assert queue.gate.depth_messages == len(self.expected) + len(self.acquired)
        assert queue.gate.depth_bytes == sum(len(b) for b, _ in self.expected) + sum(len(b) for _, b in self.acquired)
        assert queue.lanes.unacknowledged == len(self.acquired)
        assert 0 <= queue.memory_bytes() <= queue.gate.depth_bytes
        waiting = {body for _, _, body in self.store.puts} | set(self.store.stored.values())
        bodies = [b for b, _ in self.expected] + [b for _, b in self.acquired]
        durable = [b for b in bodies if b.startswith(b"D")]
        assert set(durable) <= waiting
        assert queue.storage.stored >= len(durable)
        if not self.broker.engine.agenda.freeing:
            assert queue.storage.stored == len(durable)
        assert all(ticket >= self.store.ticket for ticket in self.waiting), "a purge that is safe is not confirmed"

    @invariant()
    def unconfirmed_changes_are_not_pending_forever(self) -> None:
        assert (self.queue in self.broker.engine.agenda.unsafe) or not (
            self.queue.storage.unsafe or self.queue.durable.removing or self.waiting
        )


DurableQueueModel.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestDurableQueueModel = DurableQueueModel.TestCase


def test_unreadable_store_delays_its_queue_and_loses_nothing() -> None:
    broker = InMemoryBroker()
    broker.engine.stores.provider = FakeStores()
    broker.engine.turn.header = lambda body: Header(durable=True)
    broker.management.create(NAME, {"durable": True})
    store = broker.engine.virtualhost("default").store
    queue = broker.engine.queue("default", "q")
    assert isinstance(store, FakeStore)
    with mock.patch.multiple(durable_storage, **SMALL), mock.patch.multiple(lanes, **SMALL_LOADS):
        assert broker.publish(broker.attach_producer("q"), 20) == 20
        store.write(broker.engine)
        store.readable = False
        consumer = broker.attach_consumer("q")
        consumer.credit = 20
        queue.touch()
        broker.advance(1000)
        assert len(broker.acquired) < 20
        assert queue.gate.depth_messages == 20
        store.readable = True
        broker.advance(1000)
        assert [message[0] for _, message in broker.acquired] == list(range(1, 21))


@pytest.mark.parametrize(
    ("credit", "short", "in_memory"), [(20, False, 16), (20, True, 4), (1, False, 16), (0, False, 4)]
)
def test_stored_messages_that_a_consumer_has_credit_for_stay_in_memory_within_limits(
    credit: int, short: bool, in_memory: int
) -> None:
    """Else the messages of several producers in one group would be read from the store as soon as they are in it."""
    with mock.patch.multiple(durable_storage, READY_MESSAGES=4, READY_BYTES=10_000):
        broker, stores = InMemoryBroker(), FakeStores()
        engine = broker.engine
        engine.stores.provider = stores
        engine.turn.header = header
        queue = engine.create_queue(engine.virtualhost("default"), "q", {}, durable=True)
        consumer = broker.attach_consumer("q")
        consumer.credit = credit
        for number in range(20):
            queue.enqueue(b"D %d 4 0 x" % number)
        store = stores.by_name["default"]
        with mock.patch.object(Usage, "exhausted", short):
            store.write(engine)
        assert len(queue.lanes.usual.ready) == in_memory
        assert len(queue.lanes.usual.backlog) == 20 - in_memory
        broker.advance(0)
        assert [came(body) for _, (_, body) in broker.acquired] == list(range(credit))
        assert store.loads == (credit > in_memory)
