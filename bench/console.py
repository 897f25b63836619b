"""The console with thousands of queues: its pages and HTTP interface, live events to many dashboards, a stop of
everything from the click, what a browser makes of it, and the memory of the web process.

A broker and a web process as `manage.py up` starts them. 1,000 of the queues get a message each second from as many
producers; another 50 are crossed by every message that they get, in either direction: 1,000 transitions a second.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from latency import Browser
from measured import ROOT, Failed, admin, folder, free_port, load_clients, our_broker, progress, running, table

BUSY = 1000  # queues that change each second
CROSSED, CROSSINGS = 50, 500  # queues that are crossed, and how often a second, up and down again
STOPPED, PRODUCERS = 100, 1000  # queues, and producers of them, that are stopped
PARSED = 10  # dashboards that look into their frames; the others take them
PATHS = {
    "overview": "/",
    "policies": "/policies/",
    "conditions": "/conditions/",
    "objects": "/objects/",
    "timeline": "/timeline/",
    "audit": "/audit/",
    "API queues": "/api/v1/queues/",
    "API queues, searched and sorted": "/api/v1/queues/?search=eu&sort=-depth_messages&page=20",
    "API objects": "/api/v1/brokers/local/objects/?type=Queue&count=100&offset=5000",
    "API policies": "/api/v1/policies/",
    "API conditions": "/api/v1/conditions/",
    "API producers": "/api/v1/producers/?page_size=50",
    "API why": "/api/v1/why/?object=type=Queue,virtualhost=default,name=busy.1",
    "API timeline": "/api/v1/timeline/",
}
_OVERFULL = re.compile(r'"at":(\d+),"kind":"queue-overfull"')


@dataclass
class Installation:
    """A broker and a web process, and a signed-in user."""

    data: Path
    port: int
    amqp_port: int
    programs: Path
    web: psutil.Process
    broker: psutil.Process
    browser: Browser
    password: str
    clients: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def get(self, path: str) -> Any:
        with self.browser._open(f"{self.browser.origin}{path}") as answer:
            return json.loads(answer.read())

    def load(self, queue: str, **options: int) -> None:
        """Run the C client as sender and receiver until the end."""
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        command = [self.programs / "load", "--port", str(self.amqp_port), "--address", queue, *words]
        self.clients.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL))

    async def until_count(self, path: str, least: int) -> None:
        """Wait until a list of the API has `count` rows."""
        while True:
            if self.get(path)["count"] >= least:
                return
            await asyncio.sleep(0.2)

    def quiet(self) -> None:
        for client in self.clients:
            client.terminate()
            client.wait()
        self.clients.clear()


@contextlib.contextmanager
def installed() -> Iterator[Installation]:
    with folder() as data:
        port, amqp_port = free_port(), free_port()
        environment = {"HEADGATE_DATA": str(data), "HEADGATE_BROKER_PORT": str(amqp_port)}
        manage = [sys.executable, "manage.py"]
        variables = {**os.environ, **environment}
        subprocess.run([*manage, "migrate", "--no-input", "--verbosity", "0"], cwd=ROOT, env=variables, check=True)
        said = subprocess.run(
            [*manage, "ensure_admin"], cwd=ROOT, env=variables, check=True, capture_output=True, text=True
        )
        password = said.stdout.split("admin ", 1)[1].strip()
        programs = data / "programs"
        programs.mkdir()
        load_clients(programs)
        web = [*manage, "web", "--port", str(port)]
        with (
            running(our_broker(amqp_port, data), amqp_port, environment) as broker,
            running(web, port, environment, into=data / "web.log") as console,
        ):
            browser = Browser(port)
            browser.sign_in(password)
            processes = psutil.Process(console.pid), psutil.Process(broker.pid)
            made = Installation(data, port, amqp_port, programs, *processes, browser, password)
            try:
                yield made
            finally:
                made.quiet()
                if said_by_web := (data / "web.log").read_text().strip():
                    progress(said_by_web[-2000:])


async def create_queues(of: Installation, queues: int) -> None:
    from brokers.model import object_name

    names: list[tuple[str, dict[str, Any]]] = [(f"busy.{n}", _RING) for n in range(BUSY)]
    names += [(f"crossed.{n}", {"capacity_bytes": 50, "flow_resume_bytes": 0}) for n in range(CROSSED)]
    names += [(f"stopped.{n}", _RING) for n in range(STOPPED)]
    regions = ("eu", "us", "asia", "africa")
    names += [(f"{regions[n % 4]}.area{n % 97}.queue{n}", {}) for n in range(queues - len(names))]
    broker = await admin(of.amqp_port, of.data)
    for first in range(0, len(names), 500):
        some = names[first : first + 500]
        await asyncio.gather(*(broker.create(object_name("Queue", virtualhost="default", name=n), a) for n, a in some))
    await broker.close()
    await of.until_count("/api/v1/queues/?page_size=1", queues)


_RING = {"capacity_messages": 20, "overflow": "ring"}


# -- pages and API ----------------------------------------------------------------------------------------------------


def _timed(browser: Browser, path: str) -> float:
    """Seconds until the last byte."""
    began = time.perf_counter()
    with browser._open(urllib.request.Request(f"{browser.origin}{path}")) as answer:
        answer.read()
    return time.perf_counter() - began


async def pages(of: Installation, repeat: int) -> list[list[str]]:
    rows = []
    for title, path in PATHS.items():
        await asyncio.to_thread(_timed, of.browser, path)
        took = [await asyncio.to_thread(_timed, of.browser, path) for _ in range(repeat)]
        rows.append([title, *milliseconds(took)])
    return rows


# -- live -------------------------------------------------------------------------------------------------------------


class Dashboards:
    """WebSockets of the overview; of some, the delay between a transition at the broker and its arrival."""

    def __init__(self, browser: Browser, count: int) -> None:
        self._browser = browser
        self._count = count
        self._tasks: list[asyncio.Task[None]] = []
        self.took: list[float] = []
        self.frames = self.bytes = self.snapshots = 0

    async def __aenter__(self) -> Dashboards:
        for n in range(self._count):
            self._tasks.append(asyncio.create_task(self._watch(n)))
            await asyncio.sleep(0.02)
        return self

    async def __aexit__(self, *error: object) -> None:
        broken = [task for task in self._tasks if task.done()]
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if broken:
            raise Failed(f"{len(broken)} of {self._count} dashboards lost their connection")

    async def _watch(self, n: int) -> None:
        async with self._browser.live() as socket:
            # A third looks at the first page, the others at pages and searches of their own.
            watch = {"watch": "overview", **({"page": 1 + n % 20} if n % 3 == 1 else {})}
            await socket.send(json.dumps({**watch, **({"search": f"area{n}"} if n % 3 == 2 else {})}))
            async for text in socket:
                now = time.time() * 1000
                self.frames += 1
                self.bytes += len(text)
                if text.startswith('{"type":"snapshot"'):
                    self.snapshots += 1
                elif n % (self._count // min(PARSED, self._count)) == 0:
                    self.took.extend((now - int(at)) / 1000 for at in _OVERFULL.findall(text))


async def crossings(of: Installation, dashboards: int, seconds: float) -> tuple[list[str], str]:
    of.load("crossed", senders=CROSSED, receivers=CROSSED, queues=CROSSED, rate=CROSSINGS, window=1, **_FOR_EVER)
    async with Dashboards(of.browser, dashboards) as live:
        await asyncio.sleep(5)
        live.took.clear()
        live.frames = live.bytes = live.snapshots = 0
        cpu = [sum(process.cpu_times()[:2]) for process in (of.web, of.broker)]
        await asyncio.sleep(seconds)
        used = [
            (sum(process.cpu_times()[:2]) - before) / seconds
            for process, before in zip((of.web, of.broker), cpu, strict=True)
        ]
        took, each = list(live.took), dashboards * seconds
        cost = (
            f"A dashboard gets {live.frames / each:.1f} frames a second, {live.snapshots / each:.1f} of them snapshots,"
        )
        cost += f" {live.bytes / each / 1000:.0f} kB; of a core, web uses {used[0]:.0%} and the broker {used[1]:.0%}."
    rate = len(took) / seconds / min(PARSED, dashboards)
    if rate < CROSSINGS / 2:
        progress(f"only {rate:.0f} crossings a second arrived, of {CROSSINGS}")
    return [f"{dashboards}", f"{2 * rate:.0f}", *milliseconds(took)], cost


_FOR_EVER = {"seconds": 100_000, "count": 1_000_000_000, "quiet": 100_000_000}


# -- a browser --------------------------------------------------------------------------------------------------------

_SMOOTHNESS = """async (seconds) => {
  const long = [];
  const take = (list) => long.push(...list.getEntries().map((entry) => entry.duration));
  new PerformanceObserver(take).observe({type: "longtask"});
  const frames = [];
  let last = performance.now();
  const end = last + seconds * 1000;
  while (last < end) {
    const now = await new Promise(requestAnimationFrame);
    frames.push(now - last);
    last = now;
  }
  return {frames, long};
}"""


@contextlib.asynccontextmanager
async def chromium(of: Installation) -> AsyncIterator[Any]:
    from playwright.async_api import async_playwright

    from tests.browser.chromium import ARGUMENTS, MISSING, PATH

    if PATH is None:
        raise Failed(MISSING)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=PATH, args=ARGUMENTS)
        page = await browser.new_page(base_url=of.browser.origin, viewport={"width": 1440, "height": 900})
        await page.goto("/login/")
        await page.fill("[name=username]", "admin")
        await page.fill("[name=password]", of.password)
        await page.click("button[type=submit]")
        await page.wait_for_selector("#queue-rows tr")
        yield page
        await browser.close()


async def smoothness(of: Installation, seconds: float) -> list[list[str]]:
    rows = []
    async with chromium(of) as page:
        for title, path in (("overview", "/?sort=-rate_in"), ("conditions", "/conditions/")):
            await page.goto(path)
            await page.wait_for_selector("#queue-rows tr, #conditions-empty", state="attached")
            await page.wait_for_timeout(1000)
            measured = await page.evaluate(_SMOOTHNESS, seconds)
            frames = sorted(measured["frames"])
            late = f"{sum(took > 50 for took in frames)} of {len(frames)}"
            rows.append(
                [title, *milliseconds([f / 1000 for f in frames]), late, f"{max(measured['long'], default=0):.0f} ms"]
            )
    return rows


async def stop_all(of: Installation, repeat: int) -> list[list[str]]:
    """Return the times from the click to the page that shows no messages in flight, and to the end of the broker's
    work."""
    of.load("stopped", senders=PRODUCERS, receivers=0, queues=STOPPED, rate=PRODUCERS, **_FOR_EVER)
    await of.until_count("/api/v1/producers/?page_size=1&virtualhost=default", PRODUCERS)
    answered, done = [], []
    async with chromium(of) as page:
        for _ in range(repeat):
            for action, took in (("stop", True), ("start", False)):
                await page.click(f"#{action}-all")
                await page.wait_for_selector(".preview-count")
                await page.fill("#stop-reason", "measured")
                began = time.perf_counter()
                await page.click("dialog button[type=submit]")
                await page.wait_for_selector("dialog .answer", timeout=60_000)
                if took:
                    answered.append(time.perf_counter() - began)
                    await page.locator(".draining-now", has_text=re.compile("^0")).wait_for(timeout=60_000)
                    done.append(time.perf_counter() - began)
                await page.click("dialog .primary")
                await page.wait_for_timeout(1500)
    return [["the broker has answered", *milliseconds(answered)], ["no producer is draining", *milliseconds(done)]]


# -- memory -----------------------------------------------------------------------------------------------------------


async def memory(of: Installation, minutes: float, dashboards: int) -> list[list[str]]:
    """Return the resident bytes of the web process over time, under load."""
    rows, steps = [], 6
    async with Dashboards(of.browser, dashboards):
        for step in range(steps + 1):
            rows.append([f"{step * minutes / steps:.1f}", f"{of.web.memory_info().rss / 1e6:.0f} MB"])
            progress(f"after {rows[-1][0]} min: {rows[-1][1]}")
            if step < steps:
                await asyncio.sleep(60 * minutes / steps)
    return rows


# -- all of it --------------------------------------------------------------------------------------------------------


def milliseconds(took: Sequence[float]) -> list[str]:
    """Return median, p99 and maximum of seconds."""
    if len(took) < 2:
        return ["-", "-", "-"]

    def shown(seconds: float) -> str:
        return f"{seconds * 1e3:.0f} ms"

    return [
        shown(statistics.median(took)),
        shown(statistics.quantiles(took, n=100, method="inclusive")[98]),
        shown(max(took)),
    ]


async def run(options: argparse.Namespace) -> None:
    wanted = set(options.only or ("pages", "live", "browser", "stop", "memory"))
    with installed() as of:
        progress(f"creating {options.queues:,} queues")
        await create_queues(of, options.queues)
        scene = f"{options.queues:,} queues, {BUSY:,} of which change each second"
        of.load("busy", senders=BUSY, receivers=0, queues=BUSY, rate=BUSY, **_FOR_EVER)
        await asyncio.sleep(5)
        if "pages" in wanted:
            table(
                f"Pages and API with {scene}",
                ["page", "median", "p99", "longest"],
                await pages(of, options.repeat),
                ["One after the other, to the last byte."],
            )
        if "browser" in wanted:
            table(
                f"A browser with {scene}",
                ["page", "a frame: median", "p99", "longest", "frames over 50 ms", "longest task"],
                await smoothness(of, options.seconds),
                [f"Chromium without a GPU, for {options.seconds:g} s each."],
            )
        if "live" in wanted:
            took, cost = await crossings(of, options.dashboards, options.seconds)
            table(
                f"From the crossing of a capacity to the event in a WebSocket, {scene}",
                ["dashboards", "transitions/s", "median", "p99", "longest"],
                [took],
                [
                    "By the broker's clock. A transition's event names the producers that it blocks or unblocks.",
                    cost,
                ],
            )
        if "memory" in wanted:
            table(
                f"Memory of the web process, {scene}, {options.dashboards} dashboards",
                ["minutes", "resident"],
                await memory(of, options.minutes, options.dashboards),
                ["With 1,000 transitions a second." if "live" in wanted else ""],
            )
        of.quiet()
        if "stop" in wanted:
            table(
                f"Stop of all of {PRODUCERS:,} producers on {STOPPED} queues, from the click",
                ["until", "median", "p99", "longest"],
                await stop_all(of, options.stops),
                [f"In Chromium, {options.queues:,} queues in all, by {PRODUCERS:,} connections that send."],
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queues", type=int, default=10_000, help="(default: %(default)s)")
    parser.add_argument("--dashboards", type=int, default=100, help="(default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=20, help="of each live measurement (default: %(default)s)")
    parser.add_argument("--repeat", type=int, default=30, help="of each page (default: %(default)s)")
    parser.add_argument("--stops", type=int, default=5, help="how often all are stopped (default: %(default)s)")
    parser.add_argument("--minutes", type=float, default=3, help="of the memory (default: %(default)s)")
    parser.add_argument("--only", nargs="*", choices=["pages", "live", "browser", "stop", "memory"], help="of these")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
