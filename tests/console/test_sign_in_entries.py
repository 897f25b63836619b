"""Sign-ins, sign-outs and failed sign-ins in the audit trail."""

from __future__ import annotations

import base64
import datetime as dt

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.core.cache import cache
from django.db import OperationalError
from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from console.access import sign_ins
from console.access.actor import Actor
from console.access.administration import create_token
from console.audit.models import AuditEntry
from console.jolokia import authentication
from console.permissions.rights import Grant, Role
from tests.console.conftest import Broker

pytestmark = pytest.mark.django_db

ADDRESS = "203.0.113.9"
PASSWORD = "see-everything"


@pytest.fixture(autouse=True)
def vera(broker: Broker, viewer: User) -> User:
    cache.clear()
    authentication._verified.entries.clear()
    viewer.set_password(PASSWORD)
    viewer.save()
    return viewer


def sign_in(name: str = "vera", password: str = PASSWORD, address: str = ADDRESS, client: Client | None = None) -> int:
    client = client or Client(REMOTE_ADDR=address)
    return client.post("/login/", {"username": name, "password": password}).status_code


def rows() -> list[tuple[str, str, str, str, str]]:
    """Return user, operation, outcome, address and object of all entries, the oldest first."""
    fields = ("user_name", "operation", "outcome", "source_address", "object")
    return list(AuditEntry.objects.order_by("id").values_list(*fields))


def test_sign_in_and_sign_out_have_an_entry_each(vera: User) -> None:
    client = Client(REMOTE_ADDR=ADDRESS)
    assert sign_in(client=client) == 302
    assert client.post("/logout/").status_code == 302
    assert client.post("/logout/").status_code == 302  # no user is signed in
    assert rows() == [
        ("vera", "sign-in", "done", ADDRESS, "user vera"),
        ("vera", "sign-out", "done", ADDRESS, "user vera"),
    ]
    assert set(AuditEntry.objects.values_list("broker", "user")) == {("", vera.pk)}
    assert AuditEntry.objects.last().detail == "with a password"  # type: ignore[union-attr]


def test_failed_sign_in_has_an_entry_without_the_password() -> None:
    assert sign_in(password="nearly-see-everything") == 200
    row = AuditEntry.objects.get()
    assert rows() == [("vera", "sign-in", "refused", ADDRESS, "user vera")]
    assert row.user is None
    assert "nearly" not in repr(AuditEntry.objects.values().get())
    assert sign_in(password="") == 200, "nothing was tried"
    assert AuditEntry.objects.count() == 1


@pytest.mark.parametrize(
    ("entered", "shown"),
    [
        ("root", "root"),
        (" olga@example.org ", "olga@example.org"),
        ("a" * 150, "a" * 64),
        ("correct horse, battery!", "(unknown)"),
        ("(system)", "(unknown)"),
        ("vera\u202egnp", "(unknown)"),
        ("<script>", "(unknown)"),
        ("=cmd|' /C calc'!A0", "(unknown)"),
    ],
)
def test_entered_name_is_recorded_if_it_can_be_that_of_a_user(entered: str, shown: str) -> None:
    sign_in(entered, "wrong")
    row = AuditEntry.objects.get()
    assert (row.user_name, row.object) == (shown, f"user {shown}")


def test_locked_sign_in_says_so() -> None:
    for _ in range(settings.AXES_FAILURE_LIMIT):
        sign_in(password="wrong")
    assert sign_in() == 429
    row = AuditEntry.objects.first()
    assert row is not None
    assert (row.outcome, row.detail) == ("refused", "with a password, locked after too many failures")


def test_failures_of_one_address_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sign_ins, "MOST_OF_ADDRESS", 3)
    for number in range(6):
        sign_in(f"guess{number}", "wrong")
    assert [row[0] for row in rows()] == ["guess0", "guess1", "guess2"]
    assert "the last that is recorded: more than 3 failed from this address within 10 minutes" in (
        AuditEntry.objects.first().detail  # type: ignore[union-attr]
    )
    sign_in("guess", "wrong", address="203.0.113.10")
    assert sign_in() == 302
    assert [row[0] for row in rows()[3:]] == ["guess", "vera"], "others are recorded"
    later = timezone.now() + sign_ins.WINDOW + dt.timedelta(seconds=1)
    monkeypatch.setattr(sign_ins.timezone, "now", lambda: later)
    sign_in("again", "wrong")
    assert rows()[-1][0] == "again"


