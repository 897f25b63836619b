"""Operators' stops of clients at one destination: they block the producers of those clients, and no others.

A blocked producer has no credit and gets none, like one whose messages would use a resource that is short
(`scarcity.py`). Its messages in flight are set aside, unsettled, behind those that it has parked already, and are
enqueued in the order in which it sent them once the last stop of its client is lifted. The destination itself stays
open: the messages of other producers do not wait for them.
"""

from __future__ import annotations

from typing import Protocol

from brokers.engine.flow import blocking, scarcity
from brokers.engine.flow.parking import Parking
from brokers.engine.flow.producer import Producer
from brokers.engine.flow.table import stop_reason
from brokers.engine.values.stops import Scope, Stop


class Gate(scarcity.Gate, Protocol):
    """The part of a `FlowGate` that stops of clients need. `client_stops`: those that cover the destination."""

    client_stops: dict[Scope, Stop]

    @property
    def parking(self) -> Parking: ...

    def cause_of(self, reason: str) -> str: ...


def begin(gate: Gate, stop: Stop) -> bool:
    """Apply a stop. Return False if it applied already."""
    known, gate.client_stops[stop.scope] = stop.scope in gate.client_stops, stop
    if known:  # with another end
        return False
    for producer in list(gate.producers):
        if covers(stop.scope, producer):
            _block(gate, producer, stop.scope)
    gate.contents.note_change()
    return True


def attach(gate: Gate, producer: Producer) -> None:
    """Block a producer that attaches while its client is stopped."""
    for scope in gate.client_stops:
        if covers(scope, producer):
            _block(gate, producer, scope)


def lift(gate: Gate, scope: Scope) -> bool:
    """Lift a stop. Return False if there is none."""
    if gate.client_stops.pop(scope, None) is None:
        return False
    reason = stop_reason(str(scope))
    for producer in list(gate.producers):
        if reason in producer.causes:
            _unblock(gate, producer, reason)
    gate.contents.note_change()
    return True


def blocking_stops(gate: Gate) -> list[Stop]:
    """Return the stops that block a producer now."""
    return [stop for scope, stop in gate.client_stops.items() if any(covers(scope, p) for p in gate.producers)]


def covers(scope: Scope, producer: Producer) -> bool:
    """Return whether a stop of this scope, which covers its destination, is for a producer."""
    connection = producer.connection
    return scope.client.covers(connection.user, connection.container_id, producer.link)


def _block(gate: Gate, producer: Producer, scope: Scope) -> None:
    first, producer.stopped = not producer.stopped, True
    reason = stop_reason(str(scope))
    blocking.block(gate.turn, producer, reason, gate.cause_of(reason), gate.event_attributes())
    if first:
        gate.parking.set_aside(producer)
        scarcity.review(gate, producer)
    gate.touch()


def _unblock(gate: Gate, producer: Producer, reason: str) -> None:
    producer.stopped = any(covers(scope, producer) for scope in gate.client_stops)
    blocking.unblock(gate.turn, producer, reason, gate.event_attributes())
    if not producer.stopped:
        gate.parking.take_up(producer)
        scarcity.review(gate, producer)
    gate.touch()
