"""A purge takes all messages out at once, and what they need is freed in portions: in turns of their own."""

from __future__ import annotations

import sys

import pytest

from brokers.engine.broker import Broker
from brokers.engine.queues import purging
from brokers.engine.queues.queue import Queue
from brokers.engine.values.message import Header
from brokers.testing import START
from tests.engine.fake_store import FakeStore, FakeStores

COUNT, PORTION = 400, 10


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(purging, "PORTION", PORTION)


def opened(*, durable: bool) -> tuple[Broker, Queue]:
    broker = Broker(START, stores=FakeStores())
    broker.turn.header = lambda body: Header(body.startswith(b"D"), 4 + body[1] % 2, 5000 if b"ttl" in body else 0)
    return broker, broker.create_queue(broker.create_virtualhost("default"), "q", durable=durable)


def written(broker: Broker) -> FakeStore:
    store = broker.virtualhost("default").store
    assert isinstance(store, FakeStore)
    store.write(broker)
    return store


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("body", [b"T0 plain", b"T0 ttl"])
def test_messages_in_memory_are_gone_at_once_and_freed_in_portions(durable: bool, body: bytes) -> None:
    broker, queue = opened(durable=durable)
    body = bytes(bytearray(body))
    before = sys.getrefcount(body)
    for _ in range(COUNT):
        queue.enqueue(body)
    assert queue.lanes.purge() == (COUNT, 0)
    gate = queue.gate
    assert (gate.depth_messages, gate.depth_bytes, queue.lanes.unacknowledged, queue.lanes.dequeued) == (0, 0, 0, COUNT)
    left = sys.getrefcount(body) - before
    assert COUNT - 2 * PORTION <= left < COUNT, "one portion is freed in the turn of the purge"
    queue.enqueue(b"T0 later")
    while left:
        broker.agenda.free_some()
        earlier, left = left, sys.getrefcount(body) - before
        assert 0 < earlier - left <= 2 * PORTION
    while broker.agenda.free_some():
        pass
    assert not queue.lanes.deadlines.at
    assert [body for _, body in queue.lanes.usual.ready] == [b"T0 later"]


def test_stored_messages_are_removed_by_a_few_changes_and_the_purge_is_safe_when_these_are() -> None:
    broker, queue = opened(durable=True)
    assert queue.durable is not None
    for number in range(COUNT):
        queue.enqueue(b"D%d" % (number % 2))
        queue.enqueue(b"T%d" % (number % 2))
    store = written(broker)
    assert len(store.stored) == queue.durable.stored == COUNT
    queue.enqueue(b"D0 not safe yet")
    store.runs = 0
    count, ticket = queue.lanes.purge()
    assert count == 2 * COUNT
    assert store.runs <= 8, "a change for each part of a lane"
    safe: list[bool] = []
    queue.durable.when_safe(ticket, lambda: safe.append(True))
    assert not safe
    written(broker)
    assert safe == [True]
    assert list(store.stored.values()) == [b"D0 not safe yet"]
    while broker.agenda.free_some():
        pass
    assert queue.durable.stored == queue.gate.depth_messages == 1


def test_purge_of_a_queue_that_is_deleted_is_confirmed() -> None:
    broker, queue = opened(durable=True)
    assert queue.durable is not None
    queue.enqueue(b"D0")
    written(broker)
    _, ticket = queue.lanes.purge()
    safe: list[bool] = []
    queue.durable.when_safe(ticket, lambda: safe.append(True))
    broker.delete_queue(queue)
    assert safe == [True]


def test_acquired_messages_stay_and_come_back_after_a_purge() -> None:
    broker, queue = opened(durable=True)
    assert queue.durable is not None
    for number in range(COUNT):
        queue.enqueue(b"D0 %d" % number)
    store = written(broker)
    acquired = [queue.lanes.usual.ready.popleft() for _ in range(5)]
    assert queue.lanes.purge()[0] == COUNT - 5
    written(broker)
    assert sorted(store.stored.values()) == sorted(body for _, body in acquired)
    queue.restore(acquired[0])
    assert queue.lanes.purge()[0] == 1
    while broker.agenda.free_some():
        pass
    assert queue.durable.stored == queue.gate.depth_messages == queue.lanes.unacknowledged == 4
