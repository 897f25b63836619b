"""A file of policies beside those of a broker: what differs, and making the broker as the file says.

What the file names is made exactly as it says: fields that it leaves out are inherited again. What it does not name
is left alone, unless it is asked to be the whole truth (`prune`). A file creates and removes patterns; queues,
exchanges and virtual hosts that are not there are told as problems.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from brokers.admin import BrokerAdmin, InvalidValue, ManagedObject, StaleVersion
from brokers.model import ObjectName
from console.access.actor import Actor
from console.links.registry import BrokerLink
from console.operations.policies import (
    FIELDS,
    SCOPES,
    Applied,
    PolicyChange,
    apply_changes,
    every,
    preview_changes,
    set_fields,
)
from console.operations.policy_file import Settings, in_order, read, written

#: Objects that are not there and are named; a file for another broker has nothing else.
_NAMED = 100


@dataclass(frozen=True, slots=True)
class Difference:
    """`changes` make the broker as the file says. `problems`: object or "" -> a sentence. `left_alone`: objects that
    set something, and that the file does not name."""

    changes: Sequence[PolicyChange]
    problems: Mapping[str, str]
    left_alone: Sequence[ObjectName]

    @property
    def digest(self) -> str:
        """Another one if any of it is different, or is to be made from another version."""
        told = [[change.shown() for change in self.changes], dict(self.problems)]
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def export_policies(link: BrokerLink) -> str:
    """All policies of the broker as they are now, as a file."""
    now = link.call(_now)
    return written({name: thing.attributes for name, thing in now.items()})


def difference(link: BrokerLink, text: str, *, prune: bool = False) -> Difference:
    """What differs. Raises InvalidValue for a file that cannot be read, with all that is wrong."""
    return _difference(read(text), link.call(_now), prune=prune)


def previewed(link: BrokerLink, found: Difference) -> tuple[dict[str, Any] | None, dict[str, str]]:
    """(what the changes would do together; the problems, with why they would be refused if they would)."""
    problems = dict(found.problems)
    try:
        return preview_changes(link, found.changes), problems
    except InvalidValue as refused:
        return None, {**problems, "": str(refused)}


def apply_file(
    by: Actor, link: BrokerLink, text: str, *, prune: bool = False, reason: str = "", digest: str = ""
) -> tuple[Difference, list[Applied]]:
    """Make the broker as the file says, object by object. `digest`: of the difference that was shown; refused with
    StaleVersion if it is another one now. Raises PermissionDenied."""
    found = difference(link, text, prune=prune)
    if digest and digest != found.digest:
        raise StaleVersion("policies have changed since the dry run: look at the difference again", 0)
    return found, apply_changes(by, link, found.changes, reason=reason)


async def _now(admin: BrokerAdmin) -> dict[ObjectName, ManagedObject]:
    """Every object that may set policy fields, asked from the broker itself: a table of ours may lag behind."""
    found: dict[ObjectName, ManagedObject] = {}
    for type_name in SCOPES:
        found.update({thing.name: thing for thing in await every(admin, type_name)})
    return found


def _difference(wanted: Settings, now: Mapping[ObjectName, ManagedObject], *, prune: bool) -> Difference:
    hosts = {name["name"] for name in now if name.type == "VirtualHost"}
    changes, problems, left_alone = list[PolicyChange](), dict[str, str](), list[ObjectName]()
    missing = 0
    for name in sorted(wanted, key=in_order):
        given, thing = wanted[name], now.get(name)
        if thing is not None:
            changes.extend(_update(thing, given))
        elif name.type == "Policy" and name["virtualhost"] in hosts:
            changes.append(PolicyChange(name, given, "create"))
        else:
            missing += 1
            if missing <= _NAMED:
                problems[str(name)] = f"{name} is not there: a file of policies does not create it"
    if missing > _NAMED:
        problems[""] = f"{missing - _NAMED:,} more objects are not there"
    for name in sorted(now, key=in_order):
        thing = now[name]
        if name in wanted or not (set_fields(thing.attributes) or name.type == "Policy"):
            continue
        if not prune:
            left_alone.append(name)
        elif name.type == "Policy":
            changes.append(PolicyChange(name, {}, "delete", thing.version, set_fields(thing.attributes)))
        else:
            changes.extend(_update(thing, {}))
    return Difference(sorted(changes, key=lambda change: in_order(change.name)), problems, left_alone)


def _update(thing: ManagedObject, given: Mapping[str, Any]) -> list[PolicyChange]:
    wanted: dict[str, Any] = {field: given.get(field) for field in FIELDS}
    if thing.name.type == "Policy":
        wanted["priority"] = given.get("priority", 0)
    differ = {field: value for field, value in wanted.items() if thing.attributes.get(field) != value}
    if not differ:
        return []
    was = {field: thing.attributes.get(field) for field in differ}
    return [PolicyChange(thing.name, differ, "update", thing.version, was)]
