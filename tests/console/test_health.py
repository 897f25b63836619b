"""/healthz and /readyz: without sign-in and tiny, bounded in time, and named parts for users with a role."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError
from rest_framework.test import APIClient

from console.access.actor import Actor
from console.access.administration import create_token
from console.api import health
from console.health import database
from console.health.presence import running_processes, show_worker
from console.leases.lease import lease
from console.permissions.rights import Grant, Role
from tests.console.conftest import Broker

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(database, "_current", None)
    monkeypatch.setattr(database, "query", lambda: None)  # the thread has a connection of its own
    yield
    monkeypatch.setattr(database, "_current", None)


def parts(client: APIClient) -> dict[str, str]:
    answer = client.get("/readyz")
    assert answer.status_code == 200
    return {part["name"]: part["state"] for part in answer.json()["parts"]}


def test_health_needs_neither_sign_in_nor_database(django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(0):
        answer = APIClient().get("/healthz")
    assert (answer.status_code, answer.content) == (200, b"ok\n")
    assert answer["Cache-Control"] == "no-store"


def test_session_is_not_read_for_health_nor_before_the_database_answers(
    monkeypatch: pytest.MonkeyPatch, as_viewer: APIClient, django_assert_num_queries: Any
) -> None:
    monkeypatch.setattr(health, "database_answers", lambda: False)
    with django_assert_num_queries(0):
        assert as_viewer.get("/healthz").status_code == 200
        answer = as_viewer.get("/readyz")
    assert (answer.status_code, answer.json()) == (503, {"status": "not ready"})


def test_database_that_fails_later_is_not_ready(
    monkeypatch: pytest.MonkeyPatch, as_viewer: APIClient, broker: Broker
) -> None:
    def fail() -> dict[str, bool]:
        raise OperationalError("canceling statement due to statement timeout")

    monkeypatch.setattr(health, "running_processes", fail)
    answer = as_viewer.get("/readyz")
    assert (answer.status_code, answer.json()) == (503, {"status": "not ready"})


def test_readiness_is_tiny_without_sign_in(django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(0):
        answer = APIClient().get("/readyz")
    assert (answer.status_code, answer.json()) == (200, {"status": "ready"})
    assert answer["Cache-Control"] == "no-store"


def test_user_without_a_role_gets_no_parts(broker: Broker) -> None:
    client = APIClient()
    client.force_login(User.objects.create_user("nora"))
    assert client.get("/readyz").json() == {"status": "ready"}


def test_user_with_a_role_gets_each_part(broker: Broker, as_viewer: APIClient) -> None:
    broker.connected()
    down = {"worker": "down", "beat": "down", "recorder": "down", "history": "down"}
    assert parts(as_viewer) == {"database": "up", **down, "broker local": "up"}
    broker.lose()
    answer = as_viewer.get("/readyz")
    assert answer.status_code == 200  # the console is able to serve, and to show what is wrong
    assert {part["name"]: part for part in answer.json()["parts"]}["broker local"]["detail"]
    boss = User.objects.create_superuser("boss")
    _, secret = create_token(Actor(boss), "elsewhere", [Grant(Role.VIEWER, "paris")], days=1)
    elsewhere = parts(APIClient(HTTP_AUTHORIZATION=f"Bearer {secret}"))
    assert elsewhere == {"database": "up", **down}
    assert APIClient(HTTP_AUTHORIZATION="Bearer nonsense").get("/readyz").status_code == 401


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_running_processes_are_known_by_their_leases() -> None:
    assert not any(running_processes().values())
    with show_worker(), lease("beat"), lease("recorder-process-1"), lease("history-process-1"):
        assert all(running_processes().values())
    assert not any(running_processes().values())


def test_failing_database_is_not_ready_and_says_no_more(monkeypatch: pytest.MonkeyPatch, as_viewer: APIClient) -> None:
    def fail() -> None:
        raise OperationalError("password of user console at 10.0.0.7")

    monkeypatch.setattr(database, "query", fail)
    for client in (APIClient(), as_viewer):
        answer = client.get("/readyz")
        assert (answer.status_code, answer.json()) == (503, {"status": "not ready"})


def test_hung_database_costs_one_thread_and_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    released, queried = threading.Event(), []

    def hang() -> None:
        queried.append(threading.current_thread())
        released.wait(60)

    monkeypatch.setattr(database, "query", hang)
    try:
        for _ in range(5):
            assert not database.database_answers(0.01)
        assert len(queried) == 1
    finally:
        released.set()
    queried[0].join(60)
    monkeypatch.setattr(database, "query", lambda: None)
    assert database.database_answers(60)


def test_unknown_parameters_and_methods_are_refused() -> None:
    assert APIClient().get("/readyz?verbose=1").status_code == 400
    assert APIClient().post("/readyz").status_code == 405
