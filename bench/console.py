"""The console with thousands of queues: its pages and HTTP interface, live events to many dashboards, what a browser
makes of it, and the memory of the web process.

A broker and a web process as `manage.py up` starts them. 1,000 of the queues get a message each second from as many
producers; another 50 are crossed by every message that they get, in either direction: 1,000 transitions a second.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import time
import urllib.request

from installation import BUSY, CROSSED, FOR_EVER, Installation, chromium, create_queues, installed, milliseconds
from latency import Browser
from measured import Failed, progress, table

CROSSINGS = 500  # crossings of queues a second, up and down again
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
            await asyncio.sleep(0.02)  # users do not all come at once
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
    of.load("crossed", senders=CROSSED, receivers=CROSSED, queues=CROSSED, rate=CROSSINGS, window=1, **FOR_EVER)
    async with Dashboards(of.browser, dashboards) as live:
        await asyncio.sleep(5)  # the load becomes steady: what came before is not counted
        live.took.clear()
        live.frames = live.bytes = live.snapshots = 0
        cpu = of.used()
        await asyncio.sleep(seconds)  # the time that is measured
        used = [(after - before) / seconds for after, before in zip(of.used(), cpu, strict=True)]
        took, each = list(live.took), dashboards * seconds
        cost = (
            f"A dashboard gets {live.frames / each:.1f} frames a second, {live.snapshots / each:.1f} of them snapshots,"
        )
        cost += f" {live.bytes / each / 1000:.0f} kB; of a core, web uses {used[0]:.0%} and the broker {used[1]:.0%}."
    rate = len(took) / seconds / min(PARSED, dashboards)
    if rate < CROSSINGS / 2:
        progress(f"only {rate:.0f} crossings a second arrived, of {CROSSINGS}")
    return [f"{dashboards}", f"{2 * rate:.0f}", *milliseconds(took)], cost


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


# -- memory -----------------------------------------------------------------------------------------------------------


async def memory(of: Installation, minutes: float, dashboards: int) -> list[list[str]]:
    """Return the resident bytes of the web process over time, under load."""
    rows, steps = [], 6
    async with Dashboards(of.browser, dashboards):
        for step in range(steps + 1):
            rows.append([f"{step * minutes / steps:.1f}", f"{of.web.memory_info().rss / 1e6:.0f} MB"])
            progress(f"after {rows[-1][0]} min: {rows[-1][1]}")
            if step < steps:
                await asyncio.sleep(60 * minutes / steps)  # between two samples
    return rows


# -- all of it --------------------------------------------------------------------------------------------------------


async def run(options: argparse.Namespace) -> None:
    wanted = set(options.only or ("pages", "live", "browser", "memory"))
    with installed() as of:
        progress(f"creating {options.queues:,} queues")
        await create_queues(of, options.queues)
        scene = f"{options.queues:,} queues, {BUSY:,} of which change each second"
        of.load("busy", senders=BUSY, receivers=0, queues=BUSY, rate=BUSY, **FOR_EVER)
        await asyncio.sleep(5)  # until the load is steady
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queues", type=int, default=10_000, help="(default: %(default)s)")
    parser.add_argument("--dashboards", type=int, default=100, help="(default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=20, help="of each live measurement (default: %(default)s)")
    parser.add_argument("--repeat", type=int, default=30, help="of each page (default: %(default)s)")
    parser.add_argument("--minutes", type=float, default=3, help="of the memory (default: %(default)s)")
    parser.add_argument("--only", nargs="*", choices=["pages", "live", "browser", "memory"], help="of these")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
