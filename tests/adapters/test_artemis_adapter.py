"""The adapter of Artemis with an agent in memory: what it sends, and what it makes of a broker that goes away."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, cast

import pytest

from brokers.adapters.artemis import Artemis
from brokers.adapters.artemis_reading import policy_name
from brokers.adapters.jolokia import Answer, Jolokia, JolokiaError, Request, properties_of, quote
from brokers.admin import BrokerUnreachable, InvalidValue, NotAllowed, NotFound
from brokers.engine.values.stops import Scope
from brokers.model import object_name
from tests.adapters.fake import queue_name

BROKER = 'org.apache.activemq.artemis:broker="b"'
BROKER_NAME = object_name("Broker")
HOST = "default"


class Agent:
    """Answers as Artemis does, of the queues `NAME: ADDRESS`. `says_blocked`: as newer versions do."""

    base = "http://broker/jolokia"

    def __init__(self, *, says_blocked: bool = True) -> None:
        self.queues = {"orders": "orders", "ann": "news", "ben": "news"}
        self.settings: dict[str, dict[str, Any]] = {"#": {"addressFullMessagePolicy": "BLOCK", "maxSizeBytes": 50_000}}
        self.blocked: set[str] = set()
        self.says_blocked = says_blocked
        self.active = True
        self.up = 60_000
        self.error: Exception | None = None
        self.refused: set[str] = set()  # addresses that the user may not block or unblock
        self.sent: list[Request] = []

    async def one(self, request: Request, *, seconds: float = 0.0) -> Any:
        return (await self.post([request]))[0].get()

    async def post(self, requests: Sequence[Request], *, seconds: float = 0.0) -> list[Answer]:
        self.sent += requests
        return [self._answer(request) for request in requests]

    def _answer(self, request: Request) -> Answer:
        try:
            return Answer(getattr(self, f"_{request['type']}")(request))
        except (NotFound, JolokiaError, NotAllowed) as error:
            return Answer(None, error)

    def _search(self, request: Request) -> Any:
        return [self._address(each) for each in self._addresses()] if "address=" in request["mbean"] else [BROKER]

    def _list(self, request: Request) -> Any:
        if "component=addresses" in request["path"]:
            return {"op": {"block": {"args": []}}}
        return {"op": {"addAddressSettings": [{"args": [{}] * 2}, {"args": [{}] * 30}]}}

    def _read(self, request: Request) -> Any:
        mbean = request["mbean"]
        if "queue=" in mbean:
            wanted = properties_of(mbean)["queue"]
            found = {n: a for n, a in self.queues.items() if wanted in ("*", n)}
            return {self._queue(name, address): {"MessageCount": 1} for name, address in found.items()}
        if "address=" in mbean:
            wanted = properties_of(mbean)["address"]
            if wanted != "*":
                return self._state(wanted)
            return {self._address(address): self._state(address) for address in self._addresses()}
        return {"Version": "2", "Active": self.active, "UptimeMillis": self.up} if self.active is not None else {}

    def _exec(self, request: Request) -> Any:
        operation, arguments = request["operation"].partition("(")[0], request["arguments"]
        if "nowhere" in request["mbean"]:  # to find out the permissions
            raise NotFound(request["mbean"])
        if self.error is not None and operation in ("addAddressSettings", "block"):
            raise self.error
        if operation in ("block", "unblock"):
            address = properties_of(request["mbean"])["address"]
            if address in self.refused:
                raise NotAllowed(f"the user may not {operation} {address}")
            if address not in self._addresses():
                raise NotFound(address)
            (self.blocked.add if operation == "block" else self.blocked.discard)(address)
            return True
        if operation == "getAddressSettingsAsJSON":
            return json.dumps({**self.settings["#"], **self.settings.get(arguments[0], {})})
        if operation == "addAddressSettings":
            self.settings[arguments[0]] = json.loads(arguments[1])
            return arguments[1]
        if operation == "removeAddressSettings":
            del self.settings[arguments[0]]
            return None
        return json.dumps({"data": [], "count": 0})

    def _addresses(self) -> list[str]:
        return list(dict.fromkeys([*self.queues.values(), "activemq.notifications"]))

    def _state(self, address: str) -> dict[str, Any]:
        said = {"AddressSize": 10, "MessageCount": 1}
        return {**said, "BlockedViaManagement": address in self.blocked} if self.says_blocked else said

    def _address(self, address: str) -> str:
        return f"{BROKER},component=addresses,address={quote(address)}"

    def _queue(self, name: str, address: str) -> str:
        return f'{self._address(address)},subcomponent=queues,routing-type="anycast",queue={quote(name)}'


class Console:
    """An adapter, and the objects that it has read."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.at = 1_000_000
        self.adapter = Artemis(cast(Jolokia, agent), lambda: self.at)
        self.objects: dict[Any, Any] = {}

    async def read(self) -> None:
        self.objects = {}
        async for seen in self.adapter.read_all():
            self.objects |= seen.objects

    def targets(self, **scope: str) -> Any:
        (found,) = self.adapter.stop_targets([Scope(**scope)], self.objects).values()
        return found

    def is_stopped(self, target: Any) -> bool:
        return self.adapter.is_stopped(target, self.objects)


async def connected(agent: Agent) -> Console:
    console = Console(agent)
    await console.adapter.connect()
    await console.read()
    return console


