"""Stop and start the producers of a scope, preview the impact of a stop, and report its progress."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from brokers.admin import InvalidValue, NotFound
from brokers.model import TYPES, ObjectName
from brokers.model.patterns import matches, pattern_fault
from console.access.actor import Actor
from console.links.queue_table import Row
from console.links.registry import BrokerLink
from console.operations.objects import call_operation

#: Queues that a preview lists.
_LARGEST = 5
#: Queues that one call can stop by name.
MOST_NAMED = 2000
#: Draining producers that are counted.
_MOST_DRAINING = 1000


@dataclass(frozen=True, slots=True)
class Aim:
    """The queues whose producers are stopped or started: those of a Broker, VirtualHost, Exchange or Queue, restricted
    to names that match `pattern`, or to `queues` (texts of object names; None: no restriction)."""

    scope: ObjectName
    pattern: str = ""
    queues: tuple[str, ...] | None = None

    def check(self) -> None:
        """Raise InvalidValue unless the combination of fields is valid."""
        operation = TYPES[self.scope.type].operation("stop-producers")
        if operation is None:
            raise InvalidValue(
                {"scope": f"scope is {self.scope}: it must be the broker, a virtual host, an exchange or a queue"}
            )
        accepted = {argument.name for argument in operation.arguments}
        if self.pattern and "pattern" not in accepted:
            raise InvalidValue({"pattern": f"pattern must be empty for {self.scope}"})
        if fault := pattern_fault(self.pattern):
            raise InvalidValue({"pattern": fault})
        if self.queues is None:
            return
        if "queues" not in accepted or self.pattern:
            raise InvalidValue({"queues": "queues requires the broker as scope and no pattern"})
        if not self.queues:
            raise InvalidValue({"queues": "queues is empty"})
        if len(self.queues) > MOST_NAMED:
            raise InvalidValue(
                {"queues": f"queues has {len(self.queues):,} names, at most {MOST_NAMED:,}: use a pattern"}
            )

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of the broker's operation."""
        return {
            **({"pattern": self.pattern} if self.pattern else {}),
            **({"queues": list(self.queues)} if self.queues is not None else {}),
        }

    def covers(self, row: Row) -> bool:
        """Return whether a queue is in the scope."""
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
    by: Actor, link: BrokerLink, aim: Aim, *, reason: str, for_ms: int = 0, below: int = 0, effect: str = ""
) -> Mapping[str, Any]:
    """Stop the producers of a scope: for `for_ms` ms, until the queues are at or below `below` percent of their
    capacity, or, with neither, until they are started. `effect`: what the stop does to producers here, if it does
    not hold them. Idempotent. Returns the answer of the operation. Raises EffectNotConfirmed."""
    aim.check()
    end = {
        name: value
        for name, value in (("for_ms", for_ms), ("below", below), ("effect", effect if effect != "hold" else ""))
        if value
    }
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
    """End the stop of a scope and, unless `only`, the stops of scopes inside it; producers of overfull queues stay
    blocked. `stage`: rate, step_ms and halt of a staged start, as the operation declares them. Returns the answer of
    the operation."""
    aim.check()
    more = {**({"only": True} if only else {}), **{name: value for name, value in (stage or {}).items() if value}}
    return call_operation(by, link, aim.scope, "start-producers", {"reason": reason, **aim.arguments(), **more})


def preview_stop(link: BrokerLink, aim: Aim) -> dict[str, Any]:
    """Return the impact of a stop: {queues, producers, already_stopped, percent_used, largest: [...]}. `largest`: the
    queues with the most producers. `percent_used`: of the capacity of the fullest queue, None without a capacity.
    `producers`: None if the broker does not report them."""
    covered = _covered(link, aim)
    largest = heapq.nlargest(
        _LARGEST, covered, key=lambda row: (row.get("producers") or 0, row.get("depth_messages") or 0)
    )
    shown = ("object", "virtualhost", "name", "state", "depth_messages", "depth_bytes", "producers")
    return {
        "queues": len(covered),
        "producers": _known_sum(covered, "producers"),
        "already_stopped": sum((row["state"] or "").endswith("STOPPED") for row in covered),
        "percent_used": max((used for row in covered if (used := percent_used(row)) is not None), default=None),
        "largest": [{attribute: row.get(attribute) for attribute in shown} for row in largest],
    }


def _by_producers(row: Row) -> tuple[int, int]:
    return row.get("producers") or 0, row.get("depth_messages") or 0


def _known_sum(rows: Iterable[Row], attribute: str) -> int | None:
    """Return the sum over the rows that have a value; None if there are rows and none has."""
    rows = list(rows)
    known = [value for row in rows if (value := row.get(attribute)) is not None]
    return sum(known) if known or not rows else None


def progress(link: BrokerLink, aim: Aim) -> dict[str, int | None]:
    """Return the progress of a stop: {queues, producers, draining, stopped}. `draining`: producers whose credit is
    withdrawn, but whose messages in flight may still arrive. None: the broker does not report producers of queues."""
    covered = {row["object"]: row for row in _covered(link, aim)}
    if (producers := _known_sum(covered.values(), "producers")) is None:
        return {"queues": len(covered), "producers": None, "draining": None, "stopped": None}
    where = {"draining": True}
    page = link.call(lambda admin: admin.query("Producer", where=where, sort="id", count=_MOST_DRAINING))
    draining = sum(1 for producer in page.items if producer["queue"] in covered)
    of_stopped = (
        _known_sum((row for row in covered.values() if (row["state"] or "").endswith("STOPPED")), "producers") or 0
    )
    return {
        "queues": len(covered),
        "producers": producers,
        "draining": draining,
        "stopped": max(0, of_stopped - draining),
    }


def percent_used(row: Row) -> int | None:
    """Return the used part of a queue's capacity in percent, the higher of messages and bytes; None without a
    capacity."""
    used = []
    for unit in ("messages", "bytes"):
        whole = row.get(f"effective_capacity_{unit}") or row.get(f"effective_stop_{unit}")
        depth = row.get(f"depth_{unit}")
        if whole and depth is not None:
            used.append(int(100 * depth / whole))
    return max(used, default=None)


def _covered(link: BrokerLink, aim: Aim) -> Sequence[Row]:
    aim.check()
    link.require_current()
    if aim.scope.type == "Queue" and link.queue(aim.scope) is None:
        raise NotFound(f"there is no queue {aim.scope['name']} in virtual host {aim.scope['virtualhost']}")
    if aim.queues is not None:
        return [row for name in dict.fromkeys(aim.queues) if (row := link.queue(name)) is not None]
    return [row for row in link.queues() if aim.covers(row)]