def test_failures_are_limited_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sign_ins, "MOST", 3)
    for number in range(6):
        sign_in("root", "wrong", address=f"203.0.113.{number}")
    assert len(rows()) == 3
    assert "more than 3 failed within 10 minutes" in AuditEntry.objects.first().detail  # type: ignore[union-attr]
    assert sign_in() == 302
    assert rows()[-1][:3] == ("vera", "sign-in", "done")


def test_there_is_no_sign_in_without_its_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    def is_locked(entry: AuditEntry, **given: object) -> None:
        raise OperationalError("database is locked")

    client = Client(raise_request_exception=False)
    with monkeypatch.context() as patched:
        patched.setattr(AuditEntry, "save", is_locked)
        assert sign_in(client=client) == 500
    assert client.get("/", follow=True).redirect_chain[-1][0].startswith("/login/")
    assert not AuditEntry.objects.exists()


def test_a_sign_out_is_possible_without_its_entry(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def is_locked(entry: AuditEntry, **given: object) -> None:
        raise OperationalError("database is locked")

    client = Client()
    assert sign_in(client=client) == 302
    monkeypatch.setattr(AuditEntry, "save", is_locked)
    assert client.post("/logout/").status_code == 302
    assert client.get("/", follow=True).redirect_chain[-1][0].startswith("/login/")
    assert "cannot write audit row: vera sign-out user vera: done" in caplog.text


# -- other ways -------------------------------------------------------------------------------------------------------


def test_requests_with_api_tokens_are_no_sign_ins(vera: User) -> None:
    _, secret = create_token(Actor(vera), "ci", [Grant(Role.VIEWER)], days=1)
    before = rows()
    for path in ("/api/v1/me/", "/jolokia/version"):
        assert APIClient().get(path, headers={"Authorization": f"Bearer {secret}"}).status_code == 200
    assert rows() == before


def jolokia(password: str) -> int:
    given = base64.b64encode(f"vera:{password}".encode()).decode()
    headers = {"Authorization": f"Basic {given}"}
    return Client(REMOTE_ADDR=ADDRESS).get("/jolokia/version", headers=headers).status_code


def test_programs_that_send_a_password_with_each_request_have_one_entry_an_hour(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for _ in range(3):
        authentication._verified.entries.clear()
        assert jolokia(PASSWORD) == 200
    assert jolokia("wrong") == 401
    assert [row[:3] for row in rows()] == [("vera", "sign-in", "done"), ("vera", "sign-in", "refused")]
    later = timezone.now() + sign_ins.ONCE_WITHIN + dt.timedelta(seconds=1)
    monkeypatch.setattr(sign_ins.timezone, "now", lambda: later)
    authentication._verified.entries.clear()
    assert jolokia(PASSWORD) == 200
    assert len(rows()) == 3


# -- who reads them ---------------------------------------------------------------------------------------------------


def test_administrators_filter_them_and_others_do_not_read_them(
    as_viewer: APIClient, as_operator: APIClient, as_administrator: APIClient, broker: Broker
) -> None:
    broker.connected()
    sign_in()
    sign_in(password="wrong")
    sign_in("mallory", "wrong")

    def found(client: APIClient, **query: str) -> list[tuple[str, str]]:
        results = client.get("/api/v1/audit/", query).json()["results"]
        return [(row["user_name"], row["outcome"]) for row in results]

    assert found(as_administrator, operation="sign-in") == [
        ("mallory", "refused"),
        ("vera", "refused"),
        ("vera", "done"),
    ]
    assert found(as_administrator, operation="sign-in", user="vera", outcome="refused") == [("vera", "refused")]
    assert found(as_viewer) == []
    assert found(as_operator) == []
    page = as_administrator.get("/audit/?operation=sign-in&user=mallory").content.decode()
    assert "<option selected>sign-in</option>" in page
    assert f"from {ADDRESS}" in page
    assert "mallory" not in as_operator.get("/audit/").content.decode()
