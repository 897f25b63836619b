"""Users of the broker through the console: only administrators change them; passwords are never audited or logged."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest
from django.forms.models import model_to_dict
from rest_framework.test import APIClient

from brokers.model import object_name
from console.audit.models import AuditEntry
from tests.console.conftest import Broker, until

pytestmark = pytest.mark.django_db

ANNA = object_name("User", name="anna")
OBJECTS = "/api/v1/brokers/local/objects/"
OBJECT = f"{OBJECTS}{quote(str(ANNA), safe='')}/"
SECRET = "unmistakable-password"


@pytest.fixture(autouse=True)
def _connected(broker: Broker) -> None:
    broker.connected()


def create(client: APIClient, **attributes: Any) -> Any:
    return client.post(OBJECTS, {"object": str(ANNA), "attributes": attributes, "reason": "a test"}, format="json")


def change(client: APIClient, version: int, **attributes: Any) -> Any:
    return client.patch(OBJECT, {"version": version, "attributes": attributes}, format="json")


def renew(client: APIClient) -> Any:
    return client.post(f"{OBJECT}operations/renew-password/", {"arguments": {}}, format="json")


def audited() -> str:
    return json.dumps([model_to_dict(entry) for entry in AuditEntry.objects.all()], default=str)


def test_operator_cannot_change_users(broker: Broker, as_operator: APIClient, as_administrator: APIClient) -> None:
    made = create(as_administrator).json()
    before = broker.memory.engine.last_event
    for answer in (
        create(as_operator),
        change(as_operator, made["version"], administrator=True),
        renew(as_operator),
        as_operator.delete(OBJECT),
    ):
        assert answer.status_code == 403
        assert "role of administrator" in answer.json()["detail"]
    assert broker.memory.engine.last_event == before
    assert AuditEntry.objects.filter(user_name="olga", outcome="refused").count() == 4
    assert as_operator.get(OBJECT).json()["attributes"]["administrator"] is False


def test_administrator_creates_changes_and_deletes_a_user_with_audit_rows(
    as_administrator: APIClient,
) -> None:
    made = create(as_administrator, password=SECRET, grants=["default:publish"])
    assert made.status_code == 201
    assert made.json()["attributes"]["password"] is None
    changed = change(as_administrator, made.json()["version"], password=SECRET + "2", grants=["*:consume"])
    assert changed.json()["attributes"]["grants"] == ["*:consume"]
    assert as_administrator.delete(OBJECT).status_code == 204
    rows = list(AuditEntry.objects.order_by("id"))
    assert [(row.operation, row.outcome, row.user_name) for row in rows] == [
        (operation, "done", "adele") for operation in ("create", "update", "delete")
    ]
    assert rows[1].before == {"password": None, "grants": ["default:publish"]}
    assert rows[1].after == {"password": "(secret)", "grants": ["*:consume"]}
    assert SECRET not in audited()


def test_generated_password_is_only_in_the_answer(
    as_administrator: APIClient, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("DEBUG"):
        secrets = [
            create(as_administrator).json()["attributes"]["password"],
            renew(as_administrator).json()["password"],
        ]
    assert len(set(secrets)) == 2
    assert all(len(secret) >= 40 for secret in secrets)
    rows = audited()
    assert "(secret)" in rows
    events = json.dumps(as_administrator.get("/api/v1/events/").json())
    for secret in secrets:
        assert secret not in rows
        assert secret not in caplog.text
        assert secret not in events
    assert as_administrator.get(OBJECT).json()["attributes"]["password"] is None


def test_password_of_a_refused_or_unanswered_change_is_not_audited(broker: Broker, as_administrator: APIClient) -> None:
    refused = create(as_administrator, password=SECRET, grants=["nowhere:publish"])
    assert refused.status_code == 400
    assert "nowhere" in refused.json()["grants"][0]
    assert create(as_administrator, password={"of": SECRET}).status_code == 400
    broker.lose()
    assert create(as_administrator, password=SECRET).status_code == 503
    assert AuditEntry.objects.count() == 3
    assert SECRET not in audited()
    assert SECRET not in json.dumps(refused.json())


def test_events_of_users_reach_the_console(broker: Broker, as_administrator: APIClient) -> None:
    create(as_administrator, password=SECRET)
    until(lambda: any(e["kind"] == "user-created" for e in as_administrator.get("/api/v1/events/").json()["events"]))


def test_pages_have_the_permission_to_administer(as_operator: APIClient, as_administrator: APIClient) -> None:
    for client, may in ((as_operator, "false"), (as_administrator, "true")):
        assert f'"mayAdminister": {may}' in client.get("/objects/").content.decode()
