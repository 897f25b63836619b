"""When an overfull queue lets its producers go: how much is left, how fast it goes, or why it does not. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from console.conditions.trends import Rates

Row = Mapping[str, Any]

UNITS = ("messages", "bytes")
#: Rates of a queue that was looked at for less (ms) are a guess: the broker's own of the last second are taken.
_ENOUGH = 3000


@dataclass(frozen=True, slots=True)
class Estimate:
    """`to_go`: unit -> what must leave before the queue resumes. `per_second`: unit -> how fast that goes; below 0 it
    grows. `ms`: until it resumes; None if it does not at this rate, and then `because` is a sentence."""

    to_go: Mapping[str, int]
    per_second: Mapping[str, float]
    ms: int | None
    because: str = ""


def estimate(queue: Row, rates: Rates, consumers: Sequence[Row]) -> Estimate:
    """For an overfull queue. `queue` and `consumers`: attributes as declared."""
    per_second = {unit: drain_rate(queue, rates, unit) for unit in UNITS}
    to_go = {unit: _left(queue, unit) for unit in UNITS}
    left = {unit: amount for unit, amount in to_go.items() if amount > 0}
    if not left:
        return Estimate({}, per_second, 0)
    if any(amount > _deliverable(queue, unit) for unit, amount in left.items()):
        return Estimate(left, per_second, None, _delayed(queue))
    slow = [unit for unit in left if per_second[unit] < 0.05]
    if slow:
        return Estimate(left, per_second, None, _why_not(queue, consumers, per_second["messages"]))
    return Estimate(left, per_second, max(int(left[unit] * 1000 / per_second[unit]) for unit in left))


def drain_rate(queue: Row, rates: Rates, unit: str) -> float:
    """By how much the depth shrinks in a second; below 0: it grows. What comes in stops at once when producers are
    held: it counts as of the last second, while what goes out is smoothed."""
    out = rates.messages_out if rates.seen_ms >= _ENOUGH else float(queue.get("rate_out") or 0)
    messages = out - float(queue.get("rate_in") or 0)
    if unit == "messages":
        return messages
    depth = queue.get("depth_messages") or 0
    return messages * queue["depth_bytes"] / depth if depth else 0.0


def _left(queue: Row, unit: str) -> int:
    if not queue.get(f"effective_stop_{unit}"):
        return 0
    return max(0, int(queue[f"depth_{unit}"]) - int(queue[f"effective_resume_{unit}"] or 0))


def _deliverable(queue: Row, unit: str) -> int:
    """How much of the depth consumers can have, or have: not what waits for its delivery time."""
    return int(queue[f"depth_{unit}"]) - int(queue.get(f"delayed_{unit}") or 0)


def _delayed(queue: Row) -> str:
    count, next_at = queue["delayed_messages"], queue.get("next_delivery_time")
    at = f", the next at {datetime.fromtimestamp(next_at / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC" if next_at else ""
    waits = "waits for its delivery time" if count == 1 else "wait for their delivery time"
    return f"{count:,} of its messages {waits}{at}: no consumer can have them yet"


def _why_not(queue: Row, consumers: Sequence[Row], net: float) -> str:
    takers = [c for c in consumers if not c.get("browsing")]
    uncommitted = queue.get("uncommitted_messages") or 0
    if uncommitted and uncommitted >= (queue.get("depth_messages") or 0):
        return "all of its messages belong to transactions that have not been committed"
    if not takers:
        return "nobody consumes from it"
    held = sum(c.get("unacknowledged_messages") or 0 for c in takers)
    if all(not c.get("credit") for c in takers):
        if held:
            return f"its consumers hold {held:,} messages that they have not acknowledged, and take no more"
        return "no consumer asks for messages"
    if held and held >= (queue.get("depth_messages") or 0):
        return f"all of its {held:,} messages are with consumers that have not acknowledged them"
    if queue.get("delayed_messages") and held >= _deliverable(queue, "messages"):
        return _delayed(queue)
    if net < 0 or (queue.get("rate_in") or 0) > 0.05:
        return "at least as much comes in as goes out"
    return "nothing has left it for some seconds"


def doing(consumer: Row, queue: Row) -> tuple[str, bool]:
    """What a consumer is doing, in words, and whether that is what keeps the queue full: it takes nothing, and nothing
    leaves the queue otherwise."""
    credit, held = consumer.get("credit") or 0, consumer.get("unacknowledged_messages") or 0
    if consumer.get("browsing"):
        return "browses: it reads copies and removes nothing", False
    free = _deliverable(queue, "messages") - (queue.get("unacknowledged_messages") or 0)
    still = (queue.get("rate_out") or 0) < 0.05
    if credit == 0 and held:
        return f"holds {_messages(held)} unacknowledged and takes the next when it settles one", still
    if credit == 0:
        return "is attached but asks for no messages", still
    if held:
        return f"takes messages: {held:,} not acknowledged yet, room for {credit:,} more", False
    if free > 0:
        return f"takes messages as they come, room for {credit:,}", False
    return f"waits for messages, room for {credit:,}", False


def _messages(count: int) -> str:
    return f"{count:,} message{'' if count == 1 else 's'}"
