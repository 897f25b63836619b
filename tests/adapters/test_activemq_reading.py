"""ActiveMQ's recorded answers (5.18.6 and 6.3.1) and what follows from them.

The expectations are written from the scene in which they were recorded: `orders` limited to 50,000 bytes and filled by
a client that is blocked, `stored.a` with 60 persistent messages beyond the same limit and not blocked, `unthrottled`
without flow control, and queues that one client's address `we ird=a,b:"*` names.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from brokers.adapters import activemq_reading as reading
from brokers.adapters.activemq import ActiveMq
from brokers.adapters.activemq_reading import Limit
from brokers.adapters.adapter import StopTarget
from brokers.adapters.jolokia import answer_of
from brokers.adapters.stops import Stops
from brokers.adapters.store import AdapterStore
from brokers.admin import BrokerUnreachable, InvalidValue
from brokers.engine.values.stops import Scope
from brokers.model import ObjectName
from tests.adapters.fake import BROKER, queue_name

VERSIONS = ("activemq-5.18", "activemq-6.3")
BEAN = "org.apache.activemq:type=Broker,brokerName=test"


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def recorded(version: str, name: str) -> Any:
    """The answer to one request, as Jolokia gave it."""
    return json.loads((Path(__file__).parent / "answers" / version / f"{name}.json").read_text())


class Recorded:
    """Jolokia's agent, with recorded answers; `more`: changes of what MBeans have. It notes what is written."""

    base = "http://activemq.example.org/jolokia"

    def __init__(self, version: str) -> None:
        self.said = {name: recorded(version, name) for name in ("broker", "stores", "queues", "producers", "dynamic")}
        self.connections = recorded(version, "connections")
        self.written: list[tuple[str, str, Any]] = []
        self.denied = ""  # part of the names of MBeans that the user may not change

    async def post(self, requests: Any, *, seconds: float = 0.0) -> list[Any]:
        return [answer_of(self._answer(request)) for request in requests]

    async def one(self, request: Any, *, seconds: float = 0.0) -> Any:
        return answer_of(self._answer(request)).get()

    def _answer(self, request: Any) -> Any:
        mbean = request["mbean"]
        if request["type"] == "search":
            return {"status": 200, "value": [BEAN]}
        if request["type"] == "write" and "nowhere" in mbean:  # to find out the permissions
            return {"status": 404, "error": mbean}
        if request["type"] == "write" and self.denied and self.denied in mbean:
            return {"status": 403, "error": "denied"}
        if request["type"] == "write":
            self.written.append((mbean, request["attribute"], request["value"]))
            self._bean(mbean)[request["attribute"]] = request["value"]
            return {"status": 200, "value": None}
        if "*" not in mbean:
            return {"status": 200, "value": self._bean(mbean)}
        return self._pattern(mbean)

    def _pattern(self, mbean: str) -> Any:
        for part, name in (("PersistenceAdapter", "stores"), ("dynamicProducer", "dynamic"), ("Producer", "producers")):
            if part in mbean:
                return self.said[name]
        return self.connections if "connectionViewType" in mbean else self.said["queues"]

    def _bean(self, mbean: str) -> Any:
        return self.said["broker"]["value"] if mbean == BEAN else self.said["queues"]["value"][mbean]

    async def close(self) -> None:
        pass


async def adapted(agent: Recorded) -> tuple[ActiveMq, dict[ObjectName, Any]]:
    adapter = ActiveMq(agent, lambda: 1_795_396_000_000)  # type: ignore[arg-type]
    await adapter.connect()
    return adapter, await everything(adapter)


async def everything(adapter: ActiveMq) -> dict[ObjectName, Any]:
    found: dict[ObjectName, Any] = {}
    async for seen in adapter.read_all():
        found |= seen.objects
    return found


async def test_queue_whose_memory_is_full_is_overfull_and_one_with_more_in_its_store_is_not(version: str) -> None:
    _, found = await adapted(Recorded(version))
    orders, stored = found[queue_name("orders")], found[queue_name("stored.a")]
    assert (orders["overfull"], orders["depth_messages"], orders["blocked_producers"]) == (True, 10, 1)
    assert orders["depth_bytes"] > orders["effective_capacity_bytes"] == orders["capacity_bytes"] == 50_000
    assert (stored["overfull"], stored["depth_messages"], stored["blocked_producers"]) == (False, 60, 0)


async def test_queue_without_flow_control_is_never_overfull_and_cannot_be_stopped(version: str) -> None:
    adapter, found = await adapted(Recorded(version))
    queue = found[queue_name("unthrottled")]
    assert (queue["overfull"], queue["capacity_bytes"], queue["mechanism"]) == (False, None, None)
    with pytest.raises(InvalidValue, match="producerFlowControl is false"):
        targets_of(adapter, Scope("default", "unthrottled"), found)
    wide = targets_of(adapter, Scope("default"), found)
    assert queue_name("unthrottled") not in {name for target in wide for name in target.queues}


