"""The rules of `credit.py`, one by one: the bound on overshoot in messages and bytes, and withdrawn credit."""

from __future__ import annotations

import pytest

from brokers.engine.flow.credit import DEFAULT_MESSAGE_BYTES, DRAIN_TIMEOUT_MS, FIRST_GRANT, GRACE_MS, IDLE_CREDIT_MS
from brokers.engine.flow.table import State
from brokers.engine.queues.queue import Queue
from brokers.engine.values.outcomes import Outcome
from brokers.engine.values.stops import Scope
from tests.engine.simulation import SWEEP, Sender, Simulation, body

MINUTE = 60_000


@pytest.fixture
def world() -> Simulation:
    return Simulation()


def senders(world: Simulation, queue: Queue, count: int, *, answers: bool = True) -> list[Sender]:
    connection = world.connection()
    return [world.sender(queue, answers=answers, connection=connection) for _ in range(count)]


def flood(world: Simulation, all_senders: list[Sender], size: int, rounds: int = 3000) -> None:
    """Have all senders use all their credit at the same moment, until the queue blocks them."""
    for _ in range(rounds):
        for sender in all_senders:
            sender.read()
            sender.send(size, 10_000)
        for sender in all_senders:
            world.arrive(sender)
        if all_senders[0].producer.blocked:
            return
        world.advance()
    raise AssertionError("flow control never blocked the senders")


# -- the bound in messages -------------------------------------------------------------------------------------


@pytest.mark.domain("3 known weakness")
@pytest.mark.parametrize("capacity", [1, 2, 10, 1000])
@pytest.mark.parametrize("count", [1, 2, 10, 100, 1000])
def test_any_number_of_producers_overshoots_by_one_message_at_most(world, capacity, count):
    queue = world.queue(capacity_messages=capacity)
    all_senders = senders(world, queue, count)
    assert queue.gate.ledger.reserved <= capacity + 1
    flood(world, all_senders, size=100)
    assert queue.gate.depth_messages == capacity + 1
    assert queue.gate.state is State.OVERFULL
    assert all(s.producer.blocked for s in all_senders)
    world.advance(GRACE_MS + 2 * SWEEP)
    assert (queue.gate.ledger.reserved, len(queue.gate.ledger.probes)) == (0, 0)


def test_stop_level_below_the_capacity_bounds_the_depth(world):
    queue = world.queue(capacity_messages=100, flow_stop_messages="50%")
    flood(world, senders(world, queue, 10), size=10)
    assert queue.gate.depth_messages == 51


def test_messages_in_flight_at_a_stop_are_parked_and_enqueued_at_the_start_within_the_bound(world):
    queue = world.queue(capacity_messages=20)
    all_senders = senders(world, queue, 3)
    for sender in all_senders:
        sender.read()
        sender.send(100, 100)
    world.broker.stopping.stop_producers(Scope(), "", "ann")
    world.settle()
    in_flight = sum(s.in_flight for s in all_senders)
    assert in_flight > 3
    for sender in all_senders:
        world.arrive(sender)
    assert (queue.gate.depth_messages, len(queue.gate.parked)) == (0, in_flight)
    world.broker.stopping.start_producers(Scope(), "", "ann")
    world.settle()
    assert (queue.gate.depth_messages, len(queue.gate.parked)) == (in_flight, 0)
    assert in_flight <= 21
    assert not any(s.refused for s in all_senders)


@pytest.mark.domain("4 producer window")
def test_unlimited_queue_gives_each_producer_its_window(world):
    queue = world.queue(producer_window_messages=30)
    one, other = senders(world, queue, 2)
    assert (one.producer.credit, other.producer.credit) == (FIRST_GRANT, FIRST_GRANT)
    world.send(one, 500)
    assert one.producer.credit <= 30
    assert one.sent == 500


@pytest.mark.domain("4 producer window")
@pytest.mark.parametrize("mechanism", ["block", "hold", "reject"])
def test_window_in_bytes_bounds_what_each_producer_has_outstanding(world, mechanism):
    queue = world.queue(producer_window_bytes=10_000, producer_window_messages=500, mechanism=mechanism)
    one, other = senders(world, queue, 2)
    world.send(one, 1, size=1000)
    for _ in range(3):
        world.send(one, 5, size=1000)
        world.send(other, 5, size=300)
        assert 0 < one.producer.credit <= 10
        assert 0 < other.producer.credit <= 10
    assert (one.sent, other.sent) == (16, 15)


