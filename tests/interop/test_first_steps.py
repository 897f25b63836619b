"""The programs that the page of the first steps shows (`client_programs.js`) run as they stand there: each sender is
blocked in the middle by the queue's capacity, and goes on when the receiver consumes."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

import pytest

from brokers.drivers.bundled import BundledBroker
from brokers.model import object_name
from tests.amqp.broker_thread import BrokerThread, wait_until
from tests.interop.peers import Peer, need
from tests.interop.test_jms import HOW as JAVA_HOW
from tests.interop.test_jms import jms
from tests.interop.test_rhea import HOW, rhea

__all__ = ["jms", "rhea"]

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "console" / "static" / "console" / "pages" / "client_programs.js"
CAPACITY, COUNT = 100, 200

T = TypeVar("T")


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[BrokerThread]:
    """A broker as `headgate up` makes it: clients must sign in, and queues must exist."""
    with BrokerThread(tmp_path / "broker", demo=False) as running:
        yield running


def programs(to: dict[str, object]) -> dict[str, dict[str, tuple[str, str]]]:
    """Return name -> action -> the program's file and its text."""
    script = (
        f"const {{ LANGUAGES }} = await import({json.dumps(PROGRAMS.as_uri())});"
        f"const to = {json.dumps(to)};"
        "const of = (program) => [program.file, program.text(to)];"
        "console.log(JSON.stringify(LANGUAGES.map((l) => [l.name, of(l.send), of(l.receive)])))"
    )
    command = [need("node", HOW), "--experimental-default-type=module", "--input-type=module", "--eval", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return {name: {"send": tuple(send), "receive": tuple(receive)} for name, send, receive in json.loads(done.stdout)}


async def with_admin(broker: BrokerThread, work: Callable[[BundledBroker], Awaitable[T]]) -> T:
    secret = (broker.data / "console.secret").read_text().strip()
    admin = await BundledBroker.connect("127.0.0.1", broker.port, user="console", password=secret)
    try:
        return await work(admin)
    finally:
        await admin.close()


def make_user_and_queue(broker: BrokerThread, virtualhost: str) -> dict[str, object]:
    """As the page does; return the user's name and generated password."""

    async def make(admin: BundledBroker) -> dict[str, object]:
        if virtualhost != "default":
            await admin.create(object_name("VirtualHost", name=virtualhost), {})
        grants = {"grants": [f"{virtualhost}:publish,consume"]}
        user = await admin.create(object_name("User", name="app"), grants)
        queue = {"durable": True, "capacity_messages": CAPACITY}
        await admin.create(object_name("Queue", virtualhost=virtualhost, name="orders"), queue)
        return {"user": "app", "password": user["password"]}

    return asyncio.run(with_admin(broker, make))


def is_blocked(broker: BrokerThread, virtualhost: str) -> bool:
    async def look(admin: BundledBroker) -> bool:
        queue = await admin.read(object_name("Queue", virtualhost=virtualhost, name="orders"))
        return bool(queue["overfull_count"] and queue["blocked_producers"])

    return asyncio.run(with_admin(broker, look))


Start = Callable[[Path], list[str]]


def python(file: Path) -> list[str]:
    return [sys.executable, str(file)]


def start_of(language: str, folder: Path, request: pytest.FixtureRequest) -> Start:
    """Return what returns the command that runs a program's file in this folder."""
    if language == "Python":
        return python
    if language == "JavaScript":
        peer: Peer = request.getfixturevalue("rhea")
        (folder / "node_modules").symlink_to(Path(peer.command[1]).parent / "node_modules")
        return lambda file: [need("node", HOW), str(file)]
    peer = request.getfixturevalue("jms")
    libraries = peer.command[peer.command.index("-cp") + 1].partition(":")[2]
    return lambda file: [need("java", JAVA_HOW), "-XX:TieredStopAtLevel=1", "-cp", libraries, str(file)]


def numbers(out: Path, said: str) -> list[int]:
    return [int(number) for number in re.findall(rf"^{said} (\d+)$", out.read_text(), re.MULTILINE)]


@pytest.mark.parametrize("virtualhost", ["default", "branch"])
@pytest.mark.parametrize("language", ["Python", "Java (JMS)", "JavaScript"])
def test_program_of_the_first_steps_is_blocked_and_released(
    closed: BrokerThread, tmp_path: Path, request: pytest.FixtureRequest, language: str, virtualhost: str
) -> None:
    start = start_of(language, tmp_path, request)
    to = {
        "host": "127.0.0.1",
        "port": str(closed.port),
        "tls": False,
        "queue": "orders",
        "virtualhost": virtualhost,
        "count": COUNT,
        **make_user_and_queue(closed, virtualhost),
    }
    program = programs(to)[language]
    sent, received = tmp_path / "sent", tmp_path / "received"
    with ExitStack() as stack:
        running = []
        for action, out in (("send", sent), ("receive", received)):  # beside each other, in the same folder
            name, text = program[action]
            (tmp_path / name).write_text(text)
            stream = stack.enter_context(out.open("w"))
            process = subprocess.Popen(start(tmp_path / name), stdout=stream, stderr=subprocess.STDOUT)
            stack.callback(process.kill)
            running.append((process, out))
            if action == "send":
                wait_until(lambda: is_blocked(closed, virtualhost), f"{language} is blocked", within=60)
                # Overfull is above the capacity, and the broker accepts no more: none is said to be sent.
                assert numbers(sent, "sent") == list(range(1, min(CAPACITY + 2, len(numbers(sent, "sent")) + 1)))
                assert process.poll() is None
        for process, out in running:
            assert process.wait(60) == 0, out.read_text()
    assert numbers(sent, "sent") == list(range(1, COUNT + 1))
    assert numbers(received, "received message") == list(range(1, COUNT + 1))
