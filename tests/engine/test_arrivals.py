"""When messages arrived, from marks that are made about once a second and thinned with age."""

from __future__ import annotations

import random

from brokers.engine.queues.arrivals import Arrivals
from brokers.engine.services.message_match import arrival
from brokers.engine.values.message import Header
from brokers.engine.values.message_format import DeadLetterMark, Head, Unknown
from tests.engine.fake_store import FakeStores
from tests.engine.simulation import Simulation

DAY = 86_400_000


def test_time_is_at_most_a_second_early_and_later_a_hundredth_of_the_age():
    rng, arrivals, now = random.Random(3), Arrivals(0), 0
    truth: list[int] = []  # by sequence number
    for _ in range(20_000):
        began = now
        now += rng.choice((1000, 1000, 1000, 1100, 60_000))
        truth += sorted(rng.randint(began, now) for _ in range(rng.choice((0, 1, 3))))
        arrivals.mark(len(truth), began, empty=False)
    assert len(arrivals) < 2500
    longest = 60_000  # between two marks
    for sequence, at in enumerate(truth, 1):
        known = arrivals.at(sequence, now)
        assert known is not None
        assert at - longest - (now - known) // 100 <= known <= at


def test_messages_since_the_last_mark_arrived_after_it_and_an_emptied_queue_needs_no_marks():
    arrivals = Arrivals(0)
    arrivals.mark(3, 5000, empty=False)
    assert [arrivals.at(n, 6000) for n in (1, 3, 4)] == [5000, 5000, 6000]
    arrivals.mark(9, 7000, empty=True)
    assert (len(arrivals), arrivals.at(10, 8000)) == (0, 8000)
    arrivals.mark(10, 8000, empty=False)
    assert arrivals.at(10, 9000) == 8000


class Dated(Unknown):
    """Bodies are the creation time, with `d` in front for a dead letter."""

    def head(self, body: bytes) -> Head:
        mark = DeadLetterMark("rejected", "q") if body.startswith(b"d") else None
        return Head(created=int(body.strip(b"d") or 0), dead_letter=mark)


def test_after_a_restart_only_the_creation_time_is_known_unless_it_is_that_of_another_queue():
    world = Simulation(now=10 * DAY)
    world.broker.stores.provider = FakeStores()
    world.broker.turn.header = lambda body: Header(durable=True)
    world.broker.turn.format = Dated()
    queue = world.broker.create_queue(world.host, "q", {}, durable=True)
    world.broker.recover(world.host, [(queue.store_id, number, 5, 0, 0) for number in range(1, 6)])
    assert queue.arrived_at(5) is None
    bodies = {1: b"%d" % (9 * DAY), 2: b"", 3: b"d%d" % (9 * DAY), 4: b"%d" % (11 * DAY)}
    found = {number: arrival(queue, number, body) for number, body in bodies.items()}
    assert found == {1: 9 * DAY, 2: None, 3: None, 4: None}  # the sender's clock was ahead
    world.advance(2000)
    queue.enqueue(b"0")
    world.broker.upkeep.mark_arrivals()
    assert arrival(queue, 6, b"0") == 10 * DAY
