"""Bulk edits: selection, preview, result of each queue; interrupting, resuming and undoing jobs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.utils import timezone
from rest_framework.test import APIClient

from brokers.admin import InvalidValue
from brokers.model import ObjectName, object_name
from brokers.testing import InMemoryBroker
from console.access.actor import Actor
from console.audit.models import AuditEntry
from console.bulk import tasks
from console.bulk.editing import Selection, begin_bulk, interrupt_bulk, is_stalled, resume_bulk, step
from console.bulk.models import BulkEdit, State
from console.bulk.pinned import digest_of
from console.bulk.undoing import begin_undo
from console.operations import PolicyChange, preview_parts
from tests.console.conftest import Broker, until
from tests.console.test_api import post

pytestmark = pytest.mark.django_db

BULK = "/api/v1/policies/bulk/"
FIVE = {"capacity_messages": 5}


def queue(name: str) -> ObjectName:
    return object_name("Queue", virtualhost="default", name=name)


@pytest.fixture
def four(broker: Broker) -> Broker:
    """Queues a.1 to a.3 and b.1, with 10 messages each."""
    for name in ("a.1", "a.2", "a.3", "b.1"):
        broker.memory.management.create(queue(name), {"capacity_messages": 100})
        broker.memory.fill(name, 10)
    broker.connected()
    until(lambda: len(broker.link.queues()) == 4)
    return broker


@pytest.fixture
def by(operator: User) -> Actor:
    return Actor(operator, "127.0.0.1")


def finish(number: int) -> None:
    while step(number, "test"):
        pass


def capacities(broker: Broker) -> dict[str, Any]:
    return broker.do(lambda memory: {q.name: q.own.get("capacity_messages") for q in memory.engine.queues()})


def begun(four: Broker, by: Actor, attributes: Any = FIVE, **selection: Any) -> BulkEdit:
    return begin_bulk(by, four.link, Selection(**selection), attributes, reason="tighten")


def now(job: BulkEdit) -> BulkEdit:
    job.refresh_from_db()
    return job


# -- choosing and previewing --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("selection", "names"),
    [
        ({}, ["a.1", "a.2", "a.3", "b.1"]),
        ({"pattern": "a.*"}, ["a.1", "a.2", "a.3"]),
        ({"search": ".1"}, ["a.1", "b.1"]),
        ({"search": ".1", "pattern": "b.>"}, ["b.1"]),
        ({"virtualhost": "other"}, []),
        ({"states": ["OVERFULL"]}, []),
        ({"objects": [str(queue("b.1")), str(queue("a.2"))]}, ["a.2", "b.1"]),
    ],
    ids=str,
)
def test_preview_lists_the_selected_queues(
    four: Broker, as_viewer: APIClient, selection: dict[str, Any], names: list[str]
) -> None:
    answer = post(as_viewer, f"{BULK}preview/", selection=selection).json()
    assert ([row["name"] for row in answer["queues"]], answer["count"]) == (names, len(names))
    assert answer["preview"] is None


@pytest.mark.parametrize(
    ("selection", "field"),
    [
        ({"pattern": "a.>.b"}, "pattern"),
        ({"states": ["SAD"]}, "states"),
        ({"states": "OVERFULL"}, "states"),
        ({"objects": [str(queue("nowhere"))]}, "objects"),
        ({"search": 5}, "search"),
    ],
    ids=str,
)
def test_invalid_selection_is_refused_with_the_wrong_field(
    four: Broker, as_operator: APIClient, selection: dict[str, Any], field: str
) -> None:
    answer = post(as_operator, f"{BULK}preview/", selection=selection)
    assert (answer.status_code, list(answer.json())) == (400, [field])


def test_preview_shows_the_impact_on_all_queues(four: Broker, as_viewer: APIClient) -> None:
    preview = post(as_viewer, f"{BULK}preview/", selection={"pattern": "a.>"}, attributes=FIVE).json()["preview"]
    assert (preview["overfull"], preview["blocked"]) == (3, 3)
    assert capacities(four)["a.1"] == 100


def test_preview_lists_the_queues_that_would_refuse(four: Broker, as_viewer: APIClient) -> None:
    four.do(lambda memory: memory.management.update(queue("a.2"), {"flow_stop_messages": 50}, 1))
    preview = post(as_viewer, f"{BULK}preview/", selection={}, attributes=FIVE).json()["preview"]
    assert (preview["overfull"], preview["refused"]) == (3, 1)
    assert preview["refusals"][0]["object"] == str(queue("a.2"))


def test_factor_multiplies_the_effective_value_of_each_queue(
    four: Broker, as_operator: APIClient, as_viewer: APIClient
) -> None:
    four.do(lambda memory: memory.management.update(queue("a.2"), {"capacity_messages": 7}, 1))
    four.do(lambda memory: memory.management.update(queue("b.1"), {"capacity_messages": 0}, 1))
    until(lambda: four.link.queue(str(queue("b.1")))["effective_capacity_messages"] == 0)  # type: ignore[index]
    half = {"selection": {}, "factors": {"capacity_messages": 1.5}}
    seen = post(as_viewer, f"{BULK}preview/", **half).json()
    assert (seen["count"], seen["without"], seen["preview"]["queues"]) == (4, 1, 3)  # one has no limit
    assert capacities(four)["a.1"] == 100
    job = post(as_operator, BULK, **half, reason="Black Friday").json()
    assert capacities(four) == {"a.1": 150, "a.2": 11, "a.3": 150, "b.1": 0}
    assert job["attributes"] == {"capacity_messages": "x 1.5"}
    post(as_operator, f"{BULK}{job['id']}/undo/")
    assert capacities(four) == {"a.1": 100, "a.2": 7, "a.3": 100, "b.1": 0}


def test_resumed_job_does_not_multiply_again(four: Broker, by: Actor) -> None:
    job = begin_bulk(by, four.link, Selection(), {}, factors={"capacity_messages": 2})
    step(job.pk, "one", count=1)
    interrupt_bulk(by, now(job))
    resume_bulk(by, now(job))
    finish(job.pk)
    assert set(capacities(four).values()) == {200}


DOUBLED = {"selection": {"states": ["OVERFULL"]}, "factors": {"capacity_messages": 2}}


def overfull(broker: Broker, name: str) -> None:
    broker.do(lambda memory: memory.management.update(queue(name), FIVE, 1))
    until(lambda: broker.link.queue(str(queue(name)))["state"] == "OVERFULL")  # type: ignore[index]


def test_edit_of_a_filter_changes_no_other_queues_than_those_previewed(four: Broker, as_operator: APIClient) -> None:
    overfull(four, "a.1")
    seen = post(as_operator, f"{BULK}preview/", **DOUBLED).json()
    assert seen["count"] == 1
    overfull(four, "a.2")  # while the reason is typed
    refused = post(as_operator, BULK, **DOUBLED, digest=seen["digest"])
    assert (refused.status_code, "it would now change 2 queues" in refused.json()["detail"]) == (409, True)
    assert capacities(four) == {"a.1": 5, "a.2": 5, "a.3": 100, "b.1": 100}
    assert not BulkEdit.objects.exists()
    assert AuditEntry.objects.get(operation="bulk-edit").outcome == "refused"
    again = post(as_operator, f"{BULK}preview/", **DOUBLED).json()
    assert post(as_operator, BULK, **DOUBLED, digest=again["digest"]).status_code == 201
    assert capacities(four) == {"a.1": 10, "a.2": 10, "a.3": 100, "b.1": 100}


def test_factor_is_not_applied_to_a_value_that_was_changed_since_the_preview(
    four: Broker, as_operator: APIClient
) -> None:
    half = {"selection": {"pattern": "a.1"}, "factors": {"capacity_messages": 1.5}}
    mine, theirs = (post(as_operator, f"{BULK}preview/", **half).json()["digest"] for _ in range(2))
    assert post(as_operator, BULK, **half, digest=theirs).status_code == 201
    until(lambda: four.link.queue(str(queue("a.1")))["effective_capacity_messages"] == 150)  # type: ignore[index]
    assert post(as_operator, BULK, **half, digest=mine).status_code == 409
    assert capacities(four)["a.1"] == 150  # and not 225
    assert post(as_operator, BULK, **half).status_code == 201  # without a preview, as by a script


def test_digest_of_an_edit_is_that_of_its_queues_and_values() -> None:
    names, values = [f"type=Queue,name=q{number}" for number in range(10_000)], {"capacity_messages": 5}
    wanted = dict.fromkeys(names, values)
    digest = digest_of(names, wanted)
    assert digest == digest_of(reversed(names), dict(reversed(wanted.items())))
    assert len(digest) == 32
    assert digest != digest_of(names[1:], dict.fromkeys(names[1:], values))
    assert digest != digest_of(names, {**wanted, names[7]: {"capacity_messages": 6}})
    assert digest != digest_of([*names, "without a limit"], wanted)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"factors": {"flow_stop_messages": 2}}, "flow_stop_messages"),
        ({"factors": {"colour": 2}}, "colour"),
        ({"factors": {"capacity_messages": 0}}, "capacity_messages"),
        ({"factors": {"capacity_messages": 1e9}}, "capacity_messages"),
        ({"factors": {"capacity_messages": 2}, "attributes": {"capacity_messages": 5}}, "capacity_messages"),
        ({}, "attributes"),
    ],
    ids=str,
)
def test_invalid_factor_is_refused_by_name(
    four: Broker, as_operator: APIClient, given: dict[str, Any], field: str
) -> None:
    answer = post(as_operator, BULK, selection={}, **given)
    assert (answer.status_code, list(answer.json())) == (400, [field])
    assert set(capacities(four).values()) == {100}


# -- running jobs ---------------------------------------------------------------------------------------------------


def test_every_chosen_queue_is_changed_audited_and_counted(four: Broker, as_operator: APIClient) -> None:
    answer = post(as_operator, BULK, selection={"pattern": "a.>"}, attributes=FIVE, reason="tighten")
    assert answer.status_code == 201
    job = as_operator.get(f"{BULK}{answer.json()['id']}/").json()
    assert (job["state"], job["total"], job["counts"]["done"]) == ("done", 3, 3)
    assert capacities(four) == {"a.1": 5, "a.2": 5, "a.3": 5, "b.1": 100}
    rows = AuditEntry.objects.filter(operation="update")
    assert {(row.user_name, row.outcome, row.reason) for row in rows} == {
        ("olga", "done", f"bulk edit {job['id']}: tighten")
    }
    assert AuditEntry.objects.get(operation="bulk-edit").reason == "tighten"
    assert as_operator.get(BULK).json()["results"][0]["id"] == job["id"]


def test_failure_of_one_queue_is_reported_and_does_not_stop_the_job(four: Broker, by: Actor) -> None:
    four.do(lambda memory: memory.management.update(queue("a.2"), {"flow_stop_messages": 50}, 1))
    job = begun(four, by, pattern="a.>")
    finish(job.pk)
    assert now(job).state == State.DONE
    assert job.counts() == {"waiting": 0, "changing": 0, "done": 2, "unchanged": 0, "failed": 1}
    (failed,) = job.rows.filter(state="failed")
    assert "flow_stop_messages is 50" in failed.detail
    four.do(lambda memory: memory.management.update(queue("a.2"), {"flow_stop_messages": None}, 2))
    resume_bulk(by, job)
    finish(job.pk)
    assert now(job).counts()["done"] == 3


def test_queue_with_the_wanted_values_is_unchanged_and_a_deleted_queue_fails(four: Broker, by: Actor) -> None:
    four.do(lambda memory: memory.management.update(queue("a.1"), FIVE, 1))
    job = begun(four, by)
    four.do(lambda memory: (memory.management.delete(queue("b.1")), memory._end_turn()))
    finish(job.pk)
    assert {row.object: row.state for row in job.rows.all()} == {
        str(queue("a.1")): "unchanged",
        str(queue("a.2")): "done",
        str(queue("a.3")): "done",
        str(queue("b.1")): "failed",
    }


def test_interrupted_job_changes_nothing_more_until_it_is_resumed(four: Broker, by: Actor) -> None:
    job = begun(four, by)
    assert step(job.pk, "test", count=2)
    interrupt_bulk(by, job)
    assert not step(job.pk, "test")
    assert sorted(capacities(four).values()) == [5, 5, 100, 100]
    assert now(job).error == "interrupted by olga"
    resume_bulk(by, job)
    finish(job.pk)
    assert set(capacities(four).values()) == {5}
    assert now(job).state == State.DONE


@pytest.mark.parametrize("removed", [False, True])
def test_interrupt_and_resume_are_audited_with_user_reason_and_job(
    four: Broker, by: Actor, as_operator: APIClient, operator: User, removed: bool
) -> None:
    """Also of a broker that is not configured any more."""
    job = begun(four, by)
    if removed:
        BulkEdit.objects.filter(pk=job.pk).update(broker="gone")
    path = f"{BULK}{job.pk}/"
    assert post(as_operator, f"{path}interrupt/", reason="wait for ben").json()["state"] == "interrupted"
    assert post(as_operator, f"{path}resume/", reason="ben is here").status_code == 200
    rows = AuditEntry.objects.filter(operation__endswith="-bulk-edit").order_by("id")
    assert [
        (row.operation, row.user_name, row.broker, row.object, row.reason, row.outcome, row.detail) for row in rows
    ] == [
        (
            f"{verb}-bulk-edit",
            "olga",
            job.broker if not removed else "gone",
            "type=Broker",
            reason,
            "done",
            f"job: {job.pk}",
        )
        for verb, reason in (("interrupt", "wait for ben"), ("resume", "ben is here"))
    ]


def test_disconnected_broker_interrupts_the_job_until_it_is_resumed(four: Broker, by: Actor) -> None:
    job = begun(four, by)
    step(job.pk, "test", count=1)
    four.lose()
    assert not step(job.pk, "test")
    assert now(job).state == State.INTERRUPTED
    assert "cannot be reached" in job.error
    four.come_back()
    resume_bulk(by, job)
    finish(job.pk)
    assert job.counts()["done"] == 4


def test_row_whose_worker_died_after_the_change_is_done_and_can_be_undone(four: Broker, by: Actor) -> None:
    job = begun(four, by, pattern="a.1")
    job.rows.update(state="changing", before={"capacity_messages": 100})
    four.do(lambda memory: memory.management.update(queue("a.1"), FIVE, 1))
    finish(job.pk)
    assert job.rows.get().state == "done"
    finish(begin_undo(by, job).pk)
    assert capacities(four)["a.1"] == 100


def test_job_of_another_worker_is_skipped_until_its_lease_expires(four: Broker, by: Actor) -> None:
    job = begun(four, by)
    assert step(job.pk, "first", count=1)
    assert not step(job.pk, "second")
    assert not is_stalled(now(job))
    BulkEdit.objects.filter(pk=job.pk).update(lease_until=timezone.now() - timedelta(seconds=1), lease_holder="")
    assert is_stalled(now(job))
    assert step(job.pk, "second", count=1)
    assert not step(job.pk, "first")
    assert job.counts()["done"] == 2


def test_undo_restores_previous_values_unless_they_were_changed_again(four: Broker, by: Actor) -> None:
    four.do(lambda memory: memory.management.update(queue("a.1"), {"capacity_messages": 70}, 1))
    job = begun(four, by, pattern="a.>")
    finish(job.pk)
    four.do(lambda memory: memory.management.update(queue("a.3"), {"capacity_messages": 9}, 2))
    undo = begin_undo(by, job)
    finish(undo.pk)
    assert capacities(four) == {"a.1": 70, "a.2": 100, "a.3": 9, "b.1": 100}
    assert undo.counts()["failed"] == 1
    assert "has been changed again" in undo.rows.get(state="failed").detail
    assert AuditEntry.objects.filter(operation="undo-bulk-edit").count() == 1


@pytest.mark.parametrize(
    ("attributes", "selection"),
    [({}, {}), ({"colour": 1}, {}), ({"durable": True}, {}), (FIVE, {"pattern": "nowhere"})],
    ids=str,
)
def test_invalid_edit_is_refused_without_a_job(
    four: Broker, as_operator: APIClient, attributes: dict[str, Any], selection: dict[str, Any]
) -> None:
    assert post(as_operator, BULK, selection=selection, attributes=attributes).status_code == 400
    assert not BulkEdit.objects.exists()


def test_viewer_sees_jobs_but_cannot_control_them(four: Broker, as_viewer: APIClient, by: Actor, viewer: User) -> None:
    assert post(as_viewer, BULK, selection={}, attributes=FIVE).status_code == 403
    assert AuditEntry.objects.get().outcome == "refused"
    job = begun(four, by)
    path = f"{BULK}{job.pk}/"
    assert as_viewer.get(path).status_code == as_viewer.get(f"{path}rows/").status_code == 200
    for action in ("resume", "interrupt", "undo"):
        assert post(as_viewer, f"{path}{action}/").status_code == 403, action
    for operation in ("resume-bulk-edit", "interrupt-bulk-edit"):
        refused = AuditEntry.objects.get(operation=operation)
        assert (refused.user_name, refused.outcome) == ("vera", "refused")
        assert f"may not {operation.partition('-')[0]} bulk edit {job.pk}" in refused.detail
    assert set(capacities(four).values()) == {100}
    assert as_viewer.get(f"{BULK}999/").status_code == 404
    with pytest.raises(PermissionDenied):
        begin_bulk(Actor(viewer), four.link, Selection(), FIVE)


def test_job_of_a_user_who_lost_the_permission_is_interrupted(four: Broker, by: Actor) -> None:
    job = begun(four, by)
    step(job.pk, "test", count=1)
    User.objects.get(username="olga").groups.clear()
    assert not step(job.pk, "test")
    assert now(job).state == State.INTERRUPTED
    assert "role of policy editor" in job.error
    assert sorted(capacities(four).values()) == [5, 100, 100, 100]


def test_rows_are_filtered_by_state_and_paginated(four: Broker, as_operator: APIClient, by: Actor) -> None:
    job = begun(four, by)
    step(job.pk, "test", count=3)
    rows = as_operator.get(f"{BULK}{job.pk}/rows/?state=done&page_size=2").json()
    assert (rows["count"], [row["before"] for row in rows["results"]]) == (3, [{"capacity_messages": 100}] * 2)
    assert as_operator.get(f"{BULK}{job.pk}/rows/?state=sad").status_code == 400


def test_undo_is_previewed(four: Broker, as_operator: APIClient, by: Actor) -> None:
    job = begun(four, by)
    finish(job.pk)
    answer = as_operator.get(f"{BULK}{job.pk}/undo/").json()
    assert (answer["count"], answer["preview"]["underfull"], answer["preview"]["unblocked"]) == (4, 4, 4)


def change(broker: Broker, name: str, capacity: int) -> None:
    """Change a queue as another operator does."""

    def act(memory: InMemoryBroker) -> None:
        version = memory.management.read(queue(name)).version
        memory.management.update(queue(name), {"capacity_messages": capacity}, version)

    broker.do(act)


def shown(broker: Broker) -> dict[str, Any]:
    """The capacities in the console's snapshot."""
    return {row["name"]: row["capacity_messages"] for row in broker.link.queues()}


