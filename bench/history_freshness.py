"""The delay from a sample's time at the broker to the chart that shows it, and the recorder's processor time.

`uv run bench/history_freshness.py --seconds 60`: with 1, 10 and 100 queues that change every second, a broker, a
recorder and producers run; no Spark. The delay is measured with the query of the API (`query/series.py`), polled ten
times a second; the broker's clock is this machine's.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
from measured import END_SECONDS, ROOT, admin, folder, free_port, machine, our_broker, progress, running, table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from brokers.client import connect
from brokers.model import object_name
from console.history.query.series import series
from console.history.storage.queue_key import QueueKey
from console.history.storage.reader import NothingRecorded, Reader

POLL = 0.1
AIM_SECONDS = 2.0


@dataclass(frozen=True)
class Found:
    """`first`: seconds from the recorder's start to the first number of a minute; `delays`: of each sample, seconds;
    `processor`: the recorder's share of a core; `size`: its memory, bytes; `query`: seconds of each query."""

    first: float
    delays: list[float]
    processor: float
    size: int
    query: list[float]


def measure(queues: int, seconds: float, data: Path) -> Found:
    port = free_port()
    environment = {
        **os.environ,
        "HEADGATE_DATA": str(data),
        "HEADGATE_HISTORY_URL": str(data / "history"),
        "HEADGATE_BROKER_PORT": str(port),
    }
    manage = [sys.executable, str(ROOT / "manage.py")]
    subprocess.run([*manage, "migrate", "--verbosity", "0"], env=environment, check=True, cwd=ROOT)
    with running(our_broker(port, data), port, environment):
        asyncio.run(_make_queues(port, data, queues))
        reader = Reader(str(data / "history"))
        with _sending(port, queues), _recorder(manage, environment) as recorder:
            began = time.monotonic()
            while not _has_minute(reader):
                time.sleep(POLL)  # the measured time is that of a polling reader
            first = time.monotonic() - began
            before = sum(recorder.cpu_times()[:2])
            since = time.monotonic()
            delays, query = _delays(reader, seconds)
            used = (sum(recorder.cpu_times()[:2]) - before) / (time.monotonic() - since)
            return Found(first, delays, used, recorder.memory_info().rss, query)


async def _make_queues(port: int, data: Path, count: int) -> None:
    broker = await admin(port, data)
    for number in range(count):
        await broker.create(object_name("Queue", virtualhost="default", name=f"bench-{number}"), {})
    await broker.close()


@contextmanager
def _sending(port: int, queues: int) -> Iterator[None]:
    """Send a message to each queue every second."""
    ended = threading.Event()

    def work() -> None:
        with connect(f"amqp://127.0.0.1:{port}") as connection:
            publishers = [connection.publisher(f"bench-{number}") for number in range(queues)]
            while not ended.is_set():
                due = time.monotonic() + 1
                for publisher in publishers:
                    publisher.send(b"x")
                ended.wait(max(0.0, due - time.monotonic()))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextmanager
def _recorder(manage: list[str], environment: dict[str, str]) -> Iterator[psutil.Process]:
    process = subprocess.Popen(
        [*manage, "recorder"], env=environment, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    try:
        yield psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait(END_SECONDS)


def _has_minute(reader: Reader) -> bool:
    try:
        rows = reader.rows("SELECT count(*) AS n FROM {minutes} WHERE name = 'bench-0' AND messages_mean IS NOT NULL")
    except NothingRecorded:
        return False
    return bool(rows[0]["n"])


def _delays(reader: Reader, seconds: float) -> tuple[list[float], list[float]]:
    queue = QueueKey("local", "default", "bench-0")
    found: list[float] = []
    took: list[float] = []
    shown: float | None = None
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.monotonic()
        now = int(time.time() * 1000)
        answer = series(reader, queue, now - 60_000, now, resolution="raw", now=now)
        took.append(time.monotonic() - began)
        depths = [each for each in answer["messages"] if each is not None]
        if shown is None:
            shown = max(depths, default=None)
        for depth in sorted({each for each in depths if shown is not None and each > shown}):
            at = answer["at"][answer["messages"].index(depth)]
            found.append(time.time() - at / 1000)
            shown = depth
        time.sleep(POLL)  # the measured time is that of a polling reader
    return found, took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="of each measurement (default: 60)")
    parser.add_argument("--queues", type=int, nargs="+", default=[1, 10, 100], help="(default: 1 10 100)")
    options = parser.parse_args()
    rows = []
    for count in options.queues:
        progress(f"{count} queues")
        with folder() as data:
            found = measure(count, options.seconds, data)
        ordered = sorted(found.delays)
        rows.append(
            [
                str(count),
                f"{found.first:.1f}",
                f"{statistics.median(ordered):.2f}",
                f"{ordered[int(len(ordered) * 0.99)]:.2f}",
                f"{found.processor:.1%}",
                f"{found.size / 1e6:.0f}",
                f"{statistics.median(found.query) * 1000:.0f}",
            ]
        )
    head = ["queues that change every second", "first minute, s", "delay, s (median)", "p99", "recorder, of a core"]
    notes = [f"Aim: {AIM_SECONDS:g} s in the median.", machine()]
    table("Delay from broker to chart", [*head, "its memory, MB", "query, ms (median)"], rows, notes)


if __name__ == "__main__":
    main()
