"""Why producers of other kinds of brokers are blocked: from their recorded answers, as the page and the API show it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from brokers.adapters import activemq_reading, artemis_limits
from brokers.adapters import artemis_reading as artemis
from brokers.adapters import rabbitmq_reading as rabbitmq
from brokers.adapters.activemq import CAPABILITIES as OF_ACTIVEMQ
from brokers.adapters.artemis import CAPABILITIES as OF_ARTEMIS
from brokers.adapters.capabilities import types_of
from brokers.adapters.explanation import explain
from brokers.adapters.inventory import Inventory
from brokers.adapters.observation import Observation
from brokers.adapters.rabbitmq import RabbitMq
from brokers.admin import ManagedObject, NotFound, Page
from brokers.engine.management.queries import Query
from brokers.model import ManagedType, ObjectName, object_name
from console.cli import output
from console.conditions.detectors import broker_findings
from console.incident.facts import read
from console.incident.why import explanation
from tests.adapters.fake import BROKER, queue_name
from tests.adapters.test_artemis_reading import Scene, settings
from tests.adapters.test_rabbitmq_reading import answer

HOST = object_name("VirtualHost", name="/")
NODE = "test@localhost"


class Recorded:
    """A BrokerAdmin of objects as they were read, as the core of the adapters answers for them."""

    def __init__(self, types: Mapping[str, ManagedType], objects: Mapping[ObjectName, Mapping[str, Any]]) -> None:
        self._inventory = Inventory(types)
        self._inventory.apply(Observation(1_000, objects))

    async def types(self) -> Mapping[str, ManagedType]:
        return self._inventory.types

    async def read(self, name: ObjectName) -> ManagedObject:
        return self._inventory.read(name)

    async def query(
        self,
        type_name: str,
        *,
        where: Mapping[str, Any] | None = None,
        search: str = "",
        sort: str = "",
        offset: int = 0,
        count: int = 100,
    ) -> Page:
        return self._inventory.query(type_name, Query(where, search, sort, offset, count))

    async def call(self, name: ObjectName, operation: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        if self._inventory.types[name.type].operation(operation) is None:
            raise NotFound(operation)
        return explain(self._inventory.types[name.type], self._inventory.objects[name])


async def why(admin: Recorded, name: ObjectName) -> dict[str, Any]:
    facts = await read(admin, name)  # type: ignore[arg-type]
    assert facts is not None
    return explanation(facts)


def of_rabbitmq(*alarms: str, connections: str = "connections", **orders: Any) -> Recorded:
    queues = rabbitmq.queues_of(answer("queues")["items"], rabbitmq.by_name(answer("policies")))
    clients = rabbitmq.connections_of(answer(connections), rabbitmq.publishing(answer("channels")), alarms)
    broker = rabbitmq.broker_of(answer("overview"), answer("nodes"), alarms, 0)
    full = queue_name("orders", "/")
    queues[full] = {**queues[full], **orders}
    return Recorded(RabbitMq.types, {**queues, **clients, BROKER: broker, HOST: {"name": "/"}})


async def test_queue_of_rabbitmq_that_refuses_is_explained_with_the_policy_that_limits_it() -> None:
    found = await why(of_rabbitmq(), queue_name("orders", "/"))
    assert found["summary"] == (
        "Queue orders is overfull but blocks no producers: its mechanism is reject. It refuses what they send."
    )
    (cause,) = found["causes"]
    assert (cause["kind"], cause["blocks"], cause["mechanism"]) == ("queue", False, "reject")
    (limit,) = cause["limits"]
    assert (limit["depth"], limit["stop"], limit["effective"]) == (5, 5, True)
    assert limit["fields"][0] == {
        "field": "capacity_messages",
        "value": 5,
        "origin": "pattern ^orders$",
        "origin_object": str(object_name("Policy", virtualhost="/", pattern="^orders$")),
    }
    assert (found["producers_total"], found["producers"]) == (None, []), "unknown, and not none"
    assert "This broker does not report to which queues a producer sends." in found["notes"]
    assert found["consumers_total"] is not None


async def test_command_line_says_what_is_not_known(capsys: pytest.CaptureFixture[str]) -> None:
    output.why(await why(of_rabbitmq(), queue_name("orders", "/")))
    printed = capsys.readouterr().out
    assert "messages: 5 now; stops at 5, resumes below" in printed
    assert "capacity_messages = 5 from pattern ^orders$" in printed
    assert "Producers (not known)" in printed
    assert "This broker does not list consumers." in printed


async def test_alarm_of_rabbitmq_can_block_the_producers_of_every_queue() -> None:
    alarm = f"memory-overfull on {NODE}"
    found = await why(of_rabbitmq(alarm), queue_name("free", "/"))
    assert found["blocked"] is None
    assert found["summary"] == f"Producers can be blocked: node {NODE} is above its limit for memory."
    (cause,) = found["causes"]
    assert (cause["kind"], cause["node"], cause["used"], cause["limit"]) == ("memory", NODE, None, None)
    (finding,) = broker_findings({"shortages": [alarm], "memory_used_bytes": 1, "memory_limit_bytes": 100})
    assert (finding.kind, finding.severity) == ("near-limit", "trouble")
    assert finding.saw.startswith(f"Node {NODE} is above its limit for memory")


async def test_producer_of_rabbitmq_is_explained_without_its_queue() -> None:
    alarm = f"memory-overfull on {NODE}"
    admin = of_rabbitmq(alarm, connections="connections-alarm")
    producer = (await admin.query("Producer", where={"state": "BLOCKED"})).items[0].name
    found = await why(admin, producer)
    assert (found["queue"], found["blocked"]) == (None, True)
    assert found["summary"] == f"This producer is blocked: node {NODE} is above its limit for memory."
    assert [connection["object"] for connection in found["connections"]]
    running = await why(of_rabbitmq(), producer)
    assert running["summary"] == "This producer is not blocked."


async def test_stop_that_refuses_is_not_called_a_block() -> None:
    stop = {"scope": 'queue "/"/orders', "object": "x", "pattern": "", "reason": "flood", "actor": "ada", "since": 1,
            "until": None, "below": 0}  # fmt: skip
    found = await why(of_rabbitmq(overfull=False, stopped_since=1, stops=[stop]), queue_name("orders", "/"))
    assert found["summary"] == "What producers send to orders is refused: ada stopped the producers of queue /orders."
    (cause,) = found["causes"]
    assert (cause["blocks"], cause["effect"]) == (False, "reject")
    assert "refused" in cause["remark"]


def of_artemis(shortages: list[str] | None = None) -> Recorded:
    scene = Scene("2.55", "overfull")
    known = {match: settings("2.55", match) for match in ("#", "eu.#", "orders", "bills")}
    queues = {
        queue_name(name): {**queue, "origins": artemis_limits.origins("orders", known)}
        for name, queue in scene.queues.items()
    }
    broker = {**artemis.broker_of(scene.broker, 0), **({"shortages": shortages} if shortages else {})}
    host = object_name("VirtualHost", name=artemis.HOST)
    return Recorded(
        types_of(OF_ARTEMIS), {**queues, **dict(scene.producers), BROKER: broker, host: {"name": artemis.HOST}}
    )


async def test_full_address_of_artemis_is_explained_and_the_block_is_said_to_be_inferred() -> None:
    found = await why(of_artemis(), queue_name("orders"))
    assert found["summary"] == "1 producer is blocked: queue orders is overfull."
    (cause,) = found["causes"]
    assert (cause["blocks"], cause["mechanism"], cause["because"]) == (True, "block", "the queue has no consumers")
    (limit,) = cause["limits"]
    assert (limit["unit"], limit["stop"], limit["depth"] >= limit["stop"]) == ("bytes", 50_000, True)
    assert limit["fields"][0]["origin"] == "pattern #"
    assert any("inferred" in note and "no message since the last poll" in note for note in found["notes"])
    assert len(found["producers"]) == 1


async def test_full_disk_of_artemis_is_a_condition_without_numbers() -> None:
    (finding,) = broker_findings({"shortages": ["disk-overfull"]})
    assert finding.saw.startswith("The broker is above its limit for the disk in use")
    found = await why(of_artemis(["disk-overfull"]), queue_name("bills"))
    assert found["causes"][0]["title"] == "The broker is above its limit for the disk in use"


@pytest.mark.parametrize("reasons", [["connection-flow"], ["unknown: its session was not released"], ["nonsense"]])
async def test_reasons_that_no_object_explains_are_causes(reasons: list[str]) -> None:
    queue = str(queue_name("orders"))
    producer = object_name("Producer", virtualhost="default", id="p")
    objects = {
        queue_name("orders"): {"virtualhost": "default", "name": "orders", "depth_messages": 1, "overfull": False,
                               "blocked_producers": 1, "producers": 1},
        producer: {"virtualhost": "default", "id": "p", "queue": queue, "blocked": True, "reasons": reasons},
        object_name("VirtualHost", name="default"): {"name": "default"},
        BROKER: activemq_reading.broker_of({}, (), None, 0),
    }  # fmt: skip
    found = await why(Recorded(types_of(OF_ACTIVEMQ), objects), queue_name("orders"))
    (cause,) = found["causes"]
    assert (cause["kind"], cause["blocks"], cause["resume_ms"]) == ("reported", True, None)
    assert found["summary"].startswith("1 producer is blocked: ")


async def test_memory_of_activemq_blocks_with_its_numbers() -> None:
    said = {"MemoryLimit": 1000, "MemoryPercentUsage": 130, "StoreLimit": 0, "TempLimit": 0}
    broker = activemq_reading.broker_of(said, (), None, 0)
    objects = {
        queue_name("orders"): {"virtualhost": "default", "name": "orders", "depth_messages": 1, "overfull": False},
        object_name("VirtualHost", name="default"): {"name": "default"},
        BROKER: broker,
    }
    found = await why(Recorded(types_of(OF_ACTIVEMQ), objects), queue_name("orders"))
    (cause,) = found["causes"]
    assert (cause["kind"], cause["used"], cause["limit"]) == ("memory", 1300, 1000)
    (finding,) = broker_findings(broker)
    assert "130% of the limit" in finding.saw
