"""Rows of brokers that do not report everything: nothing fails, nothing unknown is shown as 0."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from brokers.admin import SAMPLED
from brokers.drivers.bundled import _object
from brokers.model import TYPES
from console.alerts.models import Rule
from console.alerts.queue_conditions import QUEUE_CONDITIONS, Known, matching_conditions
from console.conditions.detectors import Observation, queue_findings
from console.conditions.trends import Rates
from console.live.overview import View, totals

NAME = "type=Queue,virtualhost=/,name=orders"
#: What RabbitMQ reports of a queue, and of one whose node is down.
REPORTED = {"virtualhost": "/", "name": "orders", "state": "OVERFULL", "depth_messages": 5, "consumers": 0}
SILENT = {"virtualhost": "/", "name": "bills"}


def row(reported: dict[str, Any]) -> dict[str, Any]:
    found = _object({"object": NAME, "version": 1, **reported})
    return {"object": NAME, **found.attributes}


def test_attributes_that_a_broker_lacks_are_unknown() -> None:
    found = _object({"object": NAME, "version": 7, **REPORTED})
    assert {a.name for a in TYPES["Queue"].attributes} <= set(found.attributes)
    assert (found["state"], found["blocked_producers"], found.version) == ("OVERFULL", None, 7)


@pytest.mark.parametrize("reported", [REPORTED, SILENT])
def test_conditions_of_partly_unknown_queues(reported: dict[str, Any]) -> None:
    rates = Rates(5.0, 1.0, 100.0, observed_ms=60_000)
    for rates_ in (Rates(), rates):
        findings = list(queue_findings(row(reported), Observation(0, rates_, overfull=(1, 2, 3, 4))))
        if reported is SILENT:
            assert not findings


@pytest.mark.parametrize("reported", [REPORTED, SILENT])
def test_alert_rules_on_partly_unknown_queues(reported: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.alerts.queue_conditions.within", lambda *_: True)
    rule: Any = SimpleNamespace(enabled=True, kinds=list(QUEUE_CONDITIONS), depth=3, depth_percent=80, message_age=60)
    found = {each.kind: each.saw for each in matching_conditions(rule, "rabbit", [row(reported)], Known())}
    if reported is SILENT:
        assert not found
    else:
        assert set(found) == {"overfull", "depth-above"}
        assert "blocked producers: unknown" in found["overfull"]
    assert Rule  # what the stand-in stands for


def test_overview_sums_what_is_known() -> None:
    rows = [row(REPORTED), row(SILENT)]
    summed = totals({"product": "RabbitMQ"}, rows)
    assert (summed["depth_messages"], summed["consumers"], summed["blocked_producers"]) == (5, 0, None)
    assert (summed["queues"], summed["overfull_queues"], summed["stopped_queues"]) == (2, 1, 0)
    view = View({}, rows)
    assert view.by_severity[0]["name"] in ("orders", "bills")
    assert [len(view.matching("ord", states)) for states in ((), ("OVERFULL",), ("NORMAL",))] == [1, 1, 0]
    assert set(SAMPLED) <= set(rows[0])
