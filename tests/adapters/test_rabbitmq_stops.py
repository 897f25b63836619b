"""Stops of a RabbitMQ whose list of queues lags: what is written, and how often, while it has not reported yet.

Its answers have the form of the recorded ones (3.10.8, `test_rabbitmq_reading.py`), but for the policies, which are
those that were written.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from brokers.adapters import rabbitmq_queue_reports
from brokers.adapters.inventory import Inventory
from brokers.adapters.rabbitmq import RabbitMq
from brokers.adapters.rabbitmq_policies import Listed, limit_name, stop_name
from brokers.adapters.rabbitmq_reading import PARKED
from brokers.adapters.stops import Stops
from brokers.adapters.store import AdapterStore
from brokers.admin import BrokerUnreachable, InvalidValue, NotAllowed, NotFound
from brokers.engine.management.policy_changes import PolicyChange
from brokers.engine.values.stops import Scope
from brokers.model import object_name
from tests.adapters.fake import queue_name
from tests.adapters.test_rabbitmq_reading import answer

NAMES = ("orders", "free")
ORDERS = queue_name("orders", "/")
HIGHEST = 2**31 - 1


class LaggingHttp:
    """RabbitMQ's management, whose list of queues names the policies as they were when `report` was called last.
    `answers_at_once`: single queues name their own policy at once, as those do that have reported."""

    base = "http://rabbitmq.example.org/api"

    def __init__(self) -> None:
        self.policies: dict[str, dict[str, Any]] = {each["name"]: each for each in answer("policies")}
        self.listed = [each for each in answer("queues")["items"] if each["name"] in NAMES]
        self.answers_at_once = True
        self.silent: set[str] = set()  # queues that report nothing
        self.down: set[str] = set()  # queues whose node is down
        self.written: list[tuple[str, dict[str, Any]]] = []
        self.denied: set[str] = set()  # names of policies that the user may not delete
        self.parking: list[str] = []  # requests for the queue of parked messages, and its exchange
        self.no_parking = False
        self.released: list[str] = []  # queues whose publishers were let in by a written policy

    async def request(self, method: str, path: str, *, query: Any = (), body: Any = None, **_: Any) -> Any:
        kind, _, rest = path.removeprefix("/").partition("/")
        name = unquote(rest.rpartition("/")[2])
        if kind == "policies":
            return self._policies(method, name, body)
        if name == PARKED or kind == "bindings":
            self.parking.append(f"{method} {path}")
            if self.no_parking:
                raise NotAllowed(f"the user may not {method} {path}")
            return None
        if kind == "queues" and name in self.down:
            raise NotFound(path)
        if kind == "queues" and name:
            (said,) = [each for each in self.listed if each["name"] == name]
            at_once = self.answers_at_once and name not in self.silent
            return self._with_policy(said) if at_once else said
        if kind == "queues":
            items = [self._of_process(each) for each in copy.deepcopy(self.listed)]
            return items if "disable_stats" in query else {"items": items, "page_count": 1}
        if kind in ("connections", "channels"):
            return {"items": [], "page_count": 0}
        return {"vhosts": [{"name": "/"}], "overview": answer("overview")}.get(kind, [])

    def _policies(self, method: str, name: str, body: Any) -> Any:
        if method == "GET":
            return copy.deepcopy(list(self.policies.values()))
        if method == "PUT":
            self._write(name, body)
        elif name in self.denied:
            raise NotAllowed(f"the user may not delete {name}")
        else:
            self.policies.pop(name, None)
        return None

    def _write(self, name: str, body: dict[str, Any]) -> None:
        before = self.policies.get(name)
        stopped = before is not None and before["definition"].get("max-length") == 0
        if stopped and body["definition"].get("max-length") != 0:
            self.released.append(name)
        if name != limit_name(PARKED):
            self.written.append((name, body))
        self.policies[name] = {**copy.deepcopy(body), "vhost": "/", "name": name}

    def _with_policy(self, said: dict[str, Any]) -> dict[str, Any]:
        matching = [p for p in self.policies.values() if re.search(p["pattern"].replace(r"\z", r"\Z"), said["name"])]
        best = max(matching, key=lambda policy: policy.get("priority", 0), default=None)
        effective = {"policy": best["name"], "effective_policy_definition": best["definition"]} if best else {}
        return {**said, "policy": None, "effective_policy_definition": {}, **effective}

    def _of_process(self, said: dict[str, Any]) -> dict[str, Any]:
        """Without what only the process of a running queue says."""
        if said["name"] not in self.down:
            return said
        known = ("name", "vhost", "durable", "auto_delete", "exclusive", "arguments", "type", "node")
        return {**{key: said[key] for key in known}, "state": "down"}

    def report(self) -> None:
        """The list of queues catches up."""
        self.listed = [self._with_policy(said) for said in self.listed]

    def put(self, name: str, pattern: str, priority: int) -> None:
        """Another client makes a policy."""
        definition = {"max-length": 5, "overflow": "reject-publish"}
        self.policies[name] = {
            "vhost": "/", "name": name, "pattern": pattern, "apply-to": "queues", "priority": priority,
            "definition": definition,
        }  # fmt: skip


class World:
    def __init__(self, folder: Path) -> None:
        self.http = LaggingHttp()
        self.adapter = RabbitMq(self.http, lambda: 1)  # type: ignore[arg-type]
        self.store = AdapterStore(folder / "adapter.sqlite3")
        self.inventory = Inventory(self.adapter.types)
        self.stops = Stops(self.adapter, self.store, self.inventory.objects, lambda change: None)

    async def read(self) -> None:
        async for seen in self.adapter.read_all():
            self.inventory.apply(seen)

    async def rounds(self, count: int) -> None:
        for _ in range(count):
            await self.read()
            await self.stops.maintain(1, lambda queue: None)

    async def stop(self, scope: Scope) -> None:
        await self.stops.stop([scope], reason="why", actor="ada", now=1)

    def stop_of(self, name: str) -> dict[str, Any]:
        return self.http.policies[stop_name(name)]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.store.close()


async def test_stops_are_not_made_again_while_the_list_of_queues_lags(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    await world.read()
    await world.stop(Scope())
    written = [name for name, _ in world.http.written]
    assert sorted(written) == sorted([*map(stop_name, NAMES)] * 2)  # two steps each
    await world.rounds(10)
    world.http.report()
    await world.rounds(2)
    assert [name for name, _ in world.http.written] == written
    assert world.http.released == []
    assert "made again" not in caplog.text
    await world.stops.start([Scope()], actor="ada")
    assert [name for name in world.http.policies if "headgate-stop" in name] == []


@pytest.mark.parametrize("lagging", [True, False])
async def test_stops_of_two_queues_do_not_outrank_each_other_in_turn(world: World, lagging: bool) -> None:
    await world.read()
    highest = max(policy["priority"] for policy in world.http.policies.values())
    for name in NAMES:
        await world.stop(Scope("/", name))
    for _ in range(5):
        if not lagging:
            world.http.report()
        await world.rounds(1)
        for name in NAMES:  # another client takes them away, one after the other
            del world.http.policies[stop_name(name)]
            await world.rounds(1)
        assert {world.stop_of(name)["priority"] for name in NAMES} == {highest + 1}


async def test_a_stop_that_another_policy_outranks_is_made_again_once(world: World) -> None:
    await world.read()
    await world.stop(Scope("/", "orders"))
    world.http.put("theirs", "^or", 70)
    del world.http.written[:]
    await world.rounds(4)
    assert [(name, body["priority"]) for name, body in world.http.written] == [(stop_name("orders"), 71)] * 2
    world.http.put("lower", "^or", 71 - 1)
    await world.rounds(2)
    assert len(world.http.written) == 2


async def test_a_first_step_that_is_not_reported_yet_is_written_once(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A round does not wait for it."""
    await world.read()
    await world.stop(Scope("/", "orders"))
    await world.rounds(1)
    del world.http.policies[stop_name("orders")]
    del world.http.written[:]
    world.http.answers_at_once = False
    monkeypatch.setattr(rabbitmq_queue_reports, "asyncio", None)
    await world.rounds(4)
    ((_, body),) = world.http.written
    assert body["definition"]["overflow"] == "reject-publish"
    world.http.answers_at_once = True
    await world.rounds(3)
    assert [made["definition"]["max-length"] for _, made in world.http.written[1:]] == [0]
    assert caplog.text.count("made again") == 1


