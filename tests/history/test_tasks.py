"""Scheduled tasks: when they run commands, and the handling of failures. The commands are stand-ins."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from celery.exceptions import Retry
from django.utils import timezone

from console.audit.models import AuditEntry
from console.celery import app
from console.history import tasks
from console.history.models import JobRequest
from console.history.pipeline import job_requests
from console.history.pipeline.maintenance import sweep
from console.history.storage.backlog import find_backlog
from console.history.storage.landing import Landing
from console.history.storage.layout import table_url
from tests.history.rows import Story, land


@pytest.fixture
def url(tmp_path: Path, settings: Any) -> str:
    settings.HEADGATE_HISTORY_URL = str(tmp_path / "history")
    return str(tmp_path / "history")


class Commands:
    """A stand-in for `manage.py history --once`. `code`: its exit code."""

    def __init__(self) -> None:
        self.called: list[str] = []
        self.code, self.out, self.err = 0, "", ""

    def __call__(self, command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        self.called.append(command[-1])
        return subprocess.CompletedProcess(command, self.code, self.out, self.err)


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> Commands:
    stand_in = Commands()
    monkeypatch.setattr(subprocess, "run", stand_in)
    return stand_in


def take_all(url: str) -> None:
    """Record every landing file as processed, as the pipeline does."""
    landed = Landing(url).landed()
    rows = {"kind": [kind for kind, _ in landed], "file": [name for _, name in landed]}
    deltalake.write_deltalake(table_url(url, "taken"), pa.table(rows), mode="append")


def age(url: str, by: dt.timedelta) -> None:
    """Set the time since the files landed."""
    landing = Landing(url)
    when = (timezone.now() - by).timestamp()
    for kind, name in landing.landed():
        os.utime(Path(landing.folder(kind)) / name, (when, when))


def test_recent_files_start_no_run(url: str, commands: Commands) -> None:
    land(url, Story().watch(0, 1).rows)
    assert tasks.run() == "nothing is overdue"
    assert commands.called == []


def test_overdue_files_start_a_run(url: str, commands: Commands) -> None:
    land(url, Story().watch(0, 1).rows)
    age(url, tasks.OVERDUE * 2)
    assert tasks.run() == "done"
    assert commands.called == ["run"]


def test_processed_files_start_no_run(url: str, commands: Commands) -> None:
    land(url, Story().watch(0, 1).rows)
    age(url, tasks.OVERDUE * 2)
    take_all(url)
    assert tasks.run() == "nothing is overdue"
    assert commands.called == []


def test_run_beside_another_one_is_done(url: str, commands: Commands) -> None:
    commands.code, commands.out = tasks.BUSY, "x:1:1 owns the lease"
    assert tasks.run(always=True) == "another process owns the lease"


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("task", "code"), [(tasks.run, 1), (tasks.compact, 1), (tasks.retain, 1), (tasks.advise, 1), (tasks.compact, 75)]
)
def test_failed_command_is_retried_with_its_error(url: str, commands: Commands, task: Any, code: int) -> None:
    commands.code, commands.out, commands.err = code, "another owns the lease", "warning\nthe disk is full\n"
    with pytest.raises(Retry) as retried:
        task.apply(kwargs={"always": True} if task is tasks.run else {}, throw=True)
    assert str(retried.value.exc) == ("the disk is full" if code == 1 else "another owns the lease")


@pytest.mark.django_db
def test_job_waits_for_the_lease_without_a_limit_and_then_runs(commands: Commands) -> None:
    commands.code, commands.out = tasks.BUSY, "x:1:1 owns the lease"
    request = JobRequest.objects.create(work="advise", requested=timezone.now(), requested_by="ada", address="10.0.0.1")
    for retries in (0, 19, 20, 500):  # there is no limit
        with pytest.raises(Retry):
            tasks.advise.apply(kwargs={"request": request.pk}, retries=retries, throw=True)
        request.refresh_from_db()
        assert job_requests.request_facts(request)["state"] == "waiting"  # type: ignore[index]
        assert job_requests.is_job_waiting()  # so the pipeline starts no other run
    commands.code = 0
    assert tasks.advise.apply(kwargs={"request": request.pk}, throw=True).get() == "done"
    request.refresh_from_db()
    assert job_requests.request_facts(request)["state"] == "done"  # type: ignore[index]
    assert not job_requests.is_job_waiting()
    row = AuditEntry.objects.get()
    assert (row.user_name, row.operation, row.outcome) == ("ada", "advise", "done")
    assert f"request {request.pk}" in row.detail


@pytest.mark.django_db
def test_finally_failed_job_has_its_error_and_is_audited_as_failed(commands: Commands) -> None:
    commands.code, commands.err = 1, "the disk is full\n"
    request = JobRequest.objects.create(work="compact", requested=timezone.now(), requested_by="ada")
    for failures in range(tasks.MOST_FAILURES - 1):
        with pytest.raises(Retry):
            tasks.compact.apply(kwargs={"request": request.pk, "failures": failures}, throw=True)
        request.refresh_from_db()
        assert (request.finished, request.error) == (None, "the disk is full")
        assert not job_requests.is_job_waiting()  # the pipeline runs during the pause
    assert not AuditEntry.objects.exists()
    with pytest.raises(tasks.HistoryFailed):
        tasks.compact.apply(kwargs={"request": request.pk, "failures": tasks.MOST_FAILURES - 1}, throw=True)
    assert AuditEntry.objects.get().outcome == "failed"


@pytest.mark.django_db
def test_job_without_its_worker_does_not_delay_the_pipeline() -> None:
    now = timezone.now()
    JobRequest.objects.create(work="advise", requested=now, polled=now - job_requests.POLL_TIMEOUT * 2)
    assert not job_requests.is_job_waiting()


def test_scheduled_tasks_exist() -> None:
    app.loader.import_default_modules()
    named = {entry["task"] for entry in app.conf.beat_schedule.values()}
    assert named >= {f"history.{work}" for work in ("run", "sweep", "compact", "retain", "advise")}
    assert named <= set(app.tasks)


def test_sweep_removes_only_processed_files_that_no_writer_reads(url: str) -> None:
    land(url, Story().watch(0, 1).sample(0, 1).rows)
    now = timezone.now()
    assert sweep(url, now) == 0
    take_all(url)
    assert sweep(url, now) == 0
    age(url, dt.timedelta(hours=2))
    land(url, Story().watch(1, 2).rows)
    assert sweep(url, now) == 2
    assert find_backlog(url).files == 1


def test_unfinished_files_of_killed_writers_are_removed_after_a_day(url: str) -> None:
    land(url, Story().watch(0, 1).rows)
    root = Path(url)
    (root / "recorder").mkdir()
    now = timezone.now()
    for folder in ("landing/coverage", "recorder"):
        for name, hours in ((".old.parquet.1", 25), (".new.parquet.2", 23)):
            (root / folder / name).write_bytes(b"half")
            when = now.timestamp() - hours * 3600
            os.utime(root / folder / name, (when, when))
    sweep(url, now)
    left = {path.name for path in root.rglob("*") if path.is_file()}
    assert left == {".new.parquet.2", *Landing(url).names("coverage")}
    assert len(left) == 2
