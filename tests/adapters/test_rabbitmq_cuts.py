"""RabbitMQ's events come back after the connection was cut, closed or left silent, at whichever step: within a bound,
and each change is one event meanwhile. Against a peer in memory, by a virtual clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from yarl import URL

from brokers.adapters import rabbitmq_connection
from brokers.adapters.file_records import FileRecords
from brokers.adapters.kinds import Account
from brokers.adapters.observed import Observed
from brokers.adapters.poller import Poller
from brokers.adapters.rabbitmq import LOOK_SECONDS, RETRY_SECONDS, RETRY_SECONDS_MOST, RabbitMq
from brokers.adapters.rabbitmq_connection import NOTICED_SECONDS, SECONDS, Listener, SourceLost
from brokers.adapters.rabbitmq_source import EventExchange
from brokers.adapters.reconciliation import WAIT_MS
from brokers.admin import Event
from brokers.model import object_name
from tests.adapters.amqp_peer import FAULTS, STEPS, FakeRabbit
from tests.server.virtual_time import VirtualTimeLoop

ORDERS = object_name("Policy", virtualhost="/", pattern="^orders$")
#: Until events come again after a fault at one step, s: if the connection is silent, and if its end is seen.
BOUND = NOTICED_SECONDS + RETRY_SECONDS + 2 * SECONDS
BOUND_SEEN = 8 * RETRY_SECONDS


def bound(fault: str) -> float:
    return BOUND if fault == "silent" else BOUND_SEEN


class World:
    """A broker and what is observed of it. A change is made every second, by another user each time."""

    def __init__(self, folder: Path, loop: VirtualTimeLoop) -> None:
        self.loop = loop
        self.rabbit = FakeRabbit(loop.ms)
        account = Account(self.rabbit.base.removesuffix("/api"), "guest", "guest", "")
        http: Any = self.rabbit
        self.adapter = RabbitMq(http, loop.ms, account)
        self.records = FileRecords(folder)
        self.observed = Observed(self.adapter, self.records, loop.ms)
        self.poller = Poller(self.adapter, self.observed, clock=loop.time)
        self.changes: list[tuple[int, int]] = []  # the length, and when

    def change(self) -> None:
        length = len(self.changes) + 1
        self.changes.append((length, self.loop.ms()))
        self.rabbit.set_policy(length, f"user {length}")

    async def changing(self, seconds: float) -> None:
        for _ in range(int(seconds)):
            self.change()
            await asyncio.sleep(1)

    def events(self) -> list[Event]:
        return [event for event in self.records.read(0, 100_000) if event.object == ORDERS]

    async def settle(self) -> None:
        await asyncio.sleep(WAIT_MS / 1000 + 10)

    def check(self) -> None:
        """Each change is one event; changes between two polls while nothing is reported are one to the polls."""
        found = [event.attributes for event in self.events()]
        values = [each["after"]["capacity_messages"] for each in found]
        assert values == sorted(set(values))
        assert [each["before"].get("capacity_messages") for each in found] == [None, *values[:-1]]
        assert values[-1] == len(self.changes)

    def check_reported(self, since: int) -> None:
        """All changes from then on were reported: exact in time, with their users."""
        expected = [(length, at, f"user {length}") for length, at in self.changes if at >= since]
        assert expected
        found = [(e.attributes["after"]["capacity_messages"], e.at, e.attributes.get("actor")) for e in self.events()]
        assert found[-len(expected) :] == expected


@asynccontextmanager
async def world(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    made = World(folder, loop)

    async def opened(_: object, url: URL) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await made.rabbit.open()

    monkeypatch.setattr(rabbitmq_connection._Transport, "_opened", opened)
    polling = asyncio.ensure_future(made.poller.run())
    try:
        yield made
        assert not polling.done()
        assert made.observed.feeds.unreachable is None
    finally:
        polling.cancel()
        await asyncio.wait([polling], timeout=60)
        await made.rabbit.stop()
        made.records.close()
    assert polling.cancelled()


def run(work: Callable[[World], Awaitable[None]], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def within() -> None:
        async with world(folder, monkeypatch) as made:
            await asyncio.sleep(7)
            assert made.rabbit.attached == 2, "one to try it, one to receive"
            await work(made)

    loop = VirtualTimeLoop()
    try:
        loop.run_until_complete(within())
    finally:
        loop.close()


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("step", STEPS)
def test_events_come_back_after_a_fault_at_any_step(
    step: str, fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(made: World) -> None:
        await made.changing(3)
        if step in ("delivery", "half a delivery", "Basic.Ack"):
            made.rabbit.fault = (step, fault)
        else:
            made.rabbit.fault = None if step == "idle" else (step, fault)
            made.rabbit.end_all(fault if step == "idle" else "closed")
        began = made.loop.ms()
        await made.changing(bound(fault))
        assert made.rabbit.fault is None, "it has happened"
        await made.changing(30)
        await made.settle()
        made.check()
        made.check_reported(began + int(bound(fault) * 1000))

    run(work, tmp_path, monkeypatch)


@pytest.mark.parametrize("fault", FAULTS)
def test_events_come_back_after_many_faults(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(made: World) -> None:
        for _ in range(6):
            await made.changing(3)
            made.rabbit.end_all(fault)
        began = made.loop.ms()
        await made.changing(bound(fault) + 20)
        await made.settle()
        made.check()
        made.check_reported(began + int(bound(fault) * 1000))

    run(work, tmp_path, monkeypatch)


@pytest.mark.parametrize("lost", [1, 3])
def test_change_whose_report_was_lost_does_not_leave_later_ones_to_polls(
    lost: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A poll finds it when events are received again, so its report is expected, and must not be seen in the next."""

    async def work(made: World) -> None:
        for _ in range(lost):
            made.rabbit.end_all("closed")
            made.change()
            await asyncio.sleep(12)
        began = made.loop.ms()
        for _ in range(5):
            made.change()
            await asyncio.sleep(12)
        made.check()
        made.check_reported(began)
        assert len(made.events()) == len(made.changes)

    run(work, tmp_path, monkeypatch)


