"""The metrics of brokers and of queues: name, meaning, and the value in a row of a snapshot. Pure.

Names end in the unit, `_total` marks a counter, and times are in seconds, as Prometheus recommends. An attribute's
meaning is the managed model's description of it. A value is None if it is unknown, which yields no series: 0 would be
a statement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from brokers.model import TYPES

Row = Mapping[str, Any]
Value = Callable[[Row], float | None]


@dataclass(frozen=True, slots=True)
class Family:
    """One metric: its value in a row. A name that ends in `_total` is a counter, any other a gauge."""

    name: str
    help: str
    value: Value


def number(value: object) -> float | None:
    """Return a number, and None for everything else."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _described(type_name: str, attribute: str) -> str:
    declared = TYPES[type_name].attribute(attribute)
    assert declared is not None, attribute
    return declared.description


def _attribute(type_name: str, attribute: str, name: str) -> Family:
    return Family(f"headgate_{name}", _described(type_name, attribute), lambda row: number(row.get(attribute)))


def _seconds(type_name: str, attribute: str, name: str) -> Family:
    def value(row: Row) -> float | None:
        ms = number(row.get(attribute))
        return None if ms is None else ms / 1000

    return Family(f"headgate_{name}", _described(type_name, attribute), value)


def _limit(type_name: str, attribute: str, name: str, limit: str = "") -> Family:
    """Return the family of a level which has no series without a limit. `limit`: the attribute that is 0 without one;
    omitted: the level itself."""

    def value(row: Row) -> float | None:
        return number(row.get(attribute)) if number(row.get(limit or attribute)) else None

    return Family(f"headgate_{name}", f"{_described(type_name, attribute)} No series: no limit, or unknown.", value)


def is_overfull(row: Row) -> bool | None:
    state = row.get("state")
    return state.startswith("OVERFULL") if isinstance(state, str) and state else None


def is_stopped(row: Row) -> bool | None:
    state = row.get("state")
    return state.endswith("STOPPED") if isinstance(state, str) and state else None


def _flag(test: Callable[[Row], bool | None]) -> Value:
    def value(row: Row) -> float | None:
        known = test(row)
        return None if known is None else float(known)

    return value


_UNITS = ("messages", "bytes")

QUEUE: tuple[Family, ...] = (
    *(_attribute("Queue", f"depth_{unit}", f"queue_depth_{unit}") for unit in _UNITS),
    *(_limit("Queue", f"effective_capacity_{unit}", f"queue_capacity_{unit}") for unit in _UNITS),
    *(_limit("Queue", f"effective_stop_{unit}", f"queue_stop_{unit}") for unit in _UNITS),
    *(_limit("Queue", f"effective_resume_{unit}", f"queue_resume_{unit}", f"effective_stop_{unit}") for unit in _UNITS),
    Family("headgate_queue_overfull", "Whether the queue is overfull: 1 or 0.", _flag(is_overfull)),
    Family("headgate_queue_stopped", "Whether an operator has stopped its producers: 1 or 0.", _flag(is_stopped)),
    *(_attribute("Queue", name, f"queue_{name}") for name in ("producers", "blocked_producers", "consumers")),
    _attribute("Queue", "unacknowledged_messages", "queue_unacknowledged_messages"),
    _attribute("Queue", "parked_messages", "queue_parked_messages"),
    *(
        _attribute("Queue", name, f"queue_{name}_total")
        for name in (
            "enqueued_messages",
            "dequeued_messages",
            "rejected_messages",
            "dropped_messages",
            "expired_messages",
            "dead_lettered_messages",
            "discarded_messages",
        )
    ),
    _attribute("Queue", "overfull_count", "queue_overfull_episodes_total"),
    _seconds("Queue", "overfull_ms", "queue_overfull_seconds_total"),
)

#: Attributes of the broker that are sums over its queues: the queues' rows are newer, and the visible ones.
_SUMS = ("depth_messages", "depth_bytes", "producers", "blocked_producers", "consumers")

BROKER: tuple[Family, ...] = (
    *(
        _attribute("Broker", name, f"broker_{name}")
        for name in ("queues", "overfull_queues", "stopped_queues", *_SUMS, "connections")
    ),
    *(
        family
        for area in ("memory", "store", "temp")
        for family in (
            _limit("Broker", f"{area}_limit_bytes", f"broker_{area}_limit_bytes"),
            _attribute("Broker", f"{area}_used_bytes", f"broker_{area}_used_bytes"),
        )
    ),
    Family(
        "headgate_broker_exceeded_limits",
        "Number of the broker's limits that are exceeded now.",
        lambda row: None if row.get("shortages") is None else float(len(row["shortages"])),
    ),
)

UP = Family("headgate_broker_up", "Whether the console is connected to the broker: 1 or 0.", lambda row: None)
ANSWERED = Family(
    "headgate_broker_snapshot_timestamp_seconds",
    "When the last request that the broker answered was sent, in seconds since the epoch.",
    lambda row: None,
)


def totals(broker: Row, queues: Sequence[Row]) -> Row:
    """Return the broker's attributes with sums over its queues; None for a sum of which a part is unknown."""
    return {
        **broker,
        **{name: _sum(number(row.get(name)) for row in queues) for name in _SUMS},
        "queues": len(queues),
        "overfull_queues": _sum(_flag(is_overfull)(row) for row in queues),
        "stopped_queues": _sum(_flag(is_stopped)(row) for row in queues),
    }


def _sum(values: Iterable[float | None]) -> float | None:
    total = 0.0
    for value in values:
        if value is None:
            return None
        total += value
    return total
