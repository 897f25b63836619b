"""A change of the console's own objects and its audit entry are one transaction."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import Group, User
from django.core import serializers
from django.db import OperationalError
from django.utils import timezone

from brokers.model import object_name
from console.access import administration
from console.access.actor import Actor
from console.access.models import RoleGrant
from console.alerts import console_url, editing, receiver_editing
from console.alerts.models import Delivery, DeliveryState, Notification, Receiver
from console.audit.models import AuditEntry
from console.brokers import configured
from console.bulk import editing as bulk
from console.bulk.models import BulkEdit
from console.history.pipeline import run_now
from console.links.link import BrokerLink
from console.messages import jobs
from console.messages.models import MessageJob
from console.operations import brokers, selections
from console.operations.message_acts import Act
from console.permissions.rights import Grant, Role
from console.schedules import editing as schedules
from tests.console.conftest import Broker
from tests.console.messages.standin import Messages, WithMessages

pytestmark = pytest.mark.django_db

RULE = {"name": "stuck", "kinds": ["blocked"]}
#: A public address that no test connects to.
URL = "https://93.184.215.14/alerts"
RABBIT = {"slug": "rabbit", "kind": "rabbitmq", "url": "https://127.0.0.1:1", "username": "h", "password": "secret"}
SCHEDULE = {
    "name": "nightly", "broker": "local", "action": "stop", "target": "type=Broker", "reason": "maintenance",
    "zone": "UTC", "minute": "0", "hour": "3",
}  # fmt: skip


@pytest.fixture(autouse=True)
def files(settings: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, broker: Broker) -> Iterator[None]:
    settings.HEADGATE_BROKER_KEYS = str(tmp_path / "broker-keys")
    monkeypatch.setattr("console.alerts.receiver_editing.send", lambda *args: None)
    monkeypatch.setattr("console.history.pipeline.run_now.app.send_task", lambda *args, **given: None)
    yield
    configured._added = ()


@pytest.fixture
def by(administrator: User) -> Actor:
    return Actor(administrator, "127.0.0.1")


def person() -> User:
    return User.objects.create_user("ben", password="swordfish")


def receiver(by: Actor) -> Receiver:
    return receiver_editing.create_receiver(by, {"name": "hook", "kind": "webhook", "url": URL})


def failed(by: Actor) -> Delivery:
    now = timezone.now()
    notification = Notification.objects.create(at=now, rule_name="", broker="local", phase="test", items=[], count=0)
    return Delivery.objects.create(notification=notification, receiver_name="hook", due=now, state=DeliveryState.FAILED)


def again(made: Any) -> Callable[[], Any]:
    """Return a function that reads the object: one that was deleted, although that was rolled back, has no number."""
    kind, number = type(made), made.pk
    return lambda: kind.objects.get(pk=number)


#: A change is prepared, and then made by the returned function.
Prepared = Callable[[Actor, Broker], Callable[[], object]]


def revoked_role(by: Actor, broker: Broker) -> Callable[[], object]:
    assignment = again(administration.assign_role(by, person(), Grant(Role.VIEWER)))
    return lambda: administration.revoke_role(by, assignment())


def deleted_group(by: Actor, broker: Broker) -> Callable[[], object]:
    group = administration.create_group(by, "night shift")
    administration.assign_role(by, group, Grant(Role.VIEWER))
    found = again(group)
    return lambda: administration.delete_group(by, found())


def revoked_token(by: Actor, broker: Broker) -> Callable[[], object]:
    token, _ = administration.create_token(by, "ci", [Grant(Role.VIEWER)], days=1)
    return lambda: administration.revoke_token(by, token)


def changed_rule(by: Actor, broker: Broker) -> Callable[[], object]:
    rule = editing.create_rule(by, RULE)
    return lambda: editing.change_rule(by, rule, {"quiet": 77}, rule.version)


def deleted_rule(by: Actor, broker: Broker) -> Callable[[], object]:
    rule = again(editing.create_rule(by, RULE))
    return lambda: editing.delete_rule(by, rule())


def ended_silence(by: Actor, broker: Broker) -> Callable[[], object]:
    silence = again(editing.create_silence(by, {"minutes": 5}))
    return lambda: editing.end_silence(by, silence())


def removed_network(by: Actor, broker: Broker) -> Callable[[], object]:
    network = again(editing.add_network(by, "10.0.0.0/8"))
    return lambda: editing.remove_network(by, network())


def removed_url(by: Actor, broker: Broker) -> Callable[[], object]:
    console_url.enter_console_url(by, "https://console.example.org")
    return lambda: console_url.remove_console_url(by)


def changed_receiver(by: Actor, broker: Broker) -> Callable[[], object]:
    made = receiver(by)
    return lambda: receiver_editing.change_receiver(by, made, {"enabled": False}, made.version)


def of_receiver(change: Callable[[Actor, Receiver], object]) -> Prepared:
    def prepare(by: Actor, broker: Broker) -> Callable[[], object]:
        made = again(receiver(by))
        return lambda: change(by, made())

    return prepare


def retried(by: Actor, broker: Broker) -> Callable[[], object]:
    delivery = failed(by)
    return lambda: receiver_editing.retry_delivery(by, delivery)


def changed_selection(by: Actor, broker: Broker) -> Callable[[], object]:
    link = broker.connected()
    made = selections.save_selection(by, link, {"name": "mine", "search": "orders"})
    return lambda: selections.change_selection(by, link, made.pk, {"search": "mail"})


def deleted_selection(by: Actor, broker: Broker) -> Callable[[], object]:
    link = broker.connected()
    made = selections.save_selection(by, link, {"name": "mine", "search": "orders"})
    return lambda: selections.delete_selection(by, link, made.pk)


def changed_broker(by: Actor, broker: Broker) -> Callable[[], object]:
    brokers.add_broker(by, RABBIT)
    return lambda: brokers.change_broker(by, "rabbit", {"title": "Rabbits"})


def removed_broker(by: Actor, broker: Broker) -> Callable[[], object]:
    brokers.add_broker(by, RABBIT)
    return lambda: brokers.remove_broker(by, "rabbit")


def of_schedule(change: Callable[[Actor, Any], object]) -> Prepared:
    def prepare(by: Actor, broker: Broker) -> Callable[[], object]:
        broker.connected()
        made = again(schedules.create(by, SCHEDULE))
        return lambda: change(by, made())

    return prepare


def new_schedule(by: Actor, broker: Broker) -> Callable[[], object]:
    broker.connected()
    return lambda: schedules.create(by, SCHEDULE)


def for_person(change: Callable[[Actor, User], object]) -> Prepared:
    def prepare(by: Actor, broker: Broker) -> Callable[[], object]:
        user = person()
        return lambda: change(by, user)

    return prepare


ORDERS = object_name("Queue", virtualhost="default", name="orders")
CAPACITY = {"capacity_messages": 5}


def with_queue(broker: Broker) -> BrokerLink:
    """Connect to the broker with a queue that has a message."""
    broker.wrap = lambda admin: WithMessages(admin, Messages({"orders": [1]}))
    broker.memory.management.create(ORDERS, {})
    return broker.connected()


def bulk_edit(by: Actor, broker: Broker) -> Callable[[], BulkEdit]:
    link = with_queue(broker)
    return lambda: bulk.begin_bulk(by, link, bulk.Selection(), CAPACITY)


def message_job(by: Actor, broker: Broker) -> Callable[[], MessageJob]:
    link = with_queue(broker)
    return lambda: jobs.begin(by, link, Act("delete", ORDERS, match={}), reason="incident 7")


def of_begun(begin: Prepared, *steps: Callable[[Actor, Any], object]) -> Prepared:
    """Prepare the last step for what has been begun, after the others."""

    def prepare(by: Actor, broker: Broker) -> Callable[[], object]:
        made = again(begin(by, broker)())
        for step in steps[:-1]:
            step(by, made())
        return lambda: steps[-1](by, made())

    return prepare


def viewers() -> list[Group]:
    return [Group.objects.get(name="viewers")]


CHANGES: dict[str, Prepared] = {
    "give-role": for_person(lambda by, user: administration.assign_role(by, user, Grant(Role.ADMIN))),
    "take-role": revoked_role,
    "create-user": lambda by, broker: lambda: administration.create_user(by, "ben"),
    "renew-password": for_person(administration.renew_password),
    "deactivate-user": for_person(lambda by, user: administration.set_active(by, user, active=False)),
    "create-group": lambda by, broker: lambda: administration.create_group(by, "night shift"),
    "delete-group": deleted_group,
    "set-groups": for_person(lambda by, user: administration.set_groups(by, user, viewers())),
    "single sign-on": for_person(
        lambda by, user: administration.sync_groups(user, {"viewers"}, {"viewers"}, by="idp", address="")
    ),
    "create-token": lambda by, broker: lambda: administration.create_token(by, "ci", [Grant(Role.VIEWER)], days=1),
    "revoke-token": revoked_token,
    "create alert-rule": lambda by, broker: lambda: editing.create_rule(by, RULE),
    "update alert-rule": changed_rule,
    "delete alert-rule": deleted_rule,
    "create alert-silence": lambda by, broker: lambda: editing.create_silence(by, {"minutes": 5}),
    "delete alert-silence": ended_silence,
    "create alert-network": lambda by, broker: lambda: editing.add_network(by, "10.0.0.0/8"),
    "delete alert-network": removed_network,
    "update console-url": lambda by, broker: lambda: console_url.enter_console_url(by, "https://console.example.org"),
    "delete console-url": removed_url,
    "create alert-receiver": lambda by, broker: lambda: receiver(by),
    "update alert-receiver": changed_receiver,
    "renew-secret": of_receiver(receiver_editing.renew_secret),
    "delete alert-receiver": of_receiver(receiver_editing.delete_receiver),
    "test alert-receiver": of_receiver(receiver_editing.send_test),
    "deliver-again": retried,
    "save-selection": lambda by, broker: (
        lambda: selections.save_selection(by, broker.connected(), {"name": "mine", "search": "orders"})
    ),
    "change-selection": changed_selection,
    "delete-selection": deleted_selection,
    "add-broker": lambda by, broker: lambda: brokers.add_broker(by, RABBIT),
    "change-broker": changed_broker,
    "remove-broker": removed_broker,
    "create schedule": new_schedule,
    "update schedule": of_schedule(lambda by, made: schedules.change(by, made, {"hour": "4"}, made.version)),
    "pause schedule": of_schedule(lambda by, made: schedules.pause(by, made, True)),
    "delete schedule": of_schedule(schedules.delete),
    "request-run": lambda by, broker: lambda: run_now.run_history(by, "run"),
    "begin bulk edit": bulk_edit,
    "interrupt bulk edit": of_begun(bulk_edit, bulk.interrupt_bulk),
    "resume bulk edit": of_begun(bulk_edit, bulk.interrupt_bulk, bulk.resume_bulk),
    "begin message job": message_job,
    "interrupt message job": of_begun(message_job, jobs.interrupt),
    "resume message job": of_begun(message_job, jobs.interrupt, jobs.resume),
}


def stored() -> dict[str, Any]:
    """Return all rows of the console but the audit trail."""
    models = [model for model in apps.get_models() if model is not AuditEntry and model._meta.managed]
    return {model._meta.label: json.loads(serializers.serialize("json", model._base_manager.all())) for model in models}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_whose_audit_entry_cannot_be_written_is_not_made(
    name: str, by: Actor, broker: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    change = CHANGES[name](by, broker)
    before, entries = stored(), AuditEntry.objects.count()

    def is_locked(entry: AuditEntry, **given: object) -> None:
        raise OperationalError("database is locked")

    with monkeypatch.context() as patched:
        patched.setattr(AuditEntry, "save", is_locked)
        with pytest.raises(OperationalError, match="database is locked"):
            change()
    assert stored() == before
    assert AuditEntry.objects.count() == entries
    assert "cannot write audit row: " in caplog.text
    # The change itself is possible, so that this shows something.
    change()
    assert stored() != before
    assert AuditEntry.objects.count() == entries + 1
    assert AuditEntry.objects.first().outcome == "done"  # type: ignore[union-attr]


def test_a_failed_change_has_an_entry_that_is_not_rolled_back_with_it(
    by: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = person()

    def fail(*args: object, **values: object) -> None:
        RoleGrant(user=user, role="viewer").save()
        raise OperationalError("disk I/O error")

    monkeypatch.setattr(RoleGrant.objects, "get_or_create", fail)
    with pytest.raises(OperationalError):
        administration.assign_role(by, user, Grant(Role.ADMIN))
    assert not RoleGrant.objects.filter(user=user).exists()
    row = AuditEntry.objects.get()
    assert (row.operation, row.outcome, row.detail) == ("give-role", "failed", "OperationalError: disk I/O error")


def test_a_refused_change_is_refused_also_if_its_entry_cannot_be_written(
    viewer: User, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def is_locked(entry: AuditEntry, **given: object) -> None:
        raise OperationalError("database is locked")

    monkeypatch.setattr(AuditEntry, "save", is_locked)
    with pytest.raises(Exception, match="may not assign or revoke"):
        administration.assign_role(Actor(viewer), viewer, Grant(Role.ADMIN))
    assert "cannot write audit row: vera give-role user vera: refused" in caplog.text
