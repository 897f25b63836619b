"""An outlet's messages when a queue they are for is deleted: nothing is said to be accepted that nobody has."""

from __future__ import annotations

from brokers.engine.flow.turn import Detach
from brokers.engine.services.outlet import Outlet, Parcel
from brokers.engine.values.outcomes import Outcome
from brokers.testing import InMemoryBroker


def test_a_withheld_message_of_a_deleted_queue_is_refused() -> None:
    broker = InMemoryBroker()
    engine = broker.engine
    host = engine.virtualhost("default")
    queue = engine.create_queue(host, "q", {"capacity_messages": 2, "mechanism": "hold"})
    settled: list[Parcel] = []
    connection = broker.attach_producer("other").connection
    outlet = Outlet(engine.links, connection, "link", 0, settled.append)

    def end_turn() -> None:
        for producer in queue.gate.grant():
            producer.handle.sync_credit()

    for number in range(4):
        outlet.publish(b"x", [queue], number)
        end_turn()
    assert [(p.delivery, p.outcome) for p in settled] == [(n, Outcome.ACCEPTED) for n in range(3)]
    assert outlet.unsettled == 1
    engine.delete_queue(queue)
    for effect in engine.turn.take_effects():
        if isinstance(effect, Detach):
            effect.port.end(effect.condition, effect.description)
    assert [(p.delivery, p.outcome) for p in settled[3:]] == [(3, Outcome.REFUSED)]
    assert (outlet.unsettled, outlet.taps) == (0, {})
