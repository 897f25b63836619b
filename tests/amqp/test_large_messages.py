"""Messages of many frames: whole on the other side, refused when too large, forgotten when given up."""

from __future__ import annotations

import os

import pytest
from proton import Message

from brokers.amqp.incoming_link import IncomingLink
from brokers.amqp.node_links import NodeTarget
from tests.amqp.broker_thread import BrokerThread
from tests.amqp.clients import Crowd, connected, managing
from tests.amqp.frames import ATTACH, DETACH, DISPOSITION, FLOW, RECEIVER, TRANSFER, Peer

REJECTED = 0x25


@pytest.mark.parametrize("size", [60_000, 65_536, 1 << 20, 5 << 20])
def test_a_message_of_many_frames_arrives_whole(broker: BrokerThread, size: int) -> None:
    body = os.urandom(size)
    with connected(broker) as connection:
        receiver = connection.create_receiver("q")
        connection.create_sender("q").send(Message(body=body))
        assert bytes(receiver.receive().body) == body


def test_many_large_messages_for_one_consumer_are_written_in_one_go(broker: BrokerThread) -> None:
    body = b"x" * (1 << 20)
    with Crowd(broker) as crowd:
        publisher = crowd.publisher("q", 40, size=len(body))
        broker.until_queue("q", lambda q: q.gate.depth_messages == 40, "40 MiB are there", within=20)
        assert publisher.condition == ""
        taker = crowd.taker("q", credit=40)
        broker.until_queue("q", lambda q: q.gate.depth_messages == 0, "all are taken", within=20)
        assert crowd.do(lambda: [len(b) for b in taker.taken]) == [len(body)] * 40


def test_frames_of_messages_on_two_links_may_alternate(broker: BrokerThread) -> None:
    with Peer(broker.port) as peer:
        peer.open()
        for handle, name in enumerate("ab"):
            peer.attach(name, handle=handle, name=name)
            peer.expect(FLOW)
        pieces = Message(body="b" * 300).encode(), Message(body="a" * 300).encode()
        for at in range(0, 200, 100):
            for handle in (0, 1):
                payload = pieces[handle][at : at + 100]
                peer.transfer(payload, handle=handle, more=True, number=handle)
        for handle in (0, 1):
            peer.transfer(pieces[handle][200:], handle=handle, number=handle)
        for name, piece in zip("ab", pieces, strict=True):
            broker.until_queue(name, lambda q: q.gate.depth_messages == 1, "it is whole")
            assert broker.see(name, lambda q: q.lanes.usual.ready[0][1]) == piece