def test_window_in_bytes_below_one_message_allows_one_message_at_a_time(world):
    queue = world.queue(producer_window_bytes=10)
    sender = world.sender(queue)
    assert sender.producer.credit == 1
    assert world.send(sender, 5, size=1000) == 5
    assert sender.producer.credit == 1


def test_ring_never_blocks_its_producers(world):
    queue = world.queue(capacity_messages=5, overflow="ring")
    sender = world.sender(queue)
    assert world.send(sender, 1000) == 1000
    assert (queue.gate.depth_messages, queue.lanes.dropped, queue.gate.state) == (5, 995, State.NORMAL)


# -- the bound in bytes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [16, 100, 1000, DEFAULT_MESSAGE_BYTES])
@pytest.mark.parametrize("count", [1, 10, 100])
def test_constant_sizes_overshoot_a_byte_limit_by_one_message_at_most(world, size, count):
    stop = 20 * size + size // 2
    queue = world.queue(capacity_bytes=stop)
    flood(world, senders(world, queue, count), size)
    assert stop < queue.gate.depth_bytes <= stop + size
    assert queue.gate.state is State.OVERFULL


@pytest.mark.parametrize("count", [1, 10, 100])
def test_sizes_below_the_largest_seen_overshoot_by_one_message_at_most(world, count):
    queue = world.queue(capacity_bytes=100_000)
    all_senders = senders(world, queue, count)
    for number, sender in enumerate(all_senders * 3):
        world.send(sender, 1, size=1000 + 97 * (number % 10))
    flood(world, all_senders, size=1873)
    assert 100_000 < queue.gate.depth_bytes <= 100_000 + 1873


def test_byte_limit_below_one_message_accepts_one_message_at_a_time(world):
    queue = world.queue(capacity_bytes=1)
    all_senders = senders(world, queue, 10)
    assert queue.gate.ledger.reserved == 1
    flood(world, all_senders, size=100)
    assert queue.gate.depth_messages == 1


def test_excess_credit_is_withdrawn_at_once_when_messages_grow(world):
    queue = world.queue(capacity_bytes=1_000_000)
    one, other = senders(world, queue, 2)
    for sender in (one, other):
        world.send(sender, 20, size=100)
    assert other.producer.credit > 100
    assert world.send(one, 1, size=100_000) == 1
    fits = (1_000_000 - queue.gate.depth_bytes) // 100_000 + 1
    assert one.producer.credit + other.producer.credit <= fits
    other.read()
    assert other.credit <= fits


def test_overshoot_when_messages_grow_is_bounded_by_messages_in_flight(world):
    queue = world.queue(capacity_bytes=1_000_000)
    one, other = senders(world, queue, 2)
    for sender in (one, other):
        world.send(sender, 20, size=100)
    one.read()
    other.read()
    one.send(100_000, 1)
    late = other.send(100_000, 7)
    world.arrive(one)
    world.arrive(other)
    flood(world, [one, other], size=100_000)
    assert queue.gate.depth_bytes <= 1_000_000 + (late + 1) * 100_000
    assert not one.refused
    assert not other.refused


def test_credit_withdrawn_when_messages_grew_is_granted_again(world):
    queue = world.queue(capacity_bytes=1_000_000)
    all_senders = senders(world, queue, 3)
    for sender in all_senders:
        world.send(sender, 20, size=100)
    world.send(all_senders[0], 1, size=100_000)
    world.advance(GRACE_MS + 2 * SWEEP)
    for sender in all_senders:
        assert world.send(sender, 1, size=100) == 1


def test_largest_size_expires_after_two_minutes(world):
    queue = world.queue(capacity_bytes=1_000_000)
    sender = world.sender(queue)
    receiver = world.receiver(queue)
    world.send(sender, 1, size=500_000)
    world.consume(receiver, 1)
    assert queue.gate.ledger.largest == 500_000
    for _ in range(3):
        world.send(sender, 2, size=100)
        world.consume(receiver, 2)
        world.advance(SWEEP)
        world.broker.turn.now += MINUTE
        world.advance(SWEEP)
    assert queue.gate.ledger.largest == 100
    assert queue.gate.room() > 1000


