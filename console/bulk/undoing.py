"""Undo of a bulk edit: another job, which restores the previous values of the queues that the edit changed.

A queue is undone once: what an earlier undo has restored is not part of another one, which would revert a later,
deliberate change to the edit's value. A queue that others have changed since the edit is left as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Q, QuerySet

from brokers.admin import BrokerAdmin, InvalidValue
from brokers.model import ObjectName
from console.access.actor import Actor
from console.bulk.editing import begin_job, is_stalled
from console.bulk.models import BulkEdit, BulkEditRow, RowState, State
from console.links.registry import BrokerLink, link
from console.links.visibility import as_visible
from console.operations.policies import PolicyChange
from console.permissions.rights import Role

_NAMED = 500
#: Results of an undo after which a queue has its previous values.
_UNDONE = (RowState.DONE, RowState.UNCHANGED)


@dataclass(frozen=True, slots=True)
class UndoPlan:
    """What an undo would do: its changes, and the number of queues that others have changed or deleted since the
    edit, which it leaves as they are."""

    changes: tuple[PolicyChange, ...]
    changed_since: int


def begin_undo(by: Actor, edit: BulkEdit, *, reason: str = "") -> BulkEdit:
    """Create a job that restores the previous values of every queue that the edit changed and no earlier undo has
    restored, unless they have been changed again. Raises PermissionDenied, InvalidValue."""
    planned = [BulkEditRow(object=row.object, wanted=row.before, expected=row.wanted) for row in _left(edit)]
    broker = as_visible(link(edit.broker), by.rights.hosts(Role.VIEWER, edit.broker))

    def check() -> None:
        if fault := _fault(edit, any_left=bool(planned)):
            raise InvalidValue({"job": fault})

    return begin_job(by, broker, planned, reason=reason or f"undo of bulk edit {edit.pk}", check=check, undo_of=edit)


def undoable(edit: BulkEdit) -> int:
    """Return the number of queues that an undo begun now would restore, unless others have changed them since; 0 while
    one is running."""
    return 0 if _running(edit) else _left(edit).count()


def undo_plan(edit: BulkEdit, broker: BrokerLink) -> UndoPlan:
    """Return what an undo would do now, for its preview. Raises InvalidValue, AdminError."""
    rows = list(_left(edit))
    if fault := _fault(edit, any_left=bool(rows)):
        raise InvalidValue({"job": fault})
    shown = {row.object: values for row in rows if (values := broker.queue(row.object)) is not None}
    # The snapshot can be older than the edit: the broker says whether those have really been changed since.
    others = [ObjectName.parse(row.object) for row in rows if not _is_as_left(row, shown.get(row.object))]
    now = {**shown, **broker.call(lambda admin: _read(admin, others))} if others else shown
    as_left = [row for row in rows if _is_as_left(row, now.get(row.object))]
    changes = tuple(PolicyChange(ObjectName.parse(row.object), row.before or {}) for row in as_left)
    return UndoPlan(changes, len(rows) - len(as_left))


def _left(edit: BulkEdit) -> QuerySet[BulkEditRow]:
    """Return the rows of queues that the edit changed and no undo of it has restored."""
    undone = BulkEditRow.objects.filter(edit__undo_of=edit, state__in=_UNDONE)
    return edit.rows.filter(state=RowState.DONE).exclude(object__in=undone.values("object"))


def _running(edit: BulkEdit) -> BulkEdit | None:
    return next((undo for undo in edit.undone_by.filter(state=State.RUNNING) if not is_stalled(undo)), None)


def _fault(edit: BulkEdit, *, any_left: bool) -> str:
    """Return why there is nothing to undo; "": there is."""
    if (running := _running(edit)) is not None:
        return f"bulk edit {running.pk} is undoing this one: wait until it is done"
    if any_left:
        return ""
    undone = edit.undone_by.filter(Q(rows__state__in=_UNDONE)).first()
    return f"bulk edit {undone.pk} has undone this one already" if undone else "this bulk edit has changed no queue"


def _is_as_left(row: BulkEditRow, queue: Mapping[str, Any] | None) -> bool:
    return queue is not None and all(queue.get(field) == value for field, value in row.wanted.items())


async def _read(admin: BrokerAdmin, names: Sequence[ObjectName]) -> dict[str, Mapping[str, Any] | None]:
    """Return the attributes of these queues; None of those that do not exist."""
    by_host: dict[str, list[str]] = {}
    for name in names:
        by_host.setdefault(name["virtualhost"], []).append(name["name"])
    found: dict[str, Mapping[str, Any] | None] = {}
    for host, of_host in by_host.items():
        for first in range(0, len(of_host), _NAMED):
            some = of_host[first : first + _NAMED]
            page = await admin.query("Queue", where={"virtualhost": host, "name": some}, count=len(some))
            found |= {str(queue.name): queue.attributes for queue in page.items}
    return {**{str(name): None for name in names}, **found}
