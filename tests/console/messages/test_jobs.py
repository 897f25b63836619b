"""Message jobs: each message is handled once, whatever becomes of worker, connection, target and user.

The broker is a stand-in (`standin.py`); `test_acts.py` has the same with the real engine.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.utils import timezone
from rest_framework.test import APIClient

from brokers import input_limits
from brokers.admin import BrokerUnreachable, InvalidValue, TryAgain
from brokers.input_checks import value_faults
from brokers.model import object_name
from console.access import administration
from console.access.actor import Actor
from console.access.models import ApiToken
from console.audit.models import AuditEntry
from console.messages import jobs, tasks
from console.messages.models import MessageJob, State
from console.operations.message_acts import Act
from console.permissions.rights import Grant, Role
from tests.console.conftest import Broker, signed_in
from tests.console.messages.standin import Killed, Messages, WithMessages
from tests.console.test_api import post

pytestmark = pytest.mark.django_db

JOBS = "/api/v1/message-jobs/"
A = object_name("Queue", virtualhost="default", name="a")


@pytest.fixture
def messages(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Messages:
    """Twenty messages in queue a, none in b; batches of 6, of copies 4."""
    monkeypatch.setattr(jobs, "BATCH", 6)
    monkeypatch.setattr(jobs, "COPY_BATCH", 4)
    made = Messages({"a": list(range(1, 21)), "b": []})
    broker.wrap = lambda admin: WithMessages(admin, made)
    for name in ("a", "b"):
        broker.memory.management.create(object_name("Queue", virtualhost="default", name=name), {})
    broker.connected()
    return made


@pytest.fixture
def by(operator: User) -> Actor:
    return Actor(operator, "127.0.0.1")


def begun(broker: Broker, by: Actor, action: str = "move", **match: Any) -> MessageJob:
    to = "b" if action in ("move", "copy") else ""
    return jobs.begin(by, broker.link, Act(action, A, to, match=match), reason="incident 7")


def now(job: MessageJob) -> MessageJob:
    job.refresh_from_db()
    return job


def finish(job: MessageJob, worker: str = "worker") -> MessageJob:
    while jobs.step(job.pk, worker):
        pass
    return now(job)


def worker_ended() -> None:
    """The worker's process has ended, or the pause of a job that waits is over."""
    MessageJob.objects.update(lease_until=timezone.now() - timedelta(seconds=1), lease_holder="")


def once(act: Callable[[], None]) -> Callable[[], None]:
    """Return a function that calls `act` the second time only."""
    calls = []

    def call() -> None:
        calls.append(1)
        if len(calls) == 2:
            act()

    return call


def kill() -> None:
    raise Killed


def lose() -> None:
    raise BrokerUnreachable("the connection to the broker was lost")


def texts() -> list[tuple[str, str, str]]:
    rows = AuditEntry.objects.order_by("id")
    return [(row.operation, row.outcome, row.detail) for row in rows]


# -- to the end -------------------------------------------------------------------------------------------------------


def test_all_messages_that_were_there_are_moved_once_and_counted(broker: Broker, messages: Messages, by: Actor) -> None:
    job = begun(broker, by)
    assert len(messages.queues["a"]) == 20
    messages.before = lambda: messages.arrive("a") and None  # during the job, which must not touch them
    job = finish(job)
    assert (job.state, job.messages, job.bytes, job.skipped) == (State.DONE, 20, 2000, 0)
    assert (len(messages.queues["b"]), len(messages.queues["a"])) == (20, 4)
    assert min(messages.queues["a"]) > 20
    assert (job.at_least, job.unconfirmed, job.finished is None) == (False, 0, False)


def test_begin_and_end_are_audited_with_reason_filter_and_counts(broker: Broker, messages: Messages, by: Actor) -> None:
    messages.acquired = {3}
    job = finish(begun(broker, by, "delete", min_bytes=5))
    begin, end = AuditEntry.objects.order_by("id")
    assert {row.operation for row in (begin, end)} == {"delete-messages"}
    assert {(row.user_name, row.reason, row.outcome, row.virtualhost) for row in (begin, end)} == {
        ("olga", "incident 7", "done", "default")
    }
    assert begin.detail == f'message job {job.pk} begins: match: {{"min_bytes": 5}}'
    assert end.detail == f"message job {job.pk} ends: messages: 19, bytes: 1900, skipped: 1"
    assert end.after == {"messages": 19, "bytes": 1900, "skipped": 1}
    assert messages.queues["a"] == [3]


