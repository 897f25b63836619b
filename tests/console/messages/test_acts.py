"""Move, copy, retry, delete and publish by the API, with the real engine in memory."""

from __future__ import annotations

import base64
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from brokers.testing import InMemoryBroker
from console.audit.models import AuditEntry
from console.messages import jobs
from console.messages.models import MessageJob, State
from console.permissions.rights import Role
from tests.console.conftest import Broker
from tests.console.messages.conftest import (
    BODY,
    MESSAGES,
    ORDERS,
    depth,
    encoded,
    ids,
    listed,
    queue,
    with_role,
)

pytestmark = pytest.mark.django_db


def act(client: APIClient, action: str, **body: Any) -> Any:
    return client.post(f"{MESSAGES}{action}/", {"object": str(ORDERS), **body}, format="json")


def job_of(answer: Any) -> MessageJob:
    assert answer.status_code == 202, answer.content
    return MessageJob.objects.get(pk=answer.json()["job"]["id"])


class Killed(BaseException):
    """The worker's process is killed."""


def killed_after_the_batch(job: MessageJob) -> None:
    """Let a worker do a batch and be killed before it stores the answer."""

    def kill(*arguments: Any) -> bool:
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jobs, "_counted", kill)
        with pytest.raises(Killed):
            jobs.step(job.pk, job.worker or "killed")


def numbers(client: APIClient, name: str) -> list[int]:
    return [row["application_properties"]["n"] for row in listed(client, name)]


def test_named_messages_are_moved_with_one_audit_row(olga: APIClient, orders: Broker) -> None:
    named = ids(olga)[2:5]
    answer = act(olga, "move", ids=named, to="later", reason="incident 7").json()
    assert (answer["messages"], answer["skipped"], answer["blocked"], answer["complete"]) == (3, [], "", True)
    assert numbers(olga, "later") == [2, 3, 4]
    assert numbers(olga, "orders") == [0, 1, 5, 6, 7, 8, 9]
    row = AuditEntry.objects.get()
    assert (row.operation, row.reason, row.outcome, row.virtualhost) == (
        "move-messages",
        "incident 7",
        "done",
        "default",
    )
    assert (row.after or {})["messages"] == 3
    assert named[0] in row.detail


def dead_letter_queue(broker: Broker, name: str) -> None:
    def act_on(memory: InMemoryBroker) -> None:
        version = memory.management.read(ORDERS).version
        memory.management.update(ORDERS, {"dead_letter_queue": name or None}, version)

    broker.do(act_on)


@pytest.mark.parametrize("which", [{"ids": True}, {"match": {}}])
def test_dead_letter_queue_of_the_move_is_that_of_the_moment_and_of_the_preview(
    olga: APIClient, orders: Broker, which: dict[str, Any]
) -> None:
    chosen = {"ids": ids(olga)[:2]} if "ids" in which else which
    seen = act(olga, "move", **chosen, dead_letter=True, preview=True).json()
    assert seen["to"] == "dead"
    dead_letter_queue(orders, "later")  # while the dialog is open
    refused = act(olga, "move", **chosen, dead_letter=True, to=seen["to"])
    assert refused.status_code == 409
    assert "is later by now, and not dead" in refused.json()["detail"]
    assert (depth(orders, "dead"), depth(orders, "later")) == (0, 0)
    assert act(olga, "move", **chosen, dead_letter=True, preview=True).json()["to"] == "later"
    assert act(olga, "move", **chosen, dead_letter=True, to="later").status_code in (200, 202)
    assert depth(orders, "later") > 0
    (letter, *_) = listed(olga, "later")
    assert letter["dead_letter"]["reason"] == "moved-by-operator"


def test_move_needs_a_target_or_a_dead_letter_queue(olga: APIClient, orders: Broker) -> None:
    (first, *_) = ids(olga)
    assert list(act(olga, "move", ids=[first]).json()) == ["to"]
    dead_letter_queue(orders, "")
    answer = act(olga, "move", ids=[first], dead_letter=True)
    assert (answer.status_code, list(answer.json())) == (400, ["dead_letter"])
    gone = act(olga, "move", ids=[first], dead_letter=True, to="dead")
    assert (gone.status_code, "there is none by now" in gone.json()["detail"]) == (409, True)
    assert depth(orders, "orders") == 10


def test_copies_stay_and_deleted_messages_do_not(olga: APIClient, orders: Broker) -> None:
    first, second, *_ = ids(olga)
    assert act(olga, "copy", ids=[first], to="later").json()["messages"] == 1
    assert (depth(orders, "orders"), depth(orders, "later")) == (10, 1)
    assert act(olga, "delete", ids=[first, second]).json()["messages"] == 2
    assert (depth(orders, "orders"), depth(orders, "later")) == (8, 1)


