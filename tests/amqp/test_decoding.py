"""What is decoded of a message in one turn is bounded, whatever its producer has sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from proton import Message, symbol
from proton.reactor import Selector

from brokers.amqp import message_sections
from brokers.amqp import proton as pn
from brokers.amqp.dead_letter import REASON, as_dead_letter
from brokers.amqp.filters import compile_selector
from brokers.amqp.header import at_delivery_time, header
from brokers.amqp.message_format import AmqpFormat
from brokers.amqp.message_sections import MOST_SEARCHED
from brokers.amqp.properties import properties
from tests.amqp.broker_thread import BrokerThread
from tests.amqp.clients import bodies, connected

pytestmark = pytest.mark.domain("8 no input burns")


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of all values that are decoded."""
    sizes: list[int] = []
    decode = pn.decode_first

    def counted(data: Any) -> tuple[int, Any]:
        sizes.append(len(data))
        return decode(data)

    monkeypatch.setattr(message_sections.pn, "decode_first", counted)
    return sizes


def heavy(count: int, **more: Any) -> bytes:
    """A message with many annotations and application properties, and these."""
    many = {f"{n:010}": n for n in range(count)}
    annotations = {symbol(name): value for name, value in many.items()} | more.pop("annotations", {})
    given = {"color": "blue", **more.pop("properties", many)}
    return bytes(Message(annotations=annotations, properties=given, subject="kind", address="to", **more).encode())


MANY = 10_000  # more than `MOST_SEARCHED`


@pytest.mark.parametrize(
    "look",
    [
        properties,
        lambda body: as_dead_letter(body, "rejected", "orders", 1, "no"),
        compile_selector("color = 'blue' OR n > 1"),
        header,
        lambda body: at_delivery_time(body, 1_700_000_000_000),
    ],
    ids=["routing", "dead letter", "selector", "header", "delivery time"],
)
def test_nothing_long_is_decoded_in_a_turn(decoded: list[int], look: Callable[[bytes], object]) -> None:
    body = heavy(MANY, annotations={symbol("x-opt-jms-dest"): 1, symbol("x-opt-delivery-delay"): 5})
    assert len(body) > 3 * MOST_SEARCHED
    look(body)
    assert max(decoded, default=0) <= MOST_SEARCHED


def test_routing_finds_destination_subject_and_group_of_any_message_without_decoding(decoded: list[int]) -> None:
    for more in ({}, {"annotations": {symbol("x-opt-jms-dest"): 1}}):
        found = properties(heavy(3, group_id="g", **more))
        assert (found.to, found.subject, found.group, found.topic) == ("to", "kind", "g", bool(more))
    body = bytes(Message(subject="k" * 1000, address="ä" * 300).encode())
    assert properties(body).subject == "k" * 1000
    assert properties(body).to == "ä" * 300
    assert decoded == []


def test_message_with_long_properties_matches_no_selector_about_them(broker: BrokerThread) -> None:
    with connected(broker) as connection:
        receiver = connection.create_receiver("q", options=Selector("color = 'blue'"), credit=10)
        plain = connection.create_receiver("q", name="plain", options=Selector("JMSPriority = 7"), credit=10)
        sender = connection.create_sender("q")
        many = {f"{n:010}": n for n in range(MANY)}
        sender.send(Message(body="long", properties={"color": "blue", **many}, priority=7))
        sender.send(Message(body="short", properties={"color": "blue"}))
        assert bodies(receiver, 1) == ["short"]
        assert bodies(plain, 1) == ["long"]


def test_selectors_of_a_topic_decode_a_message_once(decoded: list[int]) -> None:
    selectors = [compile_selector(f"color = 'c{n}'") for n in range(50)]
    for body in (heavy(3), heavy(3, properties={"color": "c7"})):
        assert [n for n, selects in enumerate(selectors) if selects(body)] == ([7] if b"c7" in body else [])
    assert len(decoded) == 2


# -- dead letters -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 3, MANY])
def test_dead_letter_has_its_marks_and_all_annotations_of_the_message(count: int) -> None:
    before = {symbol("x-opt-delivery-delay"): 5, symbol("mine"): "it's"}
    body = as_dead_letter(heavy(0, annotations=before, ttl=5) if not count else heavy(count), "one", "first", 2, "ä")
    body = as_dead_letter(body, "rejected", "orders", 3, "")
    message = Message()
    message.decode(body)
    found = dict(message.annotations)
    marks = {name: found.pop(name) for name in list(found) if name.startswith("x-opt-dead-letter-")}
    expected = {"x-opt-dead-letter-reason": "rejected", "x-opt-dead-letter-queue": "orders"}
    assert marks == expected | {"x-opt-dead-letter-failed-deliveries": 3}
    assert found == ({f"{n:010}": n for n in range(count)} if count else {"mine": "it's"})
    assert message.ttl == 0
    assert message.subject == "kind"
    if count < MANY:
        mark = AmqpFormat().dead_letter(body)
        assert mark is not None
        assert (mark.reason, mark.queue, mark.failed_deliveries) == ("rejected", "orders", 3)


def test_message_without_annotations_and_one_that_has_delivery_annotations_become_dead_letters() -> None:
    plain = Message(body="b")
    with_delivery = Message(body="b")
    with_delivery.instructions = {symbol("i"): 1}
    for message in (plain, with_delivery):
        found = Message()
        found.decode(as_dead_letter(bytes(message.encode()), "rejected", "orders", 0, "why"))
        assert found.annotations[REASON] == "rejected"
        assert found.instructions == message.instructions
        assert found.body == "b"


def annotated(count: int, pairs: bytes) -> bytes:
    """A message whose annotations claim to be `count` keys and values."""
    size = (4 + len(pairs)).to_bytes(4, "big")
    return b"\x00\x53\x72\xd1" + size + count.to_bytes(4, "big") + pairs + bytes(Message(body="b").encode())


@pytest.mark.parametrize("count", [0, 1, 0xFFFF_FFFF])
def test_wrong_number_of_annotations_is_no_error(count: int) -> None:
    delay = b"\xa3\x14x-opt-delivery-delay\x53\x05"
    body = annotated(count, delay * 3)
    at_delivery_time(body, 1_700_000_000_000)
    assert as_dead_letter(body, "rejected", "orders", 1, "no").endswith(bytes(Message(body="b").encode()))
