"""Lists of messages: in order, without taking any, in pages that stay right while messages come and go."""

from __future__ import annotations

import pytest
from proton import Message

from brokers.admin import InvalidValue
from brokers.model import object_name
from brokers.testing import START, InMemoryBroker

QUEUE = object_name("Queue", virtualhost="default", name="orders")


def encoded(**given: object) -> bytes:
    return bytes(Message(**given).encode())


@pytest.fixture
async def broker() -> InMemoryBroker:
    broker = InMemoryBroker()
    await broker.create(QUEUE, {})
    return broker


async def listed(broker: InMemoryBroker, **given: object) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    while True:
        answer = await broker.call(QUEUE, "list-messages", given)
        found += answer["messages"]
        if answer["next"] is None:
            return found
        given["after"] = answer["next"]


def subjects(messages: list[dict[str, object]]) -> list[object]:
    return [message["properties"]["subject"] for message in messages]  # type: ignore[index]


async def test_messages_are_listed_in_the_order_of_delivery_with_what_precedes_the_body(broker):
    low = encoded(subject="low", priority=1, body="x")
    high = encoded(subject="high", priority=9, durable=True, properties={"region": "eu", "n": 3}, id="m-1", body="y")
    broker.publish_encoded("orders", low, high)
    first, second = await listed(broker)
    assert (first["properties"], first["application_properties"]) == (
        {"message_id": "m-1", "subject": "high"},
        {"region": "eu", "n": 3},
    )
    assert (first["position"], first["priority"], first["state"], first["size"], first["at"]) == (
        1, 9, "available", len(high), START,
    )  # fmt: skip
    assert (second["position"], second["properties"], second["dead_letter"]) == (2, {"subject": "low"}, None)
    assert (await broker.read(QUEUE))["depth_messages"] == 2


async def test_pages_show_each_message_once_while_others_come_and_go(broker):
    broker.publish_encoded("orders", *(encoded(subject=str(n)) for n in range(10)))
    answer = await broker.call(QUEUE, "list-messages", {"count": 4})
    assert subjects(answer["messages"]) == ["0", "1", "2", "3"]
    consumer = broker.attach_consumer("orders")
    broker.consume(consumer, 6)
    broker.publish_encoded("orders", encoded(subject="new"), encoded(subject="first", priority=9))
    rest = await listed(broker, after=answer["next"], count=3)
    assert subjects(rest) == ["6", "7", "8", "9", "new"]


async def test_acquired_messages_are_listed_with_their_consumer_and_first_if_wanted(broker):
    broker.publish_encoded("orders", *(encoded(subject=str(n)) for n in range(4)))
    consumer = broker.attach_consumer("orders")
    consumer.credit = 1
    consumer.queue.touch()
    broker.advance(50)
    broker.publish_encoded("orders", encoded(subject="high", priority=9))
    messages = await listed(broker, order="unacknowledged", count=2)
    assert subjects(messages) == ["0", "high", "1", "2", "3"]
    assert [m["position"] for m in messages] == [None, 1, 2, 3, 4]
    assert (messages[0]["state"], messages[0]["consumer"]) == ("acquired", str(consumer.name))
    assert subjects(await listed(broker, match={"state": "acquired"})) == ["0"]


@pytest.mark.parametrize(
    ("match", "found"),
    [
        ({"selector": "region = 'eu' AND n > 1"}, ["2", "3"]),
        ({"properties": {"region": "eu", "n": "1"}}, ["1"]),
        ({"properties": {"subject": "us"}}, ["us"]),
        ({"min_bytes": 500}, ["large"]),
        ({"min_redeliveries": 1}, []),
        ({"older_than_ms": 60_000}, ["old"]),
        ({"newer_than_ms": 60_000, "max_bytes": 499}, ["1", "2", "3", "us"]),
        ({"dead_letter_reason": ""}, ["old", "1", "2", "3", "us", "large"]),
    ],
)
async def test_all_conditions_of_a_match_must_hold(broker, match, found):
    broker.publish_encoded("orders", encoded(subject="old"))
    broker.advance(61_000, 1000)
    broker.publish_encoded("orders", *(encoded(subject=f"{n}", properties={"region": "eu", "n": n}) for n in (1, 2, 3)))
    broker.publish_encoded("orders", encoded(subject="us"), encoded(subject="large", body="x" * 500))
    assert subjects(await listed(broker, match=match)) == found


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"match": {"colour": "red"}}, "colour"),
        ({"match": {"selector": "region ="}}, "selector"),
        ({"match": {"state": "lost"}}, "state"),
        ({"match": {"state": None}}, "state"),
        ({"match": {"selector": ""}}, "selector"),
        ({"match": {"selector": " "}}, "selector"),
        ({"match": {"selector": None}}, "selector"),
        ({"match": {"properties": {}}}, "properties"),
        ({"match": {"properties": None}}, "properties"),
        ({"match": {"min_bytes": None}}, "min_bytes"),
        ({"match": {"older_than_ms": -1}}, "older_than_ms"),
        ({"after": "soon"}, "after"),
        ({"count": 201}, "count"),
    ],
)
async def test_invalid_argument_is_refused_by_its_name(broker, given, named):
    with pytest.raises(InvalidValue) as refused:
        await broker.call(QUEUE, "list-messages", given)
    assert set(refused.value.errors) == {named}


async def test_oldest_message_and_the_sources_of_a_dead_letter_queue(broker):
    assert (await broker.read(QUEUE))["oldest_message_at"] is None
    broker.publish_encoded("orders", encoded(subject="a"))
    broker.advance(5000)
    broker.publish_encoded("orders", encoded(subject="b"))
    assert (await broker.read(QUEUE))["oldest_message_at"] == START
    broker.consume(broker.attach_consumer("orders"), 1)
    assert (await broker.read(QUEUE))["oldest_message_at"] == START + 5000
    source = object_name("Queue", virtualhost="default", name="source")
    await broker.create(source, {"dead_letter_queue": "orders"})
    assert (await broker.read(QUEUE))["dead_letter_sources"] == 1
    await broker.delete(source)
    assert (await broker.read(QUEUE))["dead_letter_sources"] == 0
