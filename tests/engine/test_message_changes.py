"""Operators move, copy, retry and delete messages: each is in exactly one place, the target's flow control holds, and
what consumers have is not touched."""

from __future__ import annotations

import asyncio
from base64 import b64decode, b64encode
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from proton import Message

from brokers.admin import InvalidValue, NotFound
from brokers.model import ObjectName, object_name
from brokers.testing import START, InMemoryBroker
from tests.engine.fake_store import FakeStores


def queue(name: str) -> ObjectName:
    return object_name("Queue", virtualhost="default", name=name)


ORDERS, OTHER, DEAD = queue("orders"), queue("other"), queue("dead")
ALL: dict[str, Any] = {"match": {}}


def encoded(subject: object, **more: Any) -> bytes:
    return bytes(Message(subject=str(subject), **more).encode())


@pytest.fixture
async def broker() -> InMemoryBroker:
    broker = InMemoryBroker()
    for name in (ORDERS, OTHER):
        await broker.create(name, {})
    return broker


async def listed(broker: InMemoryBroker, name: ObjectName = ORDERS, **given: Any) -> list[dict[str, Any]]:
    answer = await broker.call(name, "list-messages", {"count": 200, **given})
    assert answer["next"] is None
    return list(answer["messages"])


async def subjects(broker: InMemoryBroker, name: ObjectName) -> list[str]:
    return [message["properties"]["subject"] for message in await listed(broker, name)]


async def test_matching_messages_move_in_order_with_what_they_had(broker):
    broker.publish_encoded("orders", *(encoded(n, properties={"odd": n % 2}) for n in range(10)))
    answer = await broker.call(
        ORDERS, "move-messages", {"to": "other", "match": {"selector": "odd = 1"}, "reason": "wrong queue"}
    )
    assert (answer["messages"], answer["skipped"], answer["next"], answer["blocked"]) == (5, [], None, "")
    assert await subjects(broker, ORDERS) == ["0", "2", "4", "6", "8"]
    assert await subjects(broker, OTHER) == ["1", "3", "5", "7", "9"]
    assert (await broker.read(ORDERS))["depth_messages"] == (await broker.read(OTHER))["depth_messages"] == 5
    event = broker._events[-1]
    assert (event.kind, event.attributes["messages"], event.attributes["to"], event.attributes["reason"]) == (
        "messages-moved", 5, "other", "wrong queue",
    )  # fmt: skip


async def test_preview_counts_and_changes_nothing(broker):
    broker.publish_encoded("orders", *(encoded(n) for n in range(10)))
    before = await listed(broker)
    for operation, more in (("move", {"to": "other"}), ("copy", {"to": "other"}), ("delete", {}), ("retry", {})):
        answer = await broker.call(ORDERS, f"{operation}-messages", {**ALL, **more, "preview": True})
        assert answer["messages"] == (0 if operation == "retry" else 10)
    assert await listed(broker) == before
    assert await listed(broker, OTHER) == []


async def test_named_messages_are_changed_and_each_that_is_not_there_is_reported(broker):
    broker.publish_encoded("orders", *(encoded(n) for n in range(5)))
    ids = [message["id"] for message in await listed(broker)]
    other = ids[1][:-8] + "00000000"  # of another message with this number
    answer = await broker.call(ORDERS, "delete-messages", {"ids": [ids[3], "99-4-0a0b0c0d", other, ids[0]]})
    assert (answer["messages"], answer["next"]) == (2, None)
    assert {skipped["id"] for skipped in answer["skipped"]} == {"99-4-0a0b0c0d", other}
    assert await subjects(broker, ORDERS) == ["1", "2", "4"]
    again = await broker.call(ORDERS, "delete-messages", {"ids": [ids[0]]})
    assert (again["messages"], [skipped["id"] for skipped in again["skipped"]]) == (0, [ids[0]])


