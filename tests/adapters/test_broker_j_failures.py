"""A real Broker-J that hangs, restarts in the middle of a stop, or gives the user no permission to change anything."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from brokers.adapters.broker_j import BrokerJ
from brokers.adapters.http import JsonHttp
from brokers.admin import NotAllowed
from tests.adapters.contract.failures import Breakable, FailuresContract
from tests.adapters.contract.real import contracted
from tests.adapters.fake import BROKER, queue_name
from tests.adapters.hosted import LIMIT, Hosted, until
from tests.adapters.stalling import Stalling
from tests.adapters.test_broker_j import Contracted, http
from tests.interop.broker_j_node import BrokerJNode, broker_j, broker_j_libraries

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(600)]

#: What another user than the administrator may not do.
DENIED = ("CREATE", "UPDATE", "DELETE", "CONFIGURE")


@pytest.fixture(scope="module", params=["10", "7"])
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerJNode]:
    assert request.config.cache is not None
    classes = broker_j_libraries(request.param, request.config.cache)
    with broker_j(request.param, classes, tmp_path_factory.mktemp(f"broker-j-{request.param}")) as node:
        yield node


class Broken(Contracted, Breakable):
    CHANGES = b'"maximumQueueDepthMessages": 0'

    def __init__(self, folder: Path, node: BrokerJNode, proxy: Stalling) -> None:
        super().__init__(folder, node, proxy)
        self._node = node

    async def restart_broker(self) -> None:
        await asyncio.to_thread(self._node.stop)
        await asyncio.to_thread(self._node.start)


class TestFailures(FailuresContract):
    @pytest_asyncio.fixture
    async def subject(self, tmp_path: Path, node: BrokerJNode) -> AsyncIterator[Broken]:
        async with contracted(lambda proxy: Broken(tmp_path, node, proxy), node.http_port) as subject:
            yield subject


async def test_user_without_permissions_gets_each_one_named(node: BrokerJNode, tmp_path: Path) -> None:
    admin = http(node)
    await admin.request("PUT", "/queue/default/default/orders", body={"name": "orders"})
    user = {"name": "reader", "password": "secret", "type": "managed"}
    await admin.request("PUT", "/user/users/reader", body=user)
    rules = [{"identity": "reader", "objectType": "ALL", "operation": each, "outcome": "DENY"} for each in DENIED]
    rules.append({"identity": "ALL", "objectType": "ALL", "operation": "ALL", "outcome": "ALLOW"})
    body = {"name": "rules", "type": "RuleBased", "rules": rules}
    await admin.request("PUT", "/accesscontrolprovider/rules", body=body)

    def reader() -> JsonHttp:
        return JsonHttp(f"http://127.0.0.1:{node.http_port}/api/latest", "reader", "secret", seconds=LIMIT)

    tested = BrokerJ(reader(), lambda: 1)
    faults = [finding.fault for finding in await tested.connect() if "lacks" in finding.fault]
    assert faults == [
        "user reader lacks the permission to update queues: limits cannot be changed, and producers not be stopped; the"
        " access control needs a rule such as ACL ALLOW reader UPDATE QUEUE"
    ]
    await tested.close()
    client = await asyncio.to_thread(node.connect)
    await asyncio.to_thread(client.create_sender, "orders")
    hosted = Hosted(tmp_path, lambda now: BrokerJ(reader(), now))
    await hosted.start()
    await until(lambda: hosted.lists("orders"))
    orders = queue_name("orders")
    with pytest.raises(NotAllowed, match=r"refuses POST /queue/default/default/orders: the user lacks a permission"):
        await hosted.broker.call(orders, "stop-producers", {"actor": "ada", "effect": "trickle"})
    assert (await hosted.broker.read(BROKER))["stops"] == []
    known = await hosted.queue("orders")
    with pytest.raises(NotAllowed, match="the user lacks a permission"):
        await hosted.broker.update(orders, {"capacity_messages": 60}, known.version, actor="ada")
    assert not await hosted.is_unreachable()
    await hosted.stop()
    await asyncio.to_thread(client.close)
    await admin.request("DELETE", "/queue/default/default/orders")
    await admin.close()
