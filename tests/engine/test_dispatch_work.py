"""What a queue does in one turn is bounded, whatever credit, selectors and refusals its consumers send; and the rest
follows in later turns."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokers.engine.flow.usage import Resource
from brokers.engine.queues.choosing import MOST_EXAMINED
from brokers.engine.queues.consumer import Consumer
from brokers.engine.queues.dispatching import MOST_SERVED, MOST_SERVED_BYTES
from brokers.engine.queues.lane import MOST_FRESH
from brokers.engine.queues.queue import Message, Queue
from brokers.engine.values.message import Header
from brokers.engine.values.message_format import Unknown
from tests.engine.fake_store import FakeStores
from tests.engine.ports import Link
from tests.engine.simulation import Simulation

ANY_CREDIT = (1 << 31) - 1


class World(Simulation):
    """One queue, whose turns the test runs: `turn` dispatches once, as a server does in a turn of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.orders: Queue = self.queue()

    def settle(self) -> None:
        if hasattr(self, "orders"):
            return  # the test decides when messages are dispatched
        super().settle()

    def consumer(self, credit: int = 0, **more: Any) -> Consumer:
        connection = self.connection()
        consumer = self.broker.attach_consumer(connection, self.orders, "link", Link(), **{"browsing": False, **more})
        consumer.credit = credit
        return consumer

    def fill(self, count: int, size: int = 10) -> None:
        for _ in range(count):
            self.orders.enqueue(b"x" * size)

    def turn(self) -> list[tuple[Consumer, list[Message]]]:
        self.broker.agenda.redispatch.clear()
        return self.orders.dispatch()

    @property
    def more(self) -> bool:
        return self.orders in self.broker.agenda.redispatch

    def all_turns(self) -> list[list[int]]:
        """Return the numbers of the messages of each turn, until there is nothing to do."""
        turns = []
        while True:
            turns.append([message[0] for _, messages in self.turn() for message in messages])
            if not self.more:
                return turns


@pytest.mark.parametrize("consumers", [1, 3])
@pytest.mark.parametrize(
    ("count", "size", "most"), [(10_000, 10, MOST_SERVED), (200, 1 << 16, MOST_SERVED_BYTES >> 16)]
)
def test_consumers_with_any_credit_get_a_bounded_number_of_messages_in_a_turn(
    consumers: int, count: int, size: int, most: int
) -> None:
    world = World()
    for _ in range(consumers):
        world.consumer(ANY_CREDIT)
    world.fill(count, size)
    turns = world.all_turns()
    assert max(map(len, turns)) <= most
    assert [number for turn in turns for number in turn] == list(range(1, count + 1))


def test_a_message_larger_than_a_turn_s_bytes_is_dispatched() -> None:
    world = World()
    world.consumer(ANY_CREDIT)
    world.fill(3, 2 * MOST_SERVED_BYTES)
    assert world.all_turns()[:3] == [[1], [2], [3]]


def test_returned_messages_are_dispatched_in_bounded_turns_before_others() -> None:
    world = World()
    first = world.consumer(MOST_SERVED)
    world.fill(MOST_SERVED + 5)
    ((_, got),) = world.turn()
    for message in got:
        world.orders.put_back(first, message)
    world.consumer(ANY_CREDIT)
    turns = world.all_turns()
    assert max(map(len, turns)) <= MOST_SERVED
    assert [number for turn in turns for number in turn] == list(range(1, MOST_SERVED + 6))


def test_priorities_are_in_order_when_a_turn_ends_between_them() -> None:
    world = World()
    world.consumer(ANY_CREDIT)
    world.broker.turn.header = lambda body: Header(priority=int(body[:1]))
    for number in range(2 * MOST_SERVED):
        world.orders.enqueue(b"%d" % (4 + number % 2))
    ranks = [message[1] for _ in range(3) for _, messages in world.turn() for message in messages]
    assert ranks == [b"5"] * MOST_SERVED + [b"4"] * MOST_SERVED


@pytest.mark.parametrize("selects", [None, lambda body: True])
def test_a_browser_with_any_credit_gets_bounded_turns_of_copies_in_order(selects: Any) -> None:
    world = World()
    browser = world.consumer(ANY_CREDIT, browsing=True, selects=selects)
    world.fill(10_000)
    turns = world.all_turns()
    assert max(map(len, turns)) <= (MOST_SERVED if selects is None else MOST_EXAMINED)
    assert [number for turn in turns for number in turn] == list(range(1, 10_001))
    assert browser.credit == ANY_CREDIT - 10_000
    assert world.orders.gate.depth_messages == 10_000


class Heavy(Unknown):
    """A format in which much of each message is decoded."""

    def decoded_bytes(self, body: bytes) -> int:
        return 64 << 10


@pytest.mark.parametrize("browsing", [False, True])
def test_a_turn_examines_fewer_messages_of_which_much_is_decoded(browsing: bool) -> None:
    world = World()
    world.broker.turn.format = Heavy()
    examined: list[bytes] = []

    def selects(body: bytes) -> bool:
        examined.append(body)
        return body.startswith(b"y")

    world.consumer(ANY_CREDIT, selects=selects, browsing=browsing)
    world.fill(50, 2000)
    world.orders.enqueue(b"y" * 2000)
    turns = 0
    while not [messages for _, messages in world.turn()]:
        turns += 1
        assert len(examined) <= 4 * turns
        assert world.more
    assert len(examined) == 51


# -- messages that consumers must not get ----------------------------------------------------------------------------


class Looked(dict[int, set[Consumer]]):
    """`excluded`, which counts how often it was looked up in."""

    looks = 0

    def get(self, key: int, default: Any = None) -> Any:
        self.looks += 1
        return super().get(key, default)

    def __contains__(self, key: object) -> bool:
        self.looks += 1
        return super().__contains__(key)


