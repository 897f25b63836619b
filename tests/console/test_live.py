"""The WebSocket of pages: access, snapshots, events."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, Group, User
from django.db import OperationalError
from django.test import Client

from brokers.model import object_name
from brokers.testing import InMemoryBroker
from console.asgi import application
from console.live import firing_alerts, page_socket
from console.live.consumer import LiveConsumer
from console.permissions.rights import Grant, Rights, Role
from tests.console.conftest import Broker, until_async
from tests.console.incident.test_conditions import raised
from tests.console.websocket import WebSocket

#: Channels closes database connections even where nothing is read.
pytestmark = pytest.mark.django_db

ORDERS = object_name("Queue", virtualhost="default", name="orders")
SAME_ORIGIN = [("host", "localhost"), ("origin", "http://localhost")]


class Page(WebSocket):
    def __init__(self, query: str = "", user: Any = None, *, writes_frames: bool = False) -> None:
        super().__init__(LiveConsumer.as_asgi(), query=query, writes_frames=writes_frames)
        self.scope["user"] = user or User(username="vera", is_superuser=True)


@pytest.fixture(params=[False, True], ids=["messages", "frames"])
async def page(broker: Broker, request: pytest.FixtureRequest) -> AsyncIterator[Page]:
    """A page whose server takes messages only, or offers to write frames, too."""
    await asyncio.to_thread(broker.connected)
    made = Page(writes_frames=request.param)
    assert await made.open()
    yield made
    if made.closed is None:
        await made.leave()


async def do(broker: Broker, act: Any) -> Any:
    return await asyncio.to_thread(broker.do, act)


def attach(name: str) -> Any:
    return lambda memory: memory.attach_producer(name)


# -- access ---------------------------------------------------------------------------------------------------------


async def test_anonymous_socket_is_closed_with_4401(broker: Broker) -> None:
    socket = Page(user=AnonymousUser())
    assert await socket.open()
    assert await socket.frame() == {}
    assert socket.closed == 4401


async def test_unknown_broker_is_closed_with_4404(broker: Broker) -> None:
    socket = Page(query="broker=elsewhere")
    assert await socket.open()
    assert await socket.frame() == {}
    assert socket.closed == 4404


async def test_open_socket_of_a_removed_broker_is_closed_with_4404(page: Page, broker: Broker) -> None:
    await page.send(watch="overview")
    await page.frame_of("snapshot")
    link = broker.link
    link._loop.call_soon_threadsafe(link.removed)  # as `registry.update` does
    while await page.frame():
        pass
    assert page.closed == 4404


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
async def test_socket_of_another_origin_is_refused(broker: Broker) -> None:
    socket = WebSocket(application, headers=[("host", "localhost"), ("origin", "http://evil.example")])
    assert not await socket.open()


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
async def test_socket_is_open_until_its_session_ends(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_socket, "SESSION", 0.0)
    await asyncio.to_thread(broker.connected)
    user = await User.objects.acreate_user("vera", password="see-everything")
    await user.groups.aadd(await Group.objects.aget(name="viewers"))
    client = Client()
    await asyncio.to_thread(client.force_login, user)
    cookie = "; ".join(f"{name}={morsel.value}" for name, morsel in client.cookies.items())
    socket = WebSocket(application, headers=[*SAME_ORIGIN, ("cookie", cookie)])
    assert await socket.open()
    await socket.send(watch="overview")
    assert (await socket.frame_of("snapshot"))["watch"] == "overview"
    await asyncio.to_thread(_log_out, client)  # in another tab
    await do(broker, attach("orders"))
    while await socket.frame():
        pass
    assert socket.closed == 4401


def _log_out(client: Client) -> None:
    """Log out between two checks of the session: SQLite in memory, unlike a file, refuses at once what waits for
    another thread."""
    while True:
        with contextlib.suppress(OperationalError):
            client.logout()
            return


class Database:
    """What `user_rights` does when it reads: it gives the rights, hangs until `go_on`, or fails."""

    def __init__(self, rights: Rights) -> None:
        self.rights = rights
        self.hangs = self.fails = False
        self.reads = 0
        self.go_on = threading.Event()

    def read(self, _user: User) -> Rights:
        self.reads += 1
        if self.hangs:
            assert self.go_on.wait(60)
        if self.fails:
            raise OperationalError("the database is locked")
        return self.rights


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    made = Database(Rights((Grant(Role.VIEWER, "", ""),)))
    monkeypatch.setattr(page_socket, "user_rights", made.read)
    monkeypatch.setattr(page_socket, "SESSION", 0.0)
    monkeypatch.setattr(page_socket, "HEARTBEAT", 0.05)
    yield made
    made.go_on.set()


async def new_queue_is_sent(broker: Broker, page: Page, name: str) -> None:
    await do(broker, attach(name))
    while name not in [queue["name"] for queue in (await page.frame_of("snapshot"))["data"]["queues"]]:
        pass


@pytest.mark.parametrize("page", [False], indirect=True)
async def test_database_that_hangs_delays_no_frames_and_the_check_goes_on_after_it(
    broker: Broker, database: Database, page: Page
) -> None:
    await page.send(watch="overview")
    await page.frame_of("snapshot")
    await until_async(lambda: database.reads > 1)
    database.hangs, before = True, database.reads
    await until_async(lambda: database.reads > before)
    reads = database.reads
    for name in ("orders", "bills"):
        await new_queue_is_sent(broker, page, name)
        await page.frame_of("heartbeat")
    assert database.reads == reads  # one check at a time
    database.rights = Rights(())
    database.go_on.set()
    while await page.frame():
        pass
    assert page.closed == 4412


@pytest.mark.parametrize("page", [False], indirect=True)
async def test_database_that_fails_ends_no_socket_until_it_is_read_again(
    broker: Broker, database: Database, page: Page, caplog: pytest.LogCaptureFixture
) -> None:
    await page.send(watch="overview")
    await page.frame_of("snapshot")
    database.fails, before = True, database.reads
    await until_async(lambda: database.reads > before + 1)
    await new_queue_is_sent(broker, page, "orders")
    assert "session could not be checked" in caplog.text
    database.rights, database.fails = Rights(()), False
    while await page.frame():
        pass
    assert page.closed == 4412


async def test_socket_that_is_left_while_the_database_hangs_ends(broker: Broker, database: Database) -> None:
    await asyncio.to_thread(broker.connected)
    page = Page()
    assert await page.open()
    database.hangs = True
    before = database.reads
    await until_async(lambda: database.reads > before)
    await page.leave()


# -- snapshots ------------------------------------------------------------------------------------------------------


async def test_overview_watch_is_answered_with_a_complete_snapshot(broker: Broker, page: Page) -> None:
    await do(broker, attach("orders"))
    await until_async(lambda: broker.link.queue(ORDERS))
    await page.send(watch="overview")
    frame = await page.frame_of("snapshot")
    assert frame["broker"] == "local"
    assert frame["connected"] is True
    assert [queue["name"] for queue in frame["data"]["queues"]] == ["orders"]
    assert frame["data"]["totals"]["queues"] == 1
    assert frame["data"]["total"] == 1


async def test_change_causes_a_new_snapshot_with_a_higher_number(broker: Broker, page: Page) -> None:
    await page.send(watch="overview")
    first = await page.frame_of("snapshot")
    assert first["data"]["queues"] == []
    await do(broker, attach("orders"))
    second = await page.frame_of("snapshot")
    while not second["data"]["queues"]:
        second = await page.frame_of("snapshot")
    assert second["n"] > first["n"]
    assert second["data"]["queues"][0]["name"] == "orders"


async def test_many_changes_cause_few_snapshots_and_one_after_the_last(broker: Broker, page: Page) -> None:
    await page.send(watch="overview")
    await page.frame_of("snapshot")
    began = time.monotonic()
    for n in range(60):
        await do(broker, attach(f"q{n}"))
        await asyncio.sleep(0.01)
    snapshots = 0
    while (await page.frame_of("snapshot"))["data"]["total"] < 60:
        snapshots += 1
    assert snapshots <= 2 + (time.monotonic() - began) * 5


async def test_server_filters_and_sorts(broker: Broker, page: Page) -> None:
    for name in ("orders.eu", "orders.us", "payments"):
        await do(broker, attach(name))
    await until_async(lambda: len(broker.link.queues()) == 3)
    await page.send(watch="overview", search="ORDERS", sort="-name", states=["NORMAL"])
    data = (await page.frame_of("snapshot"))["data"]
    assert [queue["name"] for queue in data["queues"]] == ["orders.us", "orders.eu"]


async def test_queue_watch_has_its_producers_consumers_and_explanation(broker: Broker, page: Page) -> None:
    await do(broker, lambda memory: (memory.attach_producer("orders"), memory.attach_consumer("orders")))
    await page.send(watch="queue", object=str(ORDERS))
    data = (await page.frame_of("snapshot"))["data"]
    assert data["queue"]["object"] == str(ORDERS)
    assert data["queue"]["overfull_count"] == 0
    assert [producer["state"] for producer in data["producers"]] == ["RUNNING"]
    assert len(data["consumers"]) == 1
    assert data["explain"]["capacity_bytes"]["origin"] == "built-in"


async def test_missing_queue_is_reported_as_gone_until_it_is_created(broker: Broker, page: Page) -> None:
    await page.send(watch="queue", object=str(ORDERS))
    assert (await page.frame_of("snapshot"))["data"] == {"gone": True}
    await do(broker, attach("orders"))
    assert (await page.frame_of("snapshot"))["data"]["queue"]["name"] == "orders"


async def test_objects_watch_has_the_object_or_none(broker: Broker, page: Page) -> None:
    await page.send(watch="objects", object="")
    assert (await page.frame_of("snapshot"))["data"] == {"object": None}
    await page.send(watch="objects", object="type=Broker")
    data = (await page.frame_of("snapshot"))["data"]
    assert data["object"]["name"] == "type=Broker"
    assert data["object"]["attributes"]["queues"] == 0


@pytest.mark.parametrize(
    ("message", "named"),
    [
        ({"watch": "everything"}, "everything"),
        ({"watch": "queue", "object": "type=Nonsense"}, "Nonsense"),
        ({"watch": "queue", "object": "type=Broker"}, "queue"),
        ({"watch": "overview", "states": ["ANGRY"]}, "ANGRY"),
        ({"watch": "overview", "sort": "colour"}, "colour"),
        ({"watch": "overview", "after": -1}, "-1"),
    ],
)
async def test_invalid_message_is_answered_with_the_wrong_value(page: Page, message: Any, named: str) -> None:
    await page.send(**message)
    frame = await page.frame()
    assert frame["type"] == "error"
    assert named in frame["detail"]


async def test_invalid_json_is_answered_and_the_socket_stays_open(page: Page) -> None:
    await page.send_input({"type": "websocket.receive", "text": "{"})
    assert (await page.frame())["type"] == "error"
    await page.send(watch="overview")
    assert (await page.frame_of("snapshot"))["watch"] == "overview"


async def test_heartbeat_is_sent_if_nothing_changes(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_socket, "HEARTBEAT", 0.05)
    await page.send(watch="overview")
    await page.frame_of("snapshot")
    assert (await page.frame_of("heartbeat"))["at"] > 0


# -- events ---------------------------------------------------------------------------------------------------------


async def numbers_until(page: Page, last: int) -> list[int]:
    """Return the numbers of the events in the frames up to the one with event `last`."""
    got: list[int] = []
    while not got or got[-1] < last:
        got += [event["number"] for event in (await page.frame_of("events"))["events"]]
    return got


async def test_new_page_gets_the_newest_fifty_events_first(broker: Broker, page: Page) -> None:
    await do(broker, lambda memory: [memory.attach_producer(f"q{n}") for n in range(100)])
    newest = broker.memory.engine.last_event
    await until_async(lambda: broker.link.recent_events(newest - 1).events)
    await page.send(watch="overview")
    assert await numbers_until(page, newest) == list(range(newest - 49, newest + 1))


async def test_page_with_a_position_gets_all_later_events(broker: Broker, page: Page) -> None:
    await do(broker, lambda memory: [memory.attach_producer(f"q{n}") for n in range(700)])
    newest = broker.memory.engine.last_event
    await page.send(watch="overview", after=3)
    assert await numbers_until(page, newest) == list(range(4, newest + 1))


async def test_events_in_a_burst_arrive_in_order_with_none_missing(broker: Broker, page: Page) -> None:
    await page.send(watch="overview", after=broker.memory.engine.last_event)
    start = broker.memory.engine.last_event
    for n in range(50):
        await do(broker, lambda memory, n=n: [memory.attach_producer(f"q{n}.{m}") for m in range(20)])
    newest = broker.memory.engine.last_event
    assert await numbers_until(page, newest) == list(range(start + 1, newest + 1))


async def test_event_reaches_the_page_quickly(broker: Broker, page: Page) -> None:
    await page.send(watch="overview")
    await page.frame_of("snapshot")
    took = []
    for n in range(20):
        began = time.perf_counter()
        await do(broker, attach(f"q{n}"))
        await page.frame_of("events")
        took.append(time.perf_counter() - began)
    assert sorted(took)[len(took) // 2] < 0.1  # the interval is 20 ms; a busy machine needs more


async def test_disconnected_broker_is_reported_and_reconnecting_sends_every_event(broker: Broker, page: Page) -> None:
    await do(broker, attach("orders"))
    await page.send(watch="overview")
    start = broker.memory.engine.last_event
    await numbers_until(page, start)
    await asyncio.to_thread(broker.lose)
    frame = await page.frame_of("broker")
    assert frame["connected"] is False
    assert "lost" in frame["error"]

    def meanwhile(memory: InMemoryBroker) -> None:
        for n in range(10):
            memory.attach_producer(f"new{n}")

    await do(broker, meanwhile)
    await asyncio.to_thread(broker.come_back)
    newest = broker.memory.engine.last_event
    got: list[int] = []
    snapshot: dict[str, Any] = {}
    back = False
    while not (back and snapshot and got and got[-1] == newest):
        frame = await page.frame()
        if frame["type"] == "broker":
            back = frame["connected"]
        elif frame["type"] == "events":
            got += [event["number"] for event in frame["events"]]
        elif frame["type"] == "snapshot" and frame["connected"]:
            snapshot = frame
    assert got == list(range(start + 1, newest + 1))
    assert snapshot["data"]["total"] == 11


async def test_expired_position_is_reported_with_the_first_event_left(broker: Broker, page: Page) -> None:
    await do(broker, lambda memory: setattr(memory, "_keep", 10))
    await do(broker, lambda memory: [memory.attach_producer(f"q{n}") for n in range(40)])
    newest = broker.memory.engine.last_event
    await until_async(lambda: broker.link.recent_events(newest - 1).events)
    broker.link.window.begin_after(newest)
    await page.send(watch="overview", after=2)
    frame = await page.frame_of("events-expired")
    assert frame["first"] == newest - 9
    assert await numbers_until(page, newest) == list(range(newest - 9, newest + 1))


async def test_watch_of_a_disconnected_broker_is_answered_from_the_last_snapshot(broker: Broker, page: Page) -> None:
    await do(broker, attach("orders"))
    await until_async(lambda: broker.link.queue(ORDERS))
    await asyncio.to_thread(broker.lose)
    await page.send(watch="queue", object=str(ORDERS))
    frame = await page.frame_of("snapshot")
    assert frame["connected"] is False
    assert frame["data"]["queue"]["name"] == "orders"


async def test_snapshot_has_only_the_watched_page(page: Page, broker: Broker) -> None:
    for n in range(5):
        await do(broker, attach(f"q{n}"))
    await until_async(lambda: broker.link.queue_count == 5)
    await page.send(watch="overview", page=2, page_size=2)
    data = (await page.frame_of("snapshot"))["data"]
    assert [queue["name"] for queue in data["queues"]] == ["q2", "q3"]
    assert (data["page"], data["page_size"], data["total"]) == (2, 2, 5)


@pytest.mark.parametrize(
    ("given", "named"),
    [({"page": 0}, "page"), ({"page_size": 501}, "page_size"), ({"page": "2"}, "page"), ({"kind": "odd"}, "kind")],
)
async def test_invalid_page_is_refused_with_the_wrong_field(page: Page, given: dict[str, Any], named: str) -> None:
    await page.send(watch="conditions", **given)
    assert f"{named} is" in (await page.frame_of("error"))["detail"]


async def test_conditions_are_watched_page_by_page(page: Page, broker: Broker) -> None:
    await asyncio.to_thread(raised, broker)
    await page.send(watch="conditions", kind="blocked-without-consumer", search="ORD")
    data = (await page.frame_of("snapshot"))["data"]
    assert [condition["object"] for condition in data["results"]] == [str(ORDERS)]
    assert data["kinds"] == {"blocked-without-consumer": 1}
    await page.send(watch="conditions", severity="warning")
    data = (await page.frame_of("snapshot"))["data"]
    assert (data["count"], data["results"], data["page"]) == (0, [], 1)


# -- firing alerts ----------------------------------------------------------------------------------------------------


@pytest.fixture
def firing(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the database has; `of`: the users who see it."""
    found: list[dict[str, Any]] = []
    source = firing_alerts.FiringAlerts(
        lambda: list(found), lambda rights, each: rights.allows(Role.VIEWER, "local", each["virtualhost"])
    )
    monkeypatch.setattr(firing_alerts, "source", source)
    monkeypatch.setattr(firing_alerts, "EVERY", 0.02)
    return found


