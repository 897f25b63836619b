"""A real Broker-J behind its adapter: its producers are blocked as the adapter says, and no message is lost to it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from brokers.adapters.broker_j import BrokerJ
from brokers.adapters.broker_j_log import KINDS
from brokers.adapters.http import JsonHttp
from brokers.admin import EffectNotConfirmed, Event, InvalidValue, NotAllowed
from brokers.model import ObjectName
from tests.adapters.contract import AdapterContract
from tests.adapters.contract.real import ANSWERS, Real, contracted
from tests.adapters.fake import queue_name
from tests.adapters.hosted import LIMIT, Hosted, until
from tests.adapters.stalling import Stalling
from tests.interop.broker_j_node import BrokerJNode, Sender, broker_j, broker_j_libraries

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module", params=["10", "7"])
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerJNode]:
    assert request.config.cache is not None
    classes = broker_j_libraries(request.param, request.config.cache)
    with broker_j(request.param, classes, tmp_path_factory.mktemp(f"broker-j-{request.param}")) as node:
        yield node


def http(node: BrokerJNode, password: str = "secret", *, port: int = 0, seconds: float = LIMIT) -> JsonHttp:
    """`port`: of a proxy before the node's management."""
    return JsonHttp(f"http://127.0.0.1:{port or node.http_port}/api/latest", "admin", password, seconds=seconds)


class Adapted(Hosted):
    """The node as a console reaches it."""

    def __init__(self, folder: Path, node: BrokerJNode) -> None:
        super().__init__(folder, lambda now: BrokerJ(http(node), now))
        self.node = node
        self.api = http(node)
        self.declared: list[str] = []

    async def declare(self, name: str, **attributes: Any) -> None:
        await self.api.request("PUT", f"/queue/default/default/{name}", body={"name": name, **attributes})
        self.declared.append(name)
        await until(lambda: self.lists(name))

    async def limited(self, name: str, maximum: int, **attributes: Any) -> None:
        """Declare a queue that blocks producers."""
        attributes = {"overflowPolicy": "PRODUCER_FLOW_CONTROL", **attributes}
        await self.declare(name, maximumQueueDepthMessages=maximum, **attributes)

    async def real(self, name: str) -> dict[str, Any]:
        """The queue as the broker itself has it."""
        found = await self.api.request("GET", f"/queue/default/default/{name}")
        queue: dict[str, Any] = found[0] if isinstance(found, list) else found
        return {**queue, **queue["statistics"]}

    async def until_state(self, name: str, state: str) -> None:
        await until(lambda: self.shows(name, state))

    async def until_events(self, *kinds: str) -> list[Event]:
        """The events, once there is one of each kind."""

        async def there() -> bool:
            return set(kinds) <= {event.kind for event in await self.events()}

        await until(there)
        return [event for event in await self.events() if event.kind in kinds]

    async def blocked_sessions(self) -> list[Any]:
        query = {"select": "id", "where": "producerFlowBlocked = true"}
        found: list[Any] = (await self.api.request("GET", "/querybroker/session", query=query))["results"]
        return found

    async def no_session_is_blocked(self) -> bool:
        return await self.blocked_sessions() == []


@pytest_asyncio.fixture
async def adapted(tmp_path: Path, node: BrokerJNode) -> AsyncIterator[Adapted]:
    adapted = Adapted(tmp_path, node)
    await adapted.start()
    yield adapted
    await adapted.stop()
    for name in adapted.declared:
        await adapted.api.request("DELETE", f"/queue/default/default/{name}")
    await adapted.api.close()


