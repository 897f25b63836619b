"""The clients of a RabbitMQ that lists them slowly, or not at all: everything else is known, and no event is false."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from brokers.adapters import rabbitmq_clients
from brokers.adapters.file_records import FileRecords
from brokers.adapters.inventory import Round
from brokers.adapters.observed import Observed
from brokers.adapters.rabbitmq import RabbitMq
from brokers.adapters.rabbitmq_clients import CLIENTS_RETRY_MS
from brokers.admin import BrokerUnreachable, NotAllowed
from brokers.model import object_name
from tests.adapters.fake import queue_name
from tests.adapters.test_rabbitmq_reading import answer

ORDERS = queue_name("orders", "/")


class Http:
    """RabbitMQ's management with recorded answers, in pages of one item. `fault`: what the lists of clients meet;
    `hangs`: they give no answer."""

    base = "http://rabbitmq.example.org/api"

    def __init__(self) -> None:
        self.lists = {
            "queues": answer("queues")["items"],
            "connections": answer("connections"),
            "channels": answer("channels"),
        }
        self.more = {"vhosts": [{"name": "/"}], "overview": answer("overview"), "policies": answer("policies")}
        self.more["health"] = {}
        self.fault: Exception | None = None
        self.hangs = False
        self.requests: list[tuple[str, str]] = []

    async def request(self, method: str, path: str, *, query: Any = (), **_: Any) -> Any:
        kind = path.removeprefix("/")
        if kind in ("connections", "channels"):
            self.requests.append((kind, query["columns"]))
            if self.fault is not None:
                raise self.fault
            if self.hangs:
                await asyncio.Event().wait()
        if kind in self.lists:
            number = int(query["page"])
            items = self.lists[kind][number - 1 : number]
            return {"items": copy.deepcopy(items), "page_count": len(self.lists[kind])}
        return self.more.get(kind.partition("/")[0], [])


class World:
    def __init__(self, folder: Path) -> None:
        self.http = Http()
        self.now = 1_000_000
        self.adapter = RabbitMq(self.http, lambda: self.now)  # type: ignore[arg-type]
        self.records = FileRecords(folder)
        self.observed = Observed(self.adapter, self.records, lambda: self.now)

    async def round(self, after_ms: int = 5_000) -> None:
        self.now += after_ms
        done = Round()
        async for seen in self.adapter.read_all():
            done.add(seen)
            self.observed.apply(seen, since=0)
        self.observed.end_round(done, self.now, 0)

    def kinds(self) -> list[str]:
        return [event.kind for event in self.records.read(0, 1000)]

    def producers(self) -> list[Any]:
        return [values["state"] for name, values in self.observed.inventory.objects.items() if name.type == "Producer"]

    def set_state(self, state: str) -> None:
        for connection in self.http.lists["connections"]:
            connection["state"] = state


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.records.close()


FAULTS = [BrokerUnreachable("no answer within 30 s"), NotAllowed("not a monitoring user")]


async def test_clients_come_in_pages_with_what_is_used_of_them(world: World) -> None:
    await world.round()
    names = {name for name in world.observed.inventory.objects if name.type == "Connection"}
    assert names == {object_name("Connection", virtualhost="/", id=each["name"]) for each in answer("connections")}
    assert world.producers() == ["RUNNING"]
    assert [kind for kind, _ in world.http.requests] == ["channels", "connections", "connections"]
    assert {len(columns) > 0 for _, columns in world.http.requests} == {True}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_list_of_clients_that_fails_affects_nothing_else(
    world: World, fault: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    world.http.fault = fault
    await world.round()
    assert world.observed.inventory.objects[ORDERS]["depth_messages"] == 5
    await world.round()
    assert len(world.http.requests) == 1  # it is not tried in each round
    assert caplog.text.count(str(fault)) == 1
    world.http.fault = None
    await world.round(CLIENTS_RETRY_MS)
    assert world.producers() == ["RUNNING"]
    assert world.kinds() == []  # they were there already


async def test_a_list_of_clients_without_an_answer_delays_the_round_by_its_own_limit_only(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rabbitmq_clients, "CLIENTS_SECONDS", 0.0)
    world.http.hangs = True
    await world.round()
    assert ORDERS in world.observed.inventory.objects


async def test_clients_that_are_not_listed_are_unknown_and_neither_closed_nor_released(world: World) -> None:
    await world.round()
    world.set_state("blocked")
    await world.round()
    world.http.fault = FAULTS[0]
    for _ in range(3):
        await world.round()
        assert world.producers() == [None]
    world.http.fault = None
    await world.round(CLIENTS_RETRY_MS)
    assert (world.producers(), world.kinds()) == (["BLOCKED"], ["producer-blocked"])
    world.set_state("running")
    await world.round()
    assert world.kinds() == ["producer-blocked", "producer-released"]
    assert world.records.read(1)[0].attributes["blocked_ms"] == 20_000 + CLIENTS_RETRY_MS


async def test_a_producer_that_is_unknown_when_the_process_restarts_was_blocked(world: World, tmp_path: Path) -> None:
    await world.round()
    world.set_state("blocked")
    await world.round()
    world.http.fault = FAULTS[0]
    await world.round()
    world.records.close()
    again = World(tmp_path)
    again.now = world.now
    again.set_state("blocked")
    await again.round()
    world.records = again.records
    assert again.kinds() == ["producer-blocked"]
