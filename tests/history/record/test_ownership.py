"""Sharing of brokers among recorder processes: fairly, by one process each, without moving them needlessly."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections import Counter
from typing import Any

import pytest
from django.db import OperationalError
from django.utils import timezone

from brokers import steady_clock
from console.history.models import Lease
from console.history.record.ownership import SECONDS, Ownership, decide
from console.history.record.recorders import Recorders

pytestmark = pytest.mark.django_db

BROKERS = [f"b{n}" for n in range(10)]


class Hosts:
    """Recorder processes, each on its own host, and their clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.wall = timezone.now()
        self.current = ""
        self.processes: dict[str, Ownership] = {}
        for module in ("leases.lease", "leases.leased_row", "history.record.ownership"):
            monkeypatch.setattr(f"console.{module}.this_process", lambda: f"{self.current}:1:1")
        monkeypatch.setattr("console.leases.lease.steady", lambda: self.now)
        monkeypatch.setattr("django.utils.timezone.now", lambda: self.wall)

    def start(self, *names: str) -> None:
        for name in names:
            self.processes[name] = Ownership(BROKERS, lambda: self.now)

    def look(self, times: int = 1) -> None:
        for _ in range(times):
            self.now += 5
            self.wall += dt.timedelta(seconds=5)
            for name, ownership in self.processes.items():
                self.current = name
                for slug in ownership.look():
                    ownership.release(slug)

    def end(self, name: str) -> None:
        self.current = name
        self.processes.pop(name).end()

    def shares(self) -> list[int]:
        """Return how many brokers each process records; check that none is recorded twice."""
        counted = Counter(slug for each in self.processes.values() for slug in each.mine if each.owns(slug))
        assert all(times == 1 for times in counted.values()), counted
        return sorted(len(each.mine) for each in self.processes.values())


@pytest.fixture
def hosts(monkeypatch: pytest.MonkeyPatch) -> Hosts:
    return Hosts(monkeypatch)


def test_processes_share_the_brokers_fairly_and_then_leave_them(hosts: Hosts) -> None:
    hosts.start("x")
    hosts.look()
    assert hosts.shares() == [10]
    hosts.start("y")
    hosts.look(5)
    assert hosts.shares() == [5, 5]
    hosts.start("z")
    hosts.look(8)
    assert hosts.shares() in ([2, 4, 4], [3, 3, 4])
    before = {name: set(each.mine) for name, each in hosts.processes.items()}
    hosts.look(30)
    assert {name: set(each.mine) for name, each in hosts.processes.items()} == before


def test_process_that_ends_is_replaced_at_the_next_look(hosts: Hosts) -> None:
    hosts.start("x", "y")
    hosts.look(5)
    hosts.end("x")
    hosts.look(2)
    assert hosts.shares() == [10]


def test_dead_process_of_another_host_is_replaced_when_its_leases_have_expired(hosts: Hosts) -> None:
    hosts.start("x", "y")
    hosts.look(5)
    dead = hosts.processes.pop("x")
    hosts.look(2)
    assert hosts.shares() == [5]
    assert len(dead.mine) == 5
    hosts.look(int(SECONDS / 5) + 10)
    assert hosts.shares() == [10]
    assert not any(dead.owns(slug) for slug in BROKERS)


@pytest.mark.domain("fresh one recorder")
def test_process_that_cannot_extend_its_leases_stops_before_another_one_starts(hosts: Hosts) -> None:
    hosts.start("x", "y")
    hosts.look(5)
    cut_off = hosts.processes.pop("x")
    for _ in range(40):
        hosts.look()
        still = {slug for slug in BROKERS if cut_off.owns(slug)}
        assert not still & hosts.processes["y"].mine
    hosts.processes["x"] = cut_off
    hosts.look(8)
    assert hosts.shares() == [5, 5]


def test_broker_that_only_one_process_knows_is_recorded(hosts: Hosts) -> None:
    hosts.start("x")
    hosts.processes["y"] = Ownership(BROKERS[:1], lambda: hosts.now)
    hosts.look(40)
    assert set().union(*(each.mine for each in hosts.processes.values())) == set(BROKERS)
    before = set(hosts.processes["x"].mine)
    hosts.look(40)
    assert hosts.processes["x"].mine == before


@pytest.mark.parametrize("names", [["long" * 30, "long" * 30 + "er"], ["~", "*", "ü"]])
def test_any_name_of_a_broker_has_its_own_lease(names: list[str]) -> None:
    ownership = Ownership(names)
    assert ownership.look() == []
    assert ownership.mine == set(names)
    assert Lease.objects.count() == len(names) + 1
    ownership.end()
    assert not Lease.objects.exists()


def test_nothing_moves_while_shares_differ_by_one() -> None:
    owners = {"a": "x", "b": "x", "c": "y"}
    for process in ("x", "y"):
        decision = decide(process, owners, ["x", "y"])
        assert not decision.take
        assert not decision.release


class Silent:
    """A recorder that waits."""

    def __init__(self, slug: str, log: list[str]) -> None:
        self.slug, self.log = slug, log

    async def run(self) -> None:
        self.log.append(f"+{self.slug}")
        try:
            await asyncio.Event().wait()
        finally:
            self.log.append(f"-{self.slug}")


class Given(Ownership):
    """An ownership without a database."""

    def __init__(self, looks: list[Any]) -> None:
        super().__init__(["a", "b"])
        self.looks = looks

    def owns(self, slug: str) -> bool:
        return slug in self.mine

    def look(self) -> list[str]:
        step = self.looks.pop(0) if self.looks else asyncio.CancelledError()
        if isinstance(step, BaseException):
            raise step
        self.mine = set(step)
        return []

    def end(self) -> None:
        self.mine = set()


async def test_recorders_start_and_end_with_the_ownership() -> None:
    log: list[str] = []
    said: list[list[str]] = []
    ownership = Given([{"a"}, {"a", "b"}, OperationalError("no database"), {"b"}])
    recorders = Recorders(ownership, lambda slug: Silent(slug, log), said.append, look_seconds=0.001)  # type: ignore[arg-type, return-value]
    with pytest.raises(asyncio.CancelledError):
        await recorders.run()
    assert said == [["a"], ["a", "b"], ["b"]]
    assert log == ["+a", "+b", "-a", "-b"]


def test_machine_that_has_slept_records_nothing_that_others_may_have_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of its sleep is in the uptime only."""
    ownership = Ownership(BROKERS)
    ownership.look()
    assert ownership.owns(BROKERS[0])
    real = steady_clock._uptime_ns
    monkeypatch.setattr(steady_clock, "_uptime_ns", lambda: real() + int(SECONDS * 1e9))
    assert not ownership.owns(BROKERS[0])
