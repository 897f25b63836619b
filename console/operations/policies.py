"""Changes of flow-control policies: told beforehand, made one after the other, and put in order.

A policy is what a broker, a virtual host, an exchange, a destination policy (a pattern) or a queue sets of the declared
fields (`brokers/model/policy_fields.py`). Nothing of it is kept here: the broker has it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from brokers.admin import (
    AdminError,
    AlreadyExists,
    BrokerAdmin,
    BrokerUnreachable,
    InvalidValue,
    ManagedObject,
    NotAllowed,
    NotFound,
    StaleVersion,
)
from brokers.model import POLICY, TYPES, ObjectName, object_name
from brokers.model.patterns import match_rank
from console.access.actor import Actor
from console.links.registry import BrokerLink
from console.operations.objects import create_object, delete_object, update_object
from console.operations.preview_turns import in_turn

FIELDS = tuple(attribute.name for attribute in POLICY)

#: The types of objects that set policy fields, from the least specific scope to the most.
SCOPES = tuple(name for name in ("Broker", "VirtualHost", "Exchange", "Policy", "Queue") if name in TYPES)

ACTIONS = ("update", "create", "delete")

_BROKER = object_name("Broker")
_PAGE = 1000
_REFUSALS = (AlreadyExists, InvalidValue, NotAllowed, NotFound, StaleVersion)


@dataclass(frozen=True, slots=True)
class PolicyChange:
    """One change of one object. `attributes`: policy fields (None: inherited), and the priority of a pattern.
    `version`: the one it was made from; None: whatever is there. `was`: what the attributes were, if that is known."""

    name: ObjectName
    attributes: Mapping[str, Any] = field(default_factory=dict)
    action: str = "update"
    version: int | None = None
    was: Mapping[str, Any] = field(default_factory=dict)

    def shown(self) -> dict[str, Any]:
        return {
            "object": str(self.name),
            "action": self.action,
            "attributes": dict(self.attributes),
            "version": self.version,
            "was": dict(self.was),
        }


@dataclass(frozen=True, slots=True)
class Applied:
    """What came of one change. `outcome`: done, refused, failed or unknown; `detail`: a sentence unless it is done."""

    change: PolicyChange
    outcome: str
    version: int | None = None
    detail: str = ""

    def shown(self) -> dict[str, Any]:
        return {
            "object": str(self.change.name),
            "action": self.change.action,
            "outcome": self.outcome,
            "version": self.version,
            "detail": self.detail,
        }


def set_fields(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The policy fields that are set, and a priority that is not 0."""
    found = {name: attributes[name] for name in FIELDS if attributes.get(name) is not None}
    return {"priority": attributes["priority"], **found} if attributes.get("priority") else found


def preview_changes(
    link: BrokerLink, changes: Iterable[PolicyChange], *, largest: int = 20, one_by_one: bool = False
) -> dict[str, Any]:
    """What the changes, made together, would do: the answer of the operation `preview-change`. Raises what they would
    be refused for; `one_by_one`: a queue that refuses its own change is told, and left out."""
    grouped = _grouped(changes)
    values = sum(_OF_A_CHANGE + 2 * (len(each["objects"]) + len(each["attributes"])) for each in grouped)
    if values > _MOST_VALUES:
        raise InvalidValue({"changes": "these are too many different changes to be previewed together"})
    asked = {"changes": grouped, "largest": largest, "one_by_one": one_by_one}
    with in_turn(link.slug).turn():
        return dict(link.call(lambda admin: admin.call(_BROKER, "preview-change", asked)))


#: Values that a request may have: Proton counts those of a message in 16 bits.
_MOST_VALUES = 60_000
_OF_A_CHANGE = 8


def _grouped(changes: Iterable[PolicyChange]) -> list[dict[str, Any]]:
    """The changes as `preview-change` takes them, equal ones of several objects as one."""
    groups: dict[str, dict[str, Any]] = {}
    for change in changes:
        key = json.dumps([change.action, dict(change.attributes)], sort_keys=True)
        group = groups.setdefault(key, {"objects": {}, "action": change.action, "attributes": dict(change.attributes)})
        group["objects"][str(change.name)] = change.version
    return list(groups.values())


def apply_changes(by: Actor, link: BrokerLink, changes: Sequence[PolicyChange], *, reason: str = "") -> list[Applied]:
    """Make the changes one by one, each with its audit row, and tell what came of each; one that is refused does not
    keep the others. What contradicts something that a later one changes is tried again after that. Raises
    PermissionDenied."""
    found: dict[int, Applied] = {}
    left = list(range(len(changes)))
    while left:
        again = []
        for number in left:
            applied = found[number] = apply_change(by, link, changes[number], reason=reason)
            if applied.outcome == "refused":
                again.append(number)
            if applied.outcome == "unknown":
                why = "not tried: the broker could not be reached"
                return [found.get(n) or Applied(each, "failed", detail=why) for n, each in enumerate(changes)]
        if len(again) == len(left):
            break
        left = again
    return [found[number] for number in range(len(changes))]


