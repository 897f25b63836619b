"""A spooling queue: messages above its capacity are in the temp store, in order, and memory is bounded."""

from __future__ import annotations

import asyncio

import pytest

from brokers.engine.flow.usage import Resource
from brokers.engine.queues.dispatching import LOADS
from brokers.engine.queues.lanes import LOAD_MESSAGES
from brokers.engine.queues.queue import Queue
from brokers.model import object_name
from brokers.testing import InMemoryBroker
from tests.engine.fake_store import FakeStore, FakeStores

NAME = object_name("Queue", virtualhost="default", name="q")
BROKER = object_name("Broker")

SIZE = 100
CAPACITY = 10


@pytest.fixture
def broker() -> InMemoryBroker:
    broker = InMemoryBroker()
    broker.engine.stores.provider = FakeStores()
    broker.management.create(NAME, {"capacity_messages": CAPACITY, "spool": "disk"})
    return broker


def queue_of(broker: InMemoryBroker) -> Queue:
    return broker.engine.queue("default", "q")


def temp(broker: InMemoryBroker) -> FakeStore:
    found = broker.engine.stores.temp
    assert isinstance(found, FakeStore)
    return found


def write(broker: InMemoryBroker, *, fault: bool = False) -> None:
    temp(broker).write(broker.engine, "", fault=fault)
    broker.advance(0)


def numbers(broker: InMemoryBroker, count: int) -> list[int]:
    """Receive and acknowledge `count` messages. Return their numbers."""
    consumer = broker.attach_consumer("q")
    consumer.credit = count
    consumer.queue.touch()
    broker.advance(0)
    got = [message for _, message in broker.acquired]
    broker.acquired.clear()
    for message in got:
        consumer.queue.remove(consumer, message)
    consumer.credit = 0
    broker.advance(0)
    return [number for number, _ in got]


def test_spooling_producers_continue_above_the_capacity_and_bodies_leave_memory(broker: InMemoryBroker) -> None:
    producer = broker.attach_producer("q")
    count = LOAD_MESSAGES * (LOADS + 1)
    assert broker.publish(producer, count, SIZE) == count
    queue = queue_of(broker)
    assert queue.gate.state.overfull
    assert not producer.blocked
    assert queue.memory_bytes() == count * SIZE  # not confirmed yet
    write(broker)
    assert queue.memory_bytes() == (CAPACITY + 1) * SIZE
    assert queue.gate.depth_bytes == count * SIZE
    assert numbers(broker, count) == list(range(1, count + 1))
    write(broker)
    assert temp(broker).stored == {}
    assert (queue.gate.depth_messages, queue.memory_bytes(), queue.lanes.usual.deep) == (0, 0, False)
    assert queue.gate.state.value == "NORMAL"
    broker.publish(producer, 3)
    assert len(queue.lanes.usual.ready) == 3  # no longer spooled


def test_message_dispatched_before_it_is_spooled_is_neither_lost_nor_left_in_the_temp_store(
    broker: InMemoryBroker,
) -> None:
    broker.publish(broker.attach_producer("q"), 30, SIZE)
    assert numbers(broker, 25) == list(range(1, 26))
    write(broker)
    write(broker)
    assert temp(broker).stored == {}  # the rest was loaded with it
    assert numbers(broker, 10) == [26, 27, 28, 29, 30]


def test_temp_store_that_refuses_costs_memory_and_no_message(broker: InMemoryBroker) -> None:
    broker.publish(broker.attach_producer("q"), 30, SIZE)
    write(broker, fault=True)
    assert queue_of(broker).memory_bytes() == 30 * SIZE
    assert numbers(broker, 50) == list(range(1, 31))


def test_spooling_ends_with_the_policy_and_the_order_stays(broker: InMemoryBroker) -> None:
    producer = broker.attach_producer("q")
    broker.publish(producer, 30, SIZE)
    write(broker)
    asyncio.run(broker.update(NAME, {"spool": "memory"}, queue_of(broker).version))
    assert producer.blocked
    assert numbers(broker, 25) == list(range(1, 26))
    assert not producer.blocked
    broker.advance(1000)  # until withdrawn credit is no longer reserved
    assert broker.publish(producer, 2) == 2
    assert numbers(broker, 25) == [26, 27, 28, 29, 30, 31, 32]


def test_purging_and_deleting_empty_the_temp_store(broker: InMemoryBroker) -> None:
    producer = broker.attach_producer("q")
    broker.publish(producer, 30, SIZE)
    write(broker)
    assert asyncio.run(broker.call(NAME, "purge", {"actor": "ann"})) == {"messages": 30}
    assert queue_of(broker).gate.state.value == "NORMAL"
    broker.publish(producer, 30, SIZE)
    asyncio.run(broker.delete(NAME))
    write(broker)
    assert temp(broker).stored == {}


def test_memory_of_spooled_bodies_is_free_when_the_changed_queues_are_measured(broker: InMemoryBroker) -> None:
    producer, shortages = broker.attach_producer("q"), broker.engine.shortages
    broker.publish(producer, 30, SIZE)
    broker.engine.sample()
    assert shortages.used(Resource.MEMORY) == 30 * SIZE
    temp(broker).write(broker.engine, "")  # no other turn touches the queue
    shortages.measure(changed=broker.engine.agenda.changed)
    assert shortages.used(Resource.MEMORY) == queue_of(broker).memory_bytes() < 30 * SIZE


def test_temp_limit_blocks_only_producers_of_spooling_queues(broker: InMemoryBroker) -> None:
    producer, other = broker.attach_producer("q"), broker.attach_producer("other")
    asyncio.run(broker.update(BROKER, {"temp_limit": 5000}, broker.management.read(BROKER).version))
    broker.publish(producer, 30, SIZE)
    temp(broker).used_bytes = 5001
    broker.engine.shortages.measure()
    assert list(producer.reasons) == ["temp-overfull"]
    assert not other.blocked
    assert producer.release_condition() == "the temp store falls to 5,000 bytes (now 5,001)"
    temp(broker).used_bytes = 5000
    broker.engine.shortages.measure()
    assert not producer.blocked