async def test_acquired_messages_are_left_with_their_consumer(broker):
    broker.publish_encoded("orders", *(encoded(n) for n in range(4)))
    consumer = broker.attach_consumer("orders")
    consumer.credit = 2
    consumer.queue.touch()
    broker.advance(50)
    answer = await broker.call(ORDERS, "delete-messages", ALL)
    assert (answer["messages"], len(answer["skipped"])) == (2, 2)
    assert await subjects(broker, ORDERS) == ["0", "1"]
    assert broker.consume(consumer, 0) == 2
    assert (await broker.read(ORDERS))["depth_messages"] == 0


async def test_target_never_exceeds_its_stop_level_and_the_rest_stays(broker):
    await broker.update(OTHER, {"capacity_messages": 10, "flow_stop_messages": "70%", "flow_resume_messages": "50%"}, 1)
    broker.publish_encoded("orders", *(encoded(n) for n in range(20)))
    answer = await broker.call(ORDERS, "move-messages", {**ALL, "to": "other"})
    assert answer["messages"] == 7
    assert "no room" in answer["blocked"]
    assert ((await broker.read(OTHER))["state"], (await broker.read(OTHER))["depth_messages"]) == ("NORMAL", 7)
    broker.consume(broker.attach_consumer("other"), 4)
    rest = {"to": "other", "after": answer["next"], "until": answer["until"], **ALL}
    answer = await broker.call(ORDERS, "move-messages", rest)
    assert (answer["messages"], await subjects(broker, OTHER)) == (4, [str(n) for n in range(4, 11)])
    assert await subjects(broker, ORDERS) == [str(n) for n in range(11, 20)]


async def test_ring_loses_nothing_to_a_move(broker):
    await broker.update(OTHER, {"capacity_messages": 5, "overflow": "ring"}, 1)
    broker.publish_encoded("orders", *(encoded(n) for n in range(20)))
    answer = await broker.call(ORDERS, "move-messages", {**ALL, "to": "other"})
    other = await broker.read(OTHER)
    assert (other["dropped_messages"], other["depth_messages"], answer["messages"]) == (
        0,
        answer["messages"],
        answer["messages"],
    )
    assert answer["messages"] + len(await subjects(broker, ORDERS)) == 20


async def test_stopped_target_takes_nothing(broker):
    broker.publish_encoded("orders", encoded(1))
    await broker.call(OTHER, "stop-producers", {"reason": "upgrade"})
    answer = await broker.call(ORDERS, "move-messages", {**ALL, "to": "other"})
    assert (answer["messages"], answer["next"] is None) == (0, False)
    assert "stopped" in answer["blocked"]
    await broker.call(OTHER, "start-producers", {})
    answer = await broker.call(ORDERS, "move-messages", {**ALL, "to": "other", "after": answer["next"]})
    assert (answer["messages"], answer["next"]) == (1, None)


async def test_messages_that_arrive_after_the_first_call_are_not_touched(broker):
    broker.publish_encoded("orders", *(encoded(n) for n in range(5)))
    first = await broker.call(ORDERS, "move-messages", {**ALL, "to": "other", "count": 2})
    broker.publish_encoded("orders", encoded("late"), encoded("late and high", priority=9))
    second = await broker.call(
        ORDERS, "move-messages", {**ALL, "to": "other", "after": first["next"], "until": first["until"]}
    )
    assert (first["messages"], second["messages"], second["next"]) == (2, 3, None)
    assert await subjects(broker, ORDERS) == ["late and high", "late"]
    await broker.delete(ORDERS)
    await broker.create(ORDERS, {})


async def test_preview_of_a_number_of_messages_ends_where_the_change_would(broker):
    await broker.update(OTHER, {"capacity_bytes": 1500}, version=(await broker.read(OTHER)).version)
    big = encoded("big", body="x" * 2000)
    broker.publish_encoded("orders", encoded(0), big, big, *(encoded(n) for n in range(1, 9)))
    given = {**ALL, "to": "other", "count": 3}
    preview = await broker.call(ORDERS, "copy-messages", {**given, "preview": True})
    change = await broker.call(ORDERS, "copy-messages", given)
    assert (preview["messages"], change["messages"]) == (3, 3)
    assert preview["next"] == change["next"]
    assert len(preview["skipped"]) == len(change["skipped"]) == 2


