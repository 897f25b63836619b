"""Two `manage.py adapters`, killed and stopped in the middle: the other one takes over, and a console that follows
misses no event and sees none twice, whatever happens on the broker meanwhile.

With SQLite they are two processes of one data folder. With PostgreSQL they are processes of two hosts, with data
folders and names of their own and TLS between them; they learn of each other from the database alone.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from tests.history.processes import ROOT, environment, kill, manage, running
from tests.servers.hosts.remote_broker import RemoteBroker
from tests.up.running import wait_until

pytestmark = pytest.mark.timeout(400)

#: Seconds for what takes 15 at most on a machine that does nothing else.
TAKEOVER = 60.0
QUEUES = [f"q{number:02}" for number in range(12)]
#: It is 127.0.0.1, but not recognized as an address of loopback: other hosts' processes connect to it, with TLS.
OTHER_LOOPBACK = "127.1"

ADD = """
from console.brokers.models import ForeignBroker
ForeignBroker.objects.create(slug="rabbit", title="Rabbit", kind="remote", url={url!r})
"""


class Follower:
    """The console process that follows, see `hosts/follower.py`."""

    def __init__(self, env: dict[str, str], log: Path) -> None:
        self.lines: list[dict[str, Any]] = []
        self._err = log.open("wb")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.servers.hosts.follower", "rabbit"],
            cwd=ROOT,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._err,
            text=True,
        )
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(json.loads(line))

    def request(self, operation: str, **arguments: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(["type=Broker", operation, arguments]) + "\n")
        self._process.stdin.flush()

    @property
    def events(self) -> list[dict[str, Any]]:
        return [line for line in list(self.lines) if "number" in line]

    @property
    def connected(self) -> bool:
        return bool(next((line["connected"] for line in reversed(list(self.lines)) if "connected" in line), False))

    def answers(self) -> list[dict[str, Any]]:
        return [line for line in list(self.lines) if "answer" in line or "refused" in line]

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reading.join()
        for pipe in (self._process.stdin, self._process.stdout, self._err):
            assert pipe is not None
            pipe.close()


class Toggling:
    """The broker's queues become overfull and underfull, each again as soon as the console has seen it: so each change
    has to be exactly one event."""

    def __init__(self, broker: RemoteBroker, follower: Follower) -> None:
        self.broker = broker
        self.follower = follower
        self.made: list[tuple[str, str]] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        pending: dict[str, str] = {}
        while not self._ended.wait(0.02):
            seen = [(event["kind"], event["name"]) for event in self.follower.events]
            for name, kind in list(pending.items()):
                if seen.count((kind, name)) >= self.made.count((kind, name)):
                    del pending[name]
            for name in QUEUES[:6]:
                if name not in pending:
                    full = self.broker.depths[name] == 0
                    pending[name] = "queue-overfull" if full else "queue-underfull"
                    self.made.append((pending[name], name))
                    self.broker.depths[name] = 1000 if full else 0

    def end(self) -> None:
        """Return when the console has seen all changes."""
        self._ended.set()
        self._thread.join()
        wait_until(lambda: len(self.flow_events()) >= len(self.made), "each change is an event", TAKEOVER)

    def flow_events(self) -> list[tuple[str, str]]:
        return [
            (event["kind"], event["name"])
            for event in self.follower.events
            if event["kind"] in ("queue-overfull", "queue-underfull") and event["name"] in QUEUES[:6]
        ]


class Place:
    """The processes of a test. `hosts`: their environments."""

    def __init__(self, stack: ExitStack, broker: RemoteBroker, folder: Path, database: str) -> None:
        self.stack = stack
        self.broker = broker
        self.folder = folder
        self.several_hosts = bool(database)
        names = ("one", "two") if database else ("one", "one")
        self.envs = [self._environment(name, database) for name in names]
        for env in self.envs[: 2 if database else 1]:
            done = manage("migrate", env=env)
            assert done.returncode == 0, done.stdout + done.stderr
            if database and env is self.envs[0]:  # what the hosts share
                (folder / "two" / "console").mkdir(parents=True)
                key = folder / "one" / "console" / "django.secret"
                shutil.copy(key, folder / "two" / "console" / "django.secret")
        done = manage("shell", "-c", ADD.format(url=broker.url), env=self.envs[0])
        assert done.returncode == 0, done.stdout + done.stderr
        self.processes: list[subprocess.Popen[bytes]] = []
        self.active = self.start(0)
        wait_until(lambda: "polling rabbit" in self.log(0), "the first process polls", 60)
        if database:
            shutil.copy(folder / "one" / "console" / "brokers.key", folder / "two" / "console" / "brokers.key")
        self.standby = self.start(1)
        wait_until(lambda: "other process" in self.log(1), "the second one stands by", 60)
        self.follower = Follower(self.envs[1], folder / "follower")
        stack.callback(self.follower.close)
        wait_until(lambda: self.follower.connected, f"the console is connected: {self.follower.lines}", 60)

    def _environment(self, name: str, database: str) -> dict[str, str]:
        more = {"DJANGO_SETTINGS_MODULE": "tests.servers.hosts.settings", "PYTHONPATH": str(ROOT)}
        if database:
            more |= {"DATABASE_URL": database, "TEST_HOST_NAME": name, "HEADGATE_ADAPTERS_HOST": OTHER_LOOPBACK}
        return environment(self.folder / name, **more)

    def start(self, number: int) -> subprocess.Popen[bytes]:
        """Start a process on host `number`; its log is that of the n-th process."""
        command = [sys.executable, str(ROOT / "manage.py"), "adapters"]
        log = self.folder / f"log{len(self.processes)}"
        self.processes.append(self.stack.enter_context(running(*command, env=self.envs[number], log=log)))
        return self.processes[-1]

    def log(self, number: int) -> str:
        return (self.folder / f"log{number}").read_text()

    def signal(self, number: int) -> None:
        os.kill(self.active.pid, number)

    def checked_events(self) -> list[dict[str, Any]]:
        """The events that the console has seen. Fails unless their numbers are 1, 2, 3…"""
        events = self.follower.events
        assert [event["number"] for event in events] == list(range(1, len(events) + 1))
        return events


@pytest.fixture
def broker() -> Iterator[RemoteBroker]:
    broker = RemoteBroker()
    for name in QUEUES:
        broker.add(name)
    with broker.serving():
        yield broker


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, broker: RemoteBroker, tmp_path: Path) -> Iterator[Place]:
    with ExitStack() as stack:
        database = ""
        if request.param == "postgresql":
            url = request.getfixturevalue("database_url")
            name = f"hosts_{abs(hash(str(tmp_path)))}"
            server = stack.enter_context(psycopg.connect(url, autocommit=True))
            server.execute(f"CREATE DATABASE {name}")
            stack.callback(lambda: server.execute(f"DROP DATABASE {name} WITH (FORCE)"))
            database = urlsplit(url)._replace(path=f"/{name}").geturl()
        yield Place(stack, broker, tmp_path, database)


def reported(what: str, seconds: float) -> None:
    """Show a measured figure (pytest -s)."""
    sys.stdout.write(f"{what}: {seconds:.1f} s\n")


def taken_over(place: Place) -> Callable[[], bool]:
    return lambda: "polling rabbit" in place.log(1)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_the_other_process_takes_over_and_each_change_is_one_event(
    place: Place, number: signal.Signals, request: pytest.FixtureRequest
) -> None:
    toggling = Toggling(place.broker, place.follower)
    wait_until(lambda: len(place.follower.events) > 30, "events arrive", 60)
    seen = len(place.follower.events)
    place.signal(number)
    began = time.monotonic()
    wait_until(taken_over(place), "the other process polls", TAKEOVER)
    polled = time.monotonic() - began
    count = len(place.follower.events)
    wait_until(lambda: len(place.follower.events) > count, "the console follows", TAKEOVER)
    followed = time.monotonic() - began
    wait_until(lambda: len(place.follower.events) > seen + 24, "the console goes on", TAKEOVER)
    reported(f"{request.node.callspec.id}: polled after {polled:.1f} s, first event in the console after", followed)
    if number == signal.SIGSTOP:
        place.signal(signal.SIGCONT)  # with one data folder it was killed
        ended = place.active.poll
        if place.several_hosts:
            wait_until(lambda: place.log(0).rstrip().endswith("poll them"), "it no longer hosts the broker", 60)
        else:
            wait_until(lambda: ended() is not None, "it was killed", 60)
    count = len(place.follower.events)
    wait_until(lambda: len(place.follower.events) > count + 12, "the console goes on", TAKEOVER)
    toggling.end()
    place.checked_events()
    assert sorted(toggling.flow_events()) == sorted(toggling.made)
    assert place.log(1).count("polling rabbit") == 1


@pytest.mark.parametrize(
    ("operation", "number"), [("stop-producers", signal.SIGSTOP), ("start-producers", signal.SIGKILL)]
)
def test_a_stop_or_start_that_was_begun_is_completed_by_the_next_process(
    place: Place, operation: str, number: signal.Signals
) -> None:
    broker, follower = place.broker, place.follower
    if operation == "start-producers":
        follower.request("stop-producers", reason="flood", actor="ada")
        wait_until(lambda: set(broker.limits.values()) == {0} and follower.answers(), "all are stopped", 60)
    broker.stop_answering_after(5)
    follower.request(operation, reason="why", actor="ada")
    assert broker.waiting.wait(60)
    place.signal(number)
    if number == signal.SIGKILL:
        broker.answer_again()
    wanted = 0 if operation == "stop-producers" else 100
    wait_until(taken_over(place), "the other process polls", TAKEOVER)
    if number == signal.SIGSTOP:
        # The next process must not wait for the one that hangs; the last one answers what it was sent.
        broker.answer_again()
        wait_until(lambda: set(broker.limits.values()) == {wanted}, "completed", TAKEOVER)
        made = len(broker.changes)
        place.signal(signal.SIGCONT)
        if place.several_hosts:
            wait_until(lambda: place.log(0).rstrip().endswith("poll them"), "it no longer hosts the broker", 60)
        assert len(broker.changes) == made  # it has changed nothing more
    wait_until(lambda: set(broker.limits.values()) == {wanted}, "completed", TAKEOVER)
    kind = "producers-stopped" if operation == "stop-producers" else "producers-started"
    wait_until(lambda: any(event["kind"] == kind for event in follower.events), "it has an event", TAKEOVER)
    if operation == "stop-producers":  # and it can be undone
        wait_until(lambda: follower.connected, "the console is connected", TAKEOVER)
        before = len(follower.answers())
        follower.request("start-producers", reason="over", actor="ada")
        wait_until(lambda: len(follower.answers()) > before, "it is answered", 60)
    wait_until(lambda: set(broker.limits.values()) == {100}, "every limit is what it was", 60)
    wait_until(lambda: any(event["kind"] == "producers-started" for event in follower.events), "the last event", 60)
    kinds = [event["kind"] for event in place.checked_events()]
    assert (kinds.count("producers-stopped"), kinds.count("producers-started")) == (1, 1)


def test_processes_that_are_killed_repeatedly_lose_nothing(place: Place) -> None:
    """Each of them is killed at another moment of its work."""
    toggling = Toggling(place.broker, place.follower)
    numbers = [0, 1]
    for round_ in range(6):
        count = len(place.follower.events)
        wait_until(lambda count=count: len(place.follower.events) > count + 15, "events arrive", TAKEOVER)  # type: ignore[misc]
        time.sleep(0.037 * round_)  # another moment in the second of the poller
        active = next(n for n in reversed(range(len(place.processes))) if re.search("polling rabbit", place.log(n)))
        kill(place.processes[active])
        place.start(numbers[active % 2])
        numbers.append(numbers[active % 2])
    toggling.end()
    place.checked_events()
    assert sorted(toggling.flow_events()) == sorted(toggling.made)
