"""Change policy fields of many queues: choose them, tell what it would do, and do it row by row, resumably.

A job is a row of `console/bulk/models.py`; `step` does a few of its queues and says whether any are left, so that a
worker calls it again until none is. Who works on a job holds its lease: two workers never do the same rows. Each queue
is changed like any other object, with an audit row of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from brokers.admin import AdminError, BrokerUnreachable, InvalidValue, NotFound, StaleVersion
from brokers.model import TYPES, ObjectName, check_attributes, object_name
from brokers.model.patterns import matches, pattern_fault
from console.access.actor import Actor
from console.bulk.models import BulkEdit, BulkEditRow, RowState, State
from console.leases.leased_row import signed
from console.links.registry import BrokerLink, link
from console.links.visibility import as_visible
from console.operations.attempt import attempt
from console.operations.objects import update_object
from console.operations.policies import FIELDS, PolicyChange, preview_changes
from console.permissions.rights import Need, Role, host_of

STEP = 25
LEASE = timedelta(seconds=30)
#: For a worker that waits for the broker to come back: as long as the longest pause between two tries, and then some.
PATIENT_LEASE = timedelta(seconds=150)
_TRIES = 3
_BROKER = object_name("Broker")
_OPEN = (RowState.WAITING, RowState.CHANGING)


@dataclass(frozen=True, slots=True)
class Selection:
    """Queues by a filter, all of its conditions together, or by their object names alone."""

    virtualhost: str = ""
    pattern: str = ""
    search: str = ""
    states: Sequence[str] = ()
    objects: Sequence[str] = ()

    def shown(self) -> dict[str, Any]:
        if self.objects:
            return {"objects": len(self.objects)}
        given = {"virtualhost": self.virtualhost, "pattern": self.pattern, "search": self.search}
        return {key: value for key, value in {**given, "states": list(self.states)}.items() if value}


def selected(broker: BrokerLink, selection: Selection) -> list[Mapping[str, Any]]:
    """The rows of the queues that are meant, by name. Raises InvalidValue."""
    if fault := pattern_fault(selection.pattern):
        raise InvalidValue({"pattern": fault})
    broker.require_current()
    if selection.objects:
        chosen = set(selection.objects)
        rows = [row for row in broker.queues() if row["object"] in chosen]
        if missing := chosen - {row["object"] for row in rows}:
            raise InvalidValue({"objects": f"{min(missing)} is not there ({len(missing)} of {len(chosen)} are not)"})
    else:
        needle = selection.search.casefold()
        rows = [
            row
            for row in broker.queues()
            if (not selection.virtualhost or row["virtualhost"] == selection.virtualhost)
            and matches(selection.pattern, row["name"])
            and needle in f"{row['virtualhost']}/{row['name']}".casefold()
            and (not selection.states or row["state"] in selection.states)
        ]
    return sorted(rows, key=lambda row: (row["virtualhost"], row["name"]))


def preview_bulk(
    broker: BrokerLink, rows: Iterable[Mapping[str, Any]], attributes: Mapping[str, Any], *, largest: int = 20
) -> dict[str, Any]:
    """What the edit would do, as `preview_changes`, and which queues would refuse it."""
    given = checked(attributes)
    changes = [PolicyChange(ObjectName.parse(row["object"]), given) for row in rows]
    return preview_changes(broker, changes, largest=largest, one_by_one=True)


def checked(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Raises InvalidValue unless they are policy fields of a queue, one at least."""
    if not attributes:
        raise InvalidValue({"attributes": "no field is given: name the ones to change"})
    good, wrong = check_attributes(TYPES["Queue"], attributes, creating=False)
    wrong += [(name, f"{name} is no policy field") for name in good if name not in FIELDS]
    if wrong:
        raise InvalidValue(dict(wrong))
    return good


# -- jobs -------------------------------------------------------------------------------------------------------------


