"""Fair shares of credit without starvation, in simulated time: half of the producers are idle and attached first."""

from __future__ import annotations

import math

import pytest

from brokers.engine.flow.credit import DRAIN_TIMEOUT_MS, GRACE_MS, IDLE_CREDIT_MS
from brokers.engine.queues.queue import Queue
from tests.engine.simulation import SWEEP, Sender, Simulation

pytestmark = pytest.mark.timeout(600)  # the largest markets take 40 s on a machine with nothing else to do

#: What a client needs to read, send and be read, ms.
ROUND_TRIP = 10


class Market:
    """A queue that is always drained, producers that always send, and idle ones."""

    def __init__(self, capacity: int, active: int, idle: int, *, answers: bool, idle_first: bool = True) -> None:
        self.world = world = Simulation()
        self.queue: Queue = world.queue(capacity_messages=capacity)
        connection = world.connection()
        self.idle: list[Sender] = []
        self.active: list[Sender] = []
        for kind, count in ((self.idle, idle), (self.active, active))[:: 1 if idle_first else -1]:
            for _ in range(count):
                kind.append(world.sender(self.queue, answers=answers or kind is self.active, connection=connection))
        self.consumer = world.receiver(self.queue)
        self.busy = set(self.active)
        self.elapsed = 0
        self.highest = 0

    def round(self) -> None:
        """One round trip of time, in which all_senders reads, and active producers use what they have."""
        world = self.world
        to_read, world.to_read = world.to_read, set()
        for sender in to_read:
            sender.read()
        for sender in self.active:
            if sender in to_read:
                sender.send(100, 1000)
        for sender in sorted(to_read, key=lambda s: s.producer.id):
            world.arrive(sender)
        self.highest = max(self.highest, self.queue.gate.depth_messages)
        world.consume(self.consumer, 1 << 20)
        world.facts.clear()
        world.broker.turn.now += ROUND_TRIP
        self.elapsed += ROUND_TRIP
        if self.elapsed % SWEEP == 0:
            world.broker.sweep()
            world.settle()

    def until_all_have_sent(self, limit: float) -> int:
        """Return the simulated ms until every active producer has sent."""
        while not all(s.sent for s in self.active):
            self.round()
            assert self.elapsed <= limit, f"{sum(not s.sent for s in self.active)} have had no turn yet"
        return self.elapsed

    def run(self, ms: int) -> list[int]:
        """Return how many messages each active producer sent meanwhile."""
        before = [s.sent for s in self.active]
        for _ in range(ms // ROUND_TRIP):
            self.round()
        return [s.sent - b for s, b in zip(self.active, before, strict=True)]


def jain(shares: list[int]) -> float:
    """Return Jain's index: 1 if all shares are equal, 1/n if one has all."""
    return sum(shares) ** 2 / (len(shares) * sum(s * s for s in shares))


def turn(*, answers: bool) -> int:
    """Return for how long an idle producer has credit that others wait for, ms."""
    return IDLE_CREDIT_MS + SWEEP + (ROUND_TRIP if answers else DRAIN_TIMEOUT_MS + GRACE_MS + SWEEP)


def limit(capacity: int, idle: int, *, answers: bool) -> float:
    """All idle producers hold credit once, as many at a time as there are credits; a fifth for those who come again."""
    return 1.2 * math.ceil(idle / (capacity + 1)) * turn(answers=answers) + 1000


@pytest.mark.parametrize("answers", [True, False])
@pytest.mark.parametrize("count", [1, 10, 100, 1000])
@pytest.mark.parametrize("capacity", [1, 50, 1000])
def test_every_active_producer_gets_credit_though_half_are_idle_and_were_first(capacity, count, answers):
    idle = count // 2
    market = Market(capacity, count - idle, idle, answers=answers)
    market.until_all_have_sent(limit(capacity, idle, answers=answers))
    assert market.highest <= capacity + 1


@pytest.mark.parametrize("answers", [True, False])
@pytest.mark.parametrize("capacity", [1, 10, 100])
def test_single_producer_gets_credit_though_a_hundred_idle_ones_were_first(capacity, answers):
    market = Market(capacity, 1, 100, answers=answers)
    market.until_all_have_sent(limit(capacity, 100, answers=answers))


@pytest.mark.parametrize("capacity", [1, 10, 100])
def test_producer_that_attaches_after_an_idle_hour_gets_credit(capacity):
    market = Market(capacity, 0, 100, answers=False)
    for _ in range(200):
        market.round()
    market.world.advance(3_600_000 // 100)
    market.active.append(market.world.sender(market.queue))
    began = market.elapsed
    market.until_all_have_sent(began + 10 * turn(answers=False) + 5000)


@pytest.mark.slow
@pytest.mark.parametrize("answers", [True, False])
@pytest.mark.parametrize(("capacity", "idle"), [(1, 20), (50, 100), (50, 300)])
def test_idle_producer_that_sends_again_gets_credit_among_active_ones(capacity, idle, answers):
    market = Market(capacity, max(1, idle // 2), idle, answers=answers)
    market.until_all_have_sent(limit(capacity, idle, answers=answers))
    market.run(500)
    woken = market.idle.pop(idle // 2)
    market.world.to_read.add(woken)  # it sends on its earlier credit
    market.active = [*market.active, woken]
    began = market.elapsed
    market.until_all_have_sent(began + 3 * limit(capacity, idle, answers=answers))


@pytest.mark.slow
@pytest.mark.parametrize("answers", [True, False])
@pytest.mark.parametrize(
    ("capacity", "count"), [(1, 2), (1, 10), (1, 100), (50, 10), (50, 100), (50, 400), (1000, 10), (1000, 100)]
)
def test_active_producers_get_equal_shares_though_half_are_idle(capacity, count, answers):
    idle = count // 2
    market = Market(capacity, count - idle, idle, answers=answers)
    market.until_all_have_sent(limit(capacity, idle, answers=answers))
    rounds_needed = 4 * math.ceil((count - idle) / (capacity + 1)) * ROUND_TRIP
    shares = market.run(max(600, 3 * rounds_needed))
    assert min(shares) > 0
    assert jain(shares) >= 0.9


@pytest.mark.slow
@pytest.mark.parametrize("answers", [True, False])
@pytest.mark.parametrize(("capacity", "count"), [(1, 10), (50, 20), (50, 200), (200, 50)])
def test_idle_producers_cost_the_active_ones_half_of_their_rate_at_most(capacity, count, answers):
    alone = Market(capacity, count, 0, answers=True)
    among = Market(capacity, count, count, answers=answers)
    for market in (alone, among):
        market.until_all_have_sent(limit(capacity, count, answers=answers))
        market.run(500)
    assert sum(among.run(2000)) >= 0.35 * sum(alone.run(2000))


def test_producers_get_credit_in_the_order_of_their_requests():
    market = Market(1, 6, 0, answers=True)
    order: list[int] = []
    for _ in range(30):
        before = [s.sent for s in market.active]
        market.round()
        order += [i for i, (s, b) in enumerate(zip(market.active, before, strict=True)) if s.sent > b]
    assert order[:12] == [0, 1, 2, 3, 4, 5] * 2


def test_idle_producers_are_swept_less_often_once_each_has_had_credit():
    market = Market(1, 0, 10, answers=True)
    for _ in range(1000):
        market.round()
    market.world.to_read.clear()
    flows = sum(len(s.flows) for s in market.idle)
    market.world.advance(5000)
    assert sum(len(s.flows) for s in market.idle) - flows <= 5000 / SWEEP / 10 * 6
