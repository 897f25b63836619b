"""Producer flow control as clients see it: credit is granted, withdrawn and granted again, fairly and within bounds."""

from __future__ import annotations

from typing import Any

import pytest
from proton import Message

from brokers.engine.values.stops import Scope
from tests.amqp.broker_thread import BrokerThread, wait_until
from tests.amqp.clients import Answer, Crowd, Publisher, connected, managing, steady
from tests.amqp.frames import ATTACH, DETACH, DISPOSITION, FLOW, TRANSFER, Peer

ORDERS = "type=Queue,virtualhost=default,name=orders"


def stop(broker: BrokerThread, reason: str = "test") -> None:
    broker.do(lambda s: s.broker.stopping.stop_producers(Scope(), reason, "anna"))


def start(broker: BrokerThread) -> None:
    broker.do(lambda s: s.broker.stopping.start_producers(Scope(), "", "anna"))


def take(broker: BrokerThread, queue: str, count: int) -> None:
    """Consume `count` messages."""
    with connected(broker) as connection:
        receiver = connection.create_receiver(queue, credit=0)
        for _ in range(count):
            receiver.link.flow(1)
            receiver.receive()
            receiver.accept()


# -- the first of the three causes in QPID-942 ---------------------------------------------------------------------


@pytest.mark.domain("3 first cause")
def test_lagging_consumer_that_detaches_leaves_producers_blocked_until_another_attaches(broker: BrokerThread) -> None:
    broker.queue("orders", capacity_messages=10, flow_resume_messages=5)
    broker.queue("prices", capacity_messages=10)
    with Crowd(broker) as crowd:
        publisher = crowd.publisher("orders")
        with connected(broker) as lagging:
            receiver = lagging.create_receiver("orders", credit=1)
            receiver.receive()  # and never settles it
            broker.until_queue("orders", lambda q: q.gate.state.overfull, "it is overfull behind a consumer that lags")
            assert broker.do(
                lambda s: [len(q.dispatcher.consumers) for q in s.broker.queues() if q.name == "orders"]
            ) == [1]
        broker.until_queue("orders", lambda q: not q.dispatcher.consumers, "its consumer has gone")
        with managing(broker) as operator:
            name = broker.do(lambda s: next(str(p.name) for p in s.broker.producers.values()))
            blocked = operator.ask("READ", name=name).body
            assert (blocked["state"], blocked["reasons"]) == ("BLOCKED", ["queue-overfull:orders"])
            assert blocked["release"].startswith("queue orders falls to 5 messages or fewer")
        other = crowd.publisher("prices")
        wait_until(lambda: other.accepted == 11, "another queue's producer is not blocked")
        accepted = publisher.accepted
        take(broker, "orders", 8)
        wait_until(lambda: publisher.accepted > accepted, "its producer goes on")


def test_producers_hear_of_a_stop_before_it_is_on_disk_and_the_operator_after_it(broker: BrokerThread) -> None:
    broker.queue("orders", capacity_messages=10)
    unwritten: list[list[str]] = []

    def watch(service: Any) -> None:
        settle = service.container.settle

        def watched(facts: Any, keep: Any) -> bool:
            unwritten.append([c.user for c in service.container.unwritten])
            return bool(settle(facts, keep))

        service.container.settle = watched

    with Crowd(broker) as crowd, managing(broker) as operator:
        publisher = crowd.publisher("orders")
        wait_until(lambda: publisher.accepted == 11, "all that was sent is accepted")
        take(broker, "orders", 11)
        broker.until_queue("orders", lambda q: q.gate.state.overfull, "it has filled up again")
        take(broker, "orders", 5)  # so that there is credit out
        broker.do(watch)
        assert operator.ask("stop-producers", name="type=Broker").status == 200
    assert ["console"] in unwritten, "of all who hear of it, only the operator waits for the disk"
    assert not any(len(each) > 1 for each in unwritten)


# -- blocked and released -----------------------------------------------------------------------------------------