def begin_bulk(
    by: Actor, broker: BrokerLink, selection: Selection, attributes: Mapping[str, Any], *, reason: str = ""
) -> BulkEdit:
    """Keep the job; nothing is changed yet. Raises PermissionDenied, InvalidValue."""
    given = checked(attributes)
    rows = selected(broker, selection)
    planned = [BulkEditRow(object=row["object"], wanted=given) for row in rows]
    return _begin(by, broker, planned, reason=reason, attributes=given, selection=selection.shown())


def begin_undo(by: Actor, edit: BulkEdit, *, reason: str = "") -> BulkEdit:
    """A job that sets every queue that the edit changed to what it was, unless somebody has changed it since. Raises
    PermissionDenied, InvalidValue."""
    planned = [
        BulkEditRow(object=row.object, wanted=row.before, expected=row.wanted)
        for row in edit.rows.filter(state=RowState.DONE)
    ]
    broker = as_visible(link(edit.broker), by.rights.hosts(Role.VIEWER, edit.broker))
    return _begin(by, broker, planned, reason=reason or f"undo of bulk edit {edit.pk}", undo_of=edit)


def undo_changes(edit: BulkEdit) -> list[PolicyChange]:
    """What an undo would ask for, to preview it."""
    done = edit.rows.filter(state=RowState.DONE)
    return [PolicyChange(ObjectName.parse(row.object), row.before or {}) for row in done]


def _begin(by: Actor, broker: BrokerLink, planned: list[BulkEditRow], *, reason: str, **values: Any) -> BulkEdit:
    asked = {"queues": len(planned), **values.get("attributes", {})}
    operation = "undo-bulk-edit" if values.get("undo_of") else "bulk-edit"
    hosts = sorted({_host(row.object) for row in planned})
    need = Need((Role.POLICY_EDITOR,), tuple(hosts) or (None,))
    with attempt(by, broker, _BROKER, operation, reason=reason, asked=asked, need=need):
        if not planned:
            raise InvalidValue({"selection": "no queue is chosen: there is nothing to change"})
        with transaction.atomic():
            edit = BulkEdit.objects.create(
                user=by.user if isinstance(by.user, User) else None,
                user_name=by.name,
                source_address=by.address,
                broker=broker.slug,
                reason=reason.strip(),
                **signed(LEASE),
                virtualhosts=hosts,
                **values,
            )
            for row in planned:
                row.edit = edit
            BulkEditRow.objects.bulk_create(planned, batch_size=1000)
        return edit


def resume_bulk(by: Actor, edit: BulkEdit) -> None:
    """Let it go on, failed rows included; `step` does the rest. Raises PermissionDenied."""
    by.check(edit.broker, _need(edit), f"bulk edit {edit.pk}")
    edit.rows.filter(state=RowState.FAILED).update(state=RowState.WAITING, detail="")
    resumed = {"state": State.RUNNING, "error": "", "finished": None, "worker": ""}
    this = BulkEdit.objects.filter(pk=edit.pk)
    if not this.exclude(state=State.RUNNING).update(**resumed, **signed(LEASE)):
        this.claim(LEASE, timezone.now(), **resumed)  # it says that it runs, and whoever ran it has gone


def interrupt_bulk(by: Actor, edit: BulkEdit) -> None:
    """Have it stop after the queue that is being changed; it may be resumed. Raises PermissionDenied."""
    by.check(edit.broker, _need(edit), f"bulk edit {edit.pk}")
    why = f"{by.name} interrupted it"
    BulkEdit.objects.filter(pk=edit.pk, state=State.RUNNING).update(state=State.INTERRUPTED, error=why)


def _need(edit: BulkEdit) -> Need:
    """What it takes to steer a job."""
    return Need((Role.POLICY_EDITOR,), tuple(edit.virtualhosts) or (None,))


def _host(text: str) -> str:
    return host_of(ObjectName.parse(text)) or ""


def is_seen(edit: BulkEdit, hosts: frozenset[str] | None) -> bool:
    """Whether somebody who sees these virtual hosts (None: all) sees the job: all of its queues, that is."""
    return hosts is None or (bool(edit.virtualhosts) and set(edit.virtualhosts) <= hosts)