def barring(world: World, count: int) -> tuple[Consumer, Looked]:
    """A consumer that has barred itself from the first `count` messages."""
    consumer = world.consumer(count)
    world.orders.lanes.excluded = looked = Looked()
    world.fill(count)
    for _, messages in world.turn():
        for message in messages:
            world.orders.put_back(consumer, message, barred=True)
    return consumer, looked


def test_messages_that_no_consumer_may_get_are_not_examined_in_each_turn() -> None:
    world = World()
    barred, looked = barring(world, 2000)
    barred.credit = ANY_CREDIT
    assert world.turn() == []
    looked.looks = 0
    for _ in range(100):
        world.fill(1)
        assert sum(len(messages) for _, messages in world.turn()) == 1
    assert looked.looks < 1000
    other = world.consumer()
    for number in range(1, 2001):  # with one credit after the other
        other.credit = 1
        assert [(c, [m[0] for m in messages]) for c, messages in world.turn()] == [(other, [number])]
    assert looked.looks < 30_000, "about a dozen for each"


def test_messages_that_are_barred_one_by_one_are_examined_once() -> None:
    world = World()
    barred, looked = barring(world, 10)
    barred.credit = ANY_CREDIT
    world.turn()
    looked.looks = 0
    world.fill(MOST_FRESH // 2)
    for _, messages in world.turn():
        for message in messages:
            world.orders.put_back(barred, message, barred=True)
            assert world.turn() == []
    assert looked.looks < 10 * MOST_FRESH
    world.consumer(ANY_CREDIT)
    assert sum(len(turn) for turn in world.all_turns()) == 10 + MOST_FRESH // 2


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 40), st.integers(1, 3)), max_size=80))
def test_no_consumer_waits_for_a_message_that_it_may_get(  # noqa: C901, PLR0912 - a step each
    steps: list[tuple[int, int, int]],
) -> None:
    world = World()
    queue = world.orders
    consumers = [world.consumer(1)]
    acquired: deque[tuple[Consumer, Message]] = deque()
    for step, which, amount in steps:
        consumer = consumers[which % len(consumers)] if consumers else world.consumer()
        if step == 0:
            world.fill(amount)
        elif step == 1:
            consumer.credit += amount
        elif step == 2 and len(consumers) < 4:
            consumers.append(world.consumer(amount - 1))
        elif step in (3, 4, 5) and acquired:
            acquired.rotate(which)
            owner, message = acquired.popleft()
            if step == 5:
                queue.remove(owner, message)
            else:
                queue.put_back(owner, message, barred=step == 3)
        elif step == 6 and len(consumers) > 1:
            for owner, message in [each for each in acquired if each[0] is consumer]:
                acquired.remove((owner, message))
                queue.put_back(owner, message)
            consumers.remove(consumer)
            world.broker.detach(consumer)
        elif step == 7:
            consumer.connection.writable = not consumer.connection.writable
        excluded = {number: set(barred) for number, barred in queue.lanes.excluded.items()}
        for owner, messages in world.turn():
            assert owner in consumers
            for message in messages:
                assert owner not in excluded.get(message[0], ())
                acquired.append((owner, message))
        waiting = [m for lane in queue.lanes.lanes for m in (*lane.returned, *lane.ready)]
        assert [m[0] for m in waiting] == sorted(m[0] for m in waiting)
        for each in consumers:
            assert each.credit >= 0
            if each.credit > 0 and each.connection.writable:
                assert all(each in queue.lanes.excluded.get(number, ()) for number, _ in waiting)


# -- memory ---------------------------------------------------------------------------------------------------------


class Stored(World):
    """A durable queue with `count` messages, most of them in its backlog."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.broker.stores.provider = stores = FakeStores()
        self.broker.turn.header = lambda body: Header(durable=True)
        self.broker.stores.open(self.host)
        self.orders = self.broker.create_queue(self.host, "stored", durable=True)
        self.fill(count, 2000)
        stores.by_name["default"].write(self.broker)
        self.memory = self.broker.shortages.usages[Resource.MEMORY]

    def turns(self, number: int = 30) -> list[tuple[Consumer, Message]]:
        """Return what consumers get while it is their turn, swept in between."""
        got = []
        for _ in range(number):
            self.broker.sweep()
            if self.orders in self.broker.agenda.touched or self.more:
                self.broker.agenda.touched.discard(self.orders)
                got += [(consumer, message) for consumer, messages in self.turn() for message in messages]
                self.orders.gate.grant()
        return got


@pytest.mark.domain("4 parked messages use memory")
@pytest.mark.parametrize("selects", [None, lambda body: True])
def test_consumer_that_settles_nothing_gets_no_more_when_memory_is_used_up_and_others_go_on(selects: Any) -> None:
    world = Stored(16_000)
    world.memory.most = 20 << 20
    greedy = world.consumer(ANY_CREDIT, selects=selects)
    got = world.turns(200)
    assert 20 << 20 < sum(len(message[1]) for _, message in got) < 30 << 20
    assert world.turns() == [], "it waits"
    other = world.consumer(10, selects=selects)
    for _ in range(20):
        got_now = world.turns()
        assert got_now, "who has nothing goes on"
        assert {consumer for consumer, _ in got_now} == {other}
        for _, message in got_now:
            world.orders.remove(other, message)
            other.credit += 1
    world.broker.detach(other)
    world.memory.most = 25 << 20
    assert {consumer for consumer, _ in world.turns()} == {greedy}, "there is memory again"
    for message in [message for _, message in got]:
        world.orders.remove(greedy, message)
    assert world.turns()