async def test_change_by_age_is_not_continued_after_a_restart(broker):
    broker.publish_encoded("orders", *(encoded(n) for n in range(3)))
    age = {"match": {"older_than_ms": 0}, "to": "other"}
    first = await broker.call(ORDERS, "move-messages", {**age, "count": 1})
    sequence, began, store = first["until"].split("-")
    earlier = {**age, "after": first["next"], "until": f"{sequence}-{int(began) - 1}-{store}"}
    with pytest.raises(InvalidValue, match="the broker was restarted since"):
        await broker.call(ORDERS, "move-messages", earlier)
    assert (await broker.call(ORDERS, "move-messages", {**age, "until": first["until"]}))["messages"] == 2


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"to": "orders", "match": {}}, "to"),
        ({"to": "other"}, "ids"),
        ({"to": "other", "ids": ["1-4-00000000"], "match": {"state": "available"}}, "match"),
        ({"to": "other", "ids": ["first"]}, "ids"),
        ({"to": "other", "match": {}, "count": 1001}, "count"),
        ({"to": "other", "match": {}, "until": "now"}, "until"),
        ({"match": {}}, "to"),
    ],
)
async def test_invalid_argument_is_refused_by_its_name(broker, given, named):
    with pytest.raises(InvalidValue) as refused:
        await broker.call(ORDERS, "move-messages", given)
    assert set(refused.value.errors) == {named}


@pytest.mark.parametrize(
    "match", [{"selector": ""}, {"selector": None}, {"dead_letter_reason": None}, {"properties": {}}, {"state": None}]
)
async def test_condition_without_a_value_deletes_nothing(broker, match):
    broker.publish_encoded("orders", encoded(1))
    with pytest.raises(InvalidValue) as refused:
        await broker.call(ORDERS, "delete-messages", {"match": match})
    assert list(refused.value.errors) == list(match)
    assert await subjects(broker, ORDERS) == ["1"]


async def test_unknown_target_is_refused(broker):
    with pytest.raises(NotFound, match="nowhere"):
        await broker.call(ORDERS, "move-messages", {**ALL, "to": "nowhere"})


async def test_rest_of_the_time_to_live_and_the_delivery_time_go_with_a_message(broker):
    broker.publish_encoded(
        "orders",
        encoded("short", ttl=10),
        bytes(Message(subject="delayed", annotations={"x-opt-delivery-time": START + 20_000}).encode()),
    )
    broker.advance(4000)
    await broker.call(ORDERS, "move-messages", {**ALL, "to": "other"})
    found = {m["properties"]["subject"]: m for m in await listed(broker, OTHER)}
    assert found["short"]["expires"] == START + 10_000
    assert found["short"]["at"] == START + 4000
    assert (found["delayed"]["state"], found["delayed"]["due"]) == ("delayed", START + 20_000)
    assert (await broker.read(ORDERS))["depth_messages"] == (await broker.read(ORDERS))["delayed_messages"] == 0
    broker.advance(6100)  # no sweep has removed it yet
    assert await subjects(broker, OTHER) == ["delayed"]
    broker.advance(10_000)
    assert [m["state"] for m in await listed(broker, OTHER)] == ["available"]


async def dead_letters(broker: InMemoryBroker, count: int = 3) -> None:
    await broker.update(ORDERS, {"dead_letter_queue": "dead", "maximum_deliveries": 1}, 1)
    broker.publish_encoded("orders", *(encoded(n, annotations={"x-opt-mine": n}) for n in range(count)))
    consumer = broker.attach_consumer("orders")
    consumer.credit = count
    consumer.queue.touch()
    broker.advance(50)
    acquired, broker.acquired = broker.acquired, []
    for _, message in acquired:
        consumer.queue.put_back(consumer, message, failed=True)
    broker.engine.detach(consumer)
    broker.advance(50)


