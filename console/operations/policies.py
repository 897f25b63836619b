"""Flow-control policies: preview changes, apply them one by one, and reorder patterns.

A policy is the set of declared fields (`brokers/model/policy_fields.py`) that a broker, a virtual host, an exchange, a
destination policy (a pattern) or a queue sets. The broker stores policies; the console does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.core.exceptions import PermissionDenied

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
from brokers.model import POLICY, TYPES, Attribute, ManagedType, ObjectName, object_name
from brokers.model.patterns import match_rank
from console.access.actor import Actor
from console.links.registry import BrokerLink
from console.operations.objects import create_object, delete_object, update_object
from console.operations.permission_check import Wanted, check_permissions
from console.operations.preview_parts import added, requests_of
from console.operations.preview_turns import turns_at

FIELDS = tuple(attribute.name for attribute in POLICY)

#: The types of objects that set policy fields, from the least specific scope to the most.
SCOPES = tuple(name for name in ("Broker", "VirtualHost", "Exchange", "Policy", "Queue") if name in TYPES)

ACTIONS = ("update", "create", "delete")

#: The operations of a broker that the previews and explanations of policies need.
EXPLAIN, PREVIEW = "explain", "preview-change"

_BROKER = object_name("Broker")
_PAGE = 1000
_REFUSALS = (AlreadyExists, InvalidValue, NotAllowed, NotFound, StaleVersion)
#: Fields of an impact: name -> its name in the broker's answer, which the API has as a deprecated field.
_FORMER_NAMES = {"underfull": "released", "blocked": "held", "unblocked": "freed"}


@dataclass(frozen=True, slots=True)
class PolicyChange:
    """One change of one object. `attributes`: policy fields (None: inherited), and the priority of a pattern.
    `version`: the object's version that the change is based on; None: any. `was`: the previous values, if known."""

    name: ObjectName
    attributes: Mapping[str, Any] = field(default_factory=dict)
    action: str = "update"
    version: int | None = None
    was: Mapping[str, Any] = field(default_factory=dict)

    @property
    def wanted(self) -> Wanted:
        """What the change does, as its permission depends on it."""
        return self.name, self.action, _given(self.attributes) if self.action == "create" else self.attributes

    def as_json(self) -> dict[str, Any]:
        return {
            "object": str(self.name),
            "action": self.action,
            "attributes": dict(self.attributes),
            "version": self.version,
            "was": dict(self.was),
        }


@dataclass(frozen=True, slots=True)
class Applied:
    """The result of one change. `outcome`: done, refused, failed or unknown; `detail`: why, unless it is done."""

    change: PolicyChange
    outcome: str
    version: int | None = None
    detail: str = ""

    def as_json(self) -> dict[str, Any]:
        return {
            "object": str(self.change.name),
            "action": self.change.action,
            "outcome": self.outcome,
            "version": self.version,
            "detail": self.detail,
        }


def fields_of(types: Mapping[str, ManagedType], type_name: str, also: Iterable[str] = ()) -> tuple[Attribute, ...]:
    """Return the policy fields that can be changed on objects of a type at a broker with these types, and those of the
    attributes `also` that can; none if it lacks the type."""
    declared, names = types.get(type_name), {*FIELDS, *also}
    return () if declared is None else tuple(a for a in declared.writable if a.name in names)


def fields_anywhere(link: BrokerLink) -> list[str]:
    """Return the names of the policy fields that can be set on any type of object at this broker."""
    return settable_fields(link.types)


def settable_fields(types: Mapping[str, ManagedType]) -> list[str]:
    """Return the names of the policy fields that can be set on any of these types."""
    return sorted({field.name for type_name in SCOPES for field in fields_of(types, type_name)})


def sets_resume_levels(fields: Iterable[str]) -> bool:
    """Return whether there is a resume level among the names of policy fields."""
    return any(name.startswith("flow_resume_") for name in fields)


def has_operation(link: BrokerLink, type_name: str, operation: str) -> bool:
    """Return whether objects of a type have an operation at this broker."""
    declared = link.types.get(type_name)
    return declared is not None and declared.operation(operation) is not None


