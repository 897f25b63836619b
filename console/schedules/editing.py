"""Changes to schedules: validated, authorized and audited. The user who saves a schedule becomes its owner; if it was
saved with an API token, its runs have at most the permissions of the token.

The serializers in `console/api/alerts_schema.py` have already checked types and ranges; here follow the checks that
depend on other data."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils import timezone

from brokers.admin import EffectNotConfirmed, InvalidValue, NotFound, StaleVersion
from brokers.input_checks import label_fault
from brokers.model import ObjectName, check_attributes
from console.access.actor import Actor
from console.access.later_rights import token_name, token_number
from console.links.registry import BrokerLink, UnknownBroker, link
from console.operations.console_changes import About, Change, console_attempt, console_change
from console.operations.policies import FIELDS, SCOPES, PolicyChange, check_settable
from console.operations.stops import Aim
from console.permissions.rights import Need, Rights, Role, host_of, needed
from console.schedules import execution
from console.schedules.actions import operation_of
from console.schedules.execution import rule_for
from console.schedules.models import Action, Run, RunState, Schedule
from console.schedules.times import rule_of, upcoming
from console.schedules.wakeups import cancel_wakeup, set_wakeup

#: Longest window, in minutes: 31 days.
MOST_MINUTES = 31 * 24 * 60
_CRON = ("minute", "hour", "days", "months", "weekdays")
FIELDS_GIVEN = (
    "name", "broker", "action", "target", "pattern", "attributes", "effect", "reason", "zone", "once", *_CRON, "lasts",
    "paused"
)  # fmt: skip
#: Default values of a schedule.
SCHEDULE: dict[str, Any] = {of.name: of.get_default() for of in Schedule._meta.fields if of.name in FIELDS_GIVEN}
#: Next runs that are shown.
AHEAD = 5
_AT_WORK = (RunState.BEGINNING, RunState.OPEN, RunState.ENDING)


def schedule_json(schedule: Schedule) -> dict[str, Any]:
    """Return a schedule with its next runs and its open run, as the API has it."""
    next_runs = [] if schedule.paused else upcoming(rule_for(schedule), timezone.now(), AHEAD)
    return {
        "id": schedule.pk,
        "version": schedule.version,
        **{field: getattr(schedule, field) for field in FIELDS_GIVEN},
        "user_name": schedule.user_name,
        "token": token_name(schedule.token_number),
        "cannot_run": cannot_run(schedule),
        "upcoming": next_runs,
        "open_run": schedule.runs.filter(state__in=_AT_WORK).values_list("pk", flat=True).first(),
    }


def cannot_run(schedule: Schedule) -> str:
    """Return why a run would be refused now: its owner or its API token lacks the permission or is gone. Empty: it
    would not."""
    target = ObjectName.parse(schedule.target)
    try:
        need = need_of(schedule.action, target, schedule.attributes)
        execution.actor_of(schedule).check(schedule.broker, need, target)
    except PermissionDenied as error:
        return str(error)
    return ""


def run_json(run: Run) -> dict[str, Any]:
    fields = (
        "schedule_name", "broker", "action", "target", "pattern", "attributes", "effect", "user_name", "due", "ends",
        "state", "before", "began", "finished", "begin_said", "end_said", "tries"
    )  # fmt: skip
    return {"id": run.pk, "schedule": run.schedule_id, **{field: getattr(run, field) for field in fields}}


def create(by: Actor, given: Mapping[str, Any]) -> Schedule:
    """Create a schedule. Raises PermissionDenied, InvalidValue."""
    given = {**SCHEDULE, **given}
    about: About = {"slug": given["broker"], "virtualhost": _host(given["target"]), "reason": given["reason"]}
    with console_change(by, f"schedule {given['name']}", "create", **about) as this:
        values = _checked(by, given)
        schedule = Schedule(**values, **_acting(by))
        _plan(schedule)
        try:
            with transaction.atomic():
                schedule.save()
        except IntegrityError as error:
            raise InvalidValue({"name": f"{schedule.name!r} already exists"}) from error
        this.after = _audited(schedule)
        _wake(schedule)
        return schedule


def change(by: Actor, schedule: Schedule, given: Mapping[str, Any], version: int) -> Schedule:
    """Change a schedule and return it; an open run is not affected. Raises PermissionDenied, InvalidValue,
    StaleVersion, NotFound."""
    with _change(by, schedule, "update") as this:
        this.before = _audited(schedule)
        values = _checked(by, {**{field: getattr(schedule, field) for field in FIELDS_GIVEN}, **given})
        planned = Schedule(pk=schedule.pk, **values)
        _plan(planned)
        found = Schedule.objects.filter(pk=schedule.pk, version=version)
        try:
            with transaction.atomic():
                done = found.update(**values, **_acting(by), next=planned.next, version=F("version") + 1)
        except IntegrityError as error:
            raise InvalidValue({"name": f"{planned.name!r} already exists"}) from error
        if not done:
            now = Schedule.objects.filter(pk=schedule.pk).first()
            if now is None:
                raise NotFound(f"{schedule.name} has been deleted")
            raise StaleVersion(f"{schedule.name} has changed since you read it: read it again", now.version)
        schedule = Schedule.objects.get(pk=schedule.pk)
        this.after = _audited(schedule)
        _wake(schedule)
        return schedule


def pause(by: Actor, schedule: Schedule, paused: bool) -> Schedule:
    """Pause or resume a schedule. A paused schedule starts no runs; an open run still ends. The owner stays the same;
    if the owner resumes it with an API token, its runs have at most the permissions of that token. Raises
    PermissionDenied."""
    with _change(by, schedule, "pause" if paused else "go-on") as this:
        limit: dict[str, Any] = {}
        if not paused and by.token is not None and by.user.pk == schedule.user_id:
            limit = {"token_number": by.token.pk}
            this.detail = f"runs have at most the permissions of the API token {by.token}"
        # Runs that were due during the pause are skipped.
        _plan(schedule)
        Schedule.objects.filter(pk=schedule.pk).update(
            paused=paused, next=schedule.next, version=F("version") + 1, **limit
        )
        schedule = Schedule.objects.get(pk=schedule.pk)
        _wake(schedule)
        return schedule


def delete(by: Actor, schedule: Schedule) -> None:
    """Delete a schedule; its runs stay in the history. Raises PermissionDenied, and InvalidValue while a run is
    open."""
    with _change(by, schedule, "delete") as this:
        this.before = _audited(schedule)
        if schedule.runs.filter(state__in=_AT_WORK).exists():
            raise InvalidValue({"detail": "a run is open: end it first, so that its change is reverted"})
        cancel_wakeup(f"schedule {schedule.pk}")
        schedule.delete()


def end_now(by: Actor, run: Run) -> Run:
    """Revert the change of an open run, or of one whose revert failed, now; call off one that has not started. Raises
    PermissionDenied, InvalidValue."""
    name, need = f"schedule {run.schedule_name}", need_of(run.action, ObjectName.parse(run.target), run.attributes)
    about: About = {"slug": run.broker, "virtualhost": _host(run.target)}
    # It acts at the broker, and stores its steps itself: no transaction is around them.
    with console_attempt(by, name, "end-now", [(run.broker, need)], **about) as this:
        if run.state == RunState.BEGINNING and execution.call_off(run.pk, timezone.now(), by):
            this.detail = "it had not started"
            return Run.objects.get(pk=run.pk)
        run.refresh_from_db()
        if run.state != RunState.OPEN and not (run.state == RunState.FAILED and run.after is not None):
            raise InvalidValue({"detail": f"the run is {run.state}: there is nothing to revert"})
        this.detail = execution.execute(run.pk, by=by)
        execution.update_end_wakeup(run.pk)
    return Run.objects.get(pk=run.pk)


def preview(given: Mapping[str, Any]) -> list[Any]:
    """Return the next runs of a schedule with these times. Raises InvalidValue."""
    return upcoming(_rule({**SCHEDULE, **given}), timezone.now(), AHEAD)


# -- validation -------------------------------------------------------------------------------------------------------


def _acting(by: Actor) -> dict[str, Any]:
    user = by.user if isinstance(by.user, User) else None
    return {"user": user, "user_name": by.name, "token_number": token_number(by)}


def _plan(schedule: Schedule) -> None:
    schedule.next = next(iter(upcoming(rule_for(schedule), timezone.now(), 1)), None)


def _wake(schedule: Schedule) -> None:
    if schedule.next is None or schedule.paused:
        cancel_wakeup(f"schedule {schedule.pk}")
    else:
        set_wakeup(f"schedule {schedule.pk}", schedule.next)


def _audited(schedule: Schedule) -> dict[str, Any]:
    token = {"with token": token_name(schedule.token_number)} if schedule.token_number is not None else {}
    return {**{field: getattr(schedule, field) for field in FIELDS_GIVEN}, "acts for": schedule.user_name, **token}


def need_of(action: str, target: ObjectName, attributes: Mapping[str, Any]) -> Need:
    """Return the permission that the action itself needs: to edit a schedule, a user must be permitted to do what it
    does."""
    return needed(target, operation_of(action), attributes)


def can_see(rights: Rights, of: Schedule | Run) -> bool:
    return rights.allows(Role.VIEWER, of.broker, host_of(ObjectName.parse(of.target)))


def _change(by: Actor, of: Schedule, operation: str) -> AbstractContextManager[Change]:
    need = need_of(of.action, ObjectName.parse(of.target), of.attributes)
    return console_change(
        by, f"schedule {of.name}", operation, [(of.broker, need)], slug=of.broker, virtualhost=_host(of.target)
    )


def _host(target: str) -> str:
    try:
        return host_of(ObjectName.parse(target)) or ""
    except ValueError:
        return ""


def _rule(given: Mapping[str, Any]) -> Any:
    texts = _texts(given, "zone", "once", *_CRON)
    try:
        return rule_of(texts.pop("zone"), **texts)
    except ValueError as error:
        message = str(error)
        field = "zone" if "time zone" in message else "once" if texts["once"] else "hour"
        raise InvalidValue({field: message}) from None


def _checked(by: Actor, given: Mapping[str, Any]) -> dict[str, Any]:
    texts = _texts(given, "name", "reason")
    if fault := label_fault("name", texts["name"], 100):
        raise InvalidValue({"name": fault})
    work = _checked_work(by, given)
    if work["action"] == Action.START and given["lasts"]:
        raise InvalidValue({"lasts": "a start cannot be reverted: lasts must be 0"})
    return {**texts, **work, **_checked_times(given), "lasts": given["lasts"], "paused": given["paused"]}


def _checked_work(by: Actor, given: Mapping[str, Any]) -> dict[str, Any]:
    """Validate action and target, and check the permission for them."""
    try:
        broker = link(given["broker"])
    except UnknownBroker as error:
        raise InvalidValue({"broker": str(error)}) from None
    action = given["action"]
    try:
        target = ObjectName.parse(given["target"])
    except ValueError as error:
        raise InvalidValue({"target": str(error)}) from None
    pattern, attributes = given["pattern"], given["attributes"]
    effect = ""
    if action == Action.POLICY:
        attributes = _policy(broker, target, attributes)
        pattern = ""
    else:
        Aim(target, pattern).check()
        effect = _checked_effect(broker, target, action, given["effect"])
        attributes = {}
    by.check(broker.slug, need_of(action, target, attributes), target)
    return {
        "broker": broker.slug,
        "action": action,
        "target": str(target),
        "pattern": pattern.strip(),
        "attributes": attributes,
        "effect": effect,
    }


def _checked_effect(broker: BrokerLink, target: ObjectName, action: str, named: str) -> str:
    """Return the effect to store: empty for hold. Raises InvalidValue if the broker cannot do this, and
    EffectNotConfirmed if a stop does something else to producers there than what the schedule names, and
    BrokerUnreachable before the first connection: what the broker does is not known yet."""
    broker.require_snapshot()
    declared = broker.types.get(target.type)
    operation = declared.operation(f"{action}-producers") if declared is not None else None
    if operation is None:
        raise InvalidValue({"target": f"{broker.title} cannot {action} the producers of a {target.type}"})
    effect = operation.producer_effect if action == Action.STOP else ""
    if effect and effect != (named or "hold"):
        raise EffectNotConfirmed(operation.remark or f"the effect of this stop is {effect}", effect)
    return "" if effect == "hold" else effect


def _checked_times(given: Mapping[str, Any]) -> dict[str, str]:
    """Validate the times. Refuses rules that never match, and single times in the past."""
    rule = _rule(given)
    if rule.once is None and not upcoming(rule, timezone.now(), 1):
        raise InvalidValue({"hour": "the rule never matches: there is no such day"})
    if rule.once is not None and not given["paused"] and not upcoming(rule, timezone.now(), 1):
        raise InvalidValue({"once": f"{given['once']} has passed"})
    return _texts(given, "zone", "once", *_CRON)


def _texts(given: Mapping[str, Any], *fields: str) -> dict[str, str]:
    return {field: given[field].strip() for field in fields}


def _policy(broker: BrokerLink, target: ObjectName, attributes: Mapping[str, Any]) -> dict[str, Any]:
    if target.type not in SCOPES:
        raise InvalidValue({"target": f"a {target.type} has no flow-control policy: one of {', '.join(SCOPES)} has"})
    if not attributes:
        raise InvalidValue({"attributes": "no field is given: name those to set"})
    check_settable(broker, [PolicyChange(target, attributes)])
    good, wrong = check_attributes(broker.types[target.type], attributes, creating=False)
    wrong += [(field, f"{field} is not a policy field") for field in good if field not in FIELDS]
    if wrong:
        raise InvalidValue(dict(wrong))
    return good