async def test_dead_letters_go_back_to_their_queue_as_they_were_sent(broker):
    await dead_letters(broker)
    (first, *_) = await listed(broker, DEAD)
    assert first["dead_letter"] == {
        "reason": "maximum-deliveries", "queue": "orders", "failed_deliveries": 1, "description": "",
    }  # fmt: skip
    summary = await broker.call(DEAD, "summarize-messages", {})
    assert [(g["reason"], g["queue"], g["messages"]) for g in summary["groups"]] == [
        ("maximum-deliveries", "orders", 3)
    ]
    answer = await broker.call(DEAD, "retry-messages", {"match": {"dead_letter_reason": "maximum-deliveries"}})
    assert (answer["messages"], answer["blocked"]) == (3, "")
    back = await listed(broker)
    assert [m["properties"]["subject"] for m in back] == ["0", "1", "2"]
    assert [(m["dead_letter"], m["redeliveries"]) for m in back] == [(None, 0)] * 3
    read = await broker.call(ORDERS, "read-message", {"id": back[1]["id"]})
    assert read["message"]["annotations"] == {"x-opt-mine": 1}


async def test_dead_letters_of_a_deleted_queue_stay_and_those_of_a_full_one_wait(broker):
    await dead_letters(broker)
    await broker.update(ORDERS, {"capacity_messages": 2}, (await broker.read(ORDERS)).version)
    broker.publish_encoded("dead", encoded("stranger"))
    answer = await broker.call(DEAD, "retry-messages", ALL)
    assert "orders" in answer["blocked"]
    await broker.delete(ORDERS)
    answer = await broker.call(DEAD, "retry-messages", ALL)
    assert {skipped["why"] for skipped in answer["skipped"]} == {
        "queue orders does not exist any more",
        "it is not a dead letter",
    }
    assert (answer["messages"], answer["blocked"]) == (0, "")


@pytest.mark.parametrize(
    ("message", "kind", "content"),
    [
        (Message(body=b"\x00\xffdata", inferred=True), "data", b"\x00\xffdata"),
        (Message(body="text é"), "text", "text é".encode()),
        (Message(body={"a": [1, None, True]}), "value", b'{"a": [1, null, true]}'),
        (Message(body=None), "none", b""),
    ],
)
async def test_message_is_read_with_its_body_in_parts(broker, message, kind, content):
    broker.publish_encoded("orders", bytes(message.encode()))
    ((identity),) = [m["id"] for m in await listed(broker)]
    whole = await broker.call(ORDERS, "read-message", {"id": identity})
    assert (whole["body_kind"], b64decode(whole["body"]), whole["cut"]) == (kind, content, False)
    part = await broker.call(ORDERS, "read-message", {"id": identity, "offset": 2, "size": 1})
    assert (b64decode(part["body"]), part["body_bytes"], part["cut"]) == (content[2:3], len(content), bool(content))


FOREIGN = [
    b"",
    b"x" * 40,
    b"\x00",
    b"\x00Sp\xc0\xff",
    encoded("cut")[:-3],
    b"\x00Ss\xd0\xff\xff\xff\xff",
    bytes(range(256)),
]


@pytest.mark.parametrize("body", FOREIGN, ids=range(len(FOREIGN)))
async def test_messages_that_cannot_be_decoded_are_listed_read_moved_and_deleted(broker, body):
    broker.publish_encoded("orders", body)
    (message,) = await listed(broker)
    read = await broker.call(ORDERS, "read-message", {"id": message["id"]})
    assert read["body_kind"] in ("none", "undecodable")
    if body:
        assert b64decode(read["body"]) == body
    assert (await broker.call(ORDERS, "copy-messages", {**ALL, "to": "other"}))["messages"] == 1
    assert (await broker.call(ORDERS, "move-messages", {**ALL, "to": "other"}))["messages"] == 1
    assert (await broker.call(OTHER, "retry-messages", ALL))["skipped"][0]["why"] == "it is not a dead letter"
    assert (await broker.call(OTHER, "delete-messages", ALL))["messages"] == 2


