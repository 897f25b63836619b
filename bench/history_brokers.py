"""The pipeline's cost by number of brokers: 1, 10 and 100, each with 100 queues that change every second.

    uv run bench/history_brokers.py [--minutes 10] [--brokers 1 10 100] [FOLDER]

That is 1 % of 10,000 queues a broker. Each number is a process of its own (`history_steps.py`) over the landing files
of recorders; the figures that matter are the ratios: processor time by million samples, and the memory of the driver,
which must not grow. In local mode the driver's Java is the executor, too: `live` is its heap in use after a collection.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from console.history.storage.landing import SCHEMAS, Landing
from console.history.storage.landing_names import recorder_file

QUEUES = 100
#: A whole hour, ms.
BEGIN = 1_773_486_000_000


def samples(broker: str, minute: int) -> pa.Table:
    """Return the samples of a minute: every queue, every second."""
    count = QUEUES * 60
    seconds = np.repeat(np.arange(60), QUEUES) + minute * 60
    number = np.tile(np.arange(QUEUES), 60)
    depth = (seconds * 7 + number * 13) % 400
    values: dict[str, Any] = {
        "broker": pa.array([broker]).take(pa.array(np.zeros(count, np.int64))),
        "run": pa.array(["r"]).take(pa.array(np.zeros(count, np.int64))),
        "at": pa.array(BEGIN + seconds * 1000),
        "virtualhost": pa.array(["default"]).take(pa.array(np.zeros(count, np.int64))),
        "queue": pa.array([f"queue.{n:04}" for n in range(QUEUES)]).take(pa.array(number)),
        "state": pa.array(["NORMAL"]).take(pa.array(np.zeros(count, np.int64))),
        "depth_messages": pa.array(depth),
        "depth_bytes": pa.array(depth * 100),
        "enqueued_messages": pa.array(seconds * 50),
        "dequeued_messages": pa.array(seconds * 50),
        "producers": pa.array(np.full(count, 2)),
        "blocked_producers": pa.array(np.zeros(count, np.int64)),
        "stop_messages": pa.array(np.full(count, 400)),
        "whole": pa.array(np.zeros(count, bool)),
        "source": pa.array(["recorder"]).take(pa.array(np.zeros(count, np.int64))),
    }
    schema = SCHEMAS["samples"]
    return pa.table(
        {f.name: values[f.name].cast(f.type) if f.name in values else pa.nulls(count, f.type) for f in schema}
    )


def land(url: str, brokers: int, minutes: int) -> None:
    landing = Landing(url)
    for number in range(brokers):
        broker = f"broker-{number:03}"
        for minute in range(minutes):
            landing.publish("samples", samples(broker, minute), recorder_file(broker, minute + 1))
        covered = {"broker": broker, "run": "r", "at": BEGIN, "until": BEGIN + minutes * 60_000, "followed": True}
        rows = [{**covered, "source": "recorder"}]
        columns = {f.name: pa.array([row.get(f.name) for row in rows]).cast(f.type) for f in SCHEMAS["coverage"]}
        landing.publish("coverage", pa.table(columns), recorder_file(broker, 1))


def measure(folder: str) -> dict[str, Any]:
    program = Path(__file__).with_name("history_steps.py")
    done = subprocess.run([sys.executable, str(program), folder], stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--minutes", type=int, default=10)
    options.add_argument("--brokers", type=int, nargs="+", default=[1, 10, 100])
    options.add_argument("folder", nargs="?", default="")
    given = options.parse_args()
    print("brokers   samples  seconds  CPU s  CPU s/M  live MiB  resident MiB  runs")
    for brokers in given.brokers:
        with tempfile.TemporaryDirectory(dir=given.folder or None) as folder:
            land(folder, brokers, given.minutes)
            found = measure(folder)
        rows = found["rows"]["samples"]
        used, took = sum(found["processor"].values()), sum(found["seconds"].values())
        print(
            f"{brokers:>7} {rows:>9,} {took:>8.1f} {used:>6.1f} {used / rows * 1e6:>8.1f}"
            f" {found['live']:>9} {found['resident']:>13} {found['runs']:>5}",
            flush=True,
        )


if __name__ == "__main__":
    main()
