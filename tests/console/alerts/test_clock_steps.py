"""The clock is set by an hour, forward or back: pending periods, repeat intervals and silences keep their durations."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from brokers.model import ObjectName
from console.access.actor import Actor
from console.alerts import editing
from console.alerts.evaluator import Evaluator
from console.alerts.models import Alert, AlertState, Notification, Rule, Silence
from console.alerts.transitions import MAX_GAP, Observation, evaluate

pytestmark = pytest.mark.django_db

HOUR = 3600
BOTH_WAYS = pytest.mark.parametrize("by", [HOUR, -HOUR])
STUCK = "blocked-without-consumer"
ORDERS = "type=Queue,virtualhost=default,name=orders"


@dataclass
class World(Evaluator):
    """An evaluator with a fake clock. `seconds` have passed, the clock was set by `ahead`; `there`: the condition is
    active."""

    links: Any = list
    deliver: Any = None
    seconds: float = 0.0
    ahead: float = 0.0
    began: dt.datetime = field(default_factory=timezone.now)
    there: bool = True

    def __post_init__(self) -> None:
        self.clock = lambda: self.seconds
        self.now = lambda: self.began + dt.timedelta(seconds=self.seconds + self.ahead)

    def after(self, seconds: float, *, ahead: float = 0.0) -> list[str]:
        """Poll each second for `seconds`, after setting the clock, and return the phases of the notifications."""
        self.ahead += ahead
        phases: list[str] = []
        for _ in range(max(1, round(seconds))):
            before = set(Notification.objects.values_list("pk", flat=True))
            self.seconds += seconds / max(1, round(seconds))
            self._check_clock()
            self._silences = list(Silence.objects.filter(until__gt=self.now()).values_list("pk", flat=True))
            self._evaluate_all()
            phases += Notification.objects.exclude(pk__in=before).values_list("phase", flat=True)
        return phases

    def _evaluate_all(self) -> None:
        conditions = (
            [Observation(STUCK, ORDERS, "trouble", "blocked", "", ObjectName.parse(ORDERS))] if self.there else []
        )
        for rule in Rule.objects.all():
            evaluation = evaluate(
                rule,
                "local",
                list(Alert.objects.filter(rule=rule)),
                conditions=conditions,
                events=(),
                silences=list(Silence.objects.filter(until__gt=self.now())),
                now=self.now(),
                settled=True,
            )
            self._save(rule, "local", evaluation, self.now())


@pytest.fixture
def actor(operator: User) -> Actor:
    return Actor(operator, "127.0.0.1")


def create_rule(by: Actor, **values: Any) -> World:
    editing.create_rule(by, {"name": "rule", "kinds": [STUCK], **values})
    world = World()
    world._check_clock()
    return world


@pytest.mark.domain("9 clock steps")
@BOTH_WAYS
def test_pending_period_keeps_its_duration(actor: Actor, by: int) -> None:
    world = create_rule(actor, holds=60)
    assert world.after(30) == []
    assert world.after(29, ahead=by) == []
    assert world.after(3) == ["firing"]
    alert = Alert.objects.get()
    assert abs((world.now() - alert.since).total_seconds() - 61) < 2, "start time by the clock after the step"


@BOTH_WAYS
def test_repeat_interval_keeps_its_duration(actor: Actor, by: int) -> None:
    world = create_rule(actor, quiet=300)
    assert world.after(20) == ["firing"]
    assert world.after(20, ahead=by) == []
    world.there = False
    assert world.after(20) == ["resolved"]
    world.there = True
    assert world.after(200, ahead=-by) == [], "the repeat interval is 300 seconds"
    assert world.after(110) == ["firing"]


@BOTH_WAYS
def test_silence_keeps_its_duration(actor: Actor, by: int) -> None:
    world = create_rule(actor)
    rule = Rule.objects.get()
    silence = editing.create_silence(actor, {"rule": rule.pk, "minutes": 2})
    Silence.objects.filter(pk=silence.pk).update(until=world.now() + dt.timedelta(minutes=2))
    assert world.after(30) == []
    assert world.after(85, ahead=by) == []
    assert world.after(8) == ["firing"]


def test_silence_created_after_the_step_is_not_shifted(actor: Actor) -> None:
    world = create_rule(actor)
    world.after(5)
    world.ahead += HOUR
    silence = editing.create_silence(actor, {"rule": Rule.objects.get().pk, "minutes": 2})
    Silence.objects.filter(pk=silence.pk).update(until=world.now() + dt.timedelta(minutes=2))
    world.after(1)
    assert Silence.objects.get().until - world.now() < dt.timedelta(minutes=2)


@BOTH_WAYS
def test_step_while_no_evaluator_ran_restarts_the_pending_period(actor: Actor, by: int) -> None:
    world = create_rule(actor, holds=60)
    world.after(30)
    again = World(began=world.began, seconds=world.seconds, ahead=world.ahead + by)
    assert again.after(58) == []
    assert again.after(5) == ["firing"]
    assert MAX_GAP < HOUR


def test_step_back_while_no_evaluator_ran_does_not_extend_the_repeat_interval(actor: Actor) -> None:
    world = create_rule(actor, quiet=30)
    assert world.after(10) == ["firing"]
    world.there = False
    assert world.after(12) == ["resolved"]
    again = World(began=world.began, seconds=world.seconds, ahead=world.ahead - HOUR)
    assert again.after(5) == ["firing"]
    assert Alert.objects.get().state == AlertState.FIRING
