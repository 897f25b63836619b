"""Messages whose sections are not what they should be: whatever looks into them finds nothing, and goes on."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from proton import Message, symbol
from proton.reactor import Selector

from brokers.amqp.coordinator_link import _request
from brokers.amqp.dead_letter import as_dead_letter
from brokers.amqp.filters import compile_selector
from brokers.amqp.header import at_delivery_time, for_delivery, header
from brokers.amqp.properties import properties
from tests.amqp.broker_thread import BrokerThread
from tests.amqp.clients import connected
from tests.amqp.frames import DISPOSITION, FLOW, Peer
from tests.faults.mutation import COMPOUND, EDGES, UNSOUND, encode, parse

ODD = (*EDGES, *UNSOUND, *COMPOUND)
#: Bytes that fit into one frame.
FRAME = 60_000
SELECTOR = (
    "a = 1 OR JMSType = 'x' OR JMSMessageID LIKE 'y%' OR JMSTimestamp > 5 OR b BETWEEN 1 AND c OR JMSPriority = 9"
)


def whole() -> bytes:
    message = Message(
        body="x",
        durable=True,
        ttl=60,
        id="m1",
        user_id=b"guest",
        address="orders",
        subject="s",
        reply_to="back",
        correlation_id=7,
        creation_time=1700000000,
        group_id="g",
        annotations={
            symbol("x-opt-jms-dest"): 1,
            symbol("x-opt-delivery-time"): 5,
            symbol("x-opt-dead-letter-queue"): "q",
        },
        properties={"a": 2, "b": 1.5, "c": b"bytes"},
    )
    return bytes(message.encode())


def places(value: Any) -> Iterator[tuple[int, ...]]:
    """Where there is a value, inside others or not; a descriptor is one, too."""
    yield ()
    if not isinstance(value, bytes):
        for number, each in enumerate(value[1:], 1):
            for rest in places(each):
                yield (number, *rest)


def put(value: Any, place: tuple[int, ...], odd: bytes) -> Any:
    if not place:
        return odd
    return tuple(put(each, place[1:], odd) if number == place[0] else each for number, each in enumerate(value))


def hostile() -> Iterator[bytes]:
    """The message with each of its values replaced by each odd one, and some cut off."""
    sections, rest = [], whole()
    while rest:
        section, end = parse(rest)
        sections.append(section)
        rest = rest[end:]
    for number, section in enumerate(sections):
        for place in places(section):
            for odd in ODD:
                changed = [*sections[:number], put(section, place, odd), *sections[number + 1 :]]
                yield b"".join(encode(each) for each in changed)
    for at in range(len(whole())):
        yield whole()[:at]


LOOKS: dict[str, Callable[[bytes], object]] = {
    "selector": compile_selector(SELECTOR),
    "properties": properties,
    "dead letter": lambda body: as_dead_letter(body, "rejected", "orders", 3, "no"),
    "header": header,
    "delivery": lambda body: for_delivery(body, 2),
    "delivery time": lambda body: at_delivery_time(body, 1_700_000_000_000),
}


@pytest.mark.domain("8 no input kills")
@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_nothing_that_looks_into_messages_fails_on_one(look: Callable[[bytes], object]) -> None:
    count = 0
    for body in hostile():
        look(body)
        count += 1
    assert count > 5_000


def test_a_request_to_the_coordinator_is_one_or_refused() -> None:
    for odd in ODD:
        for body in (b"\x00\x53\x77" + odd, b"\x00" + odd + b"\x45", b"\x00\x53\x77\x00" + odd + b"\x45"):
            with contextlib.suppress(ValueError):
                _request(body)


@pytest.mark.domain("8 no input kills")
def test_a_consumer_with_a_selector_gets_its_messages_past_those_of_a_hostile_producer(
    broker: BrokerThread, caplog: pytest.LogCaptureFixture
) -> None:
    odd = random.Random(1).sample([body for body in hostile() if len(body) < FRAME], 200)
    with Peer(broker.port) as peer, connected(broker) as connection:
        receiver = connection.create_receiver("orders", options=Selector("a = 1"))
        peer.open()
        peer.attach("orders")
        peer.expect(FLOW)
        for body in odd:
            peer.transfer(body)
            peer.expect(DISPOSITION)
        connection.create_sender("orders").send(Message(properties={"a": 1}, body="mine"))
        assert receiver.receive(timeout=30).body == "mine"
        receiver.accept()
    assert "fault of the broker" not in caplog.text