@pytest.mark.domain("2 overfull")
@pytest.mark.domain("2 underfull")
def test_a_producer_is_blocked_one_above_the_capacity_and_released_at_the_resume_level(broker: BrokerThread) -> None:
    broker.queue("orders", capacity_messages=10, flow_resume_messages=5)
    with Crowd(broker) as crowd:
        publisher = crowd.publisher("orders")
        broker.until_queue("orders", lambda q: q.gate.state.overfull, "it is overfull")
        wait_until(lambda: publisher.accepted == 11, "all that was sent is accepted")
        steady(lambda: publisher.sent, "it stands still")
        assert (publisher.sent, broker.depth("orders")) == (11, 11)
        take(broker, "orders", 5)
        broker.until_queue("orders", lambda q: q.gate.depth_messages == 6, "one above the resume level")
        assert steady(lambda: publisher.sent, "it stands still") == 11
        take(broker, "orders", 1)
        wait_until(lambda: publisher.sent > 11, "it is released at the resume level")
        broker.until_queue("orders", lambda q: q.gate.depth_messages == 11, "full again")
        steady(lambda: publisher.sent, "it stands still")
        assert broker.depth("orders") == 11
    blocked = [t for t in broker.texts() if "CHN-1005" in t]
    assert all(t.endswith("CHN-1005 : Flow Control Enforced (Queue orders)") for t in blocked)
    assert len(blocked) == 2


@pytest.mark.domain("3 send")
def test_a_blocking_client_waits_in_send_until_there_is_room(broker: BrokerThread) -> None:
    from proton import Timeout

    broker.queue("orders", capacity_messages=1)
    with connected(broker) as connection:
        sender = connection.create_sender("orders")
        for _ in range(2):
            sender.send(Message(body="fits"))
        with pytest.raises(Timeout):
            sender.send(Message(body="waits"), timeout=0.2)
        take(broker, "orders", 2)
        sender.send(Message(body="next"), timeout=5)
        broker.until_queue("orders", lambda q: q.gate.enqueued == 4, "the one that waited came first")


@pytest.mark.domain("1 limits")
@pytest.mark.domain("4 memoryLimit per destination")
def test_capacity_in_bytes_blocks_after_the_message_that_crosses_it(broker: BrokerThread) -> None:
    size = len(Message(body=b"x" * 1000).encode())
    broker.queue("orders", capacity_bytes=10 * size)
    with Crowd(broker) as crowd:
        # Sizes are learned from messages: one at a time until the broker has seen one.
        publisher = crowd.publisher("orders", size=1000)
        broker.until_queue("orders", lambda q: q.gate.state.overfull, "it is overfull")
        steady(lambda: publisher.sent, "it stands still")
        assert broker.see("orders", lambda q: q.gate.depth_bytes) == 11 * size


@pytest.mark.domain("3 known weakness")
@pytest.mark.parametrize("senders", [1, 10, 100])
def test_the_depth_never_exceeds_the_capacity_by_more_than_one_message(broker: BrokerThread, senders: int) -> None:
    broker.queue("orders", capacity_messages=50, flow_resume_messages=25)
    highest = [0]
    seen_by_broker = broker.do(_watch_depth)
    with Crowd(broker) as crowd:
        publishers = [crowd.publisher("orders") for _ in range(senders)]
        broker.until_queue("orders", lambda q: q.gate.state.overfull, "it is overfull")
        for _ in range(5):
            take(broker, "orders", 26)
            broker.until_queue("orders", lambda q: q.gate.depth_messages == 51, "full again")
        steady(lambda: sum(p.sent for p in publishers), "they stand still")
        highest[0] = broker.depth("orders")
    assert highest[0] == 51
    assert max(seen_by_broker) == 51, f"the depth came to {max(seen_by_broker)}"


def _watch_depth(service: object) -> list[int]:
    """The depth of the queue after every turn of the broker, from now on."""
    container = service.container  # type: ignore[attr-defined]
    queue = service.broker.queue("default", "orders")  # type: ignore[attr-defined]
    seen: list[int] = []
    finish = container.finish

    def watched() -> None:
        finish()
        seen.append(queue.gate.depth_messages)

    container.finish = watched
    return seen


