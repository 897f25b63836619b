"""A stop of all producers among thousands of queues: from the request to the answer and to the first progress without
messages in flight, over the API with a breakdown, and in Chromium from the click.

1,000 producers on 100 queues are stopped and started in turns. With `--busy`, another 1,000 of the queues get a message
each second from as many producers, which are stopped, too.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from installation import BUSY, FOR_EVER, STOPPED, Installation, chromium, create_queues, installed, milliseconds
from measured import ROOT, Failed, admin, progress, table

PRODUCERS = 1000  # on the queues that are stopped
PAUSE = 4.0  # s between a stop and a start: samples of all queues are on their way for a second
LIMIT = 60.0  # s, for an answer and for the end of draining


class Api:
    """The API over one connection, as a browser uses it."""

    def __init__(self, of: Installation) -> None:
        cookies = {cookie.name: cookie.value or "" for cookie in of.browser._cookies}
        self._http = http.client.HTTPConnection("127.0.0.1", of.port, timeout=LIMIT)
        self._headers = {
            "Cookie": "; ".join(f"{name}={value}" for name, value in cookies.items()),
            "X-CSRFToken": next(value for name, value in cookies.items() if "csrf" in name),
            "Origin": of.browser.origin,
            "Content-Type": "application/json",
        }

    def post(self, path: str, body: Any) -> Any:
        self._http.request("POST", f"/api/v1/{path}", json.dumps(body), self._headers)
        answer = self._http.getresponse()
        read = answer.read()
        if answer.status != 200:
            raise Failed(f"{path}: {answer.status} {read[:500]!r}")
        return json.loads(read)


#: What the times of a stop are made of, each a function of these.
PARTS: dict[str, Callable[[Mapping[str, float]], float]] = {
    "from the request to the first middleware": lambda t: t["began"] - t["sent"],
    "in Django and the view, without the two below": lambda t: t["ended"] - t["began"] - t["link"] - t["database"],
    "waiting for the link": lambda t: t["link"],
    "… of which the operation, until its answer is decoded": lambda t: t["operation"],
    "database": lambda t: t["database"],
    "… audit row, with its query": lambda t: t["audit"],
    "from the last middleware to the client": lambda t: t["answered"] - t["ended"],
}


async def over_api(of: Installation, times: Path, repeat: int) -> list[list[str]]:
    """Return the times of `repeat` stops."""
    api = Api(of)
    await asyncio.to_thread(api.post, "stop-producers/progress/", {"scope": "type=Broker"})
    answered, still, started, parts = [], [], [], []
    for _ in range(repeat):
        took = await asyncio.to_thread(_stop, of, api)
        parts.append({**await asyncio.to_thread(_last_of, times), **took})
        answered.append(took["answered"] - took["sent"])
        still.append(took["still"] - took["sent"])
        await asyncio.sleep(PAUSE)
        began = time.perf_counter()
        await asyncio.to_thread(api.post, "start-producers/", {"scope": "type=Broker", "reason": "measured"})
        started.append(time.perf_counter() - began)
        await asyncio.sleep(PAUSE)
    rows = [["API: answer of the stop", *milliseconds(answered)]]
    rows += [[f"… {title}", *milliseconds([of_one(t) for t in parts])] for title, of_one in PARTS.items()]
    for process in ("web", "broker"):
        mean = statistics.mean(part[process] for part in parts)
        rows.append([f"processor time of {process} until the answer, mean", f"{mean * 1e3:.0f} ms", "", ""])
    return [
        *rows,
        ["API: first progress without messages in flight", *milliseconds(still)],
        ["API: answer of the start", *milliseconds(started)],
    ]


def _stop(of: Installation, api: Api) -> dict[str, float]:
    """Stop all; return the times of request, answer, and no messages in flight, s by the monotonic clock, and the
    processor time of both processes until the answer, s."""
    before = of.used()
    sent = time.perf_counter()
    answer = api.post("stop-producers/", {"scope": "type=Broker", "reason": "measured"})
    answered = time.perf_counter()
    web, broker = (after - of_process for after, of_process in zip(of.used(), before, strict=True))
    if answer["producers"] < PRODUCERS or not answer["changed"]:
        raise Failed(f"stopped {answer}")
    while answer["draining"]:
        answer = api.post("stop-producers/progress/", {"scope": "type=Broker"})
        if time.perf_counter() - sent > LIMIT:
            raise Failed(f"still draining: {answer}")
    return {"sent": sent, "answered": answered, "still": time.perf_counter(), "web": web, "broker": broker}


def _last_of(times: Path) -> dict[str, float]:
    """Return what `stop_all_settings` has written last."""
    last: dict[str, float] = json.loads(times.read_text().splitlines()[-1])
    return last


async def in_broker(of: Installation, repeat: int) -> list[list[str]]:
    """Return the times of the operation alone, over a connection without other links."""
    from brokers.model import object_name

    broker, whole = await admin(of.amqp_port, of.data), object_name("Broker")
    took = []
    for _ in range(repeat):
        began = time.perf_counter()
        await broker.call(whole, "stop-producers", {"reason": "measured", "actor": "bench"})
        took.append(time.perf_counter() - began)
        await asyncio.sleep(PAUSE)
        await broker.call(whole, "start-producers", {"reason": "measured", "actor": "bench"})
        await asyncio.sleep(PAUSE)
    await broker.close()
    return [["the broker alone: its operation over AMQP", *milliseconds(took)]]


async def in_browser(of: Installation, repeat: int) -> list[list[str]]:
    """Return the times from the click to the shown answer, and to the page that shows no messages in flight."""
    answered, still = [], []
    async with chromium(of) as page:
        for _ in range(repeat):
            for action in ("stop", "start"):
                await page.click(f"#{action}-all")
                await page.wait_for_selector(".preview-count")
                await page.fill("#stop-reason", "measured")
                took = await page.evaluate(_CLICK, {"draining": action == "stop", "limit": LIMIT * 1000})
                if action == "stop":
                    answered.append(took["answered"] / 1000)
                    still.append(took["still"] / 1000)
                await page.click("dialog .primary")
                await page.wait_for_timeout(PAUSE * 1000)
    return [
        ["browser: from the click to the shown answer", *milliseconds(answered)],
        ["browser: from the click to “0: no messages in flight”", *milliseconds(still)],
    ]


#: Times in the page itself: Playwright's own polling takes up to 100 ms.
_CLICK = """({draining, limit}) => new Promise((resolve, reject) => {
  const began = performance.now();
  let answered = 0;
  const look = () => {
    if (!answered && document.querySelector("dialog .answer")) answered = performance.now() - began;
    const now = document.querySelector(".draining-now")?.textContent ?? "";
    if (answered && (!draining || now.startsWith("0"))) {
      observer.disconnect();
      resolve({answered, still: performance.now() - began});
    }
  };
  const observer = new MutationObserver(look);
  observer.observe(document.body, {subtree: true, childList: true, characterData: true});
  setTimeout(() => reject(new Error("no answer")), limit);
  document.querySelector("dialog button[type=submit]").click();
})"""


async def run(options: argparse.Namespace) -> None:
    wanted = set(options.only or ("broker", "api", "browser"))
    timed = {"DJANGO_SETTINGS_MODULE": "stop_all_settings", "PYTHONPATH": str(ROOT / "bench")}
    with installed({**timed, "HEADGATE_BENCH_TIMES": "{data}/times"}) as of:
        progress(f"creating {options.queues:,} queues")
        await create_queues(of, options.queues)
        producers = PRODUCERS
        if options.busy:
            of.load("busy", senders=BUSY, receivers=0, queues=BUSY, rate=BUSY, **FOR_EVER)
            producers += BUSY
        of.load("stopped", senders=PRODUCERS, receivers=0, queues=STOPPED, rate=PRODUCERS, **FOR_EVER)
        await of.until_count("/api/v1/producers/?page_size=1&virtualhost=default", producers)
        await asyncio.sleep(5)  # until the load is steady
        if options.wait:
            progress(f"web process {of.web.pid}, broker {of.broker.pid}, {of.browser.origin}, password {of.password}")
        rows = []
        if "broker" in wanted:
            rows += await in_broker(of, options.repeat)
        if "api" in wanted:
            rows += await over_api(of, of.data / "times", options.repeat)
        if "browser" in wanted:
            rows += await in_browser(of, options.repeat)
        busy = f", another {BUSY:,} queues change each second" if options.busy else ""
        title = f"Stop of all of {producers:,} producers among {options.queues:,} queues{busy}"
        table(title, ["what", "median", "p99", "longest"], rows, [f"{options.repeat} times."])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queues", type=int, default=10_000, help="in all (default: %(default)s)")
    parser.add_argument("--repeat", type=int, default=11, help="how often all are stopped (default: %(default)s)")
    parser.add_argument("--busy", action="store_true", help="1,000 other queues change each second")
    parser.add_argument("--only", nargs="*", choices=["broker", "api", "browser"], help="of these")
    parser.add_argument("--wait", action="store_true", help="print the processes, to profile them")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