def test_largest_size_of_the_last_minute_counts(world):
    queue = world.queue(capacity_bytes=1_000_000)
    sender = world.sender(queue)
    world.advance(SWEEP)
    world.send(sender, 1, size=5000)
    world.send(sender, 1, size=100)
    world.broker.turn.now += MINUTE
    world.advance(SWEEP)
    world.send(sender, 1, size=100)
    assert queue.gate.ledger.largest == 5000


def test_idle_queue_uses_its_last_largest_size(world):
    queue = world.queue(capacity_bytes=1_000_000)
    world.send(world.sender(queue), 1, size=5000)
    for _ in range(5):
        world.broker.turn.now += MINUTE
        world.advance(SWEEP)
    assert queue.gate.ledger.largest == 5000


# -- changes of limits -----------------------------------------------------------------------------------------


def test_lowered_limit_withdraws_only_excess_credit_and_starves_no_producer(world):
    queue = world.queue(capacity_messages=600)
    all_senders = senders(world, queue, 6)
    acquired = [s.producer.credit for s in all_senders]
    assert acquired == [FIRST_GRANT] * 6
    world.broker.set_own_policy(queue, {"capacity_messages": 40})
    world.settle()
    for _ in range(3):
        world.broker.agenda.touched.add(queue)
        world.settle()
    taken = sum(s.producer.withdrawn for s in all_senders)
    excess = sum(acquired) - 41
    assert excess <= taken < excess + max(acquired)
    world.advance(GRACE_MS + 2 * SWEEP)
    assert queue.gate.ledger.reserved <= 41
    for sender in all_senders:
        world.advance(1000)
        assert world.send(sender, 1) == 1


def test_raised_limit_unblocks_producers_at_once(world):
    queue = world.queue(capacity_messages=2)
    sender = world.sender(queue)
    world.send(sender, 10)
    assert sender.producer.blocked
    world.broker.set_own_policy(queue, {"capacity_messages": 5})
    world.settle()
    assert not sender.producer.blocked
    assert world.send(sender, 10) == 3


def test_lowered_limit_blocks_running_producers_at_once(world):
    queue = world.queue(capacity_messages=100)
    sender = world.sender(queue)
    world.send(sender, 5)
    world.broker.set_own_policy(queue, {"capacity_messages": 4})
    world.settle()
    assert queue.gate.state is State.OVERFULL
    assert list(sender.producer.reasons) == ["queue-overfull:orders"]
    assert sender.producer.credit == 0


# -- withdrawn credit ------------------------------------------------------------------------------------------


def test_idle_producer_with_credit_is_drained_while_another_waits(world):
    queue = world.queue(capacity_messages=1)
    idle = senders(world, queue, 2)
    waiting = world.sender(queue)
    assert (waiting.producer.credit, [s.producer.credit for s in idle]) == (0, [1, 1])
    world.advance(2 * IDLE_CREDIT_MS)
    assert all(s.producer.draining for s in idle)
    for sender in idle:
        sender.read()
        world.arrive(sender)
    assert waiting.producer.credit == 1


def test_idle_producer_with_credit_is_not_drained_while_none_waits(world):
    queue = world.queue(capacity_messages=100)
    idle = world.sender(queue)
    acquired = idle.producer.credit
    world.advance(60_000)
    assert idle.producer.credit == acquired > 0
    assert not world.broker.agenda.watched


def test_sending_producer_is_not_drained(world):
    queue = world.queue(capacity_messages=10)
    busy, *_ = senders(world, queue, 6)
    receiver = world.receiver(queue)
    for _ in range(40):
        assert world.send(busy, 1) == 1
        world.consume(receiver, 1)
        assert not busy.producer.draining
        world.advance(SWEEP)


