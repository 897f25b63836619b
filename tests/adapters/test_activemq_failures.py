"""A real ActiveMQ that hangs, restarts in the middle of a stop, or gives the user no permission to change anything."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from brokers.adapters.activemq import ActiveMq
from brokers.admin import NotAllowed
from tests.adapters.contract.failures import Breakable, FailuresContract
from tests.adapters.contract.real import contracted
from tests.adapters.fake import BROKER, queue_name
from tests.adapters.hosted import Hosted, until
from tests.adapters.stalling import Stalling
from tests.adapters.test_activemq import Contracted, agent, connect
from tests.interop.activemq_node import ActiveMqNode, activemq, activemq_libraries

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(600)]

#: Access rules of Jolokia, as ActiveMQ ships them in a stricter form: nothing can be written or called.
RULES = """<restrict><commands><command>read</command><command>list</command><command>search</command></commands>
</restrict>"""


@pytest.fixture(scope="module")
def classes(request: pytest.FixtureRequest) -> Path:
    assert request.config.cache is not None
    return activemq_libraries("6.3", request.config.cache)


@pytest.fixture(scope="module")
def node(classes: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ActiveMqNode]:
    with activemq(classes, tmp_path_factory.mktemp("activemq")) as node:
        yield node


class Broken(Contracted, Breakable):
    CHANGES = b'"type": "write"'

    def __init__(self, folder: Path, node: ActiveMqNode, proxy: Stalling) -> None:
        super().__init__(folder, node, proxy)
        self._node = node

    async def restart_broker(self) -> None:
        await asyncio.to_thread(self._node.stop)
        await asyncio.to_thread(self._node.start)
        for queue in self.queues:  # it forgets those that never had a message
            await self.declare(queue["name"])


class TestFailures(FailuresContract):
    @pytest_asyncio.fixture
    async def subject(self, tmp_path: Path, node: ActiveMqNode) -> AsyncIterator[Broken]:
        async with contracted(lambda proxy: Broken(tmp_path, node, proxy), node.http_port) as subject:
            yield subject


async def test_user_without_permissions_gets_each_one_named(classes: Path, tmp_path: Path) -> None:
    rules = tmp_path / "rules.xml"
    rules.write_text(RULES)
    (tmp_path / "activemq").mkdir()
    with activemq(classes, tmp_path / "activemq", rules) as node:
        tested = ActiveMq(agent(node), lambda: 1)
        faults = [finding.fault for finding in await tested.connect() if finding.fault]
        assert faults == [
            "the user lacks the permission to write MemoryLimit: limits cannot be changed, and producers of queues not"
            " be stopped",
            "the user lacks the permission to write StoreLimit: limits cannot be changed, and all producers at once not"
            " be stopped",
        ]
        await tested.close()
        client = await asyncio.to_thread(connect, node)
        await asyncio.to_thread(client.create_sender, "orders")
        hosted = Hosted(tmp_path / "data", lambda now: ActiveMq(agent(node), now))
        await hosted.start()
        await until(lambda: hosted.lists("orders"))
        orders = queue_name("orders")
        for scope, attribute in ((orders, "MemoryLimit"), (BROKER, "StoreLimit")):
            effect = (await hosted.broker.types())[scope.type].operation("stop-producers")
            assert effect is not None
            given = {"actor": "ada", "effect": effect.producer_effect}
            with pytest.raises(NotAllowed, match=f"lacks a permission, the broker refuses the attribute {attribute}"):
                await hosted.broker.call(scope, "stop-producers", given)
        assert (await hosted.broker.read(BROKER))["stops"] == []
        known = await hosted.queue("orders")
        with pytest.raises(NotAllowed, match="the broker refuses the attribute MemoryLimit"):
            await hosted.broker.update(orders, {"capacity_bytes": 60_000}, known.version, actor="ada")

        async def connected() -> bool:
            return bool((await hosted.broker.query("Connection")).items)

        await until(connected)
        (listed,) = (await hosted.broker.query("Connection")).items
        with pytest.raises(NotAllowed, match=r"the broker refuses stop\(\)"):
            await hosted.broker.call(listed.name, "close", {"reason": "test"})
        assert not await hosted.is_unreachable()
        await hosted.stop()
        await asyncio.to_thread(client.close)
