"""The delay from the crossing of a queue's capacity to the event in a browser's WebSocket.

Everything is started as a user would (`manage.py up`); this signs in as the admin over HTTP and opens the same
WebSocket as the page. The clock starts just before a producer sends the message that makes the queue overfull, and
stops when the event `queue-overfull` of that queue has arrived: so it holds the message's own way to the broker, too.
Between two crossings the queue is purged, and the event that it is underfull again is awaited.
"""

from __future__ import annotations

import argparse
import asyncio
import http.cookiejar
import json
import re
import statistics
import sys
import threading
import time
import urllib.parse
import urllib.request
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import websockets
from measured import ROOT, admin, folder, free_port, table
from websockets.typing import Origin

CAPACITY = 1  # messages: the second one crosses
QUEUE = "latency"


class Browser:
    """A browser's session for the live events: sign-in and cookies."""

    def __init__(self, port: int) -> None:
        self.origin = f"http://127.0.0.1:{port}"
        self._cookies = http.cookiejar.CookieJar()
        self._open = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self._cookies)).open

    def sign_in(self, password: str) -> None:
        page = self._open(f"{self.origin}/login/").read().decode()
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)
        assert token, "the login page has no CSRF token"
        form = {"csrfmiddlewaretoken": token[1], "username": "admin", "password": password}
        request = urllib.request.Request(f"{self.origin}/login/", urllib.parse.urlencode(form).encode())
        request.add_header("Referer", f"{self.origin}/login/")
        self._open(request).read()

    def live(self) -> Any:
        cookies = "; ".join(f"{cookie.name}={cookie.value}" for cookie in self._cookies)
        url = self.origin.replace("http", "ws", 1) + "/ws/live/"
        return websockets.connect(url, additional_headers={"Cookie": cookies}, origin=Origin(self.origin))


class Sender(threading.Thread):
    """A producer in its own thread, which sends a message on request and records the time."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._port = port
        self._requests: list[Future[float]] = []
        self._wake = threading.Semaphore(0)

    def run(self) -> None:
        from proton import Message
        from proton.utils import BlockingConnection

        url = f"amqp://127.0.0.1:{self._port}"
        connection = BlockingConnection(url, virtual_host="default", allowed_mechs="ANONYMOUS", timeout=30)
        sender = connection.create_sender(QUEUE)
        while True:
            self._wake.acquire()
            future = self._requests.pop(0)
            while not sender.link.credit:
                connection.wait(lambda: sender.link.credit, timeout=30)
            at = time.perf_counter()
            sender.send(Message(body="x" * 100))
            future.set_result(at)

    async def send(self) -> float:
        """Send a message and wait until the broker has accepted it; return the time of sending
        (`time.perf_counter`)."""
        future: Future[float] = Future()
        self._requests.append(future)
        self._wake.release()
        return await asyncio.wrap_future(future)


class Events:
    """The WebSocket's events of the measured queue, each with its time of arrival."""

    def __init__(self, socket: Any) -> None:
        self._queue: asyncio.Queue[tuple[str, float]] = asyncio.Queue()
        self._task = asyncio.ensure_future(self._read(socket))

    async def _read(self, socket: Any) -> None:
        async for text in socket:
            at = time.perf_counter()
            frame = json.loads(text)
            for event in frame.get("events", []) if frame["type"] == "events" else []:
                if event["object"].endswith(f"name={QUEUE}"):
                    self._queue.put_nowait((event["kind"], at))

    async def next(self, kind: str) -> float:
        async with asyncio.timeout(30):
            while True:
                came, at = await self._queue.get()
                if came == kind:
                    return at


async def measure(port: int, amqp_port: int, data: Path, password: str, crossings: int) -> list[float]:
    from brokers.model import object_name

    broker = await admin(amqp_port, data)
    host = await broker.read(object_name("VirtualHost", name="default"))
    await broker.update(host.name, {"anonymous": True}, host.version)
    queue = object_name("Queue", virtualhost="default", name=QUEUE)
    await broker.create(queue, {"capacity_messages": CAPACITY, "flow_resume_messages": 0})
    browser = Browser(port)
    await asyncio.to_thread(browser.sign_in, password)
    sender = Sender(amqp_port)
    sender.start()
    took: list[float] = []
    async with browser.live() as socket:
        await socket.send(json.dumps({"watch": "overview"}))
        events = Events(socket)
        while len(took) < crossings:
            for _ in range(CAPACITY):
                await sender.send()
            crossed = await sender.send()
            took.append(await events.next("queue-overfull") - crossed)
            await broker.call(queue, "purge", {"reason": "measured"})
            await events.next("queue-underfull")
    await broker.close()
    return took


async def started(port: int, amqp_port: int, data: Path) -> tuple[asyncio.subprocess.Process, str]:
    """`manage.py up`, and the password that it printed."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "manage.py", "up", "--port", str(port), "--amqp-port", str(amqp_port), "--data", str(data)),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    password = ""
    async with asyncio.timeout(90):
        while line := (await process.stdout.readline()).decode():
            if found := re.search(r"admin, password (\S+)$", line.strip()):
                password = found[1]
            if line.startswith("Ctrl-C"):
                return process, password
    raise SystemExit("manage.py up has ended")


async def run(crossings: int) -> list[float]:
    with folder() as data:
        port, amqp_port = free_port(), free_port()
        process, password = await started(port, amqp_port, data)
        try:
            return await measure(port, amqp_port, data, password, crossings)
        finally:
            process.terminate()
            await process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--crossings", type=int, default=200, help="how many (default: %(default)s)")
    options = parser.parse_args()
    took = [seconds * 1e3 for seconds in asyncio.run(run(options.crossings))]
    shown = [f"{one:.1f} ms" for one in (statistics.median(took), statistics.quantiles(took, n=100)[98], max(took))]
    table(
        "From the crossing of a capacity to the event in a WebSocket",
        ["crossings", "median", "p99", "longest"],
        [[f"{len(took)}", *shown]],
        ["From just before the producer sends the message, all on one machine, with all of `manage.py up` running."],
    )


if __name__ == "__main__":
    main()
