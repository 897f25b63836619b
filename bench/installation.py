"""A broker and a web process as `manage.py up` starts them, with thousands of queues and a signed-in user, for the
measurements of the console.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from latency import Browser
from measured import ROOT, Failed, admin, folder, free_port, load_clients, our_broker, progress, running

BUSY = 1000  # queues that change each second
CROSSED = 50  # queues that are crossed up and down
STOPPED = 100  # queues whose producers are stopped
FOR_EVER = {"seconds": 100_000, "count": 1_000_000_000, "quiet": 100_000_000}
_RING = {"capacity_messages": 20, "overflow": "ring"}


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
        command = [str(self.programs / "load"), "--port", str(self.amqp_port), "--address", queue, *words]
        self.clients.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL))

    async def until_count(self, path: str, least: int) -> None:
        """Wait until a list of the API has `count` rows."""
        while True:
            if self.get(path)["count"] >= least:
                return
            await asyncio.sleep(0.2)  # a poll of the API, as a script of a user would

    def used(self) -> tuple[float, float]:
        """Return the processor time of the web process and of the broker so far, s."""
        web, broker = (sum(process.cpu_times()[:2]) for process in (self.web, self.broker))
        return web, broker

    def quiet(self) -> None:
        for client in self.clients:
            client.terminate()
            client.wait()
        self.clients.clear()


@contextlib.contextmanager
def installed(more: Mapping[str, str] | None = None) -> Iterator[Installation]:
    """Run them. `more`: of the environment; `{data}` in it stands for the data folder."""
    with folder() as data:
        port, amqp_port = free_port(), free_port()
        environment = {"HEADGATE_DATA": str(data), "HEADGATE_BROKER_PORT": str(amqp_port)}
        environment |= {name: value.format(data=data) for name, value in (more or {}).items()}
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