async def test_a_queue_that_does_not_report_makes_a_stop_fail_and_is_named(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rabbitmq_queue_reports, "REPORT_SECONDS", -1.0)
    await world.read()
    world.http.answers_at_once = False
    with pytest.raises(BrokerUnreachable, match=r"no report .* reject: free, orders"):
        await world.stop(Scope())
    assert [name for name in world.http.policies if "headgate-stop" in name] == []


async def test_a_queue_whose_node_is_down_hinders_no_stop_and_is_stopped_when_it_runs_again(world: World) -> None:
    world.http.down = {"orders"}
    await world.read()
    await world.stop(Scope())
    assert world.stop_of("free")["definition"]["max-length"] == 0
    assert stop_name("orders") not in world.http.policies
    assert world.stops.covered() == {str(Scope()): {queue_name("free", "/")}}
    with pytest.raises(InvalidValue, match="it is down"):
        await world.stop(Scope("/", "orders"))
    await world.rounds(2)
    assert stop_name("orders") not in world.http.policies
    world.http.down = set()
    await world.rounds(2)
    assert world.stop_of("orders")["definition"]["max-length"] == 0


async def test_a_queue_whose_node_goes_down_during_a_stop_hinders_no_other(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its second step, which could delete its messages, follows when it has reported the first."""
    monkeypatch.setattr(rabbitmq_queue_reports, "asyncio", None)  # it does not wait for it
    await world.read()
    world.http.down = {"orders"}
    await world.stop(Scope())
    assert world.stop_of("free")["definition"]["max-length"] == 0
    before = copy.deepcopy(world.stop_of("orders"))
    assert before["definition"]["max-length"] != 0
    await world.rounds(3)
    assert world.stop_of("orders") == before
    assert "made again" not in caplog.text
    world.http.down = set()
    await world.rounds(2)
    assert world.stop_of("orders")["definition"]["max-length"] == 0
    await world.stops.start([Scope()], actor="ada")
    assert [name for name in world.http.policies if "headgate-stop" in name] == []


async def test_a_queue_that_does_not_report_delays_no_new_queue_under_the_stop(world: World) -> None:
    world.http.listed, (free,) = (
        [q for q in world.http.listed if q["name"] == "orders"],
        [q for q in world.http.listed if q["name"] == "free"],
    )
    await world.read()
    await world.stop(Scope())
    world.http.listed.append(free)
    world.http.put("theirs", "^or", 70)  # now the stop of orders has to be made again
    world.http.silent = {"orders"}
    await world.rounds(2)
    assert world.stop_of("free")["definition"]["max-length"] == 0
    assert world.stop_of("orders")["priority"] == 71


@pytest.mark.parametrize(
    "change",
    [
        lambda policy: policy["definition"].update({"max-length": 9}),
        lambda policy: policy["definition"].update({"overflow": "drop-head"}),
        lambda policy: policy.update(pattern="^nothing$"),
        lambda policy: policy.update(priority=0),
    ],
)
async def test_a_stop_that_another_client_changes_is_made_again(
    world: World, change: Callable[[dict[str, Any]], None]
) -> None:
    await world.read()
    await world.stop(Scope("/", "orders"))
    made = copy.deepcopy(world.stop_of("orders"))
    change(world.stop_of("orders"))
    await world.rounds(2)
    assert world.stop_of("orders") == made


async def test_with_two_policies_of_the_highest_priority_the_queue_says_which_applies(world: World) -> None:
    await world.read()
    await world.stop(Scope("/", "orders"))
    world.http.put("theirs", "^orders$", HIGHEST)
    await world.rounds(2)
    assert world.stop_of("orders")["priority"] == HIGHEST
    ((target,),) = world.adapter.stop_targets([Scope("/", "orders")], world.inventory.objects).values()
    for name, stopped in (("theirs", False), (stop_name("orders"), True)):
        assert world.adapter.is_stopped(target, {ORDERS: {"policy": name}}) is stopped


async def test_limits_of_queues_do_not_outrank_each_other_in_turn(world: World) -> None:
    await world.read()
    highest = max(policy["priority"] for policy in world.http.policies.values())
    for size in range(1, 4):
        for name in NAMES:
            queue = queue_name(name, "/")
            await world.adapter.update(queue, {"capacity_messages": size}, world.inventory.objects)
            await world.read()
    assert {world.http.policies[limit_name(name)]["priority"] for name in NAMES} == {highest + 1}
    await world.stop(Scope("/", "orders"))
    assert world.stop_of("orders")["priority"] == highest + 2  # above the queue's own
    with pytest.raises(InvalidValue, match="start them before"):
        await world.adapter.update(ORDERS, {"capacity_messages": 1}, world.inventory.objects)


async def test_a_queue_whose_stop_may_not_be_deleted_hinders_no_other_start(world: World) -> None:
    await world.read()
    await world.stop(Scope())
    world.http.denied = {stop_name(NAMES[0])}
    with pytest.raises(NotAllowed):
        await world.stops.start([Scope()], actor="ada")
    assert [name for name in world.http.policies if "headgate-stop" in name] == [stop_name(NAMES[0])]


async def test_a_queue_whose_own_limit_is_taken_back_has_that_of_its_pattern_again(world: World) -> None:
    await world.read()
    before = copy.deepcopy(world.http.policies)
    theirs = before["limits"]["definition"]
    world.http.policies["odd"] = {**before["limits"], "name": "odd", "pattern": r"(?|orders)", "priority": 9}
    await world.read()
    await world.adapter.update(ORDERS, {"capacity_messages": 50}, world.inventory.objects)
    assert world.http.policies[limit_name("orders")]["definition"] == {**theirs, "max-length": 50}
    world.http.policies.pop("odd")
    world.http.report()
    await world.read()
    await world.adapter.update(ORDERS, {"capacity_messages": None}, world.inventory.objects)
    assert world.http.policies == before
    world.http.report()
    await world.read()
    assert world.inventory.objects[ORDERS]["effective_capacity_messages"] == theirs["max-length"]


async def test_a_new_pattern_replaces_no_policy_whatever_its_name(world: World) -> None:
    """Those of exchanges are not shown, and any name may be that of a pattern."""
    world.http.put("orders", r"^orders\.", 3)
    world.http.policies["^ex"] = {**world.http.policies["orders"], "name": "^ex", "apply-to": "exchanges"}
    before = copy.deepcopy(world.http.policies)
    await world.read()
    for pattern in ("orders", "^ex", limit_name("a"), "fresh"):
        name = object_name("Policy", virtualhost="/", pattern=pattern)
        await world.adapter.create(name, {"capacity_messages": 9}, world.inventory.objects)
    assert {name: world.http.policies[name] for name in before} == before
    made = {name: policy["pattern"] for name, policy in world.http.policies.items() if name not in before}
    assert made == {
        "orders 2": "orders", "^ex 2": "^ex", f"policy {limit_name('a')}": limit_name("a"), "fresh": "fresh"
    }  # fmt: skip
    assert {world.http.policies[name]["apply-to"] for name in made} == {"queues"}


@pytest.mark.parametrize("applies", ["all", "quorum_queues", "streams", "queues"])
async def test_a_change_of_limits_leaves_what_a_policy_applies_to(world: World, applies: str) -> None:
    world.http.policies["limits"]["apply-to"] = applies
    await world.read()
    name = object_name("Policy", virtualhost="/", pattern=world.http.policies["limits"]["pattern"])
    change = PolicyChange(name, "update", {"capacity_messages": 9}, None)
    world.adapter.limits_after([change], world.inventory.objects)
    await world.adapter.update(name, {"capacity_messages": 9}, world.inventory.objects)
    assert world.http.policies["limits"]["definition"]["max-length"] == 9
    assert world.http.policies["limits"]["apply-to"] == applies


def test_a_policy_of_another_client_counts_whatever_its_name() -> None:
    theirs = {"vhost": "/", "name": stop_name("all"), "pattern": ".*", "priority": 8, "definition": {}}
    assert Listed([theirs]).highest_priority(ORDERS, without=stop_name("orders")) == 8
    assert Listed([{**theirs, "vhost": "other"}]).highest_priority(ORDERS, without=stop_name("orders")) == 0
