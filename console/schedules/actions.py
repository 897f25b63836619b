"""What a run does at the broker: the change at its start, and the revert at the end of its window.

A revert touches only what is still as the run left it. Of a policy these are the fields that still have its values;
previous values are saved before the change. Of a stop it is one with the same begin and end as the run read after it
had stopped: an operator who extends a stop, or starts its producers in stages, has taken it over. A stop that ends
before the window is extended to the window's end, no matter who set it.

Windows of one schedule can overlap, since they may last as long as the time between two runs, and a run can begin late.
What an earlier run has set is then the later run's: it gets the values from before both, and reverts them.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from django.db.models import Q

from brokers.admin import NotFound, StaleVersion
from brokers.model import ObjectName, object_name
from console.access.actor import Actor
from console.links.registry import BrokerLink, link
from console.operations.composed_reasons import composed_reason
from console.operations.objects import update_object
from console.operations.stop_facts import END, stop_in
from console.operations.stops import Aim, start_producers, stop_producers
from console.schedules.models import Action, Run, RunState

_ATTEMPTS = 3
_BROKER = object_name("Broker")
#: A stop whose end is so close to that of the window, ms, ends with it: a request takes time, and clocks differ.
CLOSE_MS = 30_000


class NotYet(Exception):
    """A later run of the schedule is about to start: this one can end after it."""


def operation_of(action: str) -> str:
    """Return the operation of the target that a schedule with this action calls."""
    return "update" if action == Action.POLICY else f"{action}-producers"


def reason_of(run: Run, *, end: bool = False) -> str:
    """Return the reason of a run's changes, at its end of the revert: as much of it as brokers take."""
    return composed_reason(f"{'end of ' if end else ''}schedule {run.schedule_name}", run.reason)


def begin(by: Actor, run: Run, now: dt.datetime) -> str:
    """Do what the schedule does, and return the outcome in words. Raises AdminError, PermissionDenied."""
    broker, name = link(run.broker), ObjectName.parse(run.target)
    if run.action == Action.POLICY:
        return _set(by, broker, name, run)
    aim = Aim(name, run.pattern)
    if run.action == Action.START:
        return _counted("started", start_producers(by, broker, aim, reason=reason_of(run)))
    return _stop(by, broker, aim, run, now)


def end(by: Actor, run: Run, now: dt.datetime) -> str:
    """Revert what the run did, and return the outcome in words. Raises AdminError, PermissionDenied, NotYet."""
    broker, name = link(run.broker), ObjectName.parse(run.target)
    if run.action == Action.START:
        return "nothing to revert"
    later = _later_run(run, now)
    if run.action == Action.POLICY:
        return _revert(by, broker, name, run, later)
    return _start(by, broker, Aim(name, run.pattern), run, later)


def _later_run(run: Run, now: dt.datetime) -> Run | None:
    """Return the run of the same schedule, with the same scope, that was due after this one and is open, or has set for
    good what this one set. Raises NotYet if one is about to start."""
    if run.schedule_id is None:
        return None
    same = {field: getattr(run, field) for field in ("schedule_id", "broker", "action", "target", "pattern")}
    lasting = Q(state__in=(RunState.BEGINNING, RunState.OPEN, RunState.ENDING)) | Q(state=RunState.DONE, ends=None)
    later = Run.objects.filter(lasting, **same, due__gt=run.due, due__lte=now).order_by("-due").first()
    if later is not None and later.state == RunState.BEGINNING:
        raise NotYet(f"the run of {later.due:%Y-%m-%d %H:%M} UTC is about to start: this one ends after that")
    return later


# -- stops --------------------------------------------------------------------------------------------------------


def _stop(by: Actor, broker: BrokerLink, aim: Aim, run: Run, now: dt.datetime) -> str:
    left = int((run.ends - now).total_seconds() * 1000) if run.ends else 0
    stop = _stop_of(broker, aim)
    said = ""
    if stop is not None and not stop["replaced"]:
        rest = _rest(broker, stop)
        if stop.get("reason") == reason_of(run) and rest is not None and abs(rest - left) < CLOSE_MS:
            run.after = _left_behind(stop)  # by an attempt whose response was lost
            return "stopped"
        who = f"{stop.get('actor') or 'another user'} ({stop.get('reason')})"
        if rest is None or (left and rest >= left):
            run.after = {"stopped": False}
            return f"already stopped by {who}: unchanged"
        said = f"extended the stop by {who}, which would have ended earlier: "
    answer = stop_producers(by, broker, aim, reason=reason_of(run), for_ms=left, effect=run.effect)
    run.after = _left_behind(_stop_of(broker, aim))
    return said + _counted("stopped", answer)


