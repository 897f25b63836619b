"""Bulk edits: which queues are meant, what comes of each, and that a job can be interrupted, resumed and undone."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.utils import timezone
from rest_framework.test import APIClient

from brokers.model import ObjectName, object_name
from console.access.actor import Actor
from console.audit.models import AuditEntry
from console.bulk import tasks
from console.bulk.editing import Selection, begin_bulk, begin_undo, interrupt_bulk, is_stalled, resume_bulk, step
from console.bulk.models import BulkEdit, State
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
def test_selection_tells_the_queues_it_means(
    four: Broker, as_viewer: APIClient, selection: dict[str, Any], names: list[str]
) -> None:
    told = post(as_viewer, f"{BULK}preview/", selection=selection).json()
    assert ([row["name"] for row in told["queues"]], told["count"]) == (names, len(names))
    assert told["preview"] is None


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
def test_selection_that_cannot_be_names_what_is_wrong(
    four: Broker, as_operator: APIClient, selection: dict[str, Any], field: str
) -> None:
    answer = post(as_operator, f"{BULK}preview/", selection=selection)
    assert (answer.status_code, list(answer.json())) == (400, [field])


def test_preview_weighs_all_queues_together(four: Broker, as_viewer: APIClient) -> None:
    told = post(as_viewer, f"{BULK}preview/", selection={"pattern": "a.>"}, attributes=FIVE).json()
    assert (told["preview"]["overfull"], told["preview"]["held"]) == (3, 3)
    assert capacities(four)["a.1"] == 100


def test_preview_tells_the_queues_that_would_refuse(four: Broker, as_viewer: APIClient) -> None:
    four.do(lambda memory: memory.management.update(queue("a.2"), {"flow_stop_messages": 50}, 1))
    told = post(as_viewer, f"{BULK}preview/", selection={}, attributes=FIVE).json()["preview"]
    assert (told["overfull"], told["refused"]) == (3, 1)
    assert told["refusals"][0]["object"] == str(queue("a.2"))


# -- doing it -------------------------------------------------------------------------------------------------------


def test_every_chosen_queue_is_changed_audited_and_counted(four: Broker, as_operator: APIClient) -> None:
    answer = post(as_operator, BULK, selection={"pattern": "a.>"}, attributes=FIVE, reason="tighten")
    assert answer.status_code == 201
    told = as_operator.get(f"{BULK}{answer.json()['id']}/").json()
    assert (told["state"], told["total"], told["counts"]["done"]) == ("done", 3, 3)
    assert capacities(four) == {"a.1": 5, "a.2": 5, "a.3": 5, "b.1": 100}
    rows = AuditEntry.objects.filter(operation="update")
    assert {(row.user_name, row.outcome, row.reason) for row in rows} == {
        ("olga", "done", f"bulk edit {told['id']}: tighten")
    }
    assert AuditEntry.objects.get(operation="bulk-edit").reason == "tighten"
    assert as_operator.get(BULK).json()["results"][0]["id"] == told["id"]


def test_failure_of_one_queue_is_reported_and_does_not_keep_the_others(four: Broker, by: Actor) -> None:
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


def test_queue_that_is_so_already_is_unchanged_and_one_that_has_gone_failed(four: Broker, by: Actor) -> None:
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
    assert now(job).error == "olga interrupted it"
    resume_bulk(by, job)
    finish(job.pk)
    assert set(capacities(four).values()) == {5}
    assert now(job).state == State.DONE


def test_lost_broker_interrupts_and_the_rest_is_done_after_it_is_back(four: Broker, by: Actor) -> None:
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


def test_job_of_another_worker_is_left_alone_until_its_lease_is_over(four: Broker, by: Actor) -> None:
    job = begun(four, by)
    assert step(job.pk, "first", count=1)
    assert not step(job.pk, "second")
    assert not is_stalled(now(job))
    BulkEdit.objects.filter(pk=job.pk).update(lease_until=timezone.now() - timedelta(seconds=1), lease_holder="")
    assert is_stalled(now(job))
    assert step(job.pk, "second", count=1)
    assert not step(job.pk, "first")
    assert job.counts()["done"] == 2


def test_undo_sets_what_was_before_but_not_what_was_changed_since(four: Broker, by: Actor) -> None:
    four.do(lambda memory: memory.management.update(queue("a.1"), {"capacity_messages": 70}, 1))
    job = begun(four, by, pattern="a.>")
    finish(job.pk)
    four.do(lambda memory: memory.management.update(queue("a.3"), {"capacity_messages": 9}, 2))
    undo = begin_undo(by, job)
    finish(undo.pk)
    assert capacities(four) == {"a.1": 70, "a.2": 100, "a.3": 9, "b.1": 100}
    assert undo.counts()["failed"] == 1
    assert "changed since" in undo.rows.get(state="failed").detail
    assert AuditEntry.objects.filter(operation="undo-bulk-edit").count() == 1


@pytest.mark.parametrize(
    ("attributes", "selection"),
    [({}, {}), ({"colour": 1}, {}), ({"durable": True}, {}), (FIVE, {"pattern": "nowhere"})],
    ids=str,
)
def test_edit_that_cannot_be_is_refused_and_no_job_is_kept(
    four: Broker, as_operator: APIClient, attributes: dict[str, Any], selection: dict[str, Any]
) -> None:
    assert post(as_operator, BULK, selection=selection, attributes=attributes).status_code == 400
    assert not BulkEdit.objects.exists()


def test_viewer_looks_at_jobs_and_steers_none(four: Broker, as_viewer: APIClient, by: Actor, viewer: User) -> None:
    assert post(as_viewer, BULK, selection={}, attributes=FIVE).status_code == 403
    assert AuditEntry.objects.get().outcome == "refused"
    job = begun(four, by)
    path = f"{BULK}{job.pk}/"
    assert as_viewer.get(path).status_code == as_viewer.get(f"{path}rows/").status_code == 200
    for action in ("resume", "interrupt", "undo"):
        assert post(as_viewer, f"{path}{action}/").status_code == 403, action
    assert set(capacities(four).values()) == {100}
    assert as_viewer.get(f"{BULK}999/").status_code == 404
    with pytest.raises(PermissionDenied):
        begin_bulk(Actor(viewer), four.link, Selection(), FIVE)


def test_who_lost_the_permission_changes_nothing_more(four: Broker, by: Actor) -> None:
    job = begun(four, by)
    step(job.pk, "test", count=1)
    User.objects.get(username="olga").groups.clear()
    assert not step(job.pk, "test")
    assert now(job).state == State.INTERRUPTED
    assert "role of policy editor" in job.error
    assert sorted(capacities(four).values()) == [5, 100, 100, 100]


def test_rows_are_told_by_state_in_pages(four: Broker, as_operator: APIClient, by: Actor) -> None:
    job = begun(four, by)
    step(job.pk, "test", count=3)
    told = as_operator.get(f"{BULK}{job.pk}/rows/?state=done&page_size=2").json()
    assert (told["count"], [row["before"] for row in told["results"]]) == (3, [{"capacity_messages": 100}] * 2)
    assert as_operator.get(f"{BULK}{job.pk}/rows/?state=sad").status_code == 400


def test_undo_is_previewed(four: Broker, as_operator: APIClient, by: Actor) -> None:
    job = begun(four, by)
    finish(job.pk)
    told = as_operator.get(f"{BULK}{job.pk}/undo/").json()
    assert (told["count"], told["preview"]["released"], told["preview"]["freed"]) == (4, 4, 4)


# -- in the workers -----------------------------------------------------------------------------------------------


def test_job_whose_worker_was_killed_goes_on_with_the_sweep_and_changes_nothing_twice(four: Broker, by: Actor) -> None:
    job = begun(four, by)
    assert step(job.pk, "killed", count=2)
    assert tasks.sweep() == 0  # its lease lasts: it may be at work
    BulkEdit.objects.update(lease_until=timezone.now() - timedelta(seconds=1), lease_holder="")
    assert tasks.sweep() == 1
    assert now(job).state == State.DONE
    assert now(job).counts()["done"] == 4
    assert AuditEntry.objects.filter(operation="update").count() == 4


def test_a_message_that_comes_twice_changes_nothing_twice(four: Broker, by: Actor) -> None:
    job = begun(four, by)
    tasks.carry_out.delay(job.pk)
    tasks.carry_out.delay(job.pk)
    assert AuditEntry.objects.filter(operation="update").count() == 4


def test_job_goes_on_in_slices_and_keeps_its_worker(four: Broker, by: Actor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "SLICE", 0.0)
    sent: list[tuple[Any, ...]] = []
    monkeypatch.setattr(tasks, "send", lambda task, *arguments: sent.append(arguments))
    monkeypatch.setattr(tasks, "step", lambda number, worker, patient: step(number, worker, 1, patient=patient))
    job = begun(four, by)
    assert tasks.carry_out(job.pk) == "goes on"
    assert now(job).counts()["done"] == 1
    ((number, worker),) = sent
    assert (number, worker) == (job.pk, now(job).worker)
    assert tasks.carry_out(job.pk, "another") == "nothing is left"  # it is not theirs
    assert now(job).counts()["done"] == 1


def test_broker_that_comes_back_is_waited_for_and_one_that_does_not_interrupts_the_job(four: Broker, by: Actor) -> None:
    job = begun(four, by)
    four.lose()
    assert tasks.carry_out.apply((job.pk,), retries=0).state in ("RETRY", "SUCCESS")
    assert now(job).state == State.INTERRUPTED  # after all retries, which come at once here
    assert "cannot be reached" in now(job).error
    four.come_back()
    resume_bulk(by, now(job))
    tasks.carry_out.delay(job.pk)
    assert now(job).state == State.DONE
