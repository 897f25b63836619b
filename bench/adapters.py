"""What the adapter of a broker costs, and how soon it shows what happens: a real broker with many queues on loopback.

    uv run python bench/adapters.py --kind rabbitmq|artemis|activemq|broker-j
        [--queues 2000] [--seconds 60] [--times 200] [--page]

Starts the broker, creates queues, lets the adapter's service settle, and measures the processor time of this process
(polls, comparison, events, samples) and of the broker for some time in which nothing happens. Then a client fills a
queue with a limit until it is blocked (of RabbitMQ: refused), empties it, and so on: the delay from the moment at which
the client sends the message that is not accepted to the event in the stream over AMQP, and from the last message that
is taken to the event of the end. Median, 99th percentile and worst; a percentile needs 100 times. `--page`: also until
the queue has its new state in a snapshot of the overview's WebSocket, with a web process of the console.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import amqp
import psutil
from latency import Browser
from measured import free_port, running
from proton import ConnectionException, Message, Timeout
from proton.utils import BlockingConnection

from brokers.adapters import jolokia
from brokers.adapters.http import JsonHttp, part
from brokers.adapters.jolokia import Jolokia
from brokers.adapters.kinds import KINDS, Account
from brokers.adapters.service import AdaptersService
from brokers.admin import BrokerUnreachable
from brokers.drivers.bundled import BundledBroker

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # the tests are not installed, the brokers are
from tests.interop import activemq_node, artemis_node, broker_j_node
from tests.interop.rabbitmq_node import rabbitmq

ROOT = Path(__file__).resolve().parent.parent
#: Requests at once, or in one POST, while queues are created.
AT_ONCE, IN_ONE = 8, 200
LIMIT = 600.0
#: A message that is not settled within this time, s, is blocked: longer than a sync of a busy disk.
BLOCKED = 3.0
#: No message for so long, s: the queue is empty.
EMPTY = 0.5
NAME = "limited"


@dataclass
class Peer:
    """A running broker. `create`: queues by name, of which NAME has a limit. `fill` and `drain` return the time of day
    at which the queue was full, and empty. `processes`: of the broker."""

    account: Account
    create: Callable[[Sequence[str]], Any]
    fill: Callable[[], float]
    drain: Callable[[], float]
    processes: list[psutil.Process]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=list(PEERS), default="rabbitmq")
    parser.add_argument("--queues", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--times", type=int, default=200, help="how often the queue is filled")
    parser.add_argument("--page", action="store_true", help="measure the delay to the page, too")
    options = parser.parse_args()
    # Above the options of the tests: a broker with thousands of queues needs more memory than theirs.
    os.environ.setdefault("_JAVA_OPTIONS", "-Xmx2g" if options.queues > 1000 else "-Xmx512m")
    with tempfile.TemporaryDirectory() as folder:
        broker = Path(folder) / "broker"
        broker.mkdir()
        with PEERS[options.kind](broker) as peer:
            asyncio.run(measured(peer, Path(folder), options))
    return 0


async def measured(peer: Peer, folder: Path, options: argparse.Namespace) -> None:
    began = time.monotonic()
    await peer.create([NAME, *(f"queue.{number:05}" for number in range(options.queues - 1))])
    print(f"{options.kind}: {options.queues:,} queues created in {time.monotonic() - began:.0f} s", flush=True)
    service = AdaptersService(folder / "adapters")
    await service.start()
    service.add("measured", KINDS[options.kind].open(peer.account, service.clock.now))
    console = await connected(service)
    await asyncio.sleep(15)  # the first polls read everything: they are not part of the steady cost
    await cost(options.seconds, peer.processes)
    with ExitStack() as stack:
        # In a thread: meanwhile this loop serves the broker.
        page = await asyncio.to_thread(stack.enter_context, console_of(service, folder)) if options.page else None
        await delays(peer, console, page, options.times)
    await console.close()
    await service.stop()


async def connected(service: AdaptersService) -> BundledBroker:
    password = service.secret.read_text().strip()
    async with asyncio.timeout(LIMIT):
        while True:
            try:
                return await BundledBroker.connect(
                    "127.0.0.1", service.port, "console", password, timeout=LIMIT, idle_timeout=LIMIT, name="measured"
                )
            except BrokerUnreachable:
                await asyncio.sleep(0.2)  # between two attempts: nothing announces that it listens


async def cost(seconds: float, theirs: list[psutil.Process]) -> None:
    here = psutil.Process()
    before, broker = time.process_time(), used(theirs)
    await asyncio.sleep(seconds)  # the time that is measured
    print(f"adapter  {100 * (time.process_time() - before) / seconds:6.1f} % of a core")
    print(f"broker   {100 * (used(theirs) - broker) / seconds:6.1f} % of a core (all of it, polls included)")
    print(f"memory   {here.memory_full_info().pss / 1e6:6.0f} MB PSS", flush=True)


def used(processes: list[psutil.Process]) -> float:
    return sum(sum(each.cpu_times()[:2]) for each in processes)


@contextmanager
def console_of(service: AdaptersService, folder: Path) -> Iterator[Browser]:
    """Run a console that reaches the broker through the service; yield a browser that has signed in."""
    port = free_port()
    environment = {
        "HEADGATE_DATA": str(folder / "console"),
        "DJANGO_SETTINGS_MODULE": "adapters_settings",
        "PYTHONPATH": str(Path(__file__).parent),
        "HEADGATE_ADAPTED_PORT": str(service.port),
        "HEADGATE_ADAPTED_SECRET": str(service.secret),
    }
    variables, manage = {**os.environ, **environment}, [sys.executable, "manage.py"]
    subprocess.run([*manage, "migrate", "--no-input", "--verbosity", "0"], cwd=ROOT, env=variables, check=True)
    made = subprocess.run(
        [*manage, "ensure_admin"], cwd=ROOT, env=variables, check=True, capture_output=True, text=True
    )
    with running([*manage, "web", "--port", str(port)], port, environment, into=folder / "web.log"):
        browser = Browser(port)
        browser.sign_in(made.stdout.split("admin ", 1)[1].strip())
        yield browser


async def delays(peer: Peer, console: BundledBroker, browser: Browser | None, times: int) -> None:
    arrived: asyncio.Queue[tuple[str, float]] = asyncio.Queue()
    following = [asyncio.ensure_future(follow_events(console, arrived))]
    if browser is not None:
        following.append(asyncio.ensure_future(follow_page(browser, arrived)))
        await until(arrived, {"page: normal"}, following)
    else:
        await asyncio.sleep(1)  # until it follows, which the stream does not say
    acts = (("queue-overfull", "page: overfull", peer.fill), ("queue-underfull", "page: normal", peer.drain))
    found: dict[str, list[float]] = {}
    for event, shown, _ in acts:
        found |= {event: []} if browser is None else {event: [], shown: []}
    for _ in range(times):
        for event, shown, act in acts:
            await asyncio.sleep(random.uniform(0, 1))  # at any point between two polls
            at = await asyncio.to_thread(act)  # returns later than that: it must see that nothing more happens
            for name, seen in (await until(arrived, {event, shown} & found.keys(), following)).items():
                found[name].append(seen - at)
    for task in following:
        task.cancel()
    for name, seconds in found.items():
        p99 = f"{statistics.quantiles(seconds, n=100)[98]:.2f} s" if times >= 100 else f"needs 100 times, not {times}"
        print(f"{name:16} median {statistics.median(seconds):.2f} s, p99 {p99}, worst {max(seconds):.2f} s")


async def until(
    arrived: asyncio.Queue[tuple[str, float]], names: set[str], following: Sequence[asyncio.Task[None]]
) -> dict[str, float]:
    """Return when each of these has arrived, as time of day. `following`: the tasks that see them."""
    times: dict[str, float] = {}

    async def arrivals() -> None:
        while names - times.keys():
            name, at = await arrived.get()
            times[name] = at

    async with asyncio.timeout(LIMIT):
        waiting = asyncio.ensure_future(arrivals())
        await asyncio.wait([waiting, *following], return_when=asyncio.FIRST_COMPLETED)
        for task in (*following, waiting):
            if task.done():
                task.result()
        if not waiting.done():
            raise RuntimeError("the stream of events or the page has ended")
    return {name: times[name] for name in names}


async def follow_events(console: BundledBroker, arrived: asyncio.Queue[tuple[str, float]]) -> None:
    async for event in console.events():
        if event.object.get("name") == NAME:
            arrived.put_nowait((event.kind, time.time()))


async def follow_page(browser: Browser, arrived: asyncio.Queue[tuple[str, float]]) -> None:
    """Take the snapshots of an overview, on which the queue is found by its name, as a page does."""
    state = None
    async with browser.live() as socket:
        await socket.send(json.dumps({"watch": "overview", "search": NAME}))
        async for text in socket:
            at, frame = time.time(), json.loads(text)
            rows = (frame.get("data") or {}).get("queues", []) if frame["type"] == "snapshot" else []
            for row in rows:
                if row["name"] == NAME and row["state"] != state:
                    state = row["state"]
                    arrived.put_nowait((f"page: {str(state).lower()}", at))


# -- RabbitMQ -----------------------------------------------------------------------------------------------------


@contextmanager
def rabbit(folder: Path) -> Iterator[Peer]:
    with rabbitmq(folder, plugins=["rabbitmq_management", "rabbitmq_event_exchange"]) as node:
        url = f"http://127.0.0.1:{node.http_port}"

        async def create(names: Sequence[str]) -> None:
            api = JsonHttp(f"{url}/api", "guest", "guest", seconds=LIMIT)
            definition = {"max-length": 10, "overflow": "reject-publish"}
            policy = {"pattern": f"^{NAME}$", "definition": definition, "apply-to": "queues"}
            await api.request("PUT", "/policies/%2F/limited", body=policy)
            await at_once(names, lambda n: api.request("PUT", f"/queues/%2F/{part(n)}", body={"durable": True}))
            await api.close()

        def with_channel(act: Callable[[amqp.Channel], float]) -> float:
            with amqp.Connection(f"127.0.0.1:{node.port}", confirm_publish=True) as connection:
                return act(connection.channel())

        def fill(channel: amqp.Channel) -> float:
            while True:
                at = time.time()
                try:
                    channel.basic_publish_confirm(amqp.Message(b"x"), routing_key=NAME)
                except amqp.exceptions.MessageNacked:
                    return at

        def drain(channel: amqp.Channel) -> float:
            channel.queue_purge(NAME)
            return time.time()

        assert node.process is not None
        within = psutil.Process(node.process.pid).children(recursive=True)
        erlang = [each for each in within if each.name() == "beam.smp"]
        account = Account(url, "guest", "guest")
        yield Peer(account, create, lambda: with_channel(fill), lambda: with_channel(drain), erlang)


async def at_once(names: Sequence[str], create: Callable[[str], Any]) -> None:
    rest = iter(names)

    async def some() -> None:
        for name in rest:
            await create(name)

    await asyncio.gather(*(some() for _ in range(AT_ONCE)))


# -- brokers over Jolokia, and Broker-J -----------------------------------------------------------------------------


class Cache:
    """The folder of pytest's cache, in which the tests have the brokers' libraries, too."""

    def mkdir(self, name: str) -> Path:
        folder = ROOT / ".pytest_cache" / "d" / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder


def through_jolokia(
    url: str,
    user: str,
    password: str,
    request: Callable[[str], jolokia.Request],
    before: Sequence[jolokia.Request] = (),
) -> Any:
    """Return a function that creates queues with one request each, after requests `before`."""

    async def create(names: Sequence[str]) -> None:
        agent = Jolokia(JsonHttp(url, user, password, seconds=LIMIT))
        wanted = [*before, *map(request, names)]
        for start in range(0, len(wanted), IN_ONE):
            some = wanted[start : start + IN_ONE]
            while faults := [str(a.error) for a in await agent.post(some, seconds=LIMIT) if a.error is not None]:
                if "not yet started" not in faults[0]:  # it listens before
                    raise RuntimeError(faults[0])
                await asyncio.sleep(0.2)  # between two attempts
        await agent.close()

    return create


@contextmanager
def artemis(folder: Path) -> Iterator[Peer]:
    classes = artemis_node.artemis_libraries("2.55", Cache())  # type: ignore[arg-type]  # what it uses of pytest's
    with artemis_node.artemis(classes, folder) as node:
        account = Account(node.url, artemis_node.USER, artemis_node.PASSWORD)
        make = "createQueue(java.lang.String,java.lang.String,boolean,java.lang.String)"
        bean = 'org.apache.activemq.artemis:broker="test"'
        create = through_jolokia(
            node.url, account.username, account.password, lambda n: jolokia.execute(bean, make, n, n, True, "ANYCAST")
        )
        yield over_amqp(account, create, lambda: artemis_node.connection(node.port), node.process)


@contextmanager
def activemq(folder: Path) -> Iterator[Peer]:
    classes = activemq_node.activemq_libraries("6.3", Cache())  # type: ignore[arg-type]  # what it uses of pytest's
    with activemq_node.activemq(classes, folder) as node:
        account = Account(node.url, activemq_node.USER, activemq_node.PASSWORD)
        bean = "org.apache.activemq:type=Broker,brokerName=test"
        create = through_jolokia(
            node.url,
            account.username,
            account.password,
            lambda n: jolokia.execute(bean, "addQueue(java.lang.String)", n),
            # 10,000 queues take more of its disk than the limit of the tests' node, which would block every producer.
            (jolokia.write(bean, "StoreLimit", 10_000_000_000),),
        )

        def connect() -> BlockingConnection:
            return BlockingConnection(f"127.0.0.1:{node.port}", timeout=LIMIT)

        yield over_amqp(account, create, connect, node.process)


@contextmanager
def broker_j(folder: Path) -> Iterator[Peer]:
    classes = broker_j_node.broker_j_libraries("10", Cache())  # type: ignore[arg-type]  # what it uses of pytest's
    # A virtual host node of type JSON, as in the tests, writes all its queues again for each that is created.
    configuration = folder.parent / "broker-j.json"
    initial = json.loads((broker_j_node.FILES / "broker-j-http.json").read_text())
    (host,) = initial["virtualhostnodes"]
    host |= {"type": "Memory", "virtualHostInitialConfiguration": '{"type": "DERBY"}'}
    configuration.write_text(json.dumps(initial))
    with broker_j_node.broker_j("10", classes, folder, configuration) as node:
        url = f"http://127.0.0.1:{node.http_port}"

        async def create(names: Sequence[str]) -> None:
            api = JsonHttp(f"{url}/api/latest", "admin", "secret", seconds=LIMIT)
            limit = {"overflowPolicy": "PRODUCER_FLOW_CONTROL", "maximumQueueDepthMessages": 10}
            await at_once(
                names,
                lambda n: api.request(
                    "PUT", f"/queue/default/default/{part(n)}", body={"name": n, **(limit if n == NAME else {})}
                ),
            )
            await api.close()

        yield over_amqp(Account(url, "admin", "secret"), create, node.connect, node.process)


def sockets() -> set[int]:
    """Return the descriptors of this process's connections."""
    return {each.fd for each in psutil.Process().net_connections("tcp") if each.status == psutil.CONN_ESTABLISHED}


