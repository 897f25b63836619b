"""Looks at every broker once a second and keeps what the rules make of it. One process does that, under a lease.

Everything that must survive a restart is a row: since when a condition lasts, what was said, and up to which event a
broker was read. They change together, in one transaction with the deliveries that follow from them, so that a killed
evaluator repeats nothing and leaves nothing out.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from django.db import connection, transaction
from django.db.models import F
from django.utils import timezone

from brokers.admin import AdminError, BrokerAdmin, Event, Page
from brokers.model import ObjectName, object_name
from console.alerts.judging import UNREACHABLE, Judged, Seen, judge
from console.alerts.models import Alert, AlertState, Delivery, Notification, Position, Rule, Silence
from console.alerts.plain import DEAD_LETTERS, PLAIN, Row, dead_letter_queues, of_rule
from console.alerts.wording import items
from console.links.queue_table import queue_of
from console.links.registry import BrokerLink

log = logging.getLogger(__name__)

#: Seconds after the connection for which what is not seen may yet be found: detectors wait as well.
SETTLE = 15.0
#: Events of a broker in one look.
MOST = 2000
#: Seconds that a lost broker is given to come back before it is a condition; a rule may wait longer.
AWAY = 3.0
#: Seconds for which it is known which patterns and exchanges name a dead-letter queue.
SCOPES = 30.0
#: Seconds for which an alert that is over is remembered, its quiet period at least.
REMEMBERED = 3600
#: A difference between the time of day and the time that has passed that is a clock that was set, not a clock's care.
STEP = dt.timedelta(seconds=2)

_BROKER = object_name("Broker")
_SCOPES = ("Policy", "Exchange")


def _all_of(type_name: str) -> Callable[[BrokerAdmin], Awaitable[Page]]:
    return lambda admin: admin.query(type_name, count=_MOST_SCOPES)


#: Patterns, and exchanges, that are looked at.
_MOST_SCOPES = 1000


class Overtaken(Exception):
    """Somebody else has moved on: this evaluator must not go on as if it were the only one."""


@dataclass
class Evaluator:
    """`look` once a second. `clock`: seconds, monotonic; `now`: the time; `deliver`: called with the numbers of
    deliveries that can go."""

    links: Callable[[], list[BrokerLink]]
    deliver: Callable[[int], None]
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], dt.datetime] = timezone.now
    _looked: tuple[float, dt.datetime] | None = None
    _silences: list[int] = field(default_factory=list)
    _connected: dict[str, float] = field(default_factory=dict)
    _cleaned: float = float("-inf")
    _scopes: dict[str, tuple[float, list[Row]]] = field(default_factory=dict)

    def run(self, ended: Callable[[], bool], pause: Callable[[float], object]) -> None:
        """Until it has ended. A broker that cannot be asked does not keep the others from it."""
        try:
            while not ended():
                self.look()
                pause(1.0)
        finally:
            connection.close()

    def look(self) -> None:
        self._look_at_the_clock()
        rules = list(Rule.objects.prefetch_related("receivers"))
        if rules:
            silences = list(Silence.objects.filter(until__gt=self.now()))
            self._silences = [silence.pk for silence in silences]
            for link in self.links():
                try:
                    self._look_at(link, rules, silences)
                except AdminError as error:
                    log.warning("%s: alerts could not be looked for: %s", link.slug, error)
        if self.clock() - self._cleaned > 60:
            self._cleaned = self.clock()
            self._clean(rules)

    def _look_at_the_clock(self) -> None:
        """If it was set since the last look, what is kept is set with it: what had lasted for a minute has not lasted
        for an hour then, and what was to be silent for another minute is not silent for an hour."""
        passed, now = self.clock(), self.now()
        if self._looked is not None:
            by = now - self._looked[1] - dt.timedelta(seconds=passed - self._looked[0])
            if abs(by) >= STEP:
                log.warning("the clock was set by %+.0f s: what alerts keep is set with it", by.total_seconds())
                set_by(by, self._silences)
        self._looked = passed, now

    # -- one broker -------------------------------------------------------------------------------------------------

    def _look_at(self, link: BrokerLink, rules: list[Rule], silences: list[Silence]) -> None:
        now, slug = self.now(), link.slug
        conditions, settled = self._conditions(link)
        rows, dead = self._queues(link, rules)
        position, events = self._events(link)
        open_alerts: dict[int, list[Alert]] = {}
        for alert in Alert.objects.filter(broker=slug):
            open_alerts.setdefault(alert.rule_id, []).append(alert)
        judged = {
            rule: judge(
                rule,
                slug,
                open_alerts.get(rule.pk, []),
                conditions=[*conditions, *of_rule(rule, slug, rows, dead)],
                events=events,
                silences=silences,
                now=now,
                settled=settled,
            )
            for rule in rules
        }
        if not events and not any(each.changed or each.forgotten for each in judged.values()):
            return
        ready: list[int] = []
        with transaction.atomic():
            self._move(position, events)
            for rule, each in judged.items():
                ready += self._keep(rule, slug, each, now)
        for number in ready:
            self.deliver(number)

    def _conditions(self, link: BrokerLink) -> tuple[list[Seen], bool]:
        """What is in force, and whether what is not there is not in force."""
        if not link.connected:
            self._connected.pop(link.slug, None)
            away = self.now().timestamp() - link.status.since / 1000
            if away < AWAY:
                return [], False
            saw = f"The console cannot reach it: {link.status.error}."
            advice = "Look whether the broker runs. What it holds and who is held cannot be seen meanwhile."
            return [Seen(UNREACHABLE, str(_BROKER), "trouble", saw, advice, _BROKER)], False
        since = self._connected.setdefault(link.slug, self.clock())
        found = [
            Seen(f.kind, f.object, f.severity, f.saw, f.advice, ObjectName.parse(f.object))
            for f in (condition.finding for condition in link.conditions())
        ]
        return found, self.clock() - since >= SETTLE

    def _queues(self, link: BrokerLink, rules: list[Rule]) -> tuple[list[Row], frozenset[str]]:
        """What plain conditions are seen in, if a rule names any: rows of all queues, and which of them hold dead
        letters. Of a broker that is away nothing is known."""
        named = {kind for rule in rules if rule.enabled for kind in rule.kinds}
        if not link.connected or not named & PLAIN.keys():
            return [], frozenset()
        rows = link.queues()
        if DEAD_LETTERS not in named:
            return rows, frozenset()
        read, known = self._scopes.get(link.slug, (float("-inf"), []))
        if self.clock() - read > SCOPES:
            known = [dict(scope.attributes) for type_ in _SCOPES for scope in link.call(_all_of(type_)).items]
            self._scopes[link.slug] = self.clock(), known
        hosts = [{**host, "virtualhost": host["name"]} for host in link.hosts.values()]
        return rows, dead_letter_queues(rows, [link.broker or {}, *hosts, *known])

    def _events(self, link: BrokerLink) -> tuple[Position, list[_SeenEvent]]:
        """The events since the position, which is then that of the last one."""
        journal = str((link.broker or {}).get("journal") or "")
        position = Position.objects.filter(broker=link.slug).first()
        if position is None or not link.connected or not journal:
            if link.connected and journal:  # nobody asked for alerts before
                position = Position.objects.create(broker=link.slug, journal=journal, event=link.newest_event)
            return position or Position(broker=link.slug, journal="", event=0), []
        if position.journal != journal:
            log.warning("%s has another journal of events: it is read from its beginning", link.slug)
            Position.objects.filter(broker=link.slug).update(journal=journal, event=0)
            position.journal, position.event = journal, 0
        if link.newest_event <= position.event:
            return position, []
        tail = asyncio.run(link.events_after(position.event, MOST))
        if tail.expired_before is not None:
            log.warning(
                "%s: events %d to %d are no longer kept", link.slug, position.event + 1, tail.expired_before - 1
            )
        return position, [_seen(event) for event in tail.events]

    def _move(self, position: Position, events: list[_SeenEvent]) -> None:
        if not events:
            return
        last = events[-1].number
        mine = Position.objects.filter(broker=position.broker, journal=position.journal, event=position.event)
        if not mine.update(event=last):
            raise Overtaken(f"another process reads the events of {position.broker} for alerts")

    def _keep(self, rule: Rule, slug: str, judged: Judged, now: dt.datetime) -> list[int]:
        ready: list[int] = []
        for phase, alerts in judged.tell.items():
            ready += self._tell(rule, slug, phase, alerts, now)
            for alert in alerts:
                alert.count = 0
        new = [alert for alert in judged.changed.values() if alert.pk is None]
        old = [alert for alert in judged.changed.values() if alert.pk is not None]
        Alert.objects.bulk_create(new, batch_size=200)
        Alert.objects.bulk_update(old, _FIELDS, batch_size=50)
        Alert.objects.filter(pk__in=[alert.pk for alert in judged.forgotten[:500]]).delete()
        if judged.tell:
            Rule.objects.filter(pk=rule.pk).update(told=now)
            rule.told = now
        return ready

    def _tell(self, rule: Rule, slug: str, phase: str, alerts: list[Alert], now: dt.datetime) -> list[int]:
        told = Notification.objects.create(
            at=now,
            rule=rule,
            rule_name=rule.name,
            broker=slug,
            phase=phase,
            items=items(alerts),
            count=len(alerts),
        )
        return [
            Delivery.objects.create(notification=told, receiver=receiver, receiver_name=receiver.name, due=now).pk
            for receiver in rule.receivers.all()
            if receiver.enabled
        ]

    def _clean(self, rules: list[Rule]) -> None:
        over = Alert.objects.filter(state__in=[AlertState.RESOLVED, AlertState.HAPPENED], untold=False)
        for rule in rules:
            old = self.now() - dt.timedelta(seconds=max(rule.quiet, REMEMBERED))
            over.filter(rule=rule, seen__lt=old).delete()


@dataclass(frozen=True, slots=True)
class _SeenEvent(Seen):
    number: int = 0


def _seen(event: Event) -> _SeenEvent:
    about = queue_of(event) or event.object
    return _SeenEvent(event.kind, str(about), "warning", event.text, "", about, number=event.number)


_FIELDS = [
    field.name for field in Alert._meta.concrete_fields if field.name not in ("id", "rule", "broker", "object", "kind")
]


def set_by(by: dt.timedelta, silences: list[int]) -> None:
    """Move the moments that alerts and `silences`, by their numbers, are reckoned from."""
    with transaction.atomic():
        moments = ("since", "seen", "ended", "notified")
        Alert.objects.update(**{moment: F(moment) + by for moment in moments})
        Rule.objects.exclude(told=None).update(told=F("told") + by)
        Silence.objects.filter(pk__in=silences).update(until=F("until") + by)


def begin(ended: threading.Event) -> threading.Thread:
    """The evaluator in a thread of this process, before its brokers."""
    from console.alerts.tasks import deliver
    from console.celery import send
    from console.links.registry import links

    evaluator = Evaluator(links, lambda number: send(deliver, number))
    thread = threading.Thread(target=evaluator.run, args=(ended.is_set, ended.wait), name="alerts", daemon=True)
    thread.start()
    return thread
