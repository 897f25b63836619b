"""How soon a fresh start shows its first numbers: `manage.py up --demo` with a new data folder, without any Spark.

    uv run python bench/history_first_numbers.py [--times 3]

Measured from the line "Headgate is ready" on, as a page has it that is opened then: every 0.25 s it requests the
catalog of the history, which the pages request every second until it has a broker, then the series of the queue
`orders`, until it has a depth. Prints when the recorder said that it records, and when the catalog and the series had
data; whether the slowest of them stays below 5 s; fails if it does not, or if a process with Spark was started.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import psutil
from measured import END_SECONDS, ROOT, Failed, folder, free_port, progress, table

AIM_SECONDS = 5.0
LIMIT_SECONDS = 60.0
POLL = 0.25


@dataclass
class Start:
    """What `up` printed, and when: seconds of the monotonic clock."""

    password: str = ""
    ready: float = 0.0
    recording: float = 0.0
    is_ready: threading.Event = field(default_factory=threading.Event)

    def read(self, lines: Any) -> None:
        for line in lines:
            if found := re.search(r"admin, password (\S+)", line):
                self.password = found[1]
            if "Headgate is ready" in line:
                self.ready = time.monotonic()
            if "Ctrl-C stops" in line:
                self.is_ready.set()
            if line.startswith("recorder|") and line.rstrip().endswith("recording"):
                self.recording = time.monotonic()


@dataclass(frozen=True)
class Found:
    """Seconds after `up` was ready. `recording`: negative if it was before."""

    recording: float
    catalog: float
    series: float


class Console:
    """A signed-in client."""

    def __init__(self, port: int, password: str) -> None:
        self._base = f"http://127.0.0.1:{port}"
        cookies = CookieJar()
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(cookies))
        page = self._opener.open(f"{self._base}/login/").read().decode()
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)
        if token is None:
            raise Failed("the page for signing in has no token")
        form = {"username": "admin", "password": password, "csrfmiddlewaretoken": token[1]}
        request = urllib.request.Request(f"{self._base}/login/", urlencode(form).encode())
        request.add_header("Referer", f"{self._base}/login/")
        self._opener.open(request).read()

    def get(self, what: str, **values: Any) -> Any:
        """Return the answer, or None for an error's."""
        try:
            with self._opener.open(f"{self._base}/api/v1/history/{what}?{urlencode(values)}") as answer:
                return json.load(answer)
        except urllib.error.HTTPError:
            return None


def measure(data: Path) -> Found:
    ports = [free_port(), free_port()]
    command = [sys.executable, str(ROOT / "manage.py"), "up", "--demo", "--data", str(data)]
    command += ["--port", str(ports[0]), "--amqp-port", str(ports[1])]
    start = Start()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, stderr=subprocess.STDOUT, cwd=ROOT) as up:
        try:
            threading.Thread(target=start.read, args=[up.stdout], daemon=True).start()
            if not start.is_ready.wait(LIMIT_SECONDS):
                raise Failed("`up` is not ready")
            console = Console(ports[0], start.password)
            catalog = _when(lambda: (console.get("") or {}).get("recorded"))
            series = _when(lambda: _has_depth(console))
            if any("--session" in each.cmdline() for each in psutil.Process(up.pid).children(True)):
                raise Failed("a process with Spark was started")
        finally:
            up.send_signal(signal.SIGTERM)
            up.wait(END_SECONDS * 2)
    return Found(start.recording - start.ready, catalog - start.ready, series - start.ready)


def _when(has: Any) -> float:
    limit = time.monotonic() + LIMIT_SECONDS
    while not has():
        if time.monotonic() > limit:
            raise Failed("no numbers")
        time.sleep(POLL)  # the measured time is that of a polling page
    return time.monotonic()


def _has_depth(console: Console) -> bool:
    now = int(time.time() * 1000)
    found = console.get("series/", broker="local", queue="orders", **{"from": now - 900_000, "until": now})
    return found is not None and any(depth is not None for depth in found["messages"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=3)
    options = parser.parse_args()
    found = []
    for number in range(options.times):
        progress(f"start {number + 1} of {options.times}")
        with folder() as data:
            found.append(measure(data))
    rows = [[f"{each.recording:.1f}", f"{each.catalog:.1f}", f"{each.series:.1f}"] for each in found]
    worst = max(each.series for each in found)
    head = ["recorder says that it records, s", "catalog has a broker", "series has a depth"]
    table("First numbers after a fresh start", head, rows, [f"Aim: {AIM_SECONDS:g} s after it is ready."])
    if worst > AIM_SECONDS:
        raise Failed(f"the slowest took {worst:.1f} s")


if __name__ == "__main__":
    main()