# -- operators' stops ---------------------------------------------------------------------------------------------


@pytest.mark.domain("7 attaches while stopped")
def test_a_producer_that_attaches_to_a_stopped_queue_starts_blocked(broker: BrokerThread) -> None:
    broker.queue("orders")
    stop(broker)
    with Crowd(broker) as crowd:
        publisher = crowd.publisher("orders")
        broker.until_queue("orders", lambda q: q.gate.blocked_producers == 1, "it is blocked")
        assert steady(lambda: publisher.sent, "it stands still") == 0
        start(broker)
        wait_until(lambda: publisher.accepted > 100, "it runs")


def test_no_message_is_accepted_once_no_producer_is_draining(broker: BrokerThread) -> None:
    with Crowd(broker) as crowd, managing(broker) as manager:
        publishers = [crowd.publisher("orders", answers_drains=bool(n % 2)) for n in range(8)]
        crowd.taker("orders", credit=1000)
        wait_until(lambda: all(p.accepted > 200 for p in publishers), "all eight are busy", within=60)
        answer = manager.ask("stop-producers", {"reason": "incident"}, name="type=Broker")
        assert (answer.status, answer.body["producers"], answer.body["changed"]) == (200, 8, True)
        assert answer.body["stopped"] + answer.body["draining"] == 8
        wait_until(lambda: _draining(manager.ask("READ", name=ORDERS)) == 0, "the draining count comes to 0")
        enqueued = broker.see("orders", lambda q: q.gate.enqueued)
        assert steady(lambda: broker.see("orders", lambda q: q.gate.enqueued), "it stands still", 0.5) == enqueued
        again = manager.ask("stop-producers", {"reason": "incident"}, name="type=Broker").body
        assert (again["stopped"], again["draining"], again["changed"]) == (8, 0, False)
        accepted = [p.accepted for p in publishers]
        start(broker)
        wait_until(lambda: all(p.accepted > a for p, a in zip(publishers, accepted, strict=True)), "all run again")
        assert [p.condition for p in publishers] == [""] * 8


def _draining(answer: Answer) -> int:
    return int(answer.body["draining_producers"])


@pytest.mark.domain("7 independent reasons")
def test_stopped_and_overfull_are_independent_reasons(broker: BrokerThread) -> None:
    broker.queue("orders", capacity_messages=10)
    with Crowd(broker) as crowd:
        publisher = crowd.publisher("orders")
        broker.until_queue("orders", lambda q: q.gate.state.overfull, "it is overfull")
        stop(broker)
        start(broker)
        assert steady(lambda: publisher.sent, "it stands still") == 11
        stop(broker)
        take(broker, "orders", 11)
        assert steady(lambda: publisher.sent, "it stands still") == 11
        start(broker)
        wait_until(lambda: publisher.sent == 22, "it runs when both have gone")


# -- policies that change -------------------------------------------------------------------------------------------


@pytest.mark.domain("3 managed at run time")
def test_a_change_of_capacity_acts_at_once_on_blocked_producers(broker: BrokerThread) -> None:
    broker.queue("orders", capacity_messages=10)
    with Crowd(broker) as crowd, managing(broker) as manager:
        publisher = crowd.publisher("orders")
        wait_until(lambda: publisher.accepted == 11, "it is blocked")
        version = 1
        for capacity in (30, 60):
            answer = manager.ask("UPDATE", {"capacity_messages": capacity}, name=ORDERS, version=version)
            version = answer.body["version"]
            wait_until(lambda: publisher.accepted == capacity + 1, "it goes on to the new capacity")  # noqa: B023
        manager.ask("UPDATE", {"capacity_messages": 5}, name=ORDERS, version=version)
        take(broker, "orders", 50)
        assert steady(lambda: publisher.sent, "it stands still") == 61
        take(broker, "orders", 7)
        wait_until(lambda: publisher.sent > 61, "it is released by the new level")


