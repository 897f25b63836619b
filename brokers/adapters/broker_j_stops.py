"""Undo the stops of many queues of Broker-J: the limits of all are lifted first, and all are waited for together.

A queue that gets another policy back must have released its producers before (`broker_j_limits.py`). One that does not
is a fault of its own, and delays the others once, not once each.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from contextlib import suppress
from typing import Any

from brokers.adapters import broker_j_limits as limits
from brokers.adapters.adapter import Faults, StopTarget
from brokers.adapters.attempts import Attempts
from brokers.adapters.broker_j_limits import QueueLimits, Step
from brokers.admin import NotFound, TryAgain
from brokers.model import ObjectName

log = logging.getLogger("headgate.adapters")

#: Seconds between two looks at the queues that have to release their producers.
_LOOK = 0.1


async def undo(
    targets: Sequence[StopTarget],
    now: Mapping[ObjectName, QueueLimits],
    *,
    change: Callable[[ObjectName, Mapping[str, Any]], Awaitable[None]],
    blocking: Callable[[], Awaitable[Set[ObjectName]]],
    seconds: float,
) -> Faults:
    """Give queues the limits of before their stop; return the targets of those that failed. `now`: the limits of the
    queues that exist. `change`: sets attributes of a queue. `blocking`: returns the queues that block producers now.
    `seconds`: for all of them to release their producers."""
    attempts = Attempts()
    later: list[tuple[StopTarget, ObjectName, list[Step]]] = []
    lifted: set[ObjectName] = set()
    for target in targets:
        (name,) = target.queues
        steps = _steps(name, now.get(name), QueueLimits.of(target.restore))
        if not steps:
            continue
        with attempts.of(target), suppress(NotFound):
            await change(name, steps[0].attributes)
            later.append((target, name, steps[1:]))
            lifted |= {name} if steps[0].releases else set()
    blocked = await _still_blocking(lifted, blocking, seconds)
    for target, name, steps in later:
        with attempts.of(target), suppress(NotFound):
            if name in blocked:
                raise TryAgain(f"{name} still blocks producers after its limit was lifted")
            for step in steps:
                await change(name, step.attributes)
    return attempts.faults


def _steps(name: ObjectName, now: QueueLimits | None, before: QueueLimits) -> list[Step]:
    """Return the requests that undo a stop; none for a queue that is gone, or has limits that are not of its stop."""
    wanted = now and limits.restored(now, before)
    if now is None or wanted is None:
        return []
    if wanted != before:
        log.warning("%s was given other limits while it was stopped: they stay as they are", name)
    return limits.steps(now, wanted)


async def _still_blocking(
    names: Set[ObjectName], blocking: Callable[[], Awaitable[Set[ObjectName]]], seconds: float
) -> Set[ObjectName]:
    """Wait until none of the queues blocks producers; return those that still do when the time is over."""
    end = time.monotonic() + seconds
    while names and (names := names & await blocking()):
        if time.monotonic() > end:
            break
        await asyncio.sleep(_LOOK)
    return names
