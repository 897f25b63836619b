"""Deliveries of notifications: attempts, retries, killed workers, addresses that are not allowed, and mail."""

from __future__ import annotations

import datetime as dt
import socket
import threading
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from console.access.actor import Actor
from console.alerts import editing, receiver_editing, tasks
from console.alerts.models import Delivery, DeliveryState, Receiver
from console.audit.models import AuditEntry
from tests.console.alerts.conftest import STUCK, Clock, create_rule, evaluator
from tests.console.alerts.receivers import Received, smtp_receiver
from tests.console.alerts.test_alerts import API, post
from tests.console.conftest import Broker

pytestmark = pytest.mark.django_db


def test_failed_attempt_is_retried_and_each_attempt_is_logged(stuck: Broker, by: Actor, hook: Received) -> None:
    hook.answers = [500, 503]
    create_rule(by, hook, [STUCK])
    evaluator(Clock()).poll()
    delivery = Delivery.objects.get()
    assert (delivery.state, delivery.tries) == (DeliveryState.WAITING, 1)
    assert delivery.attempts[0]["outcome"] == "HTTP 500 Internal Server Error"
    assert tasks.sweep() == 0  # not yet
    for expected in (2, 3):
        Delivery.objects.update(due=timezone.now())
        assert tasks.sweep() == 1
        delivery.refresh_from_db()
        assert delivery.tries == expected
    assert delivery.state == DeliveryState.DONE
    assert len({headers["Headgate-Delivery"] for headers, _ in hook.requests}) == 1


def test_delivery_fails_after_the_last_attempt_and_can_be_retried(
    stuck: Broker, by: Actor, hook: Received, as_operator: APIClient
) -> None:
    hook.answers = [500] * tasks.TRIES
    create_rule(by, hook, [STUCK])
    evaluator(Clock()).poll()
    for _ in range(tasks.TRIES):
        Delivery.objects.update(due=timezone.now())
        tasks.sweep()
    delivery = Delivery.objects.get()
    assert delivery.state == DeliveryState.FAILED
    assert len(hook.requests) == tasks.TRIES
    assert post(as_operator, f"{API}deliveries/{delivery.pk}/again/", {}).status_code == 200
    assert Delivery.objects.get().state == DeliveryState.DONE


def test_sweep_finds_a_lost_task_and_a_duplicate_task_sends_nothing(stuck: Broker, by: Actor, hook: Received) -> None:
    create_rule(by, hook, [STUCK])
    lost: list[int] = []
    alerts = evaluator(Clock())
    alerts.deliver = lost.append
    alerts.poll()
    assert not hook.requests
    assert tasks.sweep() == 1
    assert tasks.deliver(lost[0]) == "not due"
    assert len(hook.requests) == 1


def test_delivery_of_a_killed_worker_is_retried_after_its_lease(stuck: Broker, by: Actor, hook: Received) -> None:
    create_rule(by, hook, [STUCK])
    alerts = evaluator(Clock())
    alerts.deliver = lambda number: None
    alerts.poll()
    Delivery.objects.update(lease_until=timezone.now() + dt.timedelta(seconds=30))
    assert tasks.sweep() == 0
    Delivery.objects.update(lease_until=timezone.now() - dt.timedelta(seconds=1))
    assert tasks.sweep() == 1
    assert len(hook.requests) == 1


def test_private_address_is_refused_until_an_administrator_allows_it(
    broker: Broker, hook: Received, as_operator: APIClient, as_administrator: APIClient
) -> None:
    made = post(as_operator, f"{API}receivers/", {"name": "hook", "kind": "webhook", "url": hook.url})
    assert made.status_code == 201
    assert len(made.json()["secret"]) > 30
    assert made.json()["warning"].startswith(
        "127.0.0.1 is not a public address: an administrator must first add its network"
    )
    number = made.json()["id"]
    tested = post(as_operator, f"{API}receivers/{number}/test/", {}).json()
    assert tested["state"] == "failed"
    assert "administrator" in tested["attempts"][0]["outcome"]
    assert not hook.requests
    assert post(as_operator, f"{API}networks/", {"network": "127.0.0.1/32"}).status_code == 403
    assert post(as_administrator, f"{API}networks/", {"network": "127.0.0.1/32"}).status_code == 201
    assert post(as_operator, f"{API}receivers/{number}/test/", {}).json()["state"] == "done"
    assert hook.bodies[0]["phase"] == "test"
    saved = as_operator.patch(f"{API}receivers/{number}/", {"name": "it", "version": 1}, format="json").json()
    assert (saved["name"], saved["warning"]) == ("it", "")
    assert AuditEntry.objects.filter(operation="create", object="alert-network 127.0.0.1/32").count() == 2


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"kind": "webhook", "url": "http://169.254.169.254/"}, "169.254.169.254 cannot be allowed: it is link-local"),
        ({"kind": "webhook", "url": "https://[fd00::1]:8443/x"}, "fd00::1 is not a public address"),
        ({"kind": "webhook", "url": "http://no-such-host.invalid/"}, "no-such-host.invalid c"),
        ({"kind": "email", "recipients": ["team@example.org"]}, "no mail server is configured"),
    ],
)
def test_saving_an_unreachable_receiver_returns_a_warning(
    broker: Broker, as_operator: APIClient, given: dict[str, Any], said: str
) -> None:
    made = post(as_operator, f"{API}receivers/", {"name": "hook", **given}).json()
    assert made["warning"].startswith(said)
    again = {"name": "hook", "enabled": False, "version": made["version"]}
    assert as_operator.patch(f"{API}receivers/{made['id']}/", again, format="json").json()["warning"].startswith(said)


