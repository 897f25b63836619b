"""Bulk edits: change policy fields of many queues as a resumable job, with a preview before.

A job is a row of `console/bulk/models.py`. `step` changes a few of its queues and returns whether any are left; a
worker calls it until none are; `undoing.py` plans the undo. The worker owns the job's lease, so two workers never
process the same rows. Each queue is changed like any other object, with its own audit row and with the permissions that
the job's user, and the API token with which it was begun, have at that moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from brokers.admin import AdminError, BrokerUnreachable, InvalidValue, NotFound, StaleVersion
from brokers.model import ObjectName, check_attributes, object_name
from brokers.model.patterns import matches, pattern_fault
from console.access.actor import Actor
from console.access.later_rights import later_actor, token_number
from console.audit.models import Outcome
from console.bulk.models import BulkEdit, BulkEditRow, RowState, State
from console.bulk.pinned import require_same
from console.bulk.relative import checked_factors, in_words, scaled
from console.leases.leased_row import signed
from console.links.registry import BrokerLink, UnknownBroker, link
from console.operations.attempt import Attempt, attempt, happened
from console.operations.composed_reasons import composed_reason
from console.operations.objects import update_object
from console.operations.policies import FIELDS, PolicyChange, check_settable, preview_changes
from console.permissions.rights import Need, Role, host_of

STEP = 25
LEASE = timedelta(seconds=30)
#: Lease of a worker that waits for a disconnected broker: longer than the longest pause between two attempts.
RECONNECT_LEASE = timedelta(seconds=150)
_ATTEMPTS = 3
_BROKER = object_name("Broker")
_ANY_QUEUE = object_name("Queue", virtualhost="", name="")
_OPEN = (RowState.WAITING, RowState.CHANGING)


@dataclass(frozen=True, slots=True)
class Selection:
    """Queues that match all conditions of a filter, or, if `objects` is set, queues by their object names."""

    virtualhost: str = ""
    pattern: str = ""
    search: str = ""
    states: Sequence[str] = ()
    objects: Sequence[str] = ()

    def as_json(self) -> dict[str, Any]:
        if self.objects:
            return {"objects": len(self.objects)}
        given = {"virtualhost": self.virtualhost, "pattern": self.pattern, "search": self.search}
        return {key: value for key, value in {**given, "states": list(self.states)}.items() if value}


def selected(broker: BrokerLink, selection: Selection) -> list[Mapping[str, Any]]:
    """Return the rows of the selected queues, sorted by name. Raises InvalidValue."""
    if fault := pattern_fault(selection.pattern):
        raise InvalidValue({"pattern": fault})
    broker.require_current()
    if selection.objects:
        chosen = set(selection.objects)
        rows = [row for row in broker.queues() if row["object"] in chosen]
        if missing := chosen - {row["object"] for row in rows}:
            raise InvalidValue({"objects": f"{min(missing)} does not exist ({len(missing)} of {len(chosen)} do not)"})
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


def preview_bulk(broker: BrokerLink, wanted: Mapping[str, Mapping[str, Any]], *, largest: int = 20) -> dict[str, Any]:
    """Return the impact of an edit, see `wanted_values`, as `preview_changes` does, with the queues that would refuse
    it."""
    changes = [PolicyChange(ObjectName.parse(name), values) for name, values in wanted.items()]
    return preview_changes(broker, changes, largest=largest, one_by_one=True)


def wanted_values(
    broker: BrokerLink,
    rows: Iterable[Mapping[str, Any]],
    attributes: Mapping[str, Any],
    factors: Mapping[str, Any],
) -> dict[str, dict[str, Any]]:
    """Return object name -> values to set, for the queues that get any: `attributes`, and the queue's effective values
    multiplied by `factors`. Raises InvalidValue."""
    multiplied = checked_factors(factors, attributes)
    given = checked(broker, attributes, also=tuple(multiplied))
    wanted = {row["object"]: {**given, **scaled(row, multiplied)} for row in rows}
    return {name: values for name, values in wanted.items() if values}


def checked(broker: BrokerLink, attributes: Mapping[str, Any], *, also: Sequence[str] = ()) -> dict[str, Any]:
    """Return the validated attributes. Raises InvalidValue unless they, and the fields `also`, are policy fields that
    can be set on queues of this broker, at least one."""
    if not attributes and not also:
        raise InvalidValue({"attributes": "attributes is empty: set the fields to change"})
    check_settable(broker, [PolicyChange(_ANY_QUEUE, {**attributes, **dict.fromkeys(also)})])
    good, wrong = check_attributes(broker.types["Queue"], attributes, creating=False)
    wrong += [(name, f"{name} is not a policy field") for name in good if name not in FIELDS]
    if wrong:
        raise InvalidValue(dict(wrong))
    return good


# -- jobs -------------------------------------------------------------------------------------------------------------


def begin_bulk(
    by: Actor,
    broker: BrokerLink,
    selection: Selection,
    attributes: Mapping[str, Any],
    *,
    factors: Mapping[str, float] | None = None,
    reason: str = "",
    previewed: str = "",
) -> BulkEdit:
    """Create a job without changing any queue yet. Values of `factors` are computed now, from the effective values of
    each queue: resuming the job does not apply them again. `previewed`: the digest of the preview, see `digest_of`; "":
    any queues and values. Raises PermissionDenied, InvalidValue, PreviewOutdated."""
    rows = selected(broker, selection)
    wanted = wanted_values(broker, rows, attributes, factors or {})
    planned = [BulkEditRow(object=name, wanted=values) for name, values in wanted.items()]
    shown = {**checked(broker, attributes, also=tuple(factors or ())), **in_words(factors or {})}

    def check() -> None:
        require_same(previewed, [row["object"] for row in rows], wanted)

    return begin_job(by, broker, planned, reason=reason, check=check, attributes=shown, selection=selection.as_json())


def begin_job(
    by: Actor,
    broker: BrokerLink,
    planned: list[BulkEditRow],
    *,
    reason: str,
    check: Callable[[], None] = lambda: None,
    **values: Any,
) -> BulkEdit:
    """Create a job of these rows; audited. `check` raises why it is refused. Raises PermissionDenied, InvalidValue."""
    requested = {"queues": len(planned), **values.get("attributes", {})}
    operation = _operation(values.get("undo_of"))
    hosts = sorted({_host(row.object) for row in planned})
    need = Need((Role.POLICY_EDITOR,), tuple(hosts) or (None,))
    with attempt(by, broker, _BROKER, operation, reason=reason, requested=requested, need=need) as this:
        check()
        if not planned:
            raise InvalidValue({"selection": "no queues selected"})
        with this.in_one_transaction():
            edit = BulkEdit.objects.create(
                user=by.user if isinstance(by.user, User) else None,
                user_name=by.name,
                token_number=token_number(by),
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


def resume_bulk(by: Actor, edit: BulkEdit, *, reason: str = "") -> None:
    """Resume a job, failed rows included; audited. Raises PermissionDenied. If its own user resumes it, it has from now
    on the permissions of this request: those of its API token, or without one those of the user."""
    with _steering(by, edit, "resume", reason) as steering, steering.in_one_transaction():
        edit.rows.filter(state=RowState.FAILED).update(state=RowState.WAITING, detail="")
        resumed: dict[str, Any] = {"state": State.RUNNING, "error": "", "finished": None, "worker": ""}
        if by.user.pk is not None and by.user.pk == edit.user_id:
            resumed["token_number"] = token_number(by)
        this = BulkEdit.objects.filter(pk=edit.pk)
        if not this.exclude(state=State.RUNNING).update(**resumed, **signed(LEASE)):
            this.claim(LEASE, timezone.now(), **resumed)  # running without a worker


def interrupt_bulk(by: Actor, edit: BulkEdit, *, reason: str = "") -> None:
    """Interrupt a job after the queue that is being changed; it can be resumed. Audited. Raises PermissionDenied."""
    with _steering(by, edit, "interrupt", reason) as steering, steering.in_one_transaction():
        why = f"interrupted by {by.name}"
        BulkEdit.objects.filter(pk=edit.pk, state=State.RUNNING).update(state=State.INTERRUPTED, error=why)


def _steering(by: Actor, edit: BulkEdit, verb: str, reason: str) -> AbstractContextManager[Attempt]:
    """An attempt to interrupt or resume a job; also of a broker that is not configured any more."""
    return attempt(
        by,
        edit.broker,
        _BROKER,
        f"{verb}-bulk-edit",
        reason=reason,
        requested={"job": edit.pk},
        need=_need(edit),
        act=f"{verb} bulk edit {edit.pk} of",
    )


def _need(edit: BulkEdit) -> Need:
    """Return the permission to interrupt, resume or undo a job."""
    return Need((Role.POLICY_EDITOR,), tuple(edit.virtualhosts) or (None,))


def _host(text: str) -> str:
    return host_of(ObjectName.parse(text)) or ""


def is_visible(edit: BulkEdit, hosts: frozenset[str] | None) -> bool:
    """Return whether a user who sees these virtual hosts (None: all) sees the job, that is, all its queues."""
    return hosts is None or (bool(edit.virtualhosts) and set(edit.virtualhosts) <= hosts)


def is_stalled(edit: BulkEdit) -> bool:
    """Return whether a job is running without a worker: its lease has expired."""
    return edit.state == State.RUNNING and edit.is_free(timezone.now())


def stalled() -> list[int]:
    """Return the numbers of stalled jobs."""
    return BulkEdit.objects.filter(state=State.RUNNING).free(timezone.now())


def step(number: int, worker: str, count: int = STEP, *, keep_on_disconnect: bool = False) -> bool:
    """Change the next `count` queues of a job and return whether any are left for this worker. `worker`: name of the
    calling worker; a job whose lease another worker owns is skipped. A disconnected broker interrupts the job, or, with
    `keep_on_disconnect`, raises BrokerUnreachable while this worker keeps the job."""
    this = BulkEdit.objects.filter(pk=number, state=State.RUNNING)
    mine = this.filter(Q(worker="") | Q(worker=worker))
    if not mine.update(worker=worker, **signed(LEASE)) and not this.claim(LEASE, timezone.now(), worker=worker):
        return False
    rows = list(BulkEditRow.objects.filter(edit=number, state__in=_OPEN)[:count])
    for row in rows:
        # Read again for each queue: the job may be interrupted, its user deactivated and its token revoked meanwhile.
        edit = this.filter(worker=worker).select_related("user").first()
        if edit is None:
            return False  # interrupted
        try:
            by = _actor(edit)
        except PermissionDenied as error:
            return _without_rights(edit, str(error))
        try:
            _change_queue(by, link(edit.broker), edit, row)
        except (BrokerUnreachable, PermissionDenied, UnknownBroker) as error:
            if keep_on_disconnect and isinstance(error, BrokerUnreachable):
                BulkEdit.objects.filter(pk=number, worker=worker).update(**signed(RECONNECT_LEASE))
                raise
            return _interrupted(number, str(error))
        except Exception as error:
            _interrupted(number, f"{type(error).__name__}: {error}")
            raise
    if BulkEditRow.objects.filter(edit=number, state__in=_OPEN).exists():
        return True
    BulkEdit.objects.filter(pk=number, state=State.RUNNING).update(state=State.DONE, finished=timezone.now())
    return False


def abandon(number: int, worker: str, why: str) -> None:
    """Interrupt a job that this worker owns."""
    BulkEdit.objects.filter(pk=number, state=State.RUNNING, worker=worker).update(state=State.INTERRUPTED, error=why)


def _interrupted(number: int, why: str) -> bool:
    BulkEdit.objects.filter(pk=number, state=State.RUNNING).update(state=State.INTERRUPTED, error=why)
    return False


def _without_rights(edit: BulkEdit, why: str) -> bool:
    """Interrupt a job whose account or token is gone, and write an audit row, both or neither: no row of a queue
    says so."""
    with transaction.atomic():
        if BulkEdit.objects.filter(pk=edit.pk, state=State.RUNNING).update(state=State.INTERRUPTED, error=why):
            happened(
                Actor(edit.user or User(username=edit.user_name), edit.source_address),
                edit.broker,
                _BROKER,
                _operation(edit.undo_of_id),
                reason=edit.reason,
                detail=f"bulk edit {edit.pk} is interrupted",
                error=why,
                outcome=Outcome.REFUSED,
                need=_need(edit),
            )
    return False


def _operation(undo_of: object) -> str:
    return "undo-bulk-edit" if undo_of else "bulk-edit"


def _actor(edit: BulkEdit) -> Actor:
    return later_actor(edit.user, edit.user_name, edit.token_number, edit.source_address, ordered="the job was begun")


def _change_queue(by: Actor, broker: BrokerLink, edit: BulkEdit, row: BulkEditRow) -> None:
    name = ObjectName.parse(row.object)
    why = composed_reason(f"bulk edit {edit.pk}", edit.reason)
    for attempts in range(_ATTEMPTS):
        try:
            now = broker.call(lambda admin: admin.read(name))
            is_applied = all(now.attributes.get(field) == value for field, value in row.wanted.items())
            if is_applied:
                # A worker that died after the broker's answer had stored the previous values.
                _end(row, RowState.DONE if row.state == RowState.CHANGING else RowState.UNCHANGED)
                return
            for field, value in (row.expected or {}).items():
                if now.attributes.get(field) != value:
                    raise InvalidValue({field: f"{field} has been changed again and is not restored"})
            row.before = {field: now.attributes.get(field) for field in row.wanted}
            row.state = RowState.CHANGING
            row.save(update_fields=["before", "state"])
            update_object(by, broker, name, row.wanted, version=now.version, reason=why)
            _end(row, RowState.DONE)
            return
        except StaleVersion as stale:
            if attempts == _ATTEMPTS - 1:
                _end(row, RowState.FAILED, str(stale))
        except BrokerUnreachable:
            raise
        except NotFound:
            _end(row, RowState.FAILED, f"{name} does not exist")
            return
        except AdminError as refused:
            _end(row, RowState.FAILED, str(refused))
            return


def _end(row: BulkEditRow, state: RowState, detail: str = "") -> None:
    row.state, row.detail = state, detail
    row.save(update_fields=["state", "detail"])
