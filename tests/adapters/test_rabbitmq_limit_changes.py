"""No change of limits makes a queue of RabbitMQ lose messages that its publishers are refused for.

The broker of these tests applies policies in RabbitMQ's order: `max-length` first, and `overflow` after it. What it
loses by that was seen with 3.10.8, which `test_rabbitmq.py` runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokers.adapters import rabbitmq_queue_reports
from brokers.adapters.inventory import Inventory
from brokers.adapters.rabbitmq import RabbitMq
from brokers.adapters.rabbitmq_policies import limit_name
from brokers.adapters.rabbitmq_reading import REJECTING
from brokers.admin import BrokerUnreachable, InvalidValue
from brokers.model import ObjectName, object_name
from tests.adapters.test_rabbitmq_stops import ORDERS, LaggingHttp

DEPTH = 20
PATTERN = object_name("Policy", virtualhost="/", pattern="^orders$")


class DroppingHttp(LaggingHttp):
    """`lost`: messages of `orders` that it has deleted since its limit came before its overflow."""

    def __init__(self) -> None:
        super().__init__()
        self.policies = {}
        self.answers_at_once = False
        self.listed = [
            {**each, "messages": DEPTH, "messages_ready": DEPTH, "policy": None, "effective_policy_definition": {}}
            for each in self.listed
            if each["name"] == "orders"
        ]
        self.odd: dict[str, Any] = {}  # a policy that applies to none of these queues
        self.lags = 0  # answers until queues report what applies to them
        self.lost = 0
        self.depth = DEPTH
        self._overflow = "drop-head"

    async def request(self, method: str, path: str, *, query: Any = (), body: Any = None, **given: Any) -> Any:
        if path == "/queues/%2F":
            self.lags -= 1
            if self.lags < 0:
                self.report()
            return self.listed
        found = await super().request(method, path, query=query, body=body, **given)
        if (method, path) == ("GET", "/policies") and self.odd:
            return [*found, self.odd]
        if method in ("PUT", "DELETE"):
            self._apply()
        return found

    def _apply(self) -> None:
        definition = self._with_policy(self.listed[0])["effective_policy_definition"]
        most, before = definition.get("max-length", self.depth), self._overflow
        self._overflow = definition.get("overflow", "drop-head")
        if most < self.depth and self._overflow not in REJECTING:
            self.depth = most  # as wanted: it is to drop
        elif most < self.depth and before not in REJECTING:
            self.lost, self.depth = self.lost + self.depth - most, most

    def put_by_hand(
        self, name: str, definition: Mapping[str, Any], priority: int = 0, pattern: str = "^orders$"
    ) -> None:
        self.policies[name] = {
            "vhost": "/", "name": name, "pattern": pattern, "apply-to": "queues", "priority": priority,
            "definition": dict(definition),
        }  # fmt: skip
        self._apply()
        self.report()


class World:
    def __init__(self) -> None:
        self.http = DroppingHttp()
        self.adapter = RabbitMq(self.http, lambda: 1)  # type: ignore[arg-type]
        self.inventory = Inventory(self.adapter.types)

    async def read(self) -> None:
        async for seen in self.adapter.read_all():
            self.inventory.apply(seen)

    async def update(self, name: ObjectName, **attributes: Any) -> None:
        await self.read()
        await self.adapter.update(name, attributes, self.inventory.objects)

    def definition(self, name: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.http.policies[name]["definition"]
        return found


@pytest.fixture
def world() -> World:
    return World()


async def test_a_limit_below_the_depth_together_with_refusing_loses_nothing(world: World) -> None:
    world.http.lags = 2
    await world.update(ORDERS, capacity_messages=5, overflow="producers")
    assert world.http.lags < 0
    assert world.http.lost == 0
    assert world.definition(limit_name("orders")) == {"max-length": 5, "overflow": "reject-publish"}


async def test_a_lower_limit_together_with_refusing_leaves_the_present_limit_meanwhile(world: World) -> None:
    world.http.put_by_hand("theirs", {"max-length": DEPTH, "message-ttl": 9})
    await world.update(ORDERS, capacity_messages=5, overflow="producers")
    first, last = [body["definition"] for _, body in world.http.written]
    assert first == {"max-length": DEPTH, "overflow": "reject-publish", "message-ttl": 9}
    assert last == {"max-length": 5, "overflow": "reject-publish", "message-ttl": 9}
    assert world.http.lost == 0


async def test_a_pattern_with_a_limit_and_refusing_loses_nothing(world: World) -> None:
    await world.read()
    attributes = {"capacity_messages": 5, "overflow": "producers"}
    await world.adapter.create(PATTERN, attributes, world.inventory.objects)
    assert world.http.lost == 0
    assert world.definition("^orders$") == {"max-length": 5, "overflow": "reject-publish"}


@pytest.mark.parametrize("change", ["own limit is removed", "pattern is deleted", "pattern gets a lower priority"])
async def test_a_change_that_uncovers_a_refusing_policy_loses_nothing(world: World, change: str) -> None:
    own = change == "own limit is removed"
    name, pattern = (limit_name("orders"), r"\Aorders\z") if own else ("wide", "^ord")
    world.http.put_by_hand(name, {"max-length": 99, "overflow": "drop-head"}, 9, pattern)
    world.http.put_by_hand("theirs", {"max-length": 5, "overflow": "reject-publish"}, 3)
    wide = object_name("Policy", virtualhost="/", pattern="^ord")
    match change:
        case "own limit is removed":
            await world.update(ORDERS, capacity_messages=None, overflow=None)
        case "pattern is deleted":
            await world.read()
            await world.adapter.delete(wide, world.inventory.objects)
        case _:
            await world.update(wide, priority=1)
    assert world.http.lost == 0
    assert world.http._overflow == "reject-publish"


async def test_a_queue_that_does_not_report_leaves_its_limits_as_they_were(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rabbitmq_queue_reports, "REPORT_SECONDS", 0.0)
    monkeypatch.setattr(world.http, "report", lambda: None)
    world.http.put_by_hand("^orders$", {"max-length": 99})
    with pytest.raises(BrokerUnreachable, match=r"refuse publishers, so nothing was changed: orders"):
        await world.update(ORDERS, capacity_messages=5, overflow="producers")
    assert limit_name("orders") not in world.http.policies
    await world.read()
    with pytest.raises(BrokerUnreachable, match="orders"):
        await world.update(PATTERN, capacity_messages=5, overflow="producers")
    assert world.definition("^orders$") == {"max-length": 99}
    assert world.http.lost == 0


async def test_without_a_lower_limit_a_change_is_written_once(world: World) -> None:
    world.http.put_by_hand("^orders$", {"max-length": 99})
    await world.update(ORDERS, overflow="producers")
    world.http.report()
    await world.update(ORDERS, capacity_messages=30)
    assert [name for name, _ in world.http.written] == [limit_name("orders")] * 2


async def test_a_pattern_that_cannot_be_evaluated_hinders_only_changes_that_could_lose_messages(world: World) -> None:
    world.http.odd = {
        "vhost": "/", "name": "odd", "pattern": "(?|a|b)", "apply-to": "queues", "priority": 0, "definition": {}
    }  # fmt: skip
    await world.read()
    objects = world.inventory.objects
    both = {"capacity_messages": 5, "overflow": "producers"}
    with pytest.raises(InvalidValue, match=r"\(\?\|a\|b\) cannot be evaluated here.*change the overflow first"):
        await world.adapter.create(PATTERN, both, objects)
    await world.adapter.create(PATTERN, {"overflow": "producers"}, objects)
    world.http.report()
    await world.update(PATTERN, capacity_messages=5)
    assert world.http.lost == 0
    await world.update(ORDERS, capacity_messages=4)  # its own limits need no pattern


LIMITS = st.fixed_dictionaries(
    {}, optional={"capacity_messages": st.sampled_from([1, 5, 30]), "overflow": st.sampled_from(["producers", "ring"])}
)


@given(st.lists(st.tuples(st.sampled_from([ORDERS, PATTERN]), LIMITS, st.sampled_from([0, 5])), max_size=6))
@settings(max_examples=300, deadline=None)
def test_no_history_of_changes_loses_what_publishers_are_refused_for(
    changes: list[tuple[ObjectName, dict[str, Any], int]],
) -> None:
    async def run() -> None:
        world = World()
        for name, attributes, priority in changes:
            await world.read()
            known = world.inventory.objects
            values = {key: attributes.get(key) for key in ("capacity_messages", "overflow")}
            if name == PATTERN:
                values["priority"] = priority
            try:
                if name in known:
                    await world.adapter.update(name, values, known)
                else:
                    await world.adapter.create(name, values, known)
            except InvalidValue:
                continue  # a policy needs at least one limit
            world.http.report()
            assert world.http.lost == 0, (changes, world.http.written)

    asyncio.run(run())
