"""Audit entries about the console as a whole: who may read them, and what they do not have."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from brokers.admin import InvalidValue
from console.access.actor import Actor
from console.access.models import RoleGrant
from console.alerts import editing, receiver_editing
from console.audit.models import AuditEntry
from console.permissions.rights import Role
from tests.console.conftest import Broker, signed_in

pytestmark = pytest.mark.django_db

ADDRESS = "night.shift@example.org"
HOST = "hooks.example.org"


@pytest.fixture(autouse=True)
def sending(settings: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, broker: Broker) -> None:
    settings.HEADGATE_BROKER_KEYS = str(tmp_path / "broker-keys")
    monkeypatch.setattr("console.alerts.receiver_editing.send", lambda *args: None)


def client_of(name: str, role: Role, broker: str = "") -> APIClient:
    user = User.objects.create_user(name)
    RoleGrant.objects.create(user=user, role=role, broker=broker)
    return signed_in(user)


def everything(client: APIClient) -> str:
    """Return all that the client reads of the audit trail and the timeline."""
    texts = []
    for path in ("/api/v1/audit/", "/api/v1/audit/file/?as=csv", "/audit/", "/audit/?all=1"):
        answer = client.get(path)
        assert answer.status_code == 200, path
        streaming = getattr(answer, "streaming", False)
        texts.append((b"".join(answer) if streaming else answer.content).decode())
    return "\n".join(texts)


@pytest.fixture
def by(operator: User) -> Actor:
    return Actor(operator, "127.0.0.1")


def test_addresses_of_receivers_are_in_entries_for_operators_of_all_brokers_alone(
    by: Actor, as_viewer: APIClient, as_operator: APIClient, as_administrator: APIClient, broker: Broker
) -> None:
    broker.connected()
    mail = receiver_editing.create_receiver(by, {"name": "duty", "kind": "email", "recipients": [ADDRESS]})
    receiver_editing.create_receiver(by, {"name": "hook", "kind": "webhook", "url": f"https://{HOST}/T0/secret"})
    receiver_editing.delete_receiver(by, mail)
    assert set(AuditEntry.objects.values_list("broker", flat=True)) == {""}
    for client in (as_operator, as_administrator, client_of("olaf", Role.OPERATOR, "local")):
        assert ADDRESS in (text := everything(client))
        assert HOST in text
    for client in (as_viewer, client_of("vic", Role.VIEWER, "local"), client_of("pia", Role.POLICY_EDITOR)):
        assert ADDRESS not in (text := everything(client))
        assert HOST not in text


def test_entries_of_an_earlier_release_about_receivers_are_hidden_likewise(
    as_viewer: APIClient, as_operator: APIClient, broker: Broker
) -> None:
    link = broker.connected()
    AuditEntry(
        user_name="olga", broker="local", object="alert-receiver duty", operation="create", outcome="done",
        after={"recipients": [ADDRESS]},
    ).save()  # fmt: skip
    assert ADDRESS in everything(as_operator)
    assert ADDRESS not in everything(as_viewer)
    assert not AuditEntry.objects.visible_through(link).exists()


def test_an_operator_of_some_of_the_brokers_does_not_read_them(by: Actor, settings: Any, broker: Broker) -> None:
    receiver_editing.create_receiver(by, {"name": "duty", "kind": "email", "recipients": [ADDRESS]})
    settings.HEADGATE_BROKERS = [*settings.HEADGATE_BROKERS, {**settings.HEADGATE_BROKERS[0], "slug": "other"}]
    broker.connected()
    assert ADDRESS not in everything(client_of("olaf", Role.OPERATOR, "local"))
    assert ADDRESS in everything(client_of("ole", Role.OPERATOR))


def test_an_operator_of_all_brokers_reads_the_entries_of_rules_for_all_and_not_those_about_access(
    by: Actor, as_viewer: APIClient, as_operator: APIClient, broker: Broker
) -> None:
    broker.connected()
    editing.create_rule(by, {"name": "stuck", "kinds": ["blocked"]})
    editing.create_rule(by, {"name": "local alone", "kinds": ["blocked"], "broker": "local"})
    AuditEntry(user_name="adele", broker="", object="user ben", operation="create-user", outcome="done").save()
    scopes = dict(AuditEntry.objects.values_list("object", "broker"))
    assert scopes == {"alert-rule stuck": "", "alert-rule local alone": "local", "user ben": ""}
    assert "alert-rule stuck" in (text := everything(as_operator))
    assert "user ben" not in text
    assert "alert-rule stuck" not in (text := everything(as_viewer))
    assert "alert-rule local alone" in text


@pytest.mark.parametrize(
    "url", ["ftp://hooks.example.org/T0/secret", "https://hooks.example.org/T0/se cret", "https://[hooks/T0/secret"]
)
def test_a_refused_url_is_not_in_the_entry(by: Actor, url: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        receiver_editing.create_receiver(by, {"name": "hook", "kind": "webhook", "url": url})
    row = AuditEntry.objects.get()
    assert row.outcome == "refused"
    assert "url" in refused.value.errors
    assert "T0" not in row.detail
    assert "hooks" not in row.detail
