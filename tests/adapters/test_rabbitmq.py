"""A real RabbitMQ behind its adapter: its publishers meet what the adapter says, and no message is lost to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any

import amqp
import pytest
import pytest_asyncio

from brokers.adapters.http import JsonHttp
from brokers.adapters.rabbitmq import RabbitMq
from brokers.adapters.rabbitmq_policies import limit_name
from brokers.adapters.rabbitmq_reading import PARKED, STOP_PREFIX
from brokers.admin import (
    EffectNotConfirmed,
    InvalidValue,
    NotAllowed,
)
from brokers.model import ObjectName, object_name
from tests.adapters.contract import AdapterContract
from tests.adapters.contract.real import ANSWERS, Real, contracted
from tests.adapters.explaining import explained
from tests.adapters.fake import BROKER, queue_name
from tests.adapters.hosted import LIMIT, Hosted, until
from tests.adapters.stalling import Stalling, stalling
from tests.interop.rabbitmq_node import RabbitNode, publishing, rabbitmq

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitNode]:
    with rabbitmq(tmp_path_factory.mktemp("rabbitmq"), plugins=["rabbitmq_management"]) as node:
        yield node


def http(
    node: RabbitNode, user: str = "guest", password: str = "guest", *, port: int = 0, seconds: float = LIMIT
) -> JsonHttp:
    """`port`: of a proxy before the node's management."""
    return JsonHttp(f"http://127.0.0.1:{port or node.http_port}/api", user, password, seconds=seconds)


class Adapted(Hosted):
    """The node as a console reaches it."""

    def __init__(self, folder: Path, node: RabbitNode) -> None:
        super().__init__(folder, lambda now: RabbitMq(http(node), now), "/")
        self.node = node
        self.api = http(node)

    async def declare(self, name: str, **arguments: Any) -> None:
        body = {"durable": True, "arguments": arguments}
        await self.api.request("PUT", f"/queues/%2F/{name}", body=body)

        async def listed() -> bool:
            page = await self.broker.query("Queue", where={"name": name})
            return bool(page.items) and page.items[0]["consumers"] is not None

        await until(listed)


@pytest_asyncio.fixture
async def adapted(tmp_path: Path, node: RabbitNode) -> AsyncIterator[Adapted]:
    adapted = Adapted(tmp_path, node)
    await adapted.start()
    yield adapted
    await adapted.stop()
    for policy in await adapted.api.request("GET", "/policies"):
        await adapted.api.request("DELETE", f"/policies/%2F/{policy['name']}")
    for queue in await adapted.api.request("GET", "/queues"):
        await adapted.api.request("DELETE", f"/queues/%2F/{queue['name']}")
    await adapted.api.close()


def publish(node: RabbitNode, queue: str, count: int) -> tuple[int, int]:
    """Publish with confirms; return how many were accepted, and how many refused."""
    accepted = refused = 0
    with amqp.Connection(f"127.0.0.1:{node.port}", confirm_publish=True) as connection:
        channel = connection.channel()
        for _ in range(count):
            try:
                channel.basic_publish_confirm(amqp.Message(b"x" * 100), routing_key=queue)
                accepted += 1
            except amqp.exceptions.MessageNacked:
                refused += 1
    return accepted, refused


def depth(node: RabbitNode, queue: str) -> int:
    """The depth as the broker reports it to a client."""
    with amqp.Connection(f"127.0.0.1:{node.port}") as connection:
        return int(connection.channel().queue_declare(queue, passive=True).message_count)