def test_acquired_and_missing_messages_are_skipped_with_the_reason(olga: APIClient, orders: Broker) -> None:
    named = ids(olga)

    def acquire(memory: Any) -> None:
        consumer = memory.attach_consumer("orders")
        consumer.credit = 1
        consumer.queue.touch()
        memory.advance(50)

    orders.do(acquire)
    act(olga, "delete", ids=[named[1]])
    answer = act(olga, "move", ids=named[:3], to="later").json()
    assert (answer["messages"], answer["skipped_messages"]) == (1, 2)
    assert {each["id"]: each["why"] for each in answer["skipped"]} == {
        named[0]: "a consumer has acquired it",
        named[1]: "it is not in the queue",
    }


@pytest.mark.parametrize("action", ["move", "copy", "retry", "delete"])
@pytest.mark.parametrize("which", ["ids", "match"])
def test_preview_counts_and_changes_nothing(vera: APIClient, orders: Broker, action: str, which: str) -> None:
    chosen = {"ids": ids(vera)[:3]} if which == "ids" else {"match": {"selector": "n < 3"}}
    to = {"to": "later"} if action in ("move", "copy") else {}
    answer = act(vera, action, **chosen, **to, preview=True)
    assert answer.status_code == 200, answer.content
    expected = (0, 3) if action == "retry" else (3, 0)  # they are no dead letters
    assert (answer.json()["messages"], answer.json()["skipped_messages"], answer.json()["complete"]) == (
        *expected,
        True,
    )
    assert (depth(orders, "orders"), depth(orders, "later")) == (10, 0)
    assert not AuditEntry.objects.exists()
    assert not MessageJob.objects.exists()


def test_preview_says_that_the_target_is_blocked_and_still_counts_all(vera: APIClient, orders: Broker) -> None:
    orders.do(lambda memory: memory.publish_encoded("small", *(encoded() for _ in range(4))))
    answer = act(vera, "move", match={}, to="small", preview=True).json()
    assert (answer["messages"], answer["complete"], "overfull" in answer["blocked"]) == (10, True, True)


def test_target_takes_no_more_than_its_flow_control_allows(olga: APIClient, orders: Broker) -> None:
    answer = act(olga, "move", ids=ids(olga), to="small").json()
    moved = answer["messages"]
    assert 2 <= moved <= 3
    assert ("small" in answer["blocked"], answer["complete"]) == (True, False)
    assert (depth(orders, "orders"), depth(orders, "small")) == (10 - moved, moved)


def test_job_waits_for_the_target_and_goes_on(olga: APIClient, orders: Broker) -> None:
    job = job_of(act(olga, "move", match={}, to="small", reason="r"))
    moved = []
    for _ in range(20):
        MessageJob.objects.update(lease_until=timezone.now() - timedelta(seconds=1), lease_holder="")
        while jobs.step(job.pk, "worker"):
            pass
        job.refresh_from_db()
        moved.append(depth(orders, "small"))
        if job.state == State.DONE:
            break
        assert (job.state, bool(job.blocked)) == (State.RUNNING, True)
        orders.do(lambda memory: memory.consume(memory.attach_consumer("small"), 10))
    assert (job.state, job.messages, depth(orders, "orders")) == (State.DONE, 10, 0)
    assert max(moved) <= 3


