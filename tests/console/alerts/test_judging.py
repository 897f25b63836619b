"""What a look means for the alerts of a rule: when it fires, what is told when, and what is kept back."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from console.alerts.judging import GATHER, OVERLOOKED, Judged, Seen, judge
from console.alerts.models import Alert, AlertState, Rule, Silence

T0 = dt.datetime(2027, 1, 1, tzinfo=dt.UTC)
ORDERS = "type=Queue,virtualhost=default,name=orders.1"
BILLS = "type=Queue,virtualhost=default,name=bills"
STUCK = "blocked-without-consumer"


def seen(kind: str = STUCK, name: str = ORDERS) -> Seen:
    return Seen(kind, name, "trouble", "2 producers are held", "Start a consumer.")


class World:
    """One rule, one broker, and the seconds that pass."""

    def __init__(self, **values: Any) -> None:
        self.rule = Rule(pk=1, name="stuck", kinds=values.pop("kinds", [STUCK]), **{"quiet": 300, **values})
        self.alerts: dict[tuple[str, str], Alert] = {}
        self.silences: list[Silence] = []
        self.now = T0

    def look(self, *conditions: Seen, at: float, events: tuple[Seen, ...] = (), settled: bool = True) -> Judged:
        self.now = T0 + dt.timedelta(seconds=at)
        judged = judge(
            self.rule,
            "local",
            list(self.alerts.values()),
            conditions=conditions,
            events=events,
            silences=self.silences,
            now=self.now,
            settled=settled,
        )
        for alert in judged.changed.values():
            alert.pk = alert.pk or len(self.alerts) + 1
            self.alerts[(alert.kind, alert.object)] = alert
        for alert in judged.forgotten:
            del self.alerts[(alert.kind, alert.object)]
        if judged.tell:
            self.rule.told = self.now
            for told in judged.tell.values():
                for alert in told:
                    alert.count = 0
        return judged

    def told(self, *conditions: Seen, at: float, **more: Any) -> dict[str, int]:
        return {phase: len(alerts) for phase, alerts in self.look(*conditions, at=at, **more).tell.items()}


def test_a_condition_fires_only_after_it_has_held_and_once() -> None:
    world = World(holds=60)
    assert world.told(seen(), at=0) == {}
    assert world.told(seen(), at=59) == {}
    assert world.told(seen(), at=60) == {"firing": 1}
    assert [world.told(seen(), at=at) for at in (61, 400, 4000)] == [{}, {}, {}]


def test_one_that_goes_before_it_has_held_is_forgotten_and_counts_anew() -> None:
    world = World(holds=60)
    world.told(seen(), at=0)
    assert world.told(at=50) == {}
    assert not world.alerts
    assert world.told(seen(), at=55) == {}
    assert world.told(seen(), at=100) == {}
    assert world.told(seen(), at=115) == {"firing": 1}


def test_resolved_is_told_once_and_only_if_the_rule_wants() -> None:
    world = World()
    assert world.told(seen(), at=0) == {"firing": 1}
    assert world.told(at=20) == {"resolved": 1}
    assert world.told(at=21) == {}
    silent = World(tell_resolved=False)
    silent.told(seen(), at=0)
    assert silent.told(at=20) == {}


def test_within_the_quiet_period_a_second_firing_waits_and_is_told_if_it_still_fires() -> None:
    world = World(quiet=300)
    world.told(seen(), at=0)
    assert world.told(at=20) == {"resolved": 1}
    assert world.told(seen(), at=40) == {}
    assert world.told(seen(), at=319) == {}
    assert world.told(seen(), at=320) == {"firing": 1}


def test_flapping_within_the_quiet_period_tells_nothing_more() -> None:
    world = World(quiet=300)
    world.told(seen(), at=0)
    world.told(at=20)
    assert [world.told(*([seen()] if at % 20 else []), at=at) for at in range(30, 300, 10)] == [{}] * 27


def test_while_it_is_silenced_nothing_is_told_and_what_lasts_longer_is_told_after_it() -> None:
    world = World()
    world.silences = [Silence(rule_id=1, until=T0 + dt.timedelta(seconds=100))]
    assert world.told(seen(), seen(name=BILLS), at=0) == {}
    assert world.told(seen(), at=50) == {}  # the other is over: nobody heard of it
    assert world.told(seen(), at=101) == {"firing": 1}


def test_a_silence_of_a_scope_keeps_back_that_scope_alone() -> None:
    world = World()
    world.silences = [Silence(pattern="orders.>", until=T0 + dt.timedelta(seconds=100))]
    told = world.look(seen(), seen(name=BILLS), at=0).tell
    assert [alert.object for alert in told["firing"]] == [BILLS]


def test_what_happens_within_some_seconds_is_told_together() -> None:
    world = World()
    assert world.told(seen(), at=0) == {"firing": 1}
    many = [seen(name=f"type=Queue,virtualhost=default,name=q{n}") for n in range(50)]
    assert world.told(seen(), *many, at=1) == {}
    assert world.told(seen(), *many, at=GATHER) == {"firing": 50}


def test_until_the_broker_has_been_looked_at_for_long_enough_nothing_is_resolved() -> None:
    world = World()
    world.told(seen(), at=0)
    assert world.told(at=20, settled=False) == {}
    assert world.told(seen(), at=30) == {}  # it was there all the time: not told again
    assert world.told(at=40) == {"resolved": 1}


def test_a_pending_alert_that_nobody_looked_at_for_long_counts_anew() -> None:
    world = World(holds=60)
    world.told(seen(), at=0)
    assert world.told(seen(), at=OVERLOOKED + 30) == {}
    assert world.told(seen(), at=OVERLOOKED + 90) == {"firing": 1}


def test_an_evaluator_that_was_away_for_a_moment_goes_on_counting() -> None:
    world = World(holds=60)
    for at in (0, 10, 20):
        world.told(seen(), at=at)
    assert world.told(seen(), at=65) == {"firing": 1}


def test_events_are_told_with_how_many_came_and_never_resolved() -> None:
    world = World(kinds=["producers-stopped"], quiet=60)
    stop = seen("producers-stopped", "type=Broker")
    assert world.told(at=0, events=(stop,)) == {"event": 1}
    assert world.told(at=20, events=(stop, stop)) == {}
    assert world.alerts["producers-stopped", "type=Broker"].count == 2
    assert world.told(at=60) == {"event": 1}
    assert world.told(at=1000) == {}


def test_events_in_a_silence_are_not_told_after_it() -> None:
    world = World(kinds=["producers-stopped"])
    world.silences = [Silence(rule_id=1, until=T0 + dt.timedelta(seconds=100))]
    assert world.told(at=0, events=(seen("producers-stopped", "type=Broker"),)) == {}
    assert world.told(at=200) == {}


@pytest.mark.parametrize(
    ("values", "name", "fires"),
    [
        ({}, ORDERS, True),
        ({"pattern": "orders.>"}, ORDERS, True),
        ({"pattern": "bills"}, ORDERS, False),
        ({"virtualhost": "default"}, ORDERS, True),
        ({"virtualhost": "other"}, ORDERS, False),
        ({"virtualhost": "default"}, "type=VirtualHost,name=default", True),
        ({"pattern": "orders.>"}, "type=Broker", False),
        ({"broker": "local"}, ORDERS, True),
        ({"broker": "other"}, ORDERS, False),
        ({"enabled": False}, ORDERS, False),
        ({"kinds": ["flapping"]}, ORDERS, False),
    ],
    ids=str,
)
def test_a_rule_is_about_its_kinds_and_scope_alone(values: dict[str, Any], name: str, fires: bool) -> None:
    assert bool(World(**values).told(seen(name=name), at=0)) is fires


def test_a_rule_that_is_switched_off_ends_its_alerts_without_a_word() -> None:
    world = World()
    world.told(seen(), at=0)
    world.rule.enabled = False
    assert world.told(seen(), at=20) == {}
    assert world.alerts[STUCK, ORDERS].state == AlertState.RESOLVED