@pytest.mark.parametrize(
    "arguments", [{}, {"x-max-length": 50}, {"x-queue-type": "quorum"}], ids=["default", "limited", "quorum"]
)
async def test_stop_refuses_publishers_and_loses_no_message(adapted: Adapted, arguments: dict[str, Any]) -> None:
    await adapted.declare("orders", **arguments)
    assert await asyncio.to_thread(publish, adapted.node, "orders", 5) == (5, 0)
    orders = queue_name("orders", "/")
    with pytest.raises(EffectNotConfirmed, match="they are refused") as refused:
        await adapted.broker.call(orders, "stop-producers", {"actor": "ada"})
    assert refused.value.effect == "reject"
    given = {"actor": "ada", "reason": "flood", "effect": "reject"}
    assert (await adapted.broker.call(orders, "stop-producers", given))["changed"]
    assert await asyncio.to_thread(publish, adapted.node, "orders", 2) == (0, 2)
    assert await asyncio.to_thread(depth, adapted.node, "orders") == 5
    shown = await adapted.queue("orders")
    assert shown["state"] == "STOPPED"
    assert shown["stops"][0]["reason"] == "flood"
    await adapted.broker.call(orders, "start-producers", {"actor": "ada"})
    assert await asyncio.to_thread(publish, adapted.node, "orders", 1) == (1, 0)
    assert await asyncio.to_thread(depth, adapted.node, "orders") == 6
    assert not [p for p in await adapted.api.request("GET", "/policies") if p["name"].startswith(STOP_PREFIX)]

    async def clear() -> bool:
        """What a stop needs besides is deleted a little later."""
        return await adapted.api.request("GET", "/policies") == []

    await until(clear)


async def test_stop_that_would_delete_messages_is_refused_with_the_reason(adapted: Adapted) -> None:
    await adapted.declare("ring", **{"x-overflow": "drop-head"})
    await asyncio.to_thread(publish, adapted.node, "ring", 3)
    with pytest.raises(InvalidValue, match="x-overflow is drop-head"):
        await adapted.broker.call(queue_name("ring", "/"), "stop-producers", {"effect": "reject"})
    answer = await adapted.broker.call(BROKER, "stop-producers", {"effect": "reject"})
    assert answer["changed"]
    assert await asyncio.to_thread(depth, adapted.node, "ring") == 3
    await adapted.broker.call(BROKER, "start-producers", {})


async def test_stop_copies_the_policy_that_it_outranks_and_survives_a_restart_of_the_adapter(adapted: Adapted) -> None:
    await adapted.declare("bills")
    definition = {"max-length": 3, "overflow": "reject-publish", "dead-letter-exchange": "dead"}
    body = {"pattern": "^bills$", "definition": definition, "priority": 7, "apply-to": "queues"}
    await adapted.api.request("PUT", "/policies/%2F/theirs", body=body)

    async def limited() -> bool:
        return bool((await adapted.queue("bills"))["effective_capacity_messages"] == 3)

    await until(limited)
    assert await asyncio.to_thread(publish, adapted.node, "bills", 5) == (3, 2)

    await until(lambda: adapted.shows("bills", "OVERFULL"))
    why = await explained(adapted, queue_name("bills", "/"))
    assert why["summary"].startswith("Queue bills is overfull but blocks no producers: its mechanism is reject.")
    (limit,) = why["causes"][0]["limits"]
    assert (limit["depth"], limit["stop"], limit["fields"][0]["origin"]) == (3, 3, "pattern ^bills$")
    await adapted.broker.call(queue_name("bills", "/"), "stop-producers", {"effect": "reject", "actor": "ada"})
    (stop,) = [p for p in await adapted.api.request("GET", "/policies") if p["name"].startswith(STOP_PREFIX)]
    assert stop["definition"] == {**definition, "max-length": 0}
    assert stop["priority"] > 7
    await adapted.stop()
    await adapted.start()
    assert (await adapted.queue("bills"))["state"].endswith("STOPPED")
    await adapted.broker.call(queue_name("bills", "/"), "start-producers", {"actor": "ada"})
    stops = [p for p in await adapted.api.request("GET", "/policies") if p["name"].startswith(STOP_PREFIX)]
    assert stops == []