def over_amqp(account: Account, create: Any, connect: Callable[[], BlockingConnection], process: Any) -> Peer:
    """Return the peer whose clients speak AMQP 1.0."""

    def fill() -> float:
        others = sockets()
        connection = connect()
        try:
            sender = connection.create_sender(NAME)
            while True:
                at = time.time()
                delivery = sender.link.send(Message(body="x" * 1000, durable=True))
                try:
                    connection.wait(lambda d=delivery: d.settled, timeout=BLOCKED)
                except Timeout:
                    return at
        finally:
            # ActiveMQ reads nothing from a blocked producer for half a minute, its close neither.
            for number in sockets() - others:
                with closing(socket.socket(fileno=os.dup(number))) as ours:
                    ours.shutdown(socket.SHUT_RDWR)
            connection.timeout = 1
            with suppress(Timeout, ConnectionException):
                connection.close()

    def drain() -> float:
        at = time.time()
        with closing(connect()) as connection:
            receiver = connection.create_receiver(NAME, credit=100)
            while True:
                try:
                    receiver.receive(timeout=EMPTY)
                except Timeout:
                    receiver.close()  # sends the acknowledgements
                    return at
                receiver.accept()
                at = time.time()

    return Peer(account, create, fill, drain, [psutil.Process(process.pid)])


PEERS = {"rabbitmq": rabbit, "artemis": artemis, "activemq": activemq, "broker-j": broker_j}


if __name__ == "__main__":
    sys.exit(main())
