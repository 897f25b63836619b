"""A broker with nothing to do sleeps, and yet meets each of its deadlines although nothing else happens.

The broker is complete, in a loop whose time is virtual; its clients are ends of the engine's links.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from proton import Message, symbol, timestamp

from brokers.engine.flow.credit import DRAIN_TIMEOUT_MS, GRACE_MS, IDLE_CREDIT_MS
from brokers.engine.flow.producer import Producer
from brokers.engine.queues.queue import Queue
from brokers.engine.registry.connection import Connection
from brokers.engine.values.message import NEVER
from brokers.engine.values.message import Message as Received
from brokers.engine.values.stage import stage
from brokers.engine.values.stops import End, Scope
from brokers.server.alarm import Alarm
from brokers.server.service import Service
from brokers.steady_clock import SteadyClock
from tests.engine.ports import Link, Peer
from tests.server.virtual_time import VirtualTimeLoop

T = TypeVar("T")

HOUR = 3_600_000
NS = 1_000_000  # in 1 ms
START = 1_700_000_000_000
#: A deadline is met this many ms late, at most: those of the second's timer, those of the others.
SECOND, SWEEP = 1_000, IDLE_CREDIT_MS + 2


class Receiver(Link):
    """Records when messages were delivered. Times since START, ms."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.at: list[int] = []

    def send(self, messages: list[Received]) -> None:
        self.at += [self.world.now] * len(messages)


class World:
    """A broker in virtual time, and what clients and operators do with it."""

    def __init__(self, loop: VirtualTimeLoop, service: Service, slept: list[int]) -> None:
        self.loop = loop
        self.service = service
        self.broker = service.broker
        self.slept = slept  # ms, by the machine: the loop's clock does not count them

    @property
    def now(self) -> int:
        return self.service.clock.now() - START

    def do(self, change: Callable[[], T]) -> T:
        """Make a change in a turn of the broker."""

        async def turn() -> T:
            self.service.container.begin()
            made = change()
            self.service.container.finish()
            return made

        return self.loop.run_until_complete(turn())

    def wait(self, ms: int) -> int:
        """Let time pass. Return how often the broker woke."""
        before = self.loop.waits
        self.loop.run_until_complete(asyncio.sleep(ms / 1000))
        return self.loop.waits - before

    def queue(self, name: str = "orders", **policy: int | str) -> Queue:
        return self.do(lambda: self.broker.create_queue(self.broker.virtualhost("default"), name, policy))

    def connection(self) -> Connection:
        peer = Peer()
        peer.connection = self.broker.open_connection(
            "", user="anna", remote_address="", container_id="", idle_timeout=0, sole=False, handle=peer
        )
        return peer.connection

    def sender(self, queue: Queue) -> Producer:
        link = Link()
        return self.do(lambda: self.broker.attach_producer(self.connection(), queue, "s", 1, link))

    def receiver(self, queue: Queue, credit: int = 10) -> Receiver:
        link = Receiver(self)

        def attach() -> None:
            consumer = self.broker.attach_consumer(self.connection(), queue, "r", link, browsing=False)
            consumer.credit += credit
            queue.touch()

        self.do(attach)
        return link

    def send(self, producer: Producer, **message: Any) -> None:
        self.do(lambda: producer.queue.publish(producer, bytes(Message(body="x", **message).encode())))

    def send_delayed(self, producer: Producer, ms: int) -> None:
        self.send(producer, annotations={symbol("x-opt-delivery-delay"): ms})


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    loop = VirtualTimeLoop()
    base, slept = loop.ms(), list[int]()

    def uptime() -> int:
        return loop.ms() - base + sum(slept)

    service = Service(tmp_path, port=0, clock=SteadyClock(lambda: (START + uptime()) * NS, lambda: uptime() * NS))
    loop.run_until_complete(service.start())
    made = World(loop, service, slept)
    made.broker.virtualhost("default").anonymous = True
    yield made
    loop.run_until_complete(service.stop())
    loop.close()


