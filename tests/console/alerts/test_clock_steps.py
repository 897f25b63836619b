"""The clock is set by an hour, either way: alerts fire, are quiet and are silenced for as long as their rules want."""

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
from console.alerts.judging import OVERLOOKED, Seen, judge
from console.alerts.models import Alert, AlertState, Notification, Rule, Silence

pytestmark = pytest.mark.django_db

HOUR = 3600
BOTH_WAYS = pytest.mark.parametrize("by", [HOUR, -HOUR])
STUCK = "blocked-without-consumer"
ORDERS = "type=Queue,virtualhost=default,name=orders"


@dataclass
class World(Evaluator):
    """An evaluator, the conditions that it finds, the seconds that pass and by how much the clock was set."""

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
        """What has been told once so many more have passed, looking each second; the clock is set at the beginning."""
        self.ahead += ahead
        told: list[str] = []
        for _ in range(max(1, round(seconds))):
            before = set(Notification.objects.values_list("pk", flat=True))
            self.seconds += seconds / max(1, round(seconds))
            self._look_at_the_clock()
            self._silences = list(Silence.objects.filter(until__gt=self.now()).values_list("pk", flat=True))
            self._judge_all()
            told += Notification.objects.exclude(pk__in=before).values_list("phase", flat=True)
        return told

    def _judge_all(self) -> None:
        seen = [Seen(STUCK, ORDERS, "trouble", "held", "", ObjectName.parse(ORDERS))] if self.there else []
        for rule in Rule.objects.all():
            judged = judge(
                rule,
                "local",
                list(Alert.objects.filter(rule=rule)),
                conditions=seen,
                events=(),
                silences=list(Silence.objects.filter(until__gt=self.now())),
                now=self.now(),
                settled=True,
            )
            self._keep(rule, "local", judged, self.now())


@pytest.fixture
def by_whom(operator: User) -> Actor:
    return Actor(operator, "127.0.0.1")


def ruled(by: Actor, **values: Any) -> World:
    editing.create_rule(by, {"name": "rule", "kinds": [STUCK], **values})
    world = World()
    world._look_at_the_clock()
    return world


@pytest.mark.domain("9 clock steps")
@BOTH_WAYS
def test_a_condition_must_last_as_long_as_the_rule_wants(by_whom: Actor, by: int) -> None:
    world = ruled(by_whom, holds=60)
    assert world.after(30) == []
    assert world.after(29, ahead=by) == []
    assert world.after(3) == ["firing"]
    alert = Alert.objects.get()
    assert abs((world.now() - alert.since).total_seconds() - 61) < 2, "since when, by the clock as it is now"


@BOTH_WAYS
def test_what_was_told_is_not_told_again_and_its_end_is(by_whom: Actor, by: int) -> None:
    world = ruled(by_whom, quiet=300)
    assert world.after(20) == ["firing"]
    assert world.after(20, ahead=by) == []
    world.there = False
    assert world.after(20) == ["resolved"]
    world.there = True
    assert world.after(200, ahead=-by) == [], "it is quiet for 300 seconds"
    assert world.after(110) == ["firing"]


@BOTH_WAYS
def test_a_silence_lasts_as_long_as_was_asked_for(by_whom: Actor, by: int) -> None:
    world = ruled(by_whom)
    rule = Rule.objects.get()
    silence = editing.create_silence(by_whom, {"rule": rule.pk, "minutes": 2})
    Silence.objects.filter(pk=silence.pk).update(until=world.now() + dt.timedelta(minutes=2))
    assert world.after(30) == []
    assert world.after(85, ahead=by) == []
    assert world.after(8) == ["firing"]


def test_a_silence_that_was_made_after_the_clock_was_set_is_left_as_it_is(by_whom: Actor) -> None:
    world = ruled(by_whom)
    world.after(5)
    world.ahead += HOUR
    silence = editing.create_silence(by_whom, {"rule": Rule.objects.get().pk, "minutes": 2})
    Silence.objects.filter(pk=silence.pk).update(until=world.now() + dt.timedelta(minutes=2))
    world.after(1)
    assert Silence.objects.get().until - world.now() < dt.timedelta(minutes=2)


@BOTH_WAYS
def test_set_while_nobody_looked_a_condition_begins_again_and_none_fires_for_it(by_whom: Actor, by: int) -> None:
    world = ruled(by_whom, holds=60)
    world.after(30)
    again = World(began=world.began, seconds=world.seconds, ahead=world.ahead + by)
    assert again.after(58) == []
    assert again.after(5) == ["firing"]
    assert OVERLOOKED < HOUR


def test_set_back_while_nobody_looked_nothing_is_quiet_for_an_hour(by_whom: Actor) -> None:
    world = ruled(by_whom, quiet=30)
    assert world.after(10) == ["firing"]
    world.there = False
    assert world.after(12) == ["resolved"]
    again = World(began=world.began, seconds=world.seconds, ahead=world.ahead - HOUR)
    assert again.after(5) == ["firing"]
    assert Alert.objects.get().state == AlertState.FIRING
