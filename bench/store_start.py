"""How soon a broker with many durable messages serves its clients again, after a stop and after a kill.

`uv run bench/store_start.py --broker NAME=FOLDER ... [--messages 1000000] [--queues 50] [--rounds 3]`: a checkout
each, whose environment is in FOLDER/.venv. A start is the time until its first open port, which opens when all
stores have been read; then the depths of all queues must sum up to what was sent. Read: what the process has read from
files until then, bodies of messages have 1 KiB each.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import statistics
import subprocess
import time
from pathlib import Path

from measured import Broker, Failed, admin, folder, free_port, limit, listens, load, load_clients, running, table

SIZE = 1024


def command(checkout: Path, port: int, data: Path) -> list[str | Path]:
    place = checkout.resolve()
    return [
        *("env", f"--chdir={place}", f"PYTHONPATH={place}", place / ".venv/bin/python", "manage.py", "broker"),
        *("--port", str(port), "--data", data / "broker", "--demo"),
    ]


def fill(programs: Path, checkout: Path, data: Path, messages: int, queues: int) -> None:
    port = free_port()
    with running(command(checkout, port, data), port) as process:
        asyncio.run(limit(port, data, 2 * messages))
        broker = Broker("filled", port, process.pid)
        given = {"senders": 8, "receivers": 0, "count": messages, "size": SIZE, "durable": True, "quiet": 3000}
        done = load(programs, broker, "bench", queues=queues, limit_seconds=900, **given)
        if done["accepted"] < messages:
            raise Failed(f"{done['accepted']:,} of {messages:,} messages were accepted")


def start(checkout: Path, data: Path, messages: int, *, kill: bool) -> tuple[float, float]:
    """Return seconds and MB read, and end the broker: by a stop, or by a kill."""
    port = free_port()
    began = time.monotonic()
    process = subprocess.Popen(command(checkout, port, data), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while not listens(port):
            if process.poll() is not None:
                raise Failed("the broker has ended")
            time.sleep(0.005)  # the step of the measurement
        seconds, read = time.monotonic() - began, read_bytes(process.pid)
        found = asyncio.run(depth(port, data))
        if found != messages:
            raise Failed(f"{found:,} of {messages:,} messages are there")
    finally:
        process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
        process.wait()
    return seconds, read / 1e6


def read_bytes(process: int) -> int:
    """Return what a process has read by calls, from the cache or not."""
    lines = Path(f"/proc/{process}/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["rchar"])


async def depth(port: int, data: Path) -> int:
    broker = await admin(port, data)
    try:
        items = (await broker.query("Queue")).items
        return sum(int(queue["depth_messages"]) for queue in items if queue["name"].startswith("bench."))
    finally:
        await broker.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--broker", action="append", required=True, help="NAME=FOLDER", metavar="NAME=FOLDER")
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--queues", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    before = os.getloadavg()[0]
    rows = []
    with contextlib.ExitStack() as stack:
        programs = stack.enter_context(folder())
        load_clients(programs)
        for each in options.broker:
            name, _, checkout = each.partition("=")
            for title, messages in (("no messages", 0), (f"{options.messages:,} messages", options.messages)):
                with folder() as data:
                    if messages:
                        fill(programs, Path(checkout), data, messages, options.queues)
                    start(Path(checkout), data, messages, kill=False)
                    for ended, kill in (("a stop", False), ("a kill", True)):
                        # The last start of the turn before has ended in this way.
                        start(Path(checkout), data, messages, kill=kill)
                        found = [start(Path(checkout), data, messages, kill=kill) for _ in range(options.rounds)]
                        seconds, read = (statistics.median(column) for column in zip(*found, strict=True))
                        worst = max(second for second, _ in found)
                        rows.append([name, title, ended, f"{seconds:.2f} s", f"{worst:.2f} s", f"{read:,.0f} MB"])
    table(
        f"A start with durable messages of 1 KiB in {options.queues} queues",
        ["broker", "in its stores", "after", "median", "worst", "read"],
        rows,
        [f"{options.rounds} starts each. Load of the machine: {before:.1f} before, {os.getloadavg()[0]:.1f} after."],
    )


if __name__ == "__main__":
    main()