async def test_stop_targets_are_addresses_with_all_their_queues() -> None:
    console = await connected(Agent())
    (target,) = console.targets(virtualhost=HOST, queue="ann")
    assert (target.id, target.queues) == ("news", {queue_name("ann"), queue_name("ben")})
    assert [target.id for target in console.targets()] == ["news", "orders"]  # not the broker's own
    assert [target.id for target in console.targets(pattern="orders")] == ["orders"]
    with pytest.raises(NotFound):
        console.targets(virtualhost=HOST, queue="nothing")


async def test_stop_and_start_block_and_unblock_addresses_that_are_there() -> None:
    console = await connected(agent := Agent())
    targets = console.targets()
    del agent.queues["orders"]
    await console.adapter.stop(targets)
    assert agent.blocked == {"news"}
    await console.adapter.start(targets)
    assert agent.blocked == set()


async def test_start_unblocks_every_address_that_it_can() -> None:
    console = await connected(agent := Agent())
    targets = console.targets()
    await console.adapter.stop(targets)
    agent.refused = {"news"}
    faults = await console.adapter.start(targets)
    assert list(faults) == ["news"]
    assert isinstance(faults["news"], NotAllowed)
    assert agent.blocked == {"news"}


async def test_stop_that_the_broker_refuses_is_an_error() -> None:
    console = await connected(agent := Agent())
    agent.error = NotAllowed("the user lacks a permission")
    with pytest.raises(NotAllowed):
        await console.adapter.stop(console.targets())


@pytest.mark.parametrize("says_blocked", [True, False])
async def test_stop_is_forgotten_in_a_restart_and_seen_to_be(says_blocked: bool) -> None:
    console = await connected(agent := Agent(says_blocked=says_blocked))
    (target,) = console.targets(virtualhost=HOST, queue="orders")
    assert not console.is_stopped(target)
    await console.adapter.stop([target])
    await console.read()
    assert console.is_stopped(target)
    console.at += 60_000
    agent.blocked, agent.up = set(), 1_000
    await console.read()
    assert not console.is_stopped(target)


async def test_slow_answer_is_no_restart() -> None:
    console = await connected(agent := Agent(says_blocked=False))
    (target,) = console.targets(virtualhost=HOST, queue="orders")
    await console.adapter.stop([target])
    before = console.objects[BROKER_NAME]["started"]
    console.at, agent.up = console.at + 20_000, agent.up + 1_000
    await console.read()
    assert console.objects[BROKER_NAME]["started"] == before
    assert policy_name("#") in console.objects
    assert console.is_stopped(target)


async def test_restart_deletes_no_policy() -> None:
    console = await connected(agent := Agent())
    before = console.objects[BROKER_NAME]["started"]
    console.at, agent.up = console.at + 90_000, 2_000
    await console.read()
    assert console.objects[BROKER_NAME]["started"] == before + 148_000
    assert policy_name("#") in console.objects


@pytest.mark.parametrize("active", [False, None], ids=["backup", "gone"])
async def test_broker_that_is_not_active_is_unreachable_and_shows_no_queues(active: Any) -> None:
    console = await connected(agent := Agent())
    agent.active, agent.queues = active, {}
    with pytest.raises(BrokerUnreachable, match="not active"):
        await console.adapter.read_changing()
    with pytest.raises(BrokerUnreachable, match="not active"):
        await console.read()


async def test_limit_of_a_queue_is_a_setting_of_its_address() -> None:
    console = await connected(agent := Agent())
    agent.settings["news"] = {"deadLetterAddress": "dead"}
    ann = queue_name("ann")
    await console.adapter.update(ann, {"capacity_bytes": 5_000}, console.objects)
    assert agent.settings["news"] == {"deadLetterAddress": "dead", "maxSizeBytes": 5_000, "pageSizeBytes": 5_000}
    read = (await console.adapter.read(ann)).objects[ann]
    assert (read["capacity_bytes"], read["effective_stop_bytes"]) == (5_000, 5_000)
    await console.adapter.update(ann, {"capacity_bytes": None}, console.objects)
    assert agent.settings["news"] == {"deadLetterAddress": "dead"}


async def test_last_own_setting_removes_those_of_the_match() -> None:
    console = await connected(agent := Agent())
    orders = queue_name("orders")
    await console.adapter.update(orders, {"capacity_messages": 9}, console.objects)
    await console.adapter.update(orders, {"capacity_messages": None}, console.objects)
    assert set(agent.settings) == {"#"}


async def test_setting_that_artemis_refuses_is_an_error_of_its_field() -> None:
    console = await connected(agent := Agent())
    agent.error = JolokiaError("pageSize has to be lower", 500)
    with pytest.raises(InvalidValue, match="pageSize") as refused:
        await console.adapter.update(policy_name("#"), {"capacity_bytes": 3}, console.objects)
    assert list(refused.value.errors) == ["capacity_bytes"]


async def test_new_queue_has_its_limits_with_the_next_quick_poll() -> None:
    console = await connected(agent := Agent())
    agent.queues["bills"] = "bills"
    seen = await console.adapter.read_changing()
    assert seen.objects[queue_name("bills")]["effective_capacity_bytes"] == 50_000
    settings_read = [request for request in agent.sent if "getAddressSettings" in request.get("operation", "")]
    agent.sent.clear()
    await console.adapter.read_changing()
    assert settings_read
    assert len(agent.sent) == 4  # one POST, no settings


async def test_operation_that_is_not_offered_is_not_found() -> None:
    console = await connected(Agent())
    with pytest.raises(NotFound, match="no operation"):
        await console.adapter.call(queue_name("orders"), "purge", {}, console.objects)
