"""A real Artemis behind its adapter: its producers meet what the adapter says, and no message is lost to it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from proton import ProtonException

from brokers.adapters import jolokia
from brokers.adapters.artemis import Artemis, open_account
from brokers.adapters.http import JsonHttp
from brokers.adapters.jolokia import Jolokia
from brokers.adapters.kinds import Account
from brokers.admin import BrokerUnreachable, NotAllowed
from brokers.model import ObjectName, object_name
from tests.adapters.contract import AdapterContract
from tests.adapters.contract.real import ANSWERS, Real, contracted
from tests.adapters.explaining import explained
from tests.adapters.fake import BROKER, queue_name
from tests.adapters.hosted import LIMIT, Hosted, until
from tests.adapters.stalling import Stalling
from tests.interop.artemis_node import (
    PASSWORD,
    USER,
    ArtemisNode,
    Drain,
    Publisher,
    artemis,
    artemis_libraries,
    connection,
)

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(600)]

ORDERS = queue_name("orders")


@pytest.fixture(scope="module", params=["2.55", "2.20"])
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ArtemisNode]:
    assert request.config.cache is not None
    classes = artemis_libraries(request.param, request.config.cache)
    with artemis(classes, tmp_path_factory.mktemp("artemis")) as node:
        node.version = request.param
        yield node


def agent(url: str, seconds: float = LIMIT) -> Jolokia:
    return Jolokia(JsonHttp(url, USER, PASSWORD, seconds=seconds))


def adapter(node: ArtemisNode, password: str = PASSWORD, now: Callable[[], int] = lambda: 1) -> Artemis:
    return open_account(Account(node.url, USER, password), now)


class Adapted(Hosted):
    """The node as a console reaches it."""

    def __init__(self, folder: Path, node: ArtemisNode) -> None:
        super().__init__(folder, lambda now: adapter(node, now=now))
        self.node = node

    async def blocked_for(self, reason: str) -> bool:
        """Return whether there is one producer, and it is blocked for this reason first."""
        found = (await self.broker.query("Producer")).items
        return [producer["reasons"][:1] for producer in found] == [[reason]]


@pytest_asyncio.fixture
async def adapted(tmp_path: Path, node: ArtemisNode) -> AsyncIterator[Adapted]:
    adapted = Adapted(tmp_path, node)
    await adapted.start()
    yield adapted
    await adapted.stop()


async def test_stop_holds_producers_through_a_restart_and_no_message_is_lost(
    adapted: Adapted, node: ArtemisNode
) -> None:
    publisher = Publisher(node.port, "orders", 150)
    publisher.start()
    await until(lambda: adapted.shows("orders", "OVERFULL"))
    full = await adapted.queue("orders")
    assert full["effective_stop_bytes"] == 50_000 <= full["depth_bytes"]
    if node.version == "2.20":  # it does not count what a producer sends
        (producer,) = (await adapted.broker.query("Producer")).items
        assert producer["state"] is None
    else:
        await until(lambda: adapted.blocked_for("queue-overfull:orders"))
        (producer,) = (await adapted.broker.query("Producer")).items
        assert producer["reasons"][1].startswith("inferred")
        full = await adapted.queue("orders")
        assert (full["producers"], full["blocked_producers"]) == (1, 1)
    assert producer["queue"] == str(ORDERS)
    why = await explained(adapted, ORDERS)
    (limit,) = why["causes"][0]["limits"]
    assert (limit["unit"], limit["stop"], limit["fields"][0]["origin"]) == ("bytes", 50_000, "pattern #")
    if node.version == "2.20":
        assert why["blocked"] is None
        assert "This broker does not report which producers are blocked." in why["notes"]
    else:
        assert why["summary"] == "1 producer is blocked: queue orders is overfull."
        assert any("inferred" in note for note in why["notes"])

    given = {"actor": "ada", "reason": "flood"}
    assert (await adapted.broker.call(ORDERS, "stop-producers", given))["changed"]
    await until(lambda: adapted.shows("orders", "OVERFULL_STOPPED"))
    before = publisher.accepted
    first = Drain(node.port, "orders", before - 1)
    first.start()
    await until(lambda: adapted.shows("orders", "STOPPED"))
    await asyncio.to_thread(first.join, LIMIT)

    await asyncio.to_thread(node.stop, kill=True)
    await until(adapted.is_unreachable)
    await asyncio.to_thread(node.start)
    # The publisher connects again at once, and can send up to the limit until the stop is made again.
    await until(lambda: adapted.shows("orders", "STOPPED", "OVERFULL_STOPPED"))
    if node.version != "2.20":  # an older one does not say it
        await until(lambda: blocked_by_management(node, "orders"))
    await until(lambda: one_producer(adapted))
    assert publisher.accepted < publisher.count

    await adapted.broker.call(ORDERS, "start-producers", {"actor": "ada"})
    second = Drain(node.port, "orders", publisher.count - 1)
    second.start()
    await asyncio.to_thread(publisher.join, LIMIT)
    await asyncio.to_thread(second.join, LIMIT)
    assert publisher.accepted == publisher.count
    assert first.received | second.received == set(range(publisher.count))
    await until(lambda: adapted.shows("orders", "NORMAL"))


async def one_producer(adapted: Adapted) -> bool:
    return len((await adapted.broker.query("Producer")).items) == 1


async def blocked_by_management(node: ArtemisNode, address: str) -> bool:
    """Return whether the broker itself says that an address is blocked by its management."""
    management = agent(node.url)
    name = f'org.apache.activemq.artemis:broker="test",component=addresses,address="{address}"'
    try:
        return bool((await management.one(jolokia.read(name, "BlockedViaManagement")))["BlockedViaManagement"])
    finally:
        await management.close()


async def test_stop_of_a_queue_stops_all_queues_of_its_address(adapted: Adapted, node: ArtemisNode) -> None:
    operation = (await adapted.broker.types())["Queue"].operation("stop-producers")
    assert operation is not None
    assert operation.producer_effect == "hold"
    assert "all its queues" in operation.remark
    await adapted.broker.call(queue_name("ann"), "stop-producers", {"actor": "ada"})
    assert [(await adapted.queue(name))["state"] for name in ("ann", "ben", "orders")] == [
        "STOPPED",
        "STOPPED",
        "NORMAL",
    ]
    await adapted.broker.call(BROKER, "start-producers", {"actor": "ada"})
    assert (await adapted.queue("ben"))["state"] == "NORMAL"
    await adapted.broker.call(BROKER, "stop-producers", {"actor": "ada"})
    assert (await adapted.broker.read(BROKER))["stops"]
    assert (await adapted.queue("bills"))["state"] == "STOPPED"
    await adapted.broker.call(BROKER, "start-producers", {"actor": "ada"})


async def test_limits_of_an_address_and_of_a_match_are_its_settings(adapted: Adapted, node: ArtemisNode) -> None:
    if node.version == "2.20":
        assert (await adapted.broker.types())["Queue"].writable == ()
        return
    bills = await adapted.queue("bills")
    assert (bills["capacity_bytes"], bills["effective_capacity_bytes"]) == (None, 50_000)
    changed = await adapted.broker.update(bills.name, {"capacity_bytes": 5_000}, bills.version, actor="ada")
    assert (changed["capacity_bytes"], changed["effective_capacity_bytes"]) == (5_000, 5_000)
    publisher = Publisher(node.port, "bills", 20)
    publisher.start()
    await until(lambda: adapted.shows("bills", "OVERFULL"))
    changed = await adapted.queue("bills")
    wanted = {"capacity_bytes": None, "capacity_messages": 40}
    changed = await adapted.broker.update(changed.name, wanted, changed.version, actor="ada")
    assert (changed["effective_capacity_bytes"], changed["effective_capacity_messages"]) == (50_000, 40)
    await asyncio.to_thread(publisher.join, LIMIT)
    assert publisher.accepted == publisher.count
    await until(lambda: adapted.shows("bills", "NORMAL"))
    match = object_name("Policy", virtualhost="default", pattern="eu.#")
    policy = await adapted.broker.read(match)
    policy = await adapted.broker.update(match, {"capacity_bytes": 30_000}, policy.version, actor="ada")
    assert policy["capacity_bytes"] == 30_000

    async def inherited() -> bool:
        mail, orders = await adapted.queue("eu.mail"), await adapted.queue("orders")
        assert mail["capacity_bytes"] is None
        return (mail["effective_capacity_bytes"], orders["effective_capacity_bytes"]) == (30_000, 50_000)

    await until(inherited)


async def test_connection_of_a_client_is_listed_and_closed(adapted: Adapted, node: ArtemisNode) -> None:
    client = await asyncio.to_thread(connection, node.port)

    async def listed() -> bool:
        return bool((await adapted.broker.query("Connection")).items)

    await until(listed)
    (shown,) = (await adapted.broker.query("Connection")).items
    assert shown["remote_address"].startswith("127.0.0.1:")
    await adapted.broker.call(shown.name, "close", {"actor": "ada"})

    async def gone() -> bool:
        return not await listed()

    await until(gone)
    with pytest.raises(ProtonException):
        await asyncio.to_thread(client.create_sender, "orders")


async def test_wrong_password_and_wrong_address_are_sentences(node: ArtemisNode) -> None:
    wrong = adapter(node, "no")
    with pytest.raises(NotAllowed, match="does not accept the user name and password"):
        await wrong.connect()
    await wrong.close()
    nothing = open_account(Account(f"http://127.0.0.1:{node.http_port}", USER, PASSWORD), lambda: 1)
    with pytest.raises(BrokerUnreachable, match="no Jolokia at"):
        await nothing.connect()
    await nothing.close()


class Contracted(Real):
    """`open_`: what manages it, through a port of the proxy."""

    def __init__(
        self, folder: Path, node: ArtemisNode, proxy: Stalling, open_: Callable[[int], Any] | None = None
    ) -> None:
        manage = open_ or (lambda port: agent(f"http://127.0.0.1:{port}/jolokia", ANSWERS))
        super().__init__(folder, proxy, lambda port, now: Artemis(manage(port), now))
        self._agent = agent(node.url)

    async def _call(self, operation: str, *arguments: Any) -> Any:
        bean = 'org.apache.activemq.artemis:broker="test"'
        return await self._agent.one(jolokia.execute(bean, operation, *arguments))

    async def limits(self) -> Any:
        settings = "getAddressSettingsAsJSON(java.lang.String)"
        return [json.loads(await self._call(settings, queue["name"])) for queue in self.queues]

    async def declare(self, name: str) -> ObjectName:
        create = "createQueue(java.lang.String,java.lang.String,boolean,java.lang.String)"
        await self._call(create, name, name, True, "ANYCAST")
        return self.named(name)

    async def remove(self, name: ObjectName) -> None:
        await self._call("destroyQueue(java.lang.String,boolean,boolean)", name["name"], True, True)

    async def close(self) -> None:
        await self._agent.close()


class TestContract(AdapterContract):
    @pytest_asyncio.fixture
    async def subject(self, tmp_path: Path, node: ArtemisNode) -> AsyncIterator[Contracted]:
        async with contracted(lambda proxy: Contracted(tmp_path, node, proxy), node.http_port) as subject:
            yield subject