def test_reason_and_user_are_sent_with_each_batch(broker: Broker, messages: Messages, by: Actor) -> None:
    job = finish(begun(broker, by))
    sent = [given for name, given in messages.calls if not given.get("preview")]
    assert {(given["actor"], given["reason"]) for given in sent} == {("olga", f"message job {job.pk}: incident 7")}


def test_longest_reason_is_sent_within_the_limit_of_the_broker(broker: Broker, messages: Messages, by: Actor) -> None:
    given = "x" * input_limits.REASON
    job = finish(jobs.begin(by, broker.link, Act("move", A, "b", match={}), reason=given))
    assert job.state == State.DONE
    sent = {given["reason"] for _, given in messages.calls if not given.get("preview")}
    assert sent == {f"message job {job.pk}: {given}"[: input_limits.REASON - 1] + "…"}
    assert not value_faults({"arguments": {"reason": sent.pop()}})


def test_ages_of_the_filter_are_those_at_the_beginning(broker: Broker, messages: Messages, by: Actor) -> None:
    job = begun(broker, by, older_than_ms=1000, newer_than_ms=5000, min_bytes=1)
    MessageJob.objects.filter(pk=job.pk).update(created=timezone.now() - timedelta(hours=1))
    finish(job)
    match = messages.calls[-1][1]["match"]
    assert 3_601_000 <= match["older_than_ms"] <= 3_700_000
    assert match["newer_than_ms"] == match["older_than_ms"] + 4000
    assert match["min_bytes"] == 1


# -- killed workers, lost connections ---------------------------------------------------------------------------------


