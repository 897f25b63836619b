"""A fan-out's messages when one of their queues is deleted: none is accepted that no queue has."""

from __future__ import annotations

from brokers.engine.flow.turn import Detach
from brokers.engine.services.fan_out import FanOut, RoutedMessage
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