def is_stalled(edit: BulkEdit) -> bool:
    """It says that it runs, and whoever ran it has gone."""
    return edit.state == State.RUNNING and edit.is_free(timezone.now())


def stalled() -> list[int]:
    """The numbers of such jobs."""
    return BulkEdit.objects.filter(state=State.RUNNING).free(timezone.now())


def step(number: int, worker: str, count: int = STEP, *, patient: bool = False) -> bool:
    """Change the next `count` queues of a job; whether any are left for this worker. `worker` names who asks: another
    one's job is left alone while its lease lasts. A broker that is away interrupts the job, or if `patient` raises
    BrokerUnreachable and leaves the job this worker's."""
    this = BulkEdit.objects.filter(pk=number, state=State.RUNNING)
    mine = this.filter(Q(worker="") | Q(worker=worker))
    if not mine.update(worker=worker, **signed(LEASE)) and not this.claim(LEASE, timezone.now(), worker=worker):
        return False
    edit = BulkEdit.objects.select_related("user").get(pk=number)
    by, broker = _actor(edit), link(edit.broker)
    for row in edit.rows.filter(state__in=_OPEN)[:count]:
        if not BulkEdit.objects.filter(pk=number, state=State.RUNNING, worker=worker).exists():
            return False  # somebody interrupted it
        try:
            _do(by, broker, edit, row)
        except (BrokerUnreachable, PermissionDenied) as error:
            if patient and isinstance(error, BrokerUnreachable):
                BulkEdit.objects.filter(pk=number, worker=worker).update(**signed(PATIENT_LEASE))
                raise
            return _interrupted(number, str(error))
        except Exception as error:
            _interrupted(number, f"{type(error).__name__}: {error}")
            raise
    if edit.rows.filter(state__in=_OPEN).exists():
        return True
    BulkEdit.objects.filter(pk=number, state=State.RUNNING).update(state=State.DONE, finished=timezone.now())
    return False


def give_up(number: int, worker: str, why: str) -> None:
    """Interrupt a job of this worker's."""
    BulkEdit.objects.filter(pk=number, state=State.RUNNING, worker=worker).update(state=State.INTERRUPTED, error=why)


def _interrupted(number: int, why: str) -> bool:
    BulkEdit.objects.filter(pk=number, state=State.RUNNING).update(state=State.INTERRUPTED, error=why)
    return False


def _actor(edit: BulkEdit) -> Actor:
    if edit.user is None:
        raise PermissionDenied(f"{edit.user_name} has no account any more")
    return Actor(edit.user, edit.source_address)


def _do(by: Actor, broker: BrokerLink, edit: BulkEdit, row: BulkEditRow) -> None:
    name = ObjectName.parse(row.object)
    why = f"bulk edit {edit.pk}: {edit.reason}" if edit.reason else f"bulk edit {edit.pk}"
    for attempts in range(_TRIES):
        try:
            now = broker.call(lambda admin: admin.read(name))
            is_there = all(now.attributes.get(field) == value for field, value in row.wanted.items())
            if is_there:
                # A worker that died after the broker's answer had kept what was before.
                _end(row, RowState.DONE if row.state == RowState.CHANGING else RowState.UNCHANGED)
                return
            for field, value in (row.expected or {}).items():
                if now.attributes.get(field) != value:
                    raise InvalidValue({field: f"{field} was changed since: it is left as it is now"})
            row.before = {field: now.attributes.get(field) for field in row.wanted}
            row.state = RowState.CHANGING
            row.save(update_fields=["before", "state"])
            update_object(by, broker, name, row.wanted, version=now.version, reason=why)
            _end(row, RowState.DONE)
            return
        except StaleVersion as stale:
            if attempts == _TRIES - 1:
                _end(row, RowState.FAILED, str(stale))
        except BrokerUnreachable:
            raise
        except NotFound:
            _end(row, RowState.FAILED, f"{name} is gone")
            return
        except AdminError as refused:
            _end(row, RowState.FAILED, str(refused))
            return


def _end(row: BulkEditRow, state: RowState, detail: str = "") -> None:
    row.state, row.detail = state, detail
    row.save(update_fields=["state", "detail"])