def test_preview_of_an_undo_leaves_out_what_others_have_changed_since_and_says_so(
    four: Broker, as_operator: APIClient, by: Actor
) -> None:
    job = begun(four, by)
    finish(job.pk)
    change(four, "a.1", 70)
    four.do(lambda memory: memory.management.delete(queue("b.1")))
    until(lambda: shown(four) == {"a.1": 70, "a.2": 5, "a.3": 5})
    answer = as_operator.get(f"{BULK}{job.pk}/undo/").json()
    assert (answer["count"], answer["changed_since"]) == (2, 2)
    assert answer["preview"]["queues"] == 2
    assert set(answer["preview"]["versions"]) == {str(queue("a.2")), str(queue("a.3"))}
    for name in ("a.2", "a.3"):
        change(four, name, 70)
    until(lambda: set(shown(four).values()) == {70})
    answer = as_operator.get(f"{BULK}{job.pk}/undo/").json()
    assert (answer["count"], answer["changed_since"], answer["preview"]) == (0, 4, None)


def test_edit_is_undone_once(four: Broker, as_operator: APIClient, by: Actor) -> None:
    job = begun(four, by)
    finish(job.pk)
    change(four, "a.1", 70)
    path = f"{BULK}{job.pk}/"
    assert as_operator.get(path).json()["undoable"] == 4
    undo = begin_undo(by, job)
    assert as_operator.get(path).json()["undoable"] == 0  # while it runs
    assert f"bulk edit {undo.pk} is undoing this one" in post(as_operator, f"{path}undo/").json()["job"][0]
    finish(undo.pk)
    assert as_operator.get(path).json()["undoable"] == 1  # a.1, which was changed again
    change(four, "a.2", 5)  # a later, deliberate change to the same value
    change(four, "a.1", 5)
    finish(begin_undo(by, job).pk)
    assert capacities(four) == {"a.1": 100, "a.2": 5, "a.3": 100, "b.1": 100}
    assert as_operator.get(path).json()["undoable"] == 0
    refused = post(as_operator, f"{path}undo/")
    assert (refused.status_code, "has undone this one already" in refused.json()["job"][0]) == (400, True)
    assert as_operator.get(f"{path}undo/").status_code == 400
    assert capacities(four)["a.2"] == 5


