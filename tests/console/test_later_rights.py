"""Bulk edits and schedules that an API token ordered: never more permissions than the token and its owner have at each
queue and each run, none when either is gone, and the way back for the owner."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from rest_framework.test import APIClient

from brokers.model import ObjectName, object_name
from console.access import administration
from console.access.actor import Actor
from console.access.models import ApiToken
from console.audit.models import AuditEntry
from console.bulk import editing as bulk
from console.bulk import tasks
from console.bulk.editing import Selection, begin_bulk, resume_bulk, step
from console.bulk.models import BulkEdit, State
from console.bulk.undoing import begin_undo
from console.permissions.rights import Grant, Role
from console.schedules import editing as schedules
from console.schedules import execution
from console.schedules.models import Run, RunState, Schedule
from tests.console.conftest import Broker, until
from tests.console.test_api import post

pytestmark = pytest.mark.django_db

BULK, SCHEDULES = "/api/v1/policies/bulk/", "/api/v1/schedules/"
FIVE = {"capacity_messages": 5}
NAMES = ("a.1", "a.2", "a.3")
#: The day after next at 10:00 UTC, while the tokens are valid by the real time.
TEN = (timezone.now() + dt.timedelta(days=2)).replace(hour=10, minute=0, second=0, microsecond=0)
HOUR = dt.timedelta(hours=1)


def queue(name: str) -> ObjectName:
    return object_name("Queue", virtualhost="default", name=name)


@pytest.fixture
def three(broker: Broker) -> Broker:
    """Queues a.1 to a.3 with a capacity of 100 messages."""
    for name in NAMES:
        broker.memory.management.create(queue(name), {"capacity_messages": 100})
    broker.connected()
    until(lambda: len(broker.link.queues()) == len(NAMES))
    return broker


@pytest.fixture
def token(operator: User) -> ApiToken:
    return new_token(operator, "cli")[0]


def new_token(user: User, name: str, role: Role = Role.POLICY_EDITOR) -> tuple[ApiToken, str]:
    return administration.create_token(Actor(user), name, [Grant(role)], days=5)


def by_token(token: ApiToken) -> Actor:
    return Actor(token.user, f"127.0.0.1, token {token}", token.limit, token)


def client(secret: str) -> APIClient:
    return APIClient(HTTP_AUTHORIZATION=f"Bearer {secret}")


def capacities(broker: Broker) -> list[Any]:
    return broker.do(lambda memory: [memory.management.read(queue(name))["capacity_messages"] for name in NAMES])


def revoked(token: ApiToken) -> None:
    ApiToken.objects.filter(pk=token.pk).update(revoked=timezone.now())


def expired(token: ApiToken) -> None:
    ApiToken.objects.filter(pk=token.pk).update(expires=timezone.now())


def narrowed(token: ApiToken) -> None:
    ApiToken.objects.filter(pk=token.pk).update(grants=[["viewer", "", ""]])


def narrowed_to_another_host(token: ApiToken) -> None:
    ApiToken.objects.filter(pk=token.pk).update(grants=[["policy-editor", "local", "other"]])


def deleted(token: ApiToken) -> None:
    ApiToken.objects.filter(pk=token.pk).delete()


def handed_to_another_user(token: ApiToken) -> None:
    ApiToken.objects.filter(pk=token.pk).update(user=User.objects.create_superuser("root"))


def owner_demoted(token: ApiToken) -> None:
    token.user.groups.clear()


def owner_deactivated(token: ApiToken) -> None:
    User.objects.filter(pk=token.user_id).update(is_active=False)


#: What becomes of a token or its owner, with why the work is refused.
OF_TOKEN: list[tuple[Callable[[ApiToken], None], str]] = [
    (revoked, "the API token cli, with which {}, is revoked"),
    (expired, "the API token cli, with which {}, is expired"),
    (deleted, "the API token with which {} no longer exists"),
    (handed_to_another_user, "no longer exists"),
]
NARROWER: list[tuple[Callable[[ApiToken], None], str]] = [
    (narrowed, "role of policy editor"),
    (narrowed_to_another_host, "role of policy editor"),
    (owner_demoted, "role of policy editor"),
]


# -- bulk edits -----------------------------------------------------------------------------------------------------


def after_one_queue(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], None]) -> None:
    """Let something happen after the next change of a queue."""
    change, left = bulk.update_object, [happens]

    def changed(*given: Any, **more: Any) -> Any:
        answer = change(*given, **more)
        if left:
            left.pop()()
        return answer

    monkeypatch.setattr(bulk, "update_object", changed)


def finish(number: int) -> None:
    while step(number, "test"):
        pass


def now(job: BulkEdit) -> BulkEdit:
    job.refresh_from_db()
    return job


@pytest.mark.parametrize(("happens", "why"), [*OF_TOKEN, *NARROWER, (owner_deactivated, "role of policy editor")])
def test_bulk_edit_changes_no_queue_after_its_token_or_owner_lost_the_permission(
    three: Broker, token: ApiToken, monkeypatch: pytest.MonkeyPatch, happens: Callable[[ApiToken], None], why: str
) -> None:
    job = begin_bulk(by_token(token), three.link, Selection(), FIVE, reason="tighten")
    after_one_queue(monkeypatch, lambda: happens(token))
    finish(job.pk)
    assert capacities(three) == [5, 100, 100]
    assert now(job).state == State.INTERRUPTED
    assert why.format("the job was begun") in job.error
    refused = AuditEntry.objects.get(outcome="refused")
    assert (refused.user_name, "token cli" in refused.source_address) == ("olga", True)
    assert refused.operation in ("bulk-edit", "update")


def test_owner_resumes_in_a_session_what_a_revoked_token_began(
    three: Broker, token: ApiToken, as_operator: APIClient, administrator: User
) -> None:
    job = begin_bulk(by_token(token), three.link, Selection(), FIVE)
    revoked(token)
    finish(job.pk)
    refused = AuditEntry.objects.get(operation="bulk-edit", outcome="refused")
    assert refused.virtualhost == "default"
    assert "is revoked" in refused.detail
    assert as_operator.get(f"{BULK}{job.pk}/").json()["error"] == now(job).error
    resume_bulk(Actor(administrator), now(job))  # gives it no more rights than its token
    finish(job.pk)
    assert (now(job).state, capacities(three)) == (State.INTERRUPTED, [100, 100, 100])
    assert post(as_operator, f"{BULK}{job.pk}/resume/").json()["state"] == "done"
    assert capacities(three) == [5, 5, 5]


def test_bulk_edit_that_is_resumed_with_a_token_has_its_permissions_from_then_on(
    three: Broker, operator: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.api.bulk.send", lambda *_: None)
    job = begin_bulk(Actor(operator), three.link, Selection(), FIVE)
    step(job.pk, "test", 1)
    bulk.interrupt_bulk(Actor(operator), job)
    _, narrow = new_token(operator, "narrow", Role.VIEWER)
    assert post(client(narrow), f"{BULK}{job.pk}/resume/").status_code == 403
    wide, secret = new_token(operator, "wide")
    assert post(client(secret), f"{BULK}{job.pk}/resume/").json()["state"] == "running"
    revoked(wide)
    finish(job.pk)
    assert (now(job).state, capacities(three)) == (State.INTERRUPTED, [5, 100, 100])


@pytest.mark.parametrize("undo", [False, True])
def test_bulk_edit_and_undo_over_the_api_end_with_their_token(
    three: Broker, operator: User, monkeypatch: pytest.MonkeyPatch, undo: bool
) -> None:
    token, secret = new_token(operator, "cli")
    if undo:
        done = begin_bulk(Actor(operator), three.link, Selection(), FIVE)
        finish(done.pk)
    before = capacities(three)
    monkeypatch.setattr("console.api.bulk.send", lambda *_: None)
    if undo:
        answer = post(client(secret), f"{BULK}{done.pk}/undo/")
    else:
        answer = post(client(secret), BULK, selection={}, attributes=FIVE)
    assert answer.status_code == 201, answer.content
    administration.revoke_token(Actor(operator), token)
    tasks.carry_out.delay(answer.json()["id"])
    job = BulkEdit.objects.get(pk=answer.json()["id"])
    assert (job.state, capacities(three)) == (State.INTERRUPTED, before)
    assert AuditEntry.objects.filter(operation=refused_operation(undo), outcome="refused").count() == 1


def refused_operation(undo: bool) -> str:
    return "undo-bulk-edit" if undo else "bulk-edit"


def test_bulk_edit_of_a_usable_token_is_done_and_its_undo_in_a_session_needs_no_token(
    three: Broker, token: ApiToken, operator: User
) -> None:
    job = begin_bulk(by_token(token), three.link, Selection(), FIVE)
    finish(job.pk)
    assert (now(job).state, capacities(three)) == (State.DONE, [5, 5, 5])
    revoked(token)
    undo = begin_undo(Actor(operator), job)
    finish(undo.pk)
    assert (now(undo).state, capacities(three)) == (State.DONE, [100, 100, 100])


def test_bulk_edit_of_a_deleted_account_is_interrupted_once(three: Broker, token: ApiToken) -> None:
    job = begin_bulk(by_token(token), three.link, Selection(), FIVE)
    token.user.delete()
    finish(job.pk)
    assert tasks.sweep() == 0
    assert (now(job).state, job.error) == (State.INTERRUPTED, "the account of olga no longer exists")
    assert AuditEntry.objects.get(operation="bulk-edit", outcome="refused").user_name == "olga"


# -- schedules ------------------------------------------------------------------------------------------------------


def night(**more: Any) -> dict[str, Any]:
    return {
        "name": "night",
        "broker": "local",
        "action": "policy",
        "attributes": FIVE,
        "target": str(queue("a.1")),
        "zone": "UTC",
        "hour": "10",
        "lasts": 60,
        **more,
    }


def advance_to(moment: dt.datetime) -> None:
    """Do what the sweep does, at this time."""
    execution.create_due_runs(moment)
    for number in execution.due_runs(moment):
        execution.execute(number, moment)


def planned(by: Actor, **more: Any) -> Schedule:
    schedule = schedules.create(by, night(**more))
    Schedule.objects.update(next=TEN)
    return Schedule.objects.get(pk=schedule.pk)


@pytest.mark.parametrize(("happens", "why"), [*OF_TOKEN, *NARROWER, (owner_deactivated, "has no active account")])
def test_schedule_does_not_run_without_its_token_and_says_why(
    three: Broker, token: ApiToken, as_viewer: APIClient, happens: Callable[[ApiToken], None], why: str
) -> None:
    schedule = planned(by_token(token))
    path = f"{SCHEDULES}{schedule.pk}/"
    assert {**as_viewer.get(path).json(), "upcoming": 0}.items() >= {"token": "cli", "cannot_run": ""}.items()
    assert b'id="cannot-run"' not in as_viewer.get(f"/schedules/{schedule.pk}/").content
    happens(token)
    said = as_viewer.get(path).json()["cannot_run"]
    assert why.format("the schedule was saved") in said
    page = as_viewer.get(f"/schedules/{schedule.pk}/").content.decode()
    assert 'id="cannot-run"' in page
    assert why.format("the schedule was saved") in page
    advance_to(TEN)
    run = Run.objects.get()
    assert (run.state, run.begin_said, capacities(three)[0]) == (RunState.FAILED, said, 100)
    refused = AuditEntry.objects.get(outcome="refused")
    assert (refused.user_name, refused.object, refused.operation) == ("olga", str(queue("a.1")), "update")
    assert said in refused.detail
    assert (refused.virtualhost, refused.reason) == ("default", "schedule night")


def test_schedule_runs_again_after_it_was_saved_in_a_session(
    three: Broker, token: ApiToken, as_operator: APIClient
) -> None:
    schedule = planned(by_token(token))
    revoked(token)
    advance_to(TEN)
    answer = as_operator.patch(f"{SCHEDULES}{schedule.pk}/", {"version": 1, "reason": "r"}, format="json").json()
    assert (answer["token"], answer["cannot_run"]) == ("", "")
    advance_to(TEN + 24 * HOUR)
    assert capacities(three)[0] == 5


def test_schedule_that_is_saved_or_resumed_with_a_token_has_its_permissions(
    three: Broker, operator: User, as_operator: APIClient
) -> None:
    _, narrow = new_token(operator, "narrow", Role.VIEWER)
    token, secret = new_token(operator, "cli")
    assert post(client(narrow), SCHEDULES, **night()).status_code == 403
    answer = post(as_operator, SCHEDULES, **night(paused=True))
    assert (answer.status_code, answer.json()["token"]) == (201, "")
    path = f"{SCHEDULES}{answer.json()['id']}/"
    assert client(narrow).patch(path, {"version": 1, "reason": "r"}, format="json").status_code == 403
    assert post(client(narrow), f"{path}go-on/").status_code == 403
    assert post(client(secret), f"{path}pause/").json()["token"] == ""
    assert post(client(secret), f"{path}go-on/").json()["token"] == "cli"
    assert "API token cli" in AuditEntry.objects.get(operation="go-on", outcome="done").detail
    version = as_operator.get(path).json()["version"]
    assert as_operator.patch(path, {"version": version, "reason": "r"}, format="json").json()["token"] == ""
    changed = client(secret).patch(path, {"version": version + 1, "reason": "s"}, format="json").json()
    assert changed["token"] == "cli"
    entry = AuditEntry.objects.filter(operation="update", object="schedule night", outcome="done").order_by("id").last()
    assert entry is not None
    assert (entry.after or {})["with token"] == "cli"
    administration.revoke_token(Actor(operator), token)
    Schedule.objects.update(next=TEN)
    advance_to(TEN)
    assert (Run.objects.get().state, capacities(three)[0]) == (RunState.FAILED, 100)


def test_token_that_is_revoked_between_planning_and_the_run_starts_nothing(three: Broker, token: ApiToken) -> None:
    planned(by_token(token))
    execution.create_due_runs(TEN)
    (number,) = execution.due_runs(TEN)
    revoked(token)
    assert "is revoked" in execution.execute(number, TEN)
    assert capacities(three)[0] == 100
    assert execution.due_runs(TEN + HOUR) == []


def test_window_whose_token_is_revoked_stays_until_a_user_ends_it(
    three: Broker, token: ApiToken, as_operator: APIClient
) -> None:
    planned(by_token(token))
    advance_to(TEN)
    assert capacities(three)[0] == 5
    revoked(token)
    advance_to(TEN + HOUR)
    run = Run.objects.get()
    assert (run.state, capacities(three)[0]) == (RunState.FAILED, 5)
    assert "is revoked" in run.end_said
    assert AuditEntry.objects.get(outcome="refused").detail.endswith(
        f"(requested: end of the run of {TEN:%Y-%m-%d %H:%M} UTC)"
    )
    assert post(as_operator, f"{SCHEDULES}runs/{run.pk}/end/").json()["state"] == "done"
    assert capacities(three)[0] == 100


def test_schedule_of_a_usable_token_runs_and_reverts(three: Broker, token: ApiToken) -> None:
    planned(by_token(token))
    advance_to(TEN)
    assert capacities(three)[0] == 5
    advance_to(TEN + HOUR)
    assert (Run.objects.get().state, capacities(three)[0]) == (RunState.DONE, 100)
