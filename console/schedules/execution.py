"""Execution of due schedules: start a run, and revert its change at the end of its window. A worker owns the lease of
the run that it executes.

A run uses the operations of the pages with the permissions that the schedule's owner, and the API token with which it
was saved, have at that time, and each change is audited; so is a run whose account or token is gone. What it does at
the broker is in `actions.py`.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

from brokers.admin import AdminError, BrokerUnreachable, StaleVersion
from brokers.model import ObjectName
from console.access.actor import Actor
from console.access.later_rights import later_actor
from console.audit.models import Outcome
from console.leases.leased_row import LeasedRows
from console.links.registry import UnknownBroker
from console.operations.attempt import happened
from console.schedules.actions import NotYet, begin, end, operation_of, reason_of
from console.schedules.models import Run, RunState, Schedule
from console.schedules.times import Rule, end_of, next_due, rule_of
from console.schedules.wakeups import cancel_wakeup, set_wakeup

LEASE = dt.timedelta(seconds=60)
#: Longest delay of a run without an end. A run with a window starts late as long as the window lasts.
MAX_DELAY = dt.timedelta(minutes=15)
#: Seconds before the first retry, and longest time between retries; doubled each time.
FIRST, LONGEST = 2, 60


def rule_for(schedule: Schedule) -> Rule:
    """Return the recurrence rule of a schedule."""
    return rule_of(
        schedule.zone,
        once=schedule.once,
        minute=schedule.minute,
        hour=schedule.hour,
        days=schedule.days,
        months=schedule.months,
        weekdays=schedule.weekdays,
    )


def create_due_runs(now: dt.datetime) -> None:
    """Create a run of every due schedule and set its next time, in one transaction, so that there is exactly one
    run."""
    _replan_after_clock_step(now)
    for schedule in Schedule.objects.filter(next__lte=now):
        rule, due = rule_for(schedule), schedule.next
        assert due is not None
        # Of the times that passed while no worker ran, or that a clock step skipped, only the last one is executed.
        last, passed = due, 0
        while (later := next_due(rule, last)) is not None and later <= now:
            last, passed = later, passed + 1
        following = next_due(rule, now)
        with transaction.atomic():
            mine = Schedule.objects.filter(pk=schedule.pk, next=due, version=schedule.version)
            if mine.update(next=following) and not schedule.paused:
                if passed:
                    times = "1 run" if passed == 1 else f"{passed:,} runs"
                    outcome = f"missed {times} from this time on: only the latest is executed"
                    _create_run(schedule, rule, due, state=RunState.MISSED, finished=now, begin_said=outcome)
                _create_run(schedule, rule, last)
        if following is not None:
            set_wakeup(f"schedule {schedule.pk}", following)


def _replan_after_clock_step(now: dt.datetime) -> None:
    """Move a schedule's next time forward again if the clock has been set back since it was planned: to the first time
    from now on that has no run yet."""
    for schedule in Schedule.objects.exclude(next__lte=now):
        rule = rule_for(schedule)
        due = next_due(rule, now)
        while due is not None and due != schedule.next and _has_run(schedule, due):
            due = next_due(rule, due)
        if due is not None and due != schedule.next and (schedule.next is None or due < schedule.next):
            same = Schedule.objects.filter(pk=schedule.pk, next=schedule.next, version=schedule.version)
            if same.update(next=due) and not schedule.paused:
                set_wakeup(f"schedule {schedule.pk}", due)


def _has_run(schedule: Schedule, due: dt.datetime) -> bool:
    return schedule.runs.filter(due=due).exclude(state=RunState.MISSED).exists()


def _create_run(schedule: Schedule, rule: Rule, due: dt.datetime, **state: Any) -> None:
    """Create a run unless there is one for that time, which a clock that was set back reaches twice. A missed run is
    replaced: it was missed because the clock was ahead."""
    copied = (
        "broker",
        "action",
        "target",
        "pattern",
        "attributes",
        "effect",
        "reason",
        "user_id",
        "user_name",
        "token_number",
    )
    if _has_run(schedule, due):
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
    """Return the primary keys of the runs that are due."""
    return _due(now).free(now)


def _due(now: dt.datetime) -> LeasedRows:
    """Return due runs. A retry further ahead than any delay means that the clock was set back: due, too."""
    retry = Q(retry_at__lte=now) | Q(retry_at__gt=now + dt.timedelta(seconds=2 * LONGEST))
    at_work = Q(state__in=[RunState.BEGINNING, RunState.ENDING]) & retry
    return Run.objects.filter(at_work | Q(state=RunState.OPEN, ends__lte=now))


def execute(number: int, now: dt.datetime | None = None, *, by: Actor | None = None) -> str:
    """Attempt a run if it is due, and return the outcome. `by`: the user who ends its window now."""
    now = now or timezone.now()
    if by is not None:
        Run.objects.filter(pk=number, state=RunState.OPEN).update(ends=now)
        Run.objects.filter(pk=number, state=RunState.FAILED, after__isnull=False).update(
            state=RunState.ENDING, retry_at=now
        )
    if not _due(now).filter(pk=number).claim(LEASE, now, tries=F("tries") + 1):
        return "not due"
    run = Run.objects.select_related("user", "schedule").get(pk=number)
    if run.state == RunState.OPEN:
        run.state, run.tries = RunState.ENDING, 1
    beginning = run.state == RunState.BEGINNING
    try:
        outcome = _attempt(run, now, by)
    except (BrokerUnreachable, StaleVersion, NotYet) as error:  # temporary: retry
        outcome = str(error)
        run.retry_at = now + dt.timedelta(seconds=min(FIRST * 2 ** min(run.tries, 10), LONGEST))
    except (AdminError, UnknownBroker, PermissionDenied) as error:
        outcome, run.state = str(error), RunState.FAILED
    except Exception as error:
        outcome, run.state = f"{type(error).__name__}: {error}", RunState.FAILED
        raise
    finally:
        run.release()
        if beginning:
            run.begin_said = outcome
        else:
            run.end_said = outcome
        if run.state in (RunState.DONE, RunState.FAILED, RunState.MISSED):
            run.finished = now
        run.save()
    return outcome


def _attempt(run: Run, now: dt.datetime, by: Actor | None) -> str:
    """Start or end a run, set its new state and return the outcome."""
    if run.state != RunState.BEGINNING:
        outcome = end(by or _audited_actor(run), run, now)
        run.state = RunState.DONE
        return outcome
    if why := _called_off(run) or _too_late(run, now):
        run.state = RunState.MISSED
        return why
    outcome = begin(_audited_actor(run), run, now)
    run.began, run.tries = now, 0
    run.state = RunState.OPEN if run.ends is not None else RunState.DONE
    return outcome


def _called_off(run: Run) -> str:
    """Return why a run does not start any more although it is due; empty if it does."""
    if run.schedule is None:
        return "the schedule was removed before it could start"
    return "the schedule was paused before it could start" if run.schedule.paused else ""


def call_off(number: int, now: dt.datetime, by: Actor) -> bool:
    """Give up a run that has not started, such as one whose broker cannot be reached. Return False if it has started,
    or a worker is starting it now."""
    waiting = Run.objects.filter(pk=number, state=RunState.BEGINNING)
    if not waiting.claim(LEASE, now):
        return False
    run = Run.objects.get(pk=number)
    why = f"; the last attempt: {run.begin_said}" if run.begin_said else ""
    run.state, run.finished, run.begin_said = RunState.MISSED, now, f"called off by {by.name}{why}"
    run.release()
    run.save()
    return True


def _too_late(run: Run, now: dt.datetime) -> str:
    """Return why a run is too late to start; empty if it is not."""
    why = f"; the last attempt: {run.begin_said}" if run.begin_said else ""
    if run.ends is not None:
        return f"its window ended before it could start{why}" if now >= run.ends else ""
    return f"it could not start within {MAX_DELAY.seconds // 60} minutes{why}" if now - run.due > MAX_DELAY else ""


def actor_of(of: Schedule | Run) -> Actor:
    """Return who acts in a run that is executed now. Raises PermissionDenied if the account or the token is gone."""
    if not isinstance(of.user, User) or not of.user.is_active:
        raise PermissionDenied(f"{of.user_name} has no active account: another user must save the schedule")
    try:
        return later_actor(of.user, of.user_name, of.token_number, "schedule", ordered="the schedule was saved")
    except PermissionDenied as error:
        raise PermissionDenied(f"{error}: save the schedule again") from None


def _audited_actor(run: Run) -> Actor:
    """As `actor_of`; a refusal has an audit row, since the run does not come to a change that would have one."""
    try:
        return actor_of(run)
    except PermissionDenied as error:
        part = "start" if run.state == RunState.BEGINNING else "end"
        happened(
            Actor(run.user or User(username=run.user_name), "schedule"),
            run.broker,
            ObjectName.parse(run.target),
            operation_of(run.action),
            reason=reason_of(run),
            detail=f"{part} of the run of {run.due:%Y-%m-%d %H:%M} UTC",
            error=str(error),
            outcome=Outcome.REFUSED,
        )
        raise


def update_end_wakeup(number: int) -> None:
    """Set or cancel the wake-up at the end of a run's window."""
    run = Run.objects.get(pk=number)
    if run.state == RunState.OPEN and run.ends is not None:
        set_wakeup(f"window {number}", run.ends)
    elif run.finished is not None:
        cancel_wakeup(f"window {number}")
