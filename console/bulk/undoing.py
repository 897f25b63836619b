"""Undo of a bulk edit: another job, which restores the previous values of the queues that the edit changed."""

from __future__ import annotations

from brokers.model import ObjectName
from console.access.actor import Actor
from console.bulk.editing import begin_job
from console.bulk.models import BulkEdit, BulkEditRow, RowState
from console.links.registry import link
from console.links.visibility import as_visible
from console.operations.policies import PolicyChange
from console.permissions.rights import Role


def begin_undo(by: Actor, edit: BulkEdit, *, reason: str = "") -> BulkEdit:
    """Create a job that restores the previous values of every queue that the edit changed, unless they have been
    changed again. Raises PermissionDenied, InvalidValue."""
    planned = [
        BulkEditRow(object=row.object, wanted=row.before, expected=row.wanted)
        for row in edit.rows.filter(state=RowState.DONE)
    ]
    broker = as_visible(link(edit.broker), by.rights.hosts(Role.VIEWER, edit.broker))
    return begin_job(by, broker, planned, reason=reason or f"undo of bulk edit {edit.pk}", undo_of=edit)


def undo_changes(edit: BulkEdit) -> list[PolicyChange]:
    """Return the changes that an undo would make, for its preview."""
    done = edit.rows.filter(state=RowState.DONE)
    return [PolicyChange(ObjectName.parse(row.object), row.before or {}) for row in done]
