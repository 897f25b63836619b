"""Beat when the clock is set: intervals continue, and daily tasks are not repeated."""

from __future__ import annotations

import datetime as dt
import threading
from typing import Any

import pytest
from django.utils import timezone
from django_celery_beat.models import CrontabSchedule, IntervalSchedule, PeriodicTask, PeriodicTasks
from django_celery_beat.schedulers import DatabaseScheduler, ModelEntry

from console.celery import app
from console.management.beat_times import reset_future_run_times
from console.management.commands import beat

pytestmark = pytest.mark.django_db

HOUR = dt.timedelta(hours=1)


def task(name: str, **schedule: Any) -> PeriodicTask:
    return PeriodicTask.objects.create(name=name, task="alerts.sweep", **schedule)


def every_five_seconds() -> dict[str, Any]:
    return {"interval": IntervalSchedule.objects.create(every=5, period="seconds")}


def each_night() -> dict[str, Any]:
    now = timezone.now()
    return {"crontab": CrontabSchedule.objects.create(minute=now.minute, hour=(now.hour + 1) % 24, timezone="UTC")}


def seconds_left(name: str) -> float:
    """Return the time until the task is due."""
    due, left = ModelEntry(PeriodicTask.objects.get(name=name), app=app).is_due()
    return 0 if due else float(left)


def test_clock_set_back_does_not_delay_intervals() -> None:
    task("often", **every_five_seconds(), last_run_at=timezone.now() + HOUR)
    assert seconds_left("often") > 3000, "beat would wait for the clock"
    reset_future_run_times(timezone.now())
    assert seconds_left("often") <= 5


def test_clock_set_back_does_not_repeat_daily_tasks() -> None:
    task("nightly", **each_night(), last_run_at=timezone.now() + HOUR + dt.timedelta(minutes=1))
    reset_future_run_times(timezone.now())
    assert PeriodicTask.objects.get().last_run_at > timezone.now()
    assert seconds_left("nightly") > 3600 * 2


def test_clock_set_back_by_a_year_runs_daily_tasks_at_the_next_time() -> None:
    task("nightly", **each_night(), last_run_at=timezone.now() + 365 * 24 * HOUR)
    reset_future_run_times(timezone.now())
    assert seconds_left("nightly") <= 3600


def test_changed_tasks_are_noticed_after_the_clock_was_set_back() -> None:
    PeriodicTasks.objects.update_or_create(ident=1, defaults={"last_update": timezone.now() + HOUR})
    reset_future_run_times(timezone.now())
    looking = DatabaseScheduler(app=app, lazy=True)
    looking.schedule_changed()
    PeriodicTasks.update_changed()
    assert looking.schedule_changed()


def test_clock_set_forward_changes_nothing() -> None:
    before = timezone.now() - HOUR
    task("often", **every_five_seconds(), last_run_at=before)
    reset_future_run_times(timezone.now())
    assert PeriodicTask.objects.get().last_run_at == before


@pytest.mark.parametrize("by", [3_600_000, -3_600_000])
def test_beat_restarts_when_the_clock_is_set(monkeypatch: pytest.MonkeyPatch, by: int) -> None:
    ended, started = threading.Event(), []
    steps = iter([0, by, 0, 0])

    class Clock:
        def look(self) -> int:
            step = next(steps, None)
            if step is None:
                ended.set()
            return step or 0

    class Beat:
        def __init__(self, *_: Any, **__: Any) -> None:
            started.append(self)
            self.alive, self.was_joined = True, False

        def start(self) -> None:
            assert all(each is self or each.was_joined for each in started), "one at a time"

        def stop(self) -> None:
            self.alive = False

        def is_alive(self) -> bool:
            return self.alive

        def join(self, *_: float) -> None:
            self.was_joined = True

    still = threading.Thread(target=ended.wait, daemon=True)
    still.start()
    set_right: list[dt.datetime] = []
    monkeypatch.setattr(beat, "SteadyClock", Clock)
    monkeypatch.setattr("console.management.beat_thread.BeatThread", Beat)
    monkeypatch.setattr("console.alerts.evaluator.start", lambda over, last_sign: still)
    monkeypatch.setattr("console.operations.halted_starts.begin", lambda over: still)
    monkeypatch.setattr("console.management.beat_times.reset_future_run_times", set_right.append)
    assert beat._run(ended, threading.Event())
    assert (len(started), len(set_right)) == (2, 2)
    assert not started[1].alive
