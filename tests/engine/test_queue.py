"""A queue's messages: order, competing consumers, returned messages, browsing, rings, and detached links."""

from __future__ import annotations

import sys
from collections import deque
from types import FrameType

import pytest

from brokers.engine.queues.consumer import Consumer
from brokers.engine.queues.queue import BATCH, Message, Queue
from tests.engine.ports import Link
from tests.engine.simulation import Simulation


@pytest.fixture
def world() -> Simulation:
    return Simulation()


def filled(world: Simulation, count: int, name: str = "orders") -> Queue:
    queue = world.queue(name)
    assert world.send(world.sender(queue), count) == count
    return queue


def numbers(messages: list[Message] | deque[Message]) -> list[int]:
    return [m[0] for m in messages]


def acquired(world: Simulation, consumer: Consumer) -> list[int]:
    return numbers(world.acquired[consumer])


def put_back(world: Simulation, consumer: Consumer, number: int, *, failed: bool = False, barred: bool = False) -> None:
    message = next(m for m in world.acquired[consumer] if m[0] == number)
    world.acquired[consumer].remove(message)
    consumer.queue.put_back(consumer, message, failed=failed, barred=barred)
    world.settle()


# -- consuming -------------------------------------------------------------------------------------------------


def test_consumer_gets_messages_in_order_of_arrival(world):
    queue = filled(world, 5)
    assert acquired(world, world.receiver(queue, credit=3)) == [1, 2, 3]


def test_consumer_never_gets_more_than_its_credit(world):
    queue = filled(world, 5)
    consumer = world.receiver(queue, credit=2)
    world.send(next(iter(world.senders.values())), 5)
    assert acquired(world, consumer) == [1, 2]
    assert consumer.credit == 0


def test_competing_consumers_are_served_round_robin(world):
    queue = world.queue()
    consumers = [world.receiver(queue, credit=1000) for _ in range(3)]
    world.send(world.sender(queue), 30)
    assert [len(world.acquired[c]) for c in consumers] == [10, 10, 10]


def test_backlog_is_shared_out_in_batches(world):
    queue = filled(world, 4 * BATCH)
    connection = world.connection()
    consumers = [world.broker.attach_consumer(connection, queue, f"r{i}", Link(), browsing=False) for i in range(2)]
    for consumer in consumers:
        consumer.credit = 1000
        world.acquired[consumer] = []
    world.settle()
    assert [len(world.acquired[c]) for c in consumers] == [2 * BATCH, 2 * BATCH]


def test_consumer_whose_peer_does_not_read_gets_no_messages(world):
    queue = world.queue()
    stuck, running = world.receiver(queue, credit=10), world.receiver(queue, credit=10)
    stuck.connection.writable = False
    world.send(world.sender(queue), 4)
    assert (acquired(world, stuck), acquired(world, running)) == ([], [1, 2, 3, 4])


# -- returned messages -----------------------------------------------------------------------------------------


def test_message_put_back_returns_to_its_former_place(world):
    queue = filled(world, 5)
    first = world.receiver(queue, credit=3)
    for number in (2, 1, 3):
        put_back(world, first, number)
    assert numbers(queue.lanes.returned) == [1, 2, 3]
    assert acquired(world, world.receiver(queue, credit=5)) == [1, 2, 3, 4, 5]


def test_messages_of_a_detached_consumer_go_to_others(world):
    queue = filled(world, 4)
    gone = world.receiver(queue, credit=3)
    other = world.receiver(queue, credit=0)
    world.leave(gone)
    world.give(other, 10)
    assert acquired(world, other) == [1, 2, 3, 4]
    assert queue.consumer_count == 1


def test_failed_deliveries_are_counted_until_the_message_is_removed(world):
    queue = filled(world, 1)
    consumer = world.receiver(queue, credit=1)
    for failures in (1, 2):
        put_back(world, consumer, 1, failed=True)
        assert queue.lanes.deliveries == {1: failures}
        world.give(consumer, 1)
    world.accept(consumer)
    assert queue.lanes.deliveries == {}