async def test_names_with_special_characters_are_those_that_clients_use(version: str) -> None:
    _, found = await adapted(Recorded(version))
    assert {name["name"] for name in found if name.type == "Queue"} == {
        "orders",
        "stored.a",
        "unthrottled",
        "we ird=a",
        'b:"*',
    }


async def test_blocked_producer_has_its_reason_and_its_connection(version: str) -> None:
    _, found = await adapted(Recorded(version))
    (blocked,) = [values for name, values in found.items() if name.type == "Producer" and values["blocked"]]
    assert blocked["queue"] == str(queue_name("orders"))
    assert blocked["reasons"] == ["queue-overfull:orders"]
    assert ObjectName.parse(blocked["connection"]) in found


async def test_stop_of_all_is_no_shortage_and_start_restores_the_store_limit(version: str) -> None:
    agent = Recorded(version)
    adapter, found = await adapted(agent)
    targets = targets_of(adapter, Scope(), found)
    await adapter.stop(targets)
    assert agent.written == [(BEAN, "StoreLimit", 1)]
    agent.said["broker"]["value"]["StorePercentUsage"] = 232_719_300
    found = await everything(adapter)
    assert found[BROKER]["shortages"] == []
    assert found[BROKER]["store_limit"] == 100_000_000
    assert adapter.is_stopped(targets[0], found)
    (blocked,) = [values for name, values in found.items() if name.type == "Producer" and values["blocked"]]
    assert blocked["reasons"] == ["operator-stop:broker", "queue-overfull:orders"]
    await adapter.start(targets)
    assert agent.written[1:] == [(BEAN, "StoreLimit", 100_000_000)]
    await adapter.start(targets)
    assert len(agent.written) == 2  # it is not stopped any more


async def test_second_stop_before_the_next_poll_restores_the_limit_before_the_first(version: str) -> None:
    agent = Recorded(version)
    adapter, found = await adapted(agent)
    orders = Scope("default", "orders")
    targets = targets_of(adapter, orders, found)
    await adapter.stop(targets)
    found = await everything(adapter)
    assert found[queue_name("orders")]["effective_capacity_bytes"] == 50_000
    await adapter.start(targets)
    again = targets_of(adapter, orders, found)  # as observed: still stopped
    assert again[0].restore == {"limit": 50_000, "portion": 0.0}
    await adapter.stop(again)
    await adapter.start(again)
    assert [value for _, _, value in agent.written] == [1, 50_000, 1, 50_000]


async def test_start_restores_the_limit_of_every_queue_that_it_can(version: str) -> None:
    agent = Recorded(version)
    adapter, found = await adapted(agent)
    targets = targets_of(adapter, Scope("default"), found)
    await adapter.stop(targets)
    agent.denied, agent.written = "stored.a", []
    assert list(await adapter.start(targets)) == [str(queue_name("stored.a"))]
    assert len(agent.written) == len(targets) - 1


async def test_a_limit_that_another_client_sets_during_a_stop_is_what_a_start_restores(version: str) -> None:
    agent = Recorded(version)
    adapter, found = await adapted(agent)
    for scope, bean, attribute in (
        (Scope("default", "orders"), _bean_of(agent, "orders"), "MemoryLimit"),
        (Scope(), BEAN, "StoreLimit"),
    ):
        (target,) = targets_of(adapter, scope, found)
        await adapter.stop([target])
        found = await everything(adapter)
        assert adapter.restore_now(target, found) is None
        agent._bean(bean)[attribute] = 70_000
        found = await everything(adapter)
        assert not adapter.is_stopped(target, found)
        assert adapter.restore_now(target, found) == {"limit": 70_000, "portion": 0.0}


def targets_of(adapter: ActiveMq, scope: Scope, objects: Any) -> list[StopTarget]:
    (found,) = adapter.stop_targets([scope], objects).values()
    return list(found)


def _bean_of(agent: Recorded, queue: str) -> str:
    (bean,) = [bean for bean, said in agent.said["queues"]["value"].items() if said["Name"] == queue]
    return str(bean)


async def test_zero_is_never_written_and_a_queue_that_followed_the_broker_follows_it_again(version: str) -> None:
    agent = Recorded(version)
    beans = agent.said["queues"]["value"]
    (orders,) = [bean for bean, said in beans.items() if said["Name"] == "orders"]
    for limit, portion, expected in (
        (0, 0.0, ("MemoryLimit", reading.NO_LIMIT)),
        (10_000_000, 1.0, ("MemoryUsagePortion", 1.0)),
    ):
        beans[orders] |= {"MemoryLimit": limit, "MemoryUsagePortion": portion}
        adapter, found = await adapted(agent)
        targets = targets_of(adapter, Scope("default", "orders"), found)
        await adapter.stop(targets)
        await adapter.start(targets)
        assert agent.written[-1] == (orders, *expected)
    await adapter.update(queue_name("orders"), {"capacity_bytes": 0}, {queue_name("orders"): {}})
    assert agent.written[-1] == (orders, "MemoryLimit", reading.NO_LIMIT)
    await adapter.update(BROKER, {"memory_limit": 0}, {BROKER: {}})
    assert agent.written[-1] == (BEAN, "MemoryLimit", reading.NO_LIMIT)
    assert all(value != 0 for _, _, value in agent.written)


