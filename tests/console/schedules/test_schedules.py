"""Runs of schedules: executed once at their times, with the owner's permissions, and reverted at the end of the
window."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from django_celery_beat.models import ClockedSchedule, PeriodicTask
from rest_framework.test import APIClient

from brokers.model import object_name
from console.access.actor import Actor
from console.audit.models import AuditEntry
from console.operations import Aim, start_producers, stop_producers, update_object
from console.schedules import editing, execution, wakeups
from console.schedules.models import Run, RunState, Schedule
from tests.console.conftest import Broker, until

pytestmark = pytest.mark.django_db

API = "/api/v1/schedules/"
ORDERS = object_name("Queue", virtualhost="default", name="orders")
#: The day after next at 10:00 UTC: after the real time, at which schedules are planned when they are saved.
TEN = (timezone.now() + dt.timedelta(days=2)).replace(hour=10, minute=0, second=0, microsecond=0)
MINUTE = dt.timedelta(minutes=1)


@pytest.fixture
def by(operator: User) -> Actor:
    return Actor(operator, "127.0.0.1")


@pytest.fixture
def orders(broker: Broker) -> Broker:
    broker.memory.management.create(ORDERS, {"capacity_messages": 100})
    broker.memory.fill("orders", 3)
    broker.connected()
    until(broker.link.queues)
    return broker


def given(**more: Any) -> dict[str, Any]:
    once = TEN.strftime("%Y-%m-%dT%H:%M")
    return {
        "name": "night",
        "broker": "local",
        "action": "stop",
        "target": str(ORDERS),
        "zone": "UTC",
        "once": once,
        **more,
    }


def policy(**more: Any) -> dict[str, Any]:
    return given(action="policy", attributes={"capacity_messages": 7}, **more)


def advance_to(moment: dt.datetime) -> None:
    """Do what the sweep does, at this time."""
    execution.create_due_runs(moment)
    for number in execution.due_runs(moment):
        execution.execute(number, moment)


def capacity(broker: Broker) -> Any:
    return broker.do(lambda memory: memory.management.read(ORDERS)["capacity_messages"])


def stops(broker: Broker) -> list[str]:
    return [stop["reason"] for stop in broker.do(lambda memory: memory.management.read(object_name("Broker"))["stops"])]


def run() -> Run:
    return Run.objects.get()


# -- windows --------------------------------------------------------------------------------------------------------


def test_policy_is_set_at_the_start_of_its_window_and_reverted_at_its_end(orders: Broker, by: Actor) -> None:
    editing.create(by, policy(lasts=60))
    advance_to(TEN - MINUTE)
    assert (capacity(orders), Run.objects.count()) == (100, 0)
    advance_to(TEN)
    assert (capacity(orders), run().state) == (7, RunState.OPEN)
    advance_to(TEN + 59 * MINUTE)
    assert capacity(orders) == 7
    advance_to(TEN + 60 * MINUTE)
    assert (capacity(orders), run().state, run().end_said) == (100, RunState.DONE, "reverted")
    rows = AuditEntry.objects.filter(operation="update", object=str(ORDERS)).order_by("id")
    assert [(row.user_name, row.source_address, row.reason) for row in rows] == [
        ("olga", "schedule", "schedule night"),
        ("olga", "schedule", "end of schedule night"),
    ]


def test_field_changed_during_the_window_is_not_reverted(orders: Broker, by: Actor) -> None:
    editing.create(by, given(action="policy", attributes={"capacity_messages": 7, "mechanism": "hold"}, lasts=60))
    advance_to(TEN)
    version = orders.do(lambda memory: memory.management.read(ORDERS)["version"])
    update_object(by, orders.link, ORDERS, {"capacity_messages": 50}, version=version)
    advance_to(TEN + 60 * MINUTE)
    assert capacity(orders) == 50
    assert orders.do(lambda memory: memory.management.read(ORDERS)["mechanism"]) is None
    assert run().end_said == "reverted; unchanged because of later changes: capacity_messages"


def test_producers_are_stopped_for_a_window_and_started_again(orders: Broker, by: Actor) -> None:
    editing.create(by, given(lasts=60, reason="batch"))
    advance_to(TEN)
    assert stops(orders) == ["schedule night: batch"]
    advance_to(TEN + 60 * MINUTE)
    assert stops(orders) == []
    assert run().state == RunState.DONE


def test_stop_from_before_the_window_is_not_lifted(orders: Broker, by: Actor) -> None:
    stop_producers(by, orders.link, Aim(ORDERS), reason="incident 7")
    editing.create(by, given(lasts=60))
    advance_to(TEN)
    assert "already stopped by olga (incident 7)" in run().begin_said
    advance_to(TEN + 60 * MINUTE)
    assert stops(orders) == ["incident 7"]


def test_stop_set_by_a_user_during_the_window_is_not_lifted(orders: Broker, by: Actor) -> None:
    editing.create(by, given(lasts=60))
    advance_to(TEN)
    start_producers(by, orders.link, Aim(ORDERS), reason="over")
    stop_producers(by, orders.link, Aim(ORDERS), reason="incident 8")
    advance_to(TEN + 60 * MINUTE)
    assert stops(orders) == ["incident 8"]
    assert "stopped again by olga (incident 8): unchanged" in run().end_said


def test_scheduled_start_lifts_the_stop(orders: Broker, by: Actor) -> None:
    stop_producers(by, orders.link, Aim(ORDERS), reason="overnight")
    editing.create(by, given(action="start"))
    advance_to(TEN)
    assert stops(orders) == []
    assert run().state == RunState.DONE


# -- delays, disconnected brokers, duplicates -----------------------------------------------------------------------


def test_concurrent_workers_execute_a_run_once(orders: Broker, by: Actor) -> None:
    editing.create(by, policy())
    execution.create_due_runs(TEN)
    execution.create_due_runs(TEN)
    (number,) = execution.due_runs(TEN)
    Run.objects.update(lease_until=TEN + MINUTE)  # another worker owns it
    assert execution.execute(number, TEN) == "not due"
    Run.objects.update(lease_until=TEN - MINUTE)  # and died
    assert execution.execute(number, TEN) == "set"
    assert execution.execute(number, TEN) == "not due"
    assert AuditEntry.objects.filter(operation="update", object=str(ORDERS)).count() == 1


def test_window_is_reverted_although_the_worker_died_after_the_change(orders: Broker, by: Actor) -> None:
    editing.create(by, policy(lasts=60))
    execution.create_due_runs(TEN)
    version = orders.do(lambda memory: memory.management.read(ORDERS)["version"])
    Run.objects.update(before={"capacity_messages": 100}, lease_until=TEN - MINUTE)
    update_object(by, orders.link, ORDERS, {"capacity_messages": 7}, version=version)
    advance_to(TEN)
    assert run().state == RunState.OPEN
    advance_to(TEN + 60 * MINUTE)
    assert capacity(orders) == 100


def test_run_with_a_window_starts_late_or_is_missed_after_the_window(orders: Broker, by: Actor) -> None:
    editing.create(by, policy(lasts=60))
    editing.create(by, policy(lasts=20, name="short"))
    advance_to(TEN + 30 * MINUTE)
    states = dict(Run.objects.values_list("schedule_name", "state"))
    assert states == {"night": RunState.OPEN, "short": RunState.MISSED}


def test_run_without_a_window_is_missed_after_the_maximum_delay(orders: Broker, by: Actor) -> None:
    editing.create(by, policy())
    advance_to(TEN + 16 * MINUTE)
    assert (run().state, capacity(orders)) == (RunState.MISSED, 100)


def test_of_several_missed_times_only_the_latest_is_executed(orders: Broker, by: Actor) -> None:
    editing.create(by, policy(once="", hour="*", minute="0"))
    first = Schedule.objects.get().next
    assert first is not None
    advance_to(TEN + 2 * MINUTE)
    done, missed = Run.objects.all()
    assert (done.due, done.state) == (TEN, RunState.DONE)
    assert (missed.due, missed.state) == (first, RunState.MISSED)
    passed = int((TEN - first) / dt.timedelta(hours=1))
    assert missed.begin_said.startswith(f"missed {passed:,} runs")
    assert Schedule.objects.get().next == TEN + 60 * MINUTE


def test_next_run_of_an_earlier_version_is_planned_again(orders: Broker, by: Actor) -> None:
    day = dt.timedelta(days=1)
    sooner, later = TEN + 2 * day, TEN + 3 * day
    days, weekdays = str(sooner.day), str(later.isoweekday() % 7)
    editing.create(by, policy(once="", hour="10", days=days, weekdays=weekdays))
    Schedule.objects.update(next=TEN + 300 * day)  # as an earlier version left it
    advance_to(TEN)
    assert Schedule.objects.get().next == sooner
    advance_to(sooner)
    assert Schedule.objects.get().next == later


def test_run_is_retried_while_the_broker_is_disconnected(orders: Broker, by: Actor) -> None:
    editing.create(by, policy(lasts=60))
    orders.lose()
    advance_to(TEN)
    assert (run().state, run().tries) == (RunState.BEGINNING, 1)
    assert "cannot be reached" in run().begin_said
    orders.come_back()
    advance_to(TEN + MINUTE)
    assert run().state == RunState.OPEN
    orders.lose()
    for minutes in range(60, 90):
        advance_to(TEN + minutes * MINUTE)
    assert run().state == RunState.ENDING
    orders.come_back()
    advance_to(TEN + 90 * MINUTE)
    assert (run().state, capacity(orders)) == (RunState.DONE, 100)


# -- permissions ----------------------------------------------------------------------------------------------------


def test_permissions_of_the_owner_are_checked_at_execution(orders: Broker, by: Actor, operator: User) -> None:
    editing.create(by, policy())
    operator.groups.clear()
    advance_to(TEN)
    assert (run().state, capacity(orders)) == (RunState.FAILED, 100)
    assert "that needs the role of policy editor" in run().begin_said
    assert AuditEntry.objects.filter(object=str(ORDERS), outcome="refused").count() == 1


def test_run_of_a_deactivated_owner_fails_and_an_administrator_can_end_it(
    orders: Broker, by: Actor, operator: User, as_administrator: APIClient
) -> None:
    editing.create(by, policy(lasts=60))
    advance_to(TEN)
    operator.is_active = False
    operator.save()
    advance_to(TEN + 60 * MINUTE)
    assert (run().state, capacity(orders)) == (RunState.FAILED, 7)
    assert "has no active account" in run().end_said
    assert as_administrator.post(f"{API}runs/{run().pk}/end/").json()["state"] == "done"
    assert capacity(orders) == 100
    assert AuditEntry.objects.filter(operation="update", user_name="adele").count() == 1


def test_viewer_sees_schedules_and_cannot_change_them(orders: Broker, by: Actor, as_viewer: APIClient) -> None:
    schedule = editing.create(by, policy(lasts=60))
    advance_to(TEN)
    assert as_viewer.get(API).json()[0]["name"] == "night"
    assert as_viewer.get(f"{API}runs/").json()["results"][0]["state"] == "open"
    assert as_viewer.post(API, given(name="mine"), format="json").status_code == 403
    for path in (f"{schedule.pk}/pause/", f"{schedule.pk}/go-on/", f"runs/{run().pk}/end/"):
        assert as_viewer.post(f"{API}{path}").status_code == 403
    assert as_viewer.delete(f"{API}{schedule.pk}/").status_code == 403
    assert Schedule.objects.get().paused is False


# -- API ------------------------------------------------------------------------------------------------------------


def test_paused_schedule_starts_no_run_and_its_open_run_ends(orders: Broker, by: Actor) -> None:
    schedule = editing.create(by, policy(once="", hour="10", lasts=60))
    Schedule.objects.update(next=TEN)
    advance_to(TEN)
    editing.pause(by, Schedule.objects.get(pk=schedule.pk), True)
    Schedule.objects.update(next=TEN + dt.timedelta(days=1))
    advance_to(TEN + 60 * MINUTE)
    assert capacity(orders) == 100
    advance_to(TEN + dt.timedelta(days=1))
    assert Run.objects.count() == 1


def test_open_run_is_reverted_although_the_schedule_was_changed(orders: Broker, by: Actor) -> None:
    schedule = editing.create(by, policy(lasts=60))
    advance_to(TEN)
    editing.change(by, schedule, {"action": "stop", "lasts": 0, "paused": True}, version=1)
    advance_to(TEN + 60 * MINUTE)
    assert capacity(orders) == 100


def test_schedules_with_the_same_time_have_separate_wakeups(orders: Broker, by: Actor) -> None:
    one, other = (editing.create(by, policy(name=name)) for name in ("one", "other"))
    assert moments() == {f"wake for schedule {each.pk}": TEN for each in (one, other)}
    editing.delete(by, one)
    assert moments() == {f"wake for schedule {other.pk}": TEN}
    assert ClockedSchedule.objects.count() == 1


def test_duplicate_and_shared_wakeups_of_earlier_versions_are_handled(orders: Broker, by: Actor) -> None:
    shared = ClockedSchedule.objects.create(clocked_time=TEN)
    ClockedSchedule.objects.create(clocked_time=TEN)
    for name in ("wake for schedule 1000", "wake for schedule 1001"):
        PeriodicTask.objects.create(name=name, task=wakeups.TASK, clocked=shared, one_off=True)
    wakeups.set_wakeup("schedule 1000", TEN + MINUTE)
    assert moments() == {"wake for schedule 1000": TEN + MINUTE, "wake for schedule 1001": TEN}
    wakeups.set_wakeup("schedule 1002", TEN)
    wakeups.cancel_wakeup("schedule 1001")
    assert moments() == {"wake for schedule 1000": TEN + MINUTE, "wake for schedule 1002": TEN}
    assert not ClockedSchedule.objects.filter(pk=shared.pk).exists()


def moments() -> dict[str, dt.datetime]:
    return {row.name: row.clocked.clocked_time for row in PeriodicTask.objects.exclude(clocked=None)}


def test_creating_changing_pausing_ending_and_deleting_a_schedule(
    orders: Broker, by: Actor, as_operator: APIClient
) -> None:
    made = as_operator.post(API, policy(lasts=60), format="json")
    assert made.status_code == 201, made.json()
    number = made.json()["id"]
    assert made.json()["upcoming"] == [TEN.strftime("%Y-%m-%dT%H:%M:%SZ")]
    assert PeriodicTask.objects.get(name=f"wake for schedule {number}").clocked.clocked_time == TEN
    assert as_operator.patch(f"{API}{number}/", {"version": 1, "lasts": 30}, format="json").json()["lasts"] == 30
    assert as_operator.patch(f"{API}{number}/", {"version": 1, "lasts": 5}, format="json").status_code == 409
    advance_to(TEN)
    refused = as_operator.delete(f"{API}{number}/")
    assert "end it first" in refused.json()["detail"][0]
    ended = as_operator.post(f"{API}runs/{run().pk}/end/").json()
    assert (ended["state"], ended["end_said"], capacity(orders)) == ("done", "reverted", 100)
    assert as_operator.post(f"{API}{number}/pause/").json()["paused"] is True
    assert not PeriodicTask.objects.filter(name=f"wake for schedule {number}").exists()
    assert as_operator.delete(f"{API}{number}/").status_code == 204
    assert run().schedule_name == "night"
    entries = AuditEntry.objects.filter(object="schedule night").values_list("operation", "outcome")
    assert ("create", "done") in entries
    assert ("end-now", "done") in entries


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"zone": "Nowhere"}, "zone"),
        ({"once": "2020-01-01T00:00"}, "once"),
        ({"once": "", "hour": "77"}, "hour"),
        ({"once": "", "hour": "0", "days": "30", "months": "2"}, "hour"),
        ({"action": "purge"}, "action"),
        ({"target": "type=Nothing"}, "target"),
        ({"target": "type=Producer,id=1"}, "target"),
        ({"action": "policy", "attributes": {}}, "attributes"),
        ({"action": "policy", "attributes": {"nonsense": 1}}, "nonsense"),
        ({"lasts": -1}, "lasts"),
        ({"action": "start", "lasts": 5}, "lasts"),
        ({"pattern": "a.>.b", "target": "type=Broker"}, "pattern"),
        ({"name": ""}, "name"),
        ({"broker": "other"}, "broker"),
    ],
    ids=str,
)
def test_invalid_field_is_named(orders: Broker, as_operator: APIClient, more: dict[str, Any], field: str) -> None:
    refused = as_operator.post(API, given(**more), format="json")
    assert refused.status_code in (400, 404)
    assert field in refused.json() or field == "target"
    assert not Schedule.objects.exists()


def test_preview_needs_only_the_times(as_viewer: APIClient) -> None:
    form = given(name="", target="", reason="", once="", hour="3", minute="0", lasts=0, attributes={}, pattern="")
    answer = as_viewer.post("/api/v1/schedules/preview/", form, format="json")
    assert answer.status_code == 200
    assert len(answer.json()["upcoming"]) == editing.AHEAD
    for field in ("zone", "minute"):
        refused = as_viewer.post("/api/v1/schedules/preview/", {**form, field: ""}, format="json")
        assert (refused.status_code, set(refused.json())) == (400, {field})
