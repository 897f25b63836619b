"""A broker with an alert, a receiver, and an evaluator whose clock a test sets."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from brokers.model import object_name
from console.access.actor import Actor
from console.alerts import editing, receiver_editing, tasks
from console.alerts.evaluator import Evaluator
from console.alerts.models import AllowedNetwork, Delivery, Rule
from console.links.registry import links
from tests.console.alerts.receivers import Received, http_receiver
from tests.console.conftest import Broker

STUCK = "blocked-without-consumer"


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> dt.datetime:
        return timezone.now() + dt.timedelta(seconds=self.seconds)


@pytest.fixture
def hook() -> Iterator[Received]:
    with http_receiver() as got:
        yield got


@pytest.fixture
def by(operator: User) -> Actor:
    return Actor(operator, "127.0.0.1")


def evaluator(clock: Clock) -> Evaluator:
    def deliver(number: int) -> None:
        Delivery.objects.filter(pk=number, tries=0).update(due=timezone.now())  # the workers use the real clock
        tasks.deliver.delay(number)

    return Evaluator(links, deliver, clock=lambda: clock.seconds, now=clock.now)


def create_rule(by: Actor, hook: Received, kinds: list[str], **more: Any) -> Rule:
    AllowedNetwork.objects.get_or_create(network="127.0.0.0/8")
    receiver = receiver_editing.create_receiver(by, {"name": "hook", "kind": "webhook", "url": hook.url})
    return editing.create_rule(by, {"name": "rule", "kinds": kinds, "receivers": [receiver.pk], **more})


@pytest.fixture
def stuck(broker: Broker) -> Broker:
    """An overfull queue with a blocked producer and no consumer; the condition is detected."""
    broker.memory.management.create(
        object_name("Queue", virtualhost="default", name="orders"), {"capacity_messages": 5}
    )
    broker.memory.fill("orders", 6)
    broker.connected()
    broker.sample_until(lambda: any(c.finding.kind == STUCK for c in broker.link.conditions()))
    return broker


def orders_queue() -> Any:
    return object_name("Queue", virtualhost="default", name="orders")