def _start(by: Actor, broker: BrokerLink, aim: Aim, run: Run, later: Run | None) -> str:
    after = run.after or {}
    if not after.get("stopped"):
        return "the stop is not of this schedule: unchanged"
    if later is not None:
        return f"the run of {later.due:%Y-%m-%d %H:%M} UTC goes on: unchanged"
    stop = _stop_of(broker, aim)
    if stop is None:
        return "already started, by the broker or by a user"
    known = {"reason": reason_of(run), **after}
    if any(stop.get(field) != known[field] for field in ("reason", "since") if field in known):
        return f"stopped again by {stop.get('actor') or 'another user'} ({stop.get('reason')}): unchanged"
    if stop["replaced"]:
        return "its producers are being started in stages: unchanged"
    if any(stop.get(field) != after[field] for field in END if field in after):
        return "the end of the stop was changed meanwhile: unchanged"
    answer = start_producers(by, broker, aim, reason=reason_of(run, end=True), only=True)
    return _counted("started", answer)


def _stop_of(broker: BrokerLink, aim: Aim) -> Mapping[str, Any] | None:
    """Return the stop of exactly this scope, see `stop_in`; None if there is none."""
    return stop_in(broker.call(lambda admin: admin.read(_BROKER)).attributes.get("stops"), aim)


def _left_behind(stop: Mapping[str, Any] | None) -> dict[str, Any]:
    """What the run's end recognizes the stop by; None: it is gone already."""
    return {"stopped": True} | {name: stop.get(name) for name in ("reason", "since", *END) if stop}


def _rest(broker: BrokerLink, stop: Mapping[str, Any]) -> int | None:
    """Return the time until a stop ends, ms; one that ends at a depth may end at once. None: it has no end."""
    if stop.get("below"):
        return 0
    until = stop.get("until")
    return None if not until else max(0, int(until) - broker.broker_now)


def _counted(what: str, answer: Mapping[str, Any]) -> str:
    """Say how many producers and queues a stop or start affects; a broker may not report producers."""
    producers, queues = answer.get("producers"), answer["queues"]
    affected = "producers" if producers is None else f"{producers:,} producer{'' if producers == 1 else 's'}"
    return f"{what} {affected} of {queues:,} queue{'' if queues == 1 else 's'}"


# -- policies -----------------------------------------------------------------------------------------------------


def _set(by: Actor, broker: BrokerLink, name: ObjectName, run: Run) -> str:
    for attempt in range(_ATTEMPTS):
        now = broker.call(lambda admin: admin.read(name))
        if run.before is None:
            run.before = {field: now.attributes.get(field) for field in run.attributes}
            run.save(update_fields=["before"])
        if all(now.attributes.get(field) == value for field, value in run.attributes.items()):
            run.after = dict(run.attributes)
            return "set" if run.before != run.attributes else "already set"
        try:
            update_object(by, broker, name, run.attributes, version=now.version, reason=reason_of(run))
        except StaleVersion:
            if attempt == _ATTEMPTS - 1:
                raise
            run.before = None
            continue
        run.after = dict(run.attributes)
        return "set"
    raise AssertionError("unreachable")


def _revert(by: Actor, broker: BrokerLink, name: ObjectName, run: Run, later: Run | None) -> str:
    before, after = run.before or {}, dict(run.after or {})
    note = ""
    if later is not None and (passed := _hand_over(run, later)):
        after = {field: value for field, value in after.items() if field not in passed}
        note = f"; the run of {later.due:%Y-%m-%d %H:%M} UTC reverts {', '.join(sorted(passed))}"
    for attempt in range(_ATTEMPTS):
        try:
            now = broker.call(lambda admin: admin.read(name))
        except NotFound:
            return f"{name} has been deleted"
        ours = [field for field, value in after.items() if now.attributes.get(field) == value]
        back = {field: before.get(field) for field in ours if before.get(field) != now.attributes.get(field)}
        changed = sorted(f for f in after if f not in ours and now.attributes.get(f) != before.get(f))
        by_others = f"; unchanged because of later changes: {', '.join(changed)}" if changed else ""
        if not back:
            return f"nothing to revert{note}{by_others}"
        try:
            update_object(by, broker, name, back, version=now.version, reason=reason_of(run, end=True))
        except StaleVersion:
            if attempt == _ATTEMPTS - 1:
                raise
            continue
        return f"reverted{note}{by_others}"
    raise AssertionError("unreachable")


def _hand_over(run: Run, later: Run) -> set[str]:
    """Give a later run the values from before both, of the fields that it found as this one had set them. Return the
    fields that are the later run's now."""
    before, after = run.before or {}, run.after or {}
    found = later.before or {}
    passed = {field for field in after if field in later.attributes}
    values = {field: before.get(field) for field in passed if found.get(field) == after[field]}
    Run.objects.filter(pk=later.pk).update(before={**found, **values})
    return passed