@pytest.mark.parametrize("action", ["move", "retry", "delete"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_worker_loses_and_repeats_nothing(
    broker: Broker, messages: Messages, by: Actor, action: str, when: str
) -> None:
    messages.sources = dict.fromkeys(range(1, 21), "b")
    job = begun(broker, by, action)
    setattr(messages, when, once(kill))
    with pytest.raises(Killed):
        finish(job)
    assert not jobs.step(job.pk, "another")  # the lease has not ended
    worker_ended()
    assert jobs.is_stalled(now(job))
    job = finish(job, "another")
    assert job.state == State.DONE
    assert messages.queues["a"] == []
    assert len(messages.queues["b"]) == (0 if action == "delete" else 20)
    missed = 6 if when == "after" else 0
    assert (job.messages, job.at_least) == (20 - missed, True)
    assert "at_least: true" in texts()[-1][2]


@pytest.mark.parametrize("choice", ["repeat", "skip"])
@pytest.mark.parametrize("lost", list(itertools.product(["before", "after"], [kill, lose])))
def test_copy_with_a_lost_answer_asks_before_it_could_duplicate(
    broker: Broker, messages: Messages, by: Actor, lost: tuple[str, Callable[[], None]], choice: str
) -> None:
    when, cause = lost
    job = begun(broker, by, "copy")
    setattr(messages, when, once(cause))
    if cause is kill:
        with pytest.raises(Killed):
            finish(job)
    else:
        finish(job)
    worker_ended()
    job = finish(job, "another")
    assert (job.state, job.unconfirmed, job.messages) == (State.INTERRUPTED, 4, 4)
    assert "up to 4 messages may be in b already" in job.error
    assert messages.copies == list(range(1, 5 if when == "before" else 9))
    with pytest.raises(InvalidValue, match="unconfirmed is missing"):
        jobs.resume(by, job)
    jobs.resume(by, now(job), unconfirmed=choice)
    job = finish(job, "third")
    assert job.state == State.DONE
    # What can happen is what the message says, and nothing else: the second batch is there twice, or not at all.
    times = {n: messages.copies.count(n) for n in range(1, 21)}
    second = {("before", "skip"): 0, ("before", "repeat"): 1, ("after", "skip"): 1, ("after", "repeat"): 2}
    assert {times[n] for n in range(5, 9)} == {second[when, choice]}
    assert {times[n] for n in times if not 5 <= n < 9} == {1}
    assert messages.queues["a"] == list(range(1, 21))


def with_a_lost_batch(broker: Broker, messages: Messages, by: Actor) -> MessageJob:
    """Return a copy that is interrupted since its worker was killed after the second batch, before the answer."""
    job = begun(broker, by, "copy")
    messages.after = once(kill)
    with pytest.raises(Killed):
        finish(job)
    worker_ended()
    return finish(job, "another")


@pytest.mark.parametrize("passed_over", ["acquired", "too_large"])
def test_skipped_batch_has_the_messages_that_the_copy_has_made(
    broker: Broker, messages: Messages, by: Actor, passed_over: str
) -> None:
    others = {2, 5, 6, 7, 8}  # before and within the batch whose answer is lost
    setattr(messages, passed_over, others)
    job = with_a_lost_batch(broker, messages, by)
    assert messages.copies == [1, 3, 4, 9, 10, 11, 12, 13]  # the second batch, too
    jobs.resume(by, now(job), unconfirmed="skip")
    job = finish(job)
    assert messages.copies == [n for n in range(1, 21) if n not in others]  # each once
    assert (job.state, job.messages, job.at_least) == (State.DONE, 11, True)
    assert "at_least: true" in texts()[-1][2]


def test_count_of_a_copy_whose_batch_is_repeated_says_that_it_is_the_least(
    broker: Broker, messages: Messages, by: Actor
) -> None:
    job = with_a_lost_batch(broker, messages, by)
    jobs.resume(by, now(job), unconfirmed="repeat")
    assert (finish(job).messages, len(messages.copies)) == (20, 24)
    assert texts()[-1][2] == f"message job {job.pk} ends: messages: 20, bytes: 2000, skipped: 0, at_least: true"


def test_skipping_the_last_batch_of_a_copy_ends_the_job(broker: Broker, messages: Messages, by: Actor) -> None:
    messages.queues["a"] = [1, 2]
    job = begun(broker, by, "copy")
    messages.after = kill
    with pytest.raises(Killed):
        finish(job)
    worker_ended()
    job = finish(job, "another")
    messages.after = lambda: None
    jobs.resume(by, job, unconfirmed="skip")
    assert finish(job).state == State.DONE
    assert messages.copies == [1, 2]
    assert texts()[-1][2] == f"message job {job.pk} ends: messages: 0, bytes: 0, skipped: 0, at_least: true"


def test_lost_connection_is_waited_for(broker: Broker, messages: Messages, by: Actor) -> None:
    job = begun(broker, by)
    assert jobs.step(job.pk, "worker")
    broker.lose()
    job = finish(job)
    assert (job.state, "cannot be reached" in job.blocked, job.unconfirmed) == (State.RUNNING, True, 0)
    assert not jobs.is_stalled(job)
    broker.come_back()
    worker_ended()
    job = finish(job, "another")
    assert (job.state, job.messages, job.at_least, job.blocked) == (State.DONE, 20, False, "")


def test_answer_that_was_lost_is_unconfirmed_and_the_move_goes_on(
    broker: Broker, messages: Messages, by: Actor
) -> None:
    job = begun(broker, by)
    messages.after = once(lose)
    job = finish(job)
    assert (job.state, job.messages, job.unconfirmed) == (State.RUNNING, 6, 6)
    worker_ended()
    job = finish(job)
    assert (job.state, job.messages, job.at_least) == (State.DONE, 14, True)
    assert (messages.queues["a"], len(messages.queues["b"])) == ([], 20)


@pytest.mark.parametrize("action", ["move", "copy"])
def test_store_that_cannot_be_read_now_is_waited_for(
    broker: Broker, messages: Messages, by: Actor, action: str
) -> None:
    why = "the stored messages of queue a cannot be read now: try again"

    def fail() -> None:
        raise TryAgain(why)

    job = begun(broker, by, action)
    messages.before = once(fail)
    job = finish(job)
    assert (job.state, job.blocked, job.unconfirmed) == (State.RUNNING, why, 0)
    assert not jobs.is_stalled(job)
    worker_ended()
    job = finish(job)
    assert (job.state, job.messages, job.at_least, job.blocked) == (State.DONE, 20, False, "")


# -- blocked targets --------------------------------------------------------------------------------------------------


def test_blocked_target_is_waited_for_and_nothing_is_forced_into_it(
    broker: Broker, messages: Messages, by: Actor
) -> None:
    messages.room["b"] = 8
    job = finish(begun(broker, by))
    assert (job.state, job.blocked, job.messages) == (State.RUNNING, "queue b is overfull", 8)
    assert len(messages.queues["b"]) == 8
    for _ in range(3):
        worker_ended()
        job = finish(job)
    assert (job.messages, job.waits) == (8, 4)
    messages.room["b"] = 100
    worker_ended()
    job = finish(job)
    assert (job.state, job.messages, job.blocked, job.waits) == (State.DONE, 20, "", 0)
    assert (messages.queues["a"], len(messages.queues["b"])) == ([], 20)


def test_copy_into_a_blocked_target_goes_on_where_it_was(broker: Broker, messages: Messages, by: Actor) -> None:
    messages.room["b"] = 6
    job = finish(begun(broker, by, "copy"))
    assert (job.state, job.messages) == (State.RUNNING, 6)
    messages.room["b"] = 100
    worker_ended()
    assert finish(job).state == State.DONE
    assert messages.copies == list(range(1, 21))


def test_pauses_grow_and_have_a_limit(broker: Broker, messages: Messages, by: Actor) -> None:
    messages.room["b"] = 0
    job = begun(broker, by)
    pauses = []
    for _ in range(7):
        worker_ended()
        job = finish(job)
        assert job.lease_until is not None
        pauses.append(round((job.lease_until - timezone.now()).total_seconds()))
    assert [abs(pause - wanted) <= 1 for pause, wanted in zip(pauses, [2, 4, 8, 16, 30, 30, 30], strict=True)] == [
        True
    ] * 7
    assert job.pk not in jobs.due()


def test_sweep_goes_on_with_a_job_whose_pause_is_over(broker: Broker, messages: Messages, by: Actor) -> None:
    messages.room["b"] = 8
    job = finish(begun(broker, by))
    assert tasks.sweep() == 0
    messages.room["b"] = 100
    worker_ended()
    assert tasks.sweep() == 1
    assert now(job).state == State.DONE


# -- steering ---------------------------------------------------------------------------------------------------------


def test_interrupted_job_does_nothing_until_it_is_resumed(broker: Broker, messages: Messages, by: Actor) -> None:
    job = begun(broker, by)
    assert jobs.step(job.pk, "worker")
    jobs.interrupt(by, job, reason="wait")
    assert not jobs.step(job.pk, "worker")
    assert (now(job).state, job.messages, job.error) == (State.INTERRUPTED, 6, "interrupted by olga")
    jobs.resume(by, job)
    job = finish(job, "another")
    assert (job.state, job.messages) == (State.DONE, 20)
    assert [row[0] for row in texts()] == [
        "move-messages",
        "interrupt-message-job",
        "resume-message-job",
        "move-messages",
    ]
    with pytest.raises(InvalidValue, match="is done"):
        jobs.resume(by, job)


def test_interrupt_during_a_batch_loses_no_counts(broker: Broker, messages: Messages, by: Actor) -> None:
    job = begun(broker, by)
    state = {"state": State.INTERRUPTED, "error": "interrupted by olga"}
    original = jobs._counted

    def counted(*given: Any) -> bool:
        MessageJob.objects.filter(pk=job.pk).update(**state)  # while the broker does the batch
        return original(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jobs, "_counted", counted)
        jobs.step(job.pk, "worker")
    assert not jobs.step(job.pk, "worker")
    assert (now(job).state, job.messages, job.unconfirmed, job.after) == (State.INTERRUPTED, 6, 0, "6")


def test_copy_that_is_interrupted_during_its_last_batch_copies_it_once(
    broker: Broker, messages: Messages, by: Actor
) -> None:
    messages.queues["a"] = [1, 2, 3]
    job = begun(broker, by, "copy")
    counted = jobs._counted

    def interrupted(*given: Any) -> bool:
        jobs.interrupt(by, job)  # while the broker does the batch
        return counted(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jobs, "_counted", interrupted)
        job = finish(job)
    assert (job.state, job.messages, job.unconfirmed, job.error) == (State.DONE, 3, 0, "")
    assert [row[0] for row in texts()] == ["copy-messages", "interrupt-message-job", "copy-messages"]
    assert "ends: messages: 3" in texts()[-1][2]
    with pytest.raises(InvalidValue, match="is done"):
        jobs.resume(by, job)
    assert (messages.copies, jobs.due()) == ([1, 2, 3], [])


def test_copy_whose_worker_is_killed_at_its_end_repeats_nothing_without_a_choice(
    broker: Broker, messages: Messages, by: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages.queues["a"] = [1, 2, 3]
    job = begun(broker, by, "copy")

    def killed(*_: Any, **__: Any) -> None:
        raise Killed  # after the counts, before the audit row

    with monkeypatch.context() as patch:
        patch.setattr(jobs, "happened", killed)
        with pytest.raises(Killed):
            finish(job)
    worker_ended()
    job = finish(job, "another")
    assert (job.state, job.unconfirmed, messages.copies) == (State.INTERRUPTED, 4, [1, 2, 3])


def test_job_of_a_user_who_lost_the_role_is_interrupted(broker: Broker, messages: Messages, by: Actor) -> None:
    job = begun(broker, by)
    jobs.step(job.pk, "worker")
    User.objects.get(username="olga").groups.clear()
    job = finish(job)
    assert (job.state, "role of operator" in job.error, job.messages) == (State.INTERRUPTED, True, 6)
    assert len(messages.queues["a"]) == 14
    assert texts()[-1][1] == "failed"


def begun_with_token(broker: Broker, messages: Messages, operator: User) -> tuple[MessageJob, ApiToken]:
    """A move by a request with an API token of the operator, which waits after 8 messages."""
    token, secret = administration.create_token(Actor(operator), "cli", [Grant(Role.OPERATOR)], days=1)
    messages.room["b"] = 8
    client = APIClient(HTTP_AUTHORIZATION=f"Bearer {secret}")
    answer = post(client, "/api/v1/messages/move/", object=str(A), match={}, to="b", reason="r")
    assert answer.status_code == 202, answer.content
    messages.room.clear()
    worker_ended()
    job = MessageJob.objects.get()
    assert (job.state, job.messages) == (State.RUNNING, 8)
    return job, token


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"revoked": timezone.now()}, "the API token cli, with which the job was begun, is revoked"),
        ({"expires": timezone.now() - timedelta(days=1)}, "is expired"),
        ({"grants": [["viewer", "", ""]]}, "role of operator"),
        (None, "no longer exists"),
    ],
    ids=["revoked", "expired", "narrowed", "deleted"],
)
def test_job_has_no_more_rights_than_its_token_at_each_batch(
    broker: Broker, messages: Messages, operator: User, change: dict[str, Any] | None, why: str
) -> None:
    job, token = begun_with_token(broker, messages, operator)
    this = ApiToken.objects.filter(pk=token.pk)
    this.delete() if change is None else this.update(**change)
    job = finish(job)
    assert (job.state, why in job.error, job.messages) == (State.INTERRUPTED, True, 8)
    assert len(messages.queues["a"]) == 12
    jobs.resume(Actor(operator), job)  # by its owner without the token
    assert finish(job).state == State.DONE


