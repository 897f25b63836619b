"""What a look at a broker means for the alerts of one rule: pure, time is a parameter.

An alert goes PENDING, when its condition is seen; FIRING, when that has lasted as long as the rule wants; RESOLVED,
when it is seen no more. What is to be said of it stays `untold` until it may be said: not while it is silenced, not
within the quiet period after the last word about it, and not within `GATHER` seconds after the last word of the rule,
so that a hundred queues that fill up together are one message.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from brokers.model import ObjectName
from brokers.model.patterns import matches
from console.alerts.models import Alert, AlertState, Rule, Silence

#: A broker that the console cannot reach is told like a condition of the broker.
UNREACHABLE = "broker-unreachable"
#: Seconds within which what happens is told together.
GATHER = 10
#: Seconds for which what was not seen may have been overlooked while nobody looked: it then counts as having lasted.
OVERLOOKED = 60
#: Seconds after which what an alert saw is kept anew.
REFRESH = 10

Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Seen:
    """A condition in force, or an event. `object`: text of an object name. `since`: when it began, if the broker tells;
    else that is when it was first seen."""

    kind: str
    object: str
    severity: str
    saw: str
    advice: str = ""
    about: ObjectName | None = None
    since: dt.datetime | None = None


@dataclass(slots=True)
class Judged:
    """What changed: alerts to keep, alerts that are over and were never told, and by phase what is to be told now."""

    changed: dict[int, Alert] = field(default_factory=dict)
    forgotten: list[Alert] = field(default_factory=list)
    tell: dict[str, list[Alert]] = field(default_factory=dict)

    def change(self, alert: Alert) -> None:
        self.changed[id(alert)] = alert


def within(scope: Rule | Silence, broker: str, about: ObjectName) -> bool:
    """Whether an object lies in the scope of a rule or silence."""
    if scope.broker and scope.broker != broker:
        return False
    host = about.get("virtualhost") or (about["name"] if about.type == "VirtualHost" else "")
    if scope.virtualhost and scope.virtualhost != host:
        return False
    if not scope.pattern:
        return True
    return about.type == "Queue" and matches(scope.pattern, about["name"])


def is_silenced(silences: Iterable[Silence], rule: Rule, broker: str, about: ObjectName, now: dt.datetime) -> bool:
    """A silence of a rule is about all of it; one without is about a scope."""
    return any(
        silence.until > now
        and (silence.rule_id in (None, rule.pk))
        and (silence.rule_id is not None or within(silence, broker, about))
        for silence in silences
    )


def judge(
    rule: Rule,
    broker: str,
    alerts: Sequence[Alert],
    *,
    conditions: Sequence[Seen],
    events: Sequence[Seen],
    silences: Collection[Silence],
    now: dt.datetime,
    settled: bool,
) -> Judged:
    """`alerts`: those of this rule and broker. `settled`: the broker has been looked at for long enough to say that
    what is not seen is not there."""
    judged = Judged()
    known: dict[Key, Alert] = {(alert.kind, alert.object): alert for alert in alerts}
    present: Mapping[Key, Seen] = {
        (each.kind, each.object): each for each in conditions if _is_meant(rule, broker, each)
    }
    for key, each in present.items():
        alert = known.get(key)
        if alert is None:
            alert = known[key] = Alert(rule=rule, broker=broker, object=each.object, kind=each.kind)
        _judge_condition(rule, alert, each, now, judged)
    for key, alert in known.items():
        if key not in present and alert.state in (AlertState.PENDING, AlertState.FIRING) and settled:
            _end(rule, alert, now, judged)
    for each in events:
        if _is_meant(rule, broker, each):
            key = (each.kind, each.object)
            alert = known.get(key)
            if alert is None:
                alert = known[key] = Alert(rule=rule, broker=broker, object=each.object, kind=each.kind)
            _judge_event(alert, each, now, judged)
    _decide(rule, broker, known.values(), silences, judged, now=now)
    return judged


def _judge_condition(rule: Rule, alert: Alert, condition: Seen, now: dt.datetime, judged: Judged) -> None:
    """The alert of a condition that is present: begun, begun again, or firing after its pending period."""
    pending = alert.state == AlertState.PENDING
    ended = alert.state not in (AlertState.PENDING, AlertState.FIRING)  # or never began
    overlooked = pending and not _within(OVERLOOKED, alert.seen, now)
    began_again = pending and condition.since is not None and condition.since > alert.since  # between two looks
    if ended or overlooked or began_again:
        _begin(alert, condition, now)
    fires = alert.state == AlertState.PENDING and now - alert.since >= dt.timedelta(seconds=rule.holds)
    if fires:
        alert.state, alert.untold, alert.told_firing = AlertState.FIRING, True, False
    # What it saw changes with every look: it is kept when it matters, and now and then.
    if fires or alert.pk is None or alert.since == now or now - alert.seen >= dt.timedelta(seconds=REFRESH):
        _describe(alert, condition, now)
        judged.change(alert)


def _judge_event(alert: Alert, event: Seen, now: dt.datetime, judged: Judged) -> None:
    if alert.count == 0:
        alert.since = now
    alert.state, alert.untold, alert.count = AlertState.HAPPENED, True, alert.count + 1
    _describe(alert, event, now)
    judged.change(alert)


def _within(seconds: float, then: dt.datetime, now: dt.datetime, *, end: bool = True) -> bool:
    """Whether no more time has passed since then; less, without the `end`. What is still to come was kept before the
    clock was set back, while nobody looked: how long ago that was is not known."""
    passed, whole = now - then, dt.timedelta(seconds=seconds)
    return dt.timedelta(0) <= passed < whole or (end and passed == whole)


def _is_meant(rule: Rule, broker: str, each: Seen) -> bool:
    about = each.about or ObjectName.parse(each.object)
    return rule.enabled and each.kind in rule.kinds and within(rule, broker, about)


def _begin(alert: Alert, each: Seen, now: dt.datetime) -> None:
    # A clock of the broker that is ahead counts as no time.
    alert.state, alert.since, alert.ended = AlertState.PENDING, min(each.since or now, now), None
    alert.untold = alert.told_firing = False


def _describe(alert: Alert, each: Seen, now: dt.datetime) -> None:
    alert.severity, alert.saw, alert.advice, alert.seen = each.severity, each.saw, each.advice, now


def _end(rule: Rule, alert: Alert, now: dt.datetime, judged: Judged) -> None:
    told = alert.state == AlertState.FIRING and alert.told_firing
    alert.state, alert.ended = AlertState.RESOLVED, now
    alert.untold = told and rule.tell_resolved and rule.enabled
    if told or alert.notified is not None:
        judged.change(alert)
    elif alert.pk is not None:
        judged.forgotten.append(alert)  # nobody heard of it


def _decide(
    rule: Rule, broker: str, alerts: Iterable[Alert], silences: Collection[Silence], judged: Judged, *, now: dt.datetime
) -> None:
    gathering = rule.told is not None and _within(GATHER, rule.told, now, end=False)
    for alert in alerts:
        silenced = is_silenced(silences, rule, broker, ObjectName.parse(alert.object), now)
        if alert.silenced != silenced:
            alert.silenced = silenced
            judged.change(alert)
        if not alert.untold:
            continue
        if silenced:
            if alert.state != AlertState.FIRING:  # what lasts longer than the silence is told after it
                alert.untold, alert.count = False, 0
                judged.change(alert)
            continue
        quiet = alert.notified is not None and _within(rule.quiet, alert.notified, now, end=False)
        if gathering or (quiet and alert.state != AlertState.RESOLVED):
            continue
        phase = {AlertState.RESOLVED: "resolved", AlertState.HAPPENED: "event"}.get(AlertState(alert.state), "firing")
        alert.untold, alert.notified = False, now
        alert.told_firing = phase == "firing"
        judged.change(alert)
        judged.tell.setdefault(phase, []).append(alert)
