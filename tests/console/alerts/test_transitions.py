"""State transitions of the alerts of a rule: pending, firing, resolved, and when notifications are sent."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from console.alerts.models import Alert, AlertState, Rule, Silence
from console.alerts.transitions import GROUP_WAIT, MAX_GAP, Evaluation, Observation, evaluate

T0 = dt.datetime(2027, 1, 1, tzinfo=dt.UTC)
ORDERS = "type=Queue,virtualhost=default,name=orders.1"
BILLS = "type=Queue,virtualhost=default,name=bills"
STUCK = "blocked-without-consumer"


def observed(kind: str = STUCK, name: str = ORDERS, since: float | None = None) -> Observation:
    """`since`: the start by the broker's clock, seconds after T0."""
    start = None if since is None else T0 + dt.timedelta(seconds=since)
    return Observation(kind, name, "trouble", "2 producers are blocked", "Start a consumer.", since=start)


class World:
    """One rule, one broker and a fake clock."""

    def __init__(self, **values: Any) -> None:
        self.rule = Rule(pk=1, name="stuck", kinds=values.pop("kinds", [STUCK]), **{"quiet": 300, **values})
        self.alerts: dict[tuple[str, str], Alert] = {}
        self.silences: list[Silence] = []
        self.now = T0

    def evaluate(
        self, *conditions: Observation, at: float, events: tuple[Observation, ...] = (), settled: bool = True
    ) -> Evaluation:
        self.now = T0 + dt.timedelta(seconds=at)
        evaluation = evaluate(
            self.rule,
            "local",
            list(self.alerts.values()),
            conditions=conditions,
            events=events,
            silences=self.silences,
            now=self.now,
            settled=settled,
        )
        for alert in evaluation.changed.values():
            alert.pk = alert.pk or len(self.alerts) + 1
            self.alerts[(alert.kind, alert.object)] = alert
        for alert in evaluation.obsolete:
            del self.alerts[(alert.kind, alert.object)]
        if evaluation.notify:
            self.rule.last_notified = self.now
            for alerts in evaluation.notify.values():
                for alert in alerts:
                    alert.count = 0
        return evaluation

    def notified(self, *conditions: Observation, at: float, **more: Any) -> dict[str, int]:
        return {phase: len(alerts) for phase, alerts in self.evaluate(*conditions, at=at, **more).notify.items()}


def test_condition_fires_once_after_the_pending_period() -> None:
    world = World(holds=60)
    assert world.notified(observed(), at=0) == {}
    assert world.notified(observed(), at=59) == {}
    assert world.notified(observed(), at=60) == {"firing": 1}
    assert [world.notified(observed(), at=at) for at in (61, 400, 4000)] == [{}, {}, {}]


def test_condition_that_ends_while_pending_is_forgotten_and_restarts() -> None:
    world = World(holds=60)
    world.notified(observed(), at=0)
    assert world.notified(at=50) == {}
    assert not world.alerts
    assert world.notified(observed(), at=55) == {}
    assert world.notified(observed(), at=100) == {}
    assert world.notified(observed(), at=115) == {"firing": 1}


def test_resolved_notification_is_sent_once_if_the_rule_sends_it() -> None:
    world = World()
    assert world.notified(observed(), at=0) == {"firing": 1}
    assert world.notified(at=20) == {"resolved": 1}
    assert world.notified(at=21) == {}
    silent = World(send_resolved=False)
    silent.notified(observed(), at=0)
    assert silent.notified(at=20) == {}


def test_second_firing_is_notified_after_the_repeat_interval() -> None:
    world = World(quiet=300)
    world.notified(observed(), at=0)
    assert world.notified(at=20) == {"resolved": 1}
    assert world.notified(observed(), at=40) == {}
    assert world.notified(observed(), at=319) == {}
    assert world.notified(observed(), at=320) == {"firing": 1}


def test_flapping_within_the_repeat_interval_sends_nothing() -> None:
    world = World(quiet=300)
    world.notified(observed(), at=0)
    world.notified(at=20)
    assert [world.notified(*([observed()] if at % 20 else []), at=at) for at in range(30, 300, 10)] == [{}] * 27


def test_silenced_alert_is_notified_after_the_silence_if_it_still_fires() -> None:
    world = World()
    world.silences = [Silence(rule_id=1, until=T0 + dt.timedelta(seconds=100))]
    assert world.notified(observed(), observed(name=BILLS), at=0) == {}
    assert world.notified(observed(), at=50) == {}  # the other has ended without a notification
    assert world.notified(observed(), at=101) == {"firing": 1}


