"""What becomes of a message: outcomes both ways, its header when it comes again, its place in the line."""

from __future__ import annotations

from typing import Any

import pytest
from proton import Delivery, Described, Message, ulong
from proton.reactor import AtMostOnce

from brokers.amqp.header import for_delivery
from tests.amqp.broker_thread import WITHIN, BrokerThread
from tests.amqp.clients import Crowd, Prefetch, bodies, connected, fill, until
from tests.amqp.frames import ATTACH, DISPOSITION, FLOW, RECEIVER, TRANSFER, Peer, encode, frame, uint


def modify(receiver: Any, *, failed: bool = False, undeliverable: bool = False) -> None:
    """Settle the oldest message of a blocking receiver as modified."""
    delivery = receiver.fetcher.unsettled[0]
    delivery.local.failed, delivery.local.undeliverable = failed, undeliverable
    receiver.fetcher.settle(Delivery.MODIFIED)


# -- publishing ---------------------------------------------------------------------------------------------------


def test_unsettled_message_is_accepted_and_enqueued(broker: BrokerThread) -> None:
    with connected(broker) as connection:
        delivery = connection.create_sender("q").send(Message(body="one"))
        assert (delivery.remote_state, delivery.settled) == (Delivery.ACCEPTED, True)
    assert broker.depth("q") == 1


def test_presettled_message_is_enqueued_without_a_settlement(broker: BrokerThread) -> None:
    with Peer(broker.port) as peer:
        peer.open()
        peer.attach("q")
        peer.expect(FLOW)
        for _ in range(3):
            peer.transfer(settled=True)
        broker.until_queue("q", lambda q: q.gate.depth_messages == 3, "they are there")
        peer.is_alive()
        assert not [f for f in peer.said if f.code == DISPOSITION]


def test_real_clients_that_send_presettled_get_everything_through(broker: BrokerThread) -> None:
    with connected(broker) as connection:
        sender = connection.create_sender("q", options=AtMostOnce())
        for number in range(50):
            sender.send(Message(body=number))
        assert bodies(connection.create_receiver("q", credit=50), 50) == list(range(50))


# -- consuming ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settle", ["accept", "reject"])
def test_accepted_or_rejected_message_is_removed(broker: BrokerThread, settle: str) -> None:
    fill(broker, "q", ["one"])
    with connected(broker) as connection:
        receiver = connection.create_receiver("q")
        receiver.receive()
        getattr(receiver, settle)()
        until(
            connection,
            lambda: broker.see("q", lambda q: (q.gate.depth_messages, q.gate.depth_bytes)) == (0, 0),
            "it is gone",
        )


def test_released_message_is_redelivered_without_a_failed_delivery(broker: BrokerThread) -> None:
    fill(broker, "q", ["one"])
    with connected(broker) as connection:
        receiver = connection.create_receiver("q")
        receiver.receive()
        receiver.release(delivered=False)
        again = receiver.receive()
        assert (again.body, again.delivery_count) == ("one", 0)


@pytest.mark.parametrize(("failed", "count"), [(True, [0, 1, 2, 3]), (False, [0, 0, 0, 0])])
def test_a_modified_message_counts_its_failed_deliveries(broker: BrokerThread, failed: bool, count: list[int]) -> None:
    fill(broker, "q", ["one"])
    seen = []
    with connected(broker) as connection:
        receiver = connection.create_receiver("q")
        for _ in count:
            seen.append(receiver.receive().delivery_count)
            modify(receiver, failed=failed)
    assert seen == count


def test_message_undeliverable_to_a_consumer_goes_only_to_others(broker: BrokerThread) -> None:
    with connected(broker) as connection:
        one = connection.create_receiver("q", credit=10)
        fill(broker, "q", ["first", "second"])
        assert one.receive().body == "first"
        modify(one, undeliverable=True)
        assert one.receive().body == "second"
        one.accept()
        until(
            connection,
            lambda: broker.see("q", lambda q: (q.gate.depth_messages, q.lanes.unacknowledged)) == (1, 0),
            "it waits",
        )
        other = connection.create_receiver("q", credit=10, name="other")
        assert bodies(other, 1) == ["first"]
        until(connection, lambda: broker.depth("q") == 0, "it is gone")
        assert broker.see("q", lambda q: (q.lanes.deliveries, q.lanes.excluded)) == ({}, {})


