"""API tokens: shown once, stored as a digest, restricted to their owner's permissions, expired or revoked."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from console.access import administration
from console.access.actor import Actor
from console.access.models import ApiToken, RoleGrant
from console.access.tokens import digest_of
from console.audit.models import AuditEntry
from console.permissions.rights import Grant, Role
from tests.console.access.conftest import person
from tests.console.conftest import Broker

pytestmark = pytest.mark.django_db

ALL = (Grant(Role.OPERATOR), Grant(Role.POLICY_EDITOR))


@pytest.fixture(autouse=True)
def _with_orders(broker: Broker) -> None:
    broker.memory.attach_producer("orders")
    broker.connected()


@pytest.fixture
def olga() -> User:
    return person("olga", *ALL)


def made(user: User, *grants: Grant, days: int = 30, name: str = "deploy") -> tuple[ApiToken, str]:
    return administration.create_token(Actor(user), name, grants or ALL, days=days)


def using(secret: str) -> APIClient:
    return APIClient(HTTP_AUTHORIZATION=f"Bearer {secret}", enforce_csrf_checks=True)


def stop(client: APIClient) -> Any:
    return client.post("/api/v1/stop-producers/", {"scope": "type=Broker", "reason": "test"}, format="json")


def test_audit_trail_names_the_token(olga: User) -> None:
    _, secret = made(olga)
    client = using(secret)
    assert client.get("/api/v1/queues/").json()["count"] == 1
    assert stop(client).status_code == 200
    row = AuditEntry.objects.get(operation="stop-producers")
    assert (row.user_name, row.source_address) == ("olga", "127.0.0.1, token deploy")
    me = client.get("/api/v1/me/").json()
    assert (me["user"], me["token"]["name"]) == ("olga", "deploy")
    assert [grant["role"] for grant in me["grants"]] == ["operator", "policy-editor"]


def test_token_has_only_its_own_roles(olga: User) -> None:
    _, secret = made(olga, Grant(Role.VIEWER, "local"))
    client = using(secret)
    assert client.get("/api/v1/queues/").status_code == 200
    assert stop(client).status_code == 403
    _, narrow = made(olga, Grant(Role.OPERATOR, "local", "blue"), name="blue")
    assert using(narrow).get("/api/v1/queues/").json()["results"] == []


def test_token_loses_permissions_with_its_owner(olga: User) -> None:
    _, secret = made(olga)
    RoleGrant.objects.filter(user=olga, role=Role.OPERATOR).delete()
    assert stop(using(secret)).status_code == 403
    RoleGrant.objects.filter(user=olga).delete()
    assert using(secret).get("/api/v1/queues/").status_code == 403


def test_token_cannot_exceed_its_owner(olga: User) -> None:
    from django.core.exceptions import PermissionDenied

    narrow = person("ned", Grant(Role.OPERATOR, "local", "default"))
    for grant in (Grant(Role.OPERATOR), Grant(Role.ADMIN, "local", "default"), Grant(Role.VIEWER, "local", "blue")):
        with pytest.raises(PermissionDenied, match="more permissions than you"):
            made(narrow, grant)
    made(narrow, Grant(Role.VIEWER, "local", "default"))
    assert AuditEntry.objects.filter(operation="create-token", outcome="refused").count() == 3


def refused(secret: str) -> str:
    answer = using(secret).get("/api/v1/queues/")
    assert answer.status_code == 401
    assert answer["WWW-Authenticate"] == 'Bearer realm="Headgate"'
    return str(answer.json()["detail"])


def test_unusable_token_is_refused_with_the_reason(olga: User) -> None:
    assert "not known" in refused("headgate_nonsense")
    assert "not known" in refused("")
    token, secret = made(olga)
    ApiToken.objects.filter(pk=token.pk).update(expires=timezone.now() - timedelta(seconds=1))
    assert "The token deploy expired on" in refused(secret)
    administration.revoke_token(Actor(olga), token)
    assert "The token deploy was revoked on" in refused(secret)
    _, other = made(olga, name="other")
    User.objects.filter(pk=olga.pk).update(is_active=False)
    assert "olga" in refused(other)


def test_secret_is_not_stored(olga: User) -> None:
    token, secret = made(olga)
    stored = str(ApiToken.objects.values().get()) + str(list(AuditEntry.objects.values()))
    assert secret not in stored
    assert token.digest == digest_of(secret)
    assert len(secret) > 45


def test_last_use_is_saved_once_per_minute(olga: User) -> None:
    _, secret = made(olga)
    using(secret).get("/api/v1/me/")
    first = ApiToken.objects.get().last_used
    assert first
    using(secret).get("/api/v1/me/")
    assert ApiToken.objects.get().last_used == first
    ApiToken.objects.update(last_used=first - timedelta(minutes=2))
    using(secret).get("/api/v1/me/")
    now = ApiToken.objects.get().last_used
    assert now
    assert now >= first


def page(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def test_page_creates_a_token_shows_it_once_and_revokes_it(olga: User) -> None:
    client = page(olga)
    given = {"action": "create", "name": "ci", "role": ["viewer", "operator"], "broker": "local", "days": "7"}
    answer = client.post("/tokens/", given)
    found = re.search(r'id="secret">([^<]+)<', answer.content.decode())
    assert found
    assert answer["Cache-Control"] == "no-store"
    assert using(found[1]).get("/api/v1/queues/").status_code == 200
    html = client.get("/tokens/").content.decode()
    assert found[1] not in html
    assert "ci" in html
    assert "operator of broker local" in html
    token = ApiToken.objects.get()
    assert timedelta(days=6) < token.expires - timezone.now() <= timedelta(days=7)
    assert client.post("/tokens/", given).status_code == 409
    revoke = {"action": "revoke", "id": token.pk}
    assert client.post("/tokens/", revoke).status_code == 200  # asks for confirmation
    assert using(found[1]).get("/api/v1/queues/").status_code == 200
    assert client.post("/tokens/", {**revoke, "confirmed": "1"}).status_code == 302
    assert "revoked" in client.get("/tokens/").content.decode()
    assert "revoked on" in refused(found[1])


@pytest.mark.parametrize("given", [{"name": ""}, {"role": []}, {"days": "0"}, {"days": "x"}, {"virtualhost": "a"}])
def test_page_shows_validation_errors(olga: User, given: dict[str, Any]) -> None:
    values = {"action": "create", "name": "ci", "role": ["viewer"], "broker": "", "days": "7", **given}
    answer = page(olga).post("/tokens/", values)
    assert answer.status_code == 400
    assert 'role="alert"' in answer.content.decode()
    assert not ApiToken.objects.exists()


def test_token_of_another_user_is_revoked_by_full_administrators_only(olga: User) -> None:
    token, secret = made(olga)
    assert (
        page(person("vic", Grant(Role.VIEWER))).post("/tokens/", {"action": "revoke", "id": token.pk}).status_code
        == 404
    )
    boss = page(User.objects.create_superuser("boss"))
    assert "deploy" in boss.get("/access/").content.decode()
    revoke = {"action": "revoke-token", "id": token.pk, "confirmed": "1"}
    assert boss.post("/access/", revoke).status_code == 302
    assert "revoked" in refused(secret)
    row = AuditEntry.objects.first()
    assert row
    assert (row.user_name, row.operation, row.object) == ("boss", "revoke-token", "token deploy of user olga")
