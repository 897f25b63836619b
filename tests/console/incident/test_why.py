"""Explanations of why a queue or a producer is blocked: causes, effective limits and shared connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from brokers.engine.queues.consumer import Consumer
from brokers.engine.values.message import Header
from brokers.model import object_name
from brokers.testing import InMemoryBroker
from console.live.consumer import LiveConsumer
from tests.console.conftest import Broker
from tests.console.websocket import WebSocket
from tests.engine.ports import Link

pytestmark = pytest.mark.django_db

ORDERS = object_name("Queue", virtualhost="default", name="orders")


def overfull(memory: InMemoryBroker) -> None:
    """`orders`, limited by a pattern, is overfull; its producer shares a connection with others."""
    memory.management.create(
        object_name("Policy", virtualhost="default", pattern="orders"),
        {"capacity_messages": 10, "flow_resume_messages": "50%"},
    )
    producer = memory.fill("orders", 20)
    other = memory.engine.find_or_create_queue(producer.connection, "audit")
    memory.engine.attach_producer(producer.connection, other, "audit-sender", 1, Link())
    memory.engine.attach_consumer(producer.connection, other, "audit-receiver", Link(), browsing=False)
    memory._end_turn()


def explained(client: APIClient, name: Any) -> Any:
    answer = client.get("/api/v1/why/", {"object": str(name)})
    assert answer.status_code == 200, answer.content
    return answer.json()


def test_overfull_queue_shows_its_effective_limit_and_the_origin_of_that(broker: Broker, as_viewer: APIClient) -> None:
    broker.connected()
    broker.do(overfull)
    why = explained(as_viewer, ORDERS)
    assert why["blocked"] is True
    assert why["summary"] == "1 producer is blocked: queue orders is overfull."
    (cause,) = why["causes"]
    (limit,) = cause["limits"]
    assert (limit["unit"], limit["depth"], limit["stop"], limit["resume"], limit["effective"]) == (
        "messages",
        11,
        10,
        5,
        True,
    )
    capacity = next(field for field in limit["fields"] if field["field"] == "capacity_messages")
    assert capacity["origin"] == "pattern orders"
    assert capacity["origin_object"] == "type=Policy,virtualhost=default,pattern=orders"
    assert cause["to_drain"] == {"messages": 6}
    assert (cause["resume_ms"], cause["because"]) == (None, "the queue has no consumers")
    assert cause["since"] is not None


def test_deprecated_names_in_an_explanation_have_the_same_values(broker: Broker, as_viewer: APIClient) -> None:
    broker.connected()
    broker.do(overfull)
    why = explained(as_viewer, ORDERS)
    (cause,), (connection,) = why["causes"], why["connections"]
    assert (why["asked"], why["says"]) == (why["object"], why["summary"]) == (str(ORDERS), why["summary"])
    assert (cause["holds"], cause["to_go"]) == (cause["blocks"], cause["to_drain"]) == (True, {"messages": 6})
    assert cause["limits"][0]["binds"] is cause["limits"][0]["effective"] is True
    assert connection["held"] == connection["blocked_producers"] == 1


def test_explanation_of_a_producer_has_the_other_links_of_its_connection(broker: Broker, as_viewer: APIClient) -> None:
    broker.connected()
    broker.do(overfull)
    blocked = explained(as_viewer, ORDERS)["producers"][0]
    why = explained(as_viewer, blocked["object"])
    assert why["summary"] == "This producer is blocked: queue orders is overfull."
    assert why["producer"]["link"] == "sender"
    (connection,) = why["connections"]
    assert connection["object"] == blocked["connection"]
    assert connection["blocked_producers"] == 1
    assert [link["link"] for link in connection["other_producers"]] == ["audit-sender"]
    assert [link["link"] for link in connection["other_consumers"]] == ["audit-receiver"]


def test_queue_blocked_by_several_causes_shows_all_of_them(broker: Broker, as_viewer: APIClient) -> None:
    broker.connected()

    def everything(memory: InMemoryBroker) -> None:
        overfull(memory)
        management = memory.management
        management.call(object_name("Broker"), "stop-producers", {"reason": "incident 7"}, "ann")
        broker_now = management.read(object_name("Broker"))
        management.update(object_name("Broker"), {"memory_limit": 1}, broker_now.version)
        memory._end_turn()

    broker.do(everything)
    why = explained(as_viewer, ORDERS)
    assert [cause["kind"] for cause in why["causes"]] == ["queue", "stop", "memory"]
    stop, memory_cause = why["causes"][1:]
    assert (stop["scope"], stop["reason"], stop["actor"]) == ("broker", "incident 7", "ann")
    assert memory_cause["limit"] == 1
    assert memory_cause["used"] > 1
    assert why["resume_ms"] is None


def test_draining_queue_shows_when_it_resumes(broker: Broker, as_viewer: APIClient) -> None:
    broker.connected()

    def limited(memory: InMemoryBroker) -> Consumer:
        memory.management.create(ORDERS, {"capacity_messages": 100, "flow_resume_messages": "10%"})
        memory.fill("orders", 200)
        return memory.attach_consumer("orders")

    consumer = broker.do(limited)
    for _ in range(5):
        broker.do(lambda memory: memory.consume(consumer, 10))
        broker.sample()
    why = explained(as_viewer, ORDERS)
    (cause,) = why["causes"]
    assert cause["to_drain"] == {"messages": 41}
    assert why["drain"]["messages"] == pytest.approx(10, rel=0.3)
    assert why["resume_ms"] == pytest.approx(4100, rel=0.4)


def test_queue_full_of_delayed_messages_shows_that_as_the_reason(broker: Broker, as_viewer: APIClient) -> None:
    broker.connected()

    def delayed(memory: InMemoryBroker) -> None:
        due = memory.engine.turn.now + 3_600_000
        memory.engine.turn.header = lambda body: Header(due=due)
        overfull(memory)
        memory.attach_consumer("orders").credit = 10

    broker.do(delayed)
    why = explained(as_viewer, ORDERS)
    (cause,) = why["causes"]
    assert "11 messages wait for their delivery time, the next at " in cause["because"]
    assert (cause["resume_ms"], why["queue"]["delayed_messages"]) == (None, 11)
    assert why["consumers"][0]["doing"] == "waits for messages, credit for 10"


def test_queue_without_blocked_producers_says_so(broker: Broker, as_viewer: APIClient) -> None:
    broker.connected()
    broker.do(lambda memory: memory.attach_producer("orders"))
    why = explained(as_viewer, ORDERS)
    assert (why["blocked"], why["causes"]) == (False, [])
    assert why["summary"] == "No producers of orders are blocked."


def crowded(memory: InMemoryBroker) -> None:
    """Two producers have all the credit that the capacity allows and never send; a third has none."""
    memory.management.create(ORDERS, {"capacity_messages": 1})
    for _ in range(3):
        memory.attach_producer("orders")


def test_several_producers_without_credit_wait_for_their_turn(broker: Broker, as_viewer: APIClient) -> None:
    broker.connected()
    broker.do(lambda memory: (crowded(memory), memory.attach_producer("orders")))
    assert (
        "2 producers have no credit: they wait for their turn: the room left" in explained(as_viewer, ORDERS)["summary"]
    )


@pytest.mark.domain("3 never without a reason")
def test_unblocked_producer_without_credit_shows_what_it_waits_for(broker: Broker, as_viewer: APIClient) -> None:
    broker.connected()
    broker.do(crowded)
    turn = "its turn: the room left in queue orders is reserved for credit that other producers hold"
    why = explained(as_viewer, ORDERS)
    assert (why["blocked"], why["causes"]) == (False, [])
    assert why["summary"] == f"No producers of orders are blocked. One producer has no credit: it waits for {turn}."
    holder, _, waiting = sorted(why["producers"], key=lambda producer: producer["id"])
    assert (holder["credit"], holder["waits_for"]) == (1, "")
    summary = explained(as_viewer, waiting["object"])["summary"]
    assert summary == f"This producer is not blocked, but has no credit: it waits for {turn}."
    summary = explained(as_viewer, holder["object"])["summary"]
    assert summary == "This producer is not blocked: it can send 1 message to orders now."


def test_queue_with_mechanism_reject_blocks_no_producers(broker: Broker, as_viewer: APIClient) -> None:
    broker.connected()

    def rejecting(memory: InMemoryBroker) -> None:
        memory.management.create(ORDERS, {"capacity_messages": 5, "mechanism": "reject"})
        memory.fill("orders", 20)

    broker.do(rejecting)
    assert "its mechanism is reject" in explained(as_viewer, ORDERS)["summary"]


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("", 400),
        ("type=Broker", 400),
        ("nonsense", 400),
        (str(ORDERS), 404),
        ("type=Producer,virtualhost=default,id=999", 404),
    ],
)
def test_object_that_is_no_queue_or_producer_is_refused(
    broker: Broker, as_viewer: APIClient, name: str, status: int
) -> None:
    broker.connected()
    assert as_viewer.get("/api/v1/why/", {"object": name}).status_code == status


def test_unreachable_broker_is_503(broker: Broker, as_viewer: APIClient) -> None:
    broker.connected()
    broker.lose()
    assert as_viewer.get("/api/v1/why/", {"object": str(ORDERS)}).status_code == 503


# -- live -----------------------------------------------------------------------------------------------------------


@pytest.fixture
async def page(broker: Broker) -> AsyncIterator[WebSocket]:
    await asyncio.to_thread(broker.connected)
    made = WebSocket(LiveConsumer.as_asgi())
    made.scope["user"] = User(username="vera", is_superuser=True)
    assert await made.open()
    yield made
    if made.closed is None:
        await made.leave()


async def test_watching_page_receives_a_new_stop_as_a_cause(broker: Broker, page: WebSocket) -> None:
    await asyncio.to_thread(broker.do, overfull)
    await page.send(watch="why", object=str(ORDERS))
    first = await page.frame_of("snapshot")
    while first["data"].get("gone"):
        first = await page.frame_of("snapshot")
    assert [cause["kind"] for cause in first["data"]["causes"]] == ["queue"]

    def stop(memory: InMemoryBroker) -> None:
        memory.management.call(ORDERS, "stop-producers", {"reason": "why not"}, "ann")
        memory._end_turn()

    await asyncio.to_thread(broker.do, stop)
    async with asyncio.timeout(5):
        while len((await page.frame_of("snapshot"))["data"]["causes"]) != 2:
            pass


async def test_watch_of_an_object_of_another_type_is_an_error(page: WebSocket) -> None:
    await page.send(watch="why", object="type=Broker")
    assert "queue or a producer" in (await page.frame_of("error"))["detail"]


async def test_watch_of_a_producer_that_does_not_exist_reports_it_as_gone(page: WebSocket) -> None:
    await page.send(watch="why", object="type=Producer,virtualhost=default,id=77")
    assert (await page.frame_of("snapshot"))["data"] == {"gone": True}
