"""`manage.py broker` as a process: what it keeps when killed, how it ends, what it says if it cannot start."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from proton.utils import BlockingConnection, LinkDetached

from brokers.admin import BrokerUnreachable, Event, NotAllowed
from brokers.drivers.bundled import BundledBroker
from brokers.model import object_name

ROOT = Path(__file__).resolve().parent.parent.parent
LIMIT = 30.0

BROKER = object_name("Broker")
HOST = object_name("VirtualHost", name="default")
ORDERS = object_name("Queue", virtualhost="default", name="orders")


class Process:
    """A broker on a free port of loopback, and a way in with the console's secret."""

    def __init__(self, process: asyncio.subprocess.Process, data: Path, port: int) -> None:
        self.process = process
        self.data = data
        self.port = port

    async def connect(self) -> BundledBroker:
        secret = (self.data / "console.secret").read_text().strip()
        return await BundledBroker.connect("127.0.0.1", self.port, "console", secret, timeout=LIMIT)

    async def end(self, number: signal.Signals) -> tuple[int, str]:
        """Send a signal; the exit code and what it wrote to stderr."""
        self.process.send_signal(number)
        async with asyncio.timeout(LIMIT):
            _, err = await self.process.communicate()
        assert self.process.returncode is not None
        return self.process.returncode, err.decode()


