"""After a start that could not read all of a store, new messages have higher numbers than what may be read later."""

from __future__ import annotations

from brokers.engine.values.message import LEFT_OUT, MOST_LEFT_OUT, Header, sequence_of
from tests.engine.fake_store import FakeStores
from tests.engine.simulation import Simulation


def started(left_out: int = 0) -> Simulation:
    world = Simulation()
    world.broker.stores.provider = FakeStores()
    world.broker.turn.header = lambda body: Header(durable=True)
    world.host.left_out = left_out
    return world


def test_numbers_go_on_behind_those_that_may_be_in_use_and_the_record_says_how_often_that_was_done() -> None:
    world = started(left_out=2)
    read, unread = (world.broker.create_queue(world.host, name, {}, durable=True) for name in ("read", "unread"))
    world.broker.turn.take_records()
    rows = [(read.store_id, number, 5, 0, 0) for number in (7, 8)]
    assert world.broker.recover(world.host, rows, incomplete=True) == 2
    assert (read.gate.enqueued, unread.gate.enqueued) == (3 * LEFT_OUT, 3 * LEFT_OUT)
    [record] = [each for each in world.broker.turn.take_records() if each.kind == "virtualhost"]
    assert record.value is not None
    assert record.value["left_out"] == 3


def test_numbers_of_stored_messages_say_how_often_that_was_done_where_the_record_does_not() -> None:
    world = started()
    queue, other = (world.broker.create_queue(world.host, name, {}, durable=True) for name in ("q", "other"))
    world.broker.recover(world.host, [(queue.store_id, 5 * LEFT_OUT + 3, 5, 0, 0)], incomplete=True)
    assert queue.gate.enqueued == other.gate.enqueued == 6 * LEFT_OUT


def test_numbers_never_reach_the_bits_of_the_priority() -> None:
    world = started(left_out=MOST_LEFT_OUT)
    queue = world.broker.create_queue(world.host, "q", {}, durable=True)
    last = MOST_LEFT_OUT * LEFT_OUT + 9
    world.broker.recover(world.host, [(queue.store_id, last, 5, 0, 0)], incomplete=True)
    assert queue.gate.enqueued == last
    assert sequence_of((MOST_LEFT_OUT + 2) * LEFT_OUT) == (MOST_LEFT_OUT + 2) * LEFT_OUT


def test_complete_start_leaves_out_nothing_more() -> None:
    world = started(left_out=2)
    queue = world.broker.create_queue(world.host, "q", {}, durable=True)
    world.broker.recover(world.host, [(queue.store_id, 2 * LEFT_OUT + 1, 5, 0, 0)])
    assert (queue.gate.enqueued, world.host.left_out) == (2 * LEFT_OUT + 1, 2)
