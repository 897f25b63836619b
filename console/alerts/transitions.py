"""State transitions of the alerts of one rule. Pure: time is a parameter.

An alert is PENDING when its condition is first observed, FIRING when the condition has lasted for the pending period,
and RESOLVED when it has ended. `notification_due` stays set until the notification may be sent: not during a silence,
not within the repeat interval after the alert's last notification, and not within `GROUP_WAIT` seconds after the rule's
last notification, so that a hundred queues that fill up together cause one message.

Receivers that are notified that an alert fires are notified of its end, too: `firing_notified` stays set until then,
also while the alert is pending or fires again before the notification of its end could be sent.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from brokers.model import ObjectName
from brokers.model.patterns import matches
from console.alerts.models import Alert, AlertState, Rule, Silence

#: Kind of the condition that the console cannot reach a broker.
UNREACHABLE = "broker-unreachable"
#: Seconds within which alerts of a rule are grouped into one notification.
GROUP_WAIT = 10
#: Longest gap between two observations of a pending condition, in seconds, that does not restart its pending period.
MAX_GAP = 60
#: Seconds after which the description of an alert is saved again.
REFRESH = 10

Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Observation:
    """An active condition, or an event. `object`: an object name as text. `since`: start of the condition, if the
    broker reports it; None: when it is first observed."""

    kind: str
    object: str
    severity: str
    saw: str
    advice: str = ""
    about: ObjectName | None = None
    since: dt.datetime | None = None


@dataclass(slots=True)
class Evaluation:
    """Result: alerts to save, alerts to delete because no notification was sent, alerts to notify by phase, and the
    number of alerts that receivers know to fire after that."""

    changed: dict[int, Alert] = field(default_factory=dict)
    obsolete: list[Alert] = field(default_factory=list)
    notify: dict[str, list[Alert]] = field(default_factory=dict)
    still_firing: int = 0

    def change(self, alert: Alert) -> None:
        self.changed[id(alert)] = alert


def within(scope: Rule | Silence, broker: str, about: ObjectName) -> bool:
    """Return whether an object is in the scope of a rule or silence."""
    if scope.broker and scope.broker != broker:
        return False
    host = about.get("virtualhost") or (about["name"] if about.type == "VirtualHost" else "")
    if scope.virtualhost and scope.virtualhost != host:
        return False
    if not scope.pattern:
        return True
    return about.type == "Queue" and matches(scope.pattern, about["name"])


def is_silenced(silences: Iterable[Silence], rule: Rule, broker: str, about: ObjectName, now: dt.datetime) -> bool:
    """Return whether a silence applies: of the whole rule, or of a scope that contains the object."""
    return any(
        silence.until > now
        and (silence.rule_id in (None, rule.pk))
        and (silence.rule_id is not None or within(silence, broker, about))
        for silence in silences
    )


def evaluate(
    rule: Rule,
    broker: str,
    alerts: Sequence[Alert],
    *,
    conditions: Sequence[Observation],
    events: Sequence[Observation],
    silences: Collection[Silence],
    now: dt.datetime,
    settled: bool,
    unknown: Collection[str] = (),
) -> Evaluation:
    """Apply observations to the alerts of a rule and broker, and return what changed. `settled`: the broker has been
    observed for long enough that a missing condition has ended, unless its kind is in `unknown`."""
    evaluation = Evaluation()
    known: dict[Key, Alert] = {(alert.kind, alert.object): alert for alert in alerts}
    present: Mapping[Key, Observation] = {
        (each.kind, each.object): each for each in conditions if _applies(rule, broker, each)
    }
    for key, each in present.items():
        alert = known.get(key)
        if alert is None:
            alert = known[key] = Alert(rule=rule, broker=broker, object=each.object, kind=each.kind)
        _update_condition(rule, alert, each, now, evaluation)
    for key, alert in known.items():
        if key in present or not settled or alert.kind in unknown:
            continue
        if alert.state in (AlertState.PENDING, AlertState.FIRING):
            _resolve(rule, alert, now, evaluation)
    for each in events:
        if _applies(rule, broker, each):
            key = (each.kind, each.object)
            alert = known.get(key)
            if alert is None:
                alert = known[key] = Alert(rule=rule, broker=broker, object=each.object, kind=each.kind)
            _update_event(alert, each, now, evaluation)
    _select_notifications(rule, broker, known.values(), silences, evaluation, now=now)
    evaluation.still_firing = sum(_is_open(alert) for alert in known.values())
    return evaluation


def _is_open(alert: Alert) -> bool:
    """Return whether receivers were notified that an alert fires, and its end is still to come or to be notified."""
    in_progress = alert.state in (AlertState.PENDING, AlertState.FIRING)
    return alert.firing_notified and (in_progress or alert.notification_due)


def _update_condition(
    rule: Rule, alert: Alert, condition: Observation, now: dt.datetime, evaluation: Evaluation
) -> None:
    """Start, restart or fire the alert of an active condition."""
    pending = alert.state == AlertState.PENDING
    ended = alert.state not in (AlertState.PENDING, AlertState.FIRING)  # or never began
    gap = pending and not _within(MAX_GAP, alert.last_seen, now)
    if ended or gap or (pending and _began_again(alert, condition)):
        _start_pending(alert, condition, now)
    fires = alert.state == AlertState.PENDING and now - alert.since >= dt.timedelta(seconds=rule.holds)
    if fires:
        alert.state, alert.notification_due, alert.fired = AlertState.FIRING, True, now
    # The description changes with every poll: it is saved on transitions, and every `REFRESH` seconds.
    if fires or alert.pk is None or alert.since == now or now - alert.last_seen >= dt.timedelta(seconds=REFRESH):
        _describe(alert, condition, now)
        evaluation.change(alert)


def _began_again(alert: Alert, condition: Observation) -> bool:
    """Return whether a condition ended and began between two polls: by two times of the broker's clock, whose
    difference from the console's does not matter."""
    before, reported = alert.reported_since, condition.since
    return before is not None and reported is not None and reported > before


