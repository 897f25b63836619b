"""Receivers of Slack, Microsoft Teams and PagerDuty: secrets, deliveries, retries, and the order of events."""

from __future__ import annotations

import datetime as dt
import json
import logging
import threading
from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection
from django.utils import timezone
from rest_framework.test import APIClient

from console.access.actor import Actor
from console.alerts import receiver_editing, tasks
from console.alerts.models import AllowedNetwork, Delivery, DeliveryState, Notification, Receiver
from console.audit.models import AuditEntry
from console.brokers import keys
from tests.console.alerts.receivers import Received, http_receiver
from tests.console.alerts.test_formats import KEY, item
from tests.console.conftest import Broker

pytestmark = pytest.mark.django_db

API = "/api/v1/alerts/"
SECRET = "T0000/B0000/veryverysecret"
ACCEPTED = json.dumps({"status": "success", "message": "Event processed"})


@pytest.fixture
def hook() -> Iterator[Received]:
    with http_receiver() as got:
        yield got


@pytest.fixture(autouse=True)
def key_file(settings: Any, tmp_path: Any, broker: Broker) -> None:
    settings.HEADGATE_BROKER_KEYS = str(tmp_path / "broker-keys")


@pytest.fixture
def by(operator: User) -> Actor:
    return Actor(operator, "127.0.0.1")


def create(by: Actor, hook: Received, kind: str) -> Receiver:
    """Create a receiver that is served by `hook`."""
    AllowedNetwork.objects.get_or_create(network="127.0.0.0/8")
    if kind == "pagerduty":
        hook.text = ACCEPTED
        made = receiver_editing.create_receiver(by, {"name": "duty", "kind": kind, "routing_key": KEY})
        Receiver.objects.update(url=hook.url)
        made.refresh_from_db()
        return made
    hook.text = "ok" if kind == "slack" else ""
    return receiver_editing.create_receiver(by, {"name": kind, "kind": kind, "url": hook.url})


def notify(receiver: Receiver, phase: str = "firing", **values: Any) -> Delivery:
    listed = [] if phase == "test" else [item()]
    about = {"rule_name": "stuck", "broker": "local", "incident": "1/local", "items": listed, "count": len(listed)}
    now = timezone.now()
    notification = Notification.objects.create(at=now, phase=phase, **{**about, **values})
    return Delivery.objects.create(notification=notification, receiver=receiver, receiver_name=receiver.name, due=now)


def attempt(delivery: Delivery) -> str:
    Delivery.objects.filter(pk=delivery.pk).update(due=timezone.now())
    tasks.deliver(delivery.pk)
    delivery.refresh_from_db()
    return str(delivery.attempts[-1]["outcome"]) if delivery.attempts else ""


# -- secrets ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "secret"),
    [
        ({"kind": "slack", "url": f"https://hooks.slack.com/services/{SECRET}"}, SECRET),
        ({"kind": "teams", "url": f"https://prod.logic.azure.com:443/workflows/1?sig={SECRET}"}, SECRET),
        ({"kind": "pagerduty", "routing_key": KEY}, KEY),
    ],
)
def test_secret_is_in_no_answer_table_audit_row_or_log(
    as_operator: APIClient, given: dict[str, Any], secret: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    made = as_operator.post(f"{API}receivers/", {"name": "team", **given}, format="json")
    assert made.status_code == 201
    number = made.json()["id"]
    assert made.json()["secret"] == ""
    change = {"version": 1, "name": "other", "enabled": False}
    changed = as_operator.patch(f"{API}receivers/{number}/", change, format="json")
    shown = [made, changed, as_operator.get(f"{API}receivers/"), as_operator.get(f"{API}receivers/{number}/")]
    renewed = as_operator.patch(f"{API}receivers/{number}/", {"version": 2, **_again(given)}, format="json")
    assert renewed.status_code == 200, renewed.content
    assert all(secret not in each.content.decode() for each in [*shown, renewed])
    with connection.cursor() as cursor:
        cursor.execute("SELECT * FROM alerts_receiver")
        assert secret not in str(cursor.fetchall())
    rows = str(list(AuditEntry.objects.values()))
    assert "alert-receiver other" in rows
    assert secret not in rows
    assert secret not in caplog.text
    assert secret in keys.decrypt(Receiver.objects.get().encrypted)


def _again(given: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name != "kind"}


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"kind": "slack", "url": f"ftp://x/{SECRET}"}, "url"),
        ({"kind": "slack", "url": f"https://hooks.slack.com/… {SECRET}"}, "url"),
        ({"kind": "slack"}, "url"),
        ({"kind": "teams", "url": f"https://user:{SECRET}@x/"}, "url"),
        ({"kind": "pagerduty", "routing_key": f"{KEY}{SECRET}"[:60]}, "routing_key"),
        ({"kind": "pagerduty"}, "routing_key"),
        ({"kind": "pagerduty", "routing_key": KEY, "region": "moon"}, "region"),
    ],
)
def test_wrong_secret_is_refused_without_repeating_it(
    as_operator: APIClient, given: dict[str, Any], field: str
) -> None:
    refused = as_operator.post(f"{API}receivers/", {"name": "team", **given}, format="json")
    assert refused.status_code == 400
    assert field in refused.json()
    assert SECRET not in refused.content.decode()
    assert SECRET not in str(list(AuditEntry.objects.values()))
    assert not Receiver.objects.exists()