@given(st.binary(max_size=60), st.integers(0, 60), st.binary(max_size=4))
@settings(max_examples=200, deadline=None)
def test_no_bytes_break_a_list(cut, at, noise):
    whole = encoded("s", properties={"a": 1, "b": "c"}, annotations={"x-opt-dead-letter-queue": "q"}, body="b")
    broken = whole[:at] + noise + whole[at + len(noise) :]
    broker = InMemoryBroker()

    async def look() -> None:
        await broker.create(ORDERS, {})
        await broker.create(OTHER, {})
        broker.publish_encoded("orders", cut, broken)
        for message in await listed(broker):
            await broker.call(ORDERS, "read-message", {"id": message["id"]})
        await listed(broker, match={"selector": "a = 1", "properties": {"b": "c"}})
        await broker.call(ORDERS, "summarize-messages", {})
        await broker.call(ORDERS, "retry-messages", ALL)
        assert (await broker.call(ORDERS, "move-messages", {**ALL, "to": "other"}))["messages"] == 2

    asyncio.run(look())


async def publish(broker: InMemoryBroker, **given: Any) -> dict[str, Any]:
    return dict(await broker.call(ORDERS, "publish-message", {"body": b64encode(b"test").decode(), **given}))


async def test_test_message_meets_the_queue_as_a_producers_would(broker):
    taken = await publish(broker, properties={"subject": "s"}, application_properties={"n": 1}, priority=7)
    assert taken["outcome"] == "accepted"
    (message,) = await listed(broker)
    assert (message["id"], message["priority"], message["properties"], message["application_properties"]) == (
        taken["id"], 7, {"subject": "s"}, {"n": 1},
    )  # fmt: skip
    version = (await broker.update(ORDERS, {"capacity_messages": 1, "flow_resume_messages": 0}, 1)).version
    assert (await publish(broker))["outcome"] == "accepted"  # which makes it overfull
    waits = await publish(broker)
    assert (waits["outcome"], waits["id"]) == ("parked", None)
    assert "not taken" in waits["sentence"]
    version = (await broker.update(ORDERS, {"mechanism": "reject"}, version)).version
    assert (await publish(broker))["outcome"] == "rejected"
    version = (
        await broker.update(ORDERS, {"overflow": "ring", "mechanism": None, "flow_resume_messages": None}, version)
    ).version
    assert "dropped 1" in (await publish(broker, priority=7))["sentence"]
    await broker.update(ORDERS, {"capacity_messages": None, "capacity_bytes": 10}, version)
    assert (await publish(broker))["outcome"] == "discarded"
    await broker.call(ORDERS, "stop-producers", {"reason": "r"})
    assert "stopped" in (await publish(broker))["sentence"]
    assert (await broker.read(ORDERS))["depth_messages"] == len(await listed(broker)) == 0


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"body": "?"}, "body"),
        ({"body": b64encode(b"\xff").decode(), "body_kind": "text"}, "body"),
        ({"body_kind": "picture"}, "body_kind"),
        ({"priority": 10}, "priority"),
        ({"ttl_ms": 1 << 40}, "ttl_ms"),
        ({"properties": {"colour": "red"}}, "properties"),
        ({"application_properties": {"a": [1]}}, "application_properties"),
    ],
)
async def test_invalid_test_message_is_refused_by_what_is_wrong(broker, given, named):
    with pytest.raises(InvalidValue) as refused:
        await publish(broker, **given)
    assert set(refused.value.errors) == {named}


async def test_spooled_messages_move_out_of_the_temp_store(broker):
    stores = FakeStores()
    broker.engine.stores.provider = stores
    await broker.update(ORDERS, {"capacity_messages": 3, "spool": "disk"}, 1)
    broker.fill("orders", 3)
    producer = broker.attach_producer("orders")
    assert broker.publish(producer, 20) == 20
    stores.by_name[""].write(broker.engine, "")
    broker.advance(0)
    assert broker.engine.queue("default", "orders").lanes.usual.backlog.bytes > 0
    answer = await broker.call(ORDERS, "move-messages", {**ALL, "to": "other"})
    assert (answer["messages"], answer["blocked"]) == (23, "")
    stores.by_name[""].write(broker.engine, "")
    assert stores.by_name[""].stored == {}
    assert broker.consume(broker.attach_consumer("other"), 30) == 23
    source = broker.engine.queue("default", "orders")
    assert (source.gate.depth_messages, source.gate.depth_bytes, source.lanes.memory_bytes()) == (0, 0, 0)