async def test_blocked_producer_is_seen_with_the_brokers_own_time(adapted: Adapted) -> None:
    await adapted.limited("orders", 5, context={"queue.queueFlowResumeLimit": "40"})
    shown = await adapted.queue("orders")
    assert (shown["effective_capacity_messages"], shown["effective_resume_messages"]) == (5, 2)
    sender = await asyncio.to_thread(Sender, adapted.node, "orders")
    await asyncio.to_thread(sender.send_until_blocked, 50)
    blocked_by = time.time() * 1000
    await adapted.until_state("orders", "OVERFULL")
    await adapted.until_events("queue-overfull", "producer-blocked")

    async def shown_blocked() -> bool:
        return bool((await adapted.broker.query("Producer", where={"state": "BLOCKED"})).total == 1)

    await until(shown_blocked)
    (producer,) = (await adapted.broker.query("Producer")).items
    assert producer["client"].startswith("ANONYMOUS@127.0.0.1:")
    drained = await asyncio.to_thread(adapted.node.drain, "orders", sender.accepted)
    assert len(drained) == sender.accepted
    kinds = ("queue-overfull", "producer-blocked", "queue-underfull", "producer-released")
    found = {event.kind: event for event in await adapted.until_events(*kinds)}
    assert "Messages : 6, Message Capacity : 5" in found["queue-overfull"].text
    assert found["producer-blocked"].object == found["producer-released"].object == producer.name
    for kind in ("queue-overfull", "producer-blocked"):
        assert "seen_at" not in found[kind].attributes
        assert found[kind].at <= blocked_by
    assert len(await adapted.until_events(*kinds)) == 4  # none a second time, by a poll
    await adapted.until_state("orders", "NORMAL")

    async def shown_empty() -> bool:  # a poll may have come while it was drained
        return bool((await adapted.queue("orders"))["depth_messages"] == 0)

    await until(shown_empty)
    sender.connection.close()


@pytest.mark.parametrize("policy", ["PRODUCER_FLOW_CONTROL", "NONE", "RING"])
async def test_stop_and_start_lose_no_message_and_leave_no_session_blocked(adapted: Adapted, policy: str) -> None:
    queue = queue_name("bills", "default")
    maximum = -1 if policy == "NONE" else 10
    await adapted.declare("bills", overflowPolicy=policy, maximumQueueDepthMessages=maximum)
    await asyncio.to_thread(adapted.node.send, "bills", 6)
    with pytest.raises(EffectNotConfirmed, match="only while the queue has messages") as refused:
        await adapted.broker.call(queue, "stop-producers", {"actor": "ada"})
    assert refused.value.effect == "trickle"
    await adapted.broker.call(queue, "stop-producers", {"actor": "ada", "reason": "flood", "effect": "trickle"})
    sender = await asyncio.to_thread(Sender, adapted.node, "bills")
    await asyncio.to_thread(sender.send_until_blocked, 20)
    assert (await adapted.queue("bills"))["state"].endswith("STOPPED")
    assert (await adapted.real("bills"))["queueDepthMessages"] == 6 + sender.accepted
    assert not await adapted.no_session_is_blocked()
    await adapted.broker.call(queue, "start-producers", {"actor": "ada"})
    real = await adapted.real("bills")
    assert (real["overflowPolicy"], real["maximumQueueDepthMessages"]) == (policy, maximum)
    await until(adapted.no_session_is_blocked)
    await adapted.until_state("bills", "NORMAL")
    count = (await adapted.real("bills"))["queueDepthMessages"]
    assert count >= 6 + sender.accepted
    drained = await asyncio.to_thread(adapted.node.drain, "bills", count)
    assert drained[:6] == [f"bills-{number}" for number in range(6)]
    kinds = {event.kind for event in await adapted.events()}
    assert "queue-overfull" not in kinds, "it was the stop's limit"
    sender.connection.close()


async def test_stop_outlasts_a_restart_of_the_broker_and_its_messages_too(adapted: Adapted) -> None:
    await adapted.limited("mail", 8)
    await asyncio.to_thread(adapted.node.send, "mail", 4)
    queue = queue_name("mail", "default")
    await adapted.broker.call(queue, "stop-producers", {"actor": "ada", "effect": "trickle"})
    await asyncio.to_thread(adapted.node.stop)

    await until(adapted.is_unreachable)
    await asyncio.to_thread(adapted.node.start)
    await until(adapted.is_reachable)
    assert (await adapted.queue("mail"))["state"].endswith("STOPPED")
    sender = await asyncio.to_thread(Sender, adapted.node, "mail")
    await asyncio.to_thread(sender.send_until_blocked, 20)
    await adapted.broker.call(queue, "start-producers", {"actor": "ada"})
    assert (await adapted.real("mail"))["maximumQueueDepthMessages"] == 8
    drained = await asyncio.to_thread(adapted.node.drain, "mail", 4)
    assert drained == [f"mail-{number}" for number in range(4)]
    sender.connection.close()


