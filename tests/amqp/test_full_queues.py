"""What clients see of each way of being full other than blocking: hold, reject, reject-after, ring."""

from __future__ import annotations

from typing import Any

import pytest
from proton import Delivery, Message
from proton.utils import SendException

from tests.amqp.broker_thread import BrokerThread, wait_until
from tests.amqp.clients import Crowd, bodies, connected, fill, steady
from tests.amqp.frames import DISPOSITION, FLOW, Peer


def take(broker: BrokerThread, count: int) -> list[Any]:
    with connected(broker) as connection:
        receiver = connection.create_receiver("q", credit=0)
        taken = []
        for _ in range(count):
            receiver.link.flow(1)
            taken += bodies(receiver, 1)
        return taken


@pytest.mark.domain("1 mechanism hold")
def test_hold_takes_messages_in_and_settles_them_when_the_queue_resumes(broker: BrokerThread) -> None:
    broker.queue("q", capacity_messages=60, flow_resume_messages=2, mechanism="hold")
    with Crowd(broker) as crowd:
        publisher = crowd.publisher("q", 67)
        broker.until_queue("q", lambda q: q.gate.depth_messages == 67, "all are taken in")
        assert steady(lambda: publisher.accepted, "it waits") == 61
        take(broker, 64)
        assert steady(lambda: publisher.accepted, "it waits") == 61
        take(broker, 1)
        wait_until(lambda: publisher.accepted == 67, "all are settled")
        assert (publisher.refused, publisher.condition) == (0, "")


@pytest.mark.domain("1 hold is bounded")
@pytest.mark.parametrize("producers", [1, 10, 100])
def test_hold_takes_a_tenth_more_and_no_more_from_any_number_of_producers(broker: BrokerThread, producers: int) -> None:
    broker.queue("q", capacity_messages=50, mechanism="hold")
    with Crowd(broker) as crowd:
        publishers = [crowd.publisher("q", 200) for _ in range(producers)]
        broker.until_queue("q", lambda q: q.gate.state.overfull, "it is overfull")
        depth = steady(lambda: broker.see("q", lambda q: q.gate.depth_messages), "nothing more comes")
        assert 51 <= depth <= 50 + 5 + 1
        assert sum(p.accepted for p in publishers) == 51
        taken = take(broker, 200)
        assert len(taken) == 200, "who waits is served as the queue resumes"
        assert broker.see("q", lambda q: q.gate.depth_messages) <= 50 + 5 + 1
        assert [p.condition for p in publishers] == [""] * producers


def test_client_that_settles_or_disconnects_while_its_settlements_are_withheld_does_no_harm(
    broker: BrokerThread,
) -> None:
    broker.queue("q", capacity_messages=400, flow_resume_messages=0, mechanism="hold")
    with Peer(broker.port) as settles, Peer(broker.port) as vanishes:
        for peer in (settles, vanishes):
            peer.open()
            peer.attach("q")
            peer.expect(FLOW)
        broker.see("q", lambda q: [q.enqueue(b"x") for _ in range(399)])
        for _ in range(4):
            settles.transfer()
            vanishes.transfer()
        settles.transfer(settled=True)
        broker.until_queue("q", lambda q: q.gate.depth_messages == 408, "all are taken in")
        settles.write(_settled(3))
        vanishes.vanish()
        broker.until_queue("q", lambda q: q.gate.producer_count == 1, "one has gone")
        take(broker, 408)
        settles.is_alive()
        settled = [f for f in settles.said if f.code == DISPOSITION]
        numbers = {n for f in settled for n in range(int(f.field(1)), int(f.field(2) or f.field(1)) + 1)}
        assert numbers >= {1, 2}
        assert broker.see("q", lambda q: (q.gate.depth_messages, sum(p.unsettled for p in q.gate.producers))) == (0, 0)


def _settled(number: int) -> bytes:
    from proton import uint

    from tests.amqp.frames import frame

    return frame(DISPOSITION, False, uint(number), uint(number), True)


@pytest.mark.domain("4 sendFailIfNoSpace")
def test_reject_refuses_at_once_and_the_link_lives_on(broker: BrokerThread) -> None:
    broker.queue("q", capacity_messages=2, mechanism="reject")
    with connected(broker) as connection:
        sender = connection.create_sender("q")
        for body in range(3):
            sender.send(Message(body=body))
        for _ in range(3):
            with pytest.raises(SendException):
                sender.send(Message(body="too much"))
        delivery = sender.link.send(Message(body="too much"))
        connection.wait(lambda: delivery.settled, timeout=5)
        assert delivery.remote_state == Delivery.REJECTED
        assert delivery.remote.condition.name == "amqp:resource-limit-exceeded"
        assert "queue q is full" in delivery.remote.condition.description
        assert take(broker, 3) == [0, 1, 2]
        sender.send(Message(body="fits"))
    assert broker.see("q", lambda q: (q.gate.depth_messages, q.gate.rejected)) == (1, 4)


@pytest.mark.domain("4 sendFailIfNoSpaceAfterTimeout")
def test_reject_after_rejects_only_messages_that_waited_too_long(broker: BrokerThread) -> None:
    broker.queue("q", capacity_messages=2, flow_resume_messages=1, mechanism="reject-after", reject_after_ms=400)
    with Crowd(broker) as crowd:
        publisher = crowd.publisher("q", 5)
        wait_until(lambda: publisher.refused == 2, "two waited too long")
        assert (publisher.accepted, broker.depth("q")) == (3, 3)
    broker.queue(
        "patient", capacity_messages=2, flow_resume_messages=1, mechanism="reject-after", reject_after_ms=60_000
    )
    with Crowd(broker) as crowd:
        publisher = crowd.publisher("patient", 5)
        broker.until_queue("patient", lambda q: len(q.gate.parked) == 2, "two wait")
        crowd.taker("patient")
        wait_until(lambda: publisher.accepted == 5, "all were taken")
        assert publisher.refused == 0


@pytest.mark.domain("1 ring")
def test_ring_drops_its_oldest_messages_and_blocks_no_producer(broker: BrokerThread) -> None:
    broker.queue("q", capacity_messages=5, overflow="ring")
    fill(broker, "q", list(range(20)))
    assert take(broker, 5) == [15, 16, 17, 18, 19]
    assert broker.see("q", lambda q: (q.lanes.dropped, q.gate.depth_messages)) == (15, 0)
    assert any("QUE-1005 : Dropped" in text for text in broker.texts())


def test_an_operator_s_stop_holds_producers_whatever_the_way(broker: BrokerThread) -> None:
    from brokers.engine.values.stops import Scope

    for way in ("hold", "reject", "reject-after", "ring"):
        more = {"overflow": "ring"} if way == "ring" else {"mechanism": way}
        broker.queue(way, capacity_messages=50, **more)
    broker.do(lambda s: s.broker.stopping.stop_producers(Scope(), "night", "anna"))
    with Crowd(broker) as crowd:
        publishers = [crowd.publisher(way, 10) for way in ("hold", "reject", "reject-after", "ring")]
        broker.until_queue("ring", lambda q: q.gate.blocked_producers, "the last is blocked")
        assert steady(lambda: sum(p.sent for p in publishers), "they stand still") == 0
        broker.do(lambda s: s.broker.stopping.start_producers(Scope(), "", "anna"))
        wait_until(lambda: all(p.accepted == 10 for p in publishers), "all run")
