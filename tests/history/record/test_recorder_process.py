"""`manage.py recorder` with a real broker, both killed repeatedly: every event is stored once."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import psutil
import pytest
from django.core.management import call_command

from brokers.drivers.bundled import BundledBroker
from brokers.model import object_name
from console.history.storage.landing import Landing
from tests.up.running import Running, free_port, wait_until

BROKER = object_name("Broker")
ORDERS = object_name("Queue", virtualhost="default", name="orders")
ROUNDS = 6


class Pair:
    """A broker and a recorder with one data folder."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.data, self.port = folder, folder / "data", free_port()
        self.landing = Landing(str(self.data / "history"))
        monkeypatch.setenv("HEADGATE_DATA", str(self.data))
        monkeypatch.setenv("HEADGATE_BROKER_PORT", str(self.port))
        self.started: list[Running] = []
        migrated = Running(["manage.py", "migrate", "--verbosity", "0"], folder)
        assert migrated.process.wait(60) == 0, migrated.err

    def broker(self) -> Running:
        data = str(self.data / "broker")
        return self._ready("broker", "--port", str(self.port), "--data", data, "--demo", said="broker ready")

    def recorder(self) -> Running:
        return self._ready("recorder", "--rotate", "0.1", said="recording local")

    def _ready(self, *arguments: str, said: str) -> Running:
        running = Running(["manage.py", *arguments], self.folder)
        self.started.append(running)
        running.wait_for(said, within=60)
        return running

    async def connect(self) -> BundledBroker:
        secret = (self.data / "broker" / "console.secret").read_text().strip()
        return await BundledBroker.connect("127.0.0.1", self.port, "console", secret, timeout=30)

    async def act(self, count: int) -> int:
        """Cause some events; return the number of the last."""
        admin = await self.connect()
        for n in range(count):
            await admin.call(BROKER, "start-producers" if n % 2 else "stop-producers", {"reason": f"{n}"})
        last = int((await admin.read(BROKER))["last_event"])
        await admin.close()
        return last

    def numbers(self) -> list[int]:
        return sorted(self.landing.read_all("events")["number"].to_pylist())

    def has(self, last: int) -> bool:
        return last in self.numbers()  # the end of this connection is an event, too


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    made = Pair(tmp_path, monkeypatch)
    yield made
    for running in made.started:
        if running.process.poll() is None:
            running.process.kill()
            running.process.wait()


@pytest.mark.timeout(300)
def test_kills_of_broker_and_recorder_lose_and_duplicate_no_event(pair: Pair) -> None:
    dice = random.Random(4)
    broker, recorder, last = pair.broker(), pair.recorder(), 0
    for n in range(ROUNDS):
        last = asyncio.run(pair.act(40))
        if n % 2:  # sometimes after it has stored them, sometimes before
            wait_until(lambda: pair.has(last), f"event {last} is stored")  # noqa: B023
        if dice.random() < 0.7:
            os.kill(recorder.process.pid, signal.SIGKILL)
            recorder.process.wait()
            last = asyncio.run(pair.act(20))
            recorder = pair.recorder()
        else:
            os.kill(broker.process.pid, signal.SIGKILL)
            broker.process.wait()
            broker = pair.broker()
    last = asyncio.run(pair.act(10))
    wait_until(lambda: pair.has(last), f"event {last} is stored")
    counted = Counter(pair.numbers())
    assert sorted(counted) == list(range(1, max(counted) + 1))
    assert max(counted.values()) == 1
    assert len(set(pair.landing.read_all("events")["run"].to_pylist())) == 1


@pytest.mark.domain("fresh one recorder")
@pytest.mark.timeout(180)
def test_second_recorder_stands_by_and_takes_over_a_killed_or_ended_one(pair: Pair) -> None:
    pair.broker()
    first = pair.recorder()
    second = pair._ready("recorder", said="standing by")
    last = asyncio.run(pair.act(30))
    os.kill(first.process.pid, signal.SIGKILL)
    first.process.wait()
    second.wait_for("recording local", within=60)
    last = asyncio.run(pair.act(10))
    third = pair._ready("recorder", "--rotate", "0.1", said="standing by")
    second.process.send_signal(signal.SIGTERM)
    assert second.process.wait(20) == 0
    assert pair.landing.names("events")  # it landed what it had at its end
    third.wait_for("recording local", within=60)
    wait_until(lambda: pair.has(last), f"event {last} is stored")
    counted = Counter(pair.numbers())
    assert sorted(counted) == list(range(1, max(counted) + 1))
    assert max(counted.values()) == 1


@pytest.mark.timeout(120)
def test_recorder_waits_for_its_broker(pair: Pair) -> None:
    recorder = pair.recorder()
    wait_until(lambda: "local: " in recorder.err, "it says that it cannot reach the broker")
    pair.broker()
    last = asyncio.run(pair.act(2))
    wait_until(lambda: pair.has(last), f"event {last} is stored")
    assert recorder.process.poll() is None
    assert not loaded(recorder.process.pid, "pandas"), "30 MB that it does not need"


def loaded(process: int, package: str) -> list[str]:
    """Return the libraries of a package that a process has loaded."""
    return [each.path for each in psutil.Process(process).memory_maps() if f"/{package}/" in each.path]


@pytest.mark.domain("rest pandas")
def test_pyarrow_does_without_pandas_and_everything_else_can_have_it() -> None:
    code = """
import sys
from console.history.record.pyarrow_alone import use_pyarrow_alone
use_pyarrow_alone()
import pyarrow as pa
table = pa.table({"a": pa.array([1, 2]), "b": ["x", None]})
assert table.to_pylist() == [{"a": 1, "b": "x"}, {"a": 2, "b": None}]
assert "pandas" not in sys.modules
assert list(table.to_pandas()["a"]) == [1, 2]
use_pyarrow_alone()
import pandas
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parents[3], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("option", ["--rotate", "--publish"])
def test_interval_that_is_too_short_or_too_long_is_refused(option: str) -> None:
    for seconds in ("0", "3601"):
        with pytest.raises(SystemExit):
            call_command("recorder", option, seconds)