def test_job_of_a_filter_with_kills_handles_each_message_once(
    olga: APIClient, orders: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker is killed after each batch that the broker did, before its answer is stored."""
    monkeypatch.setattr(jobs, "BATCH", 3)
    monkeypatch.setattr("console.api.message_acts.send", lambda *arguments: None)
    job = job_of(act(olga, "move", match={"selector": "n <> 4"}, to="later"))

    for _ in range(3):
        killed_after_the_batch(job)
        MessageJob.objects.update(lease_until=timezone.now() - timedelta(seconds=1), lease_holder="")
        orders.do(lambda memory: memory.publish_encoded("orders", encoded(properties={"n": 100})))
    while jobs.step(job.pk, "another"):
        pass
    job.refresh_from_db()
    assert (job.state, job.at_least) == (State.DONE, True)
    assert numbers(olga, "later") == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    assert numbers(olga, "orders") == [4, 100, 100, 100]


def progress(client: APIClient, job: MessageJob) -> tuple[int | None, int]:
    shown = client.get(f"/api/v1/message-jobs/{job.pk}/").json()
    assert shown["depth"] in (10, None)
    return shown["percent"], shown["searched"]


@pytest.mark.parametrize("action", ["move", "copy"])
def test_progress_is_the_part_of_the_depth_at_the_beginning(
    olga: APIClient, orders: Broker, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    monkeypatch.setattr(jobs, "BATCH", 3)
    monkeypatch.setattr(jobs, "COPY_BATCH", 3)
    monkeypatch.setattr("console.api.message_acts.send", lambda *arguments: None)
    job = job_of(act(olga, action, match={}, to="later"))
    shown = [progress(olga, job)]
    while jobs.step(job.pk, "worker"):
        shown.append(progress(olga, job))
        orders.do(lambda memory: memory.publish_encoded("orders", encoded(properties={"n": 100})))  # not searched
    assert [*shown, progress(olga, job)] == [(0, 0), (30, 3), (60, 6), (90, 9), (100, 10)]


def test_progress_with_the_skipped_batch_of_a_copy(
    olga: APIClient, orders: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "COPY_BATCH", 4)
    monkeypatch.setattr("console.api.message_acts.send", lambda *arguments: None)
    job = job_of(act(olga, "copy", match={}, to="later"))
    killed_after_the_batch(job)
    MessageJob.objects.update(lease_until=timezone.now() - timedelta(seconds=1), lease_holder="")
    assert not jobs.step(job.pk, "second")
    assert progress(olga, job) == (0, 0)
    assert (
        olga.post(f"/api/v1/message-jobs/{job.pk}/resume/", {"unconfirmed": "skip"}, format="json").status_code == 200
    )
    assert progress(olga, job) == (40, 4)
    while jobs.step(job.pk, "third"):
        pass
    assert progress(olga, job) == (100, 10)


def test_progress_above_the_depth_and_of_jobs_saved_before_is_not_known(olga: APIClient, orders: Broker) -> None:
    job = job_of(act(olga, "move", match={}, to="small"))
    shown = []
    for _ in range(12):  # each attempt searches again the message that the target refuses
        MessageJob.objects.update(lease_until=timezone.now() - timedelta(seconds=1), lease_holder="")
        assert not jobs.step(job.pk, "worker")
        shown.append(progress(olga, job))
    orders.do(lambda memory: memory.consume(memory.attach_consumer("small"), 10))
    assert all(percent == (None if searched > 10 else min(99, 10 * searched)) for percent, searched in shown)
    assert {percent for percent, _ in shown} > {99, None}
    MessageJob.objects.update(depth=None, searched=1)
    assert progress(olga, job) == (None, 1)
    MessageJob.objects.update(state=State.DONE)
    assert progress(olga, job) == (100, 1)


@pytest.mark.parametrize("choice", ["repeat", "skip"])
def test_copy_that_was_killed_goes_on_as_its_user_chooses(
    olga: APIClient, orders: Broker, monkeypatch: pytest.MonkeyPatch, choice: str
) -> None:
    monkeypatch.setattr(jobs, "COPY_BATCH", 4)
    monkeypatch.setattr("console.api.message_acts.send", lambda *arguments: None)
    job = job_of(act(olga, "copy", match={}, to="later"))
    assert jobs.step(job.pk, "first")
    job.refresh_from_db()
    killed_after_the_batch(job)
    MessageJob.objects.update(lease_until=timezone.now() - timedelta(seconds=1), lease_holder="")
    assert not jobs.step(job.pk, "second")
    path = f"/api/v1/message-jobs/{job.pk}/"
    assert olga.get(path).json()["unconfirmed"] == 4
    assert olga.post(f"{path}resume/", {"unconfirmed": choice}, format="json").status_code == 200
    while jobs.step(job.pk, "third"):
        pass
    job.refresh_from_db()
    assert job.state == State.DONE
    twice = [4, 5, 6, 7] if choice == "repeat" else []
    assert sorted(numbers(olga, "later")) == sorted([*range(10), *twice])
    assert depth(orders, "orders") == 10


def test_dead_letters_are_listed_by_reason_and_go_back(olga: APIClient, orders: Broker) -> None:
    orders.do(lambda memory: memory.publish_encoded("dead", *_dead(3)))
    orders.do(lambda memory: memory.publish_encoded("dead", encoded(properties={"n": 50})))
    dead = {"object": str(queue("dead"))}
    (row,) = olga.get("/api/v1/dead-letters/").json()["results"]
    assert (row["object"], row["depth_messages"], row["sources"]) == (str(queue("dead")), 4, 1)
    summary = olga.get(f"{MESSAGES}summary/", dead).json()
    assert [(g["reason"], g["queue"], g["messages"]) for g in summary["groups"]] == [
        ("rejected", "orders", 3),
        ("", "", 1),
    ]
    assert summary["complete"] is True
    answer = olga.post(
        f"{MESSAGES}retry/", {**dead, "match": {"dead_letter_reason": "rejected"}, "reason": "mended"}, format="json"
    )
    job = job_of(answer)
    assert (job.state, job.messages) == (State.DONE, 3)
    assert numbers(olga, "orders")[-3:] == [20, 21, 22]
    assert listed(olga)[-1]["dead_letter"] is None
    assert numbers(olga, "dead") == [50]


def test_messages_sent_to_the_dead_letter_queue_are_counted_by_reason_and_go_back(
    olga: APIClient, orders: Broker
) -> None:
    chosen = {"object": str(ORDERS), "ids": ids(olga)[:3], "to": "dead", "reason": "poison"}
    assert olga.post(f"{MESSAGES}move/", chosen, format="json").json()["messages"] == 3
    dead = {"object": str(queue("dead"))}
    summary = olga.get(f"{MESSAGES}summary/", dead).json()
    assert [(g["reason"], g["queue"], g["messages"]) for g in summary["groups"]] == [("moved-by-operator", "orders", 3)]
    assert numbers(olga, "dead") == [0, 1, 2]
    answer = olga.post(
        f"{MESSAGES}retry/", {**dead, "match": {"dead_letter_reason": "moved-by-operator"}}, format="json"
    )
    assert (job_of(answer).messages, numbers(olga, "orders")[-3:]) == (3, [0, 1, 2])


def _dead(count: int) -> list[bytes]:
    from brokers.amqp.dead_letter import as_dead_letter

    return [as_dead_letter(encoded(properties={"n": 20 + n}), "rejected", "orders", 1, "") for n in range(count)]


@pytest.mark.parametrize("role", [role for role in Role if role not in (Role.OPERATOR, Role.ADMIN)])
def test_other_roles_act_on_nothing_by_any_way(orders: Broker, role: Role) -> None:
    client = with_role("nina", role)
    named = ids(client)[:1]
    for action, more in (("move", {"to": "later"}), ("copy", {"to": "later"}), ("retry", {}), ("delete", {})):
        for chosen in ({"ids": named}, {"match": {}}):
            assert act(client, action, **chosen, **more).status_code == 403
        path = f"/api/v1/brokers/local/objects/{ORDERS}/operations/{action}-messages/"
        assert client.post(path, {"arguments": {"ids": named, **more}}, format="json").status_code == 403
    assert (depth(orders, "orders"), depth(orders, "later")) == (10, 0)
    assert {row.outcome for row in AuditEntry.objects.all()} == {"refused"}
    assert not MessageJob.objects.exists()


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "ids"),
        ({"ids": ["1"], "match": {}}, "ids"),
        ({"ids": []}, "ids"),
        ({"ids": ["1"] * 1001}, "ids"),
        ({"ids": "1"}, "ids"),
        ({"ids": [1]}, "ids"),
        ({"ids": ["x" * 201]}, "ids"),
        ({"ids": ["nonsense"]}, "ids"),
        ({"match": {"colour": "red"}}, "colour"),
        ({"match": {"min_bytes": -1}}, "min_bytes"),
        ({"match": {"min_bytes": "1"}}, "min_bytes"),
        ({"match": {"state": "lost"}}, "state"),
        ({"match": {"properties": ["a"]}}, "properties"),
        ({"match": {"properties": {"a": 1}}}, "properties"),
        ({"match": {"ids": ["1"]}}, "ids"),
        ({"match": {"selector": "n >"}}, "match"),
        ({"match": None}, "match"),
        ({"ids": ["1-4-00000000"], "to": ""}, "to"),
        ({"ids": ["1-4-00000000"], "to": "orders"}, "to"),
        ({"ids": ["1-4-00000000"], "to": "x" * 256}, "to"),
        ({"ids": ["1-4-00000000"], "object": "type=Broker"}, "object"),
        ({"ids": ["1-4-00000000"], "reason": "x" * 1001}, "reason"),
        ({"ids": ["1-4-00000000"], "preview": "yes"}, "preview"),
        ({"ids": ["1-4-00000000"], "until": "5"}, "until"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_absurd_request_is_refused_by_the_field(
    olga: APIClient, orders: Broker, body: dict[str, Any], field: str
) -> None:
    answer = act(olga, "move", **{"to": "later", **body})
    assert answer.status_code == 400, answer.content
    assert field in answer.json() or (field == "match" and "selector" in str(answer.json())), answer.content
    assert depth(orders, "orders") == 10
    assert not MessageJob.objects.exists()


def test_target_that_does_not_exist_is_refused_before_a_job_begins(olga: APIClient, orders: Broker) -> None:
    for chosen in ({"match": {}}, {"ids": ids(olga)[:1]}):
        answer = act(olga, "move", **chosen, to="nowhere")
        assert (answer.status_code, "nowhere" in answer.json()["detail"]) == (404, True)
    assert not MessageJob.objects.exists()


# -- publish ----------------------------------------------------------------------------------------------------------


def test_publisher_publishes_text_and_bytes_with_properties(paul: APIClient, reader_of_all: APIClient) -> None:
    answer = act(
        paul, "publish", body=BODY.decode(), properties={"subject": "s"}, application_properties={"n": 77}, priority=5,
        ttl="10m", reason="try",
    )  # fmt: skip
    assert answer.status_code == 200, answer.content
    assert (answer.json()["outcome"], bool(answer.json()["sentence"])) == ("accepted", True)
    shown = reader_of_all.get(f"{MESSAGES}{answer.json()['id']}/", {"object": str(ORDERS)}).json()
    assert (shown["body_kind"], shown["body_text"]) == ("text", BODY.decode())
    message = shown["message"]
    assert (message["priority"], message["application_properties"], message["durable"]) == (5, {"n": 77}, False)
    assert message["expires"] is not None
    raw = base64.b64encode(b"\x00\xff").decode()
    number = act(paul, "publish", body_base64=raw).json()["id"]
    shown = reader_of_all.get(f"{MESSAGES}{number}/", {"object": str(ORDERS)}).json()
    assert (shown["body_kind"], shown["body"]) == ("data", raw)
    row = AuditEntry.objects.filter(operation="publish-message").latest("id")
    assert (row.user_name, row.outcome) == ("paul", "done")
    assert 'outcome: "accepted"' in row.detail


@pytest.fixture
def reader_of_all(orders: Broker) -> APIClient:
    return with_role("rita", Role.MESSAGE_READER)


def test_message_for_a_stopped_queue_is_not_taken(paul: APIClient, olga: APIClient, orders: Broker) -> None:
    olga.post("/api/v1/stop-producers/", {"scope": str(ORDERS), "reason": "r"}, format="json")
    answer = act(paul, "publish", body="x").json()
    assert (answer["outcome"], answer["id"], "stopped" in answer["sentence"]) == ("parked", None, True)
    assert depth(orders, "orders") == 10


@pytest.mark.parametrize("role", [role for role in Role if role not in (Role.PUBLISHER, Role.ADMIN)])
def test_other_roles_publish_nothing(orders: Broker, role: Role) -> None:
    client = with_role("nina", role)
    assert act(client, "publish", body="x").status_code == 403
    path = f"/api/v1/brokers/local/objects/{ORDERS}/operations/publish-message/"
    assert client.post(path, {"arguments": {"body": "eA=="}}, format="json").status_code == 403
    assert depth(orders, "orders") == 10


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"body": "a", "body_base64": "YQ=="}, "body_base64"),
        ({"body_base64": "not base64!"}, "body_base64"),
        ({"body_base64": "/w==", "body_kind": "text"}, "body_base64"),
        ({"body": "x" * (1 << 19) + "y"}, "body"),
        ({"body": "€" * 200_000}, "body"),
        ({"body": "x" * 700_001}, "body"),
        ({"body": 5}, "body"),
        ({"body": "a", "body_kind": "map"}, "body_kind"),
        ({"body": "a", "priority": 10}, "priority"),
        ({"body": "a", "priority": -1}, "priority"),
        ({"body": "a", "ttl": "soon"}, "ttl"),
        ({"body": "a", "ttl": "10"}, "ttl"),
        ({"body": "a", "ttl": "3000d"}, "ttl"),
        ({"body": "a", "properties": []}, "properties"),
        ({"body": "a", "durable": "yes"}, "durable"),
        ({"body": "a", "headers": {}}, "headers"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_absurd_message_is_refused_by_the_field(
    paul: APIClient, orders: Broker, body: dict[str, Any], field: str
) -> None:
    answer = act(paul, "publish", **body)
    assert (answer.status_code, list(answer.json())) == (400, [field]), answer.content
    assert depth(orders, "orders") == 10


def test_largest_body_is_published(paul: APIClient, orders: Broker) -> None:
    raw = base64.b64encode(b"\xff" * (1 << 19)).decode()
    answer = act(paul, "publish", body_base64=raw)
    assert (answer.status_code, answer.json().get("outcome")) == (200, "accepted"), answer.content[:300]