def test_released_message_does_not_count_as_failed(world):
    queue = filled(world, 1)
    put_back(world, world.receiver(queue, credit=1), 1)
    assert queue.lanes.deliveries == {}


def test_consumer_never_gets_a_message_again_that_it_declared_undeliverable(world):
    queue = filled(world, 3)
    barred = world.receiver(queue, credit=1)
    put_back(world, barred, 1, barred=True)
    world.give(barred, 10)
    assert acquired(world, barred) == [2, 3]
    other = world.receiver(queue, credit=10)
    assert acquired(world, other) == [1]
    world.accept(other)
    assert (queue.lanes.excluded, queue.lanes.deliveries) == ({}, {})


class Walked(list):
    """A list that counts accessed items."""

    seen = 0

    def __iter__(self):
        for item in super().__iter__():
            Walked.seen += 1
            yield item


@pytest.mark.domain("3 check after enqueue")
def test_many_undeliverable_messages_do_not_slow_down_publishing(world):
    """Constant work per message, however many were returned: one is examined at most."""
    queue = filled(world, 1000, "backlog")
    world.leave(world.receiver(queue, credit=1000))
    assert len(queue.lanes.returned) == 1000
    world.receiver(queue, credit=0)
    sender = world.sender(queue)
    queue.lanes.usual.returned, Walked.seen = Walked(queue.lanes.usual.returned), 0
    assert world.send(sender, 200) == 200
    assert isinstance(queue.lanes.usual.returned, Walked)
    assert Walked.seen <= 200, "at most one examination per message"


@pytest.mark.domain("3 check after enqueue")
def test_work_per_message_is_independent_of_depth_producers_and_queues(world):
    def lines() -> int:
        """Lines of the brokers' code that one message runs, those of loops each time. Others' are not its work: the
        collector may begin at any of them, and Hypothesis has a function that follows it."""
        seen = 0

        def count(frame: FrameType, event: str, argument: object) -> object:
            nonlocal seen
            if not frame.f_globals["__name__"].startswith("brokers."):
                return None
            seen += event == "line"
            return count

        sender.read()
        assert sender.send() == 1
        message = sender.frames.popleft()
        assert isinstance(message, bytes)
        sender.received += 1
        traced = sys.gettrace()
        sys.settrace(count)
        try:
            queue.publish(sender.producer, message)
        finally:
            sys.settrace(traced)
        world.settle()
        assert seen, "no line was counted"
        return seen

    queue = world.queue(capacity_messages=1_000_000, capacity_bytes=1 << 40)
    sender = world.sender(queue)
    world.send(sender, 100)
    few = [lines() for _ in range(20)]
    for number in range(200):
        world.sender(queue)
        world.sender(world.queue(f"other.{number}", capacity_messages=5))
    world.send(sender, 20_000)
    assert queue.gate.depth_messages > 20_000
    many = [lines() for _ in range(20)]
    assert max(many) <= max(few), "a few lines more when credit is requested, and never more"


def test_purging_leaves_acquired_messages(world):
    queue = filled(world, 5)
    consumer = world.receiver(queue, credit=2)
    put_back(world, consumer, 1, failed=True)
    assert queue.lanes.purge()[0] == 4
    assert (queue.gate.depth_messages, queue.lanes.unacknowledged, queue.lanes.deliveries) == (1, 1, {})
    world.accept(consumer)
    assert (queue.gate.depth_messages, queue.gate.depth_bytes) == (0, 0)


def test_purging_an_overfull_queue_unblocks_its_producers(world):
    queue = world.queue(capacity_messages=2)
    sender = world.sender(queue)
    world.send(sender, 10)
    assert sender.producer.blocked
    assert queue.lanes.purge()[0] == 3
    world.settle()
    assert not sender.producer.blocked
    assert world.send(sender, 1) == 1


# -- browsing --------------------------------------------------------------------------------------------------