def test_presettled_deliveries_leave_nothing_to_acknowledge(broker: BrokerThread) -> None:
    fill(broker, "q", list(range(20)))
    with connected(broker) as connection:
        receiver = connection.create_receiver("q", credit=20, options=Prefetch())
        assert bodies(receiver, 20, accept=False) == list(range(20))
        assert broker.see("q", lambda q: (q.gate.depth_messages, q.lanes.unacknowledged)) == (0, 0)


def test_a_settlement_of_several_deliveries_at_once_settles_each(broker: BrokerThread) -> None:
    fill(broker, "q", list(range(5)))
    with Peer(broker.port) as peer:
        peer.open()
        peer.attach("q", role=RECEIVER)
        peer.give_credit(5)
        ids = [int(peer.expect(TRANSFER).field(1)) for _ in range(5)]
        accepted = Described(ulong(0x24), [])
        peer.write(frame(DISPOSITION, True, uint(ids[0]), uint(ids[3]), True, accepted))
        broker.until_queue("q", lambda q: (q.gate.depth_messages, q.lanes.unacknowledged) == (1, 1), "four are gone")


def test_broker_settles_an_unsettled_outcome(broker: BrokerThread) -> None:
    fill(broker, "q", ["one"])
    with Peer(broker.port) as peer:
        peer.open()
        peer.attach("q", role=RECEIVER)
        peer.give_credit(1)
        number = peer.expect(TRANSFER).field(1)
        peer.write(frame(DISPOSITION, True, number, number, False, Described(ulong(0x24), [])))
        assert peer.expect(DISPOSITION).field(3) is True
        assert broker.depth("q") == 0


# -- order --------------------------------------------------------------------------------------------------------


def test_competing_consumers_share_a_queue_and_each_sees_its_part_in_order(broker: BrokerThread) -> None:
    with Crowd(broker) as crowd:
        destructive = [crowd.taker("q", credit=20) for _ in range(4)]
        broker.until_queue("q", lambda q: q.consumer_count == 4, "four consumers")
        fill(broker, "q", list(range(400)))
        broker.until_queue("q", lambda q: q.gate.depth_messages == 0, "all are gone")
        parts = [crowd.do(lambda t=t: list(t.taken)) for t in destructive]  # type: ignore[misc]
    assert sorted(number for part in parts for number in part) == list(range(400))
    assert all(part == sorted(part) for part in parts)
    assert all(len(part) > 20 for part in parts), f"shared out unevenly: {[len(p) for p in parts]}"


def test_unsettled_messages_of_a_lost_consumer_are_redelivered_in_order_with_a_failed_delivery(
    broker: BrokerThread,
) -> None:
    fill(broker, "q", list(range(10)))
    peer = Peer(broker.port).open()
    peer.attach("q", role=RECEIVER)
    peer.give_credit(4)
    for _ in range(4):
        peer.expect(TRANSFER)
    assert broker.see("q", lambda q: q.lanes.unacknowledged) == 4
    peer.vanish()
    broker.until_queue("q", lambda q: q.lanes.unacknowledged == 0, "they are back")
    with connected(broker) as connection:
        receiver = connection.create_receiver("q", credit=10)
        again = [receiver.receive() for _ in range(10)]
    assert [m.body for m in again] == list(range(10))
    assert [m.delivery_count for m in again] == [1] * 4 + [0] * 6


def test_messages_given_back_out_of_order_take_their_old_places(broker: BrokerThread) -> None:
    fill(broker, "q", list(range(6)))
    with Peer(broker.port) as peer:
        peer.open()
        peer.attach("q", role=RECEIVER)
        peer.give_credit(6)
        first = [peer.expect(TRANSFER) for _ in range(6)]
        for index in (4, 0, 2, 5, 1, 3):
            number = first[index].field(1)
            peer.write(frame(DISPOSITION, True, number, number, True, Described(ulong(0x26), [])))
        broker.until_queue("q", lambda q: q.lanes.unacknowledged == 0, "they are back")
        peer.give_credit(6, seen=6)
        assert [peer.expect(TRANSFER).payload for _ in range(6)] == [f.payload for f in first]


