"""Undo of a change of access from its audit entry: restores the previous state, unless it was changed again since then,
and each step is audited.

Passwords and tokens cannot be restored: only their digests are stored, and a revoked token stays revoked.
"""

from __future__ import annotations

from collections.abc import Iterable

from django.contrib.auth.models import Group, User

from brokers.admin import InvalidValue, NotFound
from console.access import administration
from console.access.actor import Actor
from console.audit.models import AuditEntry, Outcome
from console.permissions.rights import Grant, Role

_UNDOABLE = frozenset({"delete-group", "take-role", "deactivate-user", "set-groups"})


def is_undoable(entry: AuditEntry) -> bool:
    return entry.operation in _UNDOABLE and entry.outcome == Outcome.DONE


def undo(by: Actor, entry: AuditEntry) -> str:
    """Undo the change, and return the result as a sentence. Raises InvalidValue, NotFound, AlreadyExists,
    PermissionDenied."""
    if not is_undoable(entry):
        raise InvalidValue({"undo": f"{entry.operation} of {entry.object} ({entry.outcome}) cannot be undone"})
    kind, _, name = entry.object.partition(" ")
    before, after, reason = entry.before or {}, entry.after or {}, f"undo of audit row {entry.pk}"
    grants = [Grant(Role(role), broker, host) for role, broker, host in before.get("grants", ())]
    if entry.operation == "delete-group":
        return _create_again(by, name, grants, before.get("members", ()), reason)
    if entry.operation == "take-role":
        holder: User | Group = _user(name) if kind == "user" else _group(name)
        for grant in grants:
            administration.assign_role(by, holder, grant, reason=reason)
        return f"{name} has the role of {before.get('role')} again."
    user = _user(name)
    if entry.operation == "deactivate-user":
        administration.set_active(by, user, active=True, reason=reason, was=False)
        return f"{name} can sign in again."
    groups = list(Group.objects.filter(name__in=before.get("groups", ())))
    administration.set_groups(by, user, groups, reason=reason, were=after.get("groups", ()))
    return f"The previous groups of {name} are restored: {_names(group.name for group in groups)}."


def _create_again(by: Actor, name: str, grants: list[Grant], members: Iterable[str], reason: str) -> str:
    group = administration.create_group(by, name, reason=reason)
    for grant in grants:
        administration.assign_role(by, group, grant, reason=reason)
    remaining = list(User.objects.filter(username__in=members))
    for user in remaining:
        administration.set_groups(by, user, [*user.groups.all(), group], reason=reason)
    return f"The group {name} is restored: roles: {len(grants)}, members: {len(remaining)}."


def _names(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def _user(name: str) -> User:
    found = User.objects.filter(username=name).first()
    if found is None:
        raise NotFound(f"the user {name} no longer exists")
    return found


def _group(name: str) -> Group:
    found = Group.objects.filter(name=name).first()
    if found is None:
        raise NotFound(f"the group {name} no longer exists")
    return found
