"""Advice of conditions and explanations: only what the broker can do, by its types."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from brokers.adapters.activemq import CAPABILITIES as OF_ACTIVEMQ
from brokers.adapters.artemis import CAPABILITIES as OF_ARTEMIS
from brokers.adapters.broker_j import capabilities as of_broker_j
from brokers.adapters.capabilities import types_of
from brokers.adapters.rabbitmq_capabilities import CAPABILITIES as OF_RABBITMQ
from brokers.model import TYPES, ManagedType
from console.conditions.detectors import (
    Finding,
    Observation,
    broker_findings,
    host_findings,
    queue_findings,
)
from console.conditions.remedies import ALL, Remedies
from console.incident.causes import causes_of
from console.incident.facts import Facts
from tests.console.incident.test_detectors import LIMITED, NOW, OVERFULL, rates
from tests.console.test_overview import row

KINDS: dict[str, Mapping[str, ManagedType]] = {
    "headgate": TYPES,
    "rabbitmq": types_of(OF_RABBITMQ),
    "artemis": types_of(OF_ARTEMIS),
    "activemq": types_of(OF_ACTIVEMQ),
    "broker-j": types_of(of_broker_j(lists_producers=True)),
    "read-only": {},
}

#: Values of a queue, and what is observed of it, with a finding each.
QUEUES: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = (
    (OVERFULL, {}),
    ({**LIMITED, "producers": 1, "blocked_producers": 1, "depth_messages": 5}, {}),
    (
        {**OVERFULL, "consumers": 1, "depth_messages": 90},
        {"rates": rates(0, 0)},
    ),
    ({**LIMITED, "effective_resume_messages": 95}, {"overfull": [NOW] * 4}),
    (LIMITED, {"overfull": [NOW] * 4}),
    ({**LIMITED, "depth_messages": 60, "producers": 1, "consumers": 1}, {"rates": rates(9, 1)}),
    ({"effective_capacity_messages": 10, "depth_messages": 20, "producers": 1}, {}),
    ({**LIMITED, "state": "OVERFULL", "depth_messages": 500, "producers": 1}, {"rates": rates(9, 1)}),
    ({"depth_messages": 5000, "producers": 1}, {"rates": rates(9, 1)}),
)
BROKERS: tuple[dict[str, Any], ...] = (
    {"memory_used_bytes": 90, "memory_limit_bytes": 100},
    {"shortages": ["memory-overfull on rabbit@one"]},
    {"shortages": ["disk-overfull"]},
)
HOSTS: tuple[dict[str, Any], ...] = (
    {"store_used_bytes": 90, "store_overfull_bytes": 100},
    {"store_overfull": True},
)


def findings(remedies: Remedies) -> list[Finding]:
    host = {"name": "default", "object": "type=VirtualHost,name=default"}
    return [
        *(f for v, seen in QUEUES for f in queue_findings(row("q", **v), Observation(NOW, **seen, remedies=remedies))),
        *(f for broker in BROKERS for f in broker_findings(broker, remedies)),
        *(f for values in HOSTS for f in host_findings({**host, **values}, remedies)),
    ]


def test_every_scene_has_a_finding() -> None:
    for values, seen in QUEUES:
        assert queue_findings(row("q", **values), Observation(NOW, **seen)), (values, seen)
    assert len(findings(ALL)) >= len(QUEUES) + len(BROKERS) + len(HOSTS)


@pytest.mark.parametrize("kind", KINDS)
def test_conditions_advise_only_what_the_broker_can_do(kind: str) -> None:
    types = KINDS[kind]
    operations = {(each.name, operation.name) for each in types.values() for operation in each.operations}
    settable = {a.name for each in types.values() for a in each.attributes if a.writable or a.creatable}
    needed = {
        "purge": ("Queue", "purge") in operations,
        "stop its producers": ("Queue", "stop-producers") in operations,
        "close the connections": ("Connection", "close") in operations,
        "raise the capacity": bool(settable & {"capacity_messages", "capacity_bytes"}),
        "set a capacity": bool(settable & {"capacity_messages", "capacity_bytes"}),
        "resume level": bool(settable & {"flow_resume_messages", "flow_resume_bytes"}),
        "pattern policy": "Policy" in types,
    }
    for finding in findings(Remedies.of(types)):
        assert finding.advice.endswith("."), finding
        assert finding.advice[0].isupper(), finding
        for words, possible in needed.items():
            assert possible or words not in finding.advice.casefold(), finding
        for name in re.findall(r"\b[a-z]+_[a-z_]+\b", finding.advice):
            assert name in settable, finding


def test_conditions_of_the_bundled_broker_name_all_its_remedies() -> None:
    advice = " ".join(finding.advice for finding in findings(ALL))
    for words in (
        "Purge the queue",
        "raise memory_limit",
        "raise store_overfull_bytes",
        "close the connections",
        "Lower it",
        "raise the capacity",
        "Turn on flow_control for the queue, or stop its producers",
        "Set a capacity, for example in a pattern policy",
    ):
        assert words in advice


@pytest.mark.parametrize("kind", KINDS)
def test_explanations_name_purging_only_where_queues_can_be_purged(kind: str) -> None:
    facts = Facts(
        queue=row("orders"),
        explain={},
        producers=[],
        producers_total=0,
        consumers=[],
        consumers_total=0,
        broker={"object": "type=Broker", "shortages": ["memory-overfull"]},
        host={
            "object": "type=VirtualHost,name=default",
            "name": "default",
            "store_overfull": True,
            "store_overfull_bytes": 100,
            "store_underfull_bytes": 80,
            "store_used_bytes": 90,
        },
    )
    causes = causes_of(replace(facts, remedies=Remedies.of(KINDS[kind])), rates())
    assert len(causes) == 2
    for cause in causes:
        assert "must be consumed" in cause["because"]
        assert ("purged" in cause["because"]) == (kind == "headgate")
