"""Whose turn a row of work is, also when the clock is set by an hour: one holder, and none for too long."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys

import psutil
import pytest
from django.utils import timezone

from console.alerts.models import Delivery, DeliveryState, Notification
from console.bulk.editing import is_stalled, step
from console.bulk.models import BulkEdit, State
from console.leases import row_leases
from console.leases.lease import began, me
from console.leases.row_leases import LONGEST, free_rows, is_free, signed, take

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
    monkeypatch.setattr(row_leases, "uptime", made)
    return made


def a_row() -> Delivery:
    told = Notification.objects.create(at=NOW, broker="local", phase="test")
    return Delivery.objects.create(notification=told, receiver_name="hook", due=NOW)


def elsewhere(until: dt.datetime) -> None:
    Delivery.objects.update(lease_until=until, lease_holder="another-host:1:1:999999999")


def test_of_two_one_has_it_until_it_has_run_out(uptime: Uptime) -> None:
    a_row()
    rows = Delivery.objects.all()
    assert take(rows, MINUTE, NOW, tries=1)
    assert not take(rows, MINUTE, NOW, tries=2)
    assert (Delivery.objects.get().tries, free_rows(rows, NOW)) == (1, [])
    uptime.ms += 60_000
    assert free_rows(rows, NOW + MINUTE) == [Delivery.objects.get().pk]
    assert take(rows, MINUTE, NOW + MINUTE, tries=2)


@pytest.mark.domain("9 clock steps")
@BOTH_WAYS
def test_a_clock_that_is_set_makes_no_second_holder_and_prolongs_no_lease(uptime: Uptime, by: dt.timedelta) -> None:
    a_row()
    rows = Delivery.objects.all()
    assert take(rows, MINUTE, NOW)
    uptime.ms += 59_000
    assert not take(rows, MINUTE, NOW + by + MINUTE)
    uptime.ms += 1_000
    assert take(rows, MINUTE, NOW + by + MINUTE)


def test_a_lease_of_a_process_that_was_killed_ends_with_it(uptime: Uptime) -> None:
    row = a_row()
    host = me().split(":")[0]
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        holder = f"{host}:{process.pid}:{began(psutil.Process(process.pid))}:{uptime.ms + 60_000}"
        Delivery.objects.update(lease_until=NOW + MINUTE, lease_holder=holder)
        assert free_rows(Delivery.objects.all(), NOW) == []
        process.kill()
    assert free_rows(Delivery.objects.all(), NOW) == [row.pk]


def test_between_hosts_a_lease_that_ends_later_than_any_could_is_none(uptime: Uptime) -> None:
    a_row()
    rows = Delivery.objects.all()
    elsewhere(NOW + LONGEST)
    assert not take(rows, MINUTE, NOW)
    elsewhere(NOW + HOUR)
    assert take(rows, MINUTE, NOW)
    elsewhere(NOW)
    assert take(rows, MINUTE, NOW)


def test_a_lease_of_an_earlier_version_is_one_by_the_clock_on_the_wall() -> None:
    assert not is_free(NOW + MINUTE, "", NOW)
    assert is_free(NOW, "", NOW)
    assert is_free(None, "", NOW)


def test_whoever_lost_the_race_for_a_free_row_has_not_got_it(uptime: Uptime, monkeypatch: pytest.MonkeyPatch) -> None:
    a_row()

    def another_first(length: dt.timedelta, now: dt.datetime) -> dict[str, object]:
        elsewhere(NOW + MINUTE)
        return signed(length, now)

    monkeypatch.setattr(row_leases, "signed", another_first)
    assert not take(Delivery.objects.all(), MINUTE, NOW)
    assert Delivery.objects.get().lease_holder.startswith("another-host")


@BOTH_WAYS
def test_a_bulk_edit_stays_with_its_worker_when_the_clock_is_set(
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
def test_a_delivery_is_tried_again_within_its_longest_pause(
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