# -- it sleeps ---------------------------------------------------------------------------------------------------


@pytest.mark.domain("rest broker sleeps")
def test_a_broker_with_nothing_to_do_wakes_about_once_a_second(world: World) -> None:
    assert world.wait(60_000) < 70


@pytest.mark.domain("rest broker sleeps")
def test_clients_and_messages_that_wait_for_nothing_do_not_wake_it(world: World) -> None:
    quiet, full = world.queue(), world.queue("full", capacity_messages=1)
    sender, blocked = world.sender(quiet), world.sender(full)
    world.receiver(quiet)
    for producer in (sender, blocked, blocked):
        world.send(producer)
    assert blocked.blocked
    world.send_delayed(world.sender(world.queue("later")), HOUR)
    world.wait(10_000)
    assert world.wait(60_000) < 70


def test_it_sleeps_again_when_the_work_is_done(world: World) -> None:
    queue = world.queue()
    sender = world.sender(queue)
    for number in range(100):
        world.send_delayed(sender, 1_000 + number)
    receiver = world.receiver(queue, 100)
    world.wait(5_000)
    assert len(receiver.at) == 100
    assert world.wait(60_000) < 70


def test_a_hundred_due_times_in_as_many_ms_take_few_sweeps(world: World) -> None:
    queue = world.queue()
    sender = world.sender(queue)
    for number in range(100):
        world.send_delayed(sender, 500 + number)
    world.receiver(queue, 100)
    assert world.wait(900) < 10


# -- it meets its deadlines, with nothing else happening -----------------------------------------------------------


@pytest.mark.domain("rest broker deadlines")
def test_a_delayed_message_is_delivered_on_time(world: World) -> None:
    queue = world.queue()
    receiver, sender, sent = world.receiver(queue), world.sender(queue), world.now
    due = (HOUR, 10, 61_234, 2 * HOUR)  # each sooner one is planned after a later one
    for ms in due:
        world.send_delayed(sender, ms)
    world.wait(3 * HOUR)
    for at, ms in zip(receiver.at, sorted(due), strict=True):
        assert 0 <= at - sent - ms <= SWEEP


def test_a_delivery_time_follows_the_clock_that_is_set(world: World) -> None:
    queue = world.queue()
    receiver, sender = world.receiver(queue), world.sender(queue)
    due = timestamp(START + world.now + 2 * HOUR)
    world.send(sender, annotations={symbol("x-opt-delivery-time"): due})
    clock, ahead = world.service.clock, HOUR
    day = clock.time_of_day_ns
    clock.time_of_day_ns = lambda: day() + ahead * NS
    began = world.now
    world.wait(2 * HOUR)
    assert [0 <= at - began - HOUR <= SECOND for at in receiver.at] == [True]


def test_a_machine_that_has_slept_delivers_within_a_second(world: World) -> None:
    """The loop's timers do not count that time."""
    queue = world.queue()
    receiver = world.receiver(queue)
    world.send_delayed(world.sender(queue), HOUR)
    world.wait(1_000)
    world.slept.append(HOUR)
    world.wait(SECOND + SWEEP)
    assert len(receiver.at) == 1


@pytest.mark.domain("rest broker deadlines")
def test_a_message_expires_on_time(world: World) -> None:
    queue = world.queue()
    world.send(world.sender(queue), ttl=600.0)
    world.wait(600_000 - 1)
    assert queue.gate.depth_messages == 1
    world.wait(SECOND + SWEEP)
    assert queue.gate.depth_messages == 0


@pytest.mark.domain("rest broker deadlines")
def test_an_expiry_unblocks_a_producer(world: World) -> None:
    queue = world.queue(capacity_messages=1, resume_capacity_messages=0)
    sender = world.sender(queue)
    for _ in range(2):
        world.send(sender, ttl=600.0)
    assert sender.blocked
    world.wait(600_000 + SECOND + SWEEP)
    assert (sender.blocked, sender.credit > 0) == (False, True)


