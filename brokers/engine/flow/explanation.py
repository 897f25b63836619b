"""What people read of a gate: how full its queue is, how long producers have waited, and what would end that."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from brokers.engine.flow.gate import FlowGate
from brokers.engine.flow.table import stop_reason
from brokers.engine.values.limits import UNLIMITED


def longest_wait(gate: FlowGate, now: int) -> int:
    """The longest that a producer or a message has waited for room, ms, those that still do included."""
    since = [parked.first.since for parked in (gate.parked, gate.awaiting) if parked]
    if gate.overfull_since is not None and gate.overflow.blocks and gate.ledger.members:
        since.append(gate.overfull_since)
    return max([gate.longest_ms, *(now - s for s in since)])


def percent_used(gate: FlowGate) -> float | None:
    """Of its capacity, in messages or bytes, whichever is used more; None if it has none."""
    limits = gate.limits
    used = [
        100 * depth / (capacity or stop)
        for depth, capacity, stop in (
            (gate.depth_messages, limits.capacity_messages, limits.stop_messages),
            (gate.depth_bytes, limits.capacity_bytes, limits.stop_bytes),
        )
        if capacity or stop != UNLIMITED
    ]
    return max(used, default=None)


def resume_condition(gate: FlowGate) -> str:
    """What would end overfull, in words, from the depth now."""
    limits, left = gate.limits, []
    for unit, depth, resume in (
        ("messages", gate.depth_messages, limits.resume_messages),
        ("bytes", gate.depth_bytes, limits.resume_bytes),
    ):
        if depth > resume:
            left.append(f"{resume:,} {unit} or fewer (now {depth:,})")
    if not left:
        return f"queue {gate.name} resumes"
    return f"queue {gate.name} comes down to {' and '.join(left)}{_in_transactions(gate)}"


def _in_transactions(gate: FlowGate) -> str:
    """In words, which of its messages consumers cannot have yet; "" if there are none."""
    count = gate.uncommitted_messages
    return f", {count:,} of them in open transactions" if count else ""


def turn_condition(gate: FlowGate, now: int) -> str:
    """What a producer waits for that has no credit, though nothing blocks it, in words. `now` in ms."""
    rates = ((str(scope), stop.stage.rate_at(now)) for scope, stop in gate.staged.items() if stop.stage)
    slowest = min(((rate, scope) for scope, rate in rates if rate is not None), default=None)
    if slowest is None:
        return f"its turn: the room left in queue {gate.name} is reserved for credit that other producers hold"
    rate, scope = slowest
    return f"its turn: the staged start of {scope} lets {rate:,} messages a second into each queue"


def shortage_reasons(gate: FlowGate) -> list[str]:
    """The reasons of the shortages for which a message is rejected; none if the queue is overfull as well."""
    return [] if gate.state.overfull else list(dict.fromkeys(usage.reason for usage in gate.shortages))


def release_conditions(gate: FlowGate, reasons: Collection[str]) -> Iterator[str]:
    """What would end each of these reasons to block, in words."""
    for reason in reasons:
        for scope, stop in gate.stops.items():
            if reason == stop_reason(str(scope)):
                because = f" ({stop.reason})" if stop.reason else ""
                yield f"{stop.actor or 'an operator'} starts the producers of {scope} again{because}"
                break
        else:
            short = [usage.release_condition() for usage in gate.shortages if usage.reason == reason]
            yield from short or [resume_condition(gate)]
