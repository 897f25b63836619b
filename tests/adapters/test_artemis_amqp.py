"""A real Artemis that is managed over AMQP alone: the same objects as over Jolokia, under the same contract."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from brokers.adapters import jolokia
from brokers.adapters.artemis import Artemis, open_account
from brokers.adapters.artemis_management import ManagementAddress
from brokers.adapters.kinds import KINDS, Account
from brokers.adapters.observation import Attributes
from brokers.admin import BrokerUnreachable
from brokers.model import ObjectName
from tests.adapters.contract import AdapterContract
from tests.adapters.contract.real import ANSWERS, contracted
from tests.adapters.fake import queue_name
from tests.adapters.hosted import Hosted, until
from tests.adapters.stalling import Stalling, stalling
from tests.adapters.test_artemis import Contracted, adapter, agent, node
from tests.interop.artemis_node import PASSWORD, USER, ArtemisNode, Drain, Publisher

__all__ = ["node"]  # the fixture

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(600)]

#: Names with all that JSON, MBeans and patterns give a meaning.
ODD = ('a "b"', "c,d=e", "f*", "g?", "h\\i", "J.ü", "#k")


def account(port: int) -> Account:
    return Account(f"amqp://127.0.0.1:{port}", USER, PASSWORD)


async def observed(artemis: Artemis) -> dict[ObjectName, Attributes]:
    await artemis.connect()
    found: dict[ObjectName, Attributes] = {}
    async for observation in artemis.read_all():
        found |= observation.objects
    return found


async def test_objects_are_those_of_jolokia(node: ArtemisNode) -> None:
    management = agent(node.url)
    broker = 'org.apache.activemq.artemis:broker="test"'
    create = "createQueue(java.lang.String,java.lang.String,boolean,java.lang.String)"
    destroy = "destroyQueue(java.lang.String,boolean,boolean)"
    for name in ODD:
        await management.one(jolokia.execute(broker, create, name, name, True, "ANYCAST"))
    publisher = Publisher(node.port, "bills", 20)
    publisher.start()
    publisher.join(60)
    drain = Drain(node.port, "bills", 4)
    drain.start()
    drain.join(60)
    by_http, by_amqp = adapter(node), open_account(account(node.port), lambda: 1)
    try:
        wanted, found = await observed(by_http), await observed(by_amqp)
        assert by_amqp.types == by_http.types
        queue = next(name for name in found if name.type == "Queue" and name["name"] == ODD[0])
        assert await by_amqp.read(queue) == await by_http.read(queue)
    finally:
        await by_http.close()
        await by_amqp.close()
        Drain(node.port, "bills", 19).run()
        for name in ODD:
            await management.one(jolokia.execute(broker, destroy, name, True, True))
        await management.close()
    assert {name["name"] for name in found if name.type == "Queue"} >= {*ODD, "bills", "orders"}
    assert {name for name in found if name.type != "Connection"} == set(wanted) - connections(wanted)
    for name in set(wanted) & set(found):
        assert steady(name, found[name]) == steady(name, wanted[name]), name
    assert len(connections(found)) == 1  # its own


def connections(found: dict[ObjectName, Attributes]) -> set[ObjectName]:
    return {name for name in found if name.type == "Connection"}


def steady(name: ObjectName, values: Attributes) -> dict[str, Any]:
    """Leave out what the two readings change or move on."""
    moving = {"Broker": {"connections", "memory_used_bytes", "started"}, "Queue": set()}.get(name.type, set())
    return {key: value for key, value in values.items() if key not in moving}


async def test_nothing_that_answers_is_a_sentence(node: ArtemisNode) -> None:
    by_amqp = ManagementAddress(account(node.http_port), seconds=5)
    with pytest.raises(BrokerUnreachable, match=f"127.0.0.1:{node.http_port}"):
        await by_amqp.post([jolokia.search("org.apache.activemq.artemis:broker=*")])
    await by_amqp.close()


class ContractedByAmqp(Contracted):
    def __init__(self, folder: Path, node: ArtemisNode, proxy: Stalling) -> None:
        super().__init__(folder, node, proxy, lambda port: ManagementAddress(account(port), ANSWERS))


class TestContract(AdapterContract):
    @pytest_asyncio.fixture
    async def subject(self, tmp_path: Path, node: ArtemisNode) -> AsyncIterator[Contracted]:
        async with contracted(lambda proxy: ContractedByAmqp(tmp_path, node, proxy), node.port) as subject:
            yield subject


class ByBoth(Hosted):
    """The node by Jolokia through a proxy, and by AMQP."""

    def __init__(self, folder: Path, node: ArtemisNode, proxy: Stalling) -> None:
        urls = f"http://127.0.0.1:{proxy.port}/jolokia amqp://127.0.0.1:{node.port}"
        super().__init__(folder, lambda now: KINDS["artemis"].open(Account(urls, USER, PASSWORD), now))


async def test_amqp_takes_over_when_jolokia_hangs_and_stops_stay(tmp_path: Path, node: ArtemisNode) -> None:
    with stalling(node.http_port) as proxy:
        hosted = ByBoth(tmp_path, node, proxy)
        await hosted.start()
        try:
            await hosted.broker.call(queue_name("orders"), "stop-producers", {"reason": "flood", "actor": "ada"})
            before = await hosted.events()
            proxy.stall.set()
            await until(hosted.is_unreachable)
            await hosted.connect()
            assert (await hosted.queue("orders"))["state"] == "STOPPED"
            await hosted.broker.call(queue_name("orders"), "start-producers", {"actor": "ada"})
            assert (await hosted.queue("orders"))["state"] != "STOPPED"
            kinds = [event.kind for event in (await hosted.events())[len(before) :]]
        finally:
            proxy.stall.clear()
            await hosted.stop()
    assert {kind for kind in kinds if kind.startswith("queue-")} == set()