@pytest.mark.domain("rest broker deadlines")
def test_a_stop_ends_on_time(world: World) -> None:
    queue = world.queue()
    sender = world.sender(queue)
    end, scope = End(until=START + world.now + 600_000), Scope("default", "orders")
    world.do(lambda: world.broker.stopping.stop_producers(scope, "repair", "ann", end))
    world.wait(600_000 - SECOND)
    assert sender.blocked
    world.wait(2 * SECOND + SWEEP)
    assert not sender.blocked


@pytest.mark.domain("rest broker deadlines")
def test_credit_of_idle_and_mute_producers_is_drained_and_withdrawn_while_another_waits(world: World) -> None:
    queue = world.queue(capacity_messages=1)
    idle = [world.sender(queue) for _ in range(2)]
    waiting = world.sender(queue)
    assert (waiting.credit, [each.credit for each in idle]) == (0, [1, 1])
    world.wait(2 * SWEEP)
    assert all(each.draining for each in idle)
    world.wait(DRAIN_TIMEOUT_MS + 2 * SWEEP)
    assert [each.withdrawn for each in idle] == [1, 1]
    assert waiting.probing
    world.wait(GRACE_MS + 2 * SWEEP)
    assert queue.gate.ledger.reserved == 0


@pytest.mark.domain("rest broker deadlines")
def test_a_staged_start_gets_faster_and_ends(world: World) -> None:
    queue = world.queue()
    sender = world.sender(queue)
    scope, begun = Scope("default", "orders"), stage(1, 1_000, 0, START + world.now)
    world.do(lambda: world.broker.stopping.stop_producers(scope, "repair", "ann"))
    world.do(lambda: world.broker.stopping.start_producers(scope, reason="done", actor="ann", stage=begun))
    world.wait(60_000)
    assert not world.broker.stops
    assert sender.credit > 0


def test_a_failed_sweep_is_repeated(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    queue = world.queue()
    receiver = world.receiver(queue)
    world.send_delayed(world.sender(queue), 1_000)
    release, calls = world.broker.release, list[int]()

    def fail_once() -> bool:
        calls.append(world.now)
        if len(calls) == 1:
            raise RuntimeError("once")
        return release()

    monkeypatch.setattr(world.broker, "release", fail_once)
    with caplog.at_level(logging.CRITICAL):
        world.wait(1_000 + 3 * SWEEP)
    assert len(receiver.at) == 1


# -- the alarm -----------------------------------------------------------------------------------------------------


def test_an_alarm_rings_once_at_the_earliest_time_planned() -> None:
    loop = VirtualTimeLoop()
    rung = list[int]()

    async def planned() -> None:
        alarm, began = Alarm(lambda: rung.append(loop.ms())), loop.ms()
        for due in (9_000, 3_000, 5_000):
            alarm.plan(0, due)
        await asyncio.sleep(20)
        assert (rung, alarm.at) == ([began + 3_000], NEVER)
        alarm.plan(20_000, 20_000)
        await asyncio.sleep(0.001)
        assert len(rung) == 2, "what is due at once rings at once"

    loop.run_until_complete(planned())
    loop.close()


def test_an_alarm_that_is_planned_in_each_turn_is_not_put_off() -> None:
    loop = VirtualTimeLoop()
    rung = list[int]()

    async def busy() -> None:
        alarm, began = Alarm(lambda: rung.append(loop.ms() - began)), loop.ms()
        for _ in range(100):
            alarm.plan(loop.ms(), loop.ms() + 50)
            await asyncio.sleep(0.01)

    loop.run_until_complete(busy())
    loop.close()
    assert len(rung) >= 16


def test_an_alarm_that_has_stopped_does_not_ring() -> None:
    loop = VirtualTimeLoop()
    rung = list[int]()

    async def stopped() -> None:
        alarm = Alarm(lambda: rung.append(1))
        alarm.plan(0, 1_000)
        alarm.stop()
        await asyncio.sleep(5)

    loop.run_until_complete(stopped())
    loop.close()
    assert not rung
