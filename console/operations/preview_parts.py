"""Split an impact preview that is too large for one request, and add up the answers. Pure.

Changes of queues have their impact each on its own queue, so the sums are those of one preview. Changes of other
objects interact, and are not split.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from brokers.admin import InvalidValue
from brokers.model.policy_operations import MOST_CHANGES

if TYPE_CHECKING:
    from console.operations.policies import PolicyChange

#: Values in one request: Proton counts those of a message in 16 bits.
MOST_VALUES = 60_000
_OF_A_CHANGE = 8
_SUMS = ("queues", "changed", "overfull", "released", "held", "freed", "dropped", "refused")


def requests_of(changes: Sequence[PolicyChange]) -> list[list[dict[str, Any]]]:
    """Return the argument `changes` of each request of a preview. Raises InvalidValue if there must be one, and it is
    too large."""
    whole = grouped(changes)
    if len(changes) <= MOST_CHANGES and _values(whole) <= MOST_VALUES:
        return [whole]
    if any(change.name.type != "Queue" or change.action != "update" for change in changes):
        raise InvalidValue({"changes": "too many different changes for one preview"})
    fields = max(len(change.attributes) for change in changes)
    most = min(MOST_CHANGES, max(1, MOST_VALUES // (_OF_A_CHANGE + 2 * (1 + fields))))
    return [grouped(changes[first : first + most]) for first in range(0, len(changes), most)]


def grouped(changes: Iterable[PolicyChange]) -> list[dict[str, Any]]:
    """Return the changes as arguments of `preview-change`; equal changes of several objects are one entry."""
    groups: dict[str, dict[str, Any]] = {}
    for change in changes:
        key = json.dumps([change.action, dict(change.attributes)], sort_keys=True)
        group = groups.setdefault(key, {"objects": {}, "action": change.action, "attributes": dict(change.attributes)})
        group["objects"][str(change.name)] = change.version
    return list(groups.values())


def _values(groups: Iterable[Mapping[str, Any]]) -> int:
    return sum(_OF_A_CHANGE + 2 * (len(each["objects"]) + len(each["attributes"])) for each in groups)


def added(answers: Sequence[Mapping[str, Any]], largest: int) -> dict[str, Any]:
    """Return the answers of `preview-change` as one; a sum is None if one of its values is not known."""
    if len(answers) == 1:
        return dict(answers[0])
    queues = [queue for answer in answers for queue in answer["largest"]]
    return {
        **{name: _sum([answer[name] for answer in answers]) for name in _SUMS},
        "refusals": [each for answer in answers for each in answer["refusals"]][:largest],
        "versions": {name: version for answer in answers for name, version in answer["versions"].items()},
        "largest": sorted(sorted(queues, key=lambda each: each["name"]), key=_weight, reverse=True)[:largest],
    }


def _sum(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _weight(queue: Mapping[str, Any]) -> tuple[bool, int, int, int]:
    """How large an impact is: the order of the broker's own answer (`engine/management/impact.py`)."""
    before, after = queue["before"], queue["after"]
    blocked = abs((after.get("blocked_producers") or 0) - (before.get("blocked_producers") or 0))
    turns = _is_overfull(before) != _is_overfull(after)
    affected = turns or bool(blocked or queue["dropped"])
    return affected, blocked, queue["producers"] or 0, queue["depth_messages"] or 0


def _is_overfull(side: Mapping[str, Any]) -> bool:
    return str(side.get("state") or "").startswith("OVERFULL")