def test_slow_host_look_up_does_not_delay_saving_a_receiver(
    broker: Broker, as_operator: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = threading.Event()
    monkeypatch.setattr("console.alerts.reachability.LOOKUP_TIMEOUT", 0.01)
    monkeypatch.setattr("brokers.name_lookup.getaddrinfo", lambda *_, **__: answered.wait(60) and [])
    made = post(
        as_operator, f"{API}receivers/", {"name": "hook", "kind": "webhook", "url": "https://slow.example.org/"}
    )
    answered.set()
    assert made.json()["warning"] == "slow.example.org could not be looked up within 0.01 s"


def test_mail_is_retried_and_reaches_a_real_server(stuck: Broker, by: Actor, settings: Any) -> None:
    with smtp_receiver() as (box, port):
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", port
        box.refuse = 1
        receiver = receiver_editing.create_receiver(
            by, {"name": "team", "kind": "email", "recipients": ["team@example.org"]}
        )
        editing.create_rule(by, {"name": "rule", "kinds": [STUCK], "receivers": [receiver.pk]})
        evaluator(Clock()).poll()
        delivery = Delivery.objects.get()
        assert delivery.state == DeliveryState.WAITING
        assert "come back later" in delivery.attempts[0]["outcome"]
        Delivery.objects.update(due=timezone.now())
        tasks.sweep()
        (mail,) = box.mails
        assert mail["To"] == "team@example.org"
        assert mail["Subject"] == "Firing: Blocked without consumers: default/orders (local)"
        assert "Start a consumer." in str(mail.get_payload())


def test_resolver_that_hangs_delays_no_other_receiver(
    stuck: Broker, by: Actor, hook: Received, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered, names = threading.Event(), []

    def slow(host: str, port: int, **more: Any) -> Any:
        names.append(host)
        return answered.wait(60) and [] if host.endswith("example.org") else socket.getaddrinfo(host, port, **more)

    monkeypatch.setattr("brokers.name_lookup.getaddrinfo", slow)
    monkeypatch.setattr("brokers.name_lookup.TIMEOUT", 0.1)
    settings.EMAIL_HOST, settings.EMAIL_PORT = "mail.example.org", 25
    for given in (
        {"name": "hung", "kind": "webhook", "url": "https://hung.example.org/"},
        {"name": "mail", "kind": "email", "recipients": ["team@example.org"]},
    ):
        Receiver.objects.create(**given)
    rule = create_rule(by, hook, [STUCK])
    rule.receivers.set(Receiver.objects.order_by("-name"))
    names.clear()
    try:
        evaluator(Clock()).poll()
        Delivery.objects.update(due=timezone.now())
        tasks.sweep()
        outcomes = {each.receiver_name: [a["outcome"] for a in each.attempts] for each in Delivery.objects.all()}
        late = "{}.example.org could not be looked up within 0.1 s"
        assert outcomes == {"hung": [late.format("hung")] * 2, "mail": [late.format("mail")] * 2, "hook": ["HTTP 200"]}
        assert len(hook.requests) == 1
        assert sorted(names) == ["127.0.0.1", "hung.example.org", "mail.example.org"]  # one look-up of a name at a time
    finally:
        answered.set()
    assert {d.state for d in Delivery.objects.exclude(receiver_name="hook")} == {DeliveryState.WAITING}


def test_mail_without_a_configured_server_fails_at_once(broker: Broker, by: Actor) -> None:
    receiver = receiver_editing.create_receiver(
        by, {"name": "team", "kind": "email", "recipients": ["team@example.org"]}
    )
    delivery = receiver_editing.send_test(by, receiver)
    delivery.refresh_from_db()
    assert delivery.state == DeliveryState.FAILED
    assert "HEADGATE_MAIL_HOST" in delivery.attempts[0]["outcome"]


def test_disabled_receiver_gets_nothing_of_what_was_due(stuck: Broker, by: Actor, hook: Received) -> None:
    hook.answers = [500]
    create_rule(by, hook, [STUCK])
    evaluator(Clock()).poll()
    Receiver.objects.update(enabled=False)
    Delivery.objects.update(due=timezone.now())
    tasks.sweep()
    delivery = Delivery.objects.get()
    assert (delivery.state, delivery.attempts[-1]["outcome"]) == (DeliveryState.FAILED, "the receiver is disabled")
    assert len(hook.requests) == 1
