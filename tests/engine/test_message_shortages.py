"""Operators move and copy messages while a disk or memory is short: none is lost, hidden or above the limits."""

from __future__ import annotations

from typing import Any

import pytest
from proton import Message

from brokers.admin import TryAgain
from brokers.engine.flow.usage import Resource
from brokers.model import ObjectName, object_name
from brokers.testing import InMemoryBroker
from tests.engine.fake_store import FakeStore, FakeStores

MEMORY, DISK, OTHER = (object_name("Queue", virtualhost="default", name=name) for name in ("memory", "disk", "other"))
MOVE: dict[str, Any] = {"match": {}, "to": "disk"}


@pytest.fixture
async def broker() -> InMemoryBroker:
    broker = InMemoryBroker()
    broker.engine.stores.provider = FakeStores()
    await broker.create(MEMORY, {})
    for name in (DISK, OTHER):
        await broker.create(name, {"durable": True})
    return broker


def store(broker: InMemoryBroker) -> FakeStore:
    found = broker.engine.virtualhost("default").store
    assert isinstance(found, FakeStore)
    return found


def written(broker: InMemoryBroker, *, fault: bool = False) -> None:
    store(broker).write(broker.engine, fault=fault)
    broker.advance(0)


def durable(subject: object, **more: Any) -> bytes:
    return bytes(Message(subject=str(subject), durable=True, **more).encode())


async def subjects(broker: InMemoryBroker, name: ObjectName) -> list[str]:
    answer = await broker.call(name, "list-messages", {"count": 200})
    return [message["properties"]["subject"] for message in answer["messages"]]


async def depth(broker: InMemoryBroker, name: ObjectName) -> tuple[int, int]:
    found = await broker.read(name)
    return found["depth_messages"], found["depth_bytes"]


@pytest.mark.parametrize("source", [MEMORY, OTHER], ids=["from memory", "from disk"])
async def test_durable_message_stays_where_it_is_while_the_disk_is_full(broker, source):
    broker.publish_encoded(dict(source.keys)["name"], *(durable(n) for n in range(10)))
    written(broker)
    store(broker).full = True
    answer = await broker.call(source, "move-messages", MOVE)
    assert (answer["messages"], answer["next"] is None) == (0, False)
    assert "is full" in answer["blocked"]
    assert await subjects(broker, source) == [str(n) for n in range(10)]
    store(broker).full = False
    answer = await broker.call(source, "move-messages", MOVE)
    written(broker)
    assert (answer["messages"], answer["blocked"]) == (10, "")
    assert await subjects(broker, DISK) == [str(n) for n in range(10)]


async def test_durable_message_from_memory_returns_to_its_place_when_the_disk_fills_afterwards(broker):
    broker.publish_encoded("memory", *(durable(n, ttl=60) for n in range(10)))
    before = await depth(broker, MEMORY)
    assert (await broker.call(MEMORY, "move-messages", MOVE))["messages"] == 10
    broker.publish_encoded("memory", durable("later"))
    written(broker, fault=True)
    assert await depth(broker, DISK) == (0, 0)
    assert await subjects(broker, MEMORY) == [*(str(n) for n in range(10)), "later"]
    assert (await depth(broker, MEMORY))[1] == before[1] + len(durable("later"))
    found = (await broker.call(MEMORY, "list-messages", {}))["messages"]
    assert [message["expires"] is not None for message in found] == [True] * 10 + [False]
    assert broker.consume(broker.attach_consumer("memory"), 20) == 11


async def test_message_whose_move_is_retried_reaches_selecting_consumers_that_have_gone_on(broker):
    other = broker.attach_consumer("other")  # for its connection
    queue, got = broker.engine.queue("default", "disk"), []

    class Receiver:
        def send(self, messages: list[tuple[int, bytes]]) -> None:
            got.extend(messages)

        def confirm(self, count: int) -> None: ...

    chooser = broker.engine.attach_consumer(
        other.connection, queue, "chooser", Receiver(), browsing=False, selects=lambda _: True
    )
    chooser.acquired = lambda: got
    chooser.credit = 10
    broker.publish_encoded("other", durable("moved"))
    written(broker)
    await broker.call(OTHER, "move-messages", MOVE)
    ticket, store(broker).ticket = store(broker).ticket, store(broker).ticket + 1
    broker.publish_encoded("disk", bytes(Message(subject="later").encode()))
    broker.engine.committed("default", ticket, stored=True, removed=False)  # what is written; the move is retried
    broker.advance(0)
    assert len(broker.acquired) + len(got) == 1
    written(broker)
    assert len(broker.acquired) + len(got) == 2


@pytest.mark.parametrize("operation", ["copy-messages", "move-messages"])
async def test_messages_for_a_spooling_queue_leave_memory_as_those_of_producers_do(broker, operation):
    await broker.update(DISK, {"spool": "disk"}, (await broker.read(DISK)).version)
    await broker.update(object_name("Broker"), {"memory_total": 10_000, "memory_limit": "20%"}, 1)
    broker.publish_encoded("memory", *(bytes(Message(subject=str(n), body="x" * 500).encode()) for n in range(10)))
    broker.engine.shortages.measure({Resource.MEMORY: 10_000})
    broker.advance(0)
    target = broker.engine.queue("default", "disk")
    assert target.storage.spooling
    answer = await broker.call(MEMORY, operation, MOVE)
    assert (answer["messages"], answer["blocked"]) == (10, "")
    temp = broker.engine.stores.temp
    temp.write(broker.engine, "")
    broker.advance(0)
    assert target.lanes.memory_bytes() == 0
    assert len(temp.stored) == 10
    assert await subjects(broker, DISK) == [str(n) for n in range(10)]


@pytest.mark.parametrize("operation", ["list-messages", "move-messages", "delete-messages"])
async def test_store_that_cannot_be_read_now_is_an_error_after_which_to_try_again(broker, operation):
    for n in range(5000):
        broker.publish_encoded("other", durable(n))
    written(broker)
    store(broker).readable = False
    given = {"match": {"selector": "n = 1"}, "after": "4500", **({"to": "disk"} if "move" in operation else {})}
    with pytest.raises(TryAgain):
        await broker.call(OTHER, operation, given)
    store(broker).readable = True
    assert (await broker.call(OTHER, operation, given))["searched"] > 0
