"""A real ActiveMQ Classic behind its adapter: its clients meet what the adapter says, and no message is lost to it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from proton import Message, ProtonException
from proton.utils import BlockingConnection

from brokers.adapters import jolokia
from brokers.adapters.activemq import ActiveMq
from brokers.adapters.http import JsonHttp
from brokers.adapters.jolokia import Jolokia
from brokers.admin import EffectNotConfirmed, InvalidValue, ManagedObject, NotAllowed
from brokers.model import ObjectName
from tests.adapters.contract import AdapterContract
from tests.adapters.contract.real import ANSWERS, Real, contracted
from tests.adapters.fake import BROKER, queue_name
from tests.adapters.hosted import LIMIT, Hosted, until
from tests.adapters.stalling import Stalling
from tests.interop.activemq_node import PASSWORD, USER, ActiveMqNode, activemq, activemq_libraries

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(600)]

BEAN = "org.apache.activemq:type=Broker,brokerName=test"
SIZE = 4_000  # of a message's body, bytes: some ten of them fill a queue


both = pytest.mark.parametrize("node", ["6.3", "5.18"], indirect=True)


@pytest.fixture(scope="module", params=["6.3"])
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ActiveMqNode]:
    cache = request.config.cache
    assert cache is not None
    with activemq(activemq_libraries(request.param, cache), tmp_path_factory.mktemp("activemq")) as node:
        yield node


def agent(node: ActiveMqNode, password: str = PASSWORD) -> Jolokia:
    return Jolokia(JsonHttp(node.url, USER, password, seconds=LIMIT))


class Adapted(Hosted):
    """The node as a console reaches it."""

    def __init__(self, folder: Path, node: ActiveMqNode) -> None:
        super().__init__(folder, lambda now: ActiveMq(agent(node), now))
        self.node = node
        self.agent = agent(node)

    async def limit(self, queue: str = "", resource: str = "Memory") -> Any:
        """The limit of a queue, or of the broker, as ActiveMQ has it."""
        bean = BEAN + (f",destinationType=Queue,destinationName={queue}" if queue else "")
        return (await self.agent.one(jolokia.read(bean, f"{resource}Limit"))).get(f"{resource}Limit")


@pytest_asyncio.fixture
async def adapted(tmp_path: Path, node: ActiveMqNode) -> AsyncIterator[Adapted]:
    adapted = Adapted(tmp_path, node)
    await adapted.start()
    yield adapted
    await adapted.stop()
    await adapted.agent.close()


def connect(node: ActiveMqNode) -> BlockingConnection:
    return BlockingConnection(f"127.0.0.1:{node.port}", timeout=LIMIT)


class Sending:
    """A client that sends persistent messages, one after the other, each numbered, in a thread."""

    def __init__(self, node: ActiveMqNode, queue: str, count: int) -> None:
        self.settled = 0
        self.failure: ProtonException | None = None
        self._node, self._queue, self._count = node, queue, count
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            with closing(connect(self._node)) as connection:
                sender = connection.create_sender(self._queue)
                for number in range(self._count):
                    sender.send(Message(id=number, body="x" * SIZE, durable=True))
                    self.settled += 1
        except ProtonException as error:
            self.failure = error

    async def end(self) -> None:
        await asyncio.to_thread(self._thread.join, LIMIT)
        assert not self._thread.is_alive()


def take(node: ActiveMqNode, queue: str, count: int) -> list[int]:
    """Consume messages; return their numbers in order."""
    with closing(connect(node)) as connection:
        receiver = connection.create_receiver(queue, credit=1)
        found = []
        for _ in range(count):
            found.append(receiver.receive(timeout=LIMIT).id)
            receiver.accept()
        return found


async def producer(adapted: Adapted, queue: str) -> ManagedObject | None:
    found = (await adapted.broker.query("Producer", where={"queue": str(queue_name(queue))})).items
    return found[0] if found else None


async def blocked(adapted: Adapted, queue: str) -> bool:
    shown = await producer(adapted, queue)
    return shown is not None and shown["state"] == "BLOCKED"


@both
async def test_blocked_producer_is_shown_with_its_queue_and_unblocked_as_it_drains(adapted: Adapted) -> None:
    client = Sending(adapted.node, "orders", 15)
    await until(lambda: blocked(adapted, "orders"))
    shown = await producer(adapted, "orders")
    assert shown is not None
    assert shown["reasons"] == ["queue-overfull:orders"]
    orders = await adapted.queue("orders")
    assert (orders["state"], orders["blocked_producers"], orders["producers"]) == ("OVERFULL", 1, 1)
    assert orders["depth_bytes"] >= orders["effective_stop_bytes"] == 50_000
    assert await asyncio.to_thread(take, adapted.node, "orders", 15) == list(range(15))
    await client.end()
    assert client.failure is None

    async def drained() -> bool:
        queue = await adapted.queue("orders")
        return (queue["state"], queue["depth_messages"], queue["producers"]) == ("NORMAL", 0, 0)

    await until(drained)

    async def reported() -> bool:
        kinds = [event.kind for event in await adapted.events() if event.object == queue_name("orders")]
        return kinds.count("queue-overfull") == kinds.count("queue-underfull") == 1

    await until(reported)


@both
async def test_stop_of_a_queue_lets_one_message_pass_and_start_all(adapted: Adapted) -> None:
    def create() -> None:
        with closing(connect(adapted.node)) as connection:
            connection.create_sender("bills")

    await asyncio.to_thread(create)

    await until(lambda: adapted.lists("bills"))
    bills = queue_name("bills")
    with pytest.raises(EffectNotConfirmed, match="pace of its consumers") as refused:
        await adapted.broker.call(bills, "stop-producers", {"actor": "ada"})
    assert refused.value.effect == "trickle"
    given = {"actor": "ada", "reason": "flood", "effect": "trickle"}
    assert (await adapted.broker.call(bills, "stop-producers", given))["changed"]
    client = Sending(adapted.node, "bills", 5)
    await until(lambda: blocked(adapted, "bills"))
    shown = await producer(adapted, "bills")
    assert shown is not None
    assert shown["reasons"] == ["operator-stop:queue default/bills"]
    assert client.settled <= 1
    queue = await adapted.queue("bills")
    assert (queue["state"], queue["depth_messages"], queue["effective_capacity_bytes"]) == ("STOPPED", 1, 50_000)
    assert queue["blocked_producers"] == 1
    with pytest.raises(InvalidValue, match="start them before"):
        await adapted.broker.update(bills, {"capacity_bytes": 9_000}, queue.version)
    await adapted.broker.call(bills, "start-producers", {"actor": "ada"})
    await client.end()
    assert (client.settled, client.failure) == (5, None)
    assert await adapted.limit("bills") == 50_000
    assert await asyncio.to_thread(take, adapted.node, "bills", 5) == list(range(5))


async def test_stop_of_all_and_limits_meet_a_restart_of_the_broker(adapted: Adapted) -> None:
    first = Sending(adapted.node, "mail", 3)
    await first.end()

    async def listed() -> bool:
        found = (await adapted.broker.query("Queue", where={"name": "mail"})).items
        return bool(found) and found[0]["depth_messages"] == 3

    await until(listed)
    mail = await adapted.queue("mail")
    changed = await adapted.broker.update(mail.name, {"capacity_bytes": 80_000}, mail.version, actor="ada")
    assert (changed["capacity_bytes"], await adapted.limit("mail")) == (80_000, 80_000)
    await adapted.broker.call(BROKER, "stop-producers", {"actor": "ada", "reason": "flood"})
    second = Sending(adapted.node, "mail", 1)
    await until(lambda: blocked(adapted, "mail"))
    shown = await producer(adapted, "mail")
    assert shown is not None
    assert (shown["reasons"], second.settled) == (["operator-stop:broker"], 0)
    broker = await adapted.broker.read(BROKER)
    assert (broker["shortages"], broker["store_limit"]) == ([], 100_000_000)

    await asyncio.to_thread(adapted.node.stop)
    await asyncio.to_thread(adapted.node.start)
    await second.end()  # it has lost its connection, and its message was never settled

    async def stopped_again() -> bool:
        return bool(await adapted.limit(resource="Store") == 1)

    await until(stopped_again)
    await adapted.broker.close()
    await adapted.connect()

    async def reported() -> bool:
        found = [e for e in await adapted.events() if e.kind == "policy-changed" and e.object == mail.name]
        return [(e.attributes["before"], e.attributes["after"]) for e in found][-1] == (
            {"capacity_bytes": 80_000},
            {"capacity_bytes": 50_000},
        )

    await until(reported)
    assert await asyncio.to_thread(take, adapted.node, "mail", 3) == [0, 1, 2]  # consumers go on
    third = Sending(adapted.node, "mail", 2)
    await until(lambda: blocked(adapted, "mail"))
    assert third.settled == 0
    await adapted.broker.call(BROKER, "start-producers", {"actor": "ada"})
    await third.end()
    assert (third.settled, third.failure) == (2, None)
    assert await adapted.limit(resource="Store") == 100_000_000
    assert await asyncio.to_thread(take, adapted.node, "mail", 2) == [0, 1]


async def test_limits_of_queue_and_broker_are_set_and_none_follows_the_broker(adapted: Adapted) -> None:
    sent = Sending(adapted.node, "limits", 1)
    await sent.end()

    await until(lambda: adapted.lists("limits"))
    name, version = queue_name("limits"), (await adapted.queue("limits")).version
    for given, shown, effective in ((0, 0, 0), (None, None, 10_000_000), (70_000, 70_000, 70_000)):
        queue = await adapted.broker.update(name, {"capacity_bytes": given}, version, actor="ada")
        assert (queue["capacity_bytes"], queue["effective_capacity_bytes"]) == (shown, effective)
        version = queue.version
        assert await adapted.limit("limits") != 0
    broker = await adapted.broker.read(BROKER)
    broker = await adapted.broker.update(BROKER, {"temp_limit": 60_000_000}, broker.version, actor="ada")
    assert (broker["temp_limit"], await adapted.limit(resource="Temp")) == (60_000_000, 60_000_000)
    assert await asyncio.to_thread(take, adapted.node, "limits", 1) == [0]


async def test_connection_is_closed_and_a_wrong_password_is_named(adapted: Adapted) -> None:
    client = await asyncio.to_thread(connect, adapted.node)
    sender = await asyncio.to_thread(client.create_sender, "closing")

    async def shown() -> bool:
        return await producer(adapted, "closing") is not None

    await until(shown)
    found = await producer(adapted, "closing")
    assert found is not None
    connection = ObjectName.parse(found["connection"])

    async def listed() -> bool:
        return connection in [each.name for each in (await adapted.broker.query("Connection")).items]

    await until(listed)
    await adapted.broker.call(connection, "close", {"reason": "test"})
    with pytest.raises(ProtonException):
        await asyncio.to_thread(sender.send, Message(body="x", durable=True), timeout=LIMIT)

    async def gone() -> bool:
        return not await listed()

    await until(gone)
    wrong = ActiveMq(agent(adapted.node, "wrong"), lambda: 0)
    with pytest.raises(NotAllowed, match="does not accept the user name and password"):
        await wrong.connect()
    await wrong.close()


class Contracted(Real):
    def __init__(self, folder: Path, node: ActiveMqNode, proxy: Stalling) -> None:
        url = f"http://127.0.0.1:{proxy.port}/jolokia"
        super().__init__(
            folder, proxy, lambda _, now: ActiveMq(Jolokia(JsonHttp(url, USER, PASSWORD, seconds=ANSWERS)), now)
        )
        self._agent = agent(node)

    async def limits(self) -> Any:
        names = ["", *(f",destinationType=Queue,destinationName={queue['name']}" for queue in self.queues)]
        limits = (["MemoryLimit", "StoreLimit", "TempLimit"], ["MemoryLimit"], ["MemoryLimit"])
        reads = [jolokia.read(BEAN + name, *wanted) for name, wanted in zip(names, limits, strict=True)]
        return [await self._agent.one(read) for read in reads]

    async def declare(self, name: str) -> ObjectName:
        async def added() -> bool:
            try:
                await self._agent.one(jolokia.execute(BEAN, "addQueue(java.lang.String)", name))
            except jolokia.JolokiaError:  # it accepts connections, and is not started yet
                return False
            return True

        await until(added)
        return self.named(name)

    async def remove(self, name: ObjectName) -> None:
        await self._agent.one(jolokia.execute(BEAN, "removeQueue(java.lang.String)", name["name"]))

    async def close(self) -> None:
        await self._agent.close()


@both
class TestContract(AdapterContract):
    @pytest_asyncio.fixture
    async def subject(self, tmp_path: Path, node: ActiveMqNode) -> AsyncIterator[Contracted]:
        async with contracted(lambda proxy: Contracted(tmp_path, node, proxy), node.http_port) as subject:
            yield subject
