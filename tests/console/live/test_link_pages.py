"""Events for many pages of one broker: whatever pages do, each gets every event that its user sees, once and in order,
from its position on, and none of another's. The oracle is the list of all events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokers.admin import Event, EventsExpired
from brokers.model import object_name
from console.links.link import BrokerLink
from console.links.visibility import as_visible
from console.live import consumer, frame_writer, link_pages
from console.live.consumer import LiveConsumer
from tests.console.websocket import text_of

HOSTS = ("default", "eu")
#: Which virtual hosts the users of the pages see; None: all.
USERS: tuple[frozenset[str] | None, ...] = (
    None,
    None,
    None,
    frozenset({"eu"}),
    frozenset({"eu"}),
    frozenset({"default"}),
)
LIMIT = 20.0


class Journal:
    """The broker: its journal has what no longer is in the link's window."""

    def __init__(self) -> None:
        self.all: list[Event] = []
        self.first = 1

    async def events(self, after: int | None = None) -> AsyncIterator[Event]:
        assert after is not None
        if after + 1 < self.first:
            raise EventsExpired("expired", self.first)
        for event in self.all[after:]:
            yield event

    async def read(self, _name: object) -> Any:
        return {"last_event": len(self.all)}

    def add(self, host: str) -> Event:
        number = len(self.all) + 1
        name = object_name("Queue", virtualhost=host, name=f"q{number}") if host else object_name("Broker")
        self.all.append(Event(number, 1000 + number, "queue-overfull", name, f"event {number}", {"host": host}))
        return self.all[-1]


class World:
    """A link, and a broker that is not connected to anything."""

    def __init__(self, capacity: int) -> None:
        async def never() -> Any:
            raise AssertionError

        self.journal = Journal()
        self.link = BrokerLink("local", "Local", never, asyncio.get_running_loop(), event_capacity=capacity)
        self.link._admin = self.journal  # type: ignore[assignment]
        self.link._attempted.set()
        self.link.begin_events(0)
        self.link.connected_now(0)
        self.pages: list[Page] = []

    def happen(self, hosts: Sequence[str]) -> None:
        with self.link.lock:
            self.link.window.add([self.journal.add(host) for host in hosts])
        self.link.notify()

    def open(self, hosts: frozenset[str] | None, after: int | None, *, frames: bool = True) -> Page:
        page = Page(as_visible(self.link, hosts), frames=frames)
        self.pages.append(page)
        page.watch(after)
        return page

    def visible(self, page: Page) -> list[int]:
        hosts = page.link.only_hosts
        return [e.number for e in self.journal.all if hosts is None or e.attributes["host"] in {*hosts, ""}]

    def check(self) -> None:
        """No page has a gap, a double, or what its user does not see."""
        for page in self.pages:
            expected = [number for number in self.visible(page) if number > page.after]
            assert page.numbers == expected[: len(page.numbers)]

    def is_complete(self, page: Page) -> bool:
        return page.numbers == [number for number in self.visible(page) if number > page.after]

    async def close(self) -> None:
        for page in self.pages:
            await page.leave()
        assert not [key for key in link_pages._open if key[0] in (self.link, *self.link.restricted.values())]
        assert not self.link.readers._by_loop


class Page(LiveConsumer):
    """The socket of a page that reads when the test says so: while it is full, its server takes no frame, and sending
    a message waits."""

    def __init__(self, link: BrokerLink, *, frames: bool) -> None:
        super().__init__()
        self.scope = {"query_string": b""}
        self.after = 0
        self.texts: list[str] = []
        self.numbers: list[int] = []
        self.expired: list[int] = []
        self.began = 0
        self.unread = 0  # messages whose sending waits
        self.writer = _Writer(self)
        self._number, self._last_frame, self._woken = 0, 0.0, asyncio.Event()
        self._rights = link  # type: ignore[assignment]
        before = frame_writer.offered.set(self.writer if frames else None)
        assert self.begins()
        frame_writer.offered.reset(before)
        self._readable = asyncio.Event()
        self._readable.set()
        self._sender = asyncio.ensure_future(self._send_loop())

    def watch(self, after: int | None) -> None:
        """What `receive` does with a message of the page."""
        if after is not None:
            self.numbers.clear()
            self.after = after
        self.take({"watch": "objects", "object": "", **({} if after is None else {"after": after})})
        self._woken.set()

    def fill(self) -> None:
        self.writer.is_full = True
        self._readable.clear()

    def drain(self) -> None:
        self.writer.is_full = False
        self._readable.set()

    async def send(self, text_data: str | None = None, bytes_data: bytes | None = None, close: bool = False) -> None:
        self.unread += 1
        await self._readable.wait()
        self.unread -= 1
        assert text_data is not None
        self.arrive(text_data)

    def arrive(self, text: str) -> None:
        self.texts.append(text)
        frame = json.loads(text)
        if frame["type"] == "events":
            self.began += 1
            self.numbers += [event["number"] for event in frame["events"]]
        elif frame["type"] == "events-expired":
            self.expired.append(frame["first"])

    async def leave(self) -> None:
        self.ends()
        assert self._wake_later is None
        assert self._sender is not None
        self._sender.cancel()
        await asyncio.gather(self._sender, return_exceptions=True)