def test_a_capacity_lowered_below_the_depth_blocks_a_producer_that_runs(broker: BrokerThread) -> None:
    with Crowd(broker) as crowd, managing(broker) as manager:
        publisher = crowd.publisher("orders", 20)
        wait_until(lambda: publisher.accepted == 20, "20 are there")
        manager.ask("UPDATE", {"capacity_messages": 5}, name=ORDERS, version=1)
        broker.until_queue(
            "orders", lambda q: q.gate.state.overfull and not q.gate.ledger.reserved, "its credit is back"
        )
        publisher.go_on(5)
        assert steady(lambda: publisher.accepted, "it stands still") == 20
        manager.ask("UPDATE", {"capacity_messages": None}, name=ORDERS, version=2)
        wait_until(lambda: publisher.accepted == 25, "no limit any more")


# -- others go on ---------------------------------------------------------------------------------------------------


@pytest.mark.domain("2 who is blocked")
def test_consumers_and_other_producers_on_the_connection_of_a_blocked_producer_go_on(broker: BrokerThread) -> None:
    broker.queue("full", capacity_messages=5)
    broker.queue("free")
    with Crowd(broker) as crowd:
        connection = crowd.do(lambda: crowd.connect(crowd))
        blocked = crowd.publisher("full", connection=connection)
        wait_until(lambda: blocked.accepted == 6, "it is blocked")
        free = crowd.publisher("free", 1000, connection=connection)
        taker = crowd.taker("free", connection=connection)
        wait_until(lambda: len(taker.taken) == 1000, "a thousand went by")
        assert (free.accepted, blocked.sent) == (1000, 6)


# -- unused credit is withdrawn ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("answers", [True, False], ids=["who answer drains", "who do not"])
def test_one_with_something_to_send_gets_its_turn_before_a_hundred_idle_ones(
    broker: BrokerThread, answers: bool
) -> None:
    broker.queue("orders", capacity_messages=50)
    with Crowd(broker) as crowd:
        idle = [crowd.publisher("orders", -1, answers_drains=answers) for _ in range(100)]
        broker.until_queue("orders", lambda q: q.gate.producer_count == 100, "they are attached")
        assert sum(p.sent for p in idle) == 0
        busy = crowd.publisher("orders", 5)
        wait_until(lambda: busy.accepted, "it gets its turn", within=2.0)
        wait_until(lambda: busy.accepted == 5, "and again", within=15.0)
        assert broker.see("orders", lambda q: q.gate.depth_messages) <= 51
        # And each of them, too, when it has something to send after all.
        taker = crowd.taker("orders")
        for publisher in idle[:10]:
            publisher.go_on(1)
        wait_until(lambda: all(p.accepted == 1 for p in idle[:10]), "each got its turn", within=5.0)
        wait_until(lambda: len(taker.taken) == 15, "all arrived")
        assert [p.condition for p in idle] == [""] * 100


def test_idle_producers_are_left_in_peace_where_there_is_room(broker: BrokerThread) -> None:
    broker.queue("orders", capacity_messages=1000)
    with Peer(broker.port) as peer:
        peer.open()
        peer.attach("orders")
        peer.expect(FLOW)
        broker.until_queue("orders", lambda q: not q.agenda.watched, "nothing is watched")
        peer.is_alive()
        assert [f for f in peer.said if f.code == FLOW and f.field(8)] == []


# -- without credit -------------------------------------------------------------------------------------------------