async def test_limits_and_resume_level_are_changed_and_the_context_is_merged(adapted: Adapted) -> None:
    await adapted.declare("parts", context={"queue.queueFlowResumeLimit": "40", "theirs": "1"})
    parts = await adapted.queue("parts")
    changed = await adapted.broker.update(
        parts.name, {"capacity_messages": 10, "flow_resume_messages": "50%"}, parts.version, actor="ada"
    )
    assert (changed["overflow"], changed["effective_stop_messages"]) == ("producers", 10)
    assert changed["effective_resume_messages"] == 5
    assert (await adapted.real("parts"))["context"] == {"queue.queueFlowResumeLimit": "50", "theirs": "1"}
    sender = await asyncio.to_thread(Sender, adapted.node, "parts")
    await asyncio.to_thread(sender.send_until_blocked, 50)
    with pytest.raises(InvalidValue, match="as a percentage"):
        await adapted.broker.update(parts.name, {"flow_resume_messages": 5}, changed.version)
    # The policy is changed while a session is blocked, which must not stay so.
    changed = await adapted.broker.update(parts.name, {"capacity_messages": None, "overflow": None}, changed.version)
    assert (changed["overflow"], changed["capacity_messages"]) == (None, None)
    await until(adapted.no_session_is_blocked)
    assert (await adapted.real("parts"))["overflowPolicy"] == "NONE"
    sender.connection.close()


async def test_queue_with_a_name_that_the_path_cannot_have(adapted: Adapted) -> None:
    """Broker-J decodes paths twice: a change of `a+b` must not reach `a b`."""
    for name in ("a+b", "a b"):
        await adapted.api.request("PUT", "/queue/default/default/", body={"name": name})

    async def listed() -> bool:
        return (await adapted.broker.query("Queue")).total == 2

    await until(listed)
    plus = await adapted.queue("a+b")
    faults = []
    try:
        await adapted.broker.update(plus.name, {"capacity_messages": 7}, plus.version)
    except InvalidValue as error:
        faults.append(str(error))
    assert (await adapted.real("a%20b"))["maximumQueueDepthMessages"] == -1
    for name in ("a+b", "a b"):
        await adapted.api.request("DELETE", "/queue/default/default", query={"name": name})
    if adapted.node.version == "10":
        assert "cannot address a+b" in faults[0]
    else:
        assert not faults


async def test_wrong_password_is_named_with_what_may_be_missing(node: BrokerJNode) -> None:
    wrong = BrokerJ(http(node, password="wrong"), lambda: 0)
    with pytest.raises(NotAllowed, match=r"does not accept the user name and password.*httpBasicAuthenticationEnabled"):
        await wrong.connect()
    await wrong.close()
    right = BrokerJ(http(node), lambda: 0)
    findings = await right.connect()
    assert [finding.fault for finding in findings if finding.fault] == []
    await right.close()


class Contracted(Real):
    reports = KINDS

    def __init__(self, folder: Path, node: BrokerJNode, proxy: Stalling) -> None:
        super().__init__(folder, proxy, lambda port, now: BrokerJ(http(node, port=port, seconds=ANSWERS), now))
        self._api = http(node)

    async def limits(self) -> Any:
        found = []
        for queue in self.queues:
            said = await self._api.request("GET", f"/queue/default/default/{queue['name']}")
            values = said[0] if isinstance(said, list) else said
            limits = ("overflowPolicy", "maximumQueueDepthMessages", "maximumQueueDepthBytes", "context")
            found.append({key: values.get(key) for key in limits})
        return found

    async def declare(self, name: str) -> ObjectName:
        await self._api.request("PUT", f"/queue/default/default/{name}", body={"name": name})
        return self.named(name)

    async def remove(self, name: ObjectName) -> None:
        await self._api.request("DELETE", f"/queue/default/default/{name['name']}")

    async def close(self) -> None:
        await self._api.close()


class TestContract(AdapterContract):
    @pytest_asyncio.fixture
    async def subject(self, tmp_path: Path, node: BrokerJNode) -> AsyncIterator[Contracted]:
        async with contracted(lambda proxy: Contracted(tmp_path, node, proxy), node.http_port) as subject:
            yield subject