def test_resume_by_another_user_gives_a_job_no_more_rights_than_its_token(
    broker: Broker, messages: Messages, operator: User, administrator: User
) -> None:
    job, token = begun_with_token(broker, messages, operator)
    ApiToken.objects.filter(pk=token.pk).update(revoked=timezone.now())
    jobs.resume(Actor(administrator), finish(job))
    assert (finish(job).state, len(messages.queues["a"])) == (State.INTERRUPTED, 12)


def test_job_of_a_usable_token_goes_on(broker: Broker, messages: Messages, operator: User) -> None:
    job, _ = begun_with_token(broker, messages, operator)
    assert finish(job).state == State.DONE


def test_job_of_a_queue_or_broker_that_is_gone_is_interrupted(
    broker: Broker, messages: Messages, by: Actor, settings: Any
) -> None:
    job, other = begun(broker, by), begun(broker, by)
    del messages.queues["a"]
    assert (finish(job).state, "there is no queue a" in now(job).error) == (State.INTERRUPTED, True)
    assert job.unconfirmed == 0  # it was refused
    MessageJob.objects.filter(pk=other.pk).update(broker="gone")
    assert (finish(other).state, "gone" in now(other).error) == (State.INTERRUPTED, True)


def test_two_workers_never_do_the_same_batch(broker: Broker, messages: Messages, by: Actor) -> None:
    job = begun(broker, by)
    assert jobs.step(job.pk, "first")
    assert not jobs.step(job.pk, "second")
    tasks.carry_out.delay(job.pk)
    assert now(job).messages == 6
    assert jobs.step(job.pk, "first")
    assert now(job).messages == 12


