"""A purge and the deletion of a queue take all messages out at once, and what they need is freed in portions: in turns
of their own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from brokers.engine.broker import Broker
from brokers.engine.flow.usage import Resource
from brokers.engine.queues import purging
from brokers.engine.queues.queue import Queue
from brokers.engine.values.message import Header
from brokers.testing import START
from tests.engine.fake_store import FakeStore, FakeStores
from tests.engine.ports import Peer

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


# -- deletion --------------------------------------------------------------------------------------------------


def assert_freed_in_portions(broker: Broker, left: Callable[[], int], count: int) -> None:
    """`left`: the number of messages that are not freed yet, of `count`."""
    assert left() == count, "none is freed in the turn of the deletion"
    while before := left():
        more = broker.agenda.free_some()
        assert before - left() <= 2 * PORTION
        assert more or not left()
    while broker.agenda.free_some():  # what is known of them
        pass


def references(body: bytes) -> Callable[[], int]:
    """Return a function that returns how many references to a message there are more than now."""
    before = sys.getrefcount(body)
    return lambda: sys.getrefcount(body) - before


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("text", [b"T0 plain", b"T0 ttl"])
def test_deleted_queue_is_gone_at_once_and_its_messages_are_freed_in_portions(durable: bool, text: bytes) -> None:
    broker, queue = opened(durable=durable)
    body = bytes(bytearray(text))
    left = references(body)
    for _ in range(COUNT):
        queue.enqueue(body)
    queue.gate.weigh()
    assert broker.shortages.used(Resource.MEMORY) == COUNT * len(body)
    broker.delete_queue(queue)
    assert "q" not in broker.virtualhost("default").queues
    assert broker.shortages.used(Resource.MEMORY) == 0
    again = broker.create_queue(broker.virtualhost("default"), "q")
    again.enqueue(b"T0 later")
    assert_freed_in_portions(broker, left, COUNT)
    assert not queue.lanes.deadlines.at
    assert [body for _, body in again.lanes.usual.ready] == [b"T0 later"]


def test_delayed_messages_and_a_backlog_of_a_deleted_queue_are_freed_in_portions() -> None:
    broker, queue = opened(durable=False)
    body = bytes(bytearray(b"T0"))
    left = references(body)
    for _ in range(COUNT):
        queue.enqueue(body)
    broker.turn.header = lambda body: Header(due=START + 60_000)
    for _ in range(COUNT):
        queue.enqueue(body)
    broker.turn.header = lambda body: Header()
    for _ in range(COUNT):
        queue.spool(body)
    assert (len(queue.lanes.delayed), len(queue.lanes.usual.backlog)) == (COUNT, COUNT)
    broker.delete_queue(queue)
    assert_freed_in_portions(broker, left, 3 * COUNT)


def test_queues_of_a_deleted_virtual_host_are_freed_in_portions() -> None:
    broker, first = opened(durable=False)
    host = broker.virtualhost("default")
    body = bytes(bytearray(b"T0"))
    left = references(body)
    for queue in (first, broker.create_queue(host, "second"), broker.create_queue(host, "empty")):
        for _ in range(COUNT if queue.name != "empty" else 0):
            queue.enqueue(body)
    broker.delete_virtualhost(host)
    assert len(broker.agenda.freeing) == 2
    assert_freed_in_portions(broker, left, 2 * COUNT)


def test_temporary_queue_that_ends_with_its_connection_is_freed_in_portions() -> None:
    broker, _ = opened(durable=False)
    connection = broker.open_connection(
        "default", user="guest", remote_address="", container_id="client", idle_timeout=0, handle=Peer()
    )
    queue = broker.temporary.create_queue(connection)
    body = bytes(bytearray(b"T0"))
    left = references(body)
    for _ in range(COUNT):
        queue.enqueue(body)
    broker.temporary.delete(queue)  # as its link does when it ends
    assert queue.deleted
    assert_freed_in_portions(broker, left, COUNT)


def test_queue_that_is_deleted_during_its_purge_frees_both() -> None:
    broker, queue = opened(durable=True)
    body = bytes(bytearray(b"T0"))
    left = references(body)
    for _ in range(COUNT):
        queue.enqueue(body)
    queue.lanes.purge()
    for _ in range(COUNT):
        queue.enqueue(body)
    broker.delete_queue(queue)
    while broker.agenda.free_some():
        pass
    assert not left()
