"""Message groups, for consumers that request them."""

from __future__ import annotations

import pytest

from tests.engine.simulation import Simulation

pytestmark = pytest.mark.domain("clients groups")


@pytest.fixture
def world():
    return Simulation()


def group_of(body: bytes) -> str:
    return body.partition(b":")[0].decode()


def grouped(world, queue, credit=100, *, asks=True):
    connection = world.connection(queue.virtualhost)
    consumer = world.broker.attach_consumer(
        connection, queue, "receiver", None, browsing=False, group_of=group_of if asks else None
    )
    consumer.credit = credit
    return consumer


def publish(queue, *bodies):
    for body in bodies:
        queue.enqueue(body.encode())


def handed_out(queue):
    """Return consumer -> bodies dispatched now and in the following turns."""
    found = {}
    while batches := queue.dispatch():
        for consumer, messages in batches:
            found.setdefault(consumer, []).extend(messages)
    return found


def texts(messages):
    return [body.decode() for _, body in messages]


def test_each_group_stays_with_one_consumer_in_order(world):
    queue = world.queue()
    consumers = [grouped(world, queue) for _ in range(3)]
    publish(queue, *(f"g{n % 7}:{n}" for n in range(70)))
    found = handed_out(queue)
    assert sum(map(len, found.values())) == 70
    owners = {}
    for consumer, messages in found.items():
        for group in {group_of(body) for _, body in messages}:
            assert owners.setdefault(group, consumer) is consumer
            of_one = [int(text.split(":")[1]) for text in texts(messages) if text.startswith(f"{group}:")]
            assert of_one == sorted(of_one)
    publish(queue, *(f"g{n}:later" for n in range(7)))
    for consumer, messages in handed_out(queue).items():
        assert {owners[group_of(body)] for _, body in messages} == {consumer}
    assert len(consumers) == 3


def test_group_moves_to_another_consumer_from_its_first_message_when_its_owner_detaches(world):
    queue = world.queue()
    first = grouped(world, queue)
    publish(queue, "a:1", "a:2")
    acquired = handed_out(queue)[first]
    first.credit = 0
    second = grouped(world, queue)
    publish(queue, "a:3", "b:1")
    assert texts(handed_out(queue)[second]) == ["b:1"], "a is the first one's, though it has no credit now"
    for message in acquired:
        queue.put_back(first, message)
    world.broker.detach(first)
    assert texts(handed_out(queue)[second]) == ["a:1", "a:2", "a:3"]


def test_groups_do_not_affect_other_messages_and_consumers(world):
    queue = world.queue()
    one, other = grouped(world, queue, credit=1), grouped(world, queue, credit=1)
    publish(queue, ":1", ":2")
    assert {c: texts(m) for c, m in handed_out(queue).items()} == {one: [":1"], other: [":2"]}
    plain = grouped(world, queue, credit=5, asks=False)
    publish(queue, "a:1", "a:2")
    assert texts(handed_out(queue)[plain]) == ["a:1", "a:2"]


def test_memory_is_bounded_for_any_number_of_groups(world):
    queue = world.queue()
    consumer = grouped(world, queue, credit=10_000)
    publish(queue, *(f"{n}:x" for n in range(5_000)))
    assert len(handed_out(queue)[consumer]) == 5_000
    assert len(queue.dispatcher.groups._owners) <= 1024
