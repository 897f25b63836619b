"""Snapshots of a broker that stopped answering: their age, and no data that is unknown."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from rest_framework.test import APIClient

from brokers.admin import BrokerAdmin, BrokerUnreachable, Event, Samples
from brokers.model import object_name
from brokers.steady_clock import SteadyClock, time_of_day
from brokers.testing import InMemoryBroker
from console.links.queue_table import QueueTable
from console.links.registry import Pace
from console.links.state import BrokerState
from console.live.watching import Watch, last_known
from tests.console.conftest import Broker, until

ORDERS = object_name("Queue", virtualhost="default", name="orders")
FROM_SNAPSHOT = ["/api/v1/conditions/", "/api/v1/events/", "/api/v1/timeline/"]


class Hanging:
    """A connection to a broker that neither answers nor closes while `hung`."""

    def __init__(self, admin: BrokerAdmin, hung: list[bool]) -> None:
        self._admin, self._hung = admin, hung

    def __getattr__(self, name: str) -> Any:
        async def request(*given: Any, **named: Any) -> Any:
            if self._hung[0]:
                await asyncio.Event().wait()
            return await getattr(self._admin, name)(*given, **named)

        return request

    def events(self, after: int | None = None) -> AsyncIterator[Event]:
        return self._admin.events(after)

    def samples(self) -> AsyncIterator[Samples]:
        return self._admin.samples()


@pytest.fixture
def hung(broker: Broker, settings: Any) -> list[bool]:
    """Whether the broker hangs; connections to it can still be opened."""
    now = [False]
    broker.wrap = lambda admin: Hanging(admin, now)  # type: ignore[assignment,return-value]
    settings.HEADGATE_BROKERS[0]["pace"] = Pace(
        retry_first=0.01, retry_most=0.05, totals=0.05, hosts=0.2, conditions=0.02, answer=0.5, probe=0.1
    )
    broker.memory = InMemoryBroker(now=time_of_day())
    return now


def with_orders(broker: Broker) -> None:
    def make(memory: InMemoryBroker) -> None:
        memory.management.create(ORDERS, {"capacity_messages": 10})
        memory.fill("orders", 20)

    broker.connected()
    broker.do(make)
    until(lambda: (broker.link.queue(ORDERS) or {}).get("state") == "OVERFULL")


def test_hanging_idle_broker_is_detected_and_the_snapshot_is_older(broker: Broker, hung: list[bool]) -> None:
    with_orders(broker)
    known = broker.link.as_of
    assert known is not None
    hung[0] = True
    at = time_of_day()
    until(lambda: not broker.link.connected, 20)
    as_of = broker.link.as_of
    assert as_of is not None
    assert known <= as_of <= at
    hung[0] = False
    until(lambda: broker.link.connected, 20)
    assert (broker.link.as_of or 0) > at


def test_a_late_answer_to_an_earlier_request_makes_no_snapshot_older() -> None:
    day = 1_800_000_000_000
    state = BrokerState("local", 10, SteadyClock(lambda: day * 1_000_000, lambda: 0))
    for requested in (day + 20, day + 10):
        state.answered(requested)
    assert state.as_of == day + 20


@pytest.mark.django_db
def test_answers_from_the_snapshot_have_its_age_and_requests_to_the_broker_are_503(
    broker: Broker, hung: list[bool], as_viewer: APIClient
) -> None:
    with_orders(broker)
    for path in FROM_SNAPSHOT:
        assert as_viewer.get(path).json()["stale"] is False, path
    hung[0] = True
    at = time_of_day()
    until(lambda: not broker.link.connected, 20)
    for path in FROM_SNAPSHOT:
        answer = as_viewer.get(path).json()
        assert answer["stale"] is True, path
        assert answer["as_of"] <= at, path
    (one,) = as_viewer.get("/api/v1/brokers/").json()
    assert (one["stale"], one["as_of"]) == (True, broker.link.as_of)
    stop = {"scope": "type=Broker"}
    for refused in (
        as_viewer.get("/api/v1/queues/"),
        as_viewer.get(f"/api/v1/why/?object={ORDERS}"),
        as_viewer.post("/api/v1/stop-producers/preview/", stop, format="json"),
    ):
        assert refused.status_code == 503
        assert "Local broker" in refused.json()["detail"]


@pytest.mark.django_db
def test_without_a_snapshot_the_answer_is_503_and_not_an_empty_list(
    broker: Broker, hung: list[bool], as_viewer: APIClient
) -> None:
    hung[0] = True
    for path in FROM_SNAPSHOT:
        answer = as_viewer.get(path)
        assert answer.status_code == 503, path
        assert "Local broker" in answer.json()["detail"]
    assert as_viewer.get("/api/v1/timeline/?source=people").status_code == 200
    (one,) = as_viewer.get("/api/v1/brokers/").json()
    assert (one["connected"], one["as_of"], one["stale"]) == (False, None, False)
    with pytest.raises(BrokerUnreachable):
        broker.link.require_snapshot()


def test_snapshot_of_a_queue_omits_producers_and_outdated_sums(broker: Broker, hung: list[bool]) -> None:
    with_orders(broker)
    hung[0] = True
    until(lambda: not broker.link.connected, 20)
    shown = json.loads(last_known(broker.link, Watch("queue", ORDERS)))
    assert shown["queue"]["depth_messages"] == 11
    assert shown["queue"]["capacity_messages"] == 10
    assert not {"producers", "consumers", "explain"} & shown.keys()
    assert not {"overfull_ms", "overfull_count"} & shown["queue"].keys()
    missing = object_name("Queue", virtualhost="default", name="missing")
    assert json.loads(last_known(broker.link, Watch("queue", missing))) == {"gone": True}


def test_row_has_the_time_of_its_last_change() -> None:
    now = [1000]
    table = QueueTable(lambda: now[0])
    memory = InMemoryBroker()
    memory.management.create(ORDERS, {})
    queue = asyncio.run(memory.read(ORDERS))
    table.put(queue)
    now[0] = 2000
    table.put(queue)
    assert table.merge(ORDERS, {"depth_messages": queue["depth_messages"]})
    assert table.unchanged_since(str(ORDERS)) == 1000
    table.merge(ORDERS, {"depth_messages": 7})
    assert table.unchanged_since(str(ORDERS)) == 2000
    table.drop(ORDERS)
    assert table.unchanged_since(str(ORDERS)) is None
