"""Rules about queue conditions: overfull, blocked, stopped, dead letters, depth."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from brokers.model import object_name
from console.alerts.evaluator import Evaluator
from console.alerts.models import Alert, Notification, Rule
from console.alerts.queue_conditions import QUEUE_CONDITIONS, dead_letter_queues, matching_conditions
from tests.console.alerts.test_transitions import ORDERS, T0, World
from tests.console.conftest import Broker, until


def row(**values: Any) -> dict[str, Any]:
    return {
        "object": ORDERS,
        "virtualhost": "default",
        "name": "orders.1",
        "state": "NORMAL",
        "depth_messages": 0,
        "producers": 2,
        "blocked_producers": 0,
        "overfull_since": None,
        "stopped_since": None,
        **values,
    }


def ms(at: float) -> int:
    return int((T0.timestamp() + at) * 1000)


CASES = {
    "overfull": {"state": "OVERFULL", "overfull_since": ms(0), "depth_messages": 5},
    "producers-blocked": {"state": "OVERFULL", "blocked_producers": 1, "overfull_since": ms(0)},
    "stopped": {"state": "STOPPED", "stopped_since": ms(0)},
    "dead-letters": {"depth_messages": 1},
    "depth-above": {"depth_messages": 101},
}


@pytest.mark.parametrize("kind", QUEUE_CONDITIONS)
def test_condition_fires_after_the_pending_period_and_resolves(kind: str) -> None:
    world = World(kinds=[kind], holds=600, depth=100)

    def observed(bad: bool) -> Any:
        rows = [row(**CASES[kind]) if bad else row()]
        return matching_conditions(world.rule, "local", rows, {ORDERS})

    assert world.notified(*observed(True), at=0) == {}
    for at in range(30, 600, 30):
        assert world.notified(*observed(True), at=at) == {}
    assert world.notified(*observed(True), at=600) == {"firing": 1}
    assert world.notified(*observed(True), at=630) == {}
    assert world.notified(*observed(False), at=660) == {"resolved": 1}


@pytest.mark.parametrize("kind", ["overfull", "producers-blocked", "stopped"])
def test_pending_period_starts_when_the_condition_began(kind: str) -> None:
    world = World(kinds=[kind], holds=3600)
    assert world.notified(*matching_conditions(world.rule, "local", [row(**CASES[kind])], ()), at=7200) == {"firing": 1}


def test_condition_that_restarted_between_two_polls_is_pending_again() -> None:
    world = World(kinds=["overfull"], holds=60)
    world.evaluate(*matching_conditions(world.rule, "local", [row(**CASES["overfull"])], ()), at=50)
    again = row(state="OVERFULL", overfull_since=ms(55))
    assert world.notified(*matching_conditions(world.rule, "local", [again], ()), at=70) == {}
    assert world.notified(*matching_conditions(world.rule, "local", [again], ()), at=115) == {"firing": 1}


def test_depth_at_the_threshold_and_queues_outside_the_scope_do_not_match() -> None:
    rule = Rule(kinds=["depth-above"], depth=100, pattern="orders.>")
    assert not list(matching_conditions(rule, "local", [row(depth_messages=100)], ()))
    bills = row(object="type=Queue,virtualhost=default,name=bills", name="bills", depth_messages=500)
    assert not list(matching_conditions(rule, "local", [bills], ()))


def test_dead_letter_queues_of_queues_hosts_and_the_broker_are_found() -> None:
    def queue(name: str, **values: Any) -> dict[str, Any]:
        return row(object=str(object_name("Queue", virtualhost="default", name=name)), name=name, **values)

    rows = [queue("a", dead_letter_queue="dead.a"), queue("dead.a"), queue("dead"), queue("all"), queue("b")]
    scopes = [{"dead_letter_queue": "all"}, {"virtualhost": "default", "dead_letter_queue": "dead"}]
    found = dead_letter_queues(rows, [*scopes, {"virtualhost": "other", "dead_letter_queue": "b"}])
    assert found == {rows[1]["object"], rows[2]["object"], rows[3]["object"]}


@pytest.mark.django_db
def test_dead_letters_of_a_live_broker_fire_an_alert(broker: Broker) -> None:
    def letters(memory: Any) -> None:
        memory.management.create(
            object_name("Policy", virtualhost="default", pattern="orders.>"), {"dead_letter_queue": "dead"}
        )
        memory.fill("dead", 3)
        memory._end_turn()

    link = broker.connected()
    broker.do(letters)
    broker.sample()
    dead = str(object_name("Queue", virtualhost="default", name="dead"))
    until(lambda: (link.queue(dead) or {}).get("depth_messages") == 3)
    Rule.objects.create(name="letters", kinds=["dead-letters"], holds=0)
    Evaluator(lambda: [link], lambda number: None, now=lambda: T0 + dt.timedelta(days=3650)).poll()
    alert = Alert.objects.get()
    assert (alert.kind, alert.object, alert.saw) == ("dead-letters", dead, "Dead letters in the queue: 3.")
    assert Notification.objects.get().phase == "firing"
