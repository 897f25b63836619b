"""A staged start: the rate doubles step by step, and the start halts if a queue gets too deep.

A stage is part of the stop that it lifts, and so is stored with it and survives a restart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from brokers.admin import InvalidValue

#: Doublings until the stop is lifted completely.
DOUBLINGS = 6
STEP_MS = 10_000


@dataclass(frozen=True, slots=True)
class Stage:
    """`rate`: messages a second into each queue at first; it doubles every `step_ms`. `halt`: percent of its capacity
    above which any queue halts the start, 0: never. `since`: ms since the epoch. `actor`, `reason`: of the start; shown
    if it halts."""

    rate: int
    step_ms: int
    halt: int
    since: int
    actor: str = ""
    reason: str = ""

    def rate_at(self, now: int) -> int | None:
        """Return messages a second; None: the staged start is complete, without a limit from now on."""
        step = max(0, now - self.since) // self.step_ms
        return self.rate << step if step < DOUBLINGS else None

    def as_json(self) -> dict[str, Any]:
        return {
            "rate": self.rate,
            "step_ms": self.step_ms,
            "halt": self.halt,
            "since": self.since,
            "actor": self.actor,
            "reason": self.reason,
        }


def stage(rate: int, step_ms: int, halt: int, now: int) -> Stage | None:
    """Return the stage of a start request; None without a rate: the start is not staged. Raises InvalidValue."""
    if not rate:
        if step_ms or halt:
            raise InvalidValue({"rate": "rate is not given: a staged start needs a rate in messages per second"})
        return None
    if rate > 1_000_000:
        raise InvalidValue({"rate": f"rate is {rate}: 1,000,000 messages a second at most"})
    if step_ms and not 1000 <= step_ms <= 3_600_000:
        raise InvalidValue({"step_ms": f"step_ms is {step_ms}: from 1,000 (a second) to 3,600,000 (an hour)"})
    if halt > 100:
        raise InvalidValue({"halt": f"halt is {halt}: it is a percentage of the capacity, from 1 to 100"})
    return Stage(rate, step_ms or STEP_MS, halt, now)
