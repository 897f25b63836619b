"""The lease: one at a time, and a dead holder keeps nobody waiting."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
import threading

import psutil
import pytest
from django.utils import timezone

from console.history.models import Held
from console.lease import Busy, Lost, lease, me

pytestmark = pytest.mark.django_db(transaction=True)


def hold(holder: str, seconds: float = 60) -> None:
    Held.objects.create(name="work", holder=holder, until=timezone.now() + dt.timedelta(seconds=seconds))


def test_held_by_a_living_process_it_is_refused_and_names_the_holder() -> None:
    with lease("work"), pytest.raises(Busy, match=me()), lease("work"):
        pytest.fail("two hold it")
    assert not Held.objects.exists()


def test_held_by_another_host_it_is_refused_until_it_has_run_out() -> None:
    hold("another-host:1:1")
    with pytest.raises(Busy, match="another-host"), lease("work"):
        pytest.fail("two hold it")
    Held.objects.update(until=timezone.now())
    with lease("work"):
        assert Held.objects.get().holder == me()


def test_a_holder_that_was_killed_is_found_out_at_once() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        host = me().split(":")[0]
        hold(f"{host}:{process.pid}:{int(psutil.Process(process.pid).create_time())}")
        with pytest.raises(Busy), lease("work"):
            pytest.fail("it lives")
        process.kill()
    with lease("work"):
        assert Held.objects.get().holder == me()


def test_a_number_of_a_process_that_came_again_is_no_holder() -> None:
    host, pid, began = me().split(":")
    hold(f"{host}:{pid}:{int(began) - 1000}")
    with lease("work"):
        assert Held.objects.get().holder == me()


def test_held_for_longer_than_its_time_it_is_renewed() -> None:
    with lease("work", seconds=0.2):
        until = Held.objects.get().until
        deadline = timezone.now() + dt.timedelta(seconds=20)
        while Held.objects.get().until <= until:
            assert timezone.now() < deadline, "it is not renewed"


def test_taken_by_another_meanwhile_the_end_says_so() -> None:
    def taken() -> None:
        with lease("work", seconds=0.2):
            Held.objects.update(holder="another-host:1:1")
            deadline = timezone.now() + dt.timedelta(seconds=20)
            while any(thread.name == "lease-work" for thread in threading.enumerate()):
                assert timezone.now() < deadline, "nobody notices"

    with pytest.raises(Lost):
        taken()
    assert Held.objects.get().holder == "another-host:1:1"
