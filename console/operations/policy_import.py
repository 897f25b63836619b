"""Compare a policy file with a broker, and apply it.

An object that the file names gets exactly the fields of the file; fields that the file omits are inherited. Objects
that the file does not name stay unchanged, or lose their settings with `prune`. For a user who sees some of the virtual
hosts, `prune` is about these: the broker's own settings, which affect the others, too, stay. A file creates and deletes
patterns, where the broker can; queues, exchanges and virtual hosts that do not exist are reported as problems. Only
what can be set on this broker is compared: what it merely shows, such as a limit of its own configuration, is not in a
file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from brokers.admin import BrokerAdmin, InvalidValue, ManagedObject, StaleVersion
from brokers.model import ManagedType, ObjectName, object_name
from console.access.actor import Actor
from console.links.registry import BrokerLink
from console.operations.policies import (
    SCOPES,
    Applied,
    PolicyChange,
    all_objects,
    apply_changes,
    preview_changes,
)
from console.operations.policy_file import Settings, in_order, read, settable_names, settings_of, written

Types = Mapping[str, ManagedType]

_BROKER = object_name("Broker")
#: Missing objects that are reported by name.
_NAMED = 100


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference between a file and a broker. `changes`: those that apply the file. `problems`: object or "" -> a
    sentence. `left_alone`: objects with settings that the file does not name."""

    changes: Sequence[PolicyChange]
    problems: Mapping[str, str]
    left_alone: Sequence[ObjectName]

    @property
    def digest(self) -> str:
        """Hash of the changes, with the versions that they are based on, and of the problems."""
        content = [[change.as_json() for change in self.changes], dict(self.problems)]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def export_policies(link: BrokerLink) -> str:
    """Return all current policies of the broker as a file. Raises AdminError."""
    types, now = link.call(_now)
    return written({name: thing.attributes for name, thing in now.items()}, types)


def difference(link: BrokerLink, text: str, *, prune: bool = False) -> Difference:
    """Return the difference between a file and the broker. Raises InvalidValue with all faults of the file."""
    types, now = link.call(_now)
    spared = () if link.only_hosts is None else (_BROKER,)
    return _difference(read(text, types), now, types, prune=prune, spared=spared)


def previewed(link: BrokerLink, found: Difference) -> tuple[dict[str, Any] | None, dict[str, str]]:
    """Return the impact of the changes and the problems. If the broker would refuse the changes, the impact is None
    and the problems contain the refusal; it is also None if the broker has no previews."""
    problems = dict(found.problems)
    declared = link.call(lambda admin: admin.types()).get("Broker")
    if declared is None or declared.operation("preview-change") is None:
        return None, problems
    try:
        return preview_changes(link, found.changes), problems
    except InvalidValue as refused:
        return None, {**problems, "": str(refused)}


def apply_file(
    by: Actor, link: BrokerLink, text: str, *, prune: bool = False, reason: str = "", digest: str = ""
) -> tuple[Difference, list[Applied]]:
    """Apply a file, object by object. `digest`: that of the difference which the user has seen. Raises StaleVersion if
    the difference has changed, and PermissionDenied before the first change if the user may not make all of them."""
    found = difference(link, text, prune=prune)
    if digest and digest != found.digest:
        raise StaleVersion("policies have changed since the dry run: compare again", 0)
    return found, apply_changes(by, link, found.changes, reason=reason)


async def _now(admin: BrokerAdmin) -> tuple[Types, dict[ObjectName, ManagedObject]]:
    """Read the broker's types, and every object that can set policy fields; the console's snapshot may be older."""
    found: dict[ObjectName, ManagedObject] = {}
    for type_name in SCOPES:
        found.update({thing.name: thing for thing in await all_objects(admin, type_name)})
    return await admin.types(), found


def _difference(
    wanted: Settings,
    now: Mapping[ObjectName, ManagedObject],
    types: Types,
    *,
    prune: bool,
    spared: Collection[ObjectName] = (),
) -> Difference:
    """`spared`: what `prune` does not affect."""
    changes, problems, left_alone = list[PolicyChange](), dict[str, str](), list[ObjectName]()
    missing = 0
    for name in sorted(wanted, key=in_order):
        given, thing = wanted[name], now.get(name)
        if thing is not None:
            changes.extend(_update(thing, given, types))
        elif name.type == "Policy" and types["Policy"].creatable and _has_host(now, name):
            changes.append(PolicyChange(name, given, "create"))
        else:
            missing += 1
            if missing <= _NAMED:
                problems[str(name)] = f"{name} does not exist, and a policy file does not create it"
    if missing > _NAMED:
        problems[""] = f"{missing - _NAMED:,} more objects do not exist"
    for name in sorted(now, key=in_order):
        thing = now[name]
        if name in wanted or not (settings_of(name, thing.attributes, types) or name.type == "Policy"):
            continue
        if not prune or name in spared:
            left_alone.append(name)
        elif name.type == "Policy" and types["Policy"].deletable:
            was = settings_of(name, thing.attributes, types)
            changes.append(PolicyChange(name, {}, "delete", thing.version, was))
        else:
            changes.extend(_update(thing, {}, types))
    return Difference(sorted(changes, key=lambda change: in_order(change.name)), problems, left_alone)


def _has_host(now: Mapping[ObjectName, ManagedObject], name: ObjectName) -> bool:
    return object_name("VirtualHost", name=name["virtualhost"]) in now


def _update(thing: ManagedObject, given: Mapping[str, Any], types: Types) -> list[PolicyChange]:
    unset = {"priority": 0}
    wanted = {field: given.get(field, unset.get(field)) for field in settable_names(types, thing.name.type)}
    differ = {field: value for field, value in wanted.items() if thing.attributes.get(field) != value}
    if not differ:
        return []
    was = {field: thing.attributes.get(field) for field in differ}
    return [PolicyChange(thing.name, differ, "update", thing.version, was)]