def test_impact_of_many_different_values_is_previewed_in_parts(
    four: Broker, as_operator: APIClient, by: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An undo of 10,000 queues with different values does not fit one request to the broker."""
    for number, name in enumerate(("a.1", "a.2", "a.3", "b.1"), 91):
        change(four, name, number)
    job = begun(four, by)
    finish(job.pk)
    path = f"{BULK}{job.pk}/undo/"
    whole = as_operator.get(path).json()
    monkeypatch.setattr(preview_parts, "MOST_VALUES", 25)
    changes = [PolicyChange(queue(name), {"capacity_messages": n}) for n, name in enumerate("abcde")]
    assert [len(each) for each in preview_parts.requests_of(changes)] == [2, 2, 1]
    parts = as_operator.get(path).json()
    assert parts == whole
    assert (parts["count"], parts["preview"]["unblocked"]) == (4, 4)


def test_changes_of_other_objects_than_queues_are_not_previewed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preview_parts, "MOST_VALUES", 15)
    hosts = [PolicyChange(object_name("VirtualHost", name=name), {"capacity_messages": 1}) for name in "abcd"]
    with pytest.raises(InvalidValue, match="too many different changes"):
        preview_parts.requests_of(hosts)


# -- tasks ----------------------------------------------------------------------------------------------------------


def test_sweep_restarts_the_job_of_a_killed_worker_without_repeating_changes(four: Broker, by: Actor) -> None:
    job = begun(four, by)
    assert step(job.pk, "killed", count=2)
    assert tasks.sweep() == 0  # its lease has not expired
    BulkEdit.objects.update(lease_until=timezone.now() - timedelta(seconds=1), lease_holder="")
    assert tasks.sweep() == 1
    assert now(job).state == State.DONE
    assert now(job).counts()["done"] == 4
    assert AuditEntry.objects.filter(operation="update").count() == 4


def test_duplicate_task_message_does_not_repeat_changes(four: Broker, by: Actor) -> None:
    job = begun(four, by)
    tasks.carry_out.delay(job.pk)
    tasks.carry_out.delay(job.pk)
    assert AuditEntry.objects.filter(operation="update").count() == 4


def test_job_runs_in_slices_of_the_same_worker(four: Broker, by: Actor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "SLICE", 0.0)
    sent: list[tuple[Any, ...]] = []
    monkeypatch.setattr(tasks, "send", lambda task, *arguments: sent.append(arguments))
    monkeypatch.setattr(tasks, "step", lambda number, worker, **options: step(number, worker, 1, **options))
    job = begun(four, by)
    assert tasks.carry_out(job.pk) == "continues"
    assert now(job).counts()["done"] == 1
    ((number, worker),) = sent
    assert (number, worker) == (job.pk, now(job).worker)
    assert tasks.carry_out(job.pk, "another") == "finished"  # nothing to do: another worker owns the job
    assert now(job).counts()["done"] == 1


def test_job_of_a_disconnected_broker_is_retried_and_then_interrupted(four: Broker, by: Actor) -> None:
    job = begun(four, by)
    four.lose()
    assert tasks.carry_out.apply((job.pk,), retries=0).state in ("RETRY", "SUCCESS")
    assert now(job).state == State.INTERRUPTED  # after all retries, which are immediate in tests
    assert "cannot be reached" in now(job).error
    four.come_back()
    resume_bulk(by, now(job))
    tasks.carry_out.delay(job.pk)
    assert now(job).state == State.DONE