def set_fields(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the policy fields that are set, and the priority unless it is 0."""
    found = {name: attributes[name] for name in FIELDS if attributes.get(name) is not None}
    return {"priority": attributes["priority"], **found} if attributes.get("priority") else found


def preview_changes(
    link: BrokerLink, changes: Iterable[PolicyChange], *, largest: int = 20, one_by_one: bool = False
) -> dict[str, Any]:
    """Return the impact of the changes, made together: the answer of the operation `preview-change`, with `blocked`,
    `unblocked` and `underfull` for its fields `held`, `freed` and `released`. Raises the error with which the broker
    would refuse them; `one_by_one`: a queue that refuses its own change is reported and left out. For a broker that
    cannot preview changes, `unavailable` is a sentence, and what it would say is None. Raises TooManyPreviews."""
    changes = list(changes)
    check_settable(link, changes)
    if not has_operation(link, "Broker", PREVIEW):
        return _unavailable(link, changes)
    answers = []
    for part in requests_of(changes):
        arguments = {"changes": part, "largest": largest, "one_by_one": one_by_one}
        with turns_at(link.slug).turn():
            answers.append(link.call(lambda admin: admin.call(_BROKER, PREVIEW, arguments)))  # noqa: B023
    impact = added(answers, largest)
    return {**impact, **{name: impact[former] for name, former in _FORMER_NAMES.items()}}


def check_settable(link: BrokerLink, changes: Iterable[PolicyChange]) -> None:
    """Raise InvalidValue for fields that objects of this type do not have at this broker."""
    wrong: dict[str, str] = {}
    for type_name, fields in {(change.name.type, tuple(change.attributes)) for change in changes}:
        declared = link.types.get(type_name)
        if declared is None:
            raise InvalidValue({"object": f"this broker has no objects of type {type_name}"})
        settable = {a.name for a in declared.attributes if a.writable or a.creatable}
        wrong |= {name: f"{name} cannot be set here" for name in fields if name in FIELDS and name not in settable}
    if wrong:
        raise InvalidValue(wrong)


def _unavailable(link: BrokerLink, changes: Sequence[PolicyChange]) -> dict[str, Any]:
    unknown = dict.fromkeys(("queues", "changed", "overfull", "underfull", "blocked", "unblocked", "dropped"))
    former = dict.fromkeys(_FORMER_NAMES.values())
    return {
        **unknown,
        **former,
        "refused": 0,
        "refusals": [],
        "versions": {str(change.name): change.version for change in changes},
        "largest": [],
        "unavailable": f"{link.title} cannot preview the impact of a change. It takes effect when it is applied.",
    }


def apply_changes(by: Actor, link: BrokerLink, changes: Sequence[PolicyChange], *, reason: str = "") -> list[Applied]:
    """Make the changes one by one, each with its audit row, and return the result of each. A refused change does not
    prevent the others, and is retried after them, since it may depend on a later one. Raises PermissionDenied before
    the first one if the user lacks the permission for any: then nothing is changed."""
    check_permissions(by, link.slug, [change.wanted for change in changes], reason=reason)
    found: dict[int, Applied] = {}
    left = list(range(len(changes)))
    while left:
        again = []
        for number in left:
            try:
                applied = apply_change(by, link, changes[number], reason=reason)
            except PermissionDenied as error:  # revoked meanwhile: trying again is of no use
                found[number] = Applied(changes[number], "refused", detail=str(error))
                continue
            found[number] = applied
            if applied.outcome == "refused":
                again.append(number)
            if applied.outcome == "unknown":
                why = "not attempted: the broker cannot be reached"
                return [found.get(n) or Applied(each, "failed", detail=why) for n, each in enumerate(changes)]
        if len(again) == len(left):
            break
        left = again
    return [found[number] for number in range(len(changes))]


def apply_change(by: Actor, link: BrokerLink, change: PolicyChange, *, reason: str = "") -> Applied:
    """Make one change and return its result. Raises PermissionDenied."""
    try:
        return Applied(change, "done", make_change(by, link, change, reason=reason))
    except _REFUSALS as refusal:
        return Applied(change, "refused", detail=str(refusal))
    except BrokerUnreachable as lost:
        return Applied(change, "unknown", detail=str(lost))
    except AdminError as error:
        return Applied(change, "failed", detail=str(error))


def make_change(by: Actor, link: BrokerLink, change: PolicyChange, *, reason: str = "") -> int | None:
    """Make one change and return the object's new version; None if it was deleted. Raises AdminError,
    PermissionDenied."""
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


# -- scopes that set fields -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Scopes:
    """The objects that can set policy fields, except queues. `patterns`: by virtual host, in matching order.
    `exchanges`: by virtual host."""

    broker: ManagedObject
    hosts: tuple[ManagedObject, ...]
    patterns: Mapping[str, Sequence[ManagedObject]]
    exchanges: Mapping[str, Sequence[ManagedObject]]


def policy_scopes(link: BrokerLink) -> Scopes:
    """Read the scopes from the broker. Raises AdminError."""
    return link.call(_scopes)


async def _scopes(admin: BrokerAdmin) -> Scopes:
    broker = await admin.read(_BROKER)
    hosts = await all_objects(admin, "VirtualHost")
    patterns = await all_objects(admin, "Policy")
    exchanges = await all_objects(admin, "Exchange")
    patterns.sort(key=lambda policy: match_rank(policy["pattern"], policy["priority"]), reverse=True)
    names = [host["name"] for host in hosts]
    return Scopes(
        broker,
        tuple(hosts),
        {name: [policy for policy in patterns if policy["virtualhost"] == name] for name in names},
        {name: [exchange for exchange in exchanges if exchange["virtualhost"] == name] for name in names},
    )


async def all_objects(admin: BrokerAdmin, type_name: str) -> list[ManagedObject]:
    """Return all objects of a type; none if the broker does not have the type."""
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
    """Return the rows of queues that set a policy field, sorted by virtual host and name."""
    rows = [row for row in link.queues() if tuple(map(row.get, FIELDS)) != _NOTHING]
    return sorted(rows, key=lambda row: (row["virtualhost"], row["name"]))


# -- the order of patterns --------------------------------------------------------------------------------------------


def reordered(policies: Sequence[ManagedObject], patterns: Sequence[str]) -> list[PolicyChange]:
    """Return the changes of priorities after which the policies of a virtual host match in the order of `patterns`,
    the first one first. Raises InvalidValue if no priorities achieve this order."""
    by_pattern = {policy["pattern"]: policy for policy in policies}
    if sorted(by_pattern) != sorted(patterns):
        raise InvalidValue({"patterns": "patterns must contain each pattern of the virtual host once: reload them"})
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
                        " wildcards, take precedence over the priority"
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
