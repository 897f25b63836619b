"""Readers of attributes that several managed types have: policy fields, levels, totals, stops, times of day."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from brokers.engine.flow.table import State
from brokers.engine.flow.turn import Turn
from brokers.engine.management.resources.resource import Reader
from brokers.engine.queues.queue import Queue
from brokers.engine.registry.connection import Connection
from brokers.engine.values.limits import UNLIMITED, Limits
from brokers.engine.values.policy import FIELDS, Value
from brokers.engine.values.stops import Stop

T = TypeVar("T")


def _level(level: int) -> int:
    return 0 if level == UNLIMITED else level


_EFFECTIVE: Mapping[str, Callable[[Limits], int]] = {
    "effective_capacity_bytes": lambda limits: limits.capacity_bytes,
    "effective_stop_bytes": lambda limits: _level(limits.stop_bytes),
    "effective_resume_bytes": lambda limits: _level(limits.resume_bytes),
    "effective_capacity_messages": lambda limits: limits.capacity_messages,
    "effective_stop_messages": lambda limits: _level(limits.stop_messages),
    "effective_resume_messages": lambda limits: _level(limits.resume_messages),
}


def effective_levels(limits: Limits) -> dict[str, int]:
    """Return the `effective_*` attributes of a queue with these limits; 0 = no limit."""
    return {attribute: read(limits) for attribute, read in _EFFECTIVE.items()}


def effective_readers() -> dict[str, Reader[Queue]]:
    """Return a reader for each of the `effective_*` attributes."""

    def reader(read: Callable[[Limits], int]) -> Reader[Queue]:
        return lambda queue: read(queue.gate.limits)

    return {attribute: reader(read) for attribute, read in _EFFECTIVE.items()}


def item_readers(names: Iterable[str], of: Callable[[T], Mapping[str, Any]]) -> dict[str, Reader[T]]:
    """Return readers of attributes that are items of one of the object's maps; None: not set."""

    def reader(name: str) -> Reader[T]:
        return lambda thing: of(thing).get(name)

    return {name: reader(name) for name in names}


def policy_readers(of: Callable[[T], Mapping[str, Value]]) -> dict[str, Reader[T]]:
    """Return readers of the policy fields that the object sets; None: not set."""
    return item_readers(FIELDS, of)


def totals(queues: Iterable[Queue]) -> dict[str, int]:
    """Return totals over queues. In one pass: requests for the broker read those of thousands of queues."""
    number = overfull = stopped = producers = blocked = consumers = messages = size = 0
    normal = State.NORMAL
    for queue in queues:
        gate, dispatcher = queue.gate, queue.dispatcher
        number += 1
        if (state := gate.state) is not normal:
            overfull += state.overfull
            stopped += state.stopped
        if members := gate.ledger.members:
            producers += len(members)
            blocked += gate.blocked_producers
        if dispatcher.consumers or dispatcher.choosers or dispatcher.browsers:
            consumers += len(dispatcher)
        messages += gate.depth_messages
        size += gate.depth_bytes
    return {
        "queues": number,
        "overfull_queues": overfull,
        "stopped_queues": stopped,
        "producers": producers,
        "blocked_producers": blocked,
        "consumers": consumers,
        "depth_messages": messages,
        "depth_bytes": size,
    }


def total_readers(of: Callable[[T], Mapping[str, Any]]) -> dict[str, Reader[T]]:
    """Return a reader of each of the object's totals, which `of` returns, for filters and orders."""
    return item_readers(totals(()), of)


def open_transactions(connections: Iterable[Connection]) -> int:
    return sum(len(connection.transactions) for connection in connections)


def stops_at_time_of_day(turn: Turn, stops: Iterable[Stop]) -> list[dict[str, Any]]:
    """Return the value of a `stops` attribute."""
    return [stop.by_time_of_day(turn.ahead).as_json() for stop in stops]


def time_reader(turn: Turn, of: Callable[[T], int | None]) -> Reader[T]:
    """Return a reader of a time of the engine as the time of day, in ms since the epoch; None if there is none."""
    return lambda thing: None if (at := of(thing)) is None else at + turn.ahead
