"""A soak test of the whole product, for an hour: growth after the first minutes, and unexpected findings.

`manage.py up --demo` in a folder of its own, and beside it: durable load in transactions (`soak_load.py`), sessions
that sign in, walk pages and the HTTP interface and sign out, and a WebSocket that follows the overview. Every half
minute the memory (PSS), descriptors and threads of each process of `up` and the sizes of the files in the data folder
are sampled; `soak_rows.py` judges them.

Exit code 1 if something grows, or on an unexpected finding: a condition that the demo does not
play, a line of a log with a warning or an error, an HTTP answer that is neither 2xx nor 3xx, a service that was started
a second time, a load that stood still, a process that outlived `up`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import http.client
import json
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from latency import Browser
from measured import ROOT, Failed, admin, folder, free_port, progress, table
from soak_rows import MB, Point, Row, files, judge, processes

QUEUES = ("soak.in", "soak.out")
CAPACITY = 20_000  # messages, of which the load lets a tenth wait at most
PAUSE = 1.0  # seconds between two requests of a session
CONDITIONS_EVERY = 2.0  # seconds
#: What the whole may take to be ready, and to end.
READY_SECONDS, END_SECONDS = 1200.0, 20.0  # the processors may be shared with other work

PATHS = (
    *("/", "/policies/", "/conditions/", "/objects/", "/timeline/", "/audit/", "/alerts/", "/schedules/", "/access/"),
    *("/history/", "/history/status/", "/history/advice/", "/queues/default/orders/", "/queues/default/soak.in/"),
    *("/history/queues/default/orders/", "/why/?object=type=Queue,virtualhost=default,name=orders", "/tokens/"),
    *("/api/v1/queues/", "/api/v1/queues/?search=stock&sort=-depth_messages", "/api/v1/producers/?page_size=50"),
    *("/api/v1/brokers/local/objects/?type=Queue&count=100", "/api/v1/policies/", "/api/v1/timeline/", "/api/v1/me/"),
    *("/api/v1/why/?object=type=Queue,virtualhost=default,name=orders", "/api/v1/history/", "/api/v1/history/top/"),
    *("/api/v1/history/status/", "/api/v1/audit/", "/api/v1/alerts/rules/", "/api/schema/"),
)

#: The demo's scenes: queue -> conditions that they cause. `brokers/demo/scenes.py` plays each once a minute.
_PLAYED = frozenset({"full-soon", "flapping", "underfull-yet-blocked"})
#: One of them has two seconds without a consumer: where the machine is busy they last for long enough to be reported.
PLAYED = {"orders": _PLAYED, "prices.audit": _PLAYED | {"blocked-without-consumer"}, "images.resize": _PLAYED}

_TROUBLE = re.compile(r"\b(WARN(ING)?|ERROR|CRITICAL|FATAL)\b|Traceback")
_VARYING = re.compile(r"\b\d[\d.,:-]*\b|\b[0-9a-f]{8,}(?:-[0-9a-f]+)*\b|\d+")


@dataclass
class Unexpected:
    """Unexpected findings and their counts; each is printed when it first happens. Several threads add to it."""

    counts: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, what: str) -> None:
        with self._lock:
            self.counts[what] += 1
            if self.counts[what] == 1:
                progress(f"unexpected: {what}")


# -- who uses it ------------------------------------------------------------------------------------------------------


class Session(threading.Thread):
    """Signs in, requests all pages and calls, signs out, and repeats."""

    def __init__(self, port: int, password: str, begin: int, ending: threading.Event, unexpected: Unexpected) -> None:
        super().__init__(daemon=True)
        self._port, self._password, self._begin = port, password, begin
        self._ending, self._unexpected = ending, unexpected
        self.answers = 0

    def run(self) -> None:
        while not self._ending.is_set():
            browser = Browser(self._port)
            with self._watched("/login/"):
                browser.sign_in(self._password)
            for path in (*PATHS[self._begin :], *PATHS[: self._begin]):
                if self._ending.wait(PAUSE):
                    break
                with self._watched(path):
                    browser._open(f"{browser.origin}{path}", timeout=60).read()
                    self.answers += 1
            with self._watched("/logout/"):
                sign_out(browser)

    @contextlib.contextmanager
    def _watched(self, path: str) -> Iterator[None]:
        with reported(path, self._ending, self._unexpected):
            yield


@contextlib.contextmanager
def reported(path: str, ending: threading.Event, unexpected: Unexpected) -> Iterator[None]:
    try:
        yield
    except urllib.error.HTTPError as error:
        unexpected.add(f"HTTP {error.code} of {path}: {error.read(200).decode(errors='replace')}")
    except (OSError, http.client.HTTPException, AssertionError) as error:
        if not ending.is_set():
            unexpected.add(f"no answer of {path}: {error!r}")


def until_history_answers(port: int, password: str) -> None:
    """Wait until the history has data: before that its API answers 404."""
    browser = Browser(port)
    browser.sign_in(password)
    limit = time.monotonic() + READY_SECONDS
    while True:
        try:
            browser._open(f"{browser.origin}/api/v1/history/top/", timeout=60).read()
            return
        except urllib.error.HTTPError as error:
            said = error.read(500).decode(errors="replace")
            if error.code != 404 or time.monotonic() > limit:
                raise Failed(f"the history answers {error.code}: {said}") from None
        time.sleep(1)  # the first tables are announced by nothing else than that they can be read


def sign_out(browser: Browser) -> None:
    token = next(cookie.value for cookie in browser._cookies if cookie.name.endswith("csrf"))
    form = urllib.parse.urlencode({"csrfmiddlewaretoken": token}).encode()
    request = urllib.request.Request(f"{browser.origin}/logout/", form, {"Referer": f"{browser.origin}/"})
    browser._open(request, timeout=60).read()


class Conditions(threading.Thread):
    """Polls the conditions."""

    def __init__(self, port: int, password: str, ending: threading.Event, unexpected: Unexpected) -> None:
        super().__init__(daemon=True)
        self._browser, self._ending, self._unexpected = Browser(port), ending, unexpected
        self._browser.sign_in(password)
        self.played: Counter[tuple[str, str]] = Counter()

    def run(self) -> None:
        while not self._ending.wait(CONDITIONS_EVERY):
            path = "/api/v1/conditions/?page_size=500"
            with reported(path, self._ending, self._unexpected):
                answer = json.loads(self._browser._open(f"{self._browser.origin}{path}", timeout=60).read())
                for condition in answer["results"]:
                    name, kind = condition["object"].rpartition("name=")[2], condition["kind"]
                    if kind in PLAYED.get(name, ()):
                        self.played[name, kind] += 1
                    else:
                        saw = _VARYING.sub("N", condition["saw"])
                        self._unexpected.add(f"condition {kind} of {condition['object']}: {saw}")


class Follower(threading.Thread):
    """A WebSocket of the overview."""

    def __init__(self, port: int, password: str, ending: threading.Event, unexpected: Unexpected) -> None:
        super().__init__(daemon=True)
        self._browser, self._ending, self._unexpected = Browser(port), ending, unexpected
        self._browser.sign_in(password)
        self.frames = 0

    def run(self) -> None:
        try:
            asyncio.run(self._follow())
        except Exception as error:
            if not self._ending.is_set():
                self._unexpected.add(f"the WebSocket ended: {error!r}")

    async def _follow(self) -> None:
        async with self._browser.live() as socket:
            await socket.send(json.dumps({"watch": "overview"}))
            while not self._ending.is_set():
                async with asyncio.timeout(60):  # the demo sees to it that there is always something new
                    await socket.recv()
                self.frames += 1


# -- what is started --------------------------------------------------------------------------------------------------


class Up:
    """`manage.py up --demo`."""

    def __init__(self, scratch: Path, unexpected: Unexpected) -> None:
        self.port, self.amqp_port = free_port(), free_port()
        self.data, self.output = scratch / "data", scratch / "up.txt"
        self._unexpected = unexpected
        ports = ("--port", str(self.port), "--amqp-port", str(self.amqp_port))
        command = [sys.executable, "manage.py", "up", "--demo", *ports, "--data", str(self.data)]
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        self.services: dict[str, int] = {}

    def password(self) -> str:
        """Wait until everything is ready."""
        limit = time.monotonic() + READY_SECONDS
        while "Ctrl-C stops everything." not in (said := self.output.read_text(errors="replace")):
            if self.process.poll() is not None or time.monotonic() > limit:
                raise Failed(f"manage.py up is not ready:\n{said[-3000:]}")
            time.sleep(0.2)  # there is nothing else to await
        found = re.search(r"admin, password (\S+)\n", said)
        if not found:
            raise Failed("manage.py up has printed no password")
        return found[1]

    def sample(self) -> dict[Row, float]:
        if self.process.poll() is not None:
            raise Failed(f"manage.py up has ended:\n{self.output.read_text(errors='replace')[-3000:]}")
        measures, services = processes(self.process.pid)
        for name in self.services.keys() | services.keys():
            before, now = self.services.get(name), services.get(name)
            if before is not None and before != now:
                self._unexpected.add(f"{name} was {'started a second time' if now else 'not there'}")
        self.services |= services
        return measures | files(self.data)

    def look_at_logs(self) -> None:
        for path in (self.output, *sorted((self.data / "broker").glob("broker.log*"))):
            for line in path.read_text(errors="replace").splitlines():
                if _TROUBLE.search(line):
                    self._unexpected.add(f"{path.name}: {_VARYING.sub('N', line)[:300]}")

    def end(self) -> None:
        """End its remaining processes, too, and report them."""
        started = psutil.Process(self.process.pid).children(recursive=True) if self.process.poll() is None else []
        self.process.terminate()
        try:
            code = self.process.wait(END_SECONDS)
            if code:
                self._unexpected.add(f"manage.py up ended with {code}")
        except subprocess.TimeoutExpired:
            self._unexpected.add(f"manage.py up did not end within {END_SECONDS:g} s")
            self.process.kill()
            self.process.wait()
        if "had to be killed" in self.output.read_text(errors="replace"):
            self._unexpected.add("manage.py up had to kill services to end them")
        for left in psutil.wait_procs(started, timeout=2)[1]:
            with contextlib.suppress(psutil.NoSuchProcess):
                if left.status() != psutil.STATUS_ZOMBIE:
                    self._unexpected.add(f"outlived manage.py up: {' '.join(left.cmdline())[:200]}")
                    left.kill()


class Load:
    """The process of `soak_load.py`."""

    def __init__(self, up: Up, scratch: Path, rate: float, unexpected: Unexpected) -> None:
        self._unexpected = unexpected
        self._output, self._error = scratch / "load.txt", scratch / "load.err"
        program = ROOT / "bench" / "soak_load.py"
        command = [sys.executable, str(program), "--port", str(up.amqp_port), "--rate", str(rate)]
        with self._output.open("wb") as output, self._error.open("wb") as error:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=error)
        self.counts: dict[str, int] = {}

    def check(self) -> None:
        """Check that all counters have increased since the last check."""
        if self._process.poll() is not None:
            raise Failed(f"the load has ended: {self._error.read_text(errors='replace')[-2000:]}")
        lines = self._output.read_text().split("\n")[:-1]
        counts = json.loads(lines[-1]) if lines else {}
        for what in ("sent", "moved", "consumed"):
            if counts.get(what, 0) <= self.counts.get(what, 0):
                self._unexpected.add(f"the load stood still: nothing more was {what}")
        self.counts = counts

    def end(self) -> None:
        self._process.terminate()
        self._process.wait()


async def create_queues(up: Up) -> None:
    from brokers.model import object_name

    broker = await admin(up.amqp_port, up.data)
    for name in QUEUES:
        queue = object_name("Queue", virtualhost="default", name=name)
        await broker.create(queue, {"durable": True, "capacity_messages": CAPACITY})
    await broker.close()


# -- all of it --------------------------------------------------------------------------------------------------------


def soak(options: argparse.Namespace) -> bool:
    """Return whether there were no findings."""
    unexpected, ending = Unexpected(), threading.Event()
    points: dict[Row, list[Point]] = {}
    with folder() as scratch, contextlib.ExitStack() as ends:
        up = Up(scratch, unexpected)
        ends.callback(up.end)
        password = up.password()
        asyncio.run(create_queues(up))
        until_history_answers(up.port, password)
        load = Load(up, scratch, options.rate, unexpected)
        ends.callback(load.end)
        sessions = [
            Session(up.port, password, n * len(PATHS) // options.sessions, ending, unexpected)
            for n in range(options.sessions)
        ]
        conditions = Conditions(up.port, password, ending, unexpected)
        follower = Follower(up.port, password, ending, unexpected)
        threads = [*sessions, conditions, follower]
        for thread in threads:
            ends.callback(thread.join, 65)
        ends.callback(ending.set)
        for thread in threads:
            thread.start()
        began = time.monotonic()
        for step in range(1, int(options.minutes * 60 / options.every) + 1):
            time.sleep(max(0.0, began + step * options.every - time.monotonic()))  # a sample at each step of the clock
            minute = (time.monotonic() - began) / 60
            for row, value in up.sample().items():
                points.setdefault(row, []).append((minute, value))
            load.check()
            if step % max(1, round(300 / options.every)) == 0:
                progress(
                    f"{minute:.0f} min: "
                    + ", ".join(f"{n} {v[-1][1] / MB:.0f}" for (n, m), v in points.items() if m == "PSS")
                    + " MB"
                )
        up.look_at_logs()
        frames, answers, counts = follower.frames, sum(each.answers for each in sessions), load.counts
    grows = report(points, options.settle)
    print(
        f"\nThe load: {counts['sent']:,} messages sent, {counts['moved']:,} moved and {counts['consumed']:,} consumed,"
        f" {counts['aborted']:,} transactions rolled back. {answers:,} HTTP answers, {frames:,} live frames."
    )
    seen = ", ".join(f"{kind} of {name}" for name, kind in sorted(conditions.played))
    print(f"Conditions that the demo plays, seen: {seen or 'none'}.")
    print("\nGrows: " + ("; ".join(grows) or "nothing."))
    print("Unexpected: " + ("" if unexpected.counts else "nothing."))
    for what, times in sorted(unexpected.counts.items()):
        print(f"- {times} x {what}")
    return not grows and not unexpected.counts


def report(points: dict[Row, list[Point]], settle: float) -> list[str]:
    """Print the table; return the rows that grow."""
    rows, grows = [], []
    for row in sorted(points):
        since = [point for point in points[row] if point[0] >= settle]
        if len(since) < 2:
            continue  # a process that was there for a moment
        judged = judge(row, since)

        def shown(value: float, measure: str = row[1]) -> str:
            return f"{value / MB:.1f} MB" if measure in ("PSS", "bytes") else f"{value:.0f}"

        figures = [shown(value) for value in (judged.settled, judged.end, judged.most, judged.slope)]
        rows.append([*row, *figures, judged.verdict + (f" ({judged.bound})" if judged.bound else "")])
        if judged.verdict == "grows":
            grows.append(f"{row[0]} {row[1]}")
    head = ["part", "measure", "settled", "end", "maximum", "slope, each hour", "verdict"]
    table("Soak of the whole product", head, rows, [f"Settled is after {settle:g} min."])
    return grows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60, help="(default: %(default)s)")
    parser.add_argument(
        "--settle", type=float, default=10, help="minutes after which all is flat (default: %(default)s)"
    )
    parser.add_argument("--every", type=float, default=30, help="seconds between samples (default: %(default)s)")
    parser.add_argument("--rate", type=float, default=300, help="messages/s of the load (default: %(default)s)")
    parser.add_argument("--sessions", type=int, default=3, help="of HTTP (default: %(default)s)")
    options = parser.parse_args()
    if options.minutes * 60 < options.settle * 60 + 2 * options.every:
        parser.error("--minutes leaves no two samples after --settle")
    # Whatever ends it, it ends what it has started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.signal(signal.SIGHUP, lambda *_: sys.exit(129))
    return 0 if soak(options) else 1


if __name__ == "__main__":
    sys.exit(main())
