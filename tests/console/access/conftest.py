"""Two virtual hosts of a broker: `default`, and `blue`, whose objects have a secret in every name."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from django.contrib.auth.models import User
from django.urls import URLPattern, URLResolver
from django.utils import timezone
from proton import Message
from rest_framework.test import APIClient

from brokers.model import ObjectName, object_name
from console.access.actor import Actor
from console.access.models import RoleGrant
from console.alerts import editing as alerts
from console.alerts.messages import items
from console.alerts.models import Alert, AllowedNetwork, Delivery, Notification
from console.alerts.receiver_editing import create_receiver
from console.bulk.editing import Selection, begin_bulk, step
from console.bulk.models import BulkEdit
from console.messages.models import MessageJob
from console.permissions.rights import Grant, Role
from console.schedules import editing as schedules
from console.schedules import execution
from console.schedules.models import Run, Schedule
from console.selections.models import SavedSelection
from tests.console.conftest import Broker, signed_in, until
from tests.history.delta import HOUR, MINUTE, coverage, episode, event, rollup, write

SECRET = "hush"
HIDDEN = object_name("Queue", virtualhost="blue", name=f"{SECRET}-orders")
ORDERS = object_name("Queue", virtualhost="default", name="orders")
T = (int(time.time() * 1000) // HOUR - 24) * HOUR
RANGE = f"from={T}&until={T + HOUR}"
V1 = "/api/v1/"
HOST_OPTIONS = {"create_on_attach": True, "anonymous": True}


def of(name: ObjectName) -> str:
    return quote(str(name), safe="")


def person(name: str, *grants: Grant) -> User:
    user = User.objects.create_user(name)
    for grant in grants:
        RoleGrant.objects.create(user=user, role=grant.role, broker=grant.broker, virtualhost=grant.virtualhost)
    return user


def make_notification(boss: Actor) -> None:
    """Create an alert rule that fires, with a notification, a silence, and a schedule with a run, all about blue."""
    now = timezone.now()
    hook = {"name": "hook", "kind": "webhook", "url": f"https://{SECRET}.example.org/{SECRET}"}
    receiver = create_receiver(boss, hook)
    scope = {"broker": "local", "virtualhost": "blue"}
    given = {"name": f"{SECRET} rule", "kinds": ["flapping"], "receivers": [receiver.pk], **scope}
    rule = alerts.create_rule(boss, given)
    alerts.create_silence(boss, {**scope, "pattern": f"{SECRET}.>", "minutes": 60})
    seen = {"broker": "local", "object": str(HIDDEN), "kind": "flapping", "since": now, "last_seen": now}
    alert = Alert.objects.create(rule=rule, state="firing", **seen)
    notification = Notification.objects.create(
        at=now, rule=rule, rule_name=rule.name, broker="local", phase="firing", items=items([alert]), count=1
    )
    Delivery.objects.create(notification=notification, receiver=receiver, receiver_name="hook", state="failed", due=now)
    AllowedNetwork.objects.create(network="10.0.0.0/8", added_by="boss")
    night = {"name": f"{SECRET} night", "broker": "local", "action": "stop", "target": str(HIDDEN), "zone": "UTC"}
    schedule = schedules.create(boss, {**night, "hour": "3", "lasts": 60})
    Schedule.objects.update(next=now)
    execution.create_due_runs(now)
    assert Run.objects.get().schedule == schedule


@pytest.fixture
def two_hosts(broker: Broker, tmp_path: Path, settings: Any) -> Broker:
    """A queue `orders` in the virtual host default; in blue a queue with the secret in every name."""
    boss = User.objects.create_superuser("boss")
    broker.memory.attach_producer("orders")
    link = broker.connected()
    link.call(lambda admin: admin.create(object_name("VirtualHost", name="blue"), HOST_OPTIONS))
    producer = broker.do(lambda memory: memory.attach_producer(HIDDEN["name"], "blue", f"{SECRET}-link"))
    pattern = object_name("Policy", virtualhost="blue", pattern=f"{SECRET}.>")
    link.call(lambda admin: admin.create(pattern, {"capacity_messages": 5}))
    exchange = object_name("Exchange", virtualhost="blue", name=f"{SECRET}-exchange")
    link.call(lambda admin: admin.create(exchange, {"exchange_type": "topic"}))
    link.call(lambda admin: admin.create(object_name("User", name=f"{SECRET}-user"), {}))
    client = signed_in(boss)
    path = f"{V1}queues/blue/{HIDDEN['name']}/"
    version = client.get(path).json()["version"]
    limits = {"version": version, "reason": SECRET, "capacity_messages": 2, "flow_resume_messages": 1}
    assert client.patch(path, limits, format="json").status_code == 200
    broker.do(lambda memory: memory.publish(producer, 4))
    secret = bytes(Message(subject=SECRET, body=SECRET).encode())
    broker.do(lambda memory: memory.publish_encoded(HIDDEN["name"], secret, virtualhost="blue"))
    stop = {"scope": str(HIDDEN), "reason": f"{SECRET} reason"}
    assert client.post(f"{V1}stop-producers/", stop, format="json").status_code == 200
    begin_bulk(Actor(boss), link, Selection(virtualhost="blue"), {"capacity_messages": 3}, reason=SECRET)
    step(BulkEdit.objects.get().pk, "test")
    MessageJob.objects.create(
        user=boss,
        user_name="boss",
        broker="local",
        virtualhost="blue",
        object=str(HIDDEN),
        action="delete",
        reason=SECRET,
    )
    SavedSelection.objects.create(owner=boss, broker="local", name="mine", shared=True, queues=[str(HIDDEN)])
    make_notification(Actor(boss))
    url = settings.HEADGATE_HISTORY_URL = str(tmp_path / "history")
    write(url, "coverage", [coverage(T, T + HOUR)])
    hidden = {"virtualhost": "blue"}
    write(
        url,
        "minutes",
        [
            rollup(T, HIDDEN["name"], blocked_ms=MINUTE, **hidden),
            rollup(T, "orders", blocked_ms=1),
            rollup(T, f"{SECRET} link-1", "producer", queue=HIDDEN["name"], blocked_ms=MINUTE, **hidden),
        ],
    )
    write(url, "days", [rollup(T, HIDDEN["name"], **hidden), rollup(T, "orders")])
    scope = f"queue blue/{HIDDEN['name']}"
    write(
        url,
        "episodes",
        [
            episode(T, T + 5, HIDDEN["name"], **hidden),
            episode(T, T + 5, kind="stopped", scope=scope, virtualhost=None, queue=None),
            episode(T, T + 5, "orders"),
        ],
    )
    about = {"object": str(HIDDEN), "object_type": "Queue", "queue": HIDDEN["name"], "virtualhost": "blue"}
    user = {"object": f"type=User,name={SECRET}", "object_type": "User", "queue": None, "virtualhost": None}
    write(
        url,
        "events",
        [
            event(T, "queue-overfull", 1, **about),
            event(T, "user-created", 2, **user),
            event(T, "producers-stopped", 3, scope=scope, object_type=None, object=None, queue=None, virtualhost=None),
            event(T, "queue-overfull", 4),
        ],
    )
    until(lambda: link.queue(HIDDEN) and link.broker and link.broker["stops"] and "blue" in link.hosts)
    return broker


@pytest.fixture
def narrow(two_hosts: Broker) -> APIClient:
    """A viewer of the virtual host default only."""
    return signed_in(person("nora", Grant(Role.VIEWER, "local", "default")))


@pytest.fixture
def without_role(two_hosts: Broker) -> APIClient:
    return signed_in(person("noah"))


@pytest.fixture
def boss(two_hosts: Broker) -> APIClient:
    return signed_in(User.objects.get(username="boss"))


def routes(patterns: list[Any], prefix: str = "") -> Iterator[str]:
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            yield from routes(pattern.url_patterns, prefix + str(pattern.pattern))
        elif isinstance(pattern, URLPattern):
            yield prefix + str(pattern.pattern)
