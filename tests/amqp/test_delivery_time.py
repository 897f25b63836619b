"""Messages that are not to be seen before their delivery time, with real clients. The broker's time is the test's."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from proton import Data, Described, Message, byte, int32, short, symbol, timestamp, ubyte, uint, ulong, ushort
from proton.reactor import DurableSubscription, Selector

from brokers.amqp.annotations import MOST_READ
from brokers.amqp.dead_letter import as_dead_letter
from brokers.amqp.header import at_delivery_time, header
from brokers.engine.values.message import LATEST
from brokers.model import object_name
from brokers.steady_clock import time_of_day
from tests.amqp.broker_thread import BrokerThread
from tests.amqp.clients import Copy, bodies, connected, fill, managing
from tests.amqp.frames import ACCEPTED, DISPOSITION, described
from tests.amqp.test_topics import TOPIC, client
from tests.amqp.test_transactions import OUT, TRANSACTIONAL, Client

QUEUE = str(object_name("Queue", virtualhost="default", name="q"))
TIME, DELAY = symbol("x-opt-delivery-time"), symbol("x-opt-delivery-delay")
HOUR = 3_600_000


def due(hours: float, text: str, **options: Any) -> Message:
    """The delivery time in `hours` hours."""
    return Message(body=text, annotations={TIME: timestamp(time_of_day() + int(hours * HOUR))}, **options)


def delayed(hours: float, text: str, **options: Any) -> Message:
    return Message(body=text, annotations={DELAY: int(hours * HOUR)}, **options)


def browsed(broker: BrokerThread) -> list[Any]:
    """What may be seen now."""
    found = []
    with connected(broker) as connection:
        receiver = connection.create_receiver("q", credit=0, options=Copy())
        receiver.link.drain(100)
        connection.wait(lambda: not receiver.link.credit)
        while receiver.fetcher.has_message:
            found.append(receiver.fetcher.pop().body)
    return found


@pytest.mark.domain("clients delivery delay")
@pytest.mark.parametrize("durable", [True, False])
def test_a_message_is_delivered_at_its_time_and_not_before(broker: BrokerThread, durable: bool) -> None:
    fill(broker, "q", [due(5, "fifth", durable=durable), due(1, "first", durable=durable)])
    fill(broker, "q", [delayed(3, "third", durable=durable), Message(body="plain"), due(-1, "late")])
    with managing(broker) as manager:
        found = manager.ask("READ", name=QUEUE).body
    assert (found["depth_messages"], found["delayed_messages"], found["unacknowledged_messages"]) == (5, 3, 0)
    assert abs(found["next_delivery_time"] - (time_of_day() + HOUR)) < HOUR / 2
    with connected(broker, timeout=30) as connection:
        receiver = connection.create_receiver("q", credit=10)
        assert bodies(receiver, 2) == ["plain", "late"]
        for hours, text in ((0.9, ""), (0.2, "first"), (1.7, ""), (0.3, "third"), (1.7, ""), (0.3, "fifth")):
            broker.pass_time(int(hours * HOUR))
            if text:
                assert bodies(receiver, 1) == [text]
            else:
                assert not browsed(broker)
    with managing(broker) as manager:
        found = manager.ask("READ", name=QUEUE).body
    assert (found["depth_messages"], found["delayed_messages"], found["next_delivery_time"]) == (0, 0, None)


@pytest.mark.domain("clients delivery delay")
def test_delayed_messages_are_delivered_on_time_after_a_restart(tmp_path: Path) -> None:
    with BrokerThread(tmp_path) as broker:
        fill(broker, "q", [due(9, "late", durable=True), delayed(3, "soon", durable=True)])
        fill(broker, "q", [due(1, "expires", durable=True, ttl=HOUR / 2 / 1000)])
        fill(broker, "q", [due(2, "lives", durable=True, ttl=HOUR * 8 / 1000)])
    for _ in range(2):  # what is read at one start is there at the next
        with BrokerThread(tmp_path) as broker:
            broker.until_queue(
                "q", lambda q: len(q.lanes.delayed) == 4 and not q.lanes.delayed.has_unread, "their times are known"
            )
            assert not browsed(broker)
    with BrokerThread(tmp_path) as broker:
        with connected(broker, timeout=30) as connection:
            receiver = connection.create_receiver("q", credit=10)
            broker.pass_time(2 * HOUR + HOUR // 2)
            assert bodies(receiver, 1) == ["lives"]
            broker.until_queue(
                "q", lambda q: (q.lanes.expired, len(q.lanes.delayed)) == (1, 2), "one has expired unseen"
            )
            broker.pass_time(HOUR)
            assert bodies(receiver, 1) == ["soon"]
        broker.until_queue("q", lambda q: (q.gate.depth_messages, len(q.lanes.delayed)) == (1, 1), "one is left")


def test_a_delivery_time_follows_the_clock_on_the_wall_and_a_delay_does_not(broker: BrokerThread) -> None:
    fill(broker, "q", [due(5, "by the clock", durable=True), delayed(5, "by its delay", durable=True)])
    broker.look(lambda s: setattr(s.clock, "time_of_day_ns", lambda: time.time_ns() + 6 * HOUR * 1_000_000))
    with connected(broker, timeout=30) as connection:
        receiver = connection.create_receiver("q", credit=10)
        assert bodies(receiver, 1) == ["by the clock"]
        assert broker.look(lambda s: len(s.broker.queue("default", "q").lanes.delayed)) == 1
        broker.pass_time(6 * HOUR)
        assert bodies(receiver, 1) == ["by its delay"]


@pytest.mark.domain("clients delivery delay")
def test_in_a_transaction_a_delay_begins_with_the_commit_and_a_rollback_leaves_nothing(broker: BrokerThread) -> None:
    broker.look(lambda s: setattr(s.broker.virtualhost("default"), "transaction_idle_limit_ms", 0))
    with Client(broker) as client:
        client.open()
        client.begin()
        client.coordinate()
        client.sender("q")
        for commit in (False, True):
            transaction = client.declare()
            for message in (delayed(2, "delayed", durable=True), Message(body="plain", durable=True)):
                state = described(TRANSACTIONAL, transaction)
                client.transfer(bytes(message.encode()), handle=OUT, state=state)
                client.expect(DISPOSITION)
            broker.pass_time(HOUR)
            if commit:
                assert client.commit(transaction).descriptor == ACCEPTED
            else:
                client.roll_back(transaction)
    remaining = broker.until_queue(
        "q", lambda q: q.lanes.delayed and q.lanes.delayed.soonest - q.turn.now, "it is delayed"
    )
    assert HOUR * 1.5 < remaining <= 2 * HOUR
    assert browsed(broker) == ["plain"]
    broker.pass_time(2 * HOUR)
    with connected(broker, timeout=30) as connection:
        assert sorted(bodies(connection.create_receiver("q", credit=10), 2)) == ["delayed", "plain"]
    broker.until_queue("q", lambda q: q.gate.depth_messages == 0, "the rollback has left nothing")


def test_jms_client_gets_the_delivery_time_as_a_long_and_everything_else_unchanged() -> None:
    requested = Message(
        body="text", priority=7, annotations={symbol("x-opt-own"): [1, 2.5], DELAY: 9, symbol("z"): "end"}
    )
    rewritten = at_delivery_time(bytes(requested.encode()), 1234)
    assert (header(rewritten).due, header(rewritten).delay, header(rewritten).priority) == (1234, 0, 7)
    message = Message()
    message.decode(rewritten)
    assert message.body == "text"
    assert message.annotations == {symbol("x-opt-own"): [1, 2.5], symbol("z"): "end", TIME: 1234}
    assert type(message.annotations[TIME]) is int  # a long


NUMBERS = [
    5,
    ulong(5),
    uint(5),
    ushort(5),
    ubyte(5),
    int32(5),
    short(5),
    byte(5),
    5 << 20,
    ulong(5 << 20),
    uint(5 << 9),
]


@pytest.mark.parametrize("value", [*NUMBERS, timestamp(5)], ids=repr)
def test_every_whole_number_counts(value: int) -> None:
    assert header(bytes(Message(annotations={TIME: value}).encode())).due == int(value)
    assert header(bytes(Message(annotations={DELAY: value}).encode())).delay == int(value)


NO_NUMBERS = ["soon", None, -5, 0, True, 1.5, {}, b"", symbol("5"), [5], ulong(0), byte(-1)]


@pytest.mark.parametrize("value", NO_NUMBERS, ids=repr)
def test_message_with_an_invalid_delivery_time_is_delivered_at_once(broker: BrokerThread, value: object) -> None:
    for name in (TIME, DELAY):
        encoded = bytes(Message(body=1, annotations={name: value}).encode())
        assert (header(encoded).due, header(encoded).delay) == (0, 0)
    fill(broker, "q", [Message(body=1, annotations={TIME: value})])
    assert browsed(broker) == [1]


@pytest.mark.parametrize(
    ("annotations", "found"),
    [
        ({TIME: 7, DELAY: 9}, (7, 0)),
        ({DELAY: 9, TIME: 7}, (7, 0)),
        ({TIME: "soon", DELAY: 9}, (0, 9)),
        ({TIME: -1, DELAY: 9}, (0, 0)),
        ({"x-opt-delivery-time": 7}, (0, 0)),  # keys are symbols
        ({symbol("x"): "x-opt-delivery-time"}, (0, 0)),
        ({symbol("x"): {TIME: 7}}, (0, 0)),
        ({symbol(f"x{n}"): n for n in range(MOST_READ)} | {TIME: 7}, (0, 0)),
        ({symbol(f"x{n}"): n for n in range(MOST_READ - 1)} | {TIME: 7}, (7, 0)),
        ({TIME: 2**63 - 1}, (LATEST, 0)),
        ({DELAY: ulong(2**64 - 1)}, (0, LATEST)),
    ],
)
def test_of_both_the_time_counts_and_only_where_it_belongs(annotations: Any, found: tuple[int, int]) -> None:
    data = Data()
    data.put_object(Described(ulong(0x72), annotations))
    for before in (b"", b"\x00\x53\x70\x45", b"\x00\x53\x70\xc0\x02\x01\x41", b"\x00\x53\x71\xc1\x01\x00"):
        encoded = before + bytes(data.encode()) + b"\x00\x53\x77\x40"
        requested = header(encoded)
        assert (requested.due, requested.delay) == found
        if requested.delay:
            assert header(at_delivery_time(encoded, 77)).due == 77


@pytest.mark.parametrize("value", [2**63 - 1, 31_556_952_000 * 1_000_000], ids=["2^63-1", "a million years"])
@pytest.mark.parametrize("name", [TIME, DELAY])
def test_time_beyond_the_latest_one_survives_a_restart(tmp_path: Path, name: Any, value: int) -> None:
    with BrokerThread(tmp_path) as broker:
        fill(broker, "q", [Message(body="never", durable=True, annotations={name: value}), Message(body="plain")])
        assert browsed(broker) == ["plain"]
    with BrokerThread(tmp_path) as broker:
        broker.until_queue(
            "q", lambda q: len(q.lanes.delayed) == 1 and not q.lanes.delayed.has_unread, "its time is known"
        )
        with managing(broker) as manager:
            assert manager.ask("READ", name=QUEUE).body["next_delivery_time"] == LATEST


def test_duplicate_keys_ask_for_one_time_of_them() -> None:
    key = b"\xa3\x13x-opt-delivery-time"
    content = key + b"\x55\x05" + key + b"\x55\x06"
    encoded = b"\x00\x53\x72\xc1" + bytes([len(content) + 1, 4]) + content + b"\x00\x53\x77\x40"
    assert header(encoded).due in (5, 6)
    delay = b"\xa3\x14x-opt-delivery-delay\x55\x05"
    encoded = b"\x00\x53\x72\xc1" + bytes([2 * len(delay) + 1, 4]) + 2 * delay + b"\x00\x53\x77\x40"
    rewritten = Message()
    rewritten.decode(at_delivery_time(encoded, 1234))
    assert rewritten.annotations == {TIME: 1234}


@pytest.mark.parametrize("descriptor", [b"\x80" + (0x72).to_bytes(8, "big"), b"\xa3\x1camqp:message-annotations:map"])
def test_sections_may_be_named_in_every_way(descriptor: bytes) -> None:
    usual = bytes(Message(body="text", annotations={DELAY: 9}).encode())
    at = usual.index(b"\x53\x72")
    encoded = usual[:at] + descriptor + usual[at + 2 :]
    assert header(encoded).delay == 9
    assert header(at_delivery_time(encoded, 1234)).due == 1234


WHOLE = bytes(Message(body="", annotations={DELAY: 99, symbol("x"): [{symbol("y"): 1}]}).encode())


@settings(max_examples=300, deadline=None)
@given(st.integers(0, len(WHOLE)), st.binary(max_size=12), st.integers(0, 12))
def test_whatever_the_bytes_are_nothing_is_raised(at: int, other: bytes, gone: int) -> None:
    damaged = WHOLE[:at] + other + WHOLE[at + gone :]
    requested = header(damaged)
    rewritten = at_delivery_time(damaged, 1234)
    assert len(rewritten) <= len(damaged) + 64
    if requested.delay:
        assert rewritten is damaged or header(rewritten).due == 1234


@pytest.mark.parametrize(
    "value",
    [
        b"\x00" * 5_000_000,
        b"\xc0\xff\xff" * 1_000_000,
        b"\xd0\x7f\xff\xff\xff\x00\x00\x00\x01" * 500_000,
        b"\xa3\x01x\x40" * 1_000_000,
    ],
    ids=["descriptors", "short lists", "long lists", "many"],
)
def test_annotations_that_are_made_to_cost_time_cost_none(value: bytes) -> None:
    content = b"\xa3\x01x" + value + b"\xa3\x13x-opt-delivery-time\x55\x05"
    size = (len(content) + 4).to_bytes(4, "big")
    encoded = b"\x00\x53\x72\xd1" + size + (1 << 20).to_bytes(4, "big") + content
    before = time.process_time()
    for _ in range(20):
        header(encoded)
        at_delivery_time(encoded, 5)
    assert time.process_time() - before < 2  # walking through all would take minutes


def test_dead_letter_is_available_at_once() -> None:
    encoded = bytes(Message(body="text", annotations={TIME: LATEST, symbol("x"): 1}).encode())
    assert header(as_dead_letter(encoded, "rejected", "q", 1, "")).due == 0


@pytest.mark.domain("clients delivery delay")
def test_each_queue_of_a_topic_keeps_its_copy_until_its_time(broker: BrokerThread) -> None:
    """With selectors, in a durable and in an ordinary subscription, and in a temporary queue."""
    with client(broker, "one") as connection:
        durable = connection.create_receiver("prices", credit=9, name="d", options=[TOPIC, DurableSubscription()])
        ordinary = connection.create_receiver("prices", credit=9, name="o", options=[TOPIC])
        odd = connection.create_receiver("prices", credit=9, name="s", options=[TOPIC, Selector("n = 1 or n = 3")])
        temporary = connection.create_receiver(None, dynamic=True, credit=9, name="t")
        sent = [
            delayed(2, "1", durable=True, properties={"n": 1}),
            due(1, "2", durable=True, properties={"n": 2}),
            Message(body="3", durable=True, properties={"n": 3}),
        ]
        with connected(broker) as other:
            for options, address in (([TOPIC], "prices"), ([], temporary.link.remote_source.address)):
                sender = other.create_sender(address, options=options)
                for message in sent:
                    sender.send(message)
        both = [durable, ordinary, temporary]
        for hours, expected in ((0, "3"), (1, "2"), (1, "1")):
            broker.pass_time(hours * HOUR)
            for receiver in both if expected == "2" else [*both, odd]:
                assert bodies(receiver, 1) == [expected]