async def launch(*arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "manage.py",
        "broker",
        *arguments,
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


@asynccontextmanager
async def running(data: Path) -> AsyncIterator[Process]:
    process = await launch("--port", "0", "--data", str(data), "--demo")
    assert process.stdout is not None
    try:
        async with asyncio.timeout(LIMIT):
            line = (await process.stdout.readline()).decode()
        assert line.startswith("broker ready on 127.0.0.1:"), line
        yield Process(process, data, int(line.rpartition(":")[2]))
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


async def refused(*arguments: str) -> str:
    """The one line that a broker that cannot start ends with."""
    process = await launch(*arguments)
    async with asyncio.timeout(LIMIT):
        out, err = await process.communicate()
    assert process.returncode == 1
    assert out == b""
    (line,) = err.decode().splitlines()
    return line


async def replay(admin: BundledBroker, after: int) -> list[Event]:
    """The events up to now, from the stream itself."""
    last = (await admin.read(BROKER))["last_event"]
    stream, found = admin.events(after), []
    async with asyncio.timeout(LIMIT):
        while len(found) < last - after:
            found.append(await anext(stream))
    return found


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


async def test_log_is_at_the_reported_path_and_contains_the_events(data: Path) -> None:
    async with running(data) as broker:
        admin = await broker.connect()
        log = Path((await admin.read(BROKER))["log"])
        assert log == (data / "broker.log").resolve()
        await admin.close()
    said = log.read_text()  # noqa: ASYNC240  (nothing else runs)
    assert re.search(r" INFO  \[broker\] BRK-1004 : Ready", said), said


async def test_queues_policies_and_stops_outlive_a_killed_broker(data: Path) -> None:
    async with running(data) as broker:
        admin = await broker.connect()
        created = await admin.create(ORDERS, {"capacity_messages": 10})
        await admin.update(ORDERS, {"capacity_messages": 20, "flow_resume_messages": "50%"}, created.version)
        await admin.create(object_name("VirtualHost", name="other"), {"capacity_bytes": 7})
        await admin.create(object_name("Queue", virtualhost="other", name="gone"), {})
        await admin.delete(object_name("Queue", virtualhost="other", name="gone"))
        host = await admin.read(HOST)
        await admin.update(HOST, {"producer_window_messages": 9}, host.version)
        await admin.call(ORDERS, "stop-producers", {"reason": "an incident", "actor": "anna"})
        before = {name: await admin.read(name) for name in (ORDERS, object_name("VirtualHost", name="other"))}
        following = asyncio.create_task(anext(admin.events()))
        code, err = await broker.end(signal.SIGKILL)
        assert (code, err) == (-signal.SIGKILL, "")
        with pytest.raises(BrokerUnreachable):
            await following
        await admin.close()
    async with running(data) as broker:
        admin = await broker.connect()
        orders = await admin.read(ORDERS)
        different = {a for a in orders.attributes if orders[a] != before[ORDERS][a]}
        assert different == set()
        assert (orders["state"], orders["effective_resume_messages"]) == ("STOPPED", 10)
        assert [(stop["reason"], stop["actor"]) for stop in orders["stops"]] == [("an incident", "anna")]
        other = await admin.read(object_name("VirtualHost", name="other"))
        assert (other["capacity_bytes"], other["queues"]) == (7, 0)
        fields = (await admin.call(ORDERS, "explain", {}))["fields"]
        assert fields["producer_window_messages"] == {"value": 9, "origin": "virtualhost"}
        await admin.call(ORDERS, "start-producers", {})
        await admin.close()
    async with running(data) as broker:
        admin = await broker.connect()
        assert (await admin.read(ORDERS))["state"] == "NORMAL"
        await admin.close()


async def test_events_are_replayed_across_a_killed_broker_with_none_left_out(data: Path) -> None:
    async with running(data) as broker:
        admin = await broker.connect()
        for n in range(100):
            await admin.call(BROKER, "start-producers" if n % 2 else "stop-producers", {"reason": str(n)})
        first = await replay(admin, 0)
        await broker.end(signal.SIGKILL)
        await admin.close()
    async with running(data) as broker:
        admin = await broker.connect()
        await admin.create(ORDERS, {})
        every = await replay(admin, 0)
        assert every[: len(first)] == first
        assert [event.number for event in every] == list(range(1, len(every) + 1))
        assert [event.attributes["reason"] for event in every if event.kind.startswith("producers-")] == [
            str(n) for n in range(100)
        ]
        later = [event.kind for event in every[len(first) :]]
        assert later.index("broker-ready") < later.index("queue-created")
        assert await replay(admin, len(first)) == every[len(first) :]
        await admin.close()


async def test_broker_that_is_terminated_closes_its_clients_with_an_error_and_exits_with_0(data: Path) -> None:
    async with running(data) as broker:
        admin = await broker.connect()
        following = asyncio.create_task(anext(admin.events()))
        await admin.read(BROKER)
        code, err = await broker.end(signal.SIGTERM)
        assert (code, err) == (0, "")
        with pytest.raises(BrokerUnreachable, match="shutting down"):
            await following
        await admin.close()


async def test_the_secret_and_the_files_are_private(data: Path) -> None:
    async with running(data) as broker:
        assert mode(data) == 0o700
        for name in ("console.secret", "config.sqlite3", "events.sqlite3"):
            assert mode(data / name) == 0o600, name
        secret = (data / "console.secret").read_text()
        with pytest.raises(NotAllowed):
            await BundledBroker.connect("127.0.0.1", broker.port, "console", "guess", timeout=LIMIT)
        assert secret.strip() not in (data / "broker.log").read_text()


@pytest.mark.parametrize("node", ["$management", "$events", "$samples"])
async def test_anonymous_clients_get_no_link_to_the_nodes(data: Path, node: str) -> None:
    def attach(port: int) -> None:
        connection = BlockingConnection(f"127.0.0.1:{port}", allowed_mechs="ANONYMOUS", timeout=LIMIT)
        try:
            connection.create_receiver("orders").close()
            with pytest.raises(LinkDetached, match="amqp:unauthorized-access"):
                connection.create_receiver(node)
        finally:
            connection.close()

    async with running(data) as broker:
        await asyncio.to_thread(attach, broker.port)


async def test_a_port_that_is_taken_is_named(data: Path, tmp_path: Path) -> None:
    async with running(data) as broker:
        line = await refused("--port", str(broker.port), "--data", str(tmp_path / "other"))
        assert f"127.0.0.1:{broker.port}" in line
        assert "in use" in line


async def test_a_data_folder_in_use_by_another_broker_is_named(data: Path) -> None:
    async with running(data):
        line = await refused("--port", "0", "--data", str(data))
        assert str(data) in line
        assert "in use by another broker" in line


async def test_error_of_an_invalid_data_folder_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert str(tmp_path / "file" / "data") in await refused("--port", "0", "--data", str(tmp_path / "file" / "data"))


async def test_a_damaged_store_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.sqlite3").write_bytes(b"nothing that could be read" * 1000)
    line = await refused("--port", "0", "--data", str(tmp_path))
    assert str(tmp_path / "config.sqlite3") in line
    assert "damaged" in line
