"""Which limits queues of RabbitMQ would have after changes of policies, and where they come from.

The scene is that of the recorded answers (3.10.8, `test_rabbitmq_reading.py`): `orders` limited to 5 by a policy and
full, `bills` limited to 50 by an operator policy, `args` by its arguments, `ring` dropping from its head at 3.
"""

from __future__ import annotations

from typing import Any

import pytest

from brokers.adapters import rabbitmq_reading as reading
from brokers.adapters.explanation import explain
from brokers.adapters.inventory import version
from brokers.adapters.preview import preview
from brokers.adapters.rabbitmq import RabbitMq
from brokers.adapters.rabbitmq_limits import limits_after, merged
from brokers.adapters.rabbitmq_policies import limit_name, stop_name
from brokers.admin import AlreadyExists, InvalidValue, StaleVersion
from brokers.engine.management.policy_changes import PolicyChange
from brokers.model import ObjectName, object_name
from tests.adapters.fake import queue_name
from tests.adapters.test_rabbitmq_reading import answer

POLICIES = answer("policies")
OPERATOR = [
    {"vhost": "/", "name": "ops", "pattern": "^bills$", "apply-to": "queues", "priority": 0,
     "definition": {"max-length": 50}}
]  # fmt: skip
ORDERS, BILLS, FREE, ARGS, RING = (queue_name(name, "/") for name in ("orders", "bills", "free", "args", "ring"))


def scene(policies: list[Any] = POLICIES) -> dict[ObjectName, Any]:
    queues = reading.queues_of(answer("queues")["items"], reading.by_name(policies))
    return {**queues, **reading.policies_of(policies)}


def previewed(*changes: dict[str, Any], policies: list[Any] = POLICIES, **more: Any) -> Any:
    objects = scene(policies)
    given = {"changes": list(changes), **more}
    return preview(given, RabbitMq.types, objects, lambda c: limits_after(c, policies, OPERATOR, objects))


def after(answered: Any) -> dict[str, int]:
    return {each["name"]: each["after"]["effective_capacity_messages"] for each in answered["largest"]}


def policy(pattern: str) -> str:
    return str(object_name("Policy", virtualhost="/", pattern=pattern))


def test_each_limit_is_explained_by_what_sets_it() -> None:
    found = {
        name["name"]: explain(RabbitMq.types["Queue"], queue)["fields"]["capacity_messages"]
        for name, queue in scene().items()
        if name.type == "Queue"
    }
    assert found["orders"] == {"value": 5, "origin": "pattern ^orders$"}
    assert found["bills"] == {"value": 50, "origin": "operator policy ops"}
    assert found["args"] == {"value": 7, "origin": "argument x-max-length"}
    assert found["free"] == {"value": 0, "origin": "built-in"}


def test_of_several_policies_the_highest_priority_applies_as_a_whole() -> None:
    wide = {"object": policy("."), "action": "create", "attributes": {"capacity_bytes": 900, "priority": 99}}
    answered = previewed(wide, largest=50)
    impacts = {each["name"]: each["after"] for each in answered["largest"]}
    assert impacts["orders"]["effective_capacity_messages"] == 0, "the other one is gone as a whole"
    assert impacts["orders"]["effective_capacity_bytes"] == 900
    assert impacts["bills"]["effective_capacity_messages"] == 50, "and the operator policy is merged with it"
    low = previewed({**wide, "attributes": {"capacity_bytes": 900, "priority": 1}}, largest=50)
    assert "orders" not in after(low)
    assert low["queues"] > low["changed"]


def test_operator_policy_can_only_lower_a_limit() -> None:
    assert merged({"max-length": 9}, {"max-length": 50}) == {"max-length": 9}
    assert merged({"max-length": 90, "overflow": "reject-publish"}, {"max-length": 50}) == {
        "max-length": 50,
        "overflow": "reject-publish",
    }
    own = {"object": str(BILLS), "attributes": {"capacity_messages": 70}}
    assert previewed(own)["changed"] == 0, "50 by the operator policy is less"
    assert after(previewed({**own, "attributes": {"capacity_messages": 40}})) == {"bills": 40}
    argument = {"object": str(ARGS), "attributes": {"capacity_messages": 70}}
    assert previewed(argument)["changed"] == 0


def test_queue_that_would_refuse_publishers_becomes_overfull_and_blocks_none() -> None:
    raised = previewed({"object": str(ORDERS), "attributes": {"capacity_messages": 6}})
    assert (raised["overfull"], raised["released"], raised["held"]) == (0, 1, 0)
    (impact,) = raised["largest"]
    assert (impact["before"]["state"], impact["after"]["state"]) == ("OVERFULL", "NORMAL")
    assert impact["after"]["headroom_messages"] == 1
    assert impact["changes"]["capacity_messages"]["after_origin"] == "own"
    own = reading.by_name(POLICIES)
    assert ("/", limit_name("orders")) not in own, "a preview changes nothing"


