"""Revert the change of an audit row: restore the previous values, unless they have been changed again."""

from __future__ import annotations

from typing import Any

from brokers.admin import InvalidValue
from brokers.model import TYPES, ObjectName
from console.access.actor import Actor
from console.audit.models import AuditEntry, Outcome
from console.links.registry import BrokerLink
from console.operations.composed_reasons import composed_reason
from console.operations.policies import FIELDS, SCOPES, PolicyChange, make_change, set_fields


def is_revertible(entry: AuditEntry) -> bool:
    """Return whether the row has the data for a reversal. `reversal` checks the current state of the object."""
    if entry.outcome != Outcome.DONE or (name := _name(entry)) is None or name.type not in SCOPES:
        return False
    if entry.operation == "update":
        return bool(_changed(entry))
    return name.type == "Policy" and entry.operation in ("create", "delete")


def reversal(link: BrokerLink, entry: AuditEntry) -> PolicyChange:
    """Return the change that reverts the row. Raises InvalidValue if there is none, NotFound if the object does not
    exist."""
    name = _name(entry)
    if name is None or not is_revertible(entry):
        raise InvalidValue({"detail": f"{entry.operation} of {entry.object} ({entry.outcome}) cannot be reverted"})
    before, after = entry.before or {}, entry.after or {}
    if entry.operation == "delete":
        return PolicyChange(name, set_fields(before), "create")
    now = link.call(lambda admin: admin.read(name))
    if entry.operation == "create":
        _unchanged_since({field: after.get(field) for field in (*FIELDS, "priority")}, now.attributes)
        return PolicyChange(name, {}, "delete", now.version, set_fields(now.attributes))
    changed = _changed(entry)
    if all(now.attributes.get(field) == before.get(field) for field in changed):
        raise InvalidValue({"detail": f"{name} already has the previous values"})
    _unchanged_since({field: after.get(field) for field in changed}, now.attributes)
    back = {field: before.get(field) for field in changed}
    return PolicyChange(name, back, "update", now.version, {field: after.get(field) for field in changed})


def revert(
    by: Actor, link: BrokerLink, entry: AuditEntry, *, version: int | None = None, reason: str = ""
) -> int | None:
    """Revert the change of a row and return the object's new version; None if it was deleted. `version`: the object's
    expected version, any if None. Raises StaleVersion, and as `reversal` and `make_change` do."""
    change = reversal(link, entry)
    if version is not None:
        change = PolicyChange(change.name, change.attributes, change.action, version, change.was)
    return make_change(by, link, change, reason=composed_reason(f"revert of audit row {entry.pk}", reason))


def _name(entry: AuditEntry) -> ObjectName | None:
    try:
        return ObjectName.parse(entry.object)
    except ValueError:
        return None  # the row is older than the current types


def _changed(entry: AuditEntry) -> list[str]:
    """Return the attributes that the row changed and that are writable."""
    name = _name(entry)
    before, after = entry.before or {}, entry.after or {}
    writable = {a.name for a in TYPES[name.type].writable} if name else set()
    return [field for field in after if field in writable and before.get(field) != after.get(field)]


def _unchanged_since(left: dict[str, Any], now: Any) -> None:
    for field, value in left.items():
        if now.get(field) != value:
            raise InvalidValue(
                {"detail": f"{field} has been changed again, from {_text(value)} to {_text(now.get(field))}"}
            )


def _text(value: Any) -> str:
    return "not set" if value is None else str(value)