def test_empty_secret_in_a_change_keeps_the_stored_one(as_operator: APIClient, by: Actor, hook: Received) -> None:
    receiver = create(by, hook, "slack")
    as_operator.patch(f"{API}receivers/{receiver.pk}/", {"version": 1, "url": "", "name": "s"}, format="json")
    assert attempt(notify(Receiver.objects.get())) == "HTTP 200 OK: Slack accepted it"


def test_rotation_of_the_key_encrypts_secrets_again(by: Actor, hook: Received) -> None:
    receiver = create(by, hook, "slack")
    before = receiver.encrypted
    call_command("rotate_broker_key", stdout=StringIO())
    receiver.refresh_from_db()
    assert receiver.encrypted != before
    assert attempt(notify(receiver)) == "HTTP 200 OK: Slack accepted it"


def test_lost_key_fails_the_delivery_with_the_reason(by: Actor, hook: Received, settings: Any, tmp_path: Any) -> None:
    receiver = create(by, hook, "slack")
    settings.HEADGATE_BROKER_KEYS = str(tmp_path / "other-keys")
    delivery = notify(receiver)
    assert "cannot be decrypted" in attempt(delivery)
    assert delivery.state == DeliveryState.FAILED


# -- deliveries -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["slack", "teams", "pagerduty"])
def test_notification_is_delivered_in_the_format_of_its_kind(by: Actor, hook: Received, kind: str) -> None:
    delivery = notify(create(by, hook, kind))
    assert "accepted it" in attempt(delivery)
    assert delivery.state == DeliveryState.DONE
    (body,) = hook.bodies
    assert {"slack": "blocks", "teams": "attachments", "pagerduty": "payload"}[kind] in body


def test_error_in_a_successful_response_fails_the_delivery(by: Actor, hook: Received) -> None:
    receiver = create(by, hook, "slack")
    hook.text = "invalid_payload"
    delivery = notify(receiver)
    assert attempt(delivery) == "HTTP 200 OK: invalid_payload: Slack could not read the message"
    assert delivery.state == DeliveryState.FAILED


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("120", 120), ("99999999", 900), ("Thu, 01 Jan 1970 00:00:00 GMT", 5), ("soon", 5), ("", 5), ("-7", 5)],
)
@pytest.mark.parametrize("kind", ["slack", "webhook"])
def test_receiver_that_demands_a_pause_gets_it_within_limits(
    by: Actor, hook: Received, kind: str, header: str, seconds: int
) -> None:
    delivery = notify(create(by, hook, kind))
    hook.answers, hook.headers = [429], {"Retry-After": header}
    assert attempt(delivery).startswith("HTTP 429 Too Many Requests")
    assert delivery.state == DeliveryState.WAITING
    ended = dt.datetime.fromisoformat(delivery.attempts[-1]["at"])
    assert (delivery.due - ended).total_seconds() == seconds
    assert tasks.sweep() == 0
    hook.headers = {}
    attempt(delivery)
    assert delivery.state == DeliveryState.DONE


