"""Two processes that host one broker over one database, which hang and are killed at any await, while the clocks of
their hosts are set: never two of them write or change the broker in turns, and no event's number is assigned twice."""

from __future__ import annotations

import datetime as dt
import types
from collections.abc import Callable, Coroutine, Generator
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from brokers.adapters.records import NotStored
from console.brokers import hosting as hosting_module
from console.brokers.database_records import DatabaseRecords, opened
from console.brokers.hosting import LEASE_SECONDS, LOOK_SECONDS, PREFIX, Address, Hosting, lease_of
from console.brokers.models import BrokerEvent, ForeignBroker, ServedBroker
from console.leases import lease as lease_module
from console.leases import leased_row
from tests.adapters.fake import queue_name

HOSTS = ("one", "two")


@types.coroutine
def pause() -> Generator[None, None, None]:
    """A moment at which the process can hang or be killed."""
    yield


class World:
    """The true time in seconds, and the process that runs now."""

    def __init__(self) -> None:
        self.time = 1_000_000.0
        self.ahead = dict.fromkeys(HOSTS, 0.0)
        self.processes = {host: Process(self, host, 1) for host in HOSTS}
        self.running: Process | None = None
        self.ended: set[str] = set()
        #: How often the records were opened; the last one may write, and only it.
        self.openings = 0
        #: Which opening stored each event.
        self.stored: list[int] = []

    def act(self, host: str) -> Process:
        process = self.running = self.processes[host]
        lease_module._signs = process.signs
        return process

    @property
    def name(self) -> str:
        assert self.running is not None
        return self.running.name

    def now(self) -> dt.datetime:
        ahead = self.ahead[self.running.host] if self.running else 0.0
        return dt.datetime.fromtimestamp(self.time + ahead, dt.UTC)


class Process:
    """A process of the adapters: its hosting, and what it has open. It is its own service."""

    def __init__(self, world: World, host: str, number: int) -> None:
        self.world = world
        self.host = host
        self.number = number
        self.name = f"{host}:{number}:1"
        self.signs: dict[str, Any] = {}
        self.hosting = Hosting(
            self, lambda: 0, lambda _: None, self.open, Address(host, number, "swordfish"), lambda: world.time
        )
        self.hosting._thread.close()
        self.looking: Coroutine[Any, Any, None] | None = None
        self.hosted: dict[str, tuple[int, DatabaseRecords, Callable[[], bool]]] = {}

    def open(self, row: ForeignBroker, keep_alive: Any) -> Any:
        records = opened(row.slug, lease_of(row.slug), lambda work: work())
        self.world.openings += 1
        return self.world.openings, records

    # the service

    @property
    def names(self) -> list[str]:
        return list(self.hosted)

    @property
    def failed(self) -> list[str]:
        return [slug for slug, (_, records, _) in self.hosted.items() if records.failed]

    def add(self, name: str, adapter: Any, records: Any) -> None:
        self.hosted[name] = *records, adapter

    async def remove(self, name: str) -> None:
        await pause()
        self.hosted.pop(name)[1].close()

    # steps

    def run(self) -> bool:
        """Go on to the next await of a look; return whether the look is done."""
        if self.looking is None:
            self.looking = self.hosting.look()
        try:
            self.looking.send(None)
        except StopIteration:
            self.looking = None
            return True
        return False

    def work(self) -> bool:
        """What the poller does meanwhile: change the broker, store a stop and an event. Return whether it was done."""
        for opening, records, allowed in self.hosted.values():
            newest = opening == self.world.openings
            if allowed():
                assert newest, "the broker is changed by two processes in turns"
            try:
                records.save_stops([], [], [])
                assert newest, "the stops of the process that took over are overwritten"
                records.append([(0, "queue-overfull", queue_name("q"), str(opening), {})], {queue_name("q"): {}})
            except NotStored:
                return False
            self.world.stored.append(opening)
            return True
        return False

    def killed(self) -> Process:
        if self.looking is not None:
            self.looking.close()
        self.world.ended.add(self.name)
        return Process(self.world, self.host, self.number + 1)


async def _in_database(_: Hosting, work: Any) -> Any:
    await pause()
    result = work()
    await pause()
    return result


