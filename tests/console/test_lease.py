"""The lease: one owner at a time, and the lease of a dead owner is free."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
import threading
from collections.abc import Collection
from typing import Any

import psutil
import pytest
from django.db import IntegrityError, OperationalError
from django.db.models import F, QuerySet
from django.utils import timezone

from console.history.models import Lease
from console.leases import lease as lease_module
from console.leases.lease import SECONDS, Busy, Lost, lease
from console.leases.process import start_time, this_process
from tests.up.running import wait_until

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)


def hold(holder: str, seconds: float = 60) -> None:
    Lease.objects.create(name="work", lease_holder=holder, lease_until=timezone.now() + dt.timedelta(seconds=seconds))


def renewed(until: dt.datetime) -> bool:
    try:
        return bool(Lease.objects.get().lease_until > until)
    except OperationalError:  # the in-memory test database refuses reads during a write
        return False


def test_lease_of_a_live_process_is_refused_with_its_owner() -> None:
    with lease("work"), pytest.raises(Busy, match=this_process()), lease("work"):
        pytest.fail("two hold it")
    assert not Lease.objects.exists()


def test_lease_of_another_host_is_refused_until_it_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    hold("another-host:1:1")
    with pytest.raises(Busy, match="another-host"), lease("work"):
        pytest.fail("two hold it")
    Lease.objects.update(lease_until=timezone.now())
    taken_after_a_while(monkeypatch)


def taken_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """An expired lease is acquired when it has not been renewed for half of its duration."""
    steady = [1000.0]
    monkeypatch.setattr(lease_module, "steady", lambda: steady[0])
    monkeypatch.setattr(lease_module, "_signs", {})
    for _ in range(2):
        with pytest.raises(Busy) as busy, lease("work"):
            pytest.fail("two hold it")
        assert busy.value.ran_out
        steady[0] += SECONDS / 2 - 1
    later = Lease.objects.get().lease_until > timezone.now()
    sign_of_life = dt.timedelta(seconds=1 if later else -1)  # still expired
    Lease.objects.update(lease_until=F("lease_until") + sign_of_life)
    for _ in range(2):
        with pytest.raises(Busy), lease("work"):
            pytest.fail("two hold it")
        steady[0] += SECONDS / 2 - 1
    steady[0] += 1
    with lease("work"):
        assert Lease.objects.get().holder == this_process()


@pytest.mark.parametrize("by", [3600, -3600])
def test_live_owner_keeps_the_lease_when_the_clock_is_set(monkeypatch: pytest.MonkeyPatch, by: int) -> None:
    monkeypatch.setattr(lease_module, "_signs", {})
    with lease("work"):
        real = timezone.now
        monkeypatch.setattr(lease_module.timezone, "now", lambda: real() + dt.timedelta(seconds=by))
        for _ in range(2):
            with pytest.raises(Busy), lease("work"):
                pytest.fail("two hold it")


def test_lease_of_a_killed_process_is_free_at_once() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        host = this_process().split(":")[0]
        hold(f"{host}:{process.pid}:{start_time(psutil.Process(process.pid))}")
        with pytest.raises(Busy), lease("work"):
            pytest.fail("it lives")
        process.kill()
    with lease("work"):
        assert Lease.objects.get().holder == this_process()


def test_reused_process_id_does_not_own_the_lease() -> None:
    host, pid, since = this_process().split(":")
    hold(f"{host}:{pid}:{int(since) - 1000}")
    with lease("work"):
        assert Lease.objects.get().holder == this_process()


@pytest.mark.parametrize("by", [3600, -3600])
def test_live_owner_is_not_considered_dead_when_the_clock_is_set(monkeypatch: pytest.MonkeyPatch, by: int) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        hold(f"{this_process().split(':')[0]}:{process.pid}:{start_time(psutil.Process(process.pid))}")
        start = psutil.boot_time()
        monkeypatch.setattr("psutil._pslinux.boot_time", lambda: start + by)
        assert psutil.boot_time() == start + by
        with pytest.raises(Busy), lease("work"):
            pytest.fail("it lives")
        process.kill()


def test_lease_that_ends_late_because_the_clock_was_set_back_is_expired(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hold("another-host:1:1", seconds=2 * SECONDS - 1)
    with pytest.raises(Busy), lease("work"):
        pytest.fail("two hold it")
    Lease.objects.update(lease_until=timezone.now() + dt.timedelta(seconds=3600))
    taken_after_a_while(monkeypatch)


def test_row_that_was_deleted_concurrently_does_not_block_the_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    look, failures = QuerySet.get_or_create, iter([IntegrityError("it was there")])

    def too_late_and_too_early(self: QuerySet[Lease], **wanted: Any) -> tuple[Lease, bool]:
        for failure in failures:
            raise failure
        return look(self, **wanted)

    monkeypatch.setattr(QuerySet, "get_or_create", too_late_and_too_early)
    with lease("work"):
        assert Lease.objects.get().holder == this_process()


def test_lease_is_renewed_while_it_is_owned() -> None:
    with lease("work", seconds=2.0):
        until = Lease.objects.get().lease_until
        wait_until(lambda: renewed(until), "it is renewed")


def test_lease_acquired_by_another_process_raises_at_the_end() -> None:
    def taken() -> None:
        with lease("work", seconds=0.2):
            Lease.objects.update(lease_holder="another-host:1:1")
            deadline = timezone.now() + dt.timedelta(seconds=20)
            while any(thread.name == "lease-work" for thread in threading.enumerate()):
                assert timezone.now() < deadline, "the new owner was not noticed"

    with pytest.raises(Lost):
        taken()
    assert Lease.objects.get().holder == "another-host:1:1"


def test_short_database_failure_does_not_lose_the_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    extend, failures = lease_module.extend, iter(["away", "still away"])

    def failing_at_first(names: Collection[str], seconds: float) -> bool:
        if (failure := next(failures, None)) is not None:
            raise OperationalError(failure)
        return extend(names, seconds)

    monkeypatch.setattr(lease_module, "extend", failing_at_first)
    with lease("work", seconds=2.0):
        until = Lease.objects.get().lease_until
        wait_until(lambda: renewed(until), "it is renewed")


def test_database_failure_until_expiry_loses_the_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(names: Collection[str], seconds: float) -> bool:
        raise OperationalError("away")

    monkeypatch.setattr(lease_module, "extend", failing)

    def own() -> None:
        with lease("work", seconds=0.2):
            wait_until(lambda: all(each.name != "lease-work" for each in threading.enumerate()), "it gives up")

    with pytest.raises(Lost):
        own()