def test_job_runs_in_slices(broker: Broker, messages: Messages, by: Actor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "SLICE", 0.0)
    sent: list[tuple[Any, ...]] = []
    monkeypatch.setattr(tasks, "send", lambda task, *arguments: sent.append(arguments))
    job = begun(broker, by)
    assert tasks.carry_out(job.pk) == "continues"
    ((number, worker),) = sent
    assert (number, worker, now(job).messages) == (job.pk, job.worker, 6)


def test_finished_jobs_are_deleted_after_their_retention(broker: Broker, messages: Messages, by: Actor) -> None:
    old, recent, waiting = finish(begun(broker, by)), finish(begun(broker, by)), begun(broker, by)
    MessageJob.objects.filter(pk=old.pk).update(finished=timezone.now() - tasks.RETENTION - timedelta(days=1))
    assert tasks.forget() == 1
    assert set(MessageJob.objects.values_list("pk", flat=True)) == {recent.pk, waiting.pk}


# -- by the API -------------------------------------------------------------------------------------------------------


def test_filter_begins_a_job_that_the_api_shows(messages: Messages, as_operator: APIClient) -> None:
    answer = post(as_operator, "/api/v1/messages/move/", object=str(A), match={}, to="b", reason="r")
    assert answer.status_code == 202
    shown = as_operator.get(f"{JOBS}{answer.json()['job']['id']}/").json()
    assert (shown["state"], shown["messages"], shown["action"], shown["to"]) == ("done", 20, "move", "b")
    assert as_operator.get(f"{JOBS}?object={A}").json()["results"] == [shown]
    assert as_operator.get(f"{JOBS}?object=type%3DQueue%2Cvirtualhost%3Dx%2Cname%3Dy").json()["count"] == 0
    assert as_operator.get(f"{JOBS}999/").status_code == 404


def test_interrupt_and_resume_by_the_api(
    broker: Broker, messages: Messages, by: Actor, as_operator: APIClient, viewer: User
) -> None:
    job = begun(broker, by, "copy")
    path, as_viewer = f"{JOBS}{job.pk}/", signed_in(viewer)
    assert [post(as_viewer, f"{path}{verb}/").status_code for verb in ("interrupt", "resume")] == [403, 403]
    assert as_viewer.get(path).json()["state"] == "running"
    assert post(as_operator, f"{path}interrupt/").json()["state"] == "interrupted"
    MessageJob.objects.update(unconfirmed=4)
    refused = post(as_operator, f"{path}resume/")
    assert (refused.status_code, list(refused.json())) == (400, ["unconfirmed"])
    assert post(as_operator, f"{path}resume/", unconfirmed="perhaps").status_code == 400
    assert post(as_operator, f"{path}resume/", unconfirmed="repeat").json()["state"] == "done"


def test_viewer_begins_no_job(broker: Broker, messages: Messages, viewer: User) -> None:
    with pytest.raises(PermissionDenied):
        begun(broker, Actor(viewer))
    assert not MessageJob.objects.exists()
    assert AuditEntry.objects.get().outcome == "refused"
