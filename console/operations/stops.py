"""Stop and start producers of a scope, tell beforehand what that would touch, and how far it has come."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from brokers.admin import InvalidValue, NotFound
from brokers.model import TYPES, ObjectName
from brokers.model.patterns import matches, pattern_fault
from console.access.actor import Actor
from console.links.queue_table import Row
from console.links.registry import BrokerLink
from console.operations.objects import call_operation

#: Queues that a preview names one by one.
_LARGEST = 5
#: Queues that can be stopped by their names in one go; more are better described by a pattern.
MOST_NAMED = 2000
#: Draining producers that are counted.
_MOST_DRAINING = 1000


@dataclass(frozen=True, slots=True)
class Aim:
    """Whose producers are meant: those of a Broker, VirtualHost, Exchange or Queue, of the queues that match `pattern`,
    or of `queues` alone (texts of object names; None: not told one by one)."""

    scope: ObjectName
    pattern: str = ""
    queues: tuple[str, ...] | None = None

    def check(self) -> None:
        """Raises InvalidValue."""
        operation = TYPES[self.scope.type].operation("stop-producers")
        if operation is None:
            raise InvalidValue(
                {"scope": f"scope is {self.scope}: it must be the broker, a virtual host, an exchange or a queue"}
            )
        takes = {argument.name for argument in operation.arguments}
        if self.pattern and "pattern" not in takes:
            raise InvalidValue({"pattern": f"pattern is {self.pattern!r}, but {self.scope} takes none: leave it empty"})
        if fault := pattern_fault(self.pattern):
            raise InvalidValue({"pattern": fault})
        if self.queues is None:
            return
        if "queues" not in takes or self.pattern:
            raise InvalidValue({"queues": "queues can only be named where the scope is the broker, without a pattern"})
        if not self.queues:
            raise InvalidValue({"queues": "no queue is named"})
        if len(self.queues) > MOST_NAMED:
            raise InvalidValue(
                {"queues": f"{len(self.queues):,} queues are named, of {MOST_NAMED:,} at most: use a pattern"}
            )

    def arguments(self) -> dict[str, Any]:
        return {
            **({"pattern": self.pattern} if self.pattern else {}),
            **({"queues": list(self.queues)} if self.queues is not None else {}),
        }

    def covers(self, row: Row) -> bool:
        scope = self.scope
        if self.queues is not None:
            return row["object"] in self.queues
        if scope.type == "Queue":
            return bool(row["object"] == str(scope))
        if scope.type == "Exchange":
            here = row["virtualhost"] == scope["virtualhost"]
            return here and any(binding["exchange"] == scope["name"] for binding in row.get("bindings", ()))
        if scope.type == "VirtualHost" and row["virtualhost"] != scope["name"]:
            return False
        return matches(self.pattern, row["name"])


def stop_producers(
    by: Actor, link: BrokerLink, aim: Aim, *, reason: str, for_ms: int = 0, below: int = 0
) -> Mapping[str, Any]:
    """Block every producer that is meant, for ever, for `for_ms`, or until the queues are down to `below` percent of
    their capacity. Safe to repeat. Returns what the operation declares."""
    aim.check()
    end = {**({"for_ms": for_ms} if for_ms else {}), **({"below": below} if below else {})}
    return call_operation(by, link, aim.scope, "stop-producers", {"reason": reason, **aim.arguments(), **end})


def start_producers(
    by: Actor,
    link: BrokerLink,
    aim: Aim,
    *,
    reason: str,
    only: bool = False,
    stage: Mapping[str, int] | None = None,
) -> Mapping[str, Any]:
    """Lift the stop, and unless `only` it is meant those inside it; overfull queues still hold their producers.
    `stage`: rate, step_ms and halt, as the operation declares them, for letting them in gradually. Returns what the
    operation declares."""
    aim.check()
    more = {**({"only": True} if only else {}), **{name: value for name, value in (stage or {}).items() if value}}
    return call_operation(by, link, aim.scope, "start-producers", {"reason": reason, **aim.arguments(), **more})


def preview_stop(link: BrokerLink, aim: Aim) -> dict[str, Any]:
    """What a stop would touch now: {queues, producers, already_stopped, percent_used, largest: [...]}, the latter the
    queues with the most producers; `percent_used` is the fullest queue's, None without a capacity. Changes nothing."""
    covered = _covered(link, aim)
    largest = heapq.nlargest(_LARGEST, covered, key=lambda row: (row["producers"], row["depth_messages"]))
    shown = ("object", "virtualhost", "name", "state", "depth_messages", "depth_bytes", "producers")
    return {
        "queues": len(covered),
        "producers": sum(row["producers"] for row in covered),
        "already_stopped": sum(row["state"].endswith("STOPPED") for row in covered),
        "percent_used": max((used for row in covered if (used := percent_used(row)) is not None), default=None),
        "largest": [{attribute: row[attribute] for attribute in shown} for row in largest],
    }


def progress(link: BrokerLink, aim: Aim) -> dict[str, int]:
    """How far a stop has come: {queues, producers, draining, stopped}. Draining: their credit is taken back, and what
    was on its way may still arrive."""
    covered = {row["object"]: row for row in _covered(link, aim)}
    where = {"draining": True}
    page = link.call(lambda admin: admin.query("Producer", where=where, sort="id", count=_MOST_DRAINING))
    draining = sum(1 for producer in page.items if producer["queue"] in covered)
    held = sum(row["producers"] for row in covered.values() if row["state"].endswith("STOPPED"))
    return {
        "queues": len(covered),
        "producers": sum(row["producers"] for row in covered.values()),
        "draining": draining,
        "stopped": max(0, held - draining),
    }


def percent_used(row: Row) -> int | None:
    """Of a queue's capacity, whichever of messages and bytes is used more; None without a capacity."""
    used = []
    for unit in ("messages", "bytes"):
        whole = row.get(f"effective_capacity_{unit}") or row.get(f"effective_stop_{unit}")
        if whole:
            used.append(int(100 * row[f"depth_{unit}"] / whole))
    return max(used, default=None)


def _covered(link: BrokerLink, aim: Aim) -> Sequence[Row]:
    aim.check()
    link.require_current()
    if aim.scope.type == "Queue" and link.queue(aim.scope) is None:
        raise NotFound(f"there is no queue {aim.scope['name']} in virtual host {aim.scope['virtualhost']}")
    if aim.queues is not None:
        return [row for name in dict.fromkeys(aim.queues) if (row := link.queue(name)) is not None]
    return [row for row in link.queues() if aim.covers(row)]
