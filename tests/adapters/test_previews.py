"""Where limits come from, and what changes of them would do, for Artemis, ActiveMQ Classic and Broker-J: from their
recorded answers. RabbitMQ's are in `test_rabbitmq_limits.py`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from brokers.adapters import activemq_reading, artemis_limits, broker_j_reading
from brokers.adapters.activemq import CAPABILITIES as OF_ACTIVEMQ
from brokers.adapters.artemis import CAPABILITIES as OF_ARTEMIS
from brokers.adapters.broker_j import capabilities
from brokers.adapters.broker_j_limits import RESUME
from brokers.adapters.broker_j_reading import Hosts
from brokers.adapters.capabilities import types_of
from brokers.adapters.explanation import explain
from brokers.adapters.preview import Plan, preview
from brokers.admin import InvalidValue
from brokers.model import ManagedType, ObjectName, object_name
from tests.adapters.fake import BROKER, queue_name
from tests.adapters.test_artemis_reading import Scene, settings

Objects = Mapping[ObjectName, Mapping[str, Any]]
ORDERS = queue_name("orders")


def previewed(types: Mapping[str, ManagedType], objects: Objects, plan: Plan, name: ObjectName, **given: Any) -> Any:
    return preview({"changes": [{"object": str(name), "attributes": given}], "largest": 50}, types, objects, plan)


def origins(types: Mapping[str, ManagedType], queue: Mapping[str, Any]) -> dict[str, Any]:
    return {field: said["origin"] for field, said in explain(types["Queue"], queue)["fields"].items()}


# -- Artemis --------------------------------------------------------------------------------------------------------

ARTEMIS = types_of(OF_ARTEMIS)
#: All addresses block at 50,000 bytes, `eu.#` at 30,000, and `bills` pages above 7 messages.
SETTINGS = {match: settings("2.55", match) for match in ("#", "eu.#", "eu.mail", "orders", "bills")}


def of_artemis() -> dict[ObjectName, Any]:
    queues = Scene("2.55", "overfull").queues
    found: dict[ObjectName, Any] = {}
    for name in ("orders", "bills", "eu.mail"):
        found[queue_name(name)] = {
            **queues[name],
            **SETTINGS[name].own_limits(),
            **SETTINGS[name].levels(),
            "effective_fields": SETTINGS[name].effective,
            "origins": artemis_limits.origins(name, SETTINGS),
        }
    for match in ("#", "eu.#"):
        found[match_name(match)] = {"virtualhost": "default", "pattern": match, **SETTINGS[match].own_limits()}
    return found


def match_name(match: str) -> ObjectName:
    return object_name("Policy", virtualhost="default", pattern=match)


def of_match(name: ObjectName, **given: Any) -> Any:
    objects = of_artemis()
    return previewed(ARTEMIS, objects, lambda c: artemis_limits.limits_after(c, SETTINGS, objects), name, **given)


def after(answered: Any, field: str = "capacity_bytes") -> dict[str, Any]:
    return {each["name"]: each["changes"][field]["after"] for each in answered["largest"] if field in each["changes"]}


def test_setting_of_artemis_comes_from_the_most_specific_match_that_sets_it() -> None:
    found = {name["name"]: origins(ARTEMIS, queue) for name, queue in of_artemis().items() if name.type == "Queue"}
    assert found["orders"]["capacity_bytes"] == found["orders"]["mechanism"] == "pattern #"
    assert found["eu.mail"]["capacity_bytes"] == "pattern eu.#"
    assert found["eu.mail"]["mechanism"] == "pattern #"
    assert found["bills"]["capacity_messages"] == found["bills"]["mechanism"] == "own"
    assert found["orders"]["capacity_messages"] == "built-in"


def test_change_of_a_match_reaches_the_addresses_that_do_not_override_it() -> None:
    assert after(of_match(match_name("#"), capacity_bytes=90_000)) == {"orders": 90_000, "bills": 90_000}
    assert after(of_match(match_name("eu.#"), capacity_bytes=20_000)) == {"eu.mail": 20_000}
    assert after(of_match(match_name("eu.#"), capacity_bytes=None)) == {"eu.mail": 50_000}
    assert of_match(match_name("#"), capacity_bytes=90_000)["queues"] == 3
    assert after(of_match(ORDERS, capacity_bytes=60_000)) == {"orders": 60_000}
    assert after(of_match(queue_name("bills"), capacity_messages=None), "capacity_messages") == {"bills": 0}


def test_full_address_that_gets_more_room_unblocks_its_producers_and_one_with_less_blocks_them() -> None:
    raised = of_match(ORDERS, capacity_bytes=100_000)
    assert (raised["released"], raised["freed"], raised["held"], raised["overfull"]) == (1, 1, 0, 0)
    pages = of_match(ORDERS, spool="disk")
    assert (pages["released"], pages["freed"]) == (1, 1)
    assert pages["largest"][0]["changes"]["mechanism"] == {
        "before": "block", "before_origin": "pattern #", "after": None, "after_origin": "own"
    }  # fmt: skip
    objects = of_artemis()
    objects[ORDERS] = {**objects[ORDERS], "overfull": False, "blocked_producers": 0, "address_bytes": 40_000}
    plan = lambda c: artemis_limits.limits_after(c, SETTINGS, objects)  # noqa: E731
    lowered = previewed(ARTEMIS, objects, plan, ORDERS, capacity_bytes=30_000)
    assert (lowered["overfull"], lowered["held"]) == (1, 1)


# -- ActiveMQ Classic -----------------------------------------------------------------------------------------------

ACTIVEMQ = types_of(OF_ACTIVEMQ)


def of_activemq(**said: Any) -> dict[ObjectName, Any]:
    queue = {"Name": "orders", "MemoryLimit": 50_000, "MemoryUsageByteCount": 40_000, "ProducerFlowControl": True,
             "MemoryPercentUsage": 80, "ProducerCount": 3, **said}  # fmt: skip
    found = activemq_reading.queues_of([queue], {})
    broker = activemq_reading.broker_of({"MemoryLimit": 1_000_000}, (), None, 0)
    return {**activemq_reading.count_blocked(found, {}), BROKER: broker}


def of_limit(objects: Objects, **given: Any) -> Any:
    plan = lambda c: activemq_reading.limits_after(c, objects, objects[BROKER])  # noqa: E731
    return previewed(ACTIVEMQ, objects, plan, ORDERS, **given)


def test_memory_limit_of_activemq_is_its_own_or_the_brokers() -> None:
    assert origins(ACTIVEMQ, of_activemq()[ORDERS])["capacity_bytes"] == "own"
    follows = of_activemq(MemoryUsagePortion=1.0)[ORDERS]
    assert origins(ACTIVEMQ, follows)["capacity_bytes"] == "broker"
    cleared = of_limit(of_activemq(), capacity_bytes=None)["largest"][0]["changes"]["capacity_bytes"]
    assert (cleared["after"], cleared["after_origin"]) == (1_000_000, "broker")


def test_lower_limit_of_activemq_than_its_memory_blocks_its_producers() -> None:
    lowered = of_limit(of_activemq(), capacity_bytes=30_000)
    assert (lowered["overfull"], lowered["held"]) == (1, 3)
    assert of_limit(of_activemq(), capacity_bytes=0)["overfull"] == 0
    assert of_limit(of_activemq(ProducerFlowControl=False), capacity_bytes=30_000)["overfull"] == 0
    with pytest.raises(InvalidValue, match="stopped"):
        of_limit(of_activemq(MemoryLimit=1), capacity_bytes=30_000)


# -- Broker-J -------------------------------------------------------------------------------------------------------

BROKER_J = types_of(capabilities(lists_producers=True))
HOSTS = Hosts({"default": ("default", "default")}, {"default": ({}, {RESUME: "70"})}, {})


def of_broker_j(
    policy: str, maximum: int, depth: int, *, blocks: bool = False, **context: str
) -> dict[ObjectName, Any]:
    row = dict.fromkeys(broker_j_reading.FULL) | {
        "name": "orders", "$parent.name": "default", "$parent.$parent.name": "default", "overflowPolicy": policy,
        "maximumQueueDepthMessages": maximum, "maximumQueueDepthBytes": -1, "queueFlowStopped": blocks,
        "queueDepthMessages": depth, "queueDepthBytes": 100 * depth, "producerCount": 2, "context": context,
    }  # fmt: skip
    found = broker_j_reading.queues_of([row], HOSTS, {})
    return {name: {**queue, "blocked_producers": 2 if blocks else 0} for name, queue in found.items()}


def of_depth(objects: Objects, **given: Any) -> Any:
    plan = lambda c: broker_j_reading.limits_after(c, objects, HOSTS)  # noqa: E731
    return previewed(BROKER_J, objects, plan, ORDERS, **given)


def test_resume_level_of_broker_j_comes_from_the_context_that_sets_it() -> None:
    around = of_broker_j("PRODUCER_FLOW_CONTROL", 10, 3)[ORDERS]
    assert origins(BROKER_J, around)["flow_resume_messages"] == "broker"
    own = of_broker_j("PRODUCER_FLOW_CONTROL", 10, 3, **{RESUME: "50"})[ORDERS]
    assert origins(BROKER_J, own)["flow_resume_messages"] == "own"
    assert origins(BROKER_J, own)["capacity_messages"] == "own"
    assert origins(BROKER_J, of_broker_j("NONE", -1, 3)[ORDERS])["capacity_messages"] == "built-in"


def test_queue_of_broker_j_blocks_above_its_maximum_until_its_resume_level() -> None:
    objects = of_broker_j("PRODUCER_FLOW_CONTROL", 10, 9)
    assert of_depth(objects, capacity_messages=9)["overfull"] == 0, "at the maximum it does not block yet"
    lowered = of_depth(objects, capacity_messages=8)
    assert (lowered["overfull"], lowered["held"]) == (1, 2)
    full = of_broker_j("PRODUCER_FLOW_CONTROL", 10, 9, blocks=True)
    assert of_depth(full, capacity_messages=11)["released"] == 0, "9 are above the resume level of 8"
    assert of_depth(full, capacity_messages=20)["freed"] == 2
    assert of_depth(full, flow_resume_messages="90%")["released"] == 1
    with pytest.raises(InvalidValue, match="percentage"):
        of_depth(full, flow_resume_messages=5)


def test_ring_of_broker_j_would_drop_what_is_above_its_limit() -> None:
    answered = of_depth(of_broker_j("NONE", -1, 9), capacity_messages=4, overflow="ring")
    assert (answered["dropped"], answered["overfull"]) == (5, 0)