def test_events_come_back_soon_after_a_long_outage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(made: World) -> None:
        made.rabbit.refuses = True
        made.rabbit.end_all("closed")
        await made.changing(1_200)
        made.rabbit.refuses = False
        began = made.loop.ms()
        await made.changing(RETRY_SECONDS_MOST + 10)
        await made.settle()
        made.check()
        made.check_reported(began + int(RETRY_SECONDS_MOST + 1) * 1000)

    run(work, tmp_path, monkeypatch)


@pytest.mark.parametrize("missing", ["listens", "has_exchange"])
def test_a_node_that_shows_its_listener_or_exchange_late_is_received_from(
    missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(made: World) -> None:
        setattr(made.rabbit, missing, False)
        made.adapter._source = None  # as after connecting to a node that starts
        made.rabbit.end_all("closed")
        await made.changing(3)
        setattr(made.rabbit, missing, True)
        began = made.loop.ms()
        await made.changing(LOOK_SECONDS + 10)
        await made.settle()
        made.check()
        made.check_reported(began + int(LOOK_SECONDS + 2) * 1000)

    run(work, tmp_path, monkeypatch)


@pytest.mark.parametrize("fault", ["cut", "reset", "closed"])
def test_what_has_arrived_before_the_end_is_received_by_a_slow_reader(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(made: World) -> None:
        source = EventExchange(Listener("127.0.0.1", 5672, False), Account("", "guest", "guest", ""))
        found = []

        async def receive() -> None:
            async with source.attached() as events:
                for _ in range(3):
                    made.change()
                await asyncio.sleep(1)
                made.rabbit.end_all(fault)
                async for _, headers in events:
                    found.append(headers["definition"]["max-length"])
                    await asyncio.sleep(1)

        with pytest.raises(SourceLost, match="has ended"):
            await receive()
        assert found == [1, 2, 3]
        await made.changing(BOUND_SEEN)

    run(work, tmp_path, monkeypatch)
