"""Stop and start producers of a scope, and tell beforehand what a stop would touch."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from typing import Any

from brokers.admin import InvalidValue, NotFound
from brokers.managed import TYPES, ObjectName
from brokers.patterns import matches, pattern_fault
from console.brokers import BrokerLink
from console.links.queue_table import Row
from console.operations.actor import Actor
from console.operations.objects import call_operation

#: Queues that a preview names one by one.
_LARGEST = 5


def stop_producers(
    by: Actor, link: BrokerLink, scope: ObjectName, *, reason: str, pattern: str = ""
) -> Mapping[str, Any]:
    """Block every producer of the scope (a Broker, VirtualHost, Exchange or Queue), of the queues that match the
    pattern. Returns {queues, producers, stopped, draining, changed}."""
    return call_operation(by, link, scope, "stop-producers", _arguments(scope, reason, pattern))


def start_producers(
    by: Actor, link: BrokerLink, scope: ObjectName, *, reason: str, pattern: str = ""
) -> Mapping[str, Any]:
    """Lift the stop of the scope; overfull queues still hold their producers. Returns the same."""
    return call_operation(by, link, scope, "start-producers", _arguments(scope, reason, pattern))


def preview_stop(link: BrokerLink, scope: ObjectName, *, pattern: str = "") -> dict[str, Any]:
    """What a stop of the scope would touch now: {queues, producers, already_stopped, largest: [...]}, the latter the
    queues with the most producers. Changes nothing."""
    _check(scope, pattern)
    if scope.type == "Queue" and link.queue(scope) is None:
        raise NotFound(f"there is no queue {scope['name']} in virtual host {scope['virtualhost']}")
    covered = [row for row in link.queues() if _covers(scope, pattern, row)]
    largest = heapq.nlargest(_LARGEST, covered, key=lambda row: (row["producers"], row["depth_messages"]))
    shown = ("object", "virtualhost", "name", "state", "depth_messages", "depth_bytes", "producers")
    return {
        "queues": len(covered),
        "producers": sum(row["producers"] for row in covered),
        "already_stopped": sum(row["state"].endswith("STOPPED") for row in covered),
        "largest": [{attribute: row[attribute] for attribute in shown} for row in largest],
    }


def _arguments(scope: ObjectName, reason: str, pattern: str) -> dict[str, Any]:
    _check(scope, pattern)
    return {"reason": reason, **({"pattern": pattern} if pattern else {})}


def _check(scope: ObjectName, pattern: str) -> None:
    operation = TYPES[scope.type].operation("stop-producers")
    if operation is None:
        raise InvalidValue(
            {"scope": f"scope is {scope}: it must be the broker, a virtual host, an exchange or a queue"}
        )
    if pattern and not any(argument.name == "pattern" for argument in operation.arguments):
        raise InvalidValue({"pattern": f"pattern is {pattern!r}, but {scope} takes none: leave it empty"})
    fault = pattern_fault(pattern)
    if fault:
        raise InvalidValue({"pattern": fault})


def _covers(scope: ObjectName, pattern: str, row: Row) -> bool:
    if scope.type == "Queue":
        return bool(row["object"] == str(scope))
    if scope.type == "Exchange":
        here = row["virtualhost"] == scope["virtualhost"]
        return here and any(binding["exchange"] == scope["name"] for binding in row.get("bindings", ()))
    if scope.type == "VirtualHost" and row["virtualhost"] != scope["name"]:
        return False
    return matches(pattern, row["name"])