async def next_alerts(page: Page) -> list[Any]:
    async with asyncio.timeout(20):
        while (frame := await page.frame(20)).get("type") != "alerts":
            assert frame, "closed"
        return list(frame["alerts"])


async def test_page_that_follows_alerts_gets_each_change_and_another_gets_none(
    page: Page, firing: list[dict[str, Any]]
) -> None:
    await page.send(watch="objects", object="")
    await page.send(alerts=True)
    assert await next_alerts(page) == []
    firing.append({"id": "1", "virtualhost": "default"})
    assert await next_alerts(page) == [{"id": "1", "virtualhost": "default"}]
    firing.clear()
    assert await next_alerts(page) == []
    await page.send(alerts=False)
    await page.send(watch="objects", object="", after=0)
    while (await page.frame())["type"] == "alerts":
        pass  # until what was sent after it is answered
    firing.append({"id": "2", "virtualhost": "default"})
    await page.send(watch="objects", object="", after=0)
    assert (await page.frame())["type"] != "alerts"


async def test_page_gets_only_alerts_that_its_user_may_see(
    broker: Broker, firing: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    await asyncio.to_thread(broker.connected)
    rights = Rights((Grant(Role.VIEWER, "local", "default"),))
    monkeypatch.setattr(page_socket, "user_rights", lambda user: rights)
    firing += [{"id": "1", "virtualhost": "blue"}, {"id": "2", "virtualhost": "default"}]
    page = Page()
    assert await page.open()
    await page.send(alerts=True)
    assert [each["id"] for each in await next_alerts(page)] == ["2"]
    await page.leave()


async def test_database_that_fails_neither_ends_the_page_nor_hides_later_alerts(
    page: Page, firing: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert firing_alerts.source is not None
    read, fails = firing_alerts.source.read, [True]

    def failing() -> Any:
        if fails:
            fails.pop()
            raise OperationalError("locked")
        return read()

    monkeypatch.setattr(firing_alerts.source, "read", failing)
    firing.append({"id": "1", "virtualhost": "default"})
    await page.send(alerts=True)
    assert [each["id"] for each in await next_alerts(page)] == ["1"]


async def test_database_that_hangs_delays_no_frame(
    page: Page, firing: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert firing_alerts.source is not None
    began, go_on = threading.Event(), threading.Event()

    def hanging() -> Any:
        began.set()
        assert go_on.wait(60)
        return list(firing)

    monkeypatch.setattr(firing_alerts.source, "read", hanging)
    monkeypatch.setattr(page_socket, "HEARTBEAT", 0.02)
    firing.append({"id": "1", "virtualhost": "default"})
    try:
        await page.send(alerts=True)
        await until_async(began.is_set)
        for _ in range(5):
            assert await page.frame_of("heartbeat")
    finally:
        go_on.set()
    assert [each["id"] for each in await next_alerts(page)] == ["1"]


async def test_alerts_that_were_read_long_ago_count_as_unknown(
    firing: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, rights = firing_alerts.source, Rights((Grant(Role.VIEWER),))
    assert source is not None
    await until_async(lambda: source.visible(rights) == [])
    monkeypatch.setattr(firing_alerts, "STALE", -1.0)
    assert source.visible(rights) is None


@pytest.mark.parametrize("message", [{"alerts": 1}, {"alerts": "yes"}, {"alerts": True, "watch": "objects"}])
async def test_invalid_message_about_alerts_is_refused(page: Page, message: Any) -> None:
    await page.send(**message)
    frame = await page.frame()
    assert (frame["type"], "alerts must be" in frame["detail"]) == ("error", True)


@pytest.mark.parametrize("writes_frames", [False, True])
async def test_events_of_a_restricted_user_begin_with_the_newest_that_they_see(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, writes_frames: bool
) -> None:
    monkeypatch.setattr(page_socket, "user_rights", lambda user: Rights((Grant(Role.VIEWER, "local", "blue"),)))

    def busy(memory: InMemoryBroker) -> None:
        memory.engine.create_virtualhost("blue").create_on_attach = True
        memory.engine.virtualhosts["blue"].anonymous = True
        memory.attach_producer("hush", "blue")
        for number in range(100):
            memory.attach_producer(f"q{number}")

    busy(broker.memory)
    await asyncio.to_thread(broker.connected)
    await until_async(lambda: broker.link.window.last == broker.memory.engine.last_event)
    socket = Page(writes_frames=writes_frames)
    assert await socket.open()
    await socket.send(watch="overview")
    events = (await socket.frame_of("events"))["events"]
    assert [event["object"] for event in events if event["kind"] == "queue-created"] == [
        "type=Queue,virtualhost=blue,name=hush"
    ]
    await socket.leave()
