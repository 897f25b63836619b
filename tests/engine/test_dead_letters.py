"""Dead letters: their queues, their facts, and no cycles."""

from __future__ import annotations

import itertools

import pytest

from brokers.engine.queues.consumer import Consumer
from brokers.engine.queues.queue import Queue
from brokers.engine.registry.transaction import Acknowledgement
from brokers.engine.values.message import Header
from tests.engine.fake_store import FakeStore, FakeStores
from tests.engine.ports import Link
from tests.engine.simulation import Simulation


@pytest.fixture
def world() -> Simulation:
    world = Simulation()
    world.broker.turn.as_dead_letter = lambda body, reason, queue, failed, error: (
        f"{queue} {reason} {failed} {error}|".encode() + body.split(b"|")[-1]
    )
    return world


def filled(world: Simulation, count: int = 1, **own: int | str) -> tuple[Queue, Consumer]:
    queue = world.queue("orders", **own)
    for number in range(1, count + 1):
        queue.enqueue(b"%d" % number)
    return queue, world.receiver(queue, credit=100)


def fail(world: Simulation, consumer: Consumer, times: int = 1) -> None:
    """Fail the delivery of all acquired messages, `times` times."""
    for _ in range(times):
        acquired, world.acquired[consumer] = world.acquired[consumer], []
        for message in acquired:
            consumer.queue.put_back(consumer, message, failed=True)
        world.settle()


def reject(world: Simulation, consumer: Consumer, error: str = "") -> None:
    acquired, world.acquired[consumer] = world.acquired[consumer], []
    for message in acquired:
        consumer.queue.reject(consumer, message, error)
    world.settle()


def bodies(queue: Queue) -> list[bytes]:
    return [body for _, body in queue.lanes.usual.ready]


def test_message_moves_when_its_failed_deliveries_reach_the_maximum_and_not_before(world):
    queue, consumer = filled(world, maximum_deliveries=3, dead_letter_queue="dead")
    fail(world, consumer, 2)
    assert (queue.gate.depth_messages, queue.lanes.deliveries) == (1, {1: 2})
    fail(world, consumer)
    dead = world.broker.queue("default", "dead")
    assert bodies(dead) == [b"orders maximum-deliveries 3 |1"]
    assert (queue.gate.depth_messages, queue.lanes.unacknowledged, queue.dead_lettered, queue.lanes.deliveries) == (
        0,
        0,
        1,
        {},
    )


def test_rejected_message_moves_at_once_with_the_consumers_error(world):
    _, consumer = filled(world, dead_letter_queue="dead")
    reject(world, consumer, "no such customer")
    assert bodies(world.broker.queue("default", "dead")) == [b"orders rejected 0 no such customer|1"]


def test_without_a_dead_letter_queue_messages_are_discarded_and_counted(world):
    queue, consumer = filled(world, 2, maximum_deliveries=1)
    fail(world, consumer)
    assert (queue.gate.depth_messages, queue.discarded, queue.dead_lettered) == (0, 2, 0)
    (fact,) = [f for f in world.facts if f.kind == "queue-discarded"]
    assert fact.text == "[vh(/default)/qu(orders)] HGT-1012 : Discarded : 2 messages, Reason : maximum-deliveries"


def test_dead_letters_of_one_turn_with_the_same_reason_are_one_fact(world):
    _, consumer = filled(world, 3, dead_letter_queue="dead")
    world.kinds()
    reject(world, consumer)
    (fact,) = [f for f in world.facts if f.kind == "queue-dead-lettered"]
    assert fact.attributes["messages"] == 3
    assert (fact.attributes["dead_letter_queue"], fact.attributes["reason"]) == ("dead", "rejected")
    assert fact.attributes["depth_messages"] == 0


def test_dead_letter_queue_accepts_dead_letters_above_its_capacity_and_blocks_its_own_producers(world):
    dead = world.queue("dead", capacity_messages=2)
    sender = world.sender(dead)
    _, consumer = filled(world, 10, dead_letter_queue="dead")
    reject(world, consumer)
    assert (dead.gate.depth_messages, dead.gate.state.overfull, sender.producer.blocked) == (10, True, True)


def test_dead_lettering_makes_room_for_producers(world):
    queue = world.queue("orders", capacity_messages=1, maximum_deliveries=1, dead_letter_queue="dead")
    sender = world.sender(queue)
    consumer = world.receiver(queue, credit=5)
    world.send(sender, 5)
    assert sender.producer.blocked
    fail(world, consumer)
    assert not sender.producer.blocked