class Looking(Simulation):
    """Records the messages that browsers got."""

    def __init__(self) -> None:
        self.shown: list[int] = []
        super().__init__()

    def dispatch(self, queue: Queue) -> None:
        for consumer, messages in queue.dispatch():
            assert messages
            if consumer.browsing:
                self.shown.extend(numbers(messages))
            else:
                self.acquired[consumer].extend(messages)


@pytest.fixture
def looking() -> Looking:
    return Looking()


def test_browser_gets_every_message_once_and_removes_none(looking):
    queue = filled(looking, 3)
    looking.receiver(queue, credit=100, browsing=True)
    looking.send(next(iter(looking.senders.values())), 2)
    assert looking.shown == [1, 2, 3, 4, 5]
    assert queue.gate.depth_messages == 5


def test_browser_continues_where_its_credit_ended(looking):
    queue = filled(looking, 5)
    browser = looking.receiver(queue, credit=2, browsing=True)
    assert looking.shown == [1, 2]
    looking.give(browser, 2)
    assert looking.shown == [1, 2, 3, 4]


def test_browser_does_not_get_removed_messages(looking):
    queue = filled(looking, 6)
    browser = looking.receiver(queue, credit=1, browsing=True)
    looking.consume(looking.receiver(queue), 3)
    looking.give(browser, 1)
    queue.lanes.purge()
    looking.send(next(iter(looking.senders.values())), 1)
    looking.give(browser, 10)
    assert looking.shown == [1, 4, 7]


def test_browser_gets_a_message_returned_behind_its_position(looking):
    queue = filled(looking, 4)
    consumer = looking.receiver(queue, credit=3)
    browser = looking.receiver(queue, browsing=True)
    put_back(looking, consumer, 2)
    looking.give(browser, 10)
    assert looking.shown == [2, 4]


def test_browser_without_credit_retains_no_message(looking):
    queue = filled(looking, 3)
    browser = looking.receiver(queue, browsing=True)
    looking.consume(looking.receiver(queue), 3)
    assert not any(getattr(browser, slot, None) for slot in Consumer.__slots__ if slot in ("to_revisit", "positions"))
    looking.give(browser, 10)
    assert looking.shown == []


# -- rings -----------------------------------------------------------------------------------------------------


def test_ring_drops_its_oldest_messages_and_reports_their_number(world):
    queue = world.queue(capacity_messages=3, overflow="ring")
    world.send(world.sender(queue), 5)
    assert numbers(queue.lanes.usual.ready) == [3, 4, 5]
    assert (queue.lanes.dropped, queue.gate.depth_messages) == (2, 3)
    assert world.kinds().count("queue-dropped") == 2


@pytest.mark.domain("6 one line a turn")
def test_ring_reports_dropped_messages_once_a_turn(world):
    queue = world.queue(capacity_messages=3, overflow="ring")
    for number in range(1000):  # of the turn that has not ended
        queue.enqueue(b"%d" % number)
    world.settle()
    (fact,) = [f for f in world.facts if f.kind == "queue-dropped"]
    assert fact.attributes["messages"] == 997
    assert "QUE-1005 : Dropped : 997 messages, Depth : 9 bytes, 3 messages" in fact.text
    assert queue.lanes.dropped == 997


def test_ring_with_a_byte_limit_drops_no_more_than_needed(world):
    queue = world.queue(capacity_bytes=1000, overflow="ring")
    sender = world.sender(queue)
    world.send(sender, 9, size=100)
    world.facts.clear()
    world.send(sender, 1, size=500)
    assert (queue.gate.depth_bytes, queue.gate.depth_messages) == (1000, 6)
    assert [f.attributes["messages"] for f in world.facts] == [4]


def test_ring_drops_returned_messages_first_and_never_acquired_ones(world):
    queue = world.queue(capacity_messages=4, overflow="ring")
    sender = world.sender(queue)
    world.send(sender, 4)
    consumer = world.receiver(queue, credit=3)
    put_back(world, consumer, 2)
    world.send(sender, 1)
    assert (acquired(world, consumer), numbers(queue.lanes.returned), numbers(queue.lanes.usual.ready)) == (
        [1, 3],
        [],
        [4, 5],
    )
    world.send(sender, 5)
    assert (acquired(world, consumer), numbers(queue.lanes.usual.ready)) == ([1, 3], [9, 10])