def _update_event(alert: Alert, event: Observation, now: dt.datetime, evaluation: Evaluation) -> None:
    if alert.count == 0:
        alert.since = now
    alert.state, alert.notification_due, alert.count = AlertState.HAPPENED, True, alert.count + 1
    _describe(alert, event, now)
    evaluation.change(alert)


def _within(seconds: float, then: dt.datetime, now: dt.datetime, *, end: bool = True) -> bool:
    """Return whether at most `seconds` have passed since `then` (fewer, without `end`). False for a future time: the
    clock was set back while no evaluator ran, and the real duration is unknown."""
    passed, whole = now - then, dt.timedelta(seconds=seconds)
    return dt.timedelta(0) <= passed < whole or (end and passed == whole)


def _applies(rule: Rule, broker: str, each: Observation) -> bool:
    about = each.about or ObjectName.parse(each.object)
    return rule.enabled and each.kind in rule.kinds and within(rule, broker, about)


def _start_pending(alert: Alert, each: Observation, now: dt.datetime) -> None:
    # The broker's clock may be ahead: the start is never in the future.
    alert.state, alert.since, alert.ended = AlertState.PENDING, min(each.since or now, now), None
    alert.reported_since, alert.notification_due = each.since, False


def _describe(alert: Alert, each: Observation, now: dt.datetime) -> None:
    alert.severity, alert.saw, alert.advice, alert.last_seen = each.severity, each.saw, each.advice, now


def _resolve(rule: Rule, alert: Alert, now: dt.datetime, evaluation: Evaluation) -> None:
    alert.state, alert.ended = AlertState.RESOLVED, now
    alert.notification_due = alert.firing_notified and rule.send_resolved and rule.enabled
    if alert.notified is not None:
        evaluation.change(alert)
    elif alert.pk is not None:
        evaluation.obsolete.append(alert)  # no notification was sent


def _select_notifications(
    rule: Rule,
    broker: str,
    alerts: Iterable[Alert],
    silences: Collection[Silence],
    evaluation: Evaluation,
    *,
    now: dt.datetime,
) -> None:
    grouping = rule.last_notified is not None and _within(GROUP_WAIT, rule.last_notified, now, end=False)
    for alert in alerts:
        silenced = is_silenced(silences, rule, broker, ObjectName.parse(alert.object), now)
        if alert.silenced != silenced:
            alert.silenced = silenced
            evaluation.change(alert)
        if not alert.notification_due:
            continue
        if silenced:
            if alert.state == AlertState.HAPPENED:  # firing and resolved alerts are notified after the silence
                alert.notification_due, alert.count = False, 0
                evaluation.change(alert)
            continue
        quiet = alert.notified is not None and _within(rule.quiet, alert.notified, now, end=False)
        if grouping or (quiet and alert.state != AlertState.RESOLVED):
            continue
        phase = {AlertState.RESOLVED: "resolved", AlertState.HAPPENED: "event"}.get(AlertState(alert.state), "firing")
        alert.notification_due, alert.notified = False, now
        alert.firing_notified = phase == "firing"
        alert.firing_number += alert.firing_notified
        evaluation.change(alert)
        evaluation.notify.setdefault(phase, []).append(alert)
