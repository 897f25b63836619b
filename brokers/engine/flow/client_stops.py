"""Operators' stops of clients at one destination: they block the producers of those clients, and no others.

A blocked producer has no credit and gets none, like one whose messages would use a resource that is short
(`scarcity.py`). Its messages in flight are set aside, unsettled, behind those that it has parked already, and are
enqueued in the order in which it sent them once the last stop of its client is lifted. The destination itself stays
open: the messages of other producers do not wait for them.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    _block(gate, [producer for producer in gate.producers if covers(stop.scope, producer)], stop.scope)
    gate.contents.note_change()
    return True


def attach(gate: Gate, producer: Producer) -> None:
    """Block a producer that attaches while its client is stopped."""
    for scope in gate.client_stops:
        if covers(scope, producer):
            _block(gate, [producer], scope)


def lift(gate: Gate, scope: Scope) -> bool:
    """Lift a stop. Return False if there is none."""
    if gate.client_stops.pop(scope, None) is None:
        return False
    reason = stop_reason(str(scope))
    _unblock(gate, [producer for producer in gate.producers if reason in producer.causes], reason)
    gate.contents.note_change()
    return True


def blocking_stops(gate: Gate) -> list[Stop]:
    """Return the stops that block a producer now."""
    return [stop for scope, stop in gate.client_stops.items() if any(covers(scope, p) for p in gate.producers)]


def covers(scope: Scope, producer: Producer) -> bool:
    """Return whether a stop of this scope, which covers its destination, is for a producer."""
    connection = producer.connection
    return scope.client.covers(connection.user, connection.container_id, producer.link)


def _block(gate: Gate, producers: Sequence[Producer], scope: Scope) -> None:
    """Block producers. All are marked first: their events have the same attributes, whose count takes a step for each
    producer of the queue."""
    if not producers:
        return
    first = [producer for producer in producers if not producer.stopped]
    for producer in first:
        producer.stopped = True
    reason, attributes = stop_reason(str(scope)), gate.event_attributes()
    for producer in producers:
        blocking.block(gate.turn, producer, reason, gate.cause_of(reason), attributes)
    for producer in first:
        gate.parking.set_aside(producer)
        scarcity.review(gate, producer)
    gate.touch()


def _unblock(gate: Gate, producers: Sequence[Producer], reason: str) -> None:
    """Unblock producers, and then take up their messages, which changes the queue."""
    if not producers:
        return
    for producer in producers:
        producer.stopped = any(covers(scope, producer) for scope in gate.client_stops)
    attributes = gate.event_attributes()
    for producer in producers:
        blocking.unblock(gate.turn, producer, reason, attributes)
    for producer in producers:
        if not producer.stopped:
            gate.parking.take_up(producer)
            scarcity.review(gate, producer)
    gate.touch()
