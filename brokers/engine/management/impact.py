"""The impact of new limits on one queue: its state, its blocked producers and dropped messages."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from brokers.engine.flow import scarcity, table
from brokers.engine.flow.overflow import OVERFLOW_POLICIES
from brokers.engine.flow.table import Input, State
from brokers.engine.management.resources.shared_readers import effective_levels
from brokers.engine.queues.queue import Queue
from brokers.engine.values.limits import UNLIMITED, Limits
from brokers.engine.values.policy import FIELDS, Setting


@dataclass(frozen=True, slots=True)
class QueueImpact:
    """The impact on one queue. `changes`: field -> its setting before and after; `blocked`: producers that would be
    blocked; `dropped`: messages that would be dropped."""

    queue: Queue
    limits: Limits
    changes: Mapping[str, tuple[Setting, Setting]]
    state: State
    blocked: int
    dropped: int

    @property
    def becomes_overfull(self) -> bool:
        return self.state.overfull and not self.queue.gate.state.overfull

    @property
    def is_unblocked(self) -> bool:
        return self.queue.gate.state.overfull and not self.state.overfull

    @property
    def newly_blocked(self) -> int:
        return max(0, self.blocked - self.queue.gate.blocked_producers)

    @property
    def unblocked(self) -> int:
        return max(0, self.queue.gate.blocked_producers - self.blocked)

    @property
    def weight(self) -> tuple[bool, int, int, int]:
        """A sort key: the larger the impact, the higher."""
        affected = (
            self.becomes_overfull or self.is_unblocked or bool(self.newly_blocked or self.unblocked or self.dropped)
        )
        return (
            affected,
            self.newly_blocked + self.unblocked,
            self.queue.gate.producer_count,
            self.queue.gate.depth_messages,
        )


def impact(queue: Queue, found: Mapping[str, Setting], limits: Limits) -> QueueImpact:
    """Return the impact of these settings and limits on a queue."""
    before = queue.gate.settings
    changes = {f: (before[f], found[f]) for f in FIELDS if before[f].value != found[f].value}
    overfull, dropped = queue.gate.state.overfull, 0
    if limits != queue.gate.limits:
        overfull, dropped = _after(queue, limits)
    if queue.gate.state.stopped or (overfull and OVERFLOW_POLICIES[limits.overflow].blocks):
        blocked = queue.gate.producer_count
    else:
        blocked = scarcity.blocked_producers(queue.gate, limits)
    return QueueImpact(queue, limits, changes, _state(queue, overfull=overfull), blocked, dropped)


def _after(queue: Queue, limits: Limits) -> tuple[bool, int]:
    """Return (whether the queue would be overfull, messages that it would drop) with these limits."""
    if limits.ring:
        return False, _excess(queue, limits)
    level = table.measure(limits, queue.gate.depth_bytes, queue.gate.depth_messages)
    return queue.gate.state.overfull if level is None else level is Input.ABOVE_STOP, 0


def _state(queue: Queue, *, overfull: bool) -> State:
    if queue.gate.state.stopped:
        return State.OVERFULL_STOPPED if overfull else State.STOPPED
    return State.OVERFULL if overfull else State.NORMAL


def _excess(queue: Queue, limits: Limits) -> int:
    """Estimate how many messages are above the limits of a ring; acquired messages are not dropped."""
    messages = queue.gate.depth_messages - queue.gate.uncommitted_messages
    above = max(0, messages - limits.stop_messages)
    over = queue.gate.depth_bytes - queue.gate.uncommitted_bytes - limits.stop_bytes
    if over > 0:
        above = max(above, math.ceil(over / _size(queue)))
    return min(above, max(0, messages - queue.lanes.unacknowledged))


def _size(queue: Queue) -> float:
    """Return the mean size of the queue's messages in bytes, or a recent size if it is empty."""
    mean = queue.gate.depth_bytes / queue.gate.depth_messages if queue.gate.depth_messages else 0
    return mean or queue.gate.ledger.recent or queue.gate.ledger.largest or 1


def describe_impact(impact: QueueImpact) -> dict[str, Any]:
    """Return the impact as in the answer of `preview-change`."""
    queue = impact.queue
    return {
        "object": str(queue.object_name),
        "virtualhost": queue.virtualhost,
        "name": queue.name,
        "producers": queue.gate.producer_count,
        "depth_messages": queue.gate.depth_messages,
        "depth_bytes": queue.gate.depth_bytes,
        "dropped": impact.dropped,
        "changes": {
            name: {
                "before": before.value,
                "before_origin": before.origin,
                "after": after.value,
                "after_origin": after.origin,
            }
            for name, (before, after) in impact.changes.items()
        },
        "before": _describe_side(queue, queue.gate.limits, queue.gate.state, queue.gate.blocked_producers),
        "after": _describe_side(queue, impact.limits, impact.state, impact.blocked),
    }


def _describe_side(queue: Queue, limits: Limits, state: State, blocked: int) -> dict[str, Any]:
    messages = (
        None if limits.ring or limits.stop_messages == UNLIMITED else limits.stop_messages - queue.gate.depth_messages
    )
    octets = None if limits.ring or limits.stop_bytes == UNLIMITED else limits.stop_bytes - queue.gate.depth_bytes
    return {
        "state": state.value,
        **effective_levels(limits),
        "blocked_producers": blocked,
        "headroom_messages": messages if messages is None else max(0, messages),
        "headroom_bytes": octets if octets is None else max(0, octets),
        "full_in_ms": None if state.overfull else _full_in(queue, messages, octets),
    }


def _full_in(queue: Queue, messages: int | None, octets: int | None) -> int | None:
    """Return the ms until the free capacity is used up at the rates of the last second; None if it is not."""
    growth = queue.rate_in - queue.rate_out
    if growth <= 0:
        return None
    left = [messages] if messages is not None else []
    if octets is not None:
        left.append(int(octets / _size(queue)))
    return int(min(left) / growth * 1000) if left else None
