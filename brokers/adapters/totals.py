"""Totals over the observed objects, and how full a queue is. Pure; None where the broker does not say."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from brokers.adapters.observation import Attributes

#: Totals of a broker or a virtual host -> the attribute of its queues that is summed.
_SUMS = ("depth_messages", "depth_bytes", "producers", "blocked_producers", "consumers")


def totals(queues: Iterable[Attributes]) -> dict[str, Any]:
    """Return the totals of queues. A sum is None if no queue has a value, otherwise of those that have."""
    listed = list(queues)
    found: dict[str, Any] = {
        "queues": len(listed),
        "overfull_queues": sum(1 for queue in listed if queue.get("overfull")),
        "stopped_queues": sum(1 for queue in listed if queue.get("stopped_since") is not None),
    }
    for name in _SUMS:
        values = [queue[name] for queue in listed if queue.get(name) is not None]
        found[name] = sum(values) if values or not listed else None
    return found


def percent_used(queue: Attributes | None) -> float | None:
    """Return how full a queue is, in percent of its capacity; the higher of messages and bytes. None: it has no
    capacity, or something about it is unknown."""
    if queue is None:
        return None
    used = [
        100.0 * depth / capacity
        for unit in ("messages", "bytes")
        if (capacity := queue.get(f"effective_capacity_{unit}")) and (depth := queue.get(f"depth_{unit}")) is not None
    ]
    return max(used, default=None)
