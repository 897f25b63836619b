"""Management of messages never stalls the broker: what one call searches, loads and moves is bounded, whatever the
queue contains; others are served between the calls; and a job that goes on comes to an end."""

from __future__ import annotations

from typing import Any

import pytest
from proton import Message

from brokers.amqp import proton as pn
from brokers.engine.services import message_room
from brokers.engine.services.message_search import COST, DECODED, DECODED_BYTES, READ_BYTES
from brokers.model import object_name
from brokers.testing import InMemoryBroker
from tests.engine.fake_store import FakeStore, FakeStores

HERE, THERE, OTHER = (object_name("Queue", virtualhost="default", name=name) for name in ("here", "there", "other"))
MANY = 30_000


class Counted(FakeStore):
    """`bytes`: of the bodies that were loaded since the last look."""

    bytes = 0

    def load(self, queue: int, numbers: Any) -> dict[int, bytes] | None:
        bodies = super().load(queue, numbers)
        self.bytes += sum(map(len, (bodies or {}).values()))
        return bodies


@pytest.fixture
async def stores() -> FakeStores:
    stores = FakeStores()
    stores.by_name["default"] = Counted()
    return stores


@pytest.fixture
async def broker(stores: FakeStores) -> InMemoryBroker:
    broker = InMemoryBroker()
    broker.engine.stores.provider = stores
    for name in (HERE, THERE, OTHER):
        await broker.create(name, {"durable": True})
    return broker


def fill(broker: InMemoryBroker, stores: FakeStores, count: int, size: int) -> None:
    message = bytes(Message(durable=True, properties={"n": 1}, body=b"x" * size).encode())
    for _ in range(count):
        broker.engine.queue("default", "here").enqueue(message)
    stores.by_name["default"].write(broker.engine)
    broker.advance(0)


@pytest.mark.parametrize("operation", ["move", "copy", "delete"])
async def test_many_messages_are_changed_in_bounded_calls_while_others_are_served(broker, stores, operation):
    fill(broker, stores, MANY, 10)
    other, (store,) = broker.attach_producer("other"), stores.by_name.values()
    given: dict[str, Any] = {"match": {}, **({} if operation == "delete" else {"to": "there"})}
    done = calls = 0
    while True:
        answer = await broker.call(HERE, f"{operation}-messages", given)
        calls, done = calls + 1, done + answer["messages"]
        assert answer["messages"] <= 1000
        assert answer["searched"] <= COST
        assert broker.publish(other, 1) == 1
        broker.publish_encoded("here", b"a producer that never ends")
        store.write(broker.engine)
        broker.advance(0)
        if answer["next"] is None:
            break
        given |= {"after": answer["next"], "until": answer["until"]}
        assert calls < 2 * MANY // 1000
    assert done == MANY
    assert (await broker.read(OTHER))["depth_messages"] == calls
    left = MANY if operation == "copy" else 0
    assert (await broker.read(HERE))["depth_messages"] == left + calls


async def test_search_without_a_result_is_cut_and_goes_on_to_the_end(broker, stores):
    fill(broker, stores, 5000, 10)
    given: dict[str, Any] = {"match": {"selector": "n = 2"}}
    calls = 0
    while True:
        answer = await broker.call(HERE, "list-messages", given)
        calls += 1
        assert answer["messages"] == []
        assert answer["searched"] <= COST // DECODED + 1
        if answer["next"] is None:
            break
        given["after"] = answer["next"]
    assert calls >= 5000 * DECODED // COST


async def test_large_bodies_are_loaded_a_few_at_a_time_and_never_listed(broker, stores):
    fill(broker, stores, 40, 1 << 20)
    (store,) = stores.by_name.values()
    given: dict[str, Any] = {"count": 200}
    listed = 0
    while True:
        store.bytes = 0
        answer = await broker.call(HERE, "list-messages", given)
        listed += len(answer["messages"])
        assert store.bytes <= READ_BYTES + (2 << 20)
        assert len(str(answer)) < 20_000
        if answer["next"] is None:
            break
        given["after"] = answer["next"]
    assert listed == 40


async def test_long_properties_do_not_make_a_long_answer(broker):
    long = {f"name{n}": "v" * 200 for n in range(300)}
    for _ in range(200):
        broker.publish_encoded("here", bytes(Message(properties=long, body="x").encode()))
    answer = await broker.call(HERE, "list-messages", {"count": 200})
    assert 1 <= len(answer["messages"]) < 200
    assert len(str(answer)) < 400_000
    assert answer["messages"][0]["application_properties"]["..."] == "236 more"