def test_credit_not_returned_in_time_is_withdrawn_and_stays_reserved_for_a_while(world):
    queue = world.queue(capacity_messages=1)
    mute = senders(world, queue, 2, answers=False)
    waiting = world.sender(queue)
    world.advance(2 * IDLE_CREDIT_MS)
    assert all(s.producer.draining for s in mute)
    world.advance(DRAIN_TIMEOUT_MS)
    assert [(s.producer.probing, s.producer.withdrawn) for s in mute] == [(True, 1), (True, 1)]
    assert waiting.producer.probing, "it gets a probe while all room is reserved"
    assert queue.gate.ledger.reserved == 2
    world.advance(GRACE_MS)
    assert queue.gate.ledger.reserved == 0


def test_late_message_on_withdrawn_credit_is_accepted(world):
    queue = world.queue(capacity_messages=1)
    mute = senders(world, queue, 3, answers=False)[0]
    mute.read()
    mute.send()
    world.advance(2 * IDLE_CREDIT_MS + DRAIN_TIMEOUT_MS)
    assert (mute.producer.probing, mute.producer.withdrawn) == (True, 1)
    world.arrive(mute)
    assert (queue.gate.depth_messages, mute.refused, mute.producer.probing) == (1, 0, False)


def very_late(world: Simulation, queue: Queue) -> Sender:
    mute = world.sender(queue, answers=False)
    mute.read()
    assert mute.send(100, 3) == 3
    world.broker.stopping.stop_producers(Scope(), "", "ann")
    world.settle()
    world.advance(GRACE_MS + SWEEP)
    assert (mute.producer.withdrawn, mute.producer.lapsed >= 3) == (0, True)
    return mute


def test_very_late_message_is_parked_while_the_queue_is_stopped(world):
    queue = world.queue(capacity_messages=100)
    mute = very_late(world, queue)
    world.arrive(mute)
    assert (queue.gate.depth_messages, mute.refused, mute.producer.unsettled, len(queue.gate.parked)) == (0, 0, 3, 3)
    world.broker.stopping.start_producers(Scope(), "", "ann")
    world.settle()
    assert (queue.gate.depth_messages, mute.producer.unsettled, len(queue.gate.parked)) == (3, 0, 0)


def test_very_late_message_is_parked_until_there_is_room(world):
    queue = world.queue(capacity_messages=10)
    mute = very_late(world, queue)
    for number in range(10):
        queue.enqueue(b"%10d" % number)
    world.settle()
    world.arrive(mute)
    world.broker.stopping.start_producers(Scope(), "", "ann")
    world.settle()
    assert (queue.gate.depth_messages, mute.refused, len(queue.gate.parked)) == (11, 0, 2)
    queue.lanes.purge()
    world.settle()
    assert (queue.gate.depth_messages, mute.producer.unsettled, len(queue.gate.parked)) == (2, 0, 0)


def test_messages_long_in_flight_are_accepted_after_repeated_grants_and_withdrawals(world):
    queue = world.queue(capacity_messages=100)
    mute = world.sender(queue, answers=False)
    mute.read()
    sent = mute.send(100, 100)
    world.broker.stopping.stop_producers(Scope(), "", "ann")
    world.advance(GRACE_MS + 2 * SWEEP)
    assert mute.producer.lapsed == sent
    world.broker.set_own_policy(queue, {"capacity_messages": 3})
    for _ in range(sent):
        world.broker.stopping.start_producers(Scope(), "", "ann")
        world.settle()
        assert 0 < mute.producer.credit < sent
        world.broker.stopping.stop_producers(Scope(), "", "ann")
        world.settle()
    world.arrive(mute)
    assert (mute.refused, queue.gate.depth_messages, len(queue.gate.parked)) == (0, 0, sent)


def test_messages_on_credit_counted_twice_after_a_drain_are_parked_and_end_no_link(world):
    queue = world.queue(capacity_messages=10)
    mute = world.sender(queue, answers=False)
    waiting = world.sender(queue)
    world.send(mute, 1)
    mute.read()
    acquired = mute.producer.credit
    assert acquired > 1
    world.send(waiting, 100)
    world.advance(IDLE_CREDIT_MS + DRAIN_TIMEOUT_MS + 3 * SWEEP)
    assert (mute.producer.probing, mute.producer.doubtful) == (True, acquired)
    for number in range(1 + mute.producer.withdrawn + mute.producer.lapsed + acquired):
        world.publish(mute, b"%d" % number)
    assert mute.refused == 0
    assert queue.gate.depth_messages <= 11
    world.publish(mute, b"one more")
    assert mute.refused == 1