async def test_limits_of_a_queue_and_of_a_pattern_are_policies(adapted: Adapted) -> None:
    await adapted.declare("orders")
    pattern = object_name("Policy", virtualhost="/", pattern="^ord")
    made = await adapted.broker.create(pattern, {"capacity_messages": 9, "overflow": "producers"}, actor="ada")
    assert (made["capacity_messages"], made["overflow"], made["priority"]) == (9, "producers", 0)
    with pytest.raises(InvalidValue, match="missing"):
        await adapted.broker.create(object_name("Policy", virtualhost="/", pattern="("), {"capacity_messages": 9})

    async def effective(count: int) -> bool:
        return bool((await adapted.queue("orders"))["effective_capacity_messages"] == count)

    await until(lambda: effective(9))
    orders = await adapted.queue("orders")
    await adapted.broker.update(orders.name, {"capacity_messages": 4}, orders.version, actor="ada")
    await until(lambda: effective(4))
    assert await asyncio.to_thread(publish, adapted.node, "orders", 6) == (4, 2)  # it rejects, as the pattern says
    orders = await adapted.queue("orders")
    assert orders["capacity_messages"] == 4
    await adapted.broker.update(orders.name, {"capacity_messages": None, "overflow": None}, orders.version)
    await until(lambda: effective(9))
    made = await adapted.broker.read(pattern)
    await adapted.broker.delete(pattern, made.version, actor="ada")
    await until(lambda: effective(0))


@pytest.mark.parametrize("kind", ["classic", "quorum"])
async def test_a_limit_below_the_depth_together_with_refusing_loses_no_message(adapted: Adapted, kind: str) -> None:
    """RabbitMQ alone deletes what is above the limit in a classic queue. So do policies of patterns, in both ways."""
    for name in ("orders", "bills"):
        await adapted.declare(name, **{"x-queue-type": kind})
        assert await asyncio.to_thread(publish, adapted.node, name, 20) == (20, 0)
    orders = await adapted.queue("orders")
    await adapted.broker.update(orders.name, {"capacity_messages": 5, "overflow": "producers"}, orders.version)
    pattern = object_name("Policy", virtualhost="/", pattern="^bills$")
    await adapted.broker.create(pattern, {"capacity_messages": 5, "overflow": "producers"}, actor="ada")
    for name in ("orders", "bills"):
        assert await asyncio.to_thread(publish, adapted.node, name, 2) == (0, 2)
        assert await asyncio.to_thread(depth, adapted.node, name) == 20
    wide = object_name("Policy", virtualhost="/", pattern="^bill")
    made = await adapted.broker.create(wide, {"capacity_messages": 50, "overflow": "ring", "priority": 9}, actor="ada")
    await until(lambda: limited(adapted, "bills", 50))
    assert await asyncio.to_thread(publish, adapted.node, "bills", 2) == (2, 0)
    await adapted.broker.delete(wide, made.version, actor="ada")  # uncovers the other
    await until(lambda: limited(adapted, "bills", 5))
    assert await asyncio.to_thread(publish, adapted.node, "bills", 2) == (0, 2)
    assert await asyncio.to_thread(depth, adapted.node, "bills") == 22


async def limited(adapted: Adapted, name: str, count: int) -> bool:
    return bool((await adapted.queue(name))["effective_capacity_messages"] == count)


