"""Evaluates all rules against every broker once a second, in one process, which owns a lease.

State that must survive a restart is in the database: alerts, notifications, and the position in each broker's events.
One transaction changes it together with the resulting deliveries, so that a killed evaluator neither repeats nor loses
a notification.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from django.db import connection, transaction
from django.db.models import F, Q
from django.utils import timezone

from brokers.admin import AdminError, Event
from console.alerts.consumed_queues import ConsumedQueues
from console.alerts.event_position import Rewinds, journal_of, marked
from console.alerts.messages import items, titles
from console.alerts.models import Alert, AlertState, Delivery, Notification, Position, Rule, Silence
from console.alerts.observing import active_conditions, dead_letter_queues_of, is_paused, read_scopes, unreachable
from console.alerts.queue_conditions import DEAD_LETTERS, QUEUE_CONDITIONS, Known, Row, matching_conditions
from console.alerts.recording import NOT_RECORDING, SILENT, Recording
from console.alerts.rule_starts import RuleStarts, journal_now, start_of
from console.alerts.transitions import UNREACHABLE, Evaluation, Observation, evaluate
from console.brokers.models import ForeignBroker
from console.links.queue_table import queue_of
from console.links.registry import BrokerLink

log = logging.getLogger(__name__)

#: Seconds after a connection before a missing condition counts as ended: detectors need time to find it again.
SETTLE = 15.0
#: Seconds between two polls while there is no rule: a first one is found within this time.
WITHOUT_RULES = 3.0
#: Events of a broker that one poll processes.
MAX_EVENTS = 2000
#: Seconds before a disconnected broker becomes a condition; a rule's pending period adds to it.
GRACE = 3.0
#: Seconds for which the dead-letter queues of patterns and exchanges are cached.
SCOPES_TTL = 30.0
#: Seconds for which an ended alert is retained, or its repeat interval if that is longer.
MIN_RETENTION = 3600
#: Smallest difference between wall clock and monotonic clock that counts as a clock that was set, not as drift.
CLOCK_STEP = dt.timedelta(seconds=2)


class Superseded(Exception):
    """Another process has advanced the position: this evaluator no longer owns the lease."""


@dataclass
class Evaluator:
    """Evaluates the rules at each `poll`. `clock`: monotonic seconds; `now`: the time; `deliver` is called with the
    primary key of each new delivery. `recording`: None if it is not known whether the history is recorded."""

    links: Callable[[], list[BrokerLink]]
    deliver: Callable[[int], None]
    recording: Recording | None = None
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], dt.datetime] = timezone.now
    _last_poll: tuple[float, dt.datetime] | None = None
    _silences: list[int] = field(default_factory=list)
    _connected: dict[str, float] = field(default_factory=dict)
    _cleaned: float = float("-inf")
    _scopes: dict[str, tuple[float, list[Row] | None]] = field(default_factory=dict)
    _rewinds: Rewinds = field(default_factory=Rewinds)
    _consumed: ConsumedQueues = field(default_factory=ConsumedQueues)
    _starts: RuleStarts = field(default_factory=RuleStarts)
    _unread: dict[str, str] = field(default_factory=dict)  # slug -> why events cannot be read

    def run(self, ended: Callable[[], bool], pause: Callable[[float], object]) -> None:
        """Poll once a second until `ended`, less often without rules. An error of one broker does not affect the
        others."""
        try:
            while not ended():
                pause(1.0 if self.poll() else WITHOUT_RULES)
        finally:
            connection.close()

    def poll(self) -> bool:
        """Evaluate the rules. Return whether there are any."""
        self._check_clock()
        rules = list(Rule.objects.prefetch_related("receivers"))
        if rules:
            silences = list(Silence.objects.filter(until__gt=self.now()))
            self._silences = [silence.pk for silence in silences]
            if self.recording is not None and any(NOT_RECORDING in rule.kinds for rule in rules if rule.enabled):
                self.recording.look([link.slug for link in self.links()])
            for link in self.links():
                try:
                    self._poll_broker(link, rules, silences)
                except AdminError as error:
                    log.warning("%s: alerts could not be evaluated: %s", link.slug, error)
            for slug in self._removed():
                self._end_alerts(slug, rules, silences)
        else:
            for link in self.links():  # the next rule starts without a past
                self._starts.look(link)
                self._consumed.forget(link.slug)
        if self.clock() - self._cleaned > 60:
            self._cleaned = self.clock()
            self._clean(rules)
        return bool(rules)

    def _check_clock(self) -> None:
        """If the clock has been set since the last poll, shift stored times by the same difference, so that pending
        periods, repeat intervals and silences keep their durations."""
        passed, now = self.clock(), self.now()
        if self._last_poll is not None:
            by = now - self._last_poll[1] - dt.timedelta(seconds=passed - self._last_poll[0])
            if abs(by) >= CLOCK_STEP:
                log.warning("the clock was set by %+.0f s: times of alerts are shifted with it", by.total_seconds())
                shift_times(by, self._silences)
        self._last_poll = passed, now

    # -- one broker -------------------------------------------------------------------------------------------------

    def _poll_broker(self, link: BrokerLink, rules: list[Rule], silences: list[Silence]) -> None:
        now, slug = self.now(), link.slug
        conditions, settled, unknown = self._conditions(link)
        rows, known, unknown_too = self._queues(link, rules, settled=settled)
        position, events = self._readable_events(link, rules)
        open_alerts: dict[int, list[Alert]] = {}
        for alert in Alert.objects.filter(broker=slug):
            open_alerts.setdefault(alert.rule_id, []).append(alert)
        evaluation = {
            rule: evaluate(
                rule,
                slug,
                open_alerts.get(rule.pk, []),
                conditions=[*conditions, *matching_conditions(rule, slug, rows, known)],
                events=[event for event in events if event.number > start_of(rule, slug)],
                silences=silences,
                now=now,
                settled=settled,
                unknown={*unknown, *unknown_too},
            )
            for rule in rules
        }
        if not events and not any(each.changed or each.obsolete for each in evaluation.values()):
            return
        ready: list[int] = []
        with transaction.atomic():
            self._advance(position, events)
            for rule, each in evaluation.items():
                ready += self._save(rule, slug, each, now)
        for number in ready:
            self.deliver(number)

    def _removed(self) -> list[str]:
        """Return the brokers with alerts in progress, or still to be notified, that are configured no more, by the
        database."""
        in_progress = Q(state__in=(AlertState.PENDING, AlertState.FIRING))
        open_ = Alert.objects.filter(in_progress | Q(notification_due=True))
        present = {link.slug for link in self.links()} | set(ForeignBroker.objects.values_list("slug", flat=True))
        return [slug for slug in open_.values_list("broker", flat=True).distinct().order_by() if slug not in present]

    def _end_alerts(self, slug: str, rules: list[Rule], silences: list[Silence]) -> None:
        """End the alerts of a removed broker: the console no longer observes its conditions."""
        now, ready = self.now(), []
        self._consumed.forget(slug)
        with transaction.atomic():
            for rule in rules:
                mine = list(Alert.objects.filter(broker=slug, rule=rule))
                ended = evaluate(rule, slug, mine, conditions=[], events=[], silences=silences, now=now, settled=True)
                ready += self._save(rule, slug, ended, now)
        for number in ready:
            self.deliver(number)

    def _conditions(self, link: BrokerLink) -> tuple[list[Observation], bool, Collection[str]]:
        """Return active conditions, whether missing ones have ended (not so soon after a connection), and the kinds of
        which it is not known."""
        if not link.connected:
            self._connected.pop(link.slug, None)
            if is_paused(link):
                return [], True, titles().keys() - {UNREACHABLE}
            away = self.now().timestamp() - link.status.since / 1000
            if away < GRACE:
                return [], False, ()
            return [unreachable(link)], False, ()
        since = self._connected.setdefault(link.slug, self.clock())
        found = active_conditions(link)
        connected_for = self.clock() - since
        # Without a connection the recorder has nothing to publish: it needs some time after it.
        if connected_for < SILENT or self.recording is None or not self.recording.knows(link.slug):
            return found, connected_for >= SETTLE, (NOT_RECORDING,)
        silent = self.recording.observation(link.slug)
        return [*found, *([] if silent is None else [silent])], True, ()

    def _queues(
        self, link: BrokerLink, rules: list[Rule], *, settled: bool
    ) -> tuple[list[Row], Known, Collection[str]]:
        """Return the rows of all queues, for queue conditions, what else they need, and the kinds of which it is not
        known whether they have ended. Empty if no rule needs them or the broker is disconnected."""
        named = {kind for rule in rules if rule.enabled for kind in rule.kinds}
        if not link.connected:
            self._consumed.update(link.slug, rules, [], complete=False)
            return [], Known(), ()
        rows = link.queues() if named & QUEUE_CONDITIONS.keys() else []
        consumed = self._consumed.update(link.slug, rules, rows, complete=settled)
        if DEAD_LETTERS not in named:
            return rows, Known(link.broker_now, (), consumed), ()
        scopes = self._scopes_of(link)
        dead = dead_letter_queues_of(link, rows, scopes or ())
        return rows, Known(link.broker_now, dead, consumed), (DEAD_LETTERS,) if scopes is None else ()

    def _scopes_of(self, link: BrokerLink) -> list[Row] | None:
        """Return the patterns and exchanges of a broker; None if they could not be read. They are read every
        `SCOPES_TTL` seconds, also after an error, which may have taken long."""
        read_at, scopes = self._scopes.get(link.slug, (float("-inf"), None))
        if self.clock() - read_at > SCOPES_TTL:
            try:
                scopes = read_scopes(link)
            except AdminError as error:
                log.warning("%s: dead-letter queues of patterns and exchanges are not known: %s", link.slug, error)
                scopes = None
            self._scopes[link.slug] = self.clock(), scopes
        return scopes

    def _readable_events(self, link: BrokerLink, rules: list[Rule]) -> tuple[Position, list[_EventObservation]]:
        """Return the stored position and the events after it; none while the broker does not give them, which must not
        delay what does not depend on events. The position stays, so that a later poll processes them."""
        slug = link.slug
        try:
            found = self._events(link, rules)
        except AdminError as error:
            if self._unread.get(slug) != str(error):  # once, and not at each poll
                log.warning("%s: events could not be read, and their alerts are delayed: %s", slug, error)
            self._unread[slug] = str(error)
            return Position.objects.filter(broker=slug).first() or Position(broker=slug, journal="", event=0), []
        if self._unread.pop(slug, None) is not None:
            log.info("%s: events are read again", slug)
        return found

    def _events(self, link: BrokerLink, rules: list[Rule]) -> tuple[Position, list[_EventObservation]]:
        """Return the stored position and the events after it that a rule can apply to. Raises AdminError."""
        slug, journal = link.slug, journal_now(link)
        position = Position.objects.filter(broker=slug).first()
        if not journal:
            return position or Position(broker=slug, journal="", event=0), []
        if position is not None and journal_of(position) != journal:
            log.warning("%s has a new event journal: reading it from the beginning", slug)
            self._set_back(position, journal, rules, 0)
        elif position is not None and (after := self._rewinds.restored_position(link, position)) is not None:
            self._set_back(position, journal, rules, after)
        start = self._starts.look(link)
        earliest = self._starts.give(slug, rules, start)
        if position is None:  # first use of alerts
            return Position.objects.create(broker=slug, journal=journal, event=start), []
        if position.event < earliest:
            self._move(position, journal, earliest)
        if link.newest_event <= position.event:
            return position, []
        tail = asyncio.run(link.events_after(position.event, MAX_EVENTS))
        if tail.expired_before is not None:
            log.warning(
                "%s: events %d to %d are no longer retained", link.slug, position.event + 1, tail.expired_before - 1
            )
        return position, [_observation(event) for event in tail.events]

    def _set_back(self, position: Position, journal: str, rules: list[Rule], event: int) -> None:
        self._starts.set_back(position.broker, rules, event)
        self._move(position, journal, event)

    def _move(self, position: Position, journal: str, event: int) -> None:
        Position.objects.filter(broker=position.broker).update(journal=journal, event=event)
        position.journal, position.event = journal, event

    def _advance(self, position: Position, events: list[_EventObservation]) -> None:
        if not events:
            return
        last = events[-1]
        mine = Position.objects.filter(broker=position.broker, journal=position.journal, event=position.event)
        if not mine.update(event=last.number, journal=marked(journal_of(position), last.at, last.saw)):
            raise Superseded(f"another process evaluates alerts of {position.broker}")

    def _save(self, rule: Rule, slug: str, evaluation: Evaluation, now: dt.datetime) -> list[int]:
        ready: list[int] = []
        for phase, alerts in evaluation.notify.items():
            ready += self._notify(rule, slug, phase, evaluation, now)
            for alert in alerts:
                alert.count = 0
        new = [alert for alert in evaluation.changed.values() if alert.pk is None]
        old = [alert for alert in evaluation.changed.values() if alert.pk is not None]
        Alert.objects.bulk_create(new, batch_size=200)
        Alert.objects.bulk_update(old, _FIELDS, batch_size=50)
        Alert.objects.filter(pk__in=[alert.pk for alert in evaluation.obsolete[:500]]).delete()
        if evaluation.notify:
            Rule.objects.filter(pk=rule.pk).update(last_notified=now)
            rule.last_notified = now
        return ready

    def _notify(self, rule: Rule, slug: str, phase: str, evaluation: Evaluation, now: dt.datetime) -> list[int]:
        alerts = evaluation.notify[phase]
        notification = Notification.objects.create(
            at=now,
            rule=rule,
            rule_name=rule.name,
            broker=slug,
            phase=phase,
            items=items(alerts),
            count=len(alerts),
            incident=f"{rule.pk}/{slug}",
            still_firing=evaluation.still_firing,
        )
        return [
            Delivery.objects.create(
                notification=notification, receiver=receiver, receiver_name=receiver.name, due=now
            ).pk
            for receiver in rule.receivers.all()
            if receiver.enabled
        ]

    def _clean(self, rules: list[Rule]) -> None:
        ended = Alert.objects.filter(state__in=[AlertState.RESOLVED, AlertState.HAPPENED], notification_due=False)
        for rule in rules:
            old = self.now() - dt.timedelta(seconds=max(rule.quiet, MIN_RETENTION))
            ended.filter(rule=rule, last_seen__lt=old).delete()


@dataclass(frozen=True, slots=True)
class _EventObservation(Observation):
    number: int = 0
    at: int = 0  # ms


def _observation(event: Event) -> _EventObservation:
    about = queue_of(event) or event.object
    return _EventObservation(event.kind, str(about), "warning", event.text, "", about, number=event.number, at=event.at)


_FIELDS = [
    field.name for field in Alert._meta.concrete_fields if field.name not in ("id", "rule", "broker", "object", "kind")
]


def shift_times(by: dt.timedelta, silences: list[int]) -> None:
    """Shift the stored times of alerts, and the ends of `silences` (primary keys)."""
    with transaction.atomic():
        moments = ("since", "fired", "last_seen", "ended", "notified")  # `reported_since` is by the broker's clock
        Alert.objects.update(**{moment: F(moment) + by for moment in moments})
        Rule.objects.exclude(last_notified=None).update(last_notified=F("last_notified") + by)
        Silence.objects.filter(pk__in=silences).update(until=F("until") + by)


def start(ended: threading.Event, last_sign: Callable[[str], dt.datetime | None]) -> threading.Thread:
    """Start the evaluator in a thread of this process, before the broker links. `last_sign`: as for `Recording`."""
    from console.alerts.tasks import deliver
    from console.celery import send
    from console.links.registry import links

    evaluator = Evaluator(links, lambda number: send(deliver, number), Recording(last_sign))
    thread = threading.Thread(target=evaluator.run, args=(ended.is_set, ended.wait), name="alerts", daemon=True)
    thread.start()
    return thread
