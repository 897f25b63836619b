"""Copies for browsers, and drains: the credit that is left comes back once there is nothing more to send."""

from __future__ import annotations

import pytest
from proton import Delivery

from brokers.server import listener
from tests.amqp.broker_thread import BrokerThread
from tests.amqp.clients import Copy, Crowd, bodies, connected, fill, until
from tests.amqp.frames import BEGIN, FLOW, RECEIVER, TRANSFER, Peer, described


def browse(broker: BrokerThread, credit: int = 100) -> list[object]:
    """The bodies of everything there is, ended by a drain, as tools do it."""
    found: list[object] = []
    with connected(broker) as connection:
        receiver = connection.create_receiver("q", credit=0, options=Copy())
        receiver.link.drain(credit)
        until(connection, lambda: not receiver.link.credit, "the drain is answered")
        while receiver.fetcher.has_message:
            found.append(receiver.receive().body)
    return found


def test_a_browser_sees_every_message_in_order_and_removes_none(broker: BrokerThread) -> None:
    fill(broker, "q", list(range(20)))
    assert browse(broker) == list(range(20))
    assert browse(broker) == list(range(20)), "browsing again"
    assert broker.see("q", lambda q: (q.gate.depth_messages, q.dispatcher.browsers)) == (20, [])


def test_drain_of_a_browser_on_an_empty_queue_returns_its_credit(broker: BrokerThread) -> None:
    broker.queue("q")
    assert browse(broker) == []


@pytest.mark.parametrize("state", [Delivery.ACCEPTED, Delivery.REJECTED, Delivery.RELEASED, Delivery.MODIFIED])
def test_whatever_a_browser_says_of_a_copy_the_message_stays(broker: BrokerThread, state: Delivery) -> None:
    fill(broker, "q", ["one", "two"])
    with connected(broker) as connection:
        receiver = connection.create_receiver("q", credit=2, options=Copy())
        for body in ("one", "two"):
            assert receiver.receive().body == body
            receiver.settle(state)
        until(connection, lambda: not broker.look(_unsettled_copies), "the broker has heard it")
    assert browse(broker) == ["one", "two"]
    with connected(broker) as connection:
        assert bodies(connection.create_receiver("q", credit=2), 2) == ["one", "two"]


def _unsettled_copies(service: object) -> int:
    return sum(
        len(link.unsettled)
        for connection in service.container.connections  # type: ignore[attr-defined]
        for link in connection.endpoints.links.values()
        if hasattr(link, "unsettled")
    )


def test_attached_browser_gets_later_messages(broker: BrokerThread) -> None:
    with connected(broker) as connection:
        receiver = connection.create_receiver("q", credit=10, options=Copy())
        fill(broker, "q", ["one", "two"])
        assert bodies(receiver, 2) == ["one", "two"]
    assert broker.depth("q") == 2


def test_a_browser_with_little_credit_gets_the_rest_later(broker: BrokerThread) -> None:
    fill(broker, "q", list(range(5)))
    with Peer(broker.port) as peer:
        peer.open()
        peer.attach("q", role=RECEIVER, source=described(0x28, "q", None, None, None, None, None, _copy()))
        peer.give_credit(2)
        first = [peer.expect(TRANSFER) for _ in range(2)]
        peer.give_credit(10, seen=2, drain=True)
        rest = [peer.expect(TRANSFER) for _ in range(3)]
        assert int(peer.expect(FLOW).field(6)) == 0
    assert len({f.payload for f in first + rest}) == 5


def _copy() -> object:
    from proton import symbol

    return symbol("copy")


def test_acquired_messages_are_not_visible_to_a_browser(broker: BrokerThread) -> None:
    fill(broker, "q", ["unsettled", "available"])
    with connected(broker) as connection:
        connection.create_receiver("q", credit=1).receive()
        assert browse(broker) == ["available"]


@pytest.mark.parametrize("there", [0, 3])
def test_drain_sends_available_messages_and_returns_the_remaining_credit(broker: BrokerThread, there: int) -> None:
    broker.queue("q")
    fill(broker, "q", list(range(there)))
    with Peer(broker.port) as peer:
        peer.open()
        peer.attach("q", role=RECEIVER)
        peer.give_credit(10, drain=True)
        answer = peer.expect(FLOW)
        assert (int(answer.field(5)), int(answer.field(6))) == (10, 0)
        assert len([f for f in peer.said if f.code == TRANSFER]) == there
        assert broker.see("q", lambda q: [c.credit for c in q.dispatcher.consumers]) == [0]
        fill(broker, "q", ["late"])
        peer.give_credit(1, seen=10)
        peer.expect(TRANSFER)


def test_drains_one_after_the_other_are_each_answered(broker: BrokerThread) -> None:
    broker.queue("q")
    with Peer(broker.port) as peer:
        peer.open()
        peer.attach("q", role=RECEIVER)
        for number in range(5):
            peer.give_credit(10, seen=10 * number, drain=True)
            assert int(peer.expect(FLOW).field(5)) == 10 * (number + 1)


def test_a_drain_waits_for_a_client_that_does_not_read_for_a_while(
    broker: BrokerThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client drains while earlier messages are still in flight: it must get all of them."""
    monkeypatch.setattr(listener, "HIGH_WATER", 100_000)
    with Crowd(broker) as crowd:
        crowd.publisher("q", 20, size=500_000)
        broker.until_queue("q", lambda q: q.gate.depth_messages == 20, "they are there", within=15)
    with Peer(broker.port, receive_buffer=4096) as peer:
        peer.open()
        peer.attach("q", role=RECEIVER)
        peer.give_credit(15)
        broker.until(lambda s: any(not c.writable for c in s.container.connections), "its socket is full")
        peer.give_credit(8, seen=15, drain=True)
        whole = 0
        while not (drained := [f for f in peer.said if f.code == FLOW and f.field(4) == 0 and f.field(6) == 0]):
            frame = peer.read()
            assert frame is not None
            whole += frame.code == TRANSFER and not frame.field(5)
        assert (whole, int(drained[0].field(5))) == (20, 23)
        assert BEGIN in [f.code for f in peer.said]
