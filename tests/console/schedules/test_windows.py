"""Windows of schedules beside operators who change a stop meanwhile, beside each other, and after a time without a
worker: what an operator has taken over stays, and what was there before comes back once."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from brokers.admin import InvalidValue
from console.access.actor import Actor
from console.operations import Aim, start_producers, stop_producers
from console.schedules import editing, execution
from console.schedules.models import Run, RunState, Schedule
from console.schedules.times import _dues
from tests.console.conftest import Broker
from tests.console.schedules.test_schedules import (
    MINUTE,
    ORDERS,
    TEN,
    advance_to,
    by,
    capacity,
    given,
    orders,
    policy,
    run,
    stops,
)

pytestmark = pytest.mark.django_db
__all__ = ["by", "orders"]  # fixtures

HOUR = 60 * MINUTE


def pass_time(broker: Broker, time: dt.timedelta) -> None:
    """Let time pass at the broker."""
    broker.do(lambda memory: memory.advance(int(time.total_seconds() * 1000), step=60_000))
    broker.sample()


def hourly(**more: Any) -> dict[str, Any]:
    """A schedule whose windows follow each other without a gap."""
    return {**more, "once": "", "hour": "*", "minute": "0", "lasts": 60}


def plan(by: Actor, fields: dict[str, Any]) -> Schedule:
    schedule = editing.create(by, fields)
    Schedule.objects.update(next=TEN)
    return schedule


# -- operators during a window ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [{}, {"for_ms": 3 * 3_600_000}], ids=["until further notice", "longer"])
def test_stop_that_an_operator_extends_during_the_window_is_not_lifted(
    orders: Broker, by: Actor, length: dict[str, Any]
) -> None:
    editing.create(by, given(lasts=60))
    advance_to(TEN)
    stop_producers(by, orders.link, Aim(ORDERS), reason="poison messages", **length)
    advance_to(TEN + HOUR)
    assert stops(orders) == ["schedule night"]  # the broker retains a stop's first reason
    assert run().end_said == "the end of the stop was changed meanwhile: unchanged"


def test_staged_start_that_an_operator_begins_during_the_window_goes_on(orders: Broker, by: Actor) -> None:
    editing.create(by, given(lasts=60))
    advance_to(TEN)
    start_producers(by, orders.link, Aim(ORDERS), reason="slowly", stage={"rate": 1, "step_ms": 60_000})
    advance_to(TEN + HOUR)
    assert len(stops(orders)) == 1
    assert run().end_said == "its producers are being started in stages: unchanged"


def test_stop_that_would_end_during_the_window_is_extended_to_its_end(orders: Broker, by: Actor) -> None:
    stop_producers(by, orders.link, Aim(ORDERS), reason="five minutes", for_ms=300_000)
    editing.create(by, given(lasts=60))
    advance_to(TEN)
    assert run().begin_said.startswith("extended the stop by olga (five minutes), which would have ended earlier: ")
    pass_time(orders, 50 * MINUTE)
    assert stops(orders) == ["five minutes"]
    advance_to(TEN + HOUR)
    assert stops(orders) == []


def test_stop_that_outlasts_the_window_is_left_alone(orders: Broker, by: Actor) -> None:
    stop_producers(by, orders.link, Aim(ORDERS), reason="all day", for_ms=24 * 3_600_000)
    orders.sample()  # with the broker's time, which is not the console's
    editing.create(by, given(lasts=60))
    for moment in (TEN, TEN + HOUR):
        advance_to(moment)
    assert stops(orders) == ["all day"]
    assert "already stopped by olga (all day): unchanged" in run().begin_said


# -- windows that follow each other ---------------------------------------------------------------------------------


def test_stops_of_windows_without_a_gap_go_on_without_one(orders: Broker, by: Actor) -> None:
    plan(by, given(**hourly()))
    advance_to(TEN)
    for number in range(1, 4):
        pass_time(orders, HOUR - MINUTE)
        advance_to(TEN + number * HOUR)
        assert stops(orders) == ["schedule night"]
        pass_time(orders, 2 * MINUTE)  # past the end that the run before had requested
        assert stops(orders) == ["schedule night"]
    assert Run.objects.filter(state=RunState.OPEN).count() == 1
    editing.pause(by, Schedule.objects.get(), True)
    advance_to(TEN + 4 * HOUR)
    assert stops(orders) == []


def test_policy_of_windows_without_a_gap_is_reverted_once_to_what_was_before_them_all(
    orders: Broker, by: Actor
) -> None:
    plan(by, policy(**hourly()))
    for number in range(4):
        advance_to(TEN + number * HOUR)
        assert capacity(orders) == 7
    editing.pause(by, Schedule.objects.get(), True)
    advance_to(TEN + 4 * HOUR)
    assert capacity(orders) == 100


@pytest.mark.parametrize("order", [1, -1], ids=["beginning first", "end first"])
def test_end_of_a_window_waits_for_the_beginning_of_the_next_one(orders: Broker, by: Actor, order: int) -> None:
    plan(by, policy(**hourly()))
    advance_to(TEN)
    now = TEN + HOUR
    execution.create_due_runs(now)
    for number in execution.due_runs(now)[::order]:  # workers execute them in any order
        execution.execute(number, now)
        assert capacity(orders) == 7
    editing.pause(by, Schedule.objects.get(), True)
    advance_to(now + MINUTE)
    advance_to(now + HOUR + MINUTE)
    assert capacity(orders) == 100
    assert set(Run.objects.values_list("state", flat=True)) == {RunState.DONE}


@pytest.mark.parametrize("fields", [policy(lasts=60), given(lasts=60)], ids=["policy", "stop"])
def test_run_from_before_a_time_without_workers_does_not_end_the_window_of_today(
    orders: Broker, by: Actor, fields: dict[str, Any]
) -> None:
    day = dt.timedelta(days=1)
    plan(by, {**fields, "once": "", "hour": "10"})
    advance_to(TEN)
    pass_time(orders, day)
    now = TEN + day + 10 * MINUTE
    advance_to(now)  # the run of yesterday is still open
    advance_to(now + MINUTE)
    if fields["action"] == "policy":
        assert capacity(orders) == 7
    else:
        assert stops(orders) == ["schedule night"]
    advance_to(TEN + day + HOUR)
    assert (capacity(orders), stops(orders)) == (100, [])


def test_value_that_a_later_run_has_set_for_good_is_not_reverted(orders: Broker, by: Actor) -> None:
    schedule = plan(by, policy(**{**hourly(), "lasts": 90}))
    advance_to(TEN)
    editing.change(by, Schedule.objects.get(), {"lasts": 0}, version=schedule.version)
    Schedule.objects.update(next=TEN + HOUR)
    for minutes in (60, 90):
        advance_to(TEN + minutes * MINUTE)
    assert capacity(orders) == 7


# -- runs that have not started -------------------------------------------------------------------------------------


def test_paused_schedule_does_not_start_a_run_that_is_retried(orders: Broker, by: Actor) -> None:
    schedule = editing.create(by, given(lasts=60))
    orders.lose()
    advance_to(TEN)
    editing.pause(by, schedule, True)
    orders.come_back()
    advance_to(TEN + 5 * MINUTE)
    assert (stops(orders), run().state) == ([], RunState.MISSED)
    assert run().begin_said == "the schedule was paused before it could start"


def test_run_that_has_not_started_is_called_off_and_its_schedule_can_be_removed(orders: Broker, by: Actor) -> None:
    schedule = editing.create(by, given(lasts=60))
    orders.lose()
    advance_to(TEN)
    with pytest.raises(InvalidValue, match="a run is open"):
        editing.delete(by, schedule)
    assert editing.schedule_json(Schedule.objects.get())["open_run"] == run().pk
    called_off = editing.end_now(by, run())
    assert called_off.state == RunState.MISSED
    assert called_off.begin_said.startswith("called off by olga; the last attempt: ")
    orders.come_back()
    advance_to(TEN + 5 * MINUTE)
    assert stops(orders) == []
    editing.delete(by, schedule)


def test_run_that_a_worker_is_starting_cannot_be_called_off(orders: Broker, by: Actor) -> None:
    editing.create(by, given(lasts=60))
    execution.create_due_runs(TEN)
    Run.objects.update(lease_until=timezone.now() + MINUTE)
    with pytest.raises(InvalidValue, match="the run is beginning"):
        editing.end_now(by, run())
    assert run().state == RunState.BEGINNING


# -- absurd input ---------------------------------------------------------------------------------------------------


def test_reason_of_any_accepted_length_is_one_that_brokers_take(orders: Broker, by: Actor) -> None:
    editing.create(by, given(lasts=60, reason="ü" * 1000))
    advance_to(TEN)
    (reason,) = stops(orders)
    whole = f"schedule night: {'ü' * 1000}"
    assert reason == f"{whole[:999]}…"
    advance_to(TEN + HOUR)
    assert (stops(orders), run().state) == ([], RunState.DONE)


def test_month_without_workers_costs_a_schedule_of_every_minute_one_look_a_day(
    orders: Broker, by: Actor, operator: User
) -> None:
    editing.create(by, policy(once="", minute="*"))
    Schedule.objects.update(next=TEN)
    _dues.cache_clear()
    execution.create_due_runs(TEN + dt.timedelta(days=30))
    assert _dues.cache_info().misses <= 33
    missed = Run.objects.get(state=RunState.MISSED)
    assert missed.begin_said == "missed 43,200 runs from this time on: only the latest is executed"
