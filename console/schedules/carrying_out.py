"""Carry out what is due: begin, and at the end of a window put back. Whoever takes a run holds its lease.

A run acts for the schedule's user, with the rights that they have at that moment, through the operations that pages
use: each change has its audit row. What was before is kept before it is changed; at the end only what is still as the
schedule left it is put back. A window's stop carries its end, so that the broker lifts it without the console, too.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

from brokers.admin import AdminError, BrokerUnreachable, NotFound, StaleVersion
from brokers.model import ObjectName, object_name
from console.access.actor import Actor
from console.leases.leased_row import LeasedRows
from console.links.registry import BrokerLink, UnknownBroker, link
from console.operations.objects import update_object
from console.operations.stops import Aim, start_producers, stop_producers
from console.schedules.models import Action, Run, RunState, Schedule
from console.schedules.times import Rule, end_of, next_due, rule_of
from console.schedules.wakeups import let_sleep, wake

LEASE = dt.timedelta(seconds=60)
#: What has no end is still begun when so late; a window is while it lasts.
LATE = dt.timedelta(minutes=15)
#: Seconds before it is tried again, doubled each time.
FIRST, LONGEST = 2, 60
_TRIES = 3
_BROKER = object_name("Broker")


def rule_for(schedule: Schedule) -> Rule:
    return rule_of(
        schedule.zone,
        once=schedule.once,
        minute=schedule.minute,
        hour=schedule.hour,
        days=schedule.days,
        months=schedule.months,
        weekdays=schedule.weekdays,
    )


def claim_due(now: dt.datetime) -> None:
    """Make a run of every schedule that is due, and say when it is due next: together, so that neither is twice."""
    _plan_again(now)
    for schedule in Schedule.objects.filter(next__lte=now):
        rule, due = rule_for(schedule), schedule.next
        assert due is not None
        # Of the times that passed while nobody looked, or that the clock left out, the last one counts.
        last, passed = due, 0
        while (later := next_due(rule, last)) is not None and later <= now:
            last, passed = later, passed + 1
        following = next_due(rule, now)
        with transaction.atomic():
            mine = Schedule.objects.filter(pk=schedule.pk, next=due, version=schedule.version)
            if mine.update(next=following) and not schedule.paused:
                if passed:
                    times = "another time" if passed == 1 else f"{passed:,} times"
                    said = (
                        f"{times} from then on had passed before anything could be done: only the last is carried out"
                    )
                    _make_run(schedule, rule, due, state=RunState.MISSED, finished=now, begin_said=said)
                _make_run(schedule, rule, last)
        if following is not None:
            wake(f"schedule {schedule.pk}", following)


def _plan_again(now: dt.datetime) -> None:
    """What is due next lies further ahead than it should where the clock has been set back since it was planned: what
    is due before it, and was not carried out at that time already, has its turn."""
    for schedule in Schedule.objects.exclude(next__lte=now):
        rule = rule_for(schedule)
        due = next_due(rule, now)
        while due is not None and due != schedule.next and _is_made(schedule, due):
            due = next_due(rule, due)
        if due is not None and due != schedule.next and (schedule.next is None or due < schedule.next):
            same = Schedule.objects.filter(pk=schedule.pk, next=schedule.next, version=schedule.version)
            if same.update(next=due) and not schedule.paused:
                wake(f"schedule {schedule.pk}", due)


def _is_made(schedule: Schedule, due: dt.datetime) -> bool:
    return schedule.runs.filter(due=due).exclude(state=RunState.MISSED).exists()


def _make_run(schedule: Schedule, rule: Rule, due: dt.datetime, **state: Any) -> None:
    """Unless there is one for that time: of what was carried out then the clock brings the time twice, and what was
    missed since the clock was ahead has its turn."""
    copied = ("broker", "action", "target", "pattern", "attributes", "reason", "user_id", "user_name")
    if _is_made(schedule, due):
        return
    values = {
        "schedule_name": schedule.name,
        "ends": end_of(due, schedule.lasts, rule.zone) if schedule.lasts else None,
        "state": RunState.BEGINNING,
        "retry_at": due,
        "finished": None,
        "begin_said": "",
        **{field: getattr(schedule, field) for field in copied},
        **state,
    }
    Run.objects.update_or_create(schedule=schedule, due=due, defaults=values)


def due_runs(now: dt.datetime) -> list[int]:
    """Numbers of the runs that something can be done about."""
    return _due(now).free(now)


def _due(now: dt.datetime) -> LeasedRows:
    """Also what is to be tried again later than any attempt is put off: the clock has been set back since."""
    again = Q(retry_at__lte=now) | Q(retry_at__gt=now + dt.timedelta(seconds=2 * LONGEST))
    at_work = Q(state__in=[RunState.BEGINNING, RunState.ENDING]) & again
    return Run.objects.filter(at_work | Q(state=RunState.OPEN, ends__lte=now))


def carry_out(number: int, now: dt.datetime | None = None, *, by: Actor | None = None) -> str:
    """One attempt at a run, if one is due; what came of it. `by`: somebody else ends a window, now."""
    now = now or timezone.now()
    if by is not None:
        Run.objects.filter(pk=number, state=RunState.OPEN).update(ends=now)
        Run.objects.filter(pk=number, state=RunState.FAILED, after__isnull=False).update(
            state=RunState.ENDING, retry_at=now
        )
    if not _due(now).filter(pk=number).claim(LEASE, now, tries=F("tries") + 1):
        return "not due"
    run = Run.objects.select_related("user").get(pk=number)
    if run.state == RunState.OPEN:
        run.state, run.tries = RunState.ENDING, 1
    beginning = run.state == RunState.BEGINNING
    try:
        said = _attempt(run, now, by)
    except (BrokerUnreachable, StaleVersion) as error:  # later it may fare better
        said = str(error)
        run.retry_at = now + dt.timedelta(seconds=min(FIRST * 2 ** min(run.tries, 10), LONGEST))
    except (AdminError, UnknownBroker, PermissionDenied) as error:
        said, run.state = str(error), RunState.FAILED
    except Exception as error:
        said, run.state = f"{type(error).__name__}: {error}", RunState.FAILED
        raise
    finally:
        run.release()
        if beginning:
            run.begin_said = said
        else:
            run.end_said = said
        if run.state in (RunState.DONE, RunState.FAILED, RunState.MISSED):
            run.finished = now
        run.save()
    return said


def _attempt(run: Run, now: dt.datetime, by: Actor | None) -> str:
    """Begins or ends it; what came of it. Its state is the one after it."""
    if run.state != RunState.BEGINNING:
        said = _end(by or _actor(run), run)
        run.state = RunState.DONE
        return said
    if late := _too_late(run, now):
        run.state = RunState.MISSED
        return late
    said = _begin(_actor(run), run, now)
    run.began, run.tries = now, 0
    run.state = RunState.OPEN if run.ends is not None else RunState.DONE
    return said


def _too_late(run: Run, now: dt.datetime) -> str:
    """Why it is not begun any more; empty if it is."""
    why = f"; the last attempt: {run.begin_said}" if run.begin_said else ""
    if run.ends is not None:
        return f"its window was over before it could begin{why}" if now >= run.ends else ""
    return f"it could not be done within {LATE.seconds // 60} minutes{why}" if now - run.due > LATE else ""


def _actor(run: Run) -> Actor:
    if not isinstance(run.user, User) or not run.user.is_active:
        raise PermissionDenied(f"{run.user_name} has no account any more: somebody else must save the schedule")
    return Actor(run.user, "schedule")


def _reason(run: Run) -> str:
    return f"schedule {run.schedule_name}{f': {run.reason}' if run.reason else ''}"


def _begin(by: Actor, run: Run, now: dt.datetime) -> str:
    broker, name = link(run.broker), ObjectName.parse(run.target)
    if run.action == Action.POLICY:
        return _set(by, broker, name, run)
    aim = Aim(name, run.pattern)
    if run.action == Action.START:
        answer = start_producers(by, broker, aim, reason=_reason(run))
        return f"started {answer['producers']:,} producers of {answer['queues']:,} queues"
    if standing := _same_stop(broker, aim):
        if standing.get("reason") == _reason(run):  # by an attempt whose answer was lost
            run.after = {"stopped": True}
            return "stopped"
        run.after = {"stopped": False}
        return f"stopped already by {standing.get('actor') or 'somebody'} ({standing.get('reason')}): left as it is"
    left = int((run.ends - now).total_seconds() * 1000) if run.ends else 0
    answer = stop_producers(by, broker, aim, reason=_reason(run), for_ms=left)
    run.after = {"stopped": True}
    return f"stopped {answer['producers']:,} producers of {answer['queues']:,} queues"


def _end(by: Actor, run: Run) -> str:
    broker, name = link(run.broker), ObjectName.parse(run.target)
    if run.action == Action.POLICY:
        return _put_back(by, broker, name, run)
    if run.action == Action.START:
        return "nothing to put back"
    aim = Aim(name, run.pattern)
    if not (run.after or {}).get("stopped"):
        return "it was not this schedule's stop: left as it is"
    standing = _same_stop(broker, aim)
    if standing is None:
        return "started again, by the broker itself or by somebody"
    if standing.get("reason") != _reason(run):
        return f"stopped anew by {standing.get('actor') or 'somebody'} ({standing.get('reason')}): left as it is"
    answer = start_producers(by, broker, aim, reason=f"end of {_reason(run)}", only=True)
    return f"started {answer['producers']:,} producers of {answer['queues']:,} queues"


def _same_stop(broker: BrokerLink, aim: Aim) -> Mapping[str, Any] | None:
    """The stop of exactly that scope, if there is one."""
    stops = broker.call(lambda admin: admin.read(_BROKER)).attributes.get("stops") or ()
    return next((s for s in stops if s["object"] == str(aim.scope) and (s.get("pattern") or "") == aim.pattern), None)


def _set(by: Actor, broker: BrokerLink, name: ObjectName, run: Run) -> str:
    for attempt in range(_TRIES):
        now = broker.call(lambda admin: admin.read(name))
        if run.before is None:
            run.before = {field: now.attributes.get(field) for field in run.attributes}
            run.save(update_fields=["before"])
        if all(now.attributes.get(field) == value for field, value in run.attributes.items()):
            run.after = dict(run.attributes)
            return "set" if run.before != run.attributes else "it was so already"
        try:
            update_object(by, broker, name, run.attributes, version=now.version, reason=_reason(run))
        except StaleVersion:
            if attempt == _TRIES - 1:
                raise
            run.before = None
            continue
        run.after = dict(run.attributes)
        return "set"
    raise AssertionError("unreachable")


def _put_back(by: Actor, broker: BrokerLink, name: ObjectName, run: Run) -> str:
    before = run.before or {}
    for attempt in range(_TRIES):
        try:
            now = broker.call(lambda admin: admin.read(name))
        except NotFound:
            return f"{name} is gone"
        ours = [field for field, value in (run.after or {}).items() if now.attributes.get(field) == value]
        back = {field: before.get(field) for field in ours if before.get(field) != now.attributes.get(field)}
        kept = sorted(f for f in (run.after or {}) if f not in ours and now.attributes.get(f) != before.get(f))
        said = f"; {', '.join(kept)} changed since: left as it is" if kept else ""
        if not back:
            return f"nothing to put back{said}"
        try:
            update_object(by, broker, name, back, version=now.version, reason=f"end of {_reason(run)}")
        except StaleVersion:
            if attempt == _TRIES - 1:
                raise
            continue
        return f"put back{said}"
    raise AssertionError("unreachable")


def wake_for(number: int) -> None:
    """Have beat look again when a run's window ends."""
    run = Run.objects.get(pk=number)
    if run.state == RunState.OPEN and run.ends is not None:
        wake(f"window {number}", run.ends)
    elif run.finished is not None:
        let_sleep(f"window {number}")
