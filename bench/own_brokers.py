"""How long an operator takes from `headgate up` to control of brokers of their own: each step by mouse, in Chromium.

    uv run bench/own_brokers.py [--rounds 3]

Starts RabbitMQ, Artemis and `manage.py up` in an empty folder, then does what an operator does in the first hour: adds
both brokers, finds out what is blocked and why, stops and starts all producers from one dialog, reads the history of
both, and simulates other limits on it (`tests/browser/own_brokers.py`, which is also a test). A step ends when the page
shows its result; the time of a person who types and reads is not in it. Median and worst of the rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path

from adapters import Cache  # and so the tests can be imported, which are not installed
from measured import table
from playwright.async_api import async_playwright

from tests.browser.chromium import ARGUMENTS, PATH
from tests.browser.own_brokers import Site, add_control_and_review, running_site, signed_in
from tests.interop.artemis_node import artemis_libraries


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    classes = artemis_libraries("2.55", Cache())  # type: ignore[arg-type]  # what it uses of pytest's
    times: dict[str, list[float]] = {}
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory() as folder, running_site(classes, Path(folder)) as site:
            asyncio.run(timed(site, times))
    rows = [[step, f"{statistics.median(took):.1f} s", f"{max(took):.1f} s"] for step, took in times.items()]
    table("Brokers of an operator's own, by mouse", ["step", "median", "worst"], rows, [])
    return 0


async def timed(site: Site, times: dict[str, list[float]]) -> None:
    began = time.monotonic()

    def step(done: str) -> None:
        nonlocal began
        times.setdefault(done, []).append(time.monotonic() - began)
        print(f"{times[done][-1]:6.1f} s  {done}", flush=True)
        began = time.monotonic()

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=PATH, args=ARGUMENTS)
        async with signed_in(browser, site) as page:
            began = time.monotonic()
            await add_control_and_review(site, page, step)
        await browser.close()


if __name__ == "__main__":
    sys.exit(main())
