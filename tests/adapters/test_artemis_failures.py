"""A real Artemis that hangs, restarts in the middle of a stop, or gives the user no permission to change anything."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from brokers.adapters.artemis import Artemis
from brokers.admin import NotAllowed
from tests.adapters.contract.failures import Breakable, FailuresContract
from tests.adapters.contract.real import contracted
from tests.adapters.fake import BROKER, queue_name
from tests.adapters.hosted import Hosted, until
from tests.adapters.stalling import Stalling
from tests.adapters.test_artemis import Contracted, agent
from tests.interop.artemis_node import ArtemisNode, artemis, artemis_libraries, connection

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(600)]

#: Access rules of Jolokia: everything may be read and listed; blocks and settings are refused, or all calls. A rule has
#: the operation with its signature.
RULES = """<restrict><commands><command>read</command><command>list</command><command>search</command>{exec}</commands>
<deny><mbean><name>org.apache.activemq.artemis:*</name><operation>block*</operation><operation>unblock*</operation>
<operation>addAddressSettings*</operation><operation>removeAddressSettings*</operation>
<operation>closeConnectionWithID*</operation></mbean></deny></restrict>"""


@pytest.fixture(scope="module")
def classes(request: pytest.FixtureRequest) -> Path:
    assert request.config.cache is not None
    return artemis_libraries("2.55", request.config.cache)


@pytest.fixture(scope="module")
def node(classes: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ArtemisNode]:
    with artemis(classes, tmp_path_factory.mktemp("artemis")) as node:
        yield node


class Broken(Contracted, Breakable):
    CHANGES = b'"block()"'

    def __init__(self, folder: Path, node: ArtemisNode, proxy: Stalling) -> None:
        super().__init__(folder, node, proxy)
        self._node = node

    async def restart_broker(self) -> None:
        await asyncio.to_thread(self._node.stop, kill=True)
        await asyncio.to_thread(self._node.start)


class TestFailures(FailuresContract):
    @pytest_asyncio.fixture
    async def subject(self, tmp_path: Path, node: ArtemisNode) -> AsyncIterator[Broken]:
        async with contracted(lambda proxy: Broken(tmp_path, node, proxy), node.http_port) as subject:
            yield subject


@pytest.mark.parametrize("calls", ["lists", "none"])
async def test_user_without_permissions_gets_each_one_named(classes: Path, tmp_path: Path, calls: str) -> None:
    rules = tmp_path / "rules.xml"
    rules.write_text(RULES.format(exec="<command>exec</command>" if calls == "lists" else ""))
    (tmp_path / "artemis").mkdir()
    with artemis(classes, tmp_path / "artemis", rules) as node:
        tested = Artemis(agent(node.url), lambda: 1)
        if calls == "none":
            with pytest.raises(NotAllowed, match=r"lacks a permission, the broker refuses listProducers\(\)"):
                await tested.connect()
            await tested.close()
            return
        faults = [finding.fault for finding in await tested.connect() if finding.fault]
        assert faults == [
            "the user lacks the permission for block() and unblock() of addresses: producers cannot be stopped",
            "the user lacks the permission for addAddressSettings() of the broker: limits cannot be changed",
        ]
        await tested.close()
        await refused(Hosted(tmp_path / "data", lambda now: Artemis(agent(node.url), now)), node)


async def refused(hosted: Hosted, node: ArtemisNode) -> None:
    """Try each change as a console does."""
    opened = await asyncio.to_thread(connection, node.port)
    await asyncio.to_thread(opened.create_sender, "orders")
    await hosted.start()
    await until(lambda: hosted.lists("orders"))
    orders = queue_name("orders")
    with pytest.raises(NotAllowed, match=r"lacks a permission, the broker refuses block\(\)"):
        await hosted.broker.call(orders, "stop-producers", {"actor": "ada"})
    assert (await hosted.broker.read(BROKER))["stops"] == []
    known = await hosted.queue("orders")
    with pytest.raises(NotAllowed, match=r"refuses addAddressSettings\(\)"):
        await hosted.broker.update(orders, {"capacity_bytes": 20_000_000}, known.version, actor="ada")

    async def connected() -> bool:
        return bool((await hosted.broker.query("Connection")).items)

    await until(connected)
    (client,) = (await hosted.broker.query("Connection")).items
    with pytest.raises(NotAllowed, match=r"refuses closeConnectionWithID\(\)"):
        await hosted.broker.call(client.name, "close", {"reason": "test"})
    assert not await hosted.is_unreachable()
    await hosted.stop()
    await asyncio.to_thread(opened.close)