def test_receiver_that_hangs_is_tried_again(by: Actor, hook: Received, monkeypatch: pytest.MonkeyPatch) -> None:
    delivery = notify(create(by, hook, "slack"))
    hook.began, hook.go_on = threading.Event(), threading.Event()
    monkeypatch.setattr("console.alerts.webhook.send_json.__kwdefaults__", {"headers": None, "timeout": 0.2})
    assert "no response within 0.2 s" in attempt(delivery) or "timed out" in delivery.attempts[-1]["outcome"]
    assert delivery.state == DeliveryState.WAITING
    hook.go_on.set()


def test_test_message_is_attempted_once_and_its_outcome_can_be_read(
    by: Actor, hook: Received, as_operator: APIClient, as_viewer: APIClient
) -> None:
    receiver = create(by, hook, "slack")
    hook.answers = [503]
    made = as_operator.post(f"{API}receivers/{receiver.pk}/test/", {}, format="json").json()
    shown = as_operator.get(f"{API}deliveries/{made['id']}/").json()
    assert (shown["state"], shown["tries"]) == ("failed", 1)
    assert shown["attempts"][0]["outcome"].startswith("HTTP 503 Service Unavailable: Slack did not accept it")
    assert as_viewer.get(f"{API}deliveries/{made['id']}/").json()["attempts"][0]["outcome"] == ""


# -- incidents of PagerDuty -------------------------------------------------------------------------------------------


@pytest.fixture
def duty(by: Actor, hook: Received) -> Receiver:
    return create(by, hook, "pagerduty")


def open_incidents(hook: Received) -> set[str]:
    """What PagerDuty would show: the oracle."""
    found: set[str] = set()
    for body in hook.bodies:
        (found.add if body["event_action"] == "trigger" else found.discard)(body["dedup_key"])
    return found


def test_incident_ends_with_the_last_alert_of_the_rule(duty: Receiver, hook: Received) -> None:
    attempt(notify(duty))
    assert "alerts of the rule still fire: 1" in attempt(notify(duty, "resolved", still_firing=1))
    assert len(open_incidents(hook)) == 1
    attempt(notify(duty, "resolved"))
    assert not open_incidents(hook)
    assert [body["event_action"] for body in hook.bodies] == ["trigger", "resolve"]


def test_late_retry_does_not_reopen_a_resolved_incident(duty: Receiver, hook: Received) -> None:
    hook.answers = [500]
    first = notify(duty)
    attempt(first)
    assert first.state == DeliveryState.WAITING
    attempt(notify(duty, "resolved"))
    assert "a later notification" in attempt(first)
    assert first.state == DeliveryState.DONE
    assert not open_incidents(hook)


def test_late_retry_does_not_resolve_an_incident_that_began_again(duty: Receiver, hook: Received) -> None:
    attempt(notify(duty))
    hook.answers = [500]
    resolved = notify(duty, "resolved")
    attempt(resolved)
    attempt(notify(duty))
    attempt(resolved)
    assert len(open_incidents(hook)) == 1


def test_skipped_notification_does_not_replace_the_one_that_opens_the_incident(duty: Receiver, hook: Received) -> None:
    hook.answers = [500]
    first = notify(duty)
    attempt(first)
    attempt(notify(duty, "resolved", still_firing=1))
    attempt(first)
    assert len(open_incidents(hook)) == 1


def test_event_waits_for_an_earlier_one_under_way(duty: Receiver, hook: Received) -> None:
    first = notify(duty)
    second = notify(duty, "resolved")
    Delivery.objects.filter(pk=first.pk).claim(dt.timedelta(seconds=60), timezone.now())  # by this live process
    assert attempt(second) == ""
    assert (second.state, second.tries) == (DeliveryState.WAITING, 0)
    assert not hook.requests
    Delivery.objects.filter(pk=first.pk).update(state=DeliveryState.DONE, lease_until=None, lease_holder="")
    attempt(second)
    assert [body["event_action"] for body in hook.bodies] == ["resolve"]


def test_incidents_of_other_rules_and_brokers_are_independent(duty: Receiver, hook: Received) -> None:
    attempt(notify(duty))
    attempt(notify(duty, incident="2/local"))
    attempt(notify(duty, "resolved", incident="1/other"))
    assert len(open_incidents(hook)) == 2


def test_test_message_opens_an_incident_and_resolves_it(duty: Receiver, hook: Received) -> None:
    attempt(notify(duty, "test", rule_name="", incident=""))
    assert [body["event_action"] for body in hook.bodies] == ["trigger", "resolve"]
    assert not open_incidents(hook)