@pytest.mark.domain("2 old clients")
def test_a_message_without_credit_is_not_taken_and_ends_its_link_alone(broker: BrokerThread) -> None:
    broker.queue("orders")
    stop(broker)
    with Peer(broker.port) as peer:
        peer.open()
        peer.attach("orders")
        peer.expect(ATTACH)
        for _ in range(100):
            peer.transfer()
        condition, text = peer.expect_error(DETACH, 2)
        assert condition == "amqp:link:transfer-limit-exceeded"
        assert "no credit on queue orders" in text
        rejected = [f for f in peer.said if f.code == DISPOSITION]
        assert rejected[0].field(4).descriptor == 0x25
        assert broker.see("orders", lambda q: (q.gate.depth_messages, q.gate.enqueued, q.gate.producer_count)) == (
            0,
            0,
            0,
        )
        peer.attach("orders", handle=1, name="receives", role=True)
        peer.expect(ATTACH)
        start(broker)
        with connected(broker) as other:
            other.create_sender("orders").send(Message(body="fine"))
        peer.give_credit(1, handle=1)
        peer.expect(TRANSFER)
    assert any("HGT-1005" in t and "transfer-limit-exceeded" in t for t in broker.texts())


def test_a_client_that_sends_more_than_its_credit_has_just_its_credit_taken(broker: BrokerThread) -> None:
    broker.queue("orders", capacity_messages=3)
    with Peer(broker.port) as peer:
        peer.open()
        peer.attach("orders")
        credit = int(peer.expect(FLOW).field(6))
        peer.write(b"".join(_transfers(peer, 50)))
        assert peer.expect_error(DETACH, 2)[0] == "amqp:link:transfer-limit-exceeded"
        assert broker.depth("orders") == credit <= 4
        peer.is_alive()


def _transfers(peer: Peer, count: int) -> list[bytes]:
    written: list[bytes] = []
    write, peer.write = peer.write, written.append  # type: ignore[method-assign]
    for _ in range(count):
        peer.transfer()
    peer.write = write  # type: ignore[method-assign]
    return written


def test_messages_that_go_on_after_the_refusal_pile_up_nowhere(broker: BrokerThread) -> None:
    broker.queue("orders")
    stop(broker)
    with Peer(broker.port) as peer:
        peer.open()
        peer.attach("orders")
        for _ in range(20):
            peer.write(b"".join(_transfers(peer, 200)))
        peer.expect(DETACH)
        peer.is_alive()
        assert broker.look(_unsettled) == 0


def _unsettled(service: object) -> int:
    """Deliveries that Proton keeps for the links of all connections."""
    from cproton_ffi import lib

    return sum(
        lib.pn_link_unsettled(pointer)
        for connection in service.container.connections  # type: ignore[attr-defined]
        for pointer in connection.endpoints.links
    )


def test_messages_on_their_way_when_the_credit_is_taken_back_wait_and_are_not_lost(broker: BrokerThread) -> None:
    """A stop meets messages in flight: they were sent on credit, and their sender did nothing wrong."""
    broker.queue("orders")
    with Peer(broker.port) as peer:
        peer.open()
        peer.attach("orders")
        credit = int(peer.expect(FLOW).field(6))
        assert credit > 2
        stop(broker)
        for _ in range(2):
            peer.transfer()
        broker.until_queue("orders", lambda q: len(q.gate.parked) == 2, "they wait outside")
        broker.until_queue("orders", lambda q: not q.gate.ledger.pending, "the rest of its credit has lapsed")
        peer.transfer()
        broker.until_queue("orders", lambda q: len(q.gate.parked) == 3, "a very late one does, too")
        assert broker.depth("orders") == 0, "nothing is accepted while the stop is in force"
        assert not [f for f in peer.said if f.code == DETACH]
        start(broker)
        broker.until_queue("orders", lambda q: q.gate.depth_messages == 3, "they go in when producers start again")
        peer.is_alive()


def test_all_credit_is_returned_when_clients_disconnect(broker: BrokerThread) -> None:
    broker.queue("orders", capacity_messages=20)
    with Crowd(broker) as crowd:
        publishers: list[Publisher] = [crowd.publisher("orders") for _ in range(20)]
        broker.until_queue("orders", lambda q: q.gate.state.overfull, "it is overfull")
        assert len(publishers) == 20
    broker.until_queue("orders", lambda q: not q.gate.producer_count, "they have gone")
    assert broker.see(
        "orders", lambda q: (q.gate.ledger.reserved, len(q.gate.ledger.waiting), len(q.gate.ledger.pending))
    ) == (
        0,
        0,
        0,
    )