def test_grace_period_restarts_after_each_late_message(world):
    queue = world.queue(capacity_messages=100)
    mute = world.sender(queue, answers=False)
    mute.read()
    mute.send(100, 3)
    world.broker.stopping.stop_producers(Scope(), "", "ann")
    world.settle()
    reserved = mute.producer.withdrawn
    for left in (2, 1, 0):
        world.advance(GRACE_MS - SWEEP)
        world.arrive(mute, 1)
        assert mute.producer.withdrawn == reserved - 3 + left
    world.advance(GRACE_MS + 2 * SWEEP)
    assert queue.gate.ledger.reserved == 0


@pytest.mark.parametrize(("late", "longer"), [(1, 4), (2, 3), (3, 4), (4, 5)])
def test_credit_stays_reserved_after_a_late_message_for_twice_as_long_as_it_was_late(world, late, longer):
    queue = world.queue(capacity_messages=100)
    mute = world.sender(queue, answers=False)
    mute.read()
    mute.send(100, 1)
    world.broker.stopping.stop_producers(Scope(), "", "ann")
    world.settle()
    world.advance(late * SWEEP)
    world.arrive(mute, 1)
    world.advance((longer - 1) * SWEEP)
    assert mute.producer.withdrawn
    world.advance(SWEEP)
    assert not mute.producer.withdrawn


def test_message_without_any_credit_is_refused_and_not_enqueued(world):
    queue = world.queue(capacity_messages=1)
    sender = world.sender(queue)
    world.send(sender, 2)
    assert not world.publish(sender, b"rogue")
    assert queue.gate.depth_messages == 2
    assert sender.producer not in queue.gate.ledger.members
    assert world.kinds()[-1] == "producer-detached"


def test_detaching_producer_releases_its_credit_at_once(world):
    queue = world.queue(capacity_messages=1)
    first, second = senders(world, queue, 2)
    waiting = world.sender(queue)
    world.detach(first)
    assert waiting.producer.credit == 1
    world.detach(second)
    world.detach(waiting)
    assert (queue.gate.ledger.reserved, len(queue.gate.ledger.waiting), len(queue.gate.ledger.pending)) == (0, 0, 0)


def test_credit_used_after_its_withdrawal_leaves_nothing_to_sweep(world):
    queue = world.queue(capacity_messages=8)
    sender = world.sender(queue)
    sender.read()
    sender.send(100, 100)
    world.broker.stopping.stop_producers(Scope(), "", "ann")
    world.settle()
    world.arrive(sender)
    assert sender.producer.withdrawn == 0
    world.advance(2 * SWEEP)
    assert not queue.gate.ledger.pending
    assert not world.broker.agenda.watched


@pytest.mark.parametrize("mechanism", ["block", "hold", "reject-after"])
def test_message_never_overtakes_a_parked_one_of_its_producer(world, mechanism):
    queue = world.queue(capacity_messages=10, mechanism=mechanism, reject_after_ms=60_000)
    receiver = world.receiver(queue, credit=1)
    mute = very_late(world, queue)
    for number in range(11):
        queue.enqueue(b"%10d" % number)
    world.settle()
    world.arrive(mute, 1)
    world.broker.stopping.start_producers(Scope(), "", "ann")
    world.settle()
    world.arrive(mute, 1)
    assert (len(queue.gate.parked), queue.gate.state) == (2, State.OVERFULL)
    queue.remove(receiver, world.acquired[receiver].pop())  # in the same turn in which the next one arrives
    world.arrive(mute, 1)
    there = [m[1] for m in queue.lanes.usual.ready if m[1].startswith(b"%d:" % mute.producer.id)]
    assert there + [w.body for w in queue.gate.parked] == [body(mute.producer, n, 100) for n in (1, 2, 3)]


