"""The watch of a client or a connection: what it shows, to which users, and what it refuses."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from brokers.admin import BrokerAdmin, ManagedObject
from brokers.admin import Page as BrokerPage
from brokers.model import TYPES, ObjectName, object_name
from console.links.visibility import as_visible
from console.live import client_watch
from console.live.client_watch import client_data
from tests.console.conftest import Broker
from tests.console.test_live import Page, do, page

__all__ = ["page"]  # a fixture
pytestmark = pytest.mark.django_db

DEFAULT = object_name("VirtualHost", name="default")


async def furnish(broker: Broker) -> None:
    await asyncio.to_thread(broker.connected)
    await do(broker, lambda memory: memory.attach_producer("orders", link="out", user="ann", container_id="web"))
    await do(broker, lambda memory: memory.attach_producer("orders", link="out", user="bob", container_id="web"))
    await do(broker, lambda memory: memory.attach_consumer("orders"))


def links(listed: dict[str, Any]) -> list[tuple[str, str]]:
    assert listed["total"] == len(listed["items"])
    return [(ObjectName.parse(item["name"]).type, item["attributes"]["queue"]) for item in listed["items"]]


async def test_client_has_the_connections_of_its_user_and_container_only(broker: Broker) -> None:
    await furnish(broker)
    data = await client_data(broker.link, DEFAULT, ("ann", "web"))
    (mine,) = data["connections"]["items"]
    assert (mine["attributes"]["user"], mine["attributes"]["container_id"]) == ("ann", "web")
    assert links(data["producers"]) == [("Producer", "type=Queue,virtualhost=default,name=orders")]
    assert links(data["consumers"]) == []
    both = await client_data(broker.link, DEFAULT, ("", "web"))
    assert both["connections"]["total"] == len(links(both["producers"])) == 2


async def test_connection_is_shown_alone_and_none_after_its_end(broker: Broker) -> None:
    await furnish(broker)
    (mine,) = (await client_data(broker.link, DEFAULT, ("bob", "")))["connections"]["items"]
    data = await client_data(broker.link, ObjectName.parse(mine["name"]), None)
    assert data["connections"] == {"items": [mine], "total": 1}
    assert len(links(data["producers"])) == 1
    gone = object_name("Connection", virtualhost="default", id="gone")
    data = await client_data(broker.link, gone, None)
    assert data["connections"] == data["producers"] == data["consumers"] == {"items": [], "total": 0}


class Many:
    """A broker of which each connection has four producers, the last one blocked if its number is odd."""

    async def query(self, type_name: str, *, where: Any, sort: str, count: int) -> BrokerPage:
        assert (type_name, sort) == ("Producer", "state")
        states = [
            ("BLOCKED" if n == 3 and int(c) % 2 else "NORMAL", c, n) for c in where["connection"] for n in range(4)
        ]
        found = tuple(
            ManagedObject(object_name("Producer", virtualhost="default", id=f"{c}-{n}"), 1, {"state": state})
            for state, c, n in sorted(states)
        )
        return BrokerPage(found[:count], len(found), 0)


async def test_links_of_many_connections_are_limited_with_blocked_ones_first_and_all_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_watch, "MOST", 10)
    monkeypatch.setattr(client_watch, "AT_ONCE", 3)
    connections = {"items": [{"name": str(number)} for number in range(10)], "total": 10}
    found = await client_watch._links(cast(BrokerAdmin, Many()), TYPES, "Producer", connections)
    assert found is not None
    states = [item["attributes"]["state"] for item in found["items"]]
    assert (states, found["total"]) == (["BLOCKED"] * 5 + ["NORMAL"] * 5, 40)


def test_blocked_ones_are_first_and_unknown_ones_last() -> None:
    counts = [3, None, 0, 7]
    assert sorted(counts, key=lambda n: client_watch._blocked_first(n, descending=True)) == [7, 3, 0, None]
    states = ["NORMAL", None, "BLOCKED"]
    found = sorted(states, key=lambda state: client_watch._blocked_first(state, descending=False))
    assert found == ["BLOCKED", "NORMAL", None]


async def test_other_virtual_hosts_are_not_shown(broker: Broker) -> None:
    await furnish(broker)
    blind = as_visible(broker.link, frozenset({"blue"}))
    (mine,) = (await client_data(broker.link, DEFAULT, ("ann", "web")))["connections"]["items"]
    for name, client in ((DEFAULT, ("ann", "web")), (ObjectName.parse(mine["name"]), None)):
        data = await client_data(blind, name, client)
        assert data["connections"] == data["producers"] == data["consumers"] == {"items": [], "total": 0}


async def test_socket_sends_the_client_again_with_what_has_changed(broker: Broker, page: Page) -> None:
    await furnish(broker)
    await page.send(watch="client", object=str(DEFAULT), user="ann", container_id="web")
    first = await page.frame_of("snapshot")
    assert (first["watch"], first["data"]["producers"]["total"]) == ("client", 1)
    await do(broker, lambda memory: memory.attach_producer("mail", link="more", user="ann", container_id="web"))
    frame = first
    while frame["data"]["producers"]["total"] == 1:
        frame = await page.frame_of("snapshot")
    assert frame["n"] > first["n"]
    assert frame["data"]["read_at"] > first["data"]["read_at"]
    assert frame["data"]["connections"]["total"] == 2


async def test_without_the_broker_nothing_is_said_of_the_client(broker: Broker, page: Page) -> None:
    await furnish(broker)
    await asyncio.to_thread(broker.lose)
    await page.send(watch="client", object=str(DEFAULT), user="ann")
    frame = await page.frame_of("snapshot")
    assert (frame["connected"], frame["data"]) == (False, {})


@pytest.mark.parametrize(
    ("message", "named"),
    [
        ({"object": "type=VirtualHost,name=default"}, "user or container_id"),
        ({"object": "type=VirtualHost,name=default", "user": 5}, "user and container_id"),
        ({"object": "type=Queue,virtualhost=default,name=orders", "user": "ann"}, "name of a connection"),
        ({"object": ""}, "type"),
        ({}, "type"),
    ],
)
async def test_watch_that_names_no_client_is_refused(page: Page, message: dict[str, Any], named: str) -> None:
    await page.send(watch="client", **message)
    frame = await page.frame()
    assert frame["type"] == "error"
    assert named in frame["detail"]
