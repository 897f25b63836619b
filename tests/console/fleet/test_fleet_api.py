"""The API and the socket of all brokers: filters, what is not known, permissions, and brokers that come and go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, User
from rest_framework.test import APIClient

from brokers.model import object_name
from console.links.registry import _update, link
from console.live.fleet import consumer, watching
from console.live.fleet.consumer import FleetConsumer
from console.permissions.rights import Grant, Role
from tests.console.access.conftest import HOST_OPTIONS, person
from tests.console.conftest import signed_in, until
from tests.console.fleet.conftest import FleetBroker, entry, overfull
from tests.console.websocket import WebSocket

pytestmark = pytest.mark.django_db

V1 = "/api/v1/fleet/"
Fleet = dict[str, FleetBroker]


def get(client: APIClient, path: str = "") -> Any:
    response = client.get(V1 + path)
    assert response.status_code == 200, response.content
    return response.json()


def test_brokers_in_trouble_come_first_and_unknown_is_not_zero(fleet: Fleet, as_viewer: APIClient) -> None:
    overfull(fleet["us"], "orders.us")
    found = get(as_viewer)
    assert [(row["slug"], row["state"]) for row in found["brokers"]] == [
        ("gone", "disconnected"), ("us", "connected"), ("eu", "connected"),
    ]  # fmt: skip
    gone, us, eu = found["brokers"]
    assert (gone["queues"], gone["blocked_producers"], gone["as_of"]) == (None, None, None)
    assert gone["error"]
    assert (us["kind"], us["tags"], us["overfull_queues"], us["blocked_producers"]) == (
        "rabbitmq",
        ["prod", "slow"],
        1,
        1,
    )
    assert (eu["kind"], eu["overfull_queues"], eu["partial"]) == ("headgate", 0, [])
    totals = found["totals"]
    assert totals["brokers"] == {"all": 3, "connected": 2, "connecting": 0, "disconnected": 1, "paused": 0}
    assert (totals["queues"], totals["overfull_queues"], totals["blocked_producers"]) == (4, 1, 1)
    assert totals["partial"]["queues"] == 1, "one broker's queues are not in the sum"


def test_disconnected_broker_has_its_last_values(fleet: Fleet, as_viewer: APIClient) -> None:
    overfull(fleet["us"], "orders.us")
    fleet["us"].lose()
    us = next(row for row in get(as_viewer)["brokers"] if row["slug"] == "us")
    assert (us["state"], us["stale"], us["overfull_queues"]) == ("disconnected", True, 1)
    assert us["as_of"] is not None
    assert get(as_viewer)["totals"]["stale"] == 1
    queues = get(as_viewer, "queues/?broker=us")["results"]
    assert [row["stale"] for row in queues] == [True, True]
    fleet["us"].come_back()
    assert not next(row for row in get(as_viewer)["brokers"] if row["slug"] == "us")["stale"]


def test_queues_are_filtered_by_broker_tag_kind_state_and_text(fleet: Fleet, as_viewer: APIClient) -> None:
    overfull(fleet["us"], "orders.us")

    def names(query: str) -> list[str]:
        return [f"{row['broker']}/{row['name']}" for row in get(as_viewer, f"queues/?{query}")["results"]]

    everything = ["us/orders.us", "eu/mail.eu", "us/mail.us", "eu/orders.eu"]
    assert names("") == everything
    assert names("broker=us&broker=eu") == everything
    assert names("broker=eu") == ["eu/mail.eu", "eu/orders.eu"]
    assert names("tag=slow") == ["us/orders.us", "us/mail.us"]
    assert names("tag=slow&tag=prod") == everything
    assert names("tag=prod&broker_kind=rabbitmq") == ["us/orders.us", "us/mail.us"]
    assert names("tag=nowhere") == []
    assert names("state=OVERFULL") == ["us/orders.us"]
    assert names("only=nearly-full") == ["us/orders.us"]
    assert names("only=nearly-full&only=no-consumers&broker=us") == ["us/orders.us"]
    assert names("only=nearly-full&broker=eu") == []
    assert names("search=ORDERS") == ["us/orders.us", "eu/orders.eu"]
    assert names("sort=-name") == ["us/orders.us", "eu/orders.eu", "us/mail.us", "eu/mail.eu"]
    assert names("sort=broker") == ["eu/mail.eu", "eu/orders.eu", "us/orders.us", "us/mail.us"]
    second = get(as_viewer, "queues/?page=2&page_size=3")
    assert (second["count"], second["page"], len(second["results"])) == (4, 2, 1)


@pytest.mark.parametrize(
    ("query", "status", "names"),
    [
        ("?broker=nowhere", 404, "nowhere"),
        ("queues/?state=BROKEN", 400, "BROKEN"),
        ("queues/?only=odd", 400, "odd"),
        ("queues/?sort=colour", 400, "colour"),
        ("queues/?page_size=501", 400, "page_size"),
        ("queues/?kind=rabbitmq", 400, "kind"),
        ("conditions/?kind=bad", 400, "bad"),
        ("events/?count=0", 400, "count"),
    ],
)
def test_bad_input_is_refused_by_name(fleet: Fleet, as_viewer: APIClient, query: str, status: int, names: str) -> None:
    response = as_viewer.get(V1 + query)
    assert response.status_code == status
    assert names in response.content.decode()


def test_events_and_conditions_of_all_brokers_are_merged(fleet: Fleet, as_viewer: APIClient) -> None:
    for slug in ("eu", "us"):
        overfull(fleet[slug], f"orders.{slug}")
    until(lambda: {"queue-overfull"} <= {e["kind"] for e in get(as_viewer, "events/?broker=us")["events"]})
    events = get(as_viewer, "events/?count=500")["events"]
    assert {event["broker"] for event in events} == {"eu", "us"}
    times = [event["at"] for event in events]
    assert times == sorted(times, reverse=True)
    assert len(get(as_viewer, "events/?count=1")["events"]) == 1
    for slug in ("eu", "us"):
        fleet[slug].sample_until(lambda slug=slug: link(slug).conditions())
    found = get(as_viewer, "conditions/")
    assert {condition["broker"] for condition in found["results"]} == {"eu", "us"}
    assert found["kinds"] == {"blocked-without-consumer": 2}
    assert get(as_viewer, "conditions/?tag=slow")["count"] == 1
    worst = next(row for row in get(as_viewer)["brokers"] if row["slug"] == "eu")["worst"]
    assert worst["kind"] == "blocked-without-consumer"


def test_role_for_one_virtual_host_of_one_broker_sees_only_that(fleet: Fleet) -> None:
    blue = object_name("VirtualHost", name="blue")
    fleet["eu"].link.call(lambda admin: admin.create(blue, HOST_OPTIONS))
    fleet["eu"].do(lambda memory: memory.attach_producer("hush", "blue"))
    until(lambda: link("eu").queue_count == 3)
    narrow = signed_in(person("nora", Grant(Role.VIEWER, "eu", "default")))
    found = get(narrow)
    assert [row["slug"] for row in found["brokers"]] == ["eu"]
    assert found["totals"]["queues"] == 2
    assert "hush" not in narrow.get(V1 + "queues/").content.decode()
    assert "hush" not in narrow.get(V1 + "events/?count=500").content.decode()
    assert narrow.get(V1 + "?broker=us").status_code == 404
    other = signed_in(person("bella", Grant(Role.VIEWER, "eu", "blue")))
    assert [row["name"] for row in get(other, "queues/")["results"]] == ["hush"]
    fleet["eu"].do(lambda memory: [memory.attach_producer(f"q{number}") for number in range(100)])
    until(lambda: link("eu").window.last == fleet["eu"].memory.engine.last_event)
    newest = other.get("/api/v1/events/?broker=eu&count=20").json()["events"]
    assert [event["object"] for event in newest if event["kind"] == "queue-created"] == [
        "type=Queue,virtualhost=blue,name=hush"
    ], "the newest that she sees, however many others have followed"
    without = signed_in(person("noah"))
    assert without.get(V1).status_code == 403
    assert APIClient().get(V1).status_code == 401


# -- the socket -------------------------------------------------------------------------------------------------------


class Page(WebSocket):
    def __init__(self, user: Any = None) -> None:
        super().__init__(FleetConsumer.as_asgi(), "/ws/fleet/")
        self.scope["user"] = user or User(username="vera", is_superuser=True)


@pytest.fixture
async def page(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Page]:
    monkeypatch.setattr(watching, "EVERY", 0.02)
    monkeypatch.setattr(consumer, "EVERY", 0.02)
    made = Page()
    assert await made.open()
    yield made
    if made.closed is None:
        await made.leave()


async def snapshot(page: Page, wanted: Any) -> dict[str, Any]:
    """Return the data of the next snapshot for which `wanted` is true."""
    while True:
        frame = await page.frame_of("snapshot", 20)
        if wanted(frame["data"]):
            return dict(frame["data"])


async def test_socket_sends_numbered_snapshots_of_all_brokers(fleet: Fleet, page: Page) -> None:
    await page.send(watch="fleet")
    frame = await page.frame_of("snapshot")
    assert (frame["n"], frame["watch"], frame["connected"]) == (1, "fleet", True)
    assert {row["slug"] for row in frame["data"]["brokers"]} == {"eu", "us", "gone"}
    assert frame["data"]["choices"]["kinds"] == ["artemis", "headgate", "rabbitmq"]
    assert frame["data"]["total"] == 4
    await asyncio.to_thread(overfull, fleet["us"], "orders.us")
    data = await snapshot(page, lambda data: data["totals"]["overfull_queues"] == 1)
    assert data["queues"][0]["broker"] == "us"
    assert any(each["entry"] == "event" and each["kind"] == "queue-overfull" for each in data["stream"])


async def test_broker_that_hangs_comes_back_or_is_removed_changes_the_page(
    fleet: Fleet, page: Page, settings: Any
) -> None:
    def state_of(data: dict[str, Any], slug: str) -> Any:
        return next((row["state"] for row in data["brokers"] if row["slug"] == slug), None)

    await page.send(watch="fleet")
    await asyncio.to_thread(fleet["eu"].lose)
    data = await snapshot(page, lambda data: state_of(data, "eu") == "disconnected")
    assert (state_of(data, "us"), data["total"]) == ("connected", 4)
    await asyncio.to_thread(fleet["eu"].come_back)
    await snapshot(page, lambda data: state_of(data, "eu") == "connected")
    settings.HEADGATE_BROKERS = [entry(fleet["us"])]
    await asyncio.to_thread(_update)
    data = await snapshot(page, lambda data: state_of(data, "eu") is None)
    assert data["total"] == 2


async def test_watch_has_filters_and_bad_ones_are_refused(fleet: Fleet, page: Page) -> None:
    await page.send(watch="fleet", tags=["slow"], sort="-name", page_size=1)
    data = await snapshot(page, lambda data: True)
    assert [row["slug"] for row in data["brokers"]] == ["us"]
    assert ([row["name"] for row in data["queues"]], data["total"]) == (["orders.us"], 2)
    assert len(data["choices"]["brokers"]) == 3, "the filter offers all brokers"
    assert data["of"] == {"brokers": [], "tags": ["slow"], "kinds": []}, "a page knows which filter this answers"
    bad: list[tuple[dict[str, Any], str]] = [
        ({"watch": "overview"}, "overview"),
        ({"watch": "fleet", "tags": "prod"}, "tags"),
        ({"watch": "fleet", "brokers": [1]}, "brokers"),
        ({"watch": "fleet", "states": ["BROKEN"]}, "BROKEN"),
        ({"watch": "fleet", "sort": "colour"}, "colour"),
        ({"watch": "fleet", "page": 0}, "page"),
        ({"watch": "fleet", "search": 7}, "search"),
    ]
    for message, names in bad:
        await page.send(**message)
        assert names in (await page.frame_of("error"))["detail"]


@pytest.mark.parametrize(("user", "code"), [(AnonymousUser(), 4401), (User(username="noah", pk=77), 4404)])
async def test_socket_needs_a_user_who_sees_a_broker(fleet: Fleet, user: Any, code: int) -> None:
    socket = Page(user)
    assert await socket.open()
    assert await socket.frame() == {}
    assert socket.closed == code