def test_a_limit_that_is_taken_back_is_previewed_with_that_of_the_pattern() -> None:
    theirs = reading.by_name(POLICIES)["/", "limits"]
    own = {"vhost": "/", "name": limit_name("orders"), "pattern": r"\Aorders\z", "apply-to": "queues", "priority": 99,
           "definition": {**theirs["definition"], "max-length": 50}}  # fmt: skip
    objects = scene([*POLICIES, own])
    objects[ORDERS] = {**objects[ORDERS], "effective_capacity_messages": 50}
    found = limits_after(
        [PolicyChange(ORDERS, "update", {"capacity_messages": None}, None)], [*POLICIES, own], OPERATOR, objects
    )
    assert found[ORDERS]["effective_capacity_messages"] == 5
    assert found[ORDERS]["origins"]["capacity_messages"] == "pattern ^orders$"


def test_a_policy_for_other_kinds_of_queues_is_previewed_as_one() -> None:
    policies = [{**each, "apply-to": "quorum_queues"} for each in POLICIES]
    (applies,) = [p for p in policies if p["name"] == "limits"]
    change = {"object": policy(applies["pattern"]), "attributes": {"capacity_messages": 2}}
    answered = after(previewed(change, policies=policies, largest=50))
    assert answered == {"orders": 0}, "it does not begin to apply to a classic queue"


def test_a_previewed_pattern_replaces_no_policy_of_its_name() -> None:
    named = {**reading.by_name(POLICIES)["/", "limits"], "name": "bills"}
    change = {"object": policy("bills"), "action": "create", "attributes": {"capacity_messages": 2}}
    assert "orders" not in after(previewed(change, policies=[named], largest=50))


def test_messages_that_would_be_dropped_are_counted() -> None:
    depth = scene()[ORDERS]["depth_messages"]
    attributes = {"capacity_messages": 2, "overflow": "ring"}
    answered = previewed({"object": str(ORDERS), "attributes": attributes})
    assert answered["dropped"] == depth - 2 > 0
    assert previewed({"object": str(ORDERS), "attributes": {"capacity_messages": 2}})["dropped"] == 0


def test_deleted_policy_uncovers_the_one_below_it() -> None:
    low = {"vhost": "/", "name": "low", "pattern": "^ord", "apply-to": "all", "priority": -5,
           "definition": {"max-length": 3, "overflow": "reject-publish"}}  # fmt: skip
    policies = [*POLICIES, low]
    (applies,) = [p for p in POLICIES if p["name"] == scene()[ORDERS]["policy"]]
    answered = previewed({"object": policy(applies["pattern"]), "action": "delete"}, policies=policies)
    assert after(answered)["orders"] == 3
    (impact,) = [each for each in answered["largest"] if each["name"] == "orders"]
    assert impact["changes"]["capacity_messages"]["after_origin"] == "pattern ^ord"


def test_policies_of_other_virtual_hosts_and_kinds_of_queues_do_not_apply() -> None:
    other = {"vhost": "other", "name": "x", "pattern": ".", "apply-to": "all", "priority": 999,
             "definition": {"max-length": 1}}  # fmt: skip
    quorum = {**other, "vhost": "/", "apply-to": "quorum_queues"}
    for policies in ([*POLICIES, other], [*POLICIES, quorum]):
        assert previewed({"object": str(FREE), "attributes": {}}, policies=policies)["changed"] == 0


@pytest.mark.parametrize("pattern", [r"\Aorders\z", "^ord", "rder", "^(orders|bills)$", "(?i)^ORDERS$"])
def test_patterns_are_searched_in_names(pattern: str) -> None:
    change = {"object": policy(pattern), "action": "create", "attributes": {"capacity_messages": 2, "priority": 50}}
    assert "orders" in after(previewed(change, largest=50))


def test_changes_that_would_be_refused_are_refused_in_the_preview() -> None:
    applies = next(p for p in POLICIES if p["name"] == scene()[ORDERS]["policy"])
    name = policy(applies["pattern"])
    with pytest.raises(AlreadyExists):
        previewed({"object": name, "action": "create", "attributes": {"capacity_messages": 2}})
    with pytest.raises(StaleVersion):
        previewed({"object": name, "attributes": {"capacity_messages": 2}, "version": 1})
    with pytest.raises(InvalidValue, match="at least one limit"):
        previewed({"object": policy("new"), "action": "create", "attributes": {}})
    with pytest.raises(InvalidValue, match="cannot be evaluated"):
        previewed({"object": policy("(?R)["), "action": "create", "attributes": {"capacity_messages": 2}})
    stop = {"vhost": "/", "name": stop_name("orders"), "pattern": "x", "apply-to": "queues", "priority": 9,
            "definition": {"max-length": 0}}  # fmt: skip
    change = {"object": str(ORDERS), "attributes": {"capacity_messages": 2}}
    with pytest.raises(InvalidValue, match="stopped"):
        previewed(change, policies=[*POLICIES, stop])
    other = {"object": str(FREE), "attributes": {"capacity_messages": 2}}
    answered = previewed(change, other, policies=[*POLICIES, stop], one_by_one=True)
    assert (answered["refused"], answered["changed"]) == (1, 1)
    assert answered["refusals"][0]["object"] == str(ORDERS)


def test_version_of_a_preview_is_that_of_the_present_object() -> None:
    objects = scene()
    answered = previewed({"objects": {str(ORDERS): None, str(FREE): None}, "attributes": {"capacity_messages": 9}})
    declared = RabbitMq.types["Queue"]
    assert answered["versions"] == {str(name): version(declared, objects[name]) for name in (ORDERS, FREE)}
    assert answered["queues"] == 2