@pytest.mark.domain("1 hold is bounded")
def test_with_hold_a_queue_overfull_in_bytes_grants_no_credit_once_messages_are_parked(world):
    queue = world.queue(capacity_bytes=1_000_000, flow_resume_bytes=0, mechanism="hold")
    early, late = senders(world, queue, 2)
    receiver = world.receiver(queue)
    for sender in (early, late):
        world.send(sender, 20, size=100)
    for sender, size, count in ((early, 100_000, 12), (late, 100, 1)):
        assert sender.send(size, count) == count
    for sender in (early, late):
        world.arrive(sender)
    assert (queue.gate.depth_bytes, len(queue.gate.parked), queue.gate.state) == (1_104_000, 2, State.OVERFULL)
    world.advance(GRACE_MS + 2 * SWEEP)
    world.consume(receiver, 43)  # a message with a withheld settlement would fit now
    assert (queue.gate.depth_bytes, len(queue.gate.parked), queue.gate.state) == (800_000, 2, State.OVERFULL)
    assert queue.gate.admits_withheld()
    assert queue.gate.ledger.room(queue.gate.limits, queue.gate.depth_bytes, queue.gate.depth_messages) > 0
    for _ in range(100):
        world.advance()
        assert (early.producer.credit, late.producer.credit) == (0, 0)
    assert early.producer.blocked
    assert late.producer.blocked
    world.consume(receiver, 8)
    assert (queue.gate.state, len(queue.gate.parked), queue.gate.depth_bytes) == (State.NORMAL, 0, 100_100)
    world.advance()
    for sender in (early, late):
        sender.read()
        assert sender.credit > 0


@pytest.mark.domain("1 hold is bounded")
@pytest.mark.parametrize("cause", ["lowered limit", "larger messages"])
def test_with_hold_an_overfull_queue_withdraws_credit_beyond_its_room_at_once(world, cause):
    unit = "messages" if cause == "lowered limit" else "bytes"
    policy = {"mechanism": "hold", "flow_resume_messages": 0, f"capacity_{unit}": 100 if unit == "messages" else 10_000}
    queue = world.queue(**policy)
    few = senders(world, queue, 3)
    while queue.gate.state is State.NORMAL:
        for sender in few:
            world.send(sender, 1, size=40)
    allowed = sum(sender.producer.credit for sender in few)
    assert allowed > 4
    if cause == "lowered limit":
        world.broker.set_own_policy(queue, {**policy, "capacity_messages": 50})
        world.settle()
    else:
        world.send(few[0], 1, size=700)
        allowed -= 1
    assert sum(sender.producer.credit for sender in few) <= (0 if unit == "messages" else 1)
    assert queue.gate.ledger.reserved == allowed  # messages in flight may use it still
    world.advance(GRACE_MS + 2 * SWEEP)
    assert queue.gate.ledger.reserved <= (0 if unit == "messages" else 1)
    world.advance(1000)
    assert not queue.gate.ledger.pending
    assert queue not in world.broker.agenda.watched
    assert all(sender.producer.blocked for sender in few)


def test_producer_detached_before_its_outcome_gets_no_credit(world):
    queue = world.queue(capacity_messages=2, flow_resume_messages=0, mechanism="hold")
    gone = world.sender(queue)
    for _ in range(4):
        gone.read()
        gone.send(100, 1)
        world.arrive(gone)
    assert gone.producer.unsettled == 1
    world.detach(gone)
    queue.lanes.purge()
    world.settle()
    assert (queue.gate.state, queue.gate.ledger.reserved, len(queue.gate.ledger.waiting)) == (State.NORMAL, 0, 0)
    assert gone.producer.credit == 0


def test_parked_message_counts_as_published_and_for_the_largest_size(world):
    queue = world.queue(capacity_bytes=1_000_000)
    mute = very_late(world, queue)
    mute.frames.clear()
    mute.frames.append(b"x" * 5000)
    world.arrive(mute)
    assert len(queue.gate.parked) == 1
    assert (mute.producer.messages, mute.producer.bytes, queue.gate.ledger.largest) == (1, 5000, 5000)


def test_message_parked_at_a_stopped_queue_is_rejected_at_its_deadline(world):
    queue = world.queue(capacity_messages=10, mechanism="reject-after", reject_after_ms=200)
    mute = very_late(world, queue)
    world.arrive(mute)
    assert len(queue.gate.parked) == 3
    world.advance(250)
    assert not queue.gate.parked
    assert mute.outcomes == {Outcome.REJECTED: 3}