@pytest.fixture
def small_limit(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(IncomingLink, "max_size", 200_000)
    return 200_000


def test_the_limit_is_announced_and_a_larger_message_ends_its_link_alone(
    broker: BrokerThread, small_limit: int
) -> None:
    with Peer(broker.port) as peer:
        peer.open()
        peer.attach("q")
        assert int(peer.expect(ATTACH).field(10)) == small_limit
        peer.attach("other", handle=1, name="other")
        broker.until_queue("other", lambda q: q.gate.ledger.reserved, "both have credit")
        for _ in range(8):  # on and on, long after it is refused
            peer.transfer(b"x" * 50_000, more=True, number=0)
        condition, text = peer.expect_error(DETACH, 2)
        assert (condition, text) == ("amqp:link:message-size-exceeded", "a message may have 200,000 bytes at most")
        assert any(f.code == DISPOSITION and f.field(4).descriptor == REJECTED for f in peer.said)
        peer.transfer(b"x" * 50_000, number=0)
        peer.sent = 1
        peer.transfer(handle=1)
        broker.until_queue("other", lambda q: q.gate.depth_messages == 1, "another link lives on")
        assert broker.see("q", lambda q: (q.gate.depth_messages, q.gate.producer_count, q.gate.ledger.reserved)) == (
            0,
            0,
            0,
        )
    assert any("HGT-1005" in text and "message-size-exceeded" in text for text in broker.texts())


def test_a_message_that_grows_too_large_with_its_last_frame_is_refused_too(
    broker: BrokerThread, small_limit: int
) -> None:
    with Peer(broker.port) as peer:
        peer.open()
        peer.attach("q")
        peer.expect(FLOW)
        for size, more in ((60_000, True), (60_000, True), (60_000, True), (60_000, False)):
            peer.transfer(b"x" * size, more=more, number=0)
        assert peer.expect_error(DETACH, 2)[0] == "amqp:link:message-size-exceeded"
        assert broker.depth("q") == 0


def test_a_message_of_just_the_limit_is_taken(broker: BrokerThread, small_limit: int) -> None:
    with Peer(broker.port) as peer:
        peer.open()
        peer.attach("q")
        peer.expect(FLOW)
        for more in (True, True, True, False):
            peer.transfer(b"x" * (small_limit // 4), more=more, number=0)
        peer.expect(DISPOSITION)
        assert broker.see("q", lambda q: q.gate.depth_bytes) == small_limit


def test_an_aborted_message_leaves_nothing_and_the_next_one_is_whole(broker: BrokerThread) -> None:
    with Peer(broker.port) as peer:
        peer.open()
        peer.attach("q")
        peer.expect(FLOW)
        for _ in range(3):
            peer.transfer(b"half of ", more=True)
            peer.transfer(b"", aborted=True, number=peer.sent - 1)
        whole = Message(body="whole").encode()
        peer.transfer(whole)
        assert peer.expect(DISPOSITION).field(1) == 3
        assert broker.see("q", lambda q: [m[1] for m in q.lanes.usual.ready]) == [whole]
        peer.is_alive()


def test_a_message_aborted_after_several_frames_is_never_taken_for_whole(broker: BrokerThread) -> None:
    with Peer(broker.port) as peer:
        peer.open()
        peer.attach("q")
        peer.expect(FLOW)
        peer.transfer(b"the first part", more=True)
        peer.is_alive()  # the broker has it
        write, written = peer.write, bytearray()
        peer.write = written.extend  # type: ignore[method-assign]
        peer.transfer(b"the second part", more=True, number=0)
        peer.transfer(b"", aborted=True, number=0)
        peer.write = write  # type: ignore[method-assign]
        peer.write(bytes(written))
        peer.is_alive()
        assert broker.depth("q") == 0


def test_aborted_messages_do_not_use_up_a_producer_s_credit_for_good(broker: BrokerThread) -> None:
    broker.queue("q", capacity_messages=10)
    with Peer(broker.port) as peer:
        peer.open()
        peer.attach("q")
        for _ in range(40):
            broker.until_queue("q", lambda q: any(p.credit for p in q.gate.producers), "it has credit")
            peer.transfer(b"half", more=True)
            peer.transfer(b"", aborted=True, number=peer.sent - 1)
        peer.is_alive()
        assert broker.see("q", lambda q: (q.gate.depth_messages, q.gate.ledger.reserved <= 11)) == (0, True)


def test_a_client_that_vanishes_in_the_middle_of_a_message_leaves_nothing(broker: BrokerThread) -> None:
    peer = Peer(broker.port).open()
    peer.attach("q")
    peer.expect(FLOW)
    peer.transfer(b"half", more=True)
    peer.is_alive()
    peer.vanish()
    broker.until_queue("q", lambda q: not q.gate.producer_count, "it is gone")
    assert broker.see("q", lambda q: (q.gate.depth_messages, q.gate.ledger.reserved)) == (0, 0)


def test_message_is_sent_in_frames_within_the_consumers_limit(broker: BrokerThread) -> None:
    body = os.urandom(300_000)
    with connected(broker) as connection, Peer(broker.port) as peer:
        connection.create_sender("q").send(Message(body=body))
        peer.open()
        peer.attach("q", role=RECEIVER)
        peer.give_credit(1)
        payloads = [peer.expect(TRANSFER).payload]
        while peer.said[-1].field(5):
            payloads.append(peer.expect(TRANSFER).payload)
    assert len(payloads) > 4
    assert max(map(len, payloads)) <= 65_536
    message = Message()
    message.decode(b"".join(payloads))
    assert bytes(message.body) == body


def test_a_request_larger_than_a_mebibyte_is_refused_and_the_connection_lives_on(broker: BrokerThread) -> None:
    from proton.utils import LinkDetached

    assert NodeTarget.max_size == 1 << 20
    with managing(broker) as manager:
        assert manager.requests.sender.link.remote_max_message_size == 1 << 20
        with pytest.raises(LinkDetached, match="message-size-exceeded"):
            manager.ask("READ", b"x" * (2 << 20), name="type=Broker")
        manager.connection.create_sender("q").send(Message(body="the connection lives on"))
