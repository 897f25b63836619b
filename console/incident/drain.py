"""Estimate when an overfull queue resumes: what must drain, at which rate, or why it does not drain. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from console.conditions.trends import Rates

Row = Mapping[str, Any]

UNITS = ("messages", "bytes")
#: Smoothed rates need at least this observation time, ms; before it, the broker's rates of the last second are used.
_ENOUGH = 3000


@dataclass(frozen=True, slots=True)
class Estimate:
    """`to_drain`: unit -> how much must leave before the queue resumes. `per_second`: unit -> drain rate; negative if
    the depth grows. `ms`: time until the queue resumes; None if it does not at this rate, and `because` says why."""

    to_drain: Mapping[str, int]
    per_second: Mapping[str, float]
    ms: int | None
    because: str = ""


def estimate(queue: Row, rates: Rates, consumers: Sequence[Row] | None) -> Estimate:
    """Return the estimate for an overfull queue. `queue` and `consumers`: attributes as declared; None: the broker does
    not list consumers."""
    per_second = {unit: drain_rate(queue, rates, unit) for unit in UNITS}
    to_drain = {unit: _above_resume(queue, unit) for unit in UNITS}
    left = {unit: amount for unit, amount in to_drain.items() if amount > 0}
    if not left:
        return Estimate({}, per_second, 0)
    if any(amount > _deliverable(queue, unit) for unit, amount in left.items()):
        return Estimate(left, per_second, None, _delayed(queue))
    slow = [unit for unit in left if per_second[unit] < 0.05]
    if slow:
        return Estimate(left, per_second, None, _why_not(queue, consumers, per_second["messages"]))
    return Estimate(left, per_second, max(int(left[unit] * 1000 / per_second[unit]) for unit in left))


def drain_rate(queue: Row, rates: Rates, unit: str) -> float:
    """Return by how much the depth shrinks per second (negative: it grows), in `unit`. The inflow ends at once when
    producers are blocked, so it is that of the last second, while the outflow is smoothed."""
    out = rates.messages_out if rates.observed_ms >= _ENOUGH else float(queue.get("rate_out") or 0)
    messages = out - float(queue.get("rate_in") or 0)
    if unit == "messages":
        return messages
    depth = queue.get("depth_messages") or 0
    return messages * (queue["depth_bytes"] or 0) / depth if depth else 0.0


def _above_resume(queue: Row, unit: str) -> int:
    stop = queue.get(f"effective_stop_{unit}")
    if not stop:
        return 0
    if stop == queue[f"effective_resume_{unit}"] == queue[f"depth_{unit}"]:
        return 1  # some brokers are overfull at their limit already, and resume below it
    return max(0, int(queue[f"depth_{unit}"] or 0) - int(queue[f"effective_resume_{unit}"] or 0))


def _deliverable(queue: Row, unit: str) -> int:
    """Return the part of the depth that is available to consumers or delivered: all but delayed messages."""
    return int(queue[f"depth_{unit}"] or 0) - int(queue.get(f"delayed_{unit}") or 0)


#: Dead letters that wait count as delayed, without a time.
_NO_TIME = ", or as dead letters for room in the store"


def _delayed(queue: Row) -> str:
    count, next_at = queue["delayed_messages"], queue.get("next_delivery_time")
    at = f", the next at {datetime.fromtimestamp(next_at / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC" if next_at else _NO_TIME
    waits = "message waits for its delivery time" if count == 1 else "messages wait for their delivery time"
    return f"{count:,} {waits}{at}"


def _why_not_by_numbers(queue: Row) -> str:
    """Return why a queue does not drain whose consumers are not listed."""
    if queue.get("consumers") == 0:
        return "the queue has no consumers"
    unacknowledged, depth = queue.get("unacknowledged_messages") or 0, queue.get("depth_messages") or 0
    if depth and unacknowledged >= depth:
        return f"all {_messages(unacknowledged)} are delivered but not acknowledged"
    return "its consumers do not take more than producers send"


def _why_not(queue: Row, consumers: Sequence[Row] | None, net: float) -> str:
    if consumers is None:
        return _why_not_by_numbers(queue)
    destructive = [c for c in consumers if not c.get("browsing")]
    uncommitted = queue.get("uncommitted_messages") or 0
    if uncommitted and uncommitted >= (queue.get("depth_messages") or 0):
        return "all its messages belong to uncommitted transactions"
    if not destructive:
        return "the queue has no consumers"
    unacknowledged = sum(c.get("unacknowledged_messages") or 0 for c in destructive)
    if all(not c.get("credit") for c in destructive):
        if unacknowledged:
            return f"its consumers have {_messages(unacknowledged)} unacknowledged and grant no credit"
        return "its consumers grant no credit"
    if unacknowledged and unacknowledged >= (queue.get("depth_messages") or 0):
        return f"all {_messages(unacknowledged)} are delivered but not acknowledged"
    if queue.get("delayed_messages") and unacknowledged >= _deliverable(queue, "messages"):
        return _delayed(queue)
    if net < 0 or (queue.get("rate_in") or 0) > 0.05:
        return "the inflow is at least as high as the outflow"
    return "no message has left the queue for some seconds"


def activity(consumer: Row, queue: Row) -> tuple[str, bool]:
    """Return what a consumer is doing, for people, and whether it is stuck: it grants no credit, and no messages leave
    the queue."""
    credit, unacknowledged = consumer.get("credit") or 0, consumer.get("unacknowledged_messages") or 0
    if consumer.get("browsing"):
        return "browses without removing messages", False
    available = _deliverable(queue, "messages") - (queue.get("unacknowledged_messages") or 0)
    idle = (queue.get("rate_out") or 0) < 0.05
    if credit == 0 and unacknowledged:
        return f"has {_messages(unacknowledged)} unacknowledged and no credit", idle
    if credit == 0:
        return "is attached but grants no credit", idle
    if unacknowledged:
        return f"is consuming: {unacknowledged:,} unacknowledged, credit for {credit:,} more", False
    if available > 0:
        return f"is consuming, credit for {credit:,}", False
    return f"waits for messages, credit for {credit:,}", False


def _messages(count: int) -> str:
    return f"{count:,} message{'' if count == 1 else 's'}"
