"""The long-running process: when it runs, what it records, failures. The pipeline is a stand-in."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from django.utils import timezone

from console.history.models import HistoryRun, Lease
from console.history.pipeline.runner import LEASE, Runner, Timing, Unusable
from console.history.storage.landing import Landing
from console.leases.lease import Busy, lease
from tests.history.rows import Story, land

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)

QUICK = Timing(look=0.01, pause=0.01, rest=0.01, failed=0.01, longest=0.02)


@dataclass
class Report:
    files: int = 1
    rows: dict[str, int] = field(default_factory=lambda: {"events": 3})
    seconds: dict[str, float] = field(default_factory=lambda: {"minutes": 0.5})
    newest: dt.datetime | None = None
    more: bool = False
    unreadable: dict[str, str] = field(default_factory=dict)


class Pipeline:
    """Returns the next of `answers`, then the last one repeatedly; raises exceptions."""

    def __init__(self, *answers: Report | Exception) -> None:
        self.answers = list(answers) or [Report()]
        self.runs = 0
        self.meanwhile: Callable[[], None] = lambda: None

    def __call__(self, on_step: Callable[[str], None]) -> Report:
        self.runs += 1
        on_step("minutes")
        self.meanwhile()
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def url(tmp_path: Path) -> str:
    return str(tmp_path / "history")


def test_runner_without_landing_files_does_not_run(url: str) -> None:
    pipeline = Pipeline()
    assert Runner(url, pipeline).run_if_new() is False
    assert pipeline.runs == 0


def test_runner_runs_once_for_landed_files_and_again_for_later_ones(url: str) -> None:
    pipeline = Pipeline()
    runner = Runner(url, pipeline)
    land(url, Story().watch(0, 1).rows)
    assert [runner.run_if_new() for _ in range(3)] == [True, False, False]
    land(url, Story().watch(1, 2).rows)
    assert [runner.run_if_new() for _ in range(2)] == [True, False]


def test_file_that_lands_during_a_run_causes_the_next(url: str) -> None:
    pipeline = Pipeline()
    runner = Runner(url, pipeline)
    land(url, Story().watch(0, 1).rows)
    pipeline.meanwhile = lambda: land(url, Story().watch(1, 2).rows)
    runner.run_if_new()
    pipeline.meanwhile = lambda: None
    assert [runner.run_if_new() for _ in range(2)] == [True, False]


def test_runner_runs_again_at_once_while_files_are_left(url: str) -> None:
    runner = Runner(url, Pipeline(Report(more=True), Report(more=True), Report()))
    land(url, Story().watch(0, 1).rows)
    assert [runner.run_if_new() for _ in range(4)] == [True, True, True, False]


def test_run_is_recorded_with_its_rows_and_latency(url: str) -> None:
    land(url, Story().watch(0, 1).rows)
    newest = timezone.now() - dt.timedelta(seconds=5)
    pipeline = Pipeline(Report(newest=newest))
    steps: list[str] = []
    pipeline.meanwhile = lambda: steps.append(HistoryRun.objects.get().step)
    Runner(url, pipeline).run_if_new()
    row = HistoryRun.objects.get()
    assert steps == ["minutes"]
    assert (row.state, row.files, row.rows, row.seconds, row.step) == ("done", 1, {"events": 3}, {"minutes": 0.5}, "")
    assert row.newest == newest
    assert row.lag_ms is not None
    assert 5000 <= row.lag_ms < 65_000


def test_failure_is_recorded_with_step_and_first_line_and_retried(url: str) -> None:
    land(url, Story().watch(0, 1).rows)
    said: list[str] = []
    pipeline = Pipeline(ValueError("no such column\nat org.apache"), Report())
    ended = threading.Event()
    runner = Runner(url, pipeline, timing=QUICK, say=said.append)

    def end_after_two() -> None:
        if pipeline.runs == 2:
            ended.set()

    pipeline.meanwhile = end_after_two
    runner.run_until(ended)
    done, failed = HistoryRun.objects.all()
    assert (failed.state, failed.error, failed.step) == ("failed", "ValueError: no such column", "minutes")
    assert done.state == "done"
    assert said == ["failed, retrying in 0.01 s: ValueError: no such column"]


def test_unusable_spark_ends_the_process_and_is_recorded(url: str) -> None:
    land(url, Story().watch(0, 1).rows)
    runner = Runner(url, Pipeline(Unusable("Spark has gone")), timing=QUICK)
    with pytest.raises(Unusable):
        runner.run_until(threading.Event())
    assert HistoryRun.objects.get().error == "Unusable: Spark has gone"
    assert not Lease.objects.exists()


def test_nothing_runs_or_is_recorded_while_another_process_owns_the_lease(url: str) -> None:
    land(url, Story().watch(0, 1).rows)
    pipeline = Pipeline()
    with lease(LEASE), pytest.raises(Busy):
        Runner(url, pipeline).run_if_new()
    assert pipeline.runs == 0
    assert not HistoryRun.objects.exists()


def test_killed_run_is_recorded_as_ended(url: str) -> None:
    HistoryRun.objects.create(holder="x", started=timezone.now())
    land(url, Story().watch(0, 1).rows)
    Runner(url, Pipeline()).run_if_new()
    assert [row.state for row in HistoryRun.objects.all()] == ["done", "failed"]


def test_removed_file_causes_no_run(url: str) -> None:
    runner = Runner(url, Pipeline())
    land(url, Story().watch(0, 1).rows)
    land(url, Story().watch(1, 2).rows)
    runner.run_if_new()
    landing = Landing(url)
    landing.remove("coverage", landing.names("coverage")[0])
    assert runner.run_if_new() is False
