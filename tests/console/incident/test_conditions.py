"""Conditions of a live broker: through the API, the overview and the queue page."""

from __future__ import annotations

import pytest
from rest_framework.test import APIClient

from brokers.model import object_name
from brokers.testing import InMemoryBroker
from console.live.watching import overview, queue
from tests.console.conftest import Broker, until

pytestmark = pytest.mark.django_db

ORDERS = object_name("Queue", virtualhost="default", name="orders")


def overfull(memory: InMemoryBroker) -> None:
    memory.management.create(ORDERS, {"capacity_messages": 10})
    memory.fill("orders", 20)


def raised(broker: Broker) -> None:
    """`orders` is blocked without consumers, for long enough that the condition is active."""
    link = broker.connected()
    broker.do(overfull)
    until(lambda: (link.queue(ORDERS) or {}).get("blocked_producers"))
    broker.sample()
    until(lambda: link.active_conditions._found)
    broker.do(lambda memory: memory.advance(5000, step=500))
    broker.do(lambda memory: memory.attach_producer("another"))  # a change, so that a sample is sent
    broker.sample()
    until(link.conditions)


def test_blocked_queue_without_consumers_has_an_active_condition(broker: Broker, as_viewer: APIClient) -> None:
    raised(broker)
    (condition,) = as_viewer.get("/api/v1/conditions/").json()["results"]
    assert (condition["kind"], condition["object"], condition["severity"]) == (
        "blocked-without-consumer",
        str(ORDERS),
        "trouble",
    )
    assert "1 producer is blocked and the queue has no consumers. Depth: 11 messages." in condition["saw"]
    assert condition["advice"].startswith("Start a consumer.")
    assert as_viewer.get("/api/v1/conditions/", {"object": str(ORDERS)}).json()["results"] == [condition]
    assert as_viewer.get("/api/v1/conditions/", {"object": "type=Broker"}).json()["count"] == 0
    assert as_viewer.get("/api/v1/conditions/", {"kind": "flapping"}).json()["count"] == 0
    assert as_viewer.get("/api/v1/conditions/", {"kind": "odd"}).status_code == 400
    data = overview(broker.link)
    assert [each["kind"] for each in data["conditions"]] == ["blocked-without-consumer"]
    assert data["conditions_total"] == 1
    assert [each["kind"] for each in queue(broker.link, ORDERS)["conditions"]] == ["blocked-without-consumer"]


def test_condition_ends_when_its_cause_ends(broker: Broker, as_viewer: APIClient) -> None:
    raised(broker)
    broker.do(lambda memory: memory.consume(memory.attach_consumer("orders"), 20))
    broker.sample()
    broker.do(lambda memory: memory.advance(5000, step=500))
    broker.do(lambda memory: memory.attach_producer("another"))
    broker.sample()
    until(lambda: not broker.link.conditions())
    assert as_viewer.get("/api/v1/conditions/").json()["results"] == []


def test_memory_near_its_limit_is_a_condition_of_the_broker(broker: Broker, as_viewer: APIClient) -> None:
    link = broker.connected()

    def nearly(memory: InMemoryBroker) -> None:
        memory.fill("orders", 9, size=100)
        name = object_name("Broker")
        memory.management.update(name, {"memory_limit": 1000}, memory.management.read(name).version)
        memory._end_turn()

    broker.do(nearly)
    until(link.conditions)
    (condition,) = as_viewer.get("/api/v1/conditions/").json()["results"]
    assert (condition["kind"], condition["object"], condition["severity"]) == ("near-limit", "type=Broker", "warning")
    assert "90% of the limit (900 of 1,000 bytes)" in condition["saw"]


def test_anonymous_request_for_conditions_is_refused(db: None, broker: Broker) -> None:
    assert APIClient().get("/api/v1/conditions/").status_code == 401
