"""Undo what an audit row says was done: the values before it are set again, if nobody has changed them since."""

from __future__ import annotations

from typing import Any

from brokers.admin import InvalidValue
from brokers.model import TYPES, ObjectName
from console.access.actor import Actor
from console.audit.models import AuditEntry, Outcome
from console.links.registry import BrokerLink
from console.operations.policies import FIELDS, SCOPES, PolicyChange, make_change, set_fields


def is_revertible(entry: AuditEntry) -> bool:
    """Whether the row tells all that is needed; whether the object still is as the row left it, the broker knows."""
    if entry.outcome != Outcome.DONE or (name := _name(entry)) is None or name.type not in SCOPES:
        return False
    if entry.operation == "update":
        return bool(_changed(entry))
    return name.type == "Policy" and entry.operation in ("create", "delete")


def reversal(link: BrokerLink, entry: AuditEntry) -> PolicyChange:
    """The change that undoes what the row tells. Raises InvalidValue with a sentence if there is none, NotFound if the
    object is gone."""
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
        raise InvalidValue({"detail": f"{name} is as it was before already"})
    _unchanged_since({field: after.get(field) for field in changed}, now.attributes)
    back = {field: before.get(field) for field in changed}
    return PolicyChange(name, back, "update", now.version, {field: after.get(field) for field in changed})


def revert(
    by: Actor, link: BrokerLink, entry: AuditEntry, *, version: int | None = None, reason: str = ""
) -> int | None:
    """Undo it; the object's version then, None if it is gone. `version`: refuse unless that is its version now. Raises
    as `reversal` and the change itself do."""
    change = reversal(link, entry)
    if version is not None:
        change = PolicyChange(change.name, change.attributes, change.action, version, change.was)
    why = f"revert of audit row {entry.pk}"
    return make_change(by, link, change, reason=f"{why}: {reason.strip()}" if reason.strip() else why)


def _name(entry: AuditEntry) -> ObjectName | None:
    try:
        return ObjectName.parse(entry.object)
    except ValueError:
        return None  # rows outlive the types they were written about


def _changed(entry: AuditEntry) -> list[str]:
    """The attributes that the row changed and that can still be written."""
    name = _name(entry)
    before, after = entry.before or {}, entry.after or {}
    writable = {a.name for a in TYPES[name.type].writable} if name else set()
    return [field for field in after if field in writable and before.get(field) != after.get(field)]


def _unchanged_since(left: dict[str, Any], now: Any) -> None:
    for field, value in left.items():
        if now.get(field) != value:
            raise InvalidValue(
                {"detail": f"{field} was changed since: it is {_told(now.get(field))} now, and was {_told(value)} then"}
            )


def _told(value: Any) -> str:
    return "not set" if value is None else str(value)
