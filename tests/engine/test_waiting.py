"""A producer without credit is either blocked with a reason, or shown with what it waits for."""

from __future__ import annotations

from typing import Any

import pytest

from brokers.engine.flow.credit import IDLE_CREDIT_MS
from brokers.engine.flow.table import State
from brokers.engine.management.requests import Management
from brokers.engine.values.stage import Stage
from brokers.engine.values.stops import Scope
from tests.engine.simulation import Simulation
from tests.engine.test_liveness import Market, bound


def attributes(world: Simulation, kind: str, thing: Any) -> dict[str, Any]:
    name = thing.object_name if kind == "Queue" else thing.name
    return dict(Management(world.broker).read(name).attributes)


def test_producer_waiting_for_credit_of_idle_ones_has_condition_and_time() -> None:
    world = Simulation()
    queue = world.queue(capacity_messages=1)
    *_, last = (world.sender(queue, answers=False) for _ in range(3))
    waiting = attributes(world, "Producer", last.producer)
    assert (waiting["state"], waiting["reasons"], waiting["credit"]) == ("RUNNING", [], 0)
    assert waiting["waits_for"] == (
        "its turn: the room left in queue orders is reserved for credit that other producers hold"
    )
    assert attributes(world, "Queue", queue)["waiting_producers"] == 1
    began = world.broker.turn.now
    world.advance(IDLE_CREDIT_MS)
    waiting = attributes(world, "Producer", last.producer)
    assert waiting["credit"] == 0
    assert began <= waiting["waiting_since"] <= world.broker.turn.now
    world.advance(10 * IDLE_CREDIT_MS)
    served = attributes(world, "Producer", last.producer)
    assert (served["credit"] > 0, served["waits_for"], served["waiting_since"]) == (True, "", None)
    assert attributes(world, "Queue", queue)["waiting_producers"] == 0


def test_blocked_producer_has_reasons_and_does_not_count_as_waiting() -> None:
    world = Simulation()
    queue = world.queue(capacity_messages=1)
    *holders, last = (world.sender(queue, answers=False) for _ in range(3))
    world.advance(IDLE_CREDIT_MS)
    assert attributes(world, "Producer", last.producer)["waiting_since"] is not None
    for sender in holders:
        assert world.send(sender, 1) == 1
    assert queue.gate.state is State.OVERFULL
    for sender in (*holders, last):
        blocked = attributes(world, "Producer", sender.producer)
        assert blocked["reasons"] == ["queue-overfull:orders"]
        assert (blocked["waits_for"], blocked["waiting_since"]) == ("", None)
    assert attributes(world, "Queue", queue)["waiting_producers"] == 0


def test_parked_messages_are_counted_beside_the_depth() -> None:
    world = Simulation()
    queue = world.queue(capacity_bytes=10_000)
    sender = world.sender(queue)
    world.send(sender, 5, size=100)
    sender.read()
    sent = sender.send(size=9_000, most=4)  # on credit for messages of 100 bytes
    assert sent == 4
    world.arrive(sender)
    counted = attributes(world, "Queue", queue)
    assert (counted["depth_messages"], counted["parked_messages"]) == (5 + 2, 2)
    assert (counted["depth_bytes"], counted["parked_bytes"]) == (500 + 18_000, 18_000)
    assert attributes(world, "Producer", sender.producer)["unsettled_messages"] == 2


def test_producers_of_a_staged_start_show_its_scope_and_rate() -> None:
    world = Simulation()
    queue = world.queue(capacity_messages=1_000)
    senders = [world.sender(queue) for _ in range(5)]
    stopping = world.broker.stopping
    scope = Scope()
    stopping.stop_producers(scope, "incident", "ann")
    world.settle()
    world.advance(1_000)
    stopping.start_producers(scope, "", "ann", stage=Stage(2, 10_000, 0, world.broker.turn.now))
    world.settle()
    rows = [attributes(world, "Producer", sender.producer) for sender in senders]
    waiting = [row for row in rows if not row["credit"]]
    assert len(waiting) >= 4
    for row in waiting:
        assert row["state"] == "RUNNING"
        assert row["waits_for"] == "its turn: the staged start of broker lets 2 messages a second into each queue"
    assert attributes(world, "Queue", queue)["waiting_producers"] == len(waiting)


@pytest.mark.domain("3 never without a reason")
@pytest.mark.parametrize("capacity", [1, 5, 40])
@pytest.mark.parametrize("consume", ["none", "slow", "quick"])
def test_every_producer_without_credit_is_blocked_or_shows_what_it_waits_for(capacity: int, consume: str) -> None:
    kinds = {"idle": 30, "eager": 10, "bursty": 5, "slow": 5, "vanished": 10}
    market = Market(kinds, capacity_messages=capacity)
    waited = 0
    for _ in range(200):
        market.run(IDLE_CREDIT_MS, consume)
        rows = [attributes(market.world, "Producer", c.sender.producer) for c in market.clients]
        for row in rows:
            assert bool(row["credit"]) + bool(row["reasons"]) + bool(row["waits_for"]) == 1, row
            if row["waiting_since"] is not None:
                assert 0 <= market.now - row["waiting_since"] <= bound(len(rows))
        waiting = [
            row for row in rows if row["waits_for"].endswith("its turn") or row["waits_for"].startswith("its turn")
        ]
        assert attributes(market.world, "Queue", market.queue)["waiting_producers"] == len(waiting)
        waited += len(waiting)
    assert waited, "no producer waited: the test covered nothing"
