"""Parsing and validation of the policy changes in a preview request, which are untrusted input."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from brokers.admin import InvalidValue, NotAllowed
from brokers.engine.values.policy import FIELDS
from brokers.model import TYPES, ObjectName, check_attributes

#: The managed types that set policy fields.
WITH_POLICY = ("Broker", "VirtualHost", "Exchange", "Policy", "Queue")


@dataclass(frozen=True, slots=True)
class PolicyChange:
    """`action`: update, or for a Policy also create or delete. `version`: the version the object must have; None:
    any."""

    name: ObjectName
    action: str
    attributes: Mapping[str, Any]
    version: int | None

    def checked_attributes(self, *, only_one: bool) -> dict[str, Any]:
        """Return the attributes in canonical form. `only_one`: there is no other change, so an error need not name the
        object. Raises InvalidValue."""
        name = self.name
        good, wrong = check_attributes(TYPES[name.type], self.attributes, creating=False)
        known = (*FIELDS, "priority") if name.type == "Policy" else FIELDS
        wrong += [(n, f"{n} is no policy field: its effect is not previewed") for n in good if n not in known]
        if wrong:
            raise InvalidValue({n: text if only_one else f"{name}: {text}" for n, text in wrong})
        return good


def one_per_object(change: Any) -> Iterator[Any]:
    """Yield one change per object of a change, which may have several objects with versions. Raises InvalidValue."""
    objects = change.get("objects") if isinstance(change, Mapping) else None
    if objects is None:
        yield change
        return
    if not isinstance(objects, Mapping) or "object" in change or "version" in change:
        raise InvalidValue(
            {"objects": f"objects is {objects!r}: a map of names to versions, without object or version"}
        )
    rest = {key: value for key, value in change.items() if key != "objects"}
    for name, version in objects.items():
        yield {**rest, "object": name, "version": version}


def read_change(change: Any) -> PolicyChange:
    """Parse a change. Raises InvalidValue, or NotAllowed for an object without a policy."""
    if not isinstance(change, Mapping):
        raise InvalidValue({"changes": f"changes has {change!r}: each must be a map with an object"})
    unknown = [key for key in change if key not in ("object", "action", "attributes", "version")]
    if unknown:
        raise InvalidValue({"changes": f"a change has no {', '.join(map(str, unknown))}"})
    try:
        name = ObjectName.parse(str(change.get("object") or ""))
    except ValueError as error:
        raise InvalidValue({"object": str(error)}) from None
    action, given, version = change.get("action") or "update", change.get("attributes") or {}, change.get("version")
    if name.type not in WITH_POLICY:
        raise NotAllowed(f"a {name.type.lower()} has no flow-control policy")
    if action not in ("update", "create", "delete") or (action != "update" and name.type != "Policy"):
        raise InvalidValue(
            {"action": f"action is {action!r} for {name}: update, or for a Policy create or delete, can be previewed"}
        )
    if not isinstance(given, Mapping):
        raise InvalidValue({"attributes": f"attributes is {given!r}: it must be a map"})
    if version is not None and (isinstance(version, bool) or not isinstance(version, int)):
        raise InvalidValue({"version": f"version is {version!r}: it must be a whole number"})
    return PolicyChange(name, str(action), dict(given), version)
