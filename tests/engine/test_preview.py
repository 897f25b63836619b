"""Previews of policy changes: they agree with the changes' effects, alter nothing, and raise the same errors."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokers.admin import AdminError, AlreadyExists, InvalidValue, NotAllowed, NotFound, StaleVersion
from brokers.engine.flow.table import State
from brokers.engine.management.requests import Management
from brokers.engine.values.policy import explain
from brokers.model import ObjectName, object_name
from tests.engine.simulation import Simulation

BROKER = object_name("Broker")
HOST = object_name("VirtualHost", name="default")


@pytest.fixture
def world() -> Simulation:
    return Simulation()


def queue(name: str) -> ObjectName:
    return object_name("Queue", virtualhost="default", name=name)


def policy(pattern: str) -> ObjectName:
    return object_name("Policy", virtualhost="default", pattern=pattern)


def change(name: ObjectName, action: str = "update", **attributes: Any) -> dict[str, Any]:
    return {"object": str(name), "action": action, "attributes": attributes}


def preview(world: Simulation, *changes: dict[str, Any], largest: int = 20) -> Any:
    arguments = {"changes": list(changes), "largest": largest}
    return Management(world.broker).call(BROKER, "preview-change", arguments)


def make(world: Simulation, *changes: dict[str, Any]) -> None:
    management = Management(world.broker)
    for each in changes:
        name = ObjectName.parse(each["object"])
        match each["action"]:
            case "create":
                management.create(name, each["attributes"])
            case "delete":
                management.delete(name)
            case _:
                management.update(name, each["attributes"], management.read(name).version)
    world.settle()


def filled(world: Simulation, name: str, depth: int, **own: Any) -> Any:
    made = world.queue(name, **own)
    world.sender(made)
    for _ in range(depth):
        made.enqueue(b"x" * 100)
    world.settle()
    return made


def test_preview_of_a_lower_capacity_has_overfull_queues_and_blocked_producers(world):
    filled(world, "orders", 10, capacity_messages=20)
    filled(world, "idle", 0, capacity_messages=20)
    answer = preview(world, change(queue("orders"), capacity_messages=5))
    assert (answer["queues"], answer["changed"], answer["overfull"], answer["held"]) == (1, 1, 1, 1)
    (only,) = answer["largest"]
    assert only["changes"] == {
        "capacity_messages": {"before": 20, "before_origin": "own", "after": 5, "after_origin": "own"}
    }
    assert (only["before"]["state"], only["after"]["state"]) == ("NORMAL", "OVERFULL")
    assert (only["before"]["headroom_messages"], only["after"]["headroom_messages"]) == (10, 0)
    assert world.host.queues["orders"].gate.state is State.NORMAL, "the preview applies nothing"


def test_preview_of_a_higher_capacity_has_unblocked_producers(world):
    filled(world, "orders", 10, capacity_messages=5)
    answer = preview(world, change(queue("orders"), capacity_messages=50))
    assert (answer["overfull"], answer["released"], answer["held"], answer["freed"]) == (0, 1, 0, 1)


def test_operators_stop_still_blocks_producers_that_a_change_would_unblock(world):
    filled(world, "orders", 10, capacity_messages=5)
    Management(world.broker).call(queue("orders"), "stop-producers", {"reason": "x"})
    answer = preview(world, change(queue("orders"), capacity_messages=50))
    assert (answer["released"], answer["freed"]) == (1, 0)
    assert answer["largest"][0]["after"]["state"] == "STOPPED"


def test_rejecting_mechanism_unblocks_producers_of_a_queue_that_stays_overfull(world):
    filled(world, "orders", 10, capacity_messages=5)
    answer = preview(world, change(queue("orders"), mechanism="reject"))
    assert (answer["released"], answer["freed"]) == (0, 1)


def test_preview_of_a_ring_has_the_number_of_dropped_messages(world):
    filled(world, "orders", 10, capacity_messages=20)
    answer = preview(world, change(queue("orders"), overflow="ring", capacity_messages=4))
    assert answer["dropped"] == 6
    make(world, change(queue("orders"), overflow="ring", capacity_messages=4))
    assert world.host.queues["orders"].gate.depth_messages == 4


def test_new_pattern_affects_the_queues_it_is_the_best_match_of(world):
    for name in ("orders.eu", "orders.us", "other"):
        filled(world, name, 3)
    make(world, change(policy("orders.us"), "create", capacity_messages=9))
    answer = preview(world, change(policy("orders.>"), "create", capacity_messages=2))
    assert (answer["queues"], answer["changed"], answer["overfull"]) == (2, 1, 1)
    assert answer["largest"][0]["name"] == "orders.eu"
    assert answer["versions"] == {str(policy("orders.>")): None}


def test_preview_has_the_time_until_a_growing_queue_is_full(world):
    made = filled(world, "orders", 10, capacity_messages=110)
    made.rate_in, made.rate_out = 30.0, 20.0
    answer = preview(world, change(queue("orders"), capacity_messages=60))["largest"][0]
    assert (answer["before"]["full_in_ms"], answer["after"]["full_in_ms"]) == (10_000, 5_000)


def test_several_changes_are_previewed_together(world):
    filled(world, "orders", 10)
    answer = preview(
        world,
        change(HOST, capacity_messages=5),
        change(policy("orders"), "create", capacity_messages=50),
    )
    assert (answer["changed"], answer["overfull"]) == (1, 0)
    assert answer["largest"][0]["changes"]["capacity_messages"]["after_origin"] == "pattern orders"


def test_number_of_listed_queues_is_bounded_with_the_largest_impact_first(world):
    for n in range(5):
        filled(world, f"q{n}", n)
    answer = preview(world, change(BROKER, capacity_messages=2), largest=2)
    assert (answer["changed"], answer["overfull"]) == (5, 2)
    assert [each["name"] for each in answer["largest"]] == ["q4", "q3"]


@pytest.mark.parametrize(
    ("each", "error", "words"),
    [
        (change(queue("orders"), capacity_messages=-1), InvalidValue, "capacity_messages is -1"),
        (change(queue("orders"), colour="red"), InvalidValue, "colour is not an attribute"),
        (change(HOST, anonymous=True), InvalidValue, "anonymous is no policy field"),
        (change(queue("orders"), flow_stop_messages=11), InvalidValue, "capacity_messages is 10"),
        (change(HOST, flow_resume_messages="90%", flow_stop_messages="50%"), InvalidValue, "flow_resume_messages"),
        (change(queue("nowhere")), NotFound, "nowhere"),
        (change(policy("a.>.b"), "create"), InvalidValue, "last word"),
        (change(policy("orders"), "create"), AlreadyExists, "orders"),
        (change(policy("unknown"), "delete"), NotFound, "unknown"),
        (change(queue("orders"), "delete"), InvalidValue, "delete"),
        (change(object_name("Connection", virtualhost="default", id=1)), NotAllowed, "connection"),
        ({**change(queue("orders")), "version": 99}, StaleVersion, "99"),
        ({"object": "x"}, InvalidValue, "'x'"),
        ({"objects": 5}, InvalidValue, "objects is 5"),
        ({"objects": {str(queue("orders")): 99}}, StaleVersion, "99"),
        (["x"], InvalidValue, "map"),
    ],
    ids=str,
)
def test_preview_refuses_what_the_change_would_be_refused_for(world, each, error, words):
    world.queue("orders", capacity_messages=10)
    make(world, change(policy("orders"), "create", capacity_messages=20))
    with pytest.raises(error, match=words):
        preview(world, each)


def test_change_of_many_objects_is_a_change_of_each(world):
    for name in ("a", "b", "c"):
        filled(world, name, 10)
    objects = {str(queue("a")): 1, str(queue("b")): None}
    answer = preview(world, {"objects": objects, "attributes": {"capacity_messages": 5}})
    assert (answer["queues"], answer["overfull"], set(answer["versions"])) == (2, 2, set(objects))


def test_refused_changes_are_listed_when_changes_are_made_one_by_one(world):
    filled(world, "a", 10)
    filled(world, "b", 10, flow_stop_messages=50)
    changes = [change(queue(name), capacity_messages=5) for name in ("a", "b")]
    with pytest.raises(InvalidValue, match="queue default/b: flow_stop_messages is 50"):
        preview(world, *changes)
    answer = Management(world.broker).call(BROKER, "preview-change", {"changes": changes, "one_by_one": True})
    assert (answer["changed"], answer["overfull"], answer["refused"]) == (1, 1, 1)
    assert answer["refusals"][0]["object"] == str(queue("b"))
    assert "flow_stop_messages is 50" in answer["refusals"][0]["detail"]


def test_default_that_contradicts_a_queue_names_the_queue(world):
    world.queue("orders", flow_stop_messages=50)
    with pytest.raises(InvalidValue, match="queue default/orders"):
        preview(world, change(HOST, capacity_messages=10))


def test_every_scope_explains_its_own_and_inherited_fields(world):
    management = Management(world.broker)
    make(world, change(BROKER, capacity_messages=1), change(HOST, capacity_bytes=2))
    make(world, change(policy("orders"), "create", capacity_messages=3))
    answer = management.call(policy("orders"), "explain", {})
    assert answer["fields"]["capacity_messages"] == {"value": 3, "origin": "pattern orders"}
    assert answer["inherited"]["capacity_messages"] == {"value": 1, "origin": "broker"}
    assert answer["fields"]["capacity_bytes"] == {"value": 2, "origin": "virtualhost"}
    assert management.call(HOST, "explain", {})["inherited"]["capacity_bytes"]["origin"] == "built-in"
    assert management.call(BROKER, "explain", {})["fields"]["capacity_messages"]["origin"] == "broker"


NAMES = ("orders.eu", "orders.us", "a")
SCOPES = [BROKER, HOST, *map(queue, NAMES), policy("orders.>"), policy("*")]
capacities = st.one_of(st.none(), st.integers(0, 12))


@given(
    st.lists(
        st.tuples(st.sampled_from(SCOPES), capacities, st.sampled_from([None, "block", "reject"])),
        min_size=1,
        max_size=4,
        unique_by=lambda each: each[0],
    ),
    st.lists(st.integers(0, 15), min_size=3, max_size=3),
)
@settings(max_examples=60)
def test_preview_agrees_with_the_effect_of_the_changes(planned, depths):
    world = Simulation()
    for name, depth in zip(NAMES, depths, strict=True):
        filled(world, name, depth)
    make(world, change(policy("orders.>"), "create", capacity_messages=7), change(policy("*"), "create"))
    changes = [change(name, capacity_messages=capacity, mechanism=how) for name, capacity, how in planned]
    before = {
        q.name: (explain(q.gate.settings), q.gate.state, q.gate.blocked_producers) for q in world.host.queues.values()
    }
    try:
        answer = preview(world, *changes)
    except AdminError:
        return
    assert {
        q.name: (explain(q.gate.settings), q.gate.state, q.gate.blocked_producers) for q in world.host.queues.values()
    } == before
    make(world, *changes)
    after = {q.name: q for q in world.host.queues.values()}
    named = {each["name"]: each for each in answer["largest"]}
    for name, (fields, state, blocked) in before.items():
        now = explain(after[name].gate.settings)
        differing = {f for f in now if now[f]["value"] != fields[f]["value"]}
        assert set(named.get(name, {"changes": {}})["changes"]) == differing
        if name in named:
            assert named[name]["before"]["state"] == state.value
            assert named[name]["before"]["blocked_producers"] == blocked
            for field, values in named[name]["changes"].items():
                assert values["after"] == now[field]["value"]
    assert answer["changed"] == len(named)