async def test_publishers_that_an_alarm_blocks_are_shown_with_it(adapted: Adapted) -> None:
    await adapted.declare("orders")
    with publishing(adapted.node.port) as client:

        async def shown(state: str) -> bool:
            found = (await adapted.broker.query("Producer")).items
            return any(producer["state"] == state for producer in found)

        await until(lambda: shown("RUNNING"))
        try:
            await asyncio.to_thread(adapted.node.control, "set_vm_memory_high_watermark", "0")
            await until(lambda: shown("BLOCKED"))
            (producer,) = (await adapted.broker.query("Producer", where={"state": "BLOCKED"})).items
            assert producer["reasons"] == ["memory-overfull on test@localhost"]
            why = await explained(adapted, producer.name)
            assert why["summary"] == "This producer is blocked: node test@localhost is above its limit for memory."
            assert (why["blocked"], why["queue"]) == (True, None)
            of_queue = await explained(adapted, queue_name("orders", "/"))
            assert "node test@localhost is above its limit for memory" in of_queue["summary"]
            assert (await adapted.broker.read(BROKER))["shortages"] == ["memory-overfull on test@localhost"]
        finally:
            await asyncio.to_thread(adapted.node.control, "set_vm_memory_high_watermark", "0.6")

        async def running() -> bool:
            return bool((await adapted.broker.read(producer.name))["state"] == "RUNNING")

        await until(running)
        assert client.blocks  # the client heard of it, too
    found = [event for event in await adapted.events() if event.kind.startswith(("limit-", "producer-"))]
    assert sorted(event.kind for event in found if event.object in (BROKER, producer.name)) == [
        "limit-cleared",
        "limit-exceeded",
        "producer-blocked",
        "producer-released",
    ]


async def test_wrong_password_and_missing_permissions_are_named(node: RabbitNode) -> None:
    wrong = RabbitMq(http(node, password="wrong"), lambda: 0)
    with pytest.raises(NotAllowed, match="does not accept the user name and password"):
        await wrong.connect()
    await wrong.close()
    api = http(node)
    await api.request("PUT", "/users/reader", body={"password": "secret", "tags": "management"})
    reader = RabbitMq(http(node, "reader", "secret"), lambda: 0)
    faults = [finding.fault for finding in await reader.connect() if finding.fault]
    assert any("monitoring" in fault for fault in faults)
    assert any("policymaker" in fault for fault in faults)
    await reader.close()
    await api.close()


async def test_node_that_hangs_is_unreachable_and_comes_back(adapted: Adapted) -> None:
    """A proxy that accepts and never answers, in front of the node's management."""
    await adapted.declare("orders")
    with stalling(adapted.node.http_port) as proxy:
        adapted.add("stalled", lambda now: RabbitMq(http(adapted.node, port=proxy.port, seconds=2), now))
        await until(lambda: adapted.is_reachable("stalled"))
        proxy.stall.set()
        await until(lambda: adapted.is_unreachable("stalled"))
        proxy.stall.clear()
        await until(lambda: adapted.is_reachable("stalled"))
        assert (await adapted.broker.query("Queue")).total == 1


class Contracted(Real):
    VIRTUALHOST = "/"

    def __init__(self, folder: Path, node: RabbitNode, proxy: Stalling) -> None:
        super().__init__(folder, proxy, lambda port, now: RabbitMq(http(node, port=port, seconds=ANSWERS), now))
        self._api = http(node)

    async def limits(self) -> Any:
        """The policies. The priority of a stop grows when it is made again, which happens until queues report it. That
        of the queue of parked messages is deleted some seconds after the last start."""
        found = [await self._api.request("GET", path) for path in ("/policies", "/operator-policies")]
        found[0] = [policy for policy in found[0] if policy["name"] != limit_name(PARKED)]
        for policy in found[0]:
            if policy["name"].startswith(STOP_PREFIX):
                del policy["priority"]
        return [sorted(policies, key=itemgetter("name")) for policies in found]

    async def declare(self, name: str) -> ObjectName:
        """Declare a queue. Returns when it has reported its limits: until then they are unknown."""
        path = f"/queues/%2F/{name}"
        await self._api.request("PUT", path, body={"durable": True})

        async def has_reported() -> bool:
            return "effective_policy_definition" in await self._api.request("GET", path)

        await until(has_reported)
        return self.named(name)

    async def remove(self, name: ObjectName) -> None:
        await self._api.request("DELETE", f"/queues/%2F/{name['name']}")

    async def close(self) -> None:
        await self._api.close()


class TestContract(AdapterContract):
    @pytest_asyncio.fixture
    async def subject(self, tmp_path: Path, node: RabbitNode) -> AsyncIterator[Contracted]:
        async with contracted(lambda proxy: Contracted(tmp_path, node, proxy), node.http_port) as subject:
            yield subject