def test_turning_an_overfull_queue_into_a_ring_unblocks_producers_and_drops_the_excess(world):
    queue = world.queue(capacity_messages=3)
    sender = world.sender(queue)
    world.send(sender, 10)
    assert sender.producer.blocked
    world.broker.set_own_policy(queue, {"capacity_messages": 3, "overflow": "ring"})
    world.settle()
    assert (queue.gate.depth_messages, sender.producer.blocked) == (3, False)
    world.send(sender, 10)
    assert (queue.gate.depth_messages, queue.lanes.dropped) == (3, 11)


def test_ring_turned_into_a_blocking_queue_respects_the_bound_once_its_credit_is_returned(world):
    queue = world.queue(capacity_messages=10, overflow="ring")
    senders = [world.sender(queue, answers=False) for _ in range(10)]
    assert queue.gate.ledger.reserved > 11
    world.broker.set_own_policy(queue, {"capacity_messages": 10})
    world.settle()
    world.advance(1000)
    assert queue.gate.ledger.reserved <= 11
    for sender in senders:
        world.send(sender, 100)
    assert queue.gate.depth_messages <= 11


# -- deleting --------------------------------------------------------------------------------------------------


def test_deleting_a_queue_ends_its_links_and_leaves_nothing_behind(world):
    queue = world.queue(capacity_messages=1)
    sender, consumer = world.sender(queue), world.receiver(queue, credit=1)
    browser = world.receiver(queue, browsing=True)
    world.send(sender, 3)
    connection = sender.producer.connection
    message = world.acquired[consumer][0]
    world.broker.delete_queue(queue)
    world.settle()
    assert not world.senders
    assert not world.broker.producers
    assert not world.broker.consumers
    assert not connection.producers
    assert not browser.connection.consumers
    queue.put_back(consumer, message, failed=True)  # as the link's end does
    world.broker.detach(consumer)
    world.settle()
    assert queue not in world.broker.sample()


def test_closing_a_connection_detaches_its_links_once(world):
    queue = world.queue(capacity_messages=4)
    connection = world.connection()
    sender = world.sender(queue, connection=connection)
    world.kinds()
    world.broker.close_connection(connection, "gone")
    world.broker.close_connection(connection, "gone")
    world.broker.detach(sender.producer)
    world.settle()
    assert world.kinds() == ["connection-closed"]
    assert (queue.gate.producer_count, queue.gate.ledger.reserved) == (0, 0)


# -- rates -----------------------------------------------------------------------------------------------------


def test_rates_are_per_second_of_the_time_since_the_last_sample(world):
    queue = world.queue()
    sender, receiver = world.sender(queue), world.receiver(queue)
    world.broker.turn.now += 1000
    world.broker.sample()
    world.send(sender, 20)
    world.consume(receiver, 5)
    world.broker.turn.now += 2000
    assert queue in world.broker.sample()
    assert (queue.rate_in, queue.rate_out) == (10.0, 2.5)


def test_rates_fall_to_0_once_and_then_the_queue_is_not_sampled(world):
    queue = world.queue()
    world.broker.sample()
    world.send(world.sender(queue), 20)
    rates = []
    for _ in range(4):
        world.broker.turn.now += 1000
        rates.append(queue.rate_in if queue in world.broker.sample() else None)
    assert rates == [20.0, 0.0, None, None]


def test_rates_after_a_long_idle_time_are_of_the_last_second(world):
    queue = world.queue()
    sender = world.sender(queue)
    for _ in range(100):
        world.broker.turn.now += 1000
        world.broker.sample()
    world.send(sender, 20)
    world.broker.turn.now += 1000
    world.broker.sample()
    assert queue.rate_in == 20.0