# -- the header of a message that comes again -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [{}, {"durable": True}, {"priority": 7}, {"ttl": 90.0}, {"durable": True, "priority": 1, "ttl": 5.0}],
    ids=str,
)
def test_redelivered_message_has_the_same_header_except_the_delivery_count(
    broker: BrokerThread, fields: dict[str, Any]
) -> None:
    message = Message(body={"k": [1, "x"]}, id="id", subject="s", properties={"p": 1})
    for name, value in fields.items():
        setattr(message, name, value)
    fill(broker, "q", [message])
    with connected(broker) as connection:
        receiver = connection.create_receiver("q")
        receiver.receive()
        modify(receiver, failed=True)
        again = receiver.receive()
    assert again.delivery_count == 1
    assert 0 <= message.ttl - again.ttl < WITHIN  # what is left of it
    assert bool(again.ttl) == bool(message.ttl)
    for name in ("durable", "priority", "body", "id", "subject", "properties"):
        assert getattr(again, name) == getattr(message, name), name


def section(code: int, value: Any) -> bytes:
    return encode(Described(ulong(code), value))


def test_a_message_without_a_header_gets_one_before_everything_else() -> None:
    message = Message()
    message.decode(for_delivery(section(0x77, "body"), 3))
    assert (message.body, message.delivery_count, message.durable) == ("body", 3, False)


HEADERS = {
    "list0": b"\x00\x53\x70\x45",
    "list8 empty": b"\x00\x53\x70\xc0\x01\x00",
    "list8": b"\x00\x53\x70\xc0\x04\x02\x41\x50\x09",
    "list32": b"\x00\x53\x70\xd0\x00\x00\x00\x0b\x00\x00\x00\x05\x41\x50\x09\x40\x42\x52\x05",
    "ulong descriptor": b"\x00\x80\x00\x00\x00\x00\x00\x00\x00\x70\xc0\x04\x02\x41\x50\x09",
    "symbolic descriptor": b"\x00\xa3\x10amqp:header:list\xc0\x04\x02\x41\x50\x09",
    "boolean with a byte": b"\x00\x53\x70\xc0\x05\x02\x56\x01\x50\x09",
    "uint0 as ttl": b"\x00\x53\x70\xc0\x05\x03\x41\x50\x09\x43",
}


@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS.keys())
def test_every_encoding_of_a_header_is_read(header: bytes) -> None:
    again = for_delivery(header + section(0x77, "body"), 2)
    message = Message()
    message.decode(again)
    assert (message.body, message.delivery_count) == ("body", 2)
    assert again.count(b"\x00\x53\x70") == 1, "two headers"
    assert b"amqp:header" not in again
    if len(header) > 8:
        assert (message.durable, message.priority) == (True, 9)


HOSTILE = {
    "cut short": b"\x00\x53\x70",
    "no list": b"\x00\x53\x70\xa1\x03abc",
    "map": b"\x00\x53\x70\xc1\x01\x00",
    "longer than the message": b"\x00\x53\x70\xc0\xff\x05\x41",
    "more fields than bytes": b"\x00\x53\x70\xc0\x02\x05\x41",
    "text as priority": b"\x00\x53\x70\xc0\x06\x02\x41\xa1\x01x!",
    "nested": b"\x00\x53\x70\xc0\x04\x01\xc0\x01\x00",
    "empty": b"",
    "one byte": b"\x00",
    "no message at all": b"GET / HTTP/1.1",
    "more fields than a header has": b"\x00\x53\x70\xc0\x09\x08\x40\x40\x40\x40\x40\x40\x40\x40",
}


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE.keys())
def test_message_with_an_unreadable_header_is_redelivered_unchanged(body: bytes) -> None:
    assert for_delivery(body, 1) == body


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_message_is_redelivered_and_does_no_harm(broker: BrokerThread, body: bytes) -> None:
    with Peer(broker.port) as peer, Peer(broker.port) as taker:
        peer.open()
        peer.attach("q")
        peer.expect(FLOW)
        peer.transfer(body)
        peer.expect(DISPOSITION)
        taker.open()
        taker.attach("q", role=RECEIVER)
        taker.expect(ATTACH)
        taker.give_credit(1)
        first = taker.expect(TRANSFER)
        modified = Described(ulong(0x27), [True])
        taker.write(frame(DISPOSITION, True, first.field(1), first.field(1), True, modified))
        taker.give_credit(1, seen=1)
        assert taker.expect(TRANSFER).payload == first.payload == body
        peer.is_alive()
