"""Rows with a lease: one owner at a time, also when the clock is set by an hour."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from collections.abc import Callable

import psutil
import pytest
from django.apps import apps
from django.utils import timezone

from console.alerts.models import Delivery, DeliveryState, Notification
from console.bulk.editing import is_stalled, step
from console.bulk.models import BulkEdit, State
from console.leases import leased_row
from console.leases.leased_row import LONGEST, LeasedRow, signed
from console.leases.models import Lease
from console.leases.process import start_time, this_process
from console.messages.models import MessageJob
from console.schedules.models import Run

pytestmark = pytest.mark.django_db

NOW = dt.datetime(2027, 1, 1, tzinfo=dt.UTC)
MINUTE = dt.timedelta(minutes=1)
HOUR = dt.timedelta(hours=1)
BOTH_WAYS = pytest.mark.parametrize("by", [HOUR, -HOUR])


class Uptime:
    ms = 1_000_000

    def __call__(self) -> int:
        return self.ms


@pytest.fixture
def uptime(monkeypatch: pytest.MonkeyPatch) -> Uptime:
    made = Uptime()
    monkeypatch.setattr(leased_row, "uptime", made)
    return made


def a_row() -> Delivery:
    notification = Notification.objects.create(at=NOW, broker="local", phase="test")
    made: Delivery = Delivery.objects.create(notification=notification, receiver_name="hook", due=NOW)
    return made


def a_bulk_edit() -> BulkEdit:
    made: BulkEdit = BulkEdit.objects.create(user_name="olga", broker="local")
    return made


def a_run() -> Run:
    made: Run = Run.objects.create(schedule_name="night", broker="local", user_name="olga", due=NOW, retry_at=NOW)
    return made


def a_job() -> Lease:
    made: Lease = Lease.objects.create(name="beat", lease_until=NOW)
    return made


#: A row of each model with a lease.
def a_message_job() -> LeasedRow:
    return MessageJob.objects.create(user_name="ada", broker="local", virtualhost="default", object="q", action="move")


ROWS: dict[str, Callable[[], LeasedRow]] = {
    "Delivery": a_row,
    "BulkEdit": a_bulk_edit,
    "Run": a_run,
    "Lease": a_job,
    "MessageJob": a_message_job,
}


def elsewhere(until: dt.datetime) -> None:
    Delivery.objects.update(lease_until=until, lease_holder="another-host:1:1:999999999")


def test_one_of_two_processes_owns_a_row_until_the_lease_expires(uptime: Uptime) -> None:
    a_row()
    rows = Delivery.objects.all()
    assert rows.claim(MINUTE, NOW, tries=1)
    assert not rows.claim(MINUTE, NOW, tries=2)
    assert (Delivery.objects.get().tries, rows.free(NOW)) == (1, [])
    uptime.ms += 60_000
    assert rows.free(NOW + MINUTE) == [Delivery.objects.get().pk]
    assert rows.claim(MINUTE, NOW + MINUTE, tries=2)


@pytest.mark.domain("9 clock steps")
@BOTH_WAYS
def test_setting_the_clock_neither_adds_an_owner_nor_extends_a_lease(uptime: Uptime, by: dt.timedelta) -> None:
    a_row()
    rows = Delivery.objects.all()
    assert rows.claim(MINUTE, NOW)
    uptime.ms += 59_000
    assert not rows.claim(MINUTE, NOW + by + MINUTE)
    uptime.ms += 1_000
    assert rows.claim(MINUTE, NOW + by + MINUTE)


def test_lease_of_a_killed_process_ends(uptime: Uptime) -> None:
    row = a_row()
    host = this_process().split(":")[0]
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        holder = f"{host}:{process.pid}:{start_time(psutil.Process(process.pid))}:{uptime.ms + 60_000}"
        Delivery.objects.update(lease_until=NOW + MINUTE, lease_holder=holder)
        assert Delivery.objects.all().free(NOW) == []
        process.kill()
    assert Delivery.objects.all().free(NOW) == [row.pk]


def test_lease_of_another_host_with_an_impossible_end_is_invalid(uptime: Uptime) -> None:
    a_row()
    rows = Delivery.objects.all()
    elsewhere(NOW + LONGEST)
    assert not rows.claim(MINUTE, NOW)
    elsewhere(NOW + HOUR)
    assert rows.claim(MINUTE, NOW)
    elsewhere(NOW)
    assert rows.claim(MINUTE, NOW)


def test_lease_of_an_earlier_version_uses_the_wall_clock() -> None:
    assert not Delivery(lease_until=NOW + MINUTE).is_free(NOW)
    assert Delivery(lease_until=NOW).is_free(NOW)
    assert Delivery(lease_until=None).is_free(NOW)


def test_lease_without_a_monotonic_end_uses_the_wall_clock() -> None:
    """A lease of a live process, as earlier versions of the pipeline and beat wrote it."""
    row = Delivery(lease_until=NOW + MINUTE, lease_holder=this_process())
    assert (row.is_free(NOW), row.is_free(NOW + MINUTE)) == (False, True)


@pytest.mark.parametrize(
    "kind", [kind for kind in apps.get_models() if issubclass(kind, LeasedRow)], ids=lambda kind: kind.__name__
)
def test_every_kind_of_leased_row_is_claimed_once_and_can_be_released(kind: type[LeasedRow], uptime: Uptime) -> None:
    row = ROWS[kind.__name__]()
    rows = kind.objects.filter(pk=row.pk)
    rows.update(lease_until=NOW - HOUR, lease_holder="")
    assert rows.claim(MINUTE, NOW)
    assert not rows.claim(MINUTE, NOW)
    claimed = rows.get()
    assert claimed.holder == this_process()
    claimed.release()
    assert claimed.is_free(NOW)


def test_loser_of_a_race_for_a_free_row_does_not_own_it(uptime: Uptime, monkeypatch: pytest.MonkeyPatch) -> None:
    a_row()

    def another_first(length: dt.timedelta, now: dt.datetime) -> dict[str, object]:
        elsewhere(NOW + MINUTE)
        return signed(length, now)

    monkeypatch.setattr(leased_row, "signed", another_first)
    assert not Delivery.objects.all().claim(MINUTE, NOW)
    assert Delivery.objects.get().lease_holder.startswith("another-host")


@BOTH_WAYS
def test_worker_keeps_its_bulk_edit_when_the_clock_is_set(
    uptime: Uptime, monkeypatch: pytest.MonkeyPatch, by: dt.timedelta
) -> None:
    job = BulkEdit.objects.create(
        user_name="olga", broker="local", state=State.RUNNING, worker="first", **signed(MINUTE)
    )
    real = timezone.now
    monkeypatch.setattr(timezone, "now", lambda: real() + by)
    assert not is_stalled(job)
    assert not step(job.pk, "second")
    assert BulkEdit.objects.get().worker == "first"
    uptime.ms += 60_000
    assert is_stalled(job)


@BOTH_WAYS
def test_delivery_is_retried_within_the_longest_interval(
    uptime: Uptime, monkeypatch: pytest.MonkeyPatch, by: dt.timedelta
) -> None:
    from console.alerts import tasks

    row = a_row()
    Delivery.objects.update(due=timezone.now() + dt.timedelta(seconds=5), state=DeliveryState.WAITING)
    real = timezone.now
    monkeypatch.setattr(timezone, "now", lambda: real() + by)
    sent: list[int] = []
    monkeypatch.setattr(tasks, "send", lambda task, number: sent.append(number))
    assert (tasks.sweep(), sent) == (1, [row.pk])
