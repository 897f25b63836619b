"""A real RabbitMQ that hangs, is killed in the middle of a stop, or gives the user no permission to change anything."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from brokers.adapters.rabbitmq import RabbitMq
from brokers.admin import NotAllowed
from brokers.model import object_name
from tests.adapters.contract.failures import Breakable, FailuresContract
from tests.adapters.contract.real import contracted
from tests.adapters.fake import BROKER, queue_name
from tests.adapters.hosted import Hosted, until
from tests.adapters.stalling import Stalling
from tests.adapters.test_rabbitmq import Contracted, http
from tests.interop.rabbitmq_node import RabbitNode, publishing, rabbitmq

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitNode]:
    with rabbitmq(tmp_path_factory.mktemp("rabbitmq"), plugins=["rabbitmq_management"]) as node:
        yield node


class Broken(Contracted, Breakable):
    CHANGES = b"PUT /api/policies/"

    def __init__(self, folder: Path, node: RabbitNode, proxy: Stalling) -> None:
        super().__init__(folder, node, proxy)
        self._node = node

    async def restart_broker(self) -> None:
        await asyncio.to_thread(self._node.kill)
        await asyncio.to_thread(self._node.start)


class TestFailures(FailuresContract):
    @pytest_asyncio.fixture
    async def subject(self, tmp_path: Path, node: RabbitNode) -> AsyncIterator[Broken]:
        async with contracted(lambda proxy: Broken(tmp_path, node, proxy), node.http_port) as subject:
            yield subject


async def test_user_who_may_only_look_gets_each_missing_permission_named(node: RabbitNode, tmp_path: Path) -> None:
    api = http(node)
    before = await api.request("GET", "/policies")  # those of parked messages may be left by the test before
    await api.request("PUT", "/users/watcher", body={"password": "secret", "tags": "monitoring"})
    permissions = {"configure": "", "write": "", "read": ".*"}
    await api.request("PUT", "/permissions/%2F/watcher", body=permissions)
    await api.request("PUT", "/queues/%2F/orders", body={"durable": True})
    tested = RabbitMq(http(node, "watcher", "secret"), lambda: 1)
    faults = [finding.fault for finding in await tested.connect() if finding.fault]
    assert faults == ["user watcher needs the tag policymaker to set limits and stop queues"]
    await tested.close()
    await api.request("PUT", "/users/stranger", body={"password": "secret", "tags": ""})
    stranger = RabbitMq(http(node, "stranger", "secret"), lambda: 1)
    with pytest.raises(NotAllowed, match="lacks a permission: Not management user"):
        await stranger.connect()
    await stranger.close()
    hosted = Hosted(tmp_path, lambda now: RabbitMq(http(node, "watcher", "secret"), now), "/")
    await hosted.start()
    await until(lambda: hosted.lists("orders"))
    orders = queue_name("orders", "/")
    for scope in (orders, BROKER):
        with pytest.raises(NotAllowed, match="lacks a permission"):
            await hosted.broker.call(scope, "stop-producers", {"actor": "ada", "effect": "reject"})
    assert (await hosted.broker.read(BROKER))["stops"] == []
    known = await hosted.queue("orders")
    with pytest.raises(NotAllowed, match="lacks a permission"):
        await hosted.broker.update(orders, {"capacity_messages": 60}, known.version, actor="ada")
    pattern = object_name("Policy", virtualhost="/", pattern="^ord")
    with pytest.raises(NotAllowed, match="lacks a permission"):
        await hosted.broker.create(pattern, {"capacity_messages": 9}, actor="ada")
    with publishing(node.port):

        async def connected() -> bool:
            return bool((await hosted.broker.query("Connection")).items)

        await until(connected)
        (listed,) = (await hosted.broker.query("Connection")).items
        with pytest.raises(NotAllowed, match="lacks a permission"):
            await hosted.broker.call(listed.name, "close", {"reason": "test"})
    assert not await hosted.is_unreachable()
    assert await api.request("GET", "/policies") == before
    await hosted.stop()
    await api.request("DELETE", "/queues/%2F/orders")
    for user in ("watcher", "stranger"):
        await api.request("DELETE", f"/users/{user}")
    await api.close()
