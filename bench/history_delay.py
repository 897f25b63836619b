"""The delay from a landed file to the row that a page reads, with a warm `manage.py history`, as under `manage.py
up`."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from measured import END_SECONDS, ROOT, Failed, progress

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import pyarrow as pa

from console.history.storage.landing import SCHEMAS, Landing
from console.history.storage.reader import NothingRecorded, Reader

#: Of one broker's fleet: what a recorder publishes every few seconds.
QUEUES = 100
WARM_SECONDS, LONGEST = 300.0, 120.0
LOOK = 0.1

_FOUND = """
SELECT count(*) AS n FROM {minutes} WHERE kind = 'queue' AND epoch_ms("at") = $at AND messages_max = $depth
"""


def delays(data: Path, tries: int) -> list[float]:
    """Return the seconds of each try. `data`: a folder of its own. Raises Failed."""
    environment = {**os.environ, "HEADGATE_DATA": str(data), "HEADGATE_HISTORY_URL": str(data / "history")}
    manage = [sys.executable, str(ROOT / "manage.py")]
    subprocess.run([*manage, "migrate", "--verbosity", "0"], env=environment, check=True, cwd=ROOT)
    landing, reader = Landing(str(data / "history")), Reader(str(data / "history"))
    with (data / "history.log").open("wb") as log:
        process = subprocess.Popen(
            [*manage, "history"], env=environment, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        took = [_one(landing, reader, number, WARM_SECONDS if number < 2 else LONGEST) for number in range(tries + 2)]
    finally:
        process.terminate()
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    return took[2:]  # Spark starts with the first, and its Java is cold with the second


def _one(landing: Landing, reader: Reader, number: int, within: float) -> float:
    now = datetime.now(UTC).replace(microsecond=0)
    depth = 1_000_000 + number
    common = {"broker": "bench", "run": "bench", "source": "recorder"}
    sample = {**common, "at": now, "virtualhost": "default", "state": "NORMAL", "depth_messages": depth, "whole": False}
    rows = [{**sample, "queue": f"queue-{n}"} for n in range(QUEUES)]
    looked = {**common, "at": now - timedelta(seconds=5), "until": now + timedelta(seconds=1), "followed": True}
    landing.publish("coverage", pa.Table.from_pylist([looked], schema=SCHEMAS["coverage"]))
    landing.publish("samples", pa.Table.from_pylist(rows, schema=SCHEMAS["samples"]))
    began = time.monotonic()
    at = int(now.timestamp()) // 60 * 60_000
    while time.monotonic() - began < within:
        try:
            found = reader.rows(_FOUND, {"at": at, "depth": depth}, begin=at, end=at + 60_000)[0]["n"]
        except NothingRecorded:
            found = 0
        if found == QUEUES:
            progress(f"  {time.monotonic() - began:.1f} s")
            return time.monotonic() - began
        time.sleep(LOOK)  # the measured time is that of a polling reader
    raise Failed(f"the row of a file that landed was not there after {within:g} s")