class _Writer(frame_writer.FrameWriter):
    def __init__(self, page: Page) -> None:
        self.page = page
        self.is_full = False
        self.written: list[bytes] = []

    def write(self, frame: bytes) -> bool:
        if self.is_full:
            return False
        self.written.append(frame)
        self.page.arrive(text_of(frame))
        return True


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    _patch(monkeypatch)


def _patch(patch: pytest.MonkeyPatch, most: int = 500) -> None:
    patch.setattr(consumer, "visible_link", lambda rights, _slug: rights)
    for module in (consumer, link_pages):
        patch.setattr(module, "EVENTS", 0.0)
        patch.setattr(module, "MOST", most)
    patch.setattr(consumer, "SNAPSHOTS", 1000.0)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(LIMIT):
        while not condition():  # noqa: ASYNC110 - the state of many tasks
            await asyncio.sleep(0)


_PAGE = st.integers(0, len(USERS) - 1)
_ACTS = st.lists(
    st.one_of(
        st.tuples(st.just("happen"), st.lists(st.sampled_from([*HOSTS, ""]), min_size=1, max_size=25)),
        st.tuples(st.just("full"), _PAGE),
        st.tuples(st.just("drain"), _PAGE),
        st.tuples(st.just("wait"), st.integers(1, 6)),
        st.tuples(st.just("again"), _PAGE, st.integers(0, 100)),
        st.tuples(st.just("reopen"), _PAGE),
    ),
    max_size=40,
)


@settings(max_examples=150)
@given(acts=_ACTS, before=st.integers(0, 20), starts=st.lists(st.integers(0, 20), min_size=6, max_size=6))
def test_every_page_gets_its_events_once_and_in_order(acts: Any, before: int, starts: list[int]) -> None:
    async def run() -> None:
        world = World(capacity=12)
        world.happen(["eu"] * before)
        for number, (hosts, start) in enumerate(zip(USERS, starts, strict=True)):
            world.open(hosts, min(start, before), frames=number not in (2, 4))
        for act, *values in acts:
            await _do(world, act, values)
            world.check()
        for page in world.pages:
            page.drain()
        await until(lambda: all(map(world.is_complete, world.pages)))
        await until(lambda: all(page.began for page in world.pages))
        world.check()
        await world.close()

    with pytest.MonkeyPatch.context() as patch:
        _patch(patch, most=4)
        asyncio.run(run())


async def _do(world: World, act: str, values: list[Any]) -> None:
    match act:
        case "happen":
            world.happen(values[0])
        case "wait":
            for _ in range(values[0]):
                await asyncio.sleep(0)
        case _:
            page = world.pages[values[0]]
            if act == "full":
                page.fill()
            elif act == "drain":
                page.drain()
            elif act == "again":
                # A message of the page that its socket takes: it has read all that was sent before.
                if not page.writer.is_full and not page.unread:
                    page.watch(max(page.after, (page.numbers or [page.after])[-1] - values[1]))
            else:
                await page.leave()
                position = (page.numbers or [page.after])[-1]
                world.pages[values[0]] = Page(page.link, frames=page._writer is not None)
                world.pages[values[0]].watch(position)


async def in_step(world: World, count: int, hosts: frozenset[str] | None = None) -> list[Page]:
    """Open pages, and wait until they have all events and are in step."""
    pages = [world.open(hosts, 0) for _ in range(count)]
    await until(lambda: all(page.began and page._in_step for page in pages))
    return pages


async def test_pages_at_the_same_position_get_the_same_bytes_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(5000)
    pages = await in_step(world, 50)
    late = world.open(None, 0)
    made: list[str] = []
    encode = link_pages.text_frame
    monkeypatch.setattr(link_pages, "text_frame", lambda text: made.append(text) or encode(text))
    for _ in range(10):
        world.happen(["eu", "default"])
        await until(lambda: all(map(world.is_complete, world.pages)))
    assert len(made) <= 10
    assert [frame for frame in pages[0].writer.written if b"event 7" in frame]
    for page in pages:
        written = page.writer.written
        assert [id(frame) for frame in written] == [id(frame) for frame in pages[0].writer.written]
    assert world.is_complete(late)
    await world.close()


async def test_pages_with_other_rights_never_share_a_frame() -> None:
    world = World(5000)
    every = await in_step(world, 3)
    eu = await in_step(world, 3, frozenset({"eu"}))
    default = await in_step(world, 3, frozenset({"default"}))
    for n in range(20):
        world.happen([HOSTS[n % 2]])
        await until(lambda: all(map(world.is_complete, world.pages)))
    for page in (*eu, *default):
        hosts = page.link.only_hosts
        for text in page.texts:
            for event in json.loads(text).get("events", ()):
                assert event["attributes"]["host"] in hosts
    frames = [
        {id(frame) for frame in page.writer.written if b"event " in frame} for page in (every[0], eu[0], default[0])
    ]
    assert not frames[1] & frames[2]
    assert not frames[0] & (frames[1] | frames[2])
    await world.close()


