"""With files, the process that stands by kills the one that hangs, and no other."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from django.utils import timezone

from console.brokers.hosting import LEASE_SECONDS, PREFIX
from console.brokers.hung_process import end_hung_owner, write_owner
from console.leases import lease as lease_module
from console.leases import leased_row
from console.leases.models import Lease
from console.leases.process import start_time, this_process

pytestmark = pytest.mark.django_db


class Owner:
    """Another process, which has locked the folder and owns the lease of a broker, on a clock of the test."""

    def __init__(self, folder: Path, process: subprocess.Popen[bytes]) -> None:
        self.folder = folder
        self.process = process
        self.now = 1000.0
        self.identity = f"{this_process().split(':')[0]}:{process.pid}:{start_time(psutil.Process(process.pid))}"
        self.write(self.identity)

    def write(self, identity: str) -> None:
        (self.folder / "owner").write_text(f"{identity}\n")

    def extend(self) -> None:
        end = round((self.now + LEASE_SECONDS) * 1000)
        values = {"lease_holder": f"{self.identity}:{end}", "lease_until": timezone.now()}
        Lease.objects.update_or_create(name=f"{PREFIX}rabbit", defaults=values)

    def looked(self, seconds: float) -> bool:
        """Look every second for some time; return whether the owner was killed."""
        for _ in range(round(seconds)):
            if end_hung_owner(self.folder):
                return True
            self.now += 1
        return False

    def lives(self) -> bool:
        return self.process.poll() is None


@pytest.fixture
def owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Owner]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        made = Owner(tmp_path, process)
        monkeypatch.setattr(lease_module, "steady", lambda: made.now)
        monkeypatch.setattr(lease_module, "_signs", {})
        monkeypatch.setattr(leased_row, "uptime", lambda: round(made.now * 1000))
        yield made
        process.kill()


def test_one_that_hangs_is_killed(owner: Owner) -> None:
    owner.extend()
    began = owner.now
    assert owner.looked(30)
    assert owner.process.wait(60) == -9
    assert LEASE_SECONDS <= owner.now - began <= LEASE_SECONDS + 2
    assert not owner.looked(30)  # it has ended


def test_one_that_extends_its_lease_is_not(owner: Owner) -> None:
    for _ in range(20):
        owner.extend()
        assert not owner.looked(3)
    assert owner.lives()


def test_one_that_is_late_has_time_after_the_machine_has_slept(owner: Owner) -> None:
    owner.extend()
    assert not owner.looked(2)
    owner.now += 3600
    lease_module._signs.clear()  # the clock of this process stood still
    assert not owner.looked(LEASE_SECONDS / 2)
    owner.extend()
    assert not owner.looked(LEASE_SECONDS - 1)
    assert owner.lives()


def test_one_that_hosts_nothing_or_is_elsewhere_or_is_this_one_is_not_killed(owner: Owner) -> None:
    assert not owner.looked(30)
    owner.extend()
    for identity in ("other:1:2", "", "damaged", this_process()):
        owner.write(identity)
        assert not owner.looked(30)
    (owner.folder / "owner").unlink()
    assert not owner.looked(30)
    assert owner.lives()


def test_the_owner_is_known_from_the_folder(tmp_path: Path) -> None:
    write_owner(tmp_path)
    assert (tmp_path / "owner").read_text().strip() == this_process()