def apply_change(by: Actor, link: BrokerLink, change: PolicyChange, *, reason: str = "") -> Applied:
    """Raises PermissionDenied."""
    try:
        return Applied(change, "done", make_change(by, link, change, reason=reason))
    except _REFUSALS as refusal:
        return Applied(change, "refused", detail=str(refusal))
    except BrokerUnreachable as lost:
        return Applied(change, "unknown", detail=str(lost))
    except AdminError as error:
        return Applied(change, "failed", detail=str(error))


def make_change(by: Actor, link: BrokerLink, change: PolicyChange, *, reason: str = "") -> int | None:
    """The object's version after it; None if it is gone. Raises what the broker refuses it for."""
    if change.action == "create":
        return create_object(by, link, change.name, _given(change.attributes), reason=reason).version
    if change.action == "delete":
        delete_object(by, link, change.name, version=change.version, reason=reason)
        return None
    version = change.version
    if version is None:
        version = link.call(lambda admin: admin.read(change.name)).version
    return update_object(by, link, change.name, change.attributes, version=version, reason=reason).version


def _given(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if value is not None}


# -- what is set ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Scopes:
    """Every object that may set policy fields but the queues. Of each virtual host: its patterns, the best match first,
    and its exchanges by name."""

    broker: ManagedObject
    hosts: tuple[ManagedObject, ...]
    patterns: Mapping[str, Sequence[ManagedObject]]
    exchanges: Mapping[str, Sequence[ManagedObject]]


def policy_scopes(link: BrokerLink) -> Scopes:
    return link.call(_scopes)


async def _scopes(admin: BrokerAdmin) -> Scopes:
    broker = await admin.read(_BROKER)
    hosts = await every(admin, "VirtualHost")
    patterns = await every(admin, "Policy")
    exchanges = await every(admin, "Exchange")
    patterns.sort(key=lambda policy: match_rank(policy["pattern"], policy["priority"]), reverse=True)
    names = [host["name"] for host in hosts]
    return Scopes(
        broker,
        tuple(hosts),
        {name: [policy for policy in patterns if policy["virtualhost"] == name] for name in names},
        {name: [exchange for exchange in exchanges if exchange["virtualhost"] == name] for name in names},
    )


async def every(admin: BrokerAdmin, type_name: str) -> list[ManagedObject]:
    """All objects of a type; none if this broker has no such type."""
    found: list[ManagedObject] = []
    if type_name not in await admin.types():
        return found
    while True:
        page = await admin.query(type_name, offset=len(found), count=_PAGE)
        found.extend(page.items)
        if len(found) >= page.total or not page.items:
            return found


_NOTHING = (None,) * len(FIELDS)


def queues_with_settings(link: BrokerLink) -> list[Mapping[str, Any]]:
    """The rows of the queues that set a policy field themselves, by virtual host and name."""
    rows = [row for row in link.queues() if tuple(map(row.get, FIELDS)) != _NOTHING]
    return sorted(rows, key=lambda row: (row["virtualhost"], row["name"]))


# -- the order of patterns --------------------------------------------------------------------------------------------


def reordered(policies: Sequence[ManagedObject], patterns: Sequence[str]) -> list[PolicyChange]:
    """The changes of priorities after which the policies of a virtual host match in this order, the first one best; as
    few as can be told from the last to the first. Raises InvalidValue for an order that no priority brings about."""
    by_pattern = {policy["pattern"]: policy for policy in policies}
    if sorted(by_pattern) != sorted(patterns):
        raise InvalidValue({"patterns": "patterns must be those of the virtual host, each once: read them again"})
    changes: list[PolicyChange] = []
    below: tuple[str, int] | None = None
    for pattern in reversed(patterns):
        policy = by_pattern[pattern]
        priority = before = policy["priority"]
        if below is not None:
            if match_rank(pattern)[:2] < match_rank(below[0])[:2]:
                raise InvalidValue(
                    {
                        "patterns": f"{pattern} cannot come before {below[0]}: a longer literal prefix, then fewer"
                        " wildcards, win whatever the priority"
                    }
                )
            while match_rank(pattern, priority) < match_rank(*below):
                priority = max(priority, below[1] - 1) + 1
        if priority != before:
            changes.append(
                PolicyChange(policy.name, {"priority": priority}, version=policy.version, was={"priority": before})
            )
        below = pattern, priority
    return changes
