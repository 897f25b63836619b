"""A new rule starts without a past: neither old events nor consumers of long ago make alerts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from brokers.model import object_name
from console.access.actor import Actor
from console.alerts import editing
from console.alerts.evaluator import Evaluator
from console.alerts.models import ConsumedQueue, Position, Rule
from console.operations import Aim, stop_producers
from tests.console.alerts.conftest import Clock, create_rule, evaluator, orders_queue
from tests.console.alerts.receivers import Received
from tests.console.conftest import Broker, until

pytestmark = pytest.mark.django_db

STOPPED = "producers-stopped"


@pytest.fixture
def orders(broker: Broker) -> Broker:
    broker.memory.management.create(orders_queue(), {"capacity_messages": 5})
    broker.connected()
    return broker


@pytest.fixture
def stop(orders: Broker, by: Actor) -> Callable[[str], None]:
    """Stop producers, each time of another scope, and wait until the console has the event."""
    scopes = iter([orders_queue(), object_name("VirtualHost", name="default"), object_name("Broker")])

    def stopping(reason: str) -> None:
        stop_producers(by, orders.link, Aim(next(scopes)), reason=reason)
        last = orders.do(lambda memory: memory.engine.last_event)
        until(lambda: orders.link.newest_event >= last)

    return stopping


def another(by: Actor, receivers: list[int]) -> Rule:
    return editing.create_rule(by, {"name": "another", "kinds": [STOPPED], "receivers": receivers, "quiet": 0})


def poll(alerts: Evaluator, clock: Clock) -> None:
    clock.seconds += 20
    alerts.poll()


def notified(hook: Received) -> list[tuple[str, str]]:
    """Return rule and reason of all events that were notified."""
    return [
        (body["rule"], reason)
        for body in hook.bodies
        for item in body["items"]
        for reason in ("one", "two", "three")
        if reason in item["saw"]
    ]


def test_first_rule_after_a_time_without_rules_notifies_no_events_of_that_time(
    orders: Broker, by: Actor, hook: Received, stop: Callable[[str], None]
) -> None:
    first, clock = create_rule(by, hook, [STOPPED], quiet=0), Clock()
    alerts = evaluator(clock)
    poll(alerts, clock)
    receivers = [receiver.pk for receiver in first.receivers.all()]
    editing.delete_rule(by, first)
    stop("one")
    poll(alerts, clock)  # without rules
    rule = another(by, receivers)
    stop("two")  # before the evaluator has found the rule
    poll(alerts, clock)
    assert notified(hook) == [("another", "two")]
    stop("three")
    poll(alerts, clock)
    assert notified(hook) == [("another", "two"), ("another", "three")]
    rule.refresh_from_db()
    assert Position.objects.get().event == orders.link.newest_event > rule.starts["local"]


def test_rule_that_was_created_while_no_evaluator_ran_starts_with_the_evaluator(
    orders: Broker, by: Actor, hook: Received, stop: Callable[[str], None]
) -> None:
    first, clock = create_rule(by, hook, [STOPPED], quiet=0), Clock()
    poll(evaluator(clock), clock)
    stop("one")  # while no evaluator runs
    another(by, [receiver.pk for receiver in first.receivers.all()])
    alerts = evaluator(clock)
    poll(alerts, clock)
    assert notified(hook) == [("rule", "one")], "the older rule misses nothing"
    stop("two")
    poll(alerts, clock)
    assert sorted(notified(hook)[1:]) == [("another", "two"), ("rule", "two")]


def test_rule_that_is_enabled_again_starts_again(
    orders: Broker, by: Actor, hook: Received, stop: Callable[[str], None]
) -> None:
    rule, clock = create_rule(by, hook, [STOPPED], quiet=0), Clock()
    poll(evaluator(clock), clock)
    rule = editing.change_rule(by, rule, {"enabled": False}, rule.version)
    stop("one")
    editing.change_rule(by, rule, {"enabled": True}, rule.version)
    alerts = evaluator(clock)
    poll(alerts, clock)
    assert notified(hook) == []
    stop("two")
    poll(alerts, clock)
    assert notified(hook) == [("rule", "two")]


def test_rule_of_an_earlier_release_goes_on_where_it_was(
    orders: Broker, by: Actor, hook: Received, stop: Callable[[str], None]
) -> None:
    create_rule(by, hook, [STOPPED], quiet=0)
    Rule.objects.update(starts=None)
    clock = Clock()
    poll(evaluator(clock), clock)
    stop("one")
    poll(evaluator(clock), clock)
    assert notified(hook) == [("rule", "one")]


@pytest.mark.parametrize("runs", [True, False], ids=["evaluator runs", "evaluator was ended"])
def test_consumers_of_the_time_of_an_earlier_rule_are_not_lost_ones(
    orders: Broker, by: Actor, hook: Received, runs: bool
) -> None:
    clock = Clock()
    rule = create_rule(by, hook, ["consumers-lost"])
    receivers = [receiver.pk for receiver in rule.receivers.all()]
    alerts = evaluator(clock)
    consumer = orders.do(lambda memory: memory.attach_consumer("orders"))
    orders.sample_until(lambda: orders.link.queue(orders_queue())["consumers"])  # type: ignore[index]
    poll(alerts, clock)
    assert ConsumedQueue.objects.exists()
    editing.delete_rule(by, rule)
    if runs:
        poll(alerts, clock)
    assert not ConsumedQueue.objects.exists()
    orders.do(lambda memory: memory.engine.detach(consumer))
    orders.sample_until(lambda: not orders.link.queue(orders_queue())["consumers"])  # type: ignore[index]
    editing.create_rule(by, {"name": "another", "kinds": ["consumers-lost"], "receivers": receivers})
    alerts = alerts if runs else evaluator(clock)
    for _ in range(3):
        poll(alerts, clock)
    assert not hook.bodies