async def test_a_page_that_reads_nothing_delays_no_other_and_needs_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(5000)
    slow, *others = await in_step(world, 5)
    slow.fill()
    before = len(slow.texts)
    for _ in range(200):
        world.happen(["eu"] * 10)
        await until(lambda: all(map(world.is_complete, others)))
    assert len(slow.texts) == before
    assert not slow._in_step
    assert all(page._in_step for page in others)
    slow.drain()
    await until(lambda: world.is_complete(slow) and slow._in_step)
    world.check()
    await world.close()


async def test_a_page_behind_the_window_reads_the_journal_and_joins_again() -> None:
    world = World(20)
    [other] = await in_step(world, 1)
    other.fill()
    for _ in range(100):
        world.happen(["eu"] * 7)
        await asyncio.sleep(0)
    other.drain()
    await until(lambda: world.is_complete(other) and other._in_step)
    world.check()
    await world.close()


async def test_expired_events_are_reported_to_a_page_that_was_in_step() -> None:
    world = World(20)
    [page] = await in_step(world, 1)
    page.fill()
    for _ in range(10):
        world.happen(["eu"] * 10)
        await asyncio.sleep(0)
    # One message may wait in the socket; what follows it has expired.
    world.journal.first = 95
    page.drain()
    await until(lambda: page.numbers and page.numbers[-1] == 100)
    assert page.expired == [95]
    assert [number for number in page.numbers if number >= 95] == list(range(95, 101))
    await world.close()


async def test_a_broker_that_restarts_its_numbers_resets_pages_in_step() -> None:
    world = World(20)
    world.happen(["eu"] * 50)
    pages = await in_step(world, 3)
    for page in pages:
        page.numbers.clear()
    world.journal.all.clear()
    world.link.begin_events(0)
    world.happen(["eu"] * 5)
    await until(lambda: all(page.numbers and page.numbers[-1] == 5 for page in pages))
    assert all(page.expired == [1] and page.numbers == [1, 2, 3, 4, 5] for page in pages)
    await world.close()


async def test_a_page_without_events_gets_an_empty_list_also_beside_invisible_ones() -> None:
    world = World(100)
    everything = world.open(None, None)
    hidden = world.open(frozenset({"eu"}), None)
    await until(lambda: everything.began and hidden.began)
    assert everything.numbers == hidden.numbers == []
    later = world.open(frozenset({"eu"}), 0)
    async with asyncio.timeout(LIMIT):
        while not later.began:
            world.happen(["default"])
            await asyncio.sleep(0)
    assert later.numbers == []
    assert everything.numbers == world.visible(everything)[: len(everything.numbers)]
    await world.close()


async def test_a_page_that_closes_itself_gets_no_frame_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(100)
    one, other = await in_step(world, 2)
    closed: list[Any] = []

    async def send(message: Any) -> None:
        closed.append(message)

    one.base_send = send
    await one.close(4401)
    written = len(one.writer.written)
    world.happen(["eu"])
    await until(lambda: world.is_complete(other))
    assert len(one.writer.written) == written
    assert [message["type"] for message in closed] == ["websocket.close"]
    await world.close()


async def test_a_disconnection_is_reported_at_once_to_pages_in_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_pages, "EVENTS", 1000.0)
    world = World(100)
    page = world.open(None, 0)
    world.happen(["eu"])  # the next round is far away
    world.link.lost("gone")
    await until(lambda: any(json.loads(text)["type"] == "broker" for text in page.texts))
    await world.close()


def test_half_a_character_in_an_event_ends_no_page() -> None:
    assert json.loads(text_of(frame_writer.text_frame('{"text":"a\ud800b"}'))) == {"text": "a?b"}


@pytest.mark.parametrize("size", [0, 125, 126, 65_535, 65_536, 200_000])
def test_a_frame_has_its_length(size: int) -> None:
    assert text_of(frame_writer.text_frame("x" * size)) == "x" * size


class _Transport(asyncio.WriteTransport):
    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.closing = False

    def is_closing(self) -> bool:
        return self.closing

    def write(self, data: Any) -> None:
        assert not self.closing
        self.written.append(data)


def test_a_socket_that_is_full_refuses_and_one_that_is_being_closed_drops() -> None:
    transport = _Transport()
    writer = frame_writer.FrameWriter(transport)
    assert writer.write(b"one")
    writer.is_full = True
    assert not writer.write(b"two")
    writer.is_full = False
    transport.closing = True
    # Refusing would bring the page out of step and back again until its socket has ended.
    assert writer.write(b"three")
    assert transport.written == [b"one"]
