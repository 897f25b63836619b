"""A gate explained to people: how full its queue is, how long producers have waited, and what would unblock them."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from brokers.engine.flow.gate import FlowGate
from brokers.engine.flow.table import stop_reason
from brokers.engine.values.limits import UNLIMITED


def longest_wait(gate: FlowGate, now: int) -> int:
    """Return the longest time that a producer or message has waited for room, ms, including those that still wait."""
    since = [parked.first.since for parked in (gate.parked, gate.awaiting) if parked]
    if gate.overfull_since is not None and gate.overflow.blocks and gate.ledger.members:
        since.append(gate.overfull_since)
    return max([gate.parking.longest_ms, *(now - s for s in since)])


def percent_used(gate: FlowGate) -> float | None:
    """Return the used percentage of the capacity, of messages or bytes, the higher one; None without a capacity."""
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
    """Say at which depth the queue becomes underfull, and how deep it is now."""
    limits, left = gate.limits, []
    for unit, depth, resume in (
        ("messages", gate.depth_messages, limits.resume_messages),
        ("bytes", gate.depth_bytes, limits.resume_bytes),
    ):
        if depth > resume:
            one = unit.removesuffix("s") if resume == 1 else unit
            left.append(f"{resume:,} {one} or fewer (now {depth:,})")
    if not left:
        return f"queue {gate.name} resumes"
    return f"queue {gate.name} falls to {' and '.join(left)}{_in_transactions(gate)}"


def _in_transactions(gate: FlowGate) -> str:
    """Say how many of the queue's messages are in open transactions; "" if none."""
    count = gate.uncommitted_messages
    return f", {count:,} of them in open transactions" if count else ""


def turn_condition(gate: FlowGate, now: int) -> str:
    """Say what an unblocked producer without credit waits for. `now` in ms."""
    rates = ((str(scope), stop.stage.rate_at(now)) for scope, stop in gate.staged.items() if stop.stage)
    slowest = min(((rate, scope) for scope, rate in rates if rate is not None), default=None)
    if slowest is None:
        return f"its turn: the room left in queue {gate.name} is reserved for credit that other producers hold"
    rate, scope = slowest
    return f"its turn: the staged start of {scope} lets {rate:,} messages a second into each queue"


def shortage_reasons(gate: FlowGate) -> list[str]:
    """Return the shortages that cause rejections; empty if the queue is overfull as well."""
    return [] if gate.state.overfull else list(dict.fromkeys(usage.reason for usage in gate.shortages))


def release_conditions(gate: FlowGate, reasons: Collection[str]) -> Iterator[str]:
    """Say for each of these reasons what would end it."""
    for reason in reasons:
        for scope, stop in (*gate.stops.items(), *gate.client_stops.items()):
            if reason == stop_reason(str(scope)):
                because = f" ({stop.reason})" if stop.reason else ""
                yield f"{stop.actor or 'an operator'} starts the producers of {scope} again{because}"
                break
        else:
            short = [usage.release_condition() for usage in gate.shortages if usage.reason == reason]
            yield from short or [resume_condition(gate)]
