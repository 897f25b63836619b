"""Alerts of brokers that were restored from an older backup, and of brokers that were removed."""

from __future__ import annotations

from typing import Any

import pytest

from brokers.model import object_name
from console.access.actor import Actor
from console.alerts.models import Alert, Position
from console.brokers.models import ForeignBroker
from console.links.registry import close_links
from console.operations import Aim, stop_producers
from tests.console.alerts.conftest import STUCK, Clock, create_rule, evaluator, orders_queue
from tests.console.alerts.receivers import Received
from tests.console.conftest import Broker, until

pytestmark = pytest.mark.django_db


def set_back(broker: Broker, events: int) -> None:
    """Restore the broker: it has lost its newest events, and uses their numbers again."""
    broker.lose()

    def restored(memory: Any) -> None:
        del memory._events[len(memory._events) - events :]
        memory.engine.last_event -= events

    broker.do(restored)


@pytest.mark.parametrize("overtaken", [False, True], ids=["behind", "overtaken"])
def test_restored_older_broker_continues_the_alerts_with_its_new_events(
    broker: Broker, by: Actor, hook: Received, caplog: pytest.LogCaptureFixture, overtaken: bool
) -> None:
    broker.memory.management.create(orders_queue(), {"capacity_messages": 5})
    broker.connected()
    create_rule(by, hook, ["producers-stopped"], quiet=0)
    clock = Clock()
    evaluator(clock).poll()
    before = broker.do(lambda memory: memory.engine.last_event)
    for n in range(8):
        broker.do(lambda memory, n=n: memory.attach_producer(f"q{n}"))
    stop_producers(by, broker.link, Aim(orders_queue()), reason="lost with the backup")
    last = broker.do(lambda memory: memory.engine.last_event)
    until(lambda: broker.link.newest_event >= last)
    clock.seconds = 20
    evaluator(clock).poll()
    assert (len(hook.bodies), Position.objects.get().event) == (1, last)

    set_back(broker, last - before)
    broker.do(lambda memory: memory.advance(60_000, step=60_000))
    close_links()  # the console restarts, too
    broker.do(lambda memory: memory.reconnect())
    broker.connected()
    stop_producers(by, broker.link, Aim(object_name("Broker")), reason="after the restoration")
    if overtaken:
        for n in range(20):
            broker.do(lambda memory, n=n: memory.attach_producer(f"new{n}"))
    newest = broker.do(lambda memory: memory.engine.last_event)
    assert (newest > last) == overtaken
    until(lambda: broker.link.newest_event >= newest)
    clock.seconds = 40
    again = evaluator(clock)
    again.poll()
    assert len(hook.bodies) == 2
    assert "after the restoration" in hook.bodies[1]["items"][0]["saw"]
    assert Position.objects.get().event == newest
    assert sum("was set back" in record.getMessage() for record in caplog.records) == 1
    again.poll()
    evaluator(clock).poll()
    assert len(hook.bodies) == 2


def test_position_of_an_earlier_release_without_a_mark_continues_at_the_newest_event_of_a_restored_broker(
    broker: Broker, by: Actor, hook: Received
) -> None:
    broker.memory.management.create(orders_queue(), {"capacity_messages": 5})
    broker.connected()
    create_rule(by, hook, ["producers-stopped"], quiet=0)
    evaluator(Clock()).poll()
    Position.objects.update(event=1_000_000)
    alerts = evaluator(Clock())
    alerts.poll()
    newest = Position.objects.get().event
    assert newest <= broker.do(lambda memory: memory.engine.last_event)
    stop_producers(by, broker.link, Aim(orders_queue()), reason="new")
    until(lambda: broker.link.newest_event > newest)
    alerts.poll()
    assert len(hook.bodies) == 1


def test_alerts_of_a_removed_broker_end(stuck: Broker, by: Actor, hook: Received) -> None:
    create_rule(by, hook, [STUCK], quiet=0)
    clock = Clock()
    evaluator(clock).poll()
    alert = Alert.objects.get()
    alert.pk, alert.broker = None, "rabbit"
    alert.save()
    before = Alert.objects.get(broker="local").state
    row = ForeignBroker.objects.create(slug="rabbit", title="Rabbits", kind="rabbitmq", url="http://10.0.0.7:15672")
    evaluator(clock).poll()  # it is configured, though without a link
    assert Alert.objects.filter(broker="rabbit").exists()
    row.delete()
    evaluator(clock).poll()
    assert not Alert.objects.filter(broker="rabbit", state__in=["pending", "firing"]).exists()
    assert Alert.objects.get(broker="local").state == before


def test_end_of_the_alert_of_a_removed_broker_is_notified_though_it_has_to_wait(
    stuck: Broker, by: Actor, hook: Received
) -> None:
    create_rule(by, hook, [STUCK], quiet=0)
    clock = Clock()
    evaluator(clock).poll()
    alert = Alert.objects.get()
    alert.pk, alert.broker = None, "rabbit"
    alert.save()
    for clock.seconds in (1, 2):  # within the group wait
        evaluator(clock).poll()
        assert Alert.objects.get(broker="rabbit").state == "resolved"
        assert len(hook.requests) == 1
    for clock.seconds in (20, 40, 60):
        evaluator(clock).poll()
    assert [(each["phase"], each["broker"]) for each in hook.bodies] == [("firing", "local"), ("resolved", "rabbit")]