def test_alert_that_resolves_in_a_silence_is_notified_after_it() -> None:
    """Receivers that know of its firing, such as an open incident, shall know of its end."""
    world = World(holds=0)
    assert world.notified(observed(), at=0) == {"firing": 1}
    world.silences = [Silence(rule_id=1, until=T0 + dt.timedelta(seconds=100))]
    assert world.notified(at=50) == {}
    assert world.notified(at=99) == {}
    assert world.notified(at=101) == {"resolved": 1}
    assert world.notified(at=130) == {}


def test_alert_that_begins_and_ends_in_a_silence_is_not_notified() -> None:
    world = World(holds=0)
    world.silences = [Silence(rule_id=1, until=T0 + dt.timedelta(seconds=100))]
    assert world.notified(observed(), at=0) == {}
    assert world.notified(at=50) == {}
    assert world.notified(at=101) == {}


def test_firing_alerts_that_remain_are_counted() -> None:
    world = World(holds=0, quiet=0)
    assert world.evaluate(observed(), observed(name=BILLS), at=0).still_firing == 2
    assert world.evaluate(observed(), at=20).still_firing == 1
    assert world.evaluate(at=40).still_firing == 0


def test_silence_of_a_scope_applies_to_that_scope_only() -> None:
    world = World()
    world.silences = [Silence(pattern="orders.>", until=T0 + dt.timedelta(seconds=100))]
    notify = world.evaluate(observed(), observed(name=BILLS), at=0).notify
    assert [alert.object for alert in notify["firing"]] == [BILLS]


def test_alerts_within_the_group_wait_are_one_notification() -> None:
    world = World()
    assert world.notified(observed(), at=0) == {"firing": 1}
    many = [observed(name=f"type=Queue,virtualhost=default,name=q{n}") for n in range(50)]
    assert world.notified(observed(), *many, at=1) == {}
    assert world.notified(observed(), *many, at=GROUP_WAIT) == {"firing": 50}


def test_nothing_is_resolved_before_the_broker_has_settled() -> None:
    world = World()
    world.notified(observed(), at=0)
    assert world.notified(at=20, settled=False) == {}
    assert world.notified(observed(), at=30) == {}  # it never ended: no second notification
    assert world.notified(at=40) == {"resolved": 1}


def test_long_gap_restarts_the_pending_period() -> None:
    world = World(holds=60)
    world.notified(observed(), at=0)
    assert world.notified(observed(), at=MAX_GAP + 30) == {}
    assert world.notified(observed(), at=MAX_GAP + 90) == {"firing": 1}


def test_clock_of_a_broker_that_is_ahead_does_not_delay_an_alert() -> None:
    world = World(holds=60)
    assert [world.notified(observed(since=100), at=at) for at in range(60)] == [{}] * 60
    assert world.notified(observed(since=100), at=60) == {"firing": 1}
    slow = World(holds=60)
    assert [slow.notified(observed(since=30), at=at) for at in range(60)] == [{}] * 60
    assert slow.notified(observed(since=30), at=60) == {"firing": 1}


def test_condition_that_began_again_between_two_polls_restarts_the_pending_period() -> None:
    for ahead in (0, 100):
        world = World(holds=60)
        assert world.notified(observed(since=ahead), at=0) == {}
        assert world.notified(observed(since=ahead + 29), at=30) == {}
        assert world.notified(observed(since=ahead + 29), at=62) == {}
        assert world.notified(observed(since=ahead + 29), at=90) == {"firing": 1}


def test_short_gap_does_not_restart_the_pending_period() -> None:
    world = World(holds=60)
    for at in (0, 10, 20):
        world.notified(observed(), at=at)
    assert world.notified(observed(), at=65) == {"firing": 1}


def test_events_are_counted_and_never_resolved() -> None:
    world = World(kinds=["producers-stopped"], quiet=60)
    stop = observed("producers-stopped", "type=Broker")
    assert world.notified(at=0, events=(stop,)) == {"event": 1}
    assert world.notified(at=20, events=(stop, stop)) == {}
    assert world.alerts["producers-stopped", "type=Broker"].count == 2
    assert world.notified(at=60) == {"event": 1}
    assert world.notified(at=1000) == {}


def test_events_during_a_silence_are_not_notified_after_it() -> None:
    world = World(kinds=["producers-stopped"])
    world.silences = [Silence(rule_id=1, until=T0 + dt.timedelta(seconds=100))]
    assert world.notified(at=0, events=(observed("producers-stopped", "type=Broker"),)) == {}
    assert world.notified(at=200) == {}


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
def test_rule_applies_to_its_kinds_and_scope_only(values: dict[str, Any], name: str, fires: bool) -> None:
    assert bool(World(**values).notified(observed(name=name), at=0)) is fires


def test_disabled_rule_resolves_its_alerts_without_notification() -> None:
    world = World()
    world.notified(observed(), at=0)
    world.rule.enabled = False
    assert world.notified(observed(), at=20) == {}
    assert world.alerts[STUCK, ORDERS].state == AlertState.RESOLVED
