"""Each overflow policy, through the in-memory broker: messages, producers, credit and settlements."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from brokers.admin import InvalidValue
from brokers.engine.flow.explanation import longest_wait
from brokers.engine.flow.overflow import OVERFLOW_POLICIES
from brokers.engine.flow.producer import Producer
from brokers.engine.flow.turn import Settled
from brokers.engine.queues.queue import Queue
from brokers.engine.values.outcomes import Outcome, Verdict
from brokers.model import object_name
from brokers.testing import InMemoryBroker

NAME = object_name("Queue", virtualhost="default", name="q")


@pytest.fixture
def broker() -> InMemoryBroker:
    return InMemoryBroker()


def make(broker: InMemoryBroker, **policy: Any) -> Queue:
    broker.management.create(NAME, {"capacity_messages": 10, "flow_resume_messages": 5, **policy})
    return broker.engine.queue("default", "q")


def update(broker: InMemoryBroker, **policy: Any) -> None:
    asyncio.run(broker.update(NAME, policy, broker.engine.queue("default", "q").version))


def send(broker: InMemoryBroker, producer: Producer, count: int) -> list[Verdict]:
    """Publish while there is credit, as a client does: one message per turn."""
    verdicts = []
    for _ in range(count):
        if not producer.credit:
            break
        verdicts.append(producer.queue.publish(producer, b"x" * 10))
        settled(broker)
    return verdicts


def settled(broker: InMemoryBroker) -> list[Settled]:
    """End the turn. Return the new outcomes."""
    found = [e for e in broker.engine.turn.effects if isinstance(e, Settled)]
    broker._end_turn()
    return found


def test_hold_accepts_messages_and_withholds_their_settlement_until_resume(broker: InMemoryBroker) -> None:
    queue = make(broker, mechanism="hold", producer_window_messages=20)
    producer = broker.attach_producer("q")
    verdicts = send(broker, producer, 100)
    assert verdicts == [Verdict.ACCEPTED] * 11 + [Verdict.PENDING] * (len(verdicts) - 11)
    assert producer.unsettled == len(verdicts) - 11 > 0
    assert producer.unsettled <= 20, "the producer's window bounds the withheld settlements"
    assert producer.credit == 0
    assert producer.blocked
    assert queue.gate.depth_messages == len(verdicts)
    acquired = producer.unsettled
    consumer = broker.attach_consumer("q")
    consumer.credit = 100
    queue.touch()
    broker._end_turn()
    for each, message in broker.acquired[: len(verdicts) - 5]:
        queue.remove(each, message)
    assert settled(broker) == [Settled(producer.handle, acquired, Outcome.ACCEPTED)]
    assert not producer.blocked
    assert producer.unsettled == 0
    assert producer.credit > 0


def test_reject_rejects_at_once_and_blocks_no_producer(broker: InMemoryBroker) -> None:
    queue = make(broker, mechanism="reject")
    producer = broker.attach_producer("q")
    verdicts = send(broker, producer, 30)
    assert verdicts == [Verdict.ACCEPTED] * 11 + [Verdict.REJECTED] * 19
    assert not producer.blocked
    assert producer.credit > 0
    assert (queue.gate.depth_messages, queue.gate.rejected) == (11, 19)
    broker.consume(broker.attach_consumer("q"), 6)
    assert send(broker, producer, 1) == [Verdict.ACCEPTED]


def test_reject_after_enqueues_parked_messages_when_there_is_room_in_time(broker: InMemoryBroker) -> None:
    queue = make(broker, mechanism="reject-after", reject_after_ms=500)
    producer = broker.attach_producer("q")
    assert send(broker, producer, 13) == [Verdict.ACCEPTED] * 11 + [Verdict.PENDING] * 2
    assert producer.blocked
    broker.advance(300)
    assert (queue.gate.depth_messages, queue.gate.rejected) == (11, 0)
    broker.consume(broker.attach_consumer("q"), 6)
    assert (queue.gate.depth_messages, len(queue.gate.parked), producer.unsettled) == (7, 0, 0)
    assert not producer.blocked
    assert longest_wait(queue.gate, broker.engine.turn.now) == 300


def test_reject_after_rejects_messages_parked_for_too_long(broker: InMemoryBroker) -> None:
    queue = make(broker, mechanism="reject-after", reject_after_ms=500)
    producer = broker.attach_producer("q")
    send(broker, producer, 13)
    engine = broker.engine
    engine.turn.now += 499
    engine.sweep()
    assert settled(broker) == []
    engine.turn.now += 1
    engine.sweep()
    assert settled(broker) == [Settled(producer.handle, 2, Outcome.REJECTED)]
    assert (queue.gate.rejected, producer.unsettled, queue.gate.depth_messages) == (2, 0, 11)
    assert longest_wait(queue.gate, engine.turn.now) >= 500


def test_parked_messages_of_a_detached_producer_are_dropped(broker: InMemoryBroker) -> None:
    queue = make(broker, mechanism="reject-after")
    producer, other = broker.attach_producer("q"), broker.attach_producer("q")
    send(broker, producer, 12)
    send(broker, other, 2)
    assert len(queue.gate.parked) == 3
    broker.engine.detach(producer)
    assert [w.producer for w in queue.gate.parked] == [other, other]
    broker.consume(broker.attach_consumer("q"), 6)
    assert other.unsettled == 0
    assert queue.gate.depth_messages == 7


@pytest.mark.domain("4 producerFlowControl=false")
def test_flow_control_off_blocks_no_producer_but_stops_still_do(broker: InMemoryBroker) -> None:
    queue = make(broker, flow_control="off")
    producer = broker.attach_producer("q")
    assert len(send(broker, producer, 500)) == 500
    assert queue.gate.state.value == "NORMAL"
    asyncio.run(broker.call(NAME, "stop-producers", {"reason": "test"}))
    assert producer.blocked
    assert producer.credit == 0


def test_ring_drops_its_oldest_messages_and_blocks_no_producer(broker: InMemoryBroker) -> None:
    broker.management.create(NAME, {"capacity_messages": 10, "overflow": "ring"})
    queue = broker.engine.queue("default", "q")
    producer = broker.attach_producer("q")
    assert len(send(broker, producer, 25)) == 25
    assert (queue.gate.depth_messages, queue.lanes.dropped, queue.lanes.usual.ready[0][0]) == (10, 15, 16)
    assert not producer.blocked


def test_ring_and_mechanism_exclude_each_other(broker: InMemoryBroker) -> None:
    with pytest.raises(InvalidValue) as refused:
        broker.management.create(NAME, {"capacity_messages": 10, "overflow": "ring", "mechanism": "hold"})
    assert "ring" in refused.value.errors["mechanism"]
    assert "hold" in refused.value.errors["mechanism"]


def way(name: str) -> dict[str, str]:
    return {"spool": "disk"} if name == "spool" else {"mechanism": name, "spool": "memory"}


@pytest.mark.parametrize("before", sorted(set(OVERFLOW_POLICIES) - {"ring"}))
@pytest.mark.parametrize("after", sorted(set(OVERFLOW_POLICIES) - {"ring"}))
def test_switching_the_policy_of_an_overfull_queue_loses_nothing_and_leaves_nothing_withheld(
    broker: InMemoryBroker, before: str, after: str
) -> None:
    queue = make(broker, **way(before))
    producer = broker.attach_producer("q")
    verdicts = send(broker, producer, 15)
    taken = sum(map(bool, verdicts))
    assert queue.gate.state.overfull
    update(broker, **way(after))
    if before != after:
        assert (producer.unsettled, len(queue.gate.parked)) == (0, 0)
        assert queue.gate.depth_messages == taken, "every message that was not rejected is in the queue"
    assert producer.blocked == (after not in ("reject", "spool"))
    if after == "block":
        assert producer.credit == 0
    broker.consume(broker.attach_consumer("q"), 100)
    broker.advance(1000)
    assert not producer.blocked
    assert queue.gate.state.value == "NORMAL"
    assert producer.unsettled == 0
    assert producer.credit > 0


def test_changed_reject_after_ms_applies_to_parked_messages_at_once(broker: InMemoryBroker) -> None:
    queue = make(broker, mechanism="reject-after", reject_after_ms=3_600_000)
    producer = broker.attach_producer("q")
    send(broker, producer, 13)
    broker.advance(1_000)
    assert len(queue.gate.parked) == 2
    update(broker, reject_after_ms=500)
    broker.advance(550)
    assert (len(queue.gate.parked), queue.gate.rejected, producer.unsettled) == (0, 2, 0)


def test_change_of_another_field_does_not_extend_deadlines(broker: InMemoryBroker) -> None:
    queue = make(broker, mechanism="reject-after", reject_after_ms=500)
    producer = broker.attach_producer("q")
    send(broker, producer, 13)
    for capacity in (9, 8, 7, 6):
        broker.advance(150)
        update(broker, capacity_messages=capacity)
    assert (len(queue.gate.parked), queue.gate.rejected, producer.unsettled) == (0, 2, 0)


def test_parked_messages_get_a_deadline_when_reject_after_is_set(broker: InMemoryBroker) -> None:
    """Late messages of a stopped queue wait without a deadline under block, and with one under reject-after."""
    queue = make(broker)
    producer = broker.attach_producer("q")
    asyncio.run(broker.call(NAME, "stop-producers", {"reason": "test"}))
    assert queue.publish(producer, b"in flight") is Verdict.PENDING
    broker.advance(60_000)
    assert len(queue.gate.parked) == 1
    update(broker, mechanism="reject-after", reject_after_ms=500)
    broker.advance(450)
    assert len(queue.gate.parked) == 1
    broker.advance(100)
    assert (len(queue.gate.parked), queue.gate.rejected, producer.unsettled) == (0, 1, 0)
