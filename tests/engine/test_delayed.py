"""Messages with a delivery time: when they are visible, against a plain list, and what counts meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.engine.queues.backlog import HERE
from brokers.engine.queues.consumer import Consumer
from brokers.engine.queues.delayed import Delayed
from brokers.engine.queues.lane import PriorityLane
from brokers.engine.queues.lanes import LOAD_MESSAGES
from brokers.engine.queues.queue import Queue
from brokers.engine.values.message import DELAYED, NEVER, PLAIN, Header
from brokers.engine.values.outcomes import Verdict
from tests.engine.fake_store import FakeStore
from tests.engine.simulation import START, SWEEP, Simulation
from tests.engine.test_subscriptions import spec, subscribe


def header(body: bytes) -> Header:
    """Return the header of a body: name,due,ttl,priority,durable."""
    if body.count(b",") != 4:
        return PLAIN
    _, due, ttl, priority, durable = body.split(b",")
    return Header(durable == b"1", int(priority), int(ttl), int(due))


def body(name: int, due: int = 0, ttl: int = 0, priority: int = 4, durable: int = 0) -> bytes:
    return b"%d,%d,%d,%d,%d" % (name, START + due if due else 0, ttl, priority, durable)


def simulation() -> Simulation:
    sim = Simulation()
    sim.broker.turn.header = header
    return sim


@dataclass
class Expected:
    number: int
    due: int
    expires: int
    priority: int

    def seen(self, now: int) -> bool:
        return self.due <= now < self.expires


TIMES = st.integers(0, 10).map(lambda n: n * SWEEP)
PUBLISH = st.tuples(st.just("publish"), TIMES, st.integers(0, 10).map(lambda n: n * SWEEP), st.integers(2, 6))
STEPS = st.lists(
    st.one_of(
        PUBLISH,
        st.tuples(st.just("advance"), TIMES),
        st.tuples(st.just("consume"), st.integers(1, 4)),
        st.tuples(st.just("release"), st.integers(1, 4)),
        st.tuples(st.just("purge")),
    ),
    max_size=40,
)


@given(STEPS)
@pytest.mark.domain("clients delivery delay")
def test_delayed_messages_agree_with_a_plain_list(steps: list[tuple[str, ...]]) -> None:
    sim = simulation()
    queue = sim.queue()
    listed: list[Expected] = []
    count = 0

    def there() -> list[Expected]:
        now = sim.broker.turn.now - START
        seen = [e for e in listed if e.seen(now)]
        return sorted(seen, key=lambda e: (-e.priority, e.number))

    for step in steps:
        match step:
            case ("publish", due, ttl, priority):
                count += 1
                now = sim.broker.turn.now - START
                queue.enqueue(body(count, now + due if due else 0, ttl, priority))
                listed.append(Expected(count, now + due, now + ttl if ttl else 1 << 60, priority))
                sim.settle()
            case ("advance", ms):
                sim.advance(ms)
                listed = [e for e in listed if e.expires > sim.broker.turn.now - START]
            case ("consume" | "release" as what, most):
                consumer = sim.receiver(queue, most)
                got = [int(m[1].split(b",")[0]) for m in sim.acquired[consumer]]
                assert got == [e.number for e in there()][:most]
                if what == "consume":
                    sim.accept(consumer)
                    listed = [e for e in listed if e.number not in got]
                sim.leave(consumer)
            case ("purge",):
                assert queue.lanes.purge()[0] == len(listed)
                listed.clear()
        now = sim.broker.turn.now - START
        assert queue.gate.depth_messages == len(listed)
        assert len(queue.lanes.delayed) == sum(e.due > now for e in listed)
        assert queue.lanes.unacknowledged == 0


def test_delayed_messages_block_producers_and_are_invisible_to_browsers() -> None:
    sim = simulation()
    queue = sim.queue(capacity_messages=2)
    for n in range(3):
        queue.enqueue(body(n, 500))
    assert queue.gate.state.overfull
    browser = sim.receiver(queue, 10, browsing=True)
    sim.advance(450)
    assert browser.messages == 0
    sim.advance(50)
    assert browser.messages == 3


def test_ring_drops_delayed_messages_when_there_are_no_others() -> None:
    sim = simulation()
    queue = sim.queue(capacity_messages=2, overflow="ring")
    for n in range(4):
        queue.enqueue(body(n, 500))
        sim.settle()
    queue.enqueue(body(4))
    sim.settle()
    assert (queue.gate.depth_messages, queue.lanes.dropped, len(queue.lanes.delayed)) == (2, 3, 2)
    sim.advance(500)
    consumer = sim.receiver(queue, 9)
    assert [m[1][:1] for m in sim.acquired[consumer]] == [b"2", b"3"]


class Stores:
    def __init__(self, store: FakeStore) -> None:
        self.store = store

    def open(self, virtualhost: str) -> FakeStore:
        return self.store

    def open_temp(self) -> FakeStore:
        return FakeStore()

    def drop(self, virtualhost: str) -> None:
        """Ignore the removal."""


def durable(sim: Simulation, store: FakeStore) -> Queue:
    sim.host.store = store
    queue = sim.broker.create_queue(sim.host, "orders", durable=True)
    sim.settle()
    return queue


def test_durable_delayed_message_is_marked_and_its_body_stays_in_the_store() -> None:
    sim, store = simulation(), FakeStore()
    queue = durable(sim, store)
    queue.enqueue(body(1, 500, durable=1))
    ((place, expires),) = store.expiries.items()
    assert expires == DELAYED
    store.write(sim.broker)
    sim.settle()
    assert (len(queue.lanes.delayed), queue.memory_bytes(), queue.lanes.unacknowledged) == (1, 0, 0)
    consumer = sim.receiver(queue, 9)
    sim.advance(450)
    assert not sim.acquired[consumer]
    store.readable = False
    sim.advance(200)
    assert not sim.acquired[consumer]
    store.readable = True
    sim.advance(50)
    assert [m[0] for m in sim.acquired[consumer]] == [place[1]]


def test_messages_missing_from_the_store_are_dropped_and_not_read_again() -> None:
    class Damaged(FakeStore):
        def load(self, queue: int, numbers: Sequence[int]) -> dict[int, bytes] | None:
            return {}

    store = Damaged()
    sim = simulation()
    queue = durable(sim, store)
    sim.broker.recover(sim.host, [(queue.store_id, number, 100, 0, DELAYED) for number in range(1, 6)])
    assert [sim.broker.release() for _ in range(2)][-1] is False
    assert (queue.gate.depth_messages, queue.lanes.dropped, len(queue.lanes.delayed)) == (0, 5, 0)


def test_delivery_time_is_read_from_the_body_after_a_restart() -> None:
    store = FakeStore()
    sim = simulation()
    queue = durable(sim, store)
    rows = []
    for number, (due, ttl) in enumerate([(500, 0), (500, 200), (0, 0)], 1):
        store.stored[queue.store_id, number] = text = body(number, due, ttl, durable=1)
        rows.append((queue.store_id, number, len(text), 0, (DELAYED if due else 0) | (START + ttl if ttl else 0)))
    sim.broker.recover(sim.host, rows)
    consumer = sim.receiver(queue, 9)
    assert [m[0] for m in sim.acquired[consumer]] == [3]
    sim.advance(450)
    assert [m[0] for m in sim.acquired[consumer]] == [3]
    assert queue.lanes.expired == 1
    sim.advance(50)
    assert [m[0] for m in sim.acquired[consumer]] == [3, 1]
    assert queue.gate.depth_messages == 2


def test_spooling_queue_leaves_bodies_on_disk_until_they_are_dispatched() -> None:
    sim, temp = simulation(), FakeStore()
    sim.broker.turn.temp = lambda: temp
    queue = sim.queue(capacity_messages=3, spool="disk")
    bodies = [body(n, 500 if n % 2 else 0) for n in range(1, 41)]
    sender = sim.sender(queue)
    for each in bodies:
        assert sim.publish(sender, each) is Verdict.ACCEPTED
    temp.write(sim.broker, "")
    few = sum(map(len, bodies[:5]))
    assert (len(queue.lanes.delayed), queue.memory_bytes() <= few) == (20, True)
    sim.advance(500)
    temp.write(sim.broker, "")
    assert (len(queue.lanes.delayed), queue.memory_bytes() <= few) == (0, True)
    consumer = sim.receiver(queue, 40)
    assert [m[1] for m in sim.acquired[consumer]] == bodies
    sim.accept(consumer)
    temp.write(sim.broker, "")
    assert temp.stored == {}


def test_message_moved_to_the_backlog_is_not_spooled_twice() -> None:
    """The temp store would get the removal and the put of one number in the same group of changes."""
    sim, temp = simulation(), FakeStore()
    sim.broker.turn.temp = lambda: temp
    queue = sim.queue(capacity_messages=1, spool="disk")
    sender = sim.sender(queue)
    bodies = [body(1, 500), body(2, 300), body(3, 100)]
    for each in bodies:
        assert sim.publish(sender, each) is Verdict.ACCEPTED
    lane = queue.lanes.lane_of(1)
    lane.take_in([(10**6 + n, b"in memory") for n in range(3)])
    queue.gate.depth_messages += 3
    queue.gate.depth_bytes += 27
    sim.advance(100)  # before those in memory, while its own body is being spooled
    sim.advance(400)
    places = [put[:2] for put in temp.puts]
    assert len(set(places)) == len(places)
    temp.write(sim.broker, "")
    consumer = sim.receiver(queue, 9)
    assert [m[1] for m in sim.acquired[consumer]] == [*bodies, *[b"in memory"] * 3]


def test_many_due_messages_become_visible_in_batches() -> None:
    sim = simulation()
    queue, other = sim.queue(), sim.queue("other")
    for n in range(LOAD_MESSAGES * 3):
        queue.enqueue(body(n, 500))
    other.enqueue(body(1, 500))
    sim.broker.turn.now += 500
    seen = []
    more = True
    while more:
        more = sim.broker.release()
        seen.append((len(queue.lanes.delayed), len(other.lanes.delayed)))
    assert seen == [(LOAD_MESSAGES * 2, 0), (LOAD_MESSAGES, 0), (0, 0)]
    assert sim.broker.agenda.delayed == set()


def test_group_stays_with_its_consumer_for_messages_that_become_due() -> None:
    sim = simulation()
    queue = sim.queue()

    def attach() -> Consumer:
        consumer = sim.broker.attach_consumer(
            sim.connection(), queue, "link", None, browsing=False, group_of=lambda b: "odd" if b[0] % 2 else "even"
        )
        sim.acquired[consumer] = []
        return consumer

    one, two = attach(), attach()
    queue.enqueue(body(1, 500))
    queue.enqueue(body(3))
    sim.give(one, 1)
    queue.enqueue(body(2))
    sim.give(two, 9)
    sim.give(one, 9)
    sim.advance(500)
    assert [m[1][:1] for m in sim.acquired[one]] == [b"3", b"1"]
    assert [m[1][:1] for m in sim.acquired[two]] == [b"2"]


def test_delayed_messages_do_not_make_a_consumer_slow() -> None:
    sim = simulation()
    sim.broker.slow_consumers.create(sim.host, "slow", {"topic": ">", "policy": "log", "messageAge": 4000})
    sim.broker.slow_consumers.create(sim.host, "many", {"topic": "many", "policy": "log", "messageCount": 1})
    found, consumer = subscribe(sim, spec(sim))
    many, _ = subscribe(sim, spec(sim, "many"))

    def look(seconds: int) -> list[bool]:
        slow = []
        for _ in range(seconds):
            sim.advance(1000)
            sim.broker.sample()
            slow.append(found.slow_since is not None)
        return slow

    for queue in (found.queue, many.queue):
        queue.enqueue(body(1, 60_000))
    assert not any(look(59))
    assert many.slow_since is None
    assert look(6) == [False, False, False, False, True, True]
    assert many.slow_since is not None
    sim.consume(consumer, 1)
    assert look(1) == [False]
    assert found.queue.lanes.delayed.visible_since == {}


def test_ages_of_expired_and_purged_messages_are_dropped() -> None:
    sim = simulation()
    found, _ = subscribe(sim, spec(sim))
    queue = found.queue
    queue.enqueue(body(1, 100, 5000))
    queue.enqueue(body(2, 100))
    sim.advance(200)
    assert set(queue.lanes.delayed.visible_since or ()) == {1, 2}
    sim.advance(5000)
    assert set(queue.lanes.delayed.visible_since or ()) == {2}
    queue.lanes.purge()
    assert queue.lanes.delayed.visible_since == {}


def test_removed_messages_do_not_accumulate_in_the_heap() -> None:
    delayed = Delayed()
    for n in range(5000):
        delayed.add(n + 1_000_000, (n, 1, HERE, b"x", NEVER), of_day=False)
        assert delayed.take(n) is not None
    assert len(delayed._heap) < 3000
    assert (len(delayed), delayed.depth_bytes, delayed.bytes, delayed.soonest) == (0, 0, 0, NEVER)


@given(st.sets(st.integers(1, 60)), st.integers(0, 60), st.integers(0, 60), st.sets(st.integers(1, 60)))
def test_messages_are_inserted_at_their_places_in_a_lane(
    here: set[int], first: int, cut: int, coming: set[int]
) -> None:
    """Returned messages stay before the others."""
    lane = PriorityLane(0)
    lane.returned = [(n, b"") for n in sorted(here) if n < first]
    lane.ready.extend((n, b"") for n in sorted(here) if n >= first)
    lane.take_in([(n, b"") for n in sorted(coming - here)])
    assert [n for n, _ in (*lane.returned, *lane.ready)] == sorted(here | coming)
    assert [n for n, _ in lane.cut(cut)] == [n for n in sorted(here | coming) if n >= cut]
    assert [n for n, _ in (*lane.returned, *lane.ready)] == [n for n in sorted(here | coming) if n < cut]
