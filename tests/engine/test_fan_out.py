"""A fan-out's messages when one of their queues is deleted: none is accepted that no queue has. What its queues cost
each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from brokers.engine.flow.producer import Producer
from brokers.engine.flow.turn import Detach
from brokers.engine.queues.queue import Queue
from brokers.engine.services.fan_out import Branch, FanOut, RoutedMessage
from brokers.engine.values.outcomes import Outcome
from brokers.testing import InMemoryBroker


def test_withheld_message_of_a_deleted_queue_is_refused() -> None:
    broker = InMemoryBroker()
    engine = broker.engine
    host = engine.virtualhost("default")
    queue = engine.create_queue(host, "q", {"capacity_messages": 2, "mechanism": "hold"})
    settled: list[RoutedMessage] = []
    connection = broker.attach_producer("other").connection
    fan_out = FanOut(engine.links, connection, "link", 0, settled.append)

    def end_turn() -> None:
        for producer in queue.gate.grant():
            producer.handle.sync_credit()

    for number in range(4):
        fan_out.publish(b"x", [queue], number)
        end_turn()
    assert [(p.delivery, p.outcome) for p in settled] == [(n, Outcome.ACCEPTED) for n in range(3)]
    assert fan_out.unsettled == 1
    engine.delete_queue(queue)
    for effect in engine.turn.take_effects():
        if isinstance(effect, Detach):
            effect.port.end(effect.condition, effect.description)
    assert [(p.delivery, p.outcome) for p in settled[3:]] == [(3, Outcome.REJECTED)]
    assert (fan_out.unsettled, fan_out.branches) == (0, {})


def test_largest_message_of_a_run_counts_for_the_window_like_any_other() -> None:
    largest = []
    for in_a_run in (False, True):
        broker = InMemoryBroker()
        engine = broker.engine
        queue = engine.create_queue(engine.virtualhost("default"), "q", {})
        settled: list[RoutedMessage] = []
        fan_out = FanOut(engine.links, broker.attach_producer("other").connection, "link", 0, settled.append)
        fan_out.publish(b"x" * 100, [queue], 0)
        bodies = [b"x" * 500, b"x" * 9000, b"x" * 300]
        if in_a_run:
            queue.gate.ledger.note_size(fan_out.branches[queue].producer, 10_000)  # of another producer
            for producer in queue.gate.grant():
                producer.handle.sync_credit()
            assert fan_out.run_allowance().messages >= len(bodies)
            assert fan_out.publish_run(bodies, sum(map(len, bodies)), durable=False) == []
        else:
            for number, body in enumerate(bodies):
                fan_out.publish(body, [queue], number)
        largest.append(fan_out.largest)
    assert largest == [9000, 9000]


class Causes(dict[str, None]):
    """The reasons of a producer, which count how often all of them together were looked at."""

    looks = 0

    def __len__(self) -> int:
        Causes.looks += 1
        return super().__len__()

    def __iter__(self) -> Iterator[str]:
        Causes.looks += 1
        return super().__iter__()


class Branches(dict[Queue, Branch]):
    """The branches of a fan-out, which count how often one was looked up."""

    looks = 0

    def __getitem__(self, queue: Queue) -> Branch:
        Branches.looks += 1
        return super().__getitem__(queue)

    def get(self, queue: Queue, default: Any = None) -> Any:
        Branches.looks += 1
        return super().get(queue, default)


def fanning_out(number: int) -> tuple[InMemoryBroker, FanOut, list[Queue]]:
    """A fan-out whose branches are counted, and queues that one message makes overfull."""
    broker = InMemoryBroker()
    engine = broker.engine
    host = engine.virtualhost("default")
    queues = [engine.create_queue(host, f"q{n}", {"capacity_messages": 1}) for n in range(number)]
    fan_out = FanOut(engine.links, broker.attach_producer("other").connection, "link", 0, lambda message: None)
    fan_out.branches = Branches()
    return broker, fan_out, queues


def producers_of(fan_out: FanOut) -> list[Producer]:
    return [branch.producer for branch in fan_out.branches.values()]


def test_queues_of_a_fan_out_that_become_overfull_together_look_at_each_other_in_groups() -> None:
    number = 60
    broker, fan_out, queues = fanning_out(number)
    for _ in range(2):
        fan_out.publish(b"x", queues, None)
        broker._end_turn()
        for producer in producers_of(fan_out):
            producer.causes = Causes(producer.causes)
        Causes.looks = 0
    fan_out.publish(b"x", queues, None)
    broker._end_turn()
    assert all(producer.blocked for producer in producers_of(fan_out))
    Causes.looks = 0
    for queue in queues:
        queue.lanes.purge()
    broker._end_turn()
    assert not any(producer.blocked for producer in producers_of(fan_out))
    assert Causes.looks < 12 * number * number, "and not a step for each pair and queue"


def test_each_new_address_of_a_link_without_a_target_costs_a_step_for_each_that_it_has() -> None:
    number = 100
    broker, fan_out, queues = fanning_out(number)
    for queue in queues:
        fan_out.publish(b"x", [queue], None)
    broker._end_turn()
    assert Branches.looks < 10 * number
    assert all(producer.fan_out == () for producer in producers_of(fan_out))


def test_queues_share_reasons_as_long_as_they_get_every_message_together() -> None:
    broker, fan_out, (a, b, c, d) = fanning_out(4)

    def groups() -> dict[str, list[str]]:
        return {p.queue.name: [each.queue.name for each in p.fan_out] for p in producers_of(fan_out)}

    fan_out.publish(b"x", [a, b, c], None)
    assert groups() == {name: ["q0", "q1", "q2"] for name in ("q0", "q1", "q2")}
    fan_out.publish(b"x", [b, a, d], None)
    assert groups() == {"q0": ["q0", "q1"], "q1": ["q0", "q1"], "q2": ["q0", "q1", "q2"], "q3": ["q0", "q1", "q3"]}
    fan_out.publish(b"x", [b], None)
    assert groups()["q0"] == ["q0", "q1"]
    assert groups()["q1"] == []
    broker.engine.delete_queue(a)
    broker._end_turn()
    assert groups() == {"q1": [], "q2": ["q1", "q2"], "q3": ["q1", "q3"]}
