"""Scheduled tasks: when they run commands, and the handling of failures. The commands are stand-ins."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from celery.exceptions import Retry
from django.utils import timezone

from console.celery import app
from console.history import tasks
from console.history.models import HistoryRun, JobRequest
from console.history.pipeline import job_requests
from console.history.pipeline.job_requests import request_facts
from console.history.pipeline.maintenance import sweep
from console.history.pipeline.pieces import OnStep, Piece, Pieces
from console.history.pipeline.pipeline_leases import alive, broker_lease, is_working
from console.history.pipeline.processed_files import processed_files
from console.history.pipeline.run import Report
from console.history.pipeline.run_records import Recorded
from console.history.storage.backlog import find_backlog
from console.history.storage.commits import DeltaFolder
from console.history.storage.landing import Landing
from console.history.storage.landing_names import landed_id, recorder_file, sequence_of
from console.history.storage.tables import Tables
from console.leases.lease import Busy, lease
from tests.history.rows import Story, land, table


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


def record(url: str, story: Story, number: int) -> None:
    """Land the rows as a recorder does."""
    for kind, rows in story.rows.items():
        if rows:
            Landing(url).publish(kind, table(kind, rows), recorder_file(story.broker, number))


def take_all(url: str) -> None:
    """Mark every landing file of the recorder of `b` as processed, as the pipeline does."""
    for kind, name in Landing(url).landed():
        DeltaFolder(url, kind).commit([], versions={landed_id(kind, "b"): sequence_of(name) or 0})


def age(url: str, by: dt.timedelta) -> None:
    """Set the time since the files landed."""
    landing = Landing(url)
    when = (timezone.now() - by).timestamp()
    for kind, name in landing.landed():
        os.utime(Path(landing.folder(kind)) / name, (when, when))


pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)


def test_worker_runs_nothing_beside_a_live_process(url: str, commands: Commands) -> None:
    land(url, Story().watch(0, 1).rows)
    with alive():
        assert tasks.run() == "headgate history is running"
        assert tasks.compact() == "queued"
        assert commands.called == []
    assert job_requests.queued_works() == ["compact"]


def test_worker_without_such_a_process_does_what_is_due_and_what_is_queued(url: str, commands: Commands) -> None:
    assert tasks.run() == "nothing is due"
    land(url, Story().watch(0, 1).rows)
    job_requests.request_work("advise", by="ada")
    assert tasks.run() == "done"
    assert commands.called == ["run", "advise"]


def test_worker_runs_no_open_hour(url: str, commands: Commands) -> None:
    rows = Story("local").watch(0, 1).rows["coverage"]
    Landing(url).publish("coverage", table("coverage", rows), recorder_file("local", time.time_ns()))
    assert tasks.run() == "nothing is due"


def test_run_beside_another_one_is_done(url: str, commands: Commands) -> None:
    land(url, Story().watch(0, 1).rows)
    commands.code, commands.out = tasks.BUSY, "x:1:1 owns the lease"
    assert tasks.run() == "another process owns the lease"


def test_failed_command_is_retried_with_its_error(url: str, commands: Commands) -> None:
    job_requests.request_work("compact")
    commands.code, commands.err = 1, "warning\nthe disk is full\n"
    with pytest.raises(Retry) as retried:
        tasks.run.apply(throw=True)
    assert str(retried.value.exc) == "the disk is full"


@pytest.mark.parametrize("task", [tasks.compact, tasks.retain, tasks.advise])
def test_schedule_queues_each_job_once_and_sends_it_to_a_worker_if_nothing_else_does_it(
    task: Any, commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []
    monkeypatch.setattr(tasks.run, "delay", lambda: sent.append("run"))
    assert [task(), task()] == ["queued", "queued"]
    assert [(row.work, row.requested_by) for row in JobRequest.objects.all()] == [(task.name.partition(".")[2], "")]
    assert (sent, commands.called) == (["run", "run"], [])


def test_process_of_pieces_fulfils_the_requests_or_puts_them_back(url: str) -> None:
    """`_fulfilled` is what the command and the process with Spark share."""

    class Work(Pieces):
        failure: BaseException | None = None

        def _maintain(self, work: str) -> None:
            assert [request_facts(row)["state"] for row in JobRequest.objects.filter(finished=None)] == ["running"]  # type: ignore[index]
            if self.failure:
                raise self.failure

    work = Work(url, lambda _on_step: None, lambda *_: (0, 0.0))  # type: ignore[arg-type, return-value]
    job_requests.request_work("compact")
    for failure, state, attempts in (
        (Busy("x:1:1"), "queued", 0),
        (SystemExit(0), "queued", 0),
        (OSError("the disk is full"), "failed", 1),
        (None, "done", 2),
    ):
        work.failure = failure
        with contextlib.suppress(Exception, SystemExit):
            work.execute(Piece("compact"))
        row = JobRequest.objects.get()
        facts = request_facts(row)
        assert facts is not None
        assert (facts["state"], row.attempts) == (state, attempts)


def test_run_of_one_broker_leaves_the_files_of_others(url: str) -> None:
    class Work(Pieces):
        @contextlib.contextmanager
        def _usable(self, row: Recorded) -> Iterator[Tables]:
            yield None  # type: ignore[misc]

        def _run_once(self, tables: Tables, brokers: Sequence[str], on_step: OnStep) -> Report:
            assert brokers == ["a"]
            assert is_working(broker_lease("a"))
            assert not is_working(broker_lease("b"))
            return Report()

        def _sweep(self) -> None:
            pass

    for broker in ("a", "b"):
        rows = Story(broker).watch(0, 1).rows["coverage"]
        Landing(url).publish("coverage", table("coverage", rows), recorder_file(broker, 5))
        Landing(url).publish("coverage", table("coverage", rows), f"log~{broker}~1")
    Work(url, lambda _on_step: None, lambda *_: (0, 0.0)).execute(Piece(broker="a"))  # type: ignore[arg-type, return-value]
    found = processed_files()
    assert (set(found), found["a"].orders, len(found["a"].others)) == ({"a"}, {"coverage": 5}, 1)


def test_brokers_are_run_together_and_one_by_one_after_a_failure(url: str) -> None:
    """Each has its own row, and one that another process runs is left out."""
    runs: list[list[str]] = []

    class Work(Pieces):
        @contextlib.contextmanager
        def _usable(self, row: Recorded) -> Iterator[Tables]:
            yield None  # type: ignore[misc]

        def _run_once(self, tables: Tables, brokers: Sequence[str], on_step: OnStep) -> Report:
            runs.append(list(brokers))
            on_step("landing")
            assert all(is_working(broker_lease(broker)) for broker in brokers)
            if "bad" in brokers:
                raise OSError("no")
            return Report(3, parts={broker: Report(number) for number, broker in enumerate(brokers, start=1)})

        def _sweep(self) -> None:
            pass

    work = Work(url, lambda _on_step: None, lambda *_: (0, 0.0))  # type: ignore[arg-type, return-value]
    with lease(broker_lease("c")), pytest.raises(Busy):
        work.execute(Piece(broker="a", others=("b", "c")))
    assert runs == [["a", "b"]]
    facts = HistoryRun.objects.order_by("broker").values_list("broker", "files", "error")
    assert list(facts) == [("a", 1, ""), ("b", 2, "")]
    for broker in ("a", "bad"):
        rows = Story(broker).watch(0, 1).rows["coverage"]
        Landing(url).publish("coverage", table("coverage", rows), recorder_file(broker, 5))
    job_requests.request_work("run")
    with pytest.raises(OSError, match="no"):
        work.execute(Piece())
    assert runs[1:] == [["a", "bad"], ["a"], ["bad"]]
    assert {row.broker for row in HistoryRun.objects.exclude(error="")} == {"bad"}


def test_scheduled_tasks_exist() -> None:
    app.loader.import_default_modules()
    named = {entry["task"] for entry in app.conf.beat_schedule.values()}
    assert named >= {f"history.{work}" for work in ("run", "compact", "retain", "advise")}
    assert named <= set(app.tasks)


def test_sweep_removes_only_processed_files_that_no_writer_reads(url: str) -> None:
    record(url, Story().watch(0, 1).sample(0, 1), 1)
    now = timezone.now()
    assert sweep(url, now) == 0
    take_all(url)
    assert sweep(url, now) == 0
    age(url, dt.timedelta(hours=3))
    record(url, Story().watch(1, 2), 2)
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
