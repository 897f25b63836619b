"""Links: synchronization with a broker, lost connections, and requests."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from brokers.admin import BrokerAdmin, BrokerUnreachable, NotFound, Page
from brokers.model import object_name
from brokers.testing import InMemoryBroker
from console.links.registry import UnknownBroker, link, links
from console.links.visibility import as_visible
from tests.console.conftest import LIMIT, Broker, until, until_async

ORDERS = object_name("Queue", virtualhost="default", name="orders")


def limit(memory: InMemoryBroker, messages: int) -> None:
    """A queue `orders` with a capacity and one producer."""
    memory.attach_producer("orders")
    version = memory.management.read(ORDERS).version
    memory.management.update(ORDERS, {"capacity_messages": messages}, version)
    memory.advance(1000)  # earlier credit is withdrawn, and new credit within the limit is granted


def overfill(memory: InMemoryBroker) -> None:
    memory.publish(next(iter(memory.engine.producers.values())), 50)


def state(broker: Broker) -> Any:
    row = broker.link.queue(ORDERS)
    return None if row is None else row["state"]


def test_connected_link_has_every_queue(broker: Broker) -> None:
    for n in range(1203):  # more than two pages
        broker.memory.attach_producer(f"q{n}")
    assert len(broker.connected().queues()) == 1203


def test_connected_link_has_every_virtual_host(broker: Broker) -> None:
    for n in range(1203):  # more than two pages
        broker.memory.engine.create_virtualhost(f"host{n}")
    broker.memory._end_turn()
    link = broker.connected()
    until(lambda: len(link.hosts) == 1204)


def test_sample_updates_values(broker: Broker) -> None:
    broker.memory.fill("orders", 3, size=10)
    broker.connected()
    broker.do(lambda memory: memory.fill("orders", 4, size=10))
    broker.sample()
    until(lambda: broker.link.queue(ORDERS)["depth_messages"] == 7)  # type: ignore[index]


def test_event_changes_the_state_without_waiting_for_a_sample(broker: Broker) -> None:
    limit(broker.memory, 5)
    broker.connected()
    broker.do(overfill)
    until(lambda: state(broker) == "OVERFULL")
    row = broker.link.queue(ORDERS)
    assert row is not None
    assert row["overfull_since"] is not None
    assert row["blocked_producers"] > 0


def test_created_queue_appears_and_deleted_queue_disappears(broker: Broker) -> None:
    broker.connected()
    broker.do(lambda memory: memory.attach_producer("orders"))
    until(lambda: state(broker) == "NORMAL")
    producer = broker.do(lambda memory: next(iter(memory.engine.producers.values())))
    broker.do(lambda memory: (memory.engine.end_connection(producer.connection, "test"), memory._end_turn()))
    broker.link.call(lambda admin: admin.delete(ORDERS))
    until(lambda: state(broker) is None)


def test_answer_from_before_a_deletion_does_not_bring_the_queue_back(broker: Broker) -> None:
    """Events have a connection of their own: that of a deletion overtakes an answer that still has the queue."""
    queried, released = threading.Event(), threading.Event()

    def late(admin: Any) -> BrokerAdmin:
        query = admin.query

        async def answered_late(type_name: str, **more: Any) -> Page:
            page: Page = await query(type_name, **more)
            if type_name == "Queue" and any(queue.name == ORDERS for queue in page.items) and not released.is_set():
                queried.set()
                await asyncio.to_thread(released.wait, LIMIT)
            return page

        admin.query = answered_late
        found: BrokerAdmin = admin
        return found

    broker.wrap = late
    broker.connected()
    producer = broker.do(lambda memory: memory.attach_producer("orders"))
    assert queried.wait(LIMIT)

    def delete(memory: InMemoryBroker) -> None:
        memory.engine.end_connection(producer.connection, "test")
        memory.management.delete(ORDERS, None, "console")
        memory._end_turn()

    broker.do(delete)
    until(lambda: broker.link.window.last == broker.memory.engine.last_event)
    released.set()
    broker.do(lambda memory: memory.attach_producer("later"))
    until(lambda: broker.link.queue(object_name("Queue", virtualhost="default", name="later")) is not None)
    assert broker.link.queue(ORDERS) is None
    assert broker.connections == 1


def test_queue_that_is_created_again_while_an_answer_is_late_is_in_the_table(broker: Broker) -> None:
    broker.connected()
    for _ in range(20):
        producer = broker.do(lambda memory: memory.attach_producer("orders"))
        broker.do(lambda memory, made=producer: memory.engine.end_connection(made.connection, "test"))
        broker.do(lambda memory: (memory.management.delete(ORDERS, None, "console"), memory._end_turn()))
    broker.do(lambda memory: memory.attach_producer("orders"))
    until(lambda: state(broker) == "NORMAL")


def test_newest_events_of_a_restricted_link_are_those_that_its_user_sees(broker: Broker) -> None:
    broker.memory.engine.create_virtualhost("blue").create_on_attach = True
    broker.memory.engine.virtualhosts["blue"].anonymous = True
    broker.connected()
    broker.do(lambda memory: [memory.attach_producer(f"hush{n}", "blue") for n in range(5)])
    broker.do(lambda memory: [memory.attach_producer(f"q{n}") for n in range(200)])
    until(lambda: broker.link.window.last == broker.memory.engine.last_event)
    blue = as_visible(broker.link, frozenset({"blue"}))
    seen = blue.recent_events(blue.newest_position(3)).events
    assert len(seen) == 3
    assert seen == tuple(event for event in broker.link.recent_events(0).events if blue.sees(event.object))[-3:]
    none = as_visible(broker.link, frozenset({"red"}))
    assert none.newest_position(50) == broker.link.newest_position(50) == broker.memory.engine.last_event - 50


def test_stop_of_the_whole_broker_reaches_every_queue_and_the_totals(broker: Broker) -> None:
    for name in ("orders", "payments"):
        broker.memory.attach_producer(name)
    broker.connected()
    broker.link.call(lambda admin: admin.call(object_name("Broker"), "stop-producers", {"reason": "test"}))
    until(lambda: {row["state"] for row in broker.link.queues()} == {"STOPPED"})
    until(lambda: broker.link.broker is not None and len(broker.link.broker["stops"]) == 1)


def test_reconnected_link_has_the_current_state_and_missed_no_event(broker: Broker) -> None:
    limit(broker.memory, 5)
    before = broker.connected().newest_event
    broker.lose()
    assert "lost" in broker.link.status.error

    def meanwhile(memory: InMemoryBroker) -> None:
        overfill(memory)
        for n in range(30):
            memory.attach_producer(f"new{n}")

    broker.do(meanwhile)
    broker.come_back()
    newest = broker.memory.engine.last_event
    assert newest > before + 30
    until(lambda: broker.link.newest_event == newest)
    until(lambda: not broker.link.has_events_after(newest))
    tail = broker.link.recent_events(before)
    assert tail.expired_before is None
    assert [event.number for event in tail.events] == list(range(before + 1, newest + 1))
    assert state(broker) == "OVERFULL"
    assert len(broker.link.queues()) == 31


def test_replayed_event_does_not_undo_the_state_that_was_read_after_it(broker: Broker) -> None:
    """Overfull and underfull again while the link was disconnected: the state after the replay is the current one."""
    limit(broker.memory, 5)
    broker.connected()
    broker.lose()

    def meanwhile(memory: InMemoryBroker) -> None:
        overfill(memory)
        memory.consume(memory.attach_consumer("orders"), 50)

    broker.do(meanwhile)
    assert "OVERFULL" in [event.attributes.get("state") for event in broker.memory._events]
    broker.come_back()
    newest = broker.memory.engine.last_event
    until(lambda: broker.link.recent_events(newest - 1).events)
    row = broker.link.queue(ORDERS)
    truth = broker.link.call(lambda admin: admin.read(ORDERS))
    assert row is not None
    assert (row["state"], row["depth_messages"]) == (truth["state"], truth["depth_messages"])


def test_expired_events_are_reported(broker: Broker) -> None:
    broker.memory._keep = 10
    broker.memory.attach_producer("orders")
    before = broker.connected().newest_event
    broker.lose()
    broker.do(lambda memory: [memory.attach_producer(f"new{n}") for n in range(40)])
    broker.come_back()
    newest = broker.memory.engine.last_event
    until(lambda: broker.link.recent_events(newest - 1).events)
    tail = broker.link.recent_events(before)
    assert tail.expired_before == newest - 9
    assert [event.number for event in tail.events] == list(range(newest - 9, newest + 1))


async def test_broker_that_lost_its_journal_restarts_the_events(broker: Broker) -> None:
    for n in range(50):
        broker.memory.attach_producer(f"q{n}")
    before = (await asyncio.to_thread(broker.connected)).newest_event
    await asyncio.to_thread(broker.lose)

    def restarted(memory: InMemoryBroker) -> None:
        broker.memory = InMemoryBroker()
        broker.memory.attach_producer("orders")

    await asyncio.to_thread(broker.do, restarted)
    await until_async(lambda: broker.link.connected)
    newest = broker.memory.engine.last_event
    assert newest < before
    await until_async(lambda: broker.link.recent_events(newest - 1).events)
    tail = await broker.link.events_after(before)
    assert tail.expired_before == 1
    assert tail.events[-1].number == newest


async def test_reader_ahead_of_the_link_gets_no_events_and_has_missed_none(broker: Broker) -> None:
    await asyncio.to_thread(broker.connected)
    for n in range(20):
        broker.memory.attach_producer(f"q{n}")  # in this thread: the link has no event yet
    ahead = broker.memory.engine.last_event
    tail = await broker.link.events_after(ahead)
    assert (tail.events, tail.expired_before) == ((), None)


async def test_events_older_than_the_window_are_read_from_the_broker(broker: Broker) -> None:
    for n in range(60):
        broker.memory.attach_producer(f"q{n}")
    await asyncio.to_thread(broker.connected)
    until(lambda: not broker.link.has_events_after(broker.memory.engine.last_event))
    broker.link.window.begin_after(broker.memory.engine.last_event)
    tail = await broker.link.events_after(10, count=20)
    assert tail.expired_before is None
    assert [event.number for event in tail.events] == list(range(11, 31))


def test_call_to_a_disconnected_broker_raises(broker: Broker) -> None:
    broker.connected()
    broker.lose()
    with pytest.raises(BrokerUnreachable, match="Local broker cannot be reached"):
        broker.link.call(lambda admin: admin.read(ORDERS))


def test_call_times_out(broker: Broker) -> None:
    broker.connected()
    with pytest.raises(BrokerUnreachable, match="did not answer within"):
        broker.link.call(lambda admin: asyncio.sleep(60), timeout=0.01)


def test_refusal_reaches_the_caller(broker: Broker) -> None:
    broker.connected()
    with pytest.raises(NotFound):
        broker.link.call(lambda admin: admin.read(ORDERS))


def test_first_call_waits_for_the_first_connection(broker: Broker) -> None:
    assert link().call(lambda admin: admin.read(object_name("Broker")))["queues"] == 0


def test_unknown_broker_is_named_in_the_error(broker: Broker) -> None:
    with pytest.raises(UnknownBroker, match="'elsewhere'"):
        link("elsewhere")
    assert [each.slug for each in links()] == ["local"]


async def test_subscriber_is_woken_on_its_own_loop(broker: Broker) -> None:
    await asyncio.to_thread(broker.connected)
    woken = asyncio.Event()
    subscription = broker.link.readers.subscribe(woken.set)
    await asyncio.to_thread(broker.do, lambda memory: memory.attach_producer("orders"))
    await asyncio.wait_for(woken.wait(), 5)
    broker.link.readers.unsubscribe(subscription)


def test_unexpected_error_during_synchronization_causes_a_reconnect(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(InMemoryBroker, "query", lambda *args, **kwargs: 1 / 0)
    until(lambda: "ZeroDivisionError" in broker.link.status.error)
    assert not broker.link.connected
    monkeypatch.undo()
    until(lambda: broker.link.connected)
    assert broker.connections >= 2


def test_missing_password_file_is_named_in_the_error(broker: Broker, settings: Any, tmp_path: Path) -> None:
    options = {"host": "127.0.0.1", "port": 1, "user": "console", "secret": str(tmp_path / "console.secret")}
    settings.HEADGATE_BROKERS = [
        {"slug": "real", "title": "Real", "connect": "console.links.registry.connect_bundled", "options": options}
    ]
    until(lambda: "console.secret" in link().status.error)
    with pytest.raises(BrokerUnreachable, match="Real cannot be reached"):
        link().call(lambda admin: admin.read(ORDERS))


def test_queue_that_moves_to_another_page_while_others_are_deleted_is_read(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages are by offset: if an earlier queue is deleted between two pages, the first of the next page is skipped."""
    monkeypatch.setattr("console.links.synchronization._PAGE", 2)
    monkeypatch.setattr("console.links.synchronization._SWEEPS", 1)
    names = [f"q{n}" for n in range(6)]
    for name in names:
        version = broker.memory.engine.create_queue(broker.memory.engine.virtualhosts["default"], name, {}).version
        assert version
    broker.memory._end_turn()
    broker.connected()
    until(lambda: len(broker.link.queues()) == 6)
    query = broker.memory.query
    deleted: list[str] = []

    async def losing_one(*args: Any, offset: int = 0, **more: Any) -> Any:
        page = await query(*args, offset=offset, **more)
        if offset == 0 and not deleted:
            deleted.append("q0")
            await broker.memory.delete(object_name("Queue", virtualhost="default", name="q0"))
        return page

    broker.lose()
    monkeypatch.setattr(InMemoryBroker, "query", lambda self, *args, **more: losing_one(*args, **more))
    broker.come_back()
    until(lambda: {row["name"] for row in broker.link.queues()} == set(names) - {"q0"})
