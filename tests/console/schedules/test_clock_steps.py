"""The clock is set by an hour, forward or back: no run is executed twice, and each missed run is recorded."""

from __future__ import annotations

import datetime as dt

import pytest
from django_celery_beat.models import PeriodicTask

from console.access.actor import Actor
from console.audit.models import AuditEntry
from console.schedules import editing, execution
from console.schedules.models import Run, RunState, Schedule
from tests.console.conftest import Broker
from tests.console.schedules.test_schedules import (  # noqa: F401  (fixtures)
    MINUTE,
    ORDERS,
    TEN,
    advance_to,
    by,
    capacity,
    orders,
    policy,
    run,
)

pytestmark = pytest.mark.django_db

HOUR = 60 * MINUTE


def changes() -> int:
    return AuditEntry.objects.filter(operation="update", object=str(ORDERS)).count()


def due(state: str) -> list[dt.datetime]:
    return list(Run.objects.filter(state=state).order_by("due").values_list("due", flat=True))


def hourly(by: Actor) -> None:  # noqa: F811
    """Create an hourly schedule; TEN is its first time."""
    editing.create(by, policy(once="", hour="*", minute="0"))
    Schedule.objects.update(next=TEN)


@pytest.mark.domain("9 clock steps")
def test_clock_set_back_after_a_run_does_not_repeat_it(orders: Broker, by: Actor) -> None:  # noqa: F811
    hourly(by)
    advance_to(TEN + MINUTE)
    for minutes in range(-58, 60):  # the hour repeats
        advance_to(TEN + minutes * MINUTE)
    assert due("done") == [TEN]
    advance_to(TEN + HOUR)
    assert due("done") == [TEN, TEN + HOUR]


def test_schedule_saved_after_the_clock_was_set_back_does_not_repeat_a_run_nor_delay_others(
    orders: Broker,  # noqa: F811
    by: Actor,  # noqa: F811
) -> None:
    hourly(by)
    advance_to(TEN)
    Schedule.objects.update(next=TEN)  # as planned when it is saved at half past nine
    editing.create(by, policy(name="another"))
    advance_to(TEN)
    assert sorted(Run.objects.values_list("schedule_name", "due")) == [("another", TEN), ("night", TEN)]
    assert Schedule.objects.get(name="night").next == TEN + HOUR


def test_clock_set_forward_records_missed_runs_and_executes_the_latest(orders: Broker, by: Actor) -> None:  # noqa: F811
    editing.create(by, policy(once="", hour="*", minute="0,15,30,45"))
    Schedule.objects.update(next=TEN)
    advance_to(TEN - MINUTE)
    advance_to(TEN + HOUR - MINUTE)  # the clock was set
    assert (due("missed"), due("done")) == ([TEN], [TEN + 45 * MINUTE])
    assert Run.objects.get(state=RunState.MISSED).begin_said.startswith("missed 3 runs")


def test_run_missed_by_a_fast_clock_is_executed_later(orders: Broker, by: Actor) -> None:  # noqa: F811
    hourly(by)
    advance_to(TEN - 30 * MINUTE)
    advance_to(TEN + 30 * MINUTE)  # an hour ahead of the time
    assert due("missed") == [TEN]
    assert Schedule.objects.get().next == TEN + HOUR
    advance_to(TEN - 29 * MINUTE)  # and right again
    assert Schedule.objects.get().next == TEN
    assert PeriodicTask.objects.get(name__startswith="wake for").clocked.clocked_time == TEN
    assert changes() == 0
    advance_to(TEN)
    assert (due("missed"), due("done"), capacity(orders), changes()) == ([], [TEN], 7, 1)


def test_single_run_missed_by_a_fast_clock_is_executed_later(orders: Broker, by: Actor) -> None:  # noqa: F811
    editing.create(by, policy())
    advance_to(TEN + 30 * MINUTE)
    assert (due("missed"), Schedule.objects.get().next) == ([TEN], None)
    advance_to(TEN - 30 * MINUTE)
    advance_to(TEN)
    assert (due("done"), changes()) == ([TEN], 1)
    advance_to(TEN - 30 * MINUTE)
    advance_to(TEN)
    assert (due("done"), changes()) == ([TEN], 1)


def test_paused_schedule_is_planned_without_wakeup(orders: Broker, by: Actor) -> None:  # noqa: F811
    hourly(by)
    schedule = Schedule.objects.get()
    editing.pause(by, schedule, True)
    Schedule.objects.update(next=TEN + HOUR)
    advance_to(TEN - MINUTE)
    assert (Schedule.objects.get().next, Run.objects.count()) == (TEN, 0)
    assert not PeriodicTask.objects.filter(name__startswith="wake for").exists()


def test_retry_is_not_delayed_by_a_clock_that_was_set_back(orders: Broker, by: Actor) -> None:  # noqa: F811
    editing.create(by, policy(lasts=600))
    orders.lose()
    advance_to(TEN + MINUTE)
    assert run().state == RunState.BEGINNING
    orders.come_back()
    Run.objects.update(retry_at=TEN + MINUTE)
    advance_to(TEN - HOUR + 2 * MINUTE)
    assert (run().state, capacity(orders)) == (RunState.OPEN, 7)
    assert execution.due_runs(TEN) == []
