"""What an operator moves to the dead-letter queue of its queue becomes a dead letter, as if it had been rejected."""

from __future__ import annotations

from typing import Any

import pytest
from proton import Message, symbol

from brokers.model import ObjectName, object_name
from brokers.testing import InMemoryBroker
from tests.engine.fake_store import FakeStore, FakeStores

ORDERS, DEAD, OTHER = (object_name("Queue", virtualhost="default", name=name) for name in ("orders", "dead", "other"))
MOVED = "moved-by-operator"


@pytest.fixture(params=[False, True], ids=["in memory", "durable"])
async def broker(request: pytest.FixtureRequest) -> InMemoryBroker:
    broker = InMemoryBroker()
    broker.engine.stores.provider = FakeStores()
    await broker.create(DEAD, {"durable": request.param})
    await broker.create(OTHER, {"durable": request.param})
    await broker.create(ORDERS, {"durable": request.param, "dead_letter_queue": "dead", "maximum_deliveries": 9})
    return broker


def written(broker: InMemoryBroker) -> None:
    store = broker.engine.virtualhost("default").store
    if isinstance(store, FakeStore):
        store.write(broker.engine)
    broker.advance(0)


def publish(broker: InMemoryBroker, *subjects: str, **more: Any) -> None:
    broker.publish_encoded(
        "orders", *(bytes(Message(subject=subject, durable=True, **more).encode()) for subject in subjects)
    )
    written(broker)


async def act(broker: InMemoryBroker, queue: ObjectName, operation: str, **given: Any) -> dict[str, Any]:
    answer = await broker.call(queue, operation, {"match": {}, "actor": "olga", **given})
    written(broker)
    return dict(answer)


async def listed(broker: InMemoryBroker, queue: ObjectName) -> list[dict[str, Any]]:
    return list((await broker.call(queue, "list-messages", {"count": 100}))["messages"])


async def test_they_are_counted_by_reason_and_source_and_a_retry_returns_them_as_they_were(broker):
    publish(broker, "a", "b", "c")
    before = await listed(broker, ORDERS)
    assert (await act(broker, ORDERS, "move-messages", to="dead"))["messages"] == 3
    marks = [message["dead_letter"] for message in await listed(broker, DEAD)]
    assert marks == [{"reason": MOVED, "queue": "orders", "failed_deliveries": 0, "description": ""}] * 3
    groups = (await broker.call(DEAD, "summarize-messages", {}))["groups"]
    assert [(each["reason"], each["queue"], each["messages"]) for each in groups] == [(MOVED, "orders", 3)]
    assert groups[0]["oldest_at"] is not None
    answer = await act(broker, DEAD, "retry-messages", match={"dead_letter_reason": MOVED})
    assert (answer["messages"], answer["skipped"]) == (3, [])
    assert await listed(broker, DEAD) == []
    back = await listed(broker, ORDERS)
    same = ("properties", "application_properties", "durable", "priority", "redeliveries", "state")
    assert [[m[name] for name in same] for m in back] == [[m[name] for name in same] for m in before]
    assert [m["dead_letter"] for m in back] == [None] * 3


async def test_time_to_live_and_delivery_time_are_removed_as_from_a_rejected_message(broker):
    due = broker.engine.turn.now + 3_600_000
    publish(broker, "later", ttl=7200, annotations={symbol("x-opt-delivery-time"): due})
    (before,) = await listed(broker, ORDERS)
    assert (before["state"], before["expires"] is None) == ("delayed", False)
    await act(broker, ORDERS, "move-messages", to="dead")
    (after,) = await listed(broker, DEAD)
    assert (after["state"], after["expires"], after["due"]) == ("available", None, None)


async def test_failed_deliveries_are_part_of_the_mark(broker):
    publish(broker, "a")
    consumer = broker.attach_consumer("orders")
    consumer.credit = 1
    consumer.queue.touch()
    broker.advance(0)
    ((_, message),) = broker.acquired
    broker.acquired.clear()
    consumer.queue.put_back(consumer, message, failed=True)
    broker.engine.detach(consumer)
    broker.advance(0)
    await act(broker, ORDERS, "move-messages", to="dead")
    assert (await listed(broker, DEAD))[0]["dead_letter"]["failed_deliveries"] == 1


@pytest.mark.parametrize(("operation", "to"), [("move-messages", "other"), ("copy-messages", "dead")])
async def test_moves_to_other_queues_and_copies_mark_nothing(broker, operation, to):
    publish(broker, "a")
    await act(broker, ORDERS, operation, to=to)
    target = {"other": OTHER, "dead": DEAD}[to]
    assert [message["dead_letter"] for message in await listed(broker, target)] == [None]


async def test_move_within_a_circle_of_dead_letter_queues_marks_nothing(broker):
    await broker.update(DEAD, {"dead_letter_queue": "orders"}, (await broker.read(DEAD)).version)
    publish(broker, "a")
    await act(broker, ORDERS, "move-messages", to="dead")
    assert [message["dead_letter"] for message in await listed(broker, DEAD)] == [None]


async def test_dead_letter_that_moves_on_names_the_queue_that_it_came_from_last(broker):
    await broker.update(DEAD, {"dead_letter_queue": "other"}, (await broker.read(DEAD)).version)
    publish(broker, "a")
    await act(broker, ORDERS, "move-messages", to="dead")
    await act(broker, DEAD, "move-messages", to="other")
    ((mark),) = [message["dead_letter"] for message in await listed(broker, OTHER)]
    assert (mark["reason"], mark["queue"]) == (MOVED, "dead")
