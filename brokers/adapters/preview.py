"""The answer of the operation `preview-change` for brokers that cannot preview changes themselves. Pure.

An adapter says which queues the changes apply to and which limits these would have (`Adapter.limits_after`), by the
rules of its kind; here they are compared with the present ones. What does not follow from them is None: producers that
would be blocked, where the broker does not count the producers of a queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from brokers.adapters.adapter import Objects
from brokers.adapters.explanation import effective, fields_of, origin
from brokers.adapters.flow_state import queue_state
from brokers.adapters.inventory import version
from brokers.adapters.observation import Attributes
from brokers.admin import AlreadyExists, InvalidValue, NotFound, StaleVersion
from brokers.engine.management.policy_changes import PolicyChange, one_per_object, read_change
from brokers.engine.values.policy import FIELDS
from brokers.model import ManagedType, ObjectName, check_attributes
from brokers.model.policy_operations import MOST_CHANGES, MOST_QUEUES

#: Takes checked changes; returns the queues that they apply to, each with its attributes of limits after them. Raises
#: InvalidValue for what the broker would refuse.
Plan = Callable[[Sequence[PolicyChange]], Mapping[ObjectName, Attributes]]

#: Mechanisms with which an overfull queue blocks its producers.
_BLOCKING = ("block", "hold")

_UNITS = ("messages", "bytes")


def preview(given: Mapping[str, Any], types: Mapping[str, ManagedType], objects: Objects, plan: Plan) -> dict[str, Any]:
    """Return the answer. `given`: the arguments, of declared kinds. Raises the error of the first change that the
    broker would refuse."""
    single = [each for change in given["changes"] for each in one_per_object(change)]
    most = given.get("largest", 20)
    if len(single) > MOST_CHANGES:
        raise InvalidValue({"changes": f"changes are {len(single):,}: {MOST_CHANGES:,} at most can be previewed"})
    if not 0 <= most <= MOST_QUEUES:
        raise InvalidValue({"largest": f"largest is {most}: from 0 to {MOST_QUEUES}"})
    changes = [_checked(read_change(each), types, objects) for each in single]
    changes, refusals = _refused(changes, plan) if given.get("one_by_one") else (changes, [])
    after = plan(changes)
    impacts = [_impact(name, types["Queue"], objects[name], limits) for name, limits in after.items()]
    changed = sorted((each for each in impacts if each.changes), key=lambda each: (each.weight, each.name["name"]))
    return {
        "queues": len(impacts),
        "changed": len(changed),
        "overfull": sum(each.becomes_overfull for each in changed),
        "released": sum(each.becomes_underfull for each in changed),
        "held": _sum(each.newly_blocked for each in changed),
        "freed": _sum(each.unblocked for each in changed),
        "dropped": sum(each.dropped for each in changed),
        "refused": len(refusals),
        "refusals": [{"object": str(name), "detail": detail} for name, detail in refusals[:most]],
        "versions": {str(change.name): change.version for change in changes},
        "largest": [each.described() for each in changed[:most]],
    }


def _sum(values: Iterable[int | None]) -> int | None:
    listed = list(values)
    return None if None in listed else sum(value for value in listed if value is not None)


# -- changes --------------------------------------------------------------------------------------------------------


def _checked(change: PolicyChange, types: Mapping[str, ManagedType], objects: Objects) -> PolicyChange:
    """Return a change with checked attributes and the present version of its object. Raises AdminError."""
    name, declared = change.name, types.get(change.name.type)
    if declared is None:
        raise NotFound(f"this broker has no objects of type {name.type}")
    known = objects.get(name)
    creates = change.action == "create"
    if creates and known is not None:
        raise AlreadyExists(f"{name} exists already")
    if not creates and known is None:
        raise NotFound(f"there is no {name}")
    if (creates and not declared.creatable) or (change.action == "delete" and not declared.deletable):
        raise InvalidValue({"action": f"this broker's objects of type {name.type} cannot be {change.action}d here"})
    present = None if known is None else version(declared, known)
    if change.version is not None and change.version != present:
        raise StaleVersion(f"{name} has changed since it was read", present or 0)
    good, wrong = check_attributes(declared, change.attributes, creating=False)
    fields = (*FIELDS, "priority")
    wrong += [(key, f"{key} is no policy field: its effect is not previewed") for key in good if key not in fields]
    if wrong:
        raise InvalidValue(dict(wrong))
    return PolicyChange(name, change.action, good, present)


def _refused(changes: Sequence[PolicyChange], plan: Plan) -> tuple[list[PolicyChange], list[tuple[ObjectName, str]]]:
    """Return the changes that the broker would make, and queues with why it would refuse theirs."""
    made, refusals = [], []
    for change in changes:
        try:
            plan([change])
        except InvalidValue as refused:
            if change.name.type != "Queue":
                raise
            refusals.append((change.name, str(refused)))
        else:
            made.append(change)
    return made, refusals


# -- impacts --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Impact:
    """The impact on one queue. `before` and `after`: its attributes. `dropped`: messages that would be dropped."""

    name: ObjectName
    before: Attributes
    after: Attributes
    changes: Mapping[str, Mapping[str, Any]]
    dropped: int

    @property
    def becomes_overfull(self) -> bool:
        return bool(self.after.get("overfull")) and not self.before.get("overfull")

    @property
    def becomes_underfull(self) -> bool:
        return bool(self.before.get("overfull")) and self.after.get("overfull") is False

    @property
    def blocked_after(self) -> int | None:
        """Producers that would be blocked; None: not known."""
        now = self.before.get("blocked_producers")
        if self.before.get("stopped_since") is not None or not (self.becomes_overfull or self.becomes_underfull):
            return now
        if not self._blocks:
            return now
        return self.before.get("producers") if self.becomes_overfull else None if now is None else 0

    @property
    def _blocks(self) -> bool:
        """Whether producers are blocked on the side on which the queue is overfull."""
        return effective("mechanism", self.after if self.becomes_overfull else self.before) in _BLOCKING

    @property
    def newly_blocked(self) -> int | None:
        return self._more(self.blocked_after, self.before.get("blocked_producers"))

    @property
    def unblocked(self) -> int | None:
        return self._more(self.before.get("blocked_producers"), self.blocked_after)

    def _more(self, these: int | None, those: int | None) -> int | None:
        if not (self.becomes_overfull or self.becomes_underfull) or not self._blocks:
            return 0  # they remain as they are, also if it is not known how many are blocked
        return None if these is None or those is None else max(0, these - those)

    @property
    def weight(self) -> tuple[bool, int, int]:
        """A sort key: the larger the impact, the lower."""
        affected = self.becomes_overfull or self.becomes_underfull or self.dropped > 0
        return not affected, -(self.before.get("producers") or 0), -(self.before.get("depth_messages") or 0)

    def described(self) -> dict[str, Any]:
        return {
            "object": str(self.name),
            "virtualhost": self.name["virtualhost"],
            "name": self.name["name"],
            "producers": self.before.get("producers"),
            "depth_messages": self.before.get("depth_messages"),
            "depth_bytes": self.before.get("depth_bytes"),
            "dropped": self.dropped,
            "changes": self.changes,
            "before": _side(self.before, self.before.get("blocked_producers")),
            "after": _side(self.after, self.blocked_after),
        }


def _impact(name: ObjectName, declared: ManagedType, before: Attributes, limits: Attributes) -> _Impact:
    after = {**before, **limits}
    changes = {
        field: {
            "before": effective(field, before),
            "before_origin": origin(field, before),
            "after": effective(field, after),
            "after_origin": origin(field, after),
        }
        for field in fields_of(declared)
        if effective(field, before) != effective(field, after)
    }
    return _Impact(name, before, after, changes, _excess(after) if changes and after.get("overflow") == "ring" else 0)


def _excess(queue: Attributes) -> int:
    """Estimate how many messages are above the limits of a queue that drops its oldest; delivered ones are not."""
    messages, size = queue.get("depth_messages") or 0, queue.get("depth_bytes") or 0
    available = max(0, messages - (queue.get("unacknowledged_messages") or 0))
    most, most_bytes = queue.get("effective_capacity_messages"), queue.get("effective_capacity_bytes")
    above = max(0, available - most) if most else 0
    if most_bytes and messages and size > most_bytes:
        above = max(above, -(-(size - most_bytes) * messages // size))
    return min(above, available)


def _side(queue: Attributes, blocked: int | None) -> dict[str, Any]:
    levels = {
        f"effective_{level}_{unit}": queue.get(f"effective_{level}_{unit}")
        for level in ("capacity", "stop", "resume")
        for unit in _UNITS
    }
    headroom = {f"headroom_{unit}": _headroom(queue, unit) for unit in _UNITS}
    stopped = queue.get("stopped_since") is not None
    return {
        "state": queue_state(overfull=queue.get("overfull"), stopped=stopped),
        **levels,
        "blocked_producers": blocked,
        **headroom,
        "full_in_ms": None if queue.get("overfull") else _full_in(queue, headroom),
    }


def _headroom(queue: Attributes, unit: str) -> int | None:
    """Return what a queue takes until it is overfull; None: there is no limit, or its depth is not known."""
    stop, depth = queue.get(f"effective_stop_{unit}"), queue.get(f"depth_{unit}")
    if not stop or depth is None or queue.get("overflow") == "ring":
        return None
    return max(0, int(stop) - int(depth))


def _full_in(queue: Attributes, headroom: Mapping[str, int | None]) -> int | None:
    """Return the ms until the headroom is used at the present rates; None if it is not, or the rates are not known."""
    rates, depth = (queue.get("rate_in"), queue.get("rate_out")), queue.get("depth_messages") or 0
    if None in rates or (growth := float(rates[0] or 0) - float(rates[1] or 0)) <= 0:
        return None
    left = [float(messages)] if (messages := headroom.get("headroom_messages")) is not None else []
    if (size := headroom.get("headroom_bytes")) is not None and depth and queue.get("depth_bytes"):
        left.append(size * depth / queue["depth_bytes"])
    return int(min(left) / growth * 1000) if left else None
