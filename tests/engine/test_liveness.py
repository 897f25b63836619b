"""That every producer that wants to send is accepted in time, or blocked with a reason, whatever the others do.

Producers that never send, that never read, that answer no drain, that come in bursts or react late, in all mixtures,
around a queue of any capacity, in messages and in bytes, with and without consumers. Time is simulated. The other side
of the bargain is checked at every step: the depth is above the stop level by one message at most.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import pytest

from brokers.engine.flow.probing import FEWEST_PROBES, PROBE_MS, Probes
from brokers.engine.flow.table import State
from brokers.engine.queues.queue import Queue
from brokers.engine.values.limits import UNLIMITED
from brokers.engine.values.stops import Scope
from tests.engine.simulation import SWEEP, Sender, Simulation

#: ms until a producer that wants to send is accepted or blocked, beside 100 idle producers, and beside 1,000.
AMONG_HUNDRED, AMONG_THOUSAND = 2_000, 10_000
SMALL, LARGE = 100, 10_000


@dataclass
class Client:
    """`kind`: eager: always has something to send. bursty: has something now and then. slow: as eager, but acts only
    twice a second. idle: reads and never sends. vanished: does not even read."""

    sender: Sender
    kind: str
    wants: int = 0
    since: int = 0  # when it was last accepted, blocked, or began to have messages, ms
    sizes: list[int] = field(default_factory=lambda: [SMALL])

    def act(self, chance: random.Random, now: int) -> None:
        if self.kind == "vanished":
            return
        if self.kind == "slow" and now // SWEEP % 10 != self.sender.producer.id % 10:
            return
        self.sender.read()
        if self.kind == "idle":
            return
        if self.kind == "bursty":
            if chance.random() < 0.02 and not self.wants:
                self.wants, self.since = chance.randint(1, 30), now
        else:
            self.wants = 1_000
        sent = 0
        while self.wants and sent < 50 and self.sender.send(chance.choice(self.sizes), 1):
            self.wants -= 1
            sent += 1


class Market:
    """`highest`: the longest time that a producer with messages waited without being blocked, ms."""

    def __init__(
        self, kinds: dict[str, int], *, seed: int = 1, sizes: tuple[int, ...] = (SMALL,), **policy: Any
    ) -> None:
        self.world = Simulation()
        self.queue: Queue = self.world.queue(**policy)
        self.chance = random.Random(seed)
        connection = self.world.connection()
        order = [kind for kind, count in kinds.items() for _ in range(count)]
        self.clients = [
            Client(
                self.world.sender(self.queue, answers=self.chance.random() < 0.3, connection=connection),
                kind,
                since=self.now,
                sizes=list(sizes),
            )
            for kind in order
        ]
        self.consumer = self.world.receiver(self.queue)
        self.highest = 0
        self.largest = max(sizes)

    @property
    def now(self) -> int:
        return self.world.broker.turn.now

    def step(self, consume: int = 0) -> None:
        for client in self.clients:
            client.act(self.chance, self.now)
        sending = [c for c in self.clients if c.sender.frames]
        self.chance.shuffle(sending)
        for client in sending:
            accepted = self.accepted(client)
            self.world.arrive(client.sender)
            assert not client.sender.refused
            if self.accepted(client) > accepted:
                client.since = self.now
        self.check_depth()
        if consume:
            self.world.consume(self.consumer, consume)
        self.world.advance(SWEEP)
        self.world.facts.clear()
        self.check_depth()
        for client in self.clients:
            if not client.wants or client.sender.producer.blocked or client.sender.producer.unsettled:
                client.since = self.now
            self.highest = max(self.highest, self.now - client.since)

    def check_depth(self) -> None:
        queue, limits = self.queue, self.queue.gate.limits
        if limits.stop_messages != UNLIMITED:
            assert queue.gate.depth_messages <= limits.stop_messages + 1 + self.more(limits.stop_messages)
        if limits.stop_bytes != UNLIMITED:
            assert queue.gate.depth_bytes <= limits.stop_bytes + self.largest + self.more(limits.stop_bytes)
        if queue.gate.parked:
            assert queue.gate.state is not State.NORMAL, "a message is parked though the queue is not overfull"
            assert all(c.sender.producer.blocked for c in self.clients), "a message is parked without a reason"

    def more(self, stop: int) -> int:
        """Return how many messages the queue accepts above its stop level with mechanism hold."""
        return max(1, stop // 10) if self.queue.gate.limits.overflow == "hold" else 0

    @staticmethod
    def accepted(client: Client) -> int:
        return client.sender.verdicts.total()

    def run(self, ms: int, consume: str = "none") -> None:
        for number in range(ms // SWEEP):
            count = {"none": 0, "slow": 1, "bursty": 40 if number % 20 == 0 else 0, "quick": 500}[consume]
            self.step(count)


def bound(clients: int) -> int:
    return AMONG_HUNDRED if clients <= 110 else AMONG_THOUSAND


def policy_of(unit: str, capacity: int, size: int = SMALL) -> dict[str, int]:
    return {"capacity_messages": capacity} if unit == "messages" else {"capacity_bytes": capacity * size}


@pytest.mark.domain("3 known weakness")
@pytest.mark.parametrize("unit", ["messages", "bytes"])
@pytest.mark.parametrize("idle", [1, 10, 100, 1000])
@pytest.mark.parametrize("kind", ["idle", "vanished"])
@pytest.mark.parametrize("capacity", [1, 2, 17, 100])
def test_lone_producer_among_idle_ones_fills_the_queue_and_is_blocked(capacity, kind, idle, unit):
    market = Market({kind: idle, "eager": 1}, **policy_of(unit, capacity))
    while market.queue.gate.state is State.NORMAL:
        market.step()
        assert market.highest <= bound(idle)
    assert all(c.sender.producer.blocked for c in market.clients)
    assert market.queue.gate.depth_messages == capacity + 1


@pytest.mark.domain("3 bounded waiting")
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("consume", ["none", "slow", "bursty", "quick"])
@pytest.mark.parametrize("unit", ["messages", "bytes"])
@pytest.mark.parametrize("capacity", [1, 2, 17, 100])
def test_mixed_producers_are_accepted_in_time_or_blocked(capacity, unit, consume, seed):
    chance = random.Random(seed)
    kinds = {kind: chance.randint(0, 12) for kind in ("idle", "vanished", "bursty", "slow")}
    market = Market({**kinds, "eager": 1}, seed=seed, **policy_of(unit, capacity))
    market.run(8_000, consume)
    assert market.highest <= AMONG_HUNDRED


@pytest.mark.slow
@pytest.mark.domain("3 bounded waiting")
@pytest.mark.parametrize("consume", ["none", "bursty"])
@pytest.mark.parametrize("capacity", [1, 100])
def test_thousand_mixed_producers_are_accepted_in_time_or_blocked(capacity, consume):
    kinds = {"vanished": 300, "idle": 500, "bursty": 100, "slow": 60, "eager": 40}
    market = Market(kinds, capacity_messages=capacity)
    market.run(12_000, consume)
    assert market.highest <= AMONG_THOUSAND


@pytest.mark.parametrize("size", [1 << 20, 16 << 20])
def test_few_probes_for_large_messages_are_passed_on_in_time(size):
    """No message is that large here: only the recorded size is."""
    market = Market({"vanished": 999, "eager": 1}, capacity_messages=17)
    ledger = market.queue.gate.ledger
    ledger.largest = ledger.recent = size
    assert Probes.most(size) == FEWEST_PROBES
    while market.queue.gate.state is State.NORMAL:
        market.step()
        assert len(ledger.probes) <= FEWEST_PROBES
        assert market.highest <= AMONG_THOUSAND
    assert market.highest <= (1000 / FEWEST_PROBES + 2) * (PROBE_MS + SWEEP) + 1000


@pytest.mark.domain("3 bounded waiting")
@pytest.mark.parametrize("others", [0, 1, 4])
@pytest.mark.parametrize("answers", [True, False])
def test_client_that_waits_for_credit_for_ten_messages_gets_it_once_there_is_room(others: int, answers: bool) -> None:
    """For example a client that publishes ten messages per transaction: one credit is not enough."""
    world = Simulation()
    queue = world.queue(capacity_messages=200)
    batcher = world.sender(queue, answers=answers)
    busy = [world.sender(queue) for _ in range(others)]
    while queue.gate.state is State.NORMAL:
        for sender in busy or [batcher]:
            world.send(sender, 50)
        world.advance(SWEEP)
    taker = world.receiver(queue)
    while queue.gate.depth_messages:
        world.consume(taker, 50)
        world.advance(SWEEP)
    waited = 0
    while batcher.credit < 10:
        batcher.read()
        world.arrive(batcher)
        world.advance(SWEEP)
        waited += SWEEP
        assert waited <= AMONG_HUNDRED
    assert queue.gate.depth_messages + queue.gate.ledger.reserved <= 201


def test_resting_queue_is_not_swept_for_probes_while_memory_is_nearly_used_up() -> None:
    world = Simulation()
    queue = world.queue(capacity_messages=100)
    busy, idle = world.sender(queue), world.sender(queue, answers=False)
    while queue.gate.state is State.NORMAL:
        world.send(busy, 50)
        world.advance(SWEEP)
    world.consume(world.receiver(queue), 1_000)
    world.broker.shortages.set_limits({"memory_limit": SMALL})
    for _ in range(100):
        world.advance(SWEEP)
    assert idle.producer.probing
    assert queue not in world.broker.agenda.watched
    world.broker.shortages.set_limits({})
    world.settle()
    for _ in range(40):
        world.consume(world.receiver(queue), 1)
        world.advance(SWEEP)
    assert idle.producer.credit > 1


def test_probes_leave_half_of_the_room_to_sending_producers() -> None:
    world = Simulation()
    queue = world.queue(capacity_messages=100)
    senders = [world.sender(queue, answers=False) for _ in range(40)]
    for _ in range(100):
        world.advance(SWEEP)
    assert sum(sender.producer.credit for sender in senders) <= 101
    assert queue.gate.ledger.room(queue.gate.limits, 0, 0) >= 50


@pytest.mark.parametrize("capacity", [1, 17])
def test_producer_that_wakes_up_after_an_hour_is_accepted_at_once_or_blocked(capacity):
    market = Market({"vanished": 50, "idle": 51}, capacity_messages=capacity)
    market.run(2_000)
    market.world.broker.turn.now += 3_600_000
    market.run(500)
    woken = market.clients[-1]
    woken.kind, woken.since = "eager", market.now
    market.highest = 0
    while market.queue.gate.state is State.NORMAL:
        market.step()
    assert market.highest <= 1_000


@pytest.mark.parametrize("count", [1, 10, 100])
@pytest.mark.parametrize("capacity", [1, 50_000])
def test_capacity_in_bytes_is_exceeded_by_one_message_at_most_when_messages_grow_a_hundredfold(count, capacity):
    market = Market({"eager": count, "vanished": 3}, capacity_bytes=capacity)
    for client in market.clients[:count]:
        market.world.send(client.sender, 20 // count + 1, SMALL)
    for client in market.clients[:count]:
        client.sizes = [LARGE]
    market.largest = LARGE
    for _ in range(10):
        market.run(1_000)
        assert market.queue.gate.depth_bytes <= capacity + LARGE
        assert market.queue.gate.state is State.OVERFULL
        market.world.consume(market.consumer, 1_000)


def test_parked_messages_after_growth_are_bounded_by_the_outstanding_credit():
    market = Market({"eager": 1}, capacity_bytes=50_000)
    [client] = market.clients
    market.world.send(client.sender, 20, SMALL)
    client.sender.read()
    may = client.sender.credit
    client.sizes = [LARGE]
    market.largest = LARGE
    market.run(1_000)
    assert 0 < len(market.queue.gate.parked) <= may
    assert market.queue.gate.parked.bytes == LARGE * len(market.queue.gate.parked)
    assert client.sender.producer.credit == 0


def test_parked_messages_are_enqueued_in_order_and_none_is_lost():
    market = Market({"eager": 5}, capacity_bytes=50_000)
    market.largest = LARGE
    for client in market.clients:
        market.world.send(client.sender, 4, SMALL)
    for client in market.clients:
        client.sizes = [LARGE]
    market.run(500)
    assert len(market.queue.gate.parked) > 20
    for client in market.clients:
        client.kind, client.wants = "idle", 0
    sent = {c.sender.producer.id: c.sender.sent for c in market.clients}
    came: dict[int, list[int]] = {}
    for _ in range(1_000):
        market.world.give(market.consumer, 1)
        for _number, body in market.world.acquired[market.consumer]:
            producer, _, count = body.rstrip(b".").partition(b":")
            came.setdefault(int(producer), []).append(int(count))
        market.world.accept(market.consumer)
        market.step()
    assert came == {producer: list(range(1, count + 1)) for producer, count in sent.items()}
    assert not market.queue.gate.parked


def test_stop_withdraws_probes_and_parks_late_messages():
    market = Market({"vanished": 20, "eager": 2}, capacity_messages=17)
    market.run(1_000, "quick")
    assert len(market.queue.gate.ledger.probes) >= 20
    market.world.broker.stopping.stop_producers(Scope(), "", "ann")
    market.world.settle()
    assert len(market.queue.gate.ledger.probes) == 0
    depth = market.queue.gate.depth_messages
    market.run(1_000)
    assert market.queue.gate.depth_messages == depth
    market.world.broker.stopping.start_producers(Scope(), "", "ann")
    market.run(2_000)
    assert market.queue.gate.state is State.OVERFULL


# -- hold ---------------------------------------------------------------------------------------------------------


@pytest.mark.domain("1 hold is bounded")
@pytest.mark.parametrize("unit", ["messages", "bytes"])
@pytest.mark.parametrize("count", [1, 10, 100])
@pytest.mark.parametrize("capacity", [1, 17, 50, 1000])
def test_with_hold_the_queue_accepts_a_tenth_of_the_stop_level_more(capacity, count, unit):
    market = Market({"eager": count}, mechanism="hold", **policy_of(unit, capacity))
    while market.queue.gate.state is State.NORMAL:
        market.step()
    market.run(1_000)
    queue = market.queue
    assert capacity + 1 <= queue.gate.depth_messages <= capacity + 1 + max(1, capacity // 10)
    assert sum(p.unsettled for p in queue.gate.producers) == queue.gate.depth_messages - capacity - 1 + len(
        queue.gate.parked
    )
    assert all(p.blocked for p in queue.gate.producers)


@pytest.mark.domain("1 hold is bounded")
@pytest.mark.parametrize("consume", ["none", "slow", "bursty", "quick"])
@pytest.mark.parametrize("unit", ["messages", "bytes"])
@pytest.mark.parametrize("capacity", [1, 2, 17, 100])
def test_with_hold_mixed_producers_are_accepted_in_time_or_blocked(capacity, unit, consume):
    kinds = {"idle": 9, "vanished": 5, "bursty": 8, "slow": 6, "eager": 3}
    market = Market(kinds, mechanism="hold", **policy_of(unit, capacity))
    market.run(8_000, consume)
    assert market.highest <= AMONG_HUNDRED


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 10, 100])
def test_with_hold_each_waiting_producer_gets_credit_after_the_queue_resumes(count):
    market = Market({"eager": count}, capacity_messages=17, mechanism="hold")
    market.run(500)
    assert market.queue.gate.state is State.OVERFULL
    before = [market.accepted(c) for c in market.clients]
    market.run(8_000, "quick")
    assert all(market.accepted(c) > b for c, b in zip(market.clients, before, strict=True))
    assert not any(c.sender.refused for c in market.clients)