async def test_moves_wait_for_a_store_that_is_slower(broker, stores, monkeypatch):
    monkeypatch.setattr(message_room, "MOST_UNWRITTEN", 25)
    fill(broker, stores, 100, 10)
    (store,) = stores.by_name.values()
    given: dict[str, Any] = {"match": {}, "to": "there", "count": 20}
    first = await broker.call(HERE, "move-messages", given)
    given |= {"after": first["next"], "until": first["until"]}
    second = await broker.call(HERE, "move-messages", given)
    assert (first["messages"], second["messages"]) == (20, 5)
    assert "still writing 25 messages" in second["blocked"]
    store.write(broker.engine)
    broker.advance(0)
    third = await broker.call(HERE, "move-messages", {**given, "after": second["next"]})
    assert (third["messages"], third["blocked"]) == (20, "")


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of each value that is decoded."""
    sizes: list[int] = []
    decode = pn.decode_first

    def counting(value: Any) -> Any:
        found = decode(value)
        sizes.append(found[0])
        return found

    monkeypatch.setattr(pn, "decode_first", counting)
    return sizes


@pytest.mark.parametrize("size", [1000, 30_000, 224_000])
@pytest.mark.parametrize(
    "match", [{}, {"properties": {"other": "v"}}, {"selector": "other = 'v' OR n > 3"}, {"newer_than_ms": 60_000}]
)
async def test_search_decodes_a_bounded_part_of_large_properties_and_comes_to_an_end(broker, decoded, size, match):
    given = {f"name{n}": "v" * 100 for n in range(size // 110)} | {"other": "v"}
    message = bytes(Message(properties=given, body="x").encode())
    for _ in range(40):
        broker.publish_encoded("here", message)
    found, arguments = 0, dict[str, Any](match=match, count=200)
    while True:
        decoded.clear()
        answer = await broker.call(HERE, "list-messages", arguments)
        found += len(answer["messages"])
        assert sum(decoded) <= 2 * (DECODED_BYTES + size)
        if answer["next"] is None:
            break
        arguments["after"] = answer["next"]
    searchable = size <= 64 << 10
    assert found == (40 if searchable or "newer_than_ms" in match or not match else 0)
    if match == {}:
        shown = answer["messages"][0]["application_properties"]
        assert (shown.get("...", "").endswith("too long to be shown"), "name0" in shown) == (not searchable, searchable)
        read = await broker.call(HERE, "read-message", {"id": answer["messages"][0]["id"]})
        assert read["message"]["application_properties"]["name0"] == "v" * 100


async def test_message_is_decoded_once_for_its_condition_and_its_description(broker, decoded):
    broker.publish_encoded("here", bytes(Message(properties={"n": "v" * 10_000}, body="x").encode()))
    decoded.clear()
    answer = await broker.call(HERE, "list-messages", {"match": {"properties": {"n": "v" * 10_000}}})
    assert len(answer["messages"]) == 1
    assert sum(decoded) < 11_000


async def test_endless_sections_in_front_of_a_body_are_not_walked(broker):
    one = bytes(Message(annotations={"a": 1}).encode())
    empty_annotations = b"\x00\x53\x72\xc1\x01\x00"
    broker.publish_encoded("here", empty_annotations * 100_000, one)
    reads = broker.engine.agenda.turn.format
    assert reads.decoded_bytes(empty_annotations * 100_000) == len(empty_annotations)
    assert len((await broker.call(HERE, "list-messages", {}))["messages"]) == 2


async def test_forged_dead_letter_annotations_do_not_make_a_long_answer(broker):
    for n in range(300):
        name = f"{n}-" + "q" * 10_000
        marks = {"x-opt-dead-letter-reason": name, "x-opt-dead-letter-queue": name}
        broker.publish_encoded("here", bytes(Message(annotations=marks, body="x").encode()))
    listed = await broker.call(HERE, "list-messages", {"count": 1})
    assert {len(listed["messages"][0]["dead_letter"][name]) for name in ("reason", "queue")} == {256}
    given: dict[str, Any] = {}
    messages = 0
    while True:
        summary = await broker.call(HERE, "summarize-messages", given)
        messages += sum(group["messages"] for group in summary["groups"])
        assert len(str(summary)) < 200_000
        if summary["next"] is None:
            break
        given["after"] = summary["next"]
    assert messages == 300
    (group, *_) = summary["groups"]
    match = {"dead_letter_reason": group["reason"], "dead_letter_queue": group["queue"]}  # as it was shown
    given, skipped = {"match": match}, 0
    while True:
        answer = await broker.call(HERE, "retry-messages", given)
        skipped += len(answer["skipped"])
        assert all(len(each["why"]) < 300 for each in answer["skipped"])
        if answer["next"] is None:
            break
        given |= {"after": answer["next"], "until": answer["until"]}
    assert skipped == 1