@pytest.mark.parametrize("around", [["orders"], ["dead", "orders"], ["dead", "deader", "orders"]])
def test_own_dead_letter_queue_retains_failed_messages_and_discards_rejected_ones(world, around):
    for name, target in itertools.pairwise(around):
        world.queue(name, dead_letter_queue=target)
    queue, consumer = filled(world, maximum_deliveries=1, dead_letter_queue=around[0])
    fail(world, consumer, 3)
    assert (queue.gate.depth_messages, queue.lanes.deliveries) == (1, {1: 3})
    reject(world, consumer)
    assert (queue.gate.depth_messages, queue.discarded) == (0, 1)


def test_dead_letter_can_move_to_the_next_dead_letter_queue(world):
    world.queue("dead", dead_letter_queue="deader")
    _, consumer = filled(world, dead_letter_queue="dead")
    reject(world, consumer)
    reject(world, world.receiver(world.broker.queue("default", "dead"), credit=1))
    assert bodies(world.broker.queue("default", "deader")) == [b"dead rejected 0 |1"]


def test_message_returned_to_a_deleted_queue_is_not_dead_lettered(world):
    queue, consumer = filled(world, maximum_deliveries=1, dead_letter_queue="dead")
    (message,) = world.acquired[consumer]
    world.broker.delete_queue(queue)
    queue.put_back(consumer, message, failed=True)
    world.settle()
    assert "dead" not in world.host.queues


def test_dead_letter_queue_is_in_the_same_virtual_host(world):
    world.broker.create_virtualhost("other")
    queue = world.queue("orders", "other", dead_letter_queue="dead")
    queue.enqueue(b"1")
    reject(world, world.receiver(queue, credit=1))
    assert "dead" in world.broker.virtualhost("other").queues
    assert "dead" not in world.host.queues


def test_message_rejected_in_a_transaction_moves_at_the_commit(world):
    queue, consumer = filled(world, dead_letter_queue="dead")
    transaction = world.broker.transactions.declare(consumer.connection, Link())
    (message,) = world.acquired[consumer]
    rejection = Acknowledgement(
        consumer, message, removes=False, rejected=True, failed=False, barred=False, settled=True
    )
    transaction.acknowledge(rejection)
    assert (queue.gate.depth_messages, queue.dead_lettered) == (1, 0)
    world.broker.transactions.commit(transaction)
    assert (queue.gate.depth_messages, queue.dead_lettered) == (0, 1)
    assert bodies(world.broker.queue("default", "dead")) == [b"orders rejected 0 |1"]


# -- stored messages ----------------------------------------------------------------------------------------------


@pytest.fixture
def stored(world: Simulation) -> tuple[Queue, Consumer, FakeStore]:
    world.broker.stores.provider = FakeStores()
    world.broker.turn.header = lambda body: Header(durable=True)
    queue = world.broker.create_queue(
        world.host, "orders", {"maximum_deliveries": 1, "dead_letter_queue": "dead"}, durable=True
    )
    assert queue.durable is not None
    assert isinstance(queue.durable.store, FakeStore)
    queue.enqueue(b"1")
    queue.durable.store.write(world.broker)
    world.settle()
    return queue, world.receiver(queue, credit=1), queue.durable.store


def test_stored_message_moves_in_one_change_and_is_visible_when_that_is_safe(world, stored):
    queue, consumer, store = stored
    fail(world, consumer)
    dead = world.broker.queue("default", "dead")
    assert (store.puts, store.removed) == ([], [])
    assert len(store.moves) == 1
    reader = world.receiver(dead, credit=1)
    assert (dead.gate.depth_messages, world.acquired[reader]) == (1, [])
    store.write(world.broker)
    world.settle()
    assert [body for _, body in world.acquired[reader]] == [b"orders maximum-deliveries 1 |1"]
    assert list(store.stored) == [(dead.store_id, 1)]
    assert (queue.storage.stored, dead.storage.stored) == (0, 1)
    world.accept(reader)
    store.write(world.broker)
    assert store.stored == {}


def test_move_refused_by_the_disk_is_visible_after_the_store_has_retried(world, stored):
    _, consumer, store = stored
    fail(world, consumer)
    dead = world.broker.queue("default", "dead")
    sender = world.sender(dead)
    reader = world.receiver(dead, credit=5)
    world.broker.committed("default", store.ticket, stored=False, removed=False)
    store.ticket += 1
    world.settle()
    assert world.send(sender, 1) == 1
    world.broker.committed("default", store.ticket, stored=True, removed=False)
    store.ticket += 1
    world.settle()
    assert [number for number, _ in world.acquired[reader]] == [2]
    world.broker.committed("default", store.ticket, stored=True, removed=True)
    world.settle()
    assert [number for number, _ in world.acquired[reader]] == [2, 1]
    assert dead.gate.depth_messages == 2
