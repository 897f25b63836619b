"""The console with 50 simulated brokers of 4,000 queues each: the page of all brokers and its API, and the processor
time of the web process for a second of samples.

The brokers are in the web process (`fleet_brokers.py`), so nothing is decoded; the time that their simulation takes is
measured apart and subtracted. 5 % of the queues change each second.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import websockets
from fleet_brokers import SimulatedBroker
from latency import Browser
from measured import ROOT, folder, free_port, progress, running, table
from websockets.typing import Origin

PATHS = {
    "page All brokers": "/fleet/",
    "API: brokers and totals": "/api/v1/fleet/",
    "API: queues, most severe first": "/api/v1/fleet/queues/?page_size=50",
    "API: queues, by depth": "/api/v1/fleet/queues/?page_size=50&sort=-depth_messages",
    "API: queues, searched, overfull or normal": "/api/v1/fleet/queues/?search=orders.eu&state=OVERFULL&state=NORMAL",
    "API: queues, in the middle": "/api/v1/fleet/queues/?page_size=50&page=2000",
    "API: conditions": "/api/v1/fleet/conditions/",
    "API: events": "/api/v1/fleet/events/",
    "overview of one broker": "/?broker=eu-headgate-00",
}


def percentile(values: list[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(part * len(values)))]


def simulation_share(brokers: int, queues: int, share: float) -> tuple[float, int]:
    """Return the processor time that the simulation of a second takes, s, and the number of queues that change."""
    made = [SimulatedBroker(f"b{number}", queues, share, hangs=False) for number in range(brokers)]
    changed, began = 0, time.process_time()
    for second in range(10):
        changed += sum(len(broker.sample(second).queues) for broker in made)
    return (time.process_time() - began) / 10, changed // 10


def used(process: psutil.Process, seconds: float) -> float:
    """Return the share of a core that a process uses."""
    before, began = process.cpu_times(), time.monotonic()
    time.sleep(seconds)  # the time that is measured
    after = process.cpu_times()
    return float(after.user + after.system - before.user - before.system) / (time.monotonic() - began)


def get(browser: Browser, path: str) -> bytes:
    with browser._open(f"{browser.origin}{path}") as answer:
        return bytes(answer.read())


async def with_page(browser: Browser, process: psutil.Process, seconds: float) -> tuple[float, int]:
    """Return the share of a core while a page is open, and the snapshots that it got in a minute."""
    cookies = "; ".join(f"{cookie.name}={cookie.value}" for cookie in browser._cookies)
    url = browser.origin.replace("http", "ws", 1) + "/ws/fleet/"
    frames = 0
    async with websockets.connect(
        url, additional_headers={"Cookie": cookies}, origin=Origin(browser.origin), max_size=None
    ) as socket:
        await socket.send(json.dumps({"watch": "fleet"}))

        async def receive() -> None:
            nonlocal frames
            async for text in socket:
                frames += '"type":"snapshot"' in str(text)[:40]

        receiving = asyncio.ensure_future(receive())
        await asyncio.sleep(2)  # the first snapshots are complete ones: they are not counted
        frames = 0
        share = await asyncio.to_thread(used, process, seconds)
        receiving.cancel()
    return share, round(frames * 60 / seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--brokers", type=int, default=50)
    parser.add_argument("--queues", type=int, default=4000, help="of each broker")
    parser.add_argument("--share", type=float, default=0.05, help="of the queues, that changes each second")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--times", type=int, default=20, help="requests of each path")
    options = parser.parse_args()
    simulated, changed = simulation_share(options.brokers, options.queues, options.share)
    with folder() as data:
        port = free_port()
        environment = {
            "HEADGATE_DATA": str(data),
            "DJANGO_SETTINGS_MODULE": "fleet_settings",
            "PYTHONPATH": str(Path(__file__).parent),
            "HEADGATE_FLEET_BROKERS": str(options.brokers),
            "HEADGATE_FLEET_QUEUES": str(options.queues),
            "HEADGATE_FLEET_SHARE": str(options.share),
        }
        variables, manage = {**os.environ, **environment}, [sys.executable, "manage.py"]
        subprocess.run([*manage, "migrate", "--no-input", "--verbosity", "0"], cwd=ROOT, env=variables, check=True)
        made = subprocess.run(
            [*manage, "ensure_admin"], cwd=ROOT, env=variables, check=True, capture_output=True, text=True
        )
        with running([*manage, "web", "--port", str(port)], port, environment, into=data / "web.log") as console:
            process, browser = psutil.Process(console.pid), Browser(port)
            browser.sign_in(made.stdout.split("admin ", 1)[1].strip())
            measure(options, browser, process, simulated, changed)


def measure(
    options: argparse.Namespace, browser: Browser, process: psutil.Process, simulated: float, changed: int
) -> None:
    began = time.monotonic()
    while json.loads(get(browser, "/api/v1/fleet/"))["totals"]["brokers"]["connected"] < options.brokers:
        time.sleep(0.5)  # a poll of the API of a separate process
    progress(f"connected to all after {time.monotonic() - began:.0f} s")
    time.sleep(40)  # orders that the waiting used are not updated any more
    alone = used(process, options.seconds)
    paged, frames = asyncio.run(with_page(browser, process, options.seconds))
    rows: list[list[Any]] = []
    for what, path in PATHS.items():
        taken, size = [], 0
        for _ in range(options.times + 1):
            at = time.perf_counter()
            size = len(get(browser, path))
            taken.append(1000 * (time.perf_counter() - at))
        first, *others = taken
        times = f"{first:.0f}", f"{statistics.median(others):.0f}", f"{percentile(others, 0.95):.0f}"
        rows.append([what, *times, f"{size:,}"])
    table(
        f"{options.brokers} brokers, {options.brokers * options.queues:,} queues, {changed:,} of which change a second",
        ["what", "first, ms", "median, ms", "95th percentile, ms", "bytes"],
        rows,
        [
            f"Processor time of the web process, without the simulation ({100 * simulated:.1f} % of a core):"
            f" {100 * (alone - simulated):.1f} % of a core, with a page open {100 * (paged - simulated):.1f} %"
            f" ({frames} snapshots a minute). Memory: {process.memory_info().rss / 1e6:,.0f} MB.",
        ],
    )


if __name__ == "__main__":
    main()