@pytest.fixture
def patched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, settings: Any, db: None) -> list[World]:
    """Everything that a process finds out about itself and the time, from the world in the list."""
    settings.HEADGATE_BROKER_KEYS = str(tmp_path / "brokers.key")
    current: list[World] = []
    for module in (lease_module, leased_row, hosting_module):
        monkeypatch.setattr(module, "this_process", lambda: current[0].name)
    for module in (lease_module, leased_row):
        monkeypatch.setattr(module, "is_dead", lambda name: name in current[0].ended)
    monkeypatch.setattr(leased_row, "uptime", lambda: round(current[0].time * 1000))
    monkeypatch.setattr(lease_module, "steady", lambda: current[0].time)
    monkeypatch.setattr(lease_module, "_signs", {})
    monkeypatch.setattr(timezone, "now", lambda: current[0].now())  # noqa: PLW0108 - of a later world
    monkeypatch.setattr(Hosting, "_in_database", _in_database)
    monkeypatch.setattr(hosting_module, "_adapter", lambda _, _now, allowed: allowed)
    return current


HOST = st.sampled_from(HOSTS)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["run", "run", "look", "look", "work", "work"]), HOST, st.none()),
        st.tuples(st.just("pass"), st.none(), st.sampled_from([0.5, 1.0, 1.0, 2.5, 5.0, 9.9, LEASE_SECONDS, 30.0])),
        st.tuples(st.sampled_from(["kill", "hang"]), HOST, st.none()),
        st.tuples(st.just("set"), HOST, st.sampled_from([-3600.0, -12.0, 12.0, 3600.0])),
    ),
    max_size=60,
)


def look(process: Process) -> None:
    while not process.run():
        pass


def carry_out(world: World, step: tuple[str, Any, Any]) -> None:
    kind, host, value = step
    if kind == "pass":
        world.time += value
        return
    if kind == "set":
        world.ahead[host] += value
        return
    if kind == "hang":
        for _ in range(12):
            world.time += LOOK_SECONDS
            look(world.act(next(other for other in HOSTS if other != host)))
        return
    process = world.act(host)
    if kind == "run":
        process.run()
    elif kind == "look":
        look(process)
    elif kind == "work":
        process.work()
    else:
        world.processes[host] = process.killed()


def check(world: World) -> None:
    events = list(BrokerEvent.objects.filter(slug="rabbit").order_by("number"))
    assert [event.number for event in events] == list(range(1, len(world.stored) + 1))
    writers = [int(event.fact.split('"')[5]) for event in events]
    assert writers == world.stored == sorted(world.stored)


#: A process hangs until another one has taken over and has been killed, and then acquires the lease again: by then the
#: stops that it knows are those of before.
BACK = [
    ("look", "one", None),
    ("look", "two", None),
    ("run", "one", None),
    ("hang", "one", None),
    ("kill", "two", None),
]


@example(steps=[*BACK, ("hang", "two", None), ("look", "one", None), ("work", "one", None)])
@example(steps=[*BACK, ("pass", None, 30.0), ("run", "one", None), ("run", "one", None), ("work", "one", None)])
@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_never_two_processes_in_turns(patched: list[World], steps: list[tuple[str, Any, Any]]) -> None:
    with transaction.atomic():
        world = World()
        patched[:] = [world]
        ForeignBroker.objects.create(slug="rabbit", title="rabbit", kind="rabbitmq", url="http://10.0.0.7")
        for step in steps:
            carry_out(world, step)
        check(world)
        # Both run on, and the clocks are right: one of them hosts the broker, and links find it there.
        world.ahead = dict.fromkeys(HOSTS, 0.0)
        for _ in range(round(LEASE_SECONDS + 4)):
            world.time += LOOK_SECONDS
            for host in HOSTS:
                look(world.act(host))
        worked = [host for host in HOSTS if world.act(host).work()]
        assert len(worked) == 1
        check(world)
        served = ServedBroker.objects.get()
        assert (served.host, served.port) == (worked[0], world.processes[worked[0]].number)
        transaction.set_rollback(True)


def test_a_process_of_another_host_takes_over_within_15_seconds(patched: list[World]) -> None:
    """Of the last moment of one that hangs, on whatever clocks: the other one looks every second."""
    patched[:] = [World()]
    ForeignBroker.objects.create(slug="rabbit", title="rabbit", kind="rabbitmq", url="http://10.0.0.7")
    for ahead in (-3600.0, -60.0, 0.0, 60.0, 3600.0):
        lease_module.Lease.objects.filter(name__startswith=PREFIX).delete()
        world = World()
        patched[:] = [world]
        world.ahead["two"] = ahead
        for _ in range(7):
            for host in HOSTS:
                look(world.act(host))
            world.time += LOOK_SECONDS
        assert world.act("one").names == ["rabbit"]
        assert not world.processes["two"].names
        hung = world.time - LOOK_SECONDS
        while not world.act("two").names:
            world.time += LOOK_SECONDS
            look(world.act("two"))
            assert world.time - hung < 15
        assert not world.processes["one"].hosted["rabbit"][2]()
