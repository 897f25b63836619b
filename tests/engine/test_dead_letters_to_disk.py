"""Durable messages of queues that are not durable move to durable queues, whose store refuses them at times: each is
in one queue, and arrives when there is room."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from brokers.engine.queues import relocation
from brokers.engine.queues.browsing import FRONT, Browsing
from brokers.engine.queues.consumer import Consumer
from brokers.engine.queues.queue import Queue
from brokers.engine.services import dead_letters
from brokers.engine.values.message import PLAIN, Header
from tests.engine.fake_store import FakeStore, FakeStores
from tests.engine.simulation import Simulation

#: What a dead letter of the tests begins with: its queue and reason.
DEAD = b"orders rejected|"


def header(body: bytes) -> Header:
    """Durable unless it begins with T. E: it expires after 500 ms, unless it is a dead letter."""
    if body.rsplit(b"|")[-1].startswith(b"T"):
        return PLAIN
    return Header(durable=True, ttl=500 if body.startswith(b"E") else 0)


class World(Simulation):
    """A queue `orders` that is not durable, and its durable dead-letter queue `dead`."""

    def __init__(self, **own: int | str) -> None:
        super().__init__()
        turn = self.broker.turn
        turn.header = header
        turn.as_dead_letter = lambda body, reason, queue, failed, error: f"{queue} {reason}|".encode() + body
        self.broker.stores.provider = FakeStores()
        self.dead = self.broker.create_queue(self.host, "dead", {}, durable=True)
        self.orders = self.queue("orders", dead_letter_queue="dead", **own)
        store = self.host.store
        assert isinstance(store, FakeStore)
        self.store = store

    def write(self, *, fault: bool = False) -> None:
        self.store.write(self.broker, fault=fault)
        self.settle()

    def reject(self, consumer: Consumer, most: int | None = None) -> None:
        rejected, self.acquired[consumer] = self.acquired[consumer][:most], self.acquired[consumer][most or 1 << 30 :]
        for message in rejected:
            consumer.queue.reject(consumer, message)
        self.settle()

    def put(self, *bodies: bytes) -> None:
        for body in bodies:
            self.orders.enqueue(body)
        self.settle()

    def dead_letters(self) -> list[bytes]:
        """The visible messages of the dead-letter queue."""
        return seen(self.dead)


def seen(queue: Queue) -> list[bytes]:
    found = Browsing(queue).after(FRONT, 1000)
    loaded = queue.storage.bodies([each.entry for each in found if each.body is None]) or {}
    return [each.body if each.body is not None else loaded[each.number] for each in found]


@pytest.fixture
def world() -> World:
    return World()


def test_message_that_the_store_refuses_waits_in_its_queue_and_moves_when_there_is_room(world):
    world.put(b"1", b"2")
    consumer = world.receiver(world.orders, credit=2)
    world.reject(consumer)
    world.write(fault=True)
    assert (seen(world.orders), world.dead_letters(), world.dead.gate.depth_messages) == ([b"1", b"2"], [], 0)
    assert (world.orders.lanes.unacknowledged, consumer.unacknowledged, world.orders.dead_lettered) == (0, 0, 0)
    assert world.acquired[consumer] == []
    world.advance(1000)
    world.write()
    assert (seen(world.orders), world.dead_letters()) == ([], [DEAD + b"1", DEAD + b"2"])
    assert (world.orders.gate.depth_messages, world.orders.dead_lettered, world.dead.gate.depth_messages) == (0, 2, 2)
    (fact,) = [f for f in world.facts if f.kind == "queue-dead-lettered"]
    assert fact.attributes["messages"] == 2


def test_store_that_is_known_to_be_full_is_not_tried_until_it_has_room(world):
    world.put(b"1", b"T2")
    world.store.full = True
    world.reject(world.receiver(world.orders, credit=2))
    world.advance(3000)
    assert (world.store.puts, seen(world.orders)) == ([], [b"1"])
    assert world.dead_letters() == [DEAD + b"T2"], "what needs no store need not wait"
    world.store.full = False
    world.advance(1000)
    world.write()
    assert (seen(world.orders), world.dead_letters()) == ([], [DEAD + b"T2", DEAD + b"1"])


def test_failed_message_at_its_maximum_waits_too_with_its_count(world):
    world = World(maximum_deliveries=2)
    world.put(b"1")
    counts = []
    world.broker.turn.as_dead_letter = lambda body, reason, queue, failed, error: counts.append(failed) or body
    consumer = world.receiver(world.orders, credit=5)
    for _ in range(2):
        (message,) = world.acquired[consumer]
        world.acquired[consumer] = []
        world.orders.put_back(consumer, message, failed=True)
        world.settle()
    world.write(fault=True)
    assert (seen(world.orders), world.acquired[consumer]) == ([b"1"], [])
    world.advance(1000)
    world.write()
    assert (world.dead_letters(), counts) == ([b"1"], [2, 2])


def test_waiting_messages_count_in_the_depth_so_that_their_producers_stay_blocked_and_none_overshoots(world):
    world = World(capacity_messages=5, flow_resume_messages=0)
    sender, consumer = world.sender(world.orders), world.receiver(world.orders, credit=1000)
    sent = 0
    for _ in range(20):
        sent += world.send(sender, 50)
        world.reject(consumer)
        world.write(fault=True)
        world.advance(1000)
        assert world.orders.gate.depth_messages <= 6
    assert (sent, sender.producer.blocked, world.dead.gate.depth_messages) == (6, True, 6)
    world.write()
    world.advance(1000)
    assert (len(world.dead_letters()), sender.producer.blocked) == (6, False)


def test_others_are_served_while_dead_letters_wait(world):
    world.store.full = True
    world.put(b"bad", b"good")
    consumer = world.receiver(world.orders, credit=1)
    world.reject(consumer)
    other = world.queue("other")
    sender = world.sender(other)
    assert world.send(sender, 3) == 3
    assert world.consume(world.receiver(other), 3) == 3
    world.give(consumer, 10)
    assert world.accept(consumer) == 1
    world.put(b"more")
    assert world.accept(consumer) == 1


def test_waiting_message_does_not_expire_as_a_dead_letter_does_not(world):
    world.store.full = True
    world.put(b"E1")
    world.reject(world.receiver(world.orders, credit=1))
    world.advance(2000)
    assert seen(world.orders) == [b"E1"]
    world.store.full = False
    world.advance(1000)
    world.write()
    assert len(world.dead_letters()) == 1


def test_waiting_message_returns_to_its_place_when_the_queue_has_no_dead_letter_queue_any_more(world):
    world.store.full = True
    world.put(b"1", b"2")
    consumer = world.receiver(world.orders, credit=1)
    world.reject(consumer)
    world.broker.set_own_policy(world.orders, {"dead_letter_queue": ""})
    world.advance(1000)
    assert world.orders.gate.limits.dead_letter_queue == ""
    world.give(consumer, 5)
    assert sorted(body for _, body in world.acquired[consumer]) == [b"1", b"2"]


def test_more_waiting_messages_than_are_sent_at_a_time_follow_each_other_without_another_second(world, monkeypatch):
    monkeypatch.setattr(dead_letters, "MOST_SENT", 3)
    world.store.full = True
    world.put(*(b"%d" % n for n in range(10)))
    world.reject(world.receiver(world.orders, credit=10))
    world.store.full = False
    world.broker.expire()
    world.settle()
    for _ in range(4):
        world.write()
    assert world.dead_letters() == [DEAD + b"%d" % n for n in range(10)]


def test_deleting_the_dead_letter_queue_returns_what_its_store_has_not_taken(world):
    world.put(b"1")
    world.reject(world.receiver(world.orders, credit=1))
    world.broker.delete_queue(world.dead)
    world.write()
    assert seen(world.orders) == [b"1"]


def test_deleting_their_queue_removes_waiting_messages_and_what_the_store_takes_afterwards_is_there_once(world):
    world.put(b"1")
    world.reject(world.receiver(world.orders, credit=1))
    world.broker.delete_queue(world.orders)
    world.write()
    world.advance(2000)
    assert (world.dead_letters(), world.store.puts) == ([DEAD + b"1"], [])


def test_dead_letters_wait_while_the_store_limit_is_exceeded_and_move_afterwards(world):
    world.broker.shortages.set_store_limits(world.host, {"store_overfull_bytes": 1000, "store_underfull_bytes": 500})
    world.store.used_bytes = 2000
    world.sender(world.dead)
    world.broker.shortages.measure({})
    world.settle()
    world.put(b"1")
    world.reject(world.receiver(world.orders, credit=1))
    assert (world.store.puts, seen(world.orders)) == ([], [b"1"])
    world.store.used_bytes = 100
    world.broker.shortages.measure({})
    world.advance(2000)
    world.write()
    assert len(world.dead_letters()) == 1


# -- a model ------------------------------------------------------------------------------------------------------


class RefusingStore(RuleBasedStateMachine):
    """Messages of two queues that are not durable, to one that is, by dead-lettering and by an operator; the store is
    full, or refuses without having been full, at any moment."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.consumer = self.world.receiver(self.world.orders)
        self.published = 0
        self.gone: list[bytes] = []  # accepted, or removed by a purge

    @rule(durable=st.booleans(), count=st.integers(1, 4))
    def publish(self, durable: bool, count: int) -> None:
        for _ in range(count):
            self.published += 1
            self.world.put(b"%s%d" % (b"D" if durable else b"T", self.published))

    @rule(count=st.integers(1, 4))
    def receive(self, count: int) -> None:
        self.world.give(self.consumer, count)

    @rule(count=st.integers(1, 3))
    def reject(self, count: int) -> None:
        self.world.reject(self.consumer, count)

    @rule()
    def accept(self) -> None:
        self.gone += [body for _, body in self.world.acquired[self.consumer][:1]]
        self.world.accept(self.consumer, 1)

    @rule()
    def release(self) -> None:
        for message in self.world.acquired[self.consumer]:
            self.world.orders.put_back(self.consumer, message)
        self.world.acquired[self.consumer] = []
        self.consumer.credit = 0
        self.world.settle()

    @rule(which=st.integers(0, 5), to=st.sampled_from(["dead", "orders"]))
    def move(self, which: int, to: str) -> None:
        """An operator moves one message that no consumer has, unless it is the queue's own."""
        world = self.world
        source, target = (world.orders, world.dead) if to == "dead" else (world.dead, world.orders)
        found = Browsing(source).not_acquired_after(FRONT, 100)[which : which + 1]
        for each in found:
            body = each.body or (source.storage.bodies([each.entry]) or {})[each.number]
            relocation.take_out(source, [each])
            relocation.move(source, each, body, target, body.rsplit(b"|")[-1])
            relocation.settle(source)
        world.settle()

    @rule()
    def purge(self) -> None:
        available = Browsing(self.world.orders).not_acquired_after(FRONT, 1000)
        self.gone += [each.body for each in available if each.body is not None]
        assert self.world.orders.lanes.purge()[0] == len(available)
        self.world.settle()

    @rule(full=st.booleans())
    def fill(self, full: bool) -> None:
        self.world.store.full = full

    @rule(fault=st.booleans())
    def write(self, fault: bool) -> None:
        self.world.write(fault=fault or self.world.store.full)

    @rule(ms=st.sampled_from([50, 1000]))
    def pass_time(self, ms: int) -> None:
        self.world.advance(ms)

    def places(self) -> Counter[bytes]:
        world = self.world
        found = [body for _, body in world.acquired[self.consumer]]
        # Browsing sees the messages of consumers that the protocol layer knows, here none.
        found += seen(world.orders) + list(world.orders.lanes.leaving.values())
        found += world.dead_letters()
        # Until the store has them, those from memory are part of the queue that they leave.
        found += [each.body for each in world.dead.storage.unsafe if each.answered is None]
        return Counter(body.rsplit(b"|")[-1] for body in found)

    @invariant()
    def each_message_is_in_one_place(self) -> None:
        expected = {b"%s%d" % (kind, n) for n in range(1, self.published + 1) for kind in (b"D", b"T")}
        found = self.places()
        found.update(body.rsplit(b"|")[-1] for body in self.gone)
        assert set(found) <= expected
        assert (sum(found.values()), set(found.values()) <= {1}) == (self.published, True)

    @invariant()
    def depths_count_each_message(self) -> None:
        world, orders = self.world, self.world.orders
        acquired = len(world.acquired[self.consumer])
        assert orders.lanes.unacknowledged == acquired == self.consumer.unacknowledged
        assert orders.gate.depth_messages == acquired + len(seen(orders)) + len(orders.lanes.leaving)
        bodies = [*seen(orders), *orders.lanes.leaving.values(), *(b for _, b in world.acquired[self.consumer])]
        assert orders.gate.depth_bytes == sum(map(len, bodies))
        assert world.dead.gate.depth_messages == len(world.dead_letters()) + len(world.dead.storage.unsafe)

    def teardown(self) -> None:
        """With room, nothing waits for long."""
        world = self.world
        world.store.full = False
        for _ in range(3):
            world.advance(1000)
            world.write()
        assert (dict(world.orders.lanes.leaving), list(world.dead.storage.unsafe)) == ({}, [])
        assert len(world.orders.lanes.delayed) == 0
        self.each_message_is_in_one_place()
        self.depths_count_each_message()


TestRefusingStore = RefusingStore.TestCase
TestRefusingStore.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
