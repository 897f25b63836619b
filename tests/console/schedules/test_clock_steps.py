"""The clock is set by an hour, either way: no schedule is carried out twice, and none is left out in silence."""

from __future__ import annotations

import datetime as dt

import pytest
from django_celery_beat.models import PeriodicTask

from console.access.actor import Actor
from console.audit.models import AuditEntry
from console.schedules import carrying_out, editing
from console.schedules.models import Run, RunState, Schedule
from tests.console.conftest import Broker
from tests.console.schedules.test_schedules import (  # noqa: F401  (fixtures)
    MINUTE,
    ORDERS,
    TEN,
    by,
    capacity,
    orders,
    pass_to,
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
    """At each full hour; TEN is the first."""
    editing.create(by, policy(once="", hour="*", minute="0"))
    Schedule.objects.update(next=TEN)


@pytest.mark.domain("9 clock steps")
def test_set_back_after_it_was_carried_out_it_is_not_again(orders: Broker, by: Actor) -> None:  # noqa: F811
    hourly(by)
    pass_to(TEN + MINUTE)
    for minutes in range(-58, 60):  # the hour comes again
        pass_to(TEN + minutes * MINUTE)
    assert due("done") == [TEN]
    pass_to(TEN + HOUR)
    assert due("done") == [TEN, TEN + HOUR]


def test_saved_again_after_the_clock_was_set_back_it_is_not_carried_out_again_and_holds_up_no_other(
    orders: Broker,  # noqa: F811
    by: Actor,  # noqa: F811
) -> None:
    hourly(by)
    pass_to(TEN)
    Schedule.objects.update(next=TEN)  # as whoever saves it at half past nine plans it
    editing.create(by, policy(name="another"))
    pass_to(TEN)
    assert sorted(Run.objects.values_list("schedule_name", "due")) == [("another", TEN), ("night", TEN)]
    assert Schedule.objects.get(name="night").next == TEN + HOUR


def test_set_forward_what_was_left_out_is_said_and_the_last_counts(orders: Broker, by: Actor) -> None:  # noqa: F811
    editing.create(by, policy(once="", hour="*", minute="0,15,30,45"))
    Schedule.objects.update(next=TEN)
    pass_to(TEN - MINUTE)
    pass_to(TEN + HOUR - MINUTE)  # the clock was set
    assert (due("missed"), due("done")) == ([TEN], [TEN + 45 * MINUTE])
    assert Run.objects.get(state=RunState.MISSED).begin_said.startswith("3 times from then on had passed")


def test_set_forward_and_back_again_what_was_missed_for_it_has_its_turn(orders: Broker, by: Actor) -> None:  # noqa: F811
    hourly(by)
    pass_to(TEN - 30 * MINUTE)
    pass_to(TEN + 30 * MINUTE)  # an hour ahead of the time
    assert due("missed") == [TEN]
    assert Schedule.objects.get().next == TEN + HOUR
    pass_to(TEN - 29 * MINUTE)  # and right again
    assert Schedule.objects.get().next == TEN
    assert PeriodicTask.objects.get(name__startswith="wake for").clocked.clocked_time == TEN
    assert changes() == 0
    pass_to(TEN)
    assert (due("missed"), due("done"), capacity(orders), changes()) == ([], [TEN], 7, 1)


def test_the_same_of_one_that_is_due_once(orders: Broker, by: Actor) -> None:  # noqa: F811
    editing.create(by, policy())
    pass_to(TEN + 30 * MINUTE)
    assert (due("missed"), Schedule.objects.get().next) == ([TEN], None)
    pass_to(TEN - 30 * MINUTE)
    pass_to(TEN)
    assert (due("done"), changes()) == ([TEN], 1)
    pass_to(TEN - 30 * MINUTE)
    pass_to(TEN)
    assert (due("done"), changes()) == ([TEN], 1)


def test_a_paused_schedule_is_planned_and_not_woken(orders: Broker, by: Actor) -> None:  # noqa: F811
    hourly(by)
    schedule = Schedule.objects.get()
    editing.pause(by, schedule, True)
    Schedule.objects.update(next=TEN + HOUR)
    pass_to(TEN - MINUTE)
    assert (Schedule.objects.get().next, Run.objects.count()) == (TEN, 0)
    assert not PeriodicTask.objects.filter(name__startswith="wake for").exists()


def test_what_is_to_be_tried_again_is_tried_within_its_longest_pause(orders: Broker, by: Actor) -> None:  # noqa: F811
    editing.create(by, policy(lasts=600))
    orders.lose()
    pass_to(TEN + MINUTE)
    assert run().state == RunState.BEGINNING
    orders.come_back()
    Run.objects.update(retry_at=TEN + MINUTE)
    pass_to(TEN - HOUR + 2 * MINUTE)
    assert (run().state, capacity(orders)) == (RunState.OPEN, 7)
    assert carrying_out.due_runs(TEN) == []
