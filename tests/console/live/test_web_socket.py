"""Pages at the server that `manage.py web` runs: frames are written once for all, and a page that does not read delays
no other. What uvicorn must do for it is tested here, so that another release that does not fails."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
import uvicorn
from django.contrib.auth.models import User
from websockets.asyncio.client import ClientConnection, connect

from console.live import frame_writer, link_pages
from console.live.consumer import LiveConsumer
from console.management.web_socket import WebSocketProtocol
from tests.console.conftest import Broker

pytestmark = pytest.mark.django_db

LIMIT = 60.0


class Counts:
    """Frames that were made, and writes of them to sockets."""

    def __init__(self) -> None:
        self.made = self.written = self.refused = 0


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counts:
    counts = Counts()
    make, write = link_pages.text_frame, frame_writer.FrameWriter.write

    def counted_make(text: str) -> bytes:
        counts.made += 1
        return make(text)

    def counted_write(writer: frame_writer.FrameWriter, frame: bytes) -> bool:
        done = write(writer, frame)
        counts.written += done
        counts.refused += not done
        return done

    monkeypatch.setattr(link_pages, "text_frame", counted_make)
    monkeypatch.setattr(frame_writer.FrameWriter, "write", counted_write)
    return counts


async def _application(scope: Any, receive: Any, send: Any) -> None:
    user = User(username="vera", is_superuser=True)
    await LiveConsumer.as_asgi()({**scope, "user": user}, receive, send)


@contextlib.contextmanager
def served(protocol: Any) -> Iterator[int]:
    """Serve in a thread, as the web process does, and give the port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(
            _application, ws=protocol, lifespan="off", log_level="warning", ws_per_message_deflate=False
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join(LIMIT)
            assert not thread.is_alive()


@pytest.fixture
async def port(broker: Broker) -> AsyncIterator[int]:
    await asyncio.to_thread(broker.connected)
    with served(WebSocketProtocol) as port:
        yield port


class Page:
    """A page that reads all the time, or when the test says so."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.numbers: list[int] = []

    async def read_until(self, last: int) -> None:
        async with asyncio.timeout(LIMIT):
            while not self.numbers or self.numbers[-1] < last:
                frame = json.loads(await self.socket.recv())
                if frame["type"] == "events":
                    self.numbers += [event["number"] for event in frame["events"]]


@contextlib.asynccontextmanager
async def opened(port: int, after: int, **options: Any) -> AsyncIterator[Page]:
    async with connect(f"ws://127.0.0.1:{port}/ws/live/", max_size=None, **options) as socket:
        await socket.send(json.dumps({"watch": "overview", "after": after}))
        yield Page(socket)


async def happen(broker: Broker, count: int) -> int:
    """Cause this many events and more; return the number of the last."""

    def act(memory: Any) -> int:
        for _ in range(count):
            memory.attach_producer("orders")
        return int(memory.engine.last_event)

    return await asyncio.to_thread(broker.do, act)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(LIMIT):
        while not condition():  # noqa: ASYNC110 - counts of another thread
            await asyncio.sleep(0.005)


async def test_a_frame_is_made_once_and_written_to_all_pages(broker: Broker, port: int, counts: Counts) -> None:
    start = await happen(broker, 1)
    async with contextlib.AsyncExitStack() as stack:
        pages = [await stack.enter_async_context(opened(port, start - 1)) for _ in range(12)]
        await asyncio.gather(*(page.read_until(start) for page in pages))
        await until(lambda: counts.written >= len(pages))
        made, written = counts.made, counts.written
        last = start
        for _ in range(5):
            last = await happen(broker, 30)
            await asyncio.gather(*(page.read_until(last) for page in pages))
        assert counts.written - written >= 5 * len(pages), "uvicorn offers no writer any more: see web_socket.py"
        assert counts.made - made <= (counts.written - written) / len(pages) + 1
        for page in pages:
            assert page.numbers == list(range(start, last + 1))


async def test_a_page_that_stops_reading_delays_no_other_and_gets_all_later(
    broker: Broker, port: int, counts: Counts
) -> None:
    start = await happen(broker, 1)
    async with opened(port, start - 1) as one, opened(port, start - 1) as other:
        # A client with small buffers, which reads one message and then none.
        small = socket.socket()
        small.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        small.setblocking(False)
        await asyncio.get_running_loop().sock_connect(small, ("127.0.0.1", port))
        async with opened(port, start - 1, sock=small, max_queue=1) as slow:
            await slow.read_until(start)
            last = start
            async with asyncio.timeout(LIMIT):
                while not counts.refused:
                    last = await happen(broker, 400)
                    await asyncio.gather(one.read_until(last), other.read_until(last))
            # It is out of step and its socket is full; the others go on.
            for _ in range(5):
                last = await happen(broker, 50)
                await asyncio.gather(one.read_until(last), other.read_until(last))
            assert slow.numbers == list(range(start, slow.numbers[-1] + 1))
            await slow.read_until(last)
            for page in (one, other, slow):
                assert page.numbers == list(range(start, last + 1))


async def test_pages_that_break_off_are_forgotten(broker: Broker, port: int, counts: Counts) -> None:
    start = await happen(broker, 1)
    async with opened(port, start - 1) as stays:
        await stays.read_until(start)
        for how in ("abort", "close"):
            async with opened(port, start - 1) as leaves:
                await leaves.read_until(start)
                if how == "abort":
                    leaves.socket.transport.abort()
        last = await happen(broker, 100)
        await stays.read_until(last)
        await until(lambda: sum(len(pages._pages) for pages in link_pages._open.values()) == 1)
        assert stays.numbers == list(range(start, last + 1))
    await until(lambda: not link_pages._open)


async def test_a_page_that_reconnects_resumes_at_its_position(broker: Broker, port: int) -> None:
    numbers: list[int] = []
    first = last = await happen(broker, 1)
    for _ in range(6):
        async with opened(port, (numbers or [first - 1])[-1]) as page:
            await page.read_until(last)
            numbers += page.numbers
            last = await happen(broker, 25)
    async with opened(port, numbers[-1]) as page:
        await page.read_until(last)
        numbers += page.numbers
    assert numbers == list(range(first, last + 1))


async def test_without_a_writer_pages_get_the_same_as_messages(broker: Broker, counts: Counts) -> None:
    await asyncio.to_thread(broker.connected)
    start = await happen(broker, 1)
    with served("websockets-sansio") as port:
        async with opened(port, start - 1) as one, opened(port, start - 1) as other:
            last = start
            for _ in range(5):
                last = await happen(broker, 30)
                await asyncio.gather(one.read_until(last), other.read_until(last))
            assert one.numbers == other.numbers == list(range(start, last + 1))
    assert counts.written == 0
