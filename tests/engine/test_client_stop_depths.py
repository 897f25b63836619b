"""Operators' stops of clients that end at a depth: which queues such a stop waits for, also after a restart."""

from __future__ import annotations

import pytest

from brokers.admin import InvalidValue
from brokers.engine.queues.queue import Queue
from brokers.engine.values.clients import Client
from brokers.engine.values.stops import End, Scope
from tests.engine.test_client_stops import HOST, World

ANN = Client(user="ann")
WIDE = Scope(HOST, client=ANN)


def test_depth_can_end_the_stop_of_a_client() -> None:
    world = World()
    queue = world.queue(capacity_messages=10)
    sender, other = world.client(queue), world.client(queue, "bob")
    assert world.send(other, 6) == 6
    world.stop(Scope(HOST, "orders", client=Client(user="ann")), below=50)
    consumer = world.receiver(queue)
    world.broker.stopping.end_due_stops()
    assert sender.producer.blocked
    world.consume(consumer, 1)
    world.broker.stopping.end_due_stops()
    world.settle()
    assert not sender.producer.blocked


def depth_of(world: World, name: str, messages: int, *, capacity: int = 10) -> Queue:
    """A queue with messages of another client."""
    queue = world.queue(name, capacity_messages=capacity)
    sender = world.client(queue, "other")
    assert world.send(sender, messages) == messages
    world.detach(sender)
    return queue


def test_depth_of_queues_that_a_client_does_not_use_does_not_delay_the_end_of_its_stop() -> None:
    world = World()
    orders = depth_of(world, "orders", 8)
    depth_of(world, "unrelated", 7)
    hers = world.client(orders)
    world.stop(WIDE, below=50)
    consumer = world.receiver(orders)
    world.consume(consumer, 2)
    world.advance(2_000)
    assert hers.producer.blocked
    world.consume(consumer, 1)
    world.broker.stopping.end_due_stops()
    world.settle()
    assert not hers.producer.blocked
    assert not world.broker.stops


def test_depth_that_a_clients_own_queues_have_already_is_refused_as_the_end_of_its_stop() -> None:
    world = World()
    hers = world.client(depth_of(world, "orders", 2))
    depth_of(world, "unrelated", 9)
    with pytest.raises(InvalidValue, match="the fullest queue is at 20%"):
        world.stop(WIDE, below=50)
    assert not hers.producer.blocked
    assert not world.broker.stops


@pytest.mark.parametrize("scope", [WIDE, Scope(client=ANN), Scope(HOST, pattern="orders.>", client=ANN)])
def test_depth_as_the_end_of_a_stop_of_a_client_without_a_producer_there_is_refused(scope: Scope) -> None:
    world = World()
    depth_of(world, "orders", 9)
    with pytest.raises(InvalidValue, match="user=ann has no producer there"):
        world.stop(scope, below=50)
    world.stop(scope)  # without a depth, it also stops what the client attaches later
    with pytest.raises(InvalidValue, match="user=ann has no producer there"):
        world.stop(scope, below=50)
    assert world.broker.stops[scope].end == End()


def test_stop_of_a_disconnected_client_ends_at_the_depth_of_its_queues_also_after_a_restart() -> None:
    world = World()
    orders = depth_of(world, "orders", 8)
    depth_of(world, "unrelated", 9)
    hers = world.client(orders)
    world.stop(WIDE, below=50)
    world.broker.close_connection(hers.producer.connection)
    world.advance(2_000)
    assert list(world.broker.stops) == [WIDE]
    world.broker = world.restarted()
    orders = world.broker.queue(HOST, "orders")
    world.broker.stopping.end_due_stops()  # empty after the restart, and without a producer
    world.settle()
    assert not world.broker.stops
    assert not world.client(orders).producer.blocked
    assert not world.restarted().stops


def test_client_does_not_end_its_stop_by_leaving_its_full_queue_for_an_empty_one() -> None:
    world = World()
    orders, scratch = depth_of(world, "orders", 8), world.queue("scratch", capacity_messages=10)
    hers = world.client(orders)
    world.stop(WIDE, below=50)
    world.broker.close_connection(hers.producer.connection)
    again = world.client(scratch)
    world.advance(2_000)
    world.broker.stopping.end_due_stops()
    assert again.producer.blocked
    world.consume(world.receiver(orders), 3)
    world.broker.stopping.end_due_stops()
    world.settle()
    assert not again.producer.blocked


def test_queue_that_a_stopped_client_attaches_to_later_delays_the_end_and_is_on_record() -> None:
    world = World()
    orders, late = depth_of(world, "orders", 8), depth_of(world, "late", 9)
    first = world.client(orders)
    world.stop(WIDE, below=50)
    second = world.client(late)
    world.broker.stopping.end_due_stops()
    world.settle()
    assert world.restarted().stops[WIDE].awaited == ((HOST, "late"), (HOST, "orders"))
    world.consume(world.receiver(orders), 8)
    world.broker.stopping.end_due_stops()
    assert first.producer.blocked
    world.broker.delete_queue(late)
    world.broker.stopping.end_due_stops()
    world.settle()
    assert not first.producer.blocked
    assert second.producer.id not in world.broker.producers


def test_repeated_stop_of_a_client_that_has_left_awaits_its_queues_and_without_a_depth_none() -> None:
    world = World()
    hers = world.client(depth_of(world, "orders", 8))
    world.stop(WIDE, below=50)
    world.broker.close_connection(hers.producer.connection)
    world.stop(WIDE, below=30)
    stop = world.broker.stops[WIDE]
    assert (stop.end, stop.awaited) == (End(below=30), ((HOST, "orders"),))
    world.stop(WIDE)
    assert world.broker.stops[WIDE].awaited == ()


def test_what_the_end_by_depth_waits_for_is_what_ends_it_and_reading_it_changes_nothing() -> None:
    world = World()
    orders, late = depth_of(world, "orders", 8), depth_of(world, "late", 9)
    depth_of(world, "unrelated", 9)
    world.client(orders)
    stopping = world.broker.stopping
    assert stopping.awaited([WIDE]) is None
    world.stop(WIDE, below=50)
    assert stopping.awaited([WIDE]) == [(orders, 50)]
    world.client(late)
    recorded = world.broker.stops[WIDE]
    assert dict(stopping.awaited([WIDE, Scope()]) or ()) == {orders: 50, late: 50}
    assert world.broker.stops[WIDE] == recorded
    assert stopping.awaited([Scope(HOST)]) is None  # of another scope
    for queue in (orders, late):
        assert world.broker.stops
        world.consume(world.receiver(queue), 8)
        stopping.end_due_stops()
    assert not world.broker.stops
    assert stopping.awaited([WIDE]) is None


def test_end_by_depth_of_queues_waits_for_all_that_the_stop_covers() -> None:
    world = World()
    orders, late = depth_of(world, "orders", 8), depth_of(world, "late", 2)
    world.stop(Scope(HOST), below=50)
    assert dict(world.broker.stopping.awaited([Scope(HOST)]) or ()) == {orders: 50, late: 50}
    world.stop(Scope(HOST))
    assert world.broker.stopping.awaited([Scope(HOST)]) is None
