"""RabbitMQ's recorded answers (3.10.8, by the script of the tests against a real node), and the policies made of them.

The expectations are written from the scene in which they were recorded: `orders` limited to 5 by a policy and filled,
`bills` limited to 50 by an operator policy, `args` by its arguments, `ring` dropping from its head at 3, a quorum queue
and a stream, one client that publishes and one that does not.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.adapters import rabbitmq_policies as policies
from brokers.adapters import rabbitmq_reading as reading
from brokers.adapters.differences import facts
from brokers.adapters.http import JsonHttp
from brokers.adapters.inventory import Inventory
from brokers.adapters.observation import Observation
from brokers.adapters.rabbitmq import RabbitMq
from brokers.admin import NotAllowed
from brokers.engine.values.stops import Scope
from brokers.model import object_name
from tests.adapters.fake import queue_name

ANSWERS = Path(__file__).parent / "answers" / "rabbitmq-3.10"
ORDERS = queue_name("orders", "/")


def answer(name: str) -> Any:
    return json.loads((ANSWERS / f"{name}.json").read_text())


def queues() -> dict[str, Any]:
    found = reading.queues_of(answer("queues")["items"], reading.by_name(answer("policies")))
    return {name["name"]: values for name, values in found.items()}


def test_limits_are_the_least_of_arguments_policy_and_operator_policy() -> None:
    found = queues()
    limits = {name: values["effective_capacity_messages"] for name, values in found.items()}
    assert limits == {"orders": 5, "bills": 50, "args": 7, "ring": 3, "free": 0, "quorum": 0, "stream": 0}
    both = {
        "vhost": "/",
        "name": "q",
        "arguments": {"x-max-length": 7},
        "effective_policy_definition": {"max-length": 5},
    }
    ((_, values),) = reading.queues_of([both], {}).items()
    assert values["effective_stop_messages"] == 5


def test_full_queue_is_overfull_only_if_it_refuses() -> None:
    found = queues()
    assert {name for name, values in found.items() if values["overfull"]} == {"orders"}
    assert found["ring"]["overfull"] is False  # it loses its oldest
    assert (found["orders"]["depth_messages"], found["orders"]["depth_bytes"]) == (5, 500)
    assert (found["orders"]["overflow"], found["ring"]["overflow"]) == ("producers", "ring")


def test_quick_list_updates_depths_and_fullness() -> None:
    known = reading.queues_of(answer("queues")["items"], {})
    quick = [{**said, "messages": 4, "messages_ready": 4} for said in answer("queues-quick")]
    found = {name["name"]: values for name, values in reading.totals_of(quick, known).items()}
    assert found["orders"]["overfull"] is False
    assert found["orders"]["depth_messages"] == 4
    unknown = reading.totals_of(answer("queues-quick"), {})
    assert all("overfull" not in values for values in unknown.values())
    assert unknown[queue_name("stream", "/")]["depth_messages"] is None  # never 0


def test_older_depth_of_the_full_list_does_not_undo_that_of_the_quick_list() -> None:
    (listed,) = [each for each in answer("queues")["items"] if each["name"] == "orders"]
    older = {**listed, "messages": 1, "messages_ready": 1}
    known = reading.queues_of([listed], {})
    quick = reading.totals_of([{**listed, "messages": 50, "messages_ready": 50}], known)
    ((_, values),) = reading.queues_of([older], {}, reading.depths_in(quick)).items()
    assert (values["depth_messages"], values["ready_messages"]) == (50, 50)
    assert reading.depths_in(reading.totals_of([{**listed, "messages": None}], known)) == {}


def test_the_uptime_of_a_cluster_is_that_of_its_oldest_node() -> None:
    assert reading.uptime_of([{"uptime": 5}, {"uptime": 7}, {"name": "not running"}]) == 7
    assert reading.uptime_of([{"name": "not running"}]) is None


def test_unknown_depth_of_a_queue_whose_node_is_down_is_unknown() -> None:
    """Of a queue whose node is down there is only what the cluster knows of it, not what the queue reports."""
    known = ("name", "vhost", "durable", "auto_delete", "exclusive", "arguments", "type", "node")
    (listed,) = [each for each in answer("queues")["items"] if each["name"] == "orders"]
    down = {**{key: listed[key] for key in known}, "state": "down"}
    by_name = reading.by_name(answer("policies"))
    inventory = Inventory(RabbitMq.types)
    changes = [
        *inventory.apply(Observation(1_000, reading.queues_of([listed], by_name))),
        *inventory.apply(Observation(2_000, reading.queues_of([down], by_name))),
        *inventory.apply(Observation(2_500, reading.totals_of([down], reading.queues_of([listed], by_name)))),
    ]
    queue = inventory.objects[ORDERS]
    assert [queue[key] for key in ("depth_messages", "depth_bytes", "overfull", "state")] == [None, None, None, None]
    assert (queue["effective_capacity_messages"], queue["overflow"], queue["policy"]) == (5, "producers", "limits")
    changes += inventory.apply(Observation(3_000, reading.queues_of([listed], by_name)))
    kinds = [fact.kind for fact in facts(changes, 3_000, RabbitMq.types)]
    assert kinds == ["queue-created", "queue-overfull"]  # it was overfull throughout
    emptied = {**listed, "messages": 0, "messages_ready": 0}
    changes = inventory.apply(Observation(4_000, reading.queues_of([down], by_name)))
    changes += inventory.apply(Observation(5_000, reading.queues_of([emptied], by_name)))
    (event,) = facts(changes, 5_000, RabbitMq.types)
    assert (event.kind, event.attributes["overfull_ms"]) == ("queue-underfull", 4_000)


def test_own_limits_of_a_queue_that_has_not_reported_yet_are_those_of_its_policy() -> None:
    """A limit that was just set is read back at once."""
    new = {"vhost": "/", "name": "new", "durable": True, "arguments": {}, "type": "classic"}
    own = {"vhost": "/", "name": policies.limit_name("new"), "definition": {"max-length": 9, "overflow": "drop-head"}}
    ((_, values),) = reading.queues_of([new], reading.by_name([own])).items()
    assert (values["capacity_messages"], values["capacity_bytes"], values["overflow"]) == (9, None, "ring")
    ((_, values),) = reading.queues_of([new], {}).items()
    assert (values["capacity_messages"], "overflow" in values) == (None, False)


def test_a_stop_and_a_limit_of_a_queue_that_has_not_reported_yet_have_what_its_policy_has() -> None:
    adapter = RabbitMq(None, lambda: 1)  # type: ignore[arg-type]
    adapter._known.all = answer("policies")
    new = {"vhost": "/", "name": "orders", "durable": True, "arguments": {}, "type": "classic", "state": "running"}
    objects = reading.queues_of([new], {})
    ((target,),) = adapter.stop_targets([Scope("/", "orders")], objects).values()
    assert target.restore["definition"] == reading.by_name(answer("policies"))["/", "limits"]["definition"]


def test_policies_for_exchanges_and_headgates_own_are_not_shown() -> None:
    own = [{"vhost": "/", "name": policies.stop_name("a"), "pattern": "a", "definition": {"max-length": 0}}]
    found = reading.policies_of([*answer("policies"), *own])
    assert [(name["pattern"], values["capacity_messages"]) for name, values in found.items()] == [("^orders$", 5)]


def test_of_two_policies_with_one_pattern_the_one_that_applies_is_shown() -> None:
    two = [
        {"vhost": "/", "name": name, "pattern": "a", "priority": priority, "definition": {"max-length": priority}}
        for name, priority in (("high", 9), ("low", 1))
    ]
    ((_, values),) = reading.policies_of(two).items()
    assert values["capacity_messages"] == 9


def test_alarm_blocks_publishers_before_they_are_listed_as_blocked() -> None:
    alarms = reading.alarms_of(answer("alarms-memory"))
    assert alarms == ["memory-overfull on test@localhost"]
    assert reading.alarms_of(answer("alarms")) == []
    channels = answer("channels")
    for connections, expected in (
        ("connections-alarm-early", True),
        ("connections-alarm", True),
        ("connections", False),
    ):
        in_force = alarms if expected else []
        found = reading.connections_of(answer(connections), reading.publishing(channels), in_force)
        assert sorted(name.type for name in found) == ["Connection", "Connection", "Producer"]
        (producer,) = [values for name, values in found.items() if name.type == "Producer"]
        assert producer["blocked"] is expected
        assert producer["client"].endswith("(billing-app)")


def test_library_of_a_client_is_what_it_calls_itself() -> None:
    (one, *_) = answer("connections")
    for properties, expected in (
        (one["client_properties"], ("py-amqp", "5.4.2")),
        ({"product": "RabbitMQ", "version": "5.20.0"}, ("RabbitMQ", "5.20.0")),
        ({"product": ["odd"], "version": "9" * 500}, ("", "9" * 100)),
        (None, ("", "")),
    ):
        (values,) = reading.connections_of([{**one, "client_properties": properties}], (), []).values()
        assert (values["product"], values["product_version"]) == expected


def test_internal_flow_control_blocks_and_other_protocols_are_not_blocked_by_the_alarm() -> None:
    publishing = reading.publishing(answer("channels"))
    connections = answer("connections")
    for changed, expected in (({"state": "flow"}, True), ({"protocol": "AMQP 1.0"}, False), ({"state": None}, None)):
        alarms = ["memory-overfull on x"] if "protocol" in changed else []
        found = reading.connections_of([{**each, **changed} for each in connections], publishing, alarms)
        assert [values["blocked"] for name, values in found.items() if name.type == "Producer"] == [expected]


def test_broker_is_the_sum_of_its_nodes() -> None:
    nodes = answer("nodes") * 2
    found = reading.broker_of(answer("overview"), nodes, [], 1_000_000)
    assert found["product_version"] == "3.10.8"
    assert found["memory_used_bytes"] == 2 * answer("nodes")[0]["mem_used"]
    assert found["started"] == 1_000_000
    assert reading.broker_of({}, [], [], None)["memory_used_bytes"] is None


@pytest.mark.parametrize("definition", [{}, {"max-length": 9}, {"overflow": "reject-publish-dlx", "message-ttl": 5}])
def test_stop_has_two_steps_and_copies_what_it_outranks(definition: dict[str, Any]) -> None:
    queue = queue_name("a.b", "/")
    first = policies.stop_policy(queue, definition, 7, length=False)
    second = policies.stop_policy(queue, definition, 7, length=True)
    assert first["definition"].get("max-length") == definition.get("max-length")
    assert first["definition"]["overflow"] in reading.REJECTING
    assert second["definition"] == {**first["definition"], "max-length": 0}
    assert definition.items() - {("overflow", None), *second["definition"].items()} <= {("max-length", 9)}
    assert first["priority"] == 8
    assert policies.stop_policy(queue, {}, 2**31 - 1, length=True)["priority"] == 2**31 - 1


def test_queue_that_would_lose_its_messages_cannot_be_stopped() -> None:
    faults = {name: policies.stop_fault(values) for name, values in queues().items()}
    assert {name for name, fault in faults.items() if fault} == {"ring", "stream"}
    assert "would delete all its messages" in faults["ring"]


def test_removed_limits_leave_no_policy() -> None:
    queue = queue_name("a", "/")
    below = {"message-ttl": 5}
    made = policies.limit_policy(queue, None, below, {"capacity_messages": 4, "overflow": "producers"}, 3)
    assert made is not None
    assert made["definition"] == {"message-ttl": 5, "max-length": 4, "overflow": "reject-publish"}
    cleared = {"capacity_messages": None, "overflow": None}
    assert policies.limit_policy(queue, made["definition"], below, cleared, 3) is None
    assert policies.limit_policy(queue, None, {}, {"capacity_messages": 0}, 3) is None  # 0 is no limit


BELOW = {"max-length": 100, "max-length-bytes": 900, "overflow": "reject-publish", "dead-letter-exchange": "dlx"}


@pytest.mark.parametrize(
    ("attributes", "definition"),
    [
        ({"capacity_messages": None}, None),  # nothing of its own is left
        ({"capacity_messages": None, "overflow": "ring"}, {**BELOW, "overflow": "drop-head"}),
        ({"capacity_bytes": None}, {**BELOW, "max-length": 50}),  # a copy of the other one's
        ({"overflow": None}, {**BELOW, "max-length": 50}),
        ({"capacity_messages": 100}, BELOW),  # set by a user: also if the policy below is changed later
        ({"capacity_messages": 0}, {key: BELOW[key] for key in BELOW if key != "max-length"}),
        (
            {"capacity_messages": 0, "capacity_bytes": 0, "overflow": None},
            {"dead-letter-exchange": "dlx", "overflow": "reject-publish"},
        ),
    ],
)
def test_a_limit_that_is_removed_is_that_of_the_policy_below_again(attributes: Any, definition: Any) -> None:
    queue = queue_name("a", "/")
    own = policies.limit_policy(queue, None, BELOW, {"capacity_messages": 50}, 3)
    assert own is not None
    changed = policies.limit_policy(queue, own["definition"], BELOW, attributes, 3)
    assert (changed and changed["definition"]) == definition


def test_no_limit_at_all_outranks_the_limit_of_the_policy_below() -> None:
    made = policies.limit_policy(queue_name("a", "/"), None, {"max-length": 9}, {"capacity_messages": 0}, 3)
    assert made is not None
    assert made["definition"] == {"overflow": "drop-head"}


@given(st.text(min_size=1, max_size=12), st.text(max_size=12))
def test_pattern_of_a_queue_matches_exactly_it(name: str, other: str) -> None:
    """Python's patterns are near enough to Erlang's for what is escaped here."""
    pattern = re.compile(policies.exactly(name).replace(r"\z", r"\Z"))
    assert pattern.search(name)
    assert bool(pattern.search(other)) is (other == name)


@pytest.mark.parametrize("definition", [{"max-length": 5}, {"max-length": 5, "dead-letter-exchange": "dlx"}])
async def test_a_policy_with_more_than_limits_is_not_deleted(definition: dict[str, Any]) -> None:
    sent: list[str] = []

    class Http:
        async def request(self, method: str, path: str, **_: Any) -> None:
            sent.append(f"{method} {path}")

    name = object_name("Policy", virtualhost="/", pattern="^a")
    objects = {name: {"policy_name": "p 1", "definition": definition}}
    adapter = RabbitMq(Http(), lambda: 0)  # type: ignore[arg-type]
    if len(definition) == 1:
        await adapter.delete(name, objects)
        assert sent == ["DELETE /policies/%2F/p%201"]
    else:
        with pytest.raises(NotAllowed, match="also has dead-letter-exchange"):
            await adapter.delete(name, objects)
        assert sent == []


@pytest.mark.parametrize("user", [*answer("refused")])
def test_user_who_lacks_a_permission_is_not_reported_as_a_wrong_password(user: str) -> None:
    """RabbitMQ answers 401 in both cases."""
    text = json.dumps(answer("refused")[user])
    with pytest.raises(NotAllowed) as refused:
        JsonHttp("http://127.0.0.1:15672/api", "ada", "secret").read("PUT", "/policies/%2F/orders", 401, text)
    if user == "wrong password":
        assert str(refused.value) == "http://127.0.0.1:15672/api does not accept the user name and password"
    else:
        assert f"the user lacks a permission: {answer('refused')[user]['reason']}" in str(refused.value)