async def test_changes_that_this_broker_cannot_make_are_refused_with_the_reason(version: str) -> None:
    agent = Recorded(version)
    adapter, found = await adapted(agent)
    orders = queue_name("orders")
    with pytest.raises(InvalidValue, match="use stop-producers"):
        await adapter.update(orders, {"capacity_bytes": 1}, found)
    with pytest.raises(InvalidValue, match="number of bytes"):
        await adapter.update(BROKER, {"temp_limit": None, "memory_limit": 5}, found)
    with pytest.raises(InvalidValue, match="number of bytes"):
        await adapter.update(BROKER, {"memory_limit": "80%"}, found)
    with pytest.raises(InvalidValue, match="start them before"):
        await adapter.update(orders, {"capacity_bytes": 9}, {orders: {"stopped_by_limit": True}})
    with pytest.raises(InvalidValue, match="start them before"):
        await adapter.update(BROKER, {"store_limit": 9}, {BROKER: {"stopped_by_limit": True}})
    assert agent.written == []


async def test_whole_broker_without_store_or_with_unknown_limit_is_not_stopped(version: str) -> None:
    adapter, found = await adapted(Recorded(version))
    with pytest.raises(InvalidValue, match="no store"):
        targets_of(adapter, Scope(), {BROKER: {**found[BROKER], "persistent": False}})
    adapter, found = await adapted(stopped_before(version))
    with pytest.raises(InvalidValue, match="unknown"):
        targets_of(adapter, Scope(), found)


async def test_stop_of_all_right_after_a_start_is_not_refused_and_restores_the_same_limit(
    version: str, tmp_path: Path
) -> None:
    store = AdapterStore(tmp_path / "adapter.sqlite3")
    agent = Recorded(version)
    adapter, found = await adapted(agent)
    given: dict[str, Any] = {"reason": "why", "actor": "ada", "now": 1}
    await Stops(adapter, store, found, lambda change: None).stop([Scope()], **given)
    adapter, found = await adapted(agent)  # of another process, which only sees the stop
    stops = Stops(adapter, store, found, lambda change: None)
    assert found[BROKER]["stopped_by_limit"]
    await stops.start([Scope()], actor="ada")
    assert found[BROKER]["stopped_by_limit"]  # as last polled
    await stops.stop([Scope()], **given)
    await stops.start([Scope()], actor="ada")
    assert agent.written == [(BEAN, "StoreLimit", size) for size in (1, 100_000_000, 1, 100_000_000)]
    store.close()


def stopped_before(version: str) -> Recorded:
    """A broker that was stopped before this process started, and not by its records."""
    agent = Recorded(version)
    agent.said["broker"]["value"]["StoreLimit"] = 1
    return agent


async def test_slave_is_unreachable_and_a_broker_without_queues_is_not(version: str) -> None:
    agent = Recorded(version)
    agent.said["queues"] = agent.said["producers"] = agent.connections = agent.said["dynamic"]
    _, found = await adapted(agent)
    assert {name.type for name in found} == {"Broker", "VirtualHost"}
    agent.said["broker"]["value"]["Slave"] = True
    with pytest.raises(BrokerUnreachable, match="slave"):
        await ActiveMq(agent, lambda: 1).connect()  # type: ignore[arg-type]
    agent.said["broker"]["value"]["Slave"] = False
    adapter, _ = await adapted(agent)
    agent.said["broker"]["value"]["Slave"] = True
    with pytest.raises(BrokerUnreachable, match="slave"):
        await adapter.read_changing()


def test_shortages_are_the_resources_at_their_limits() -> None:
    said = {"MemoryLimit": 100, "MemoryPercentUsage": 100, "StoreLimit": 100, "StorePercentUsage": 99, "TempLimit": 0}
    found = reading.broker_of(said, [], None, 0)
    assert found["shortages"] == ["memory-overfull"]
    assert (found["memory_used_bytes"], found["temp_limit"]) == (100, 0)


@pytest.mark.parametrize(("used", "overfull"), [(50_000, True), (49_999, False)])
def test_stopped_queue_is_overfull_by_its_limit_before_the_stop(used: int, overfull: bool) -> None:
    said = {"Name": "q", "MemoryLimit": 1, "MemoryUsageByteCount": used, "MemoryPercentUsage": 100 * used}
    (found,) = reading.queues_of([said], {"q": Limit(50_000)}).values()
    assert found["overfull"] is overfull
    (found,) = reading.queues_of([said], {}).values()
    assert found["overfull"] is None
    assert "capacity_bytes" not in found
