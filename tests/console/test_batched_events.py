"""Events that arrive together wake the readers of a link once, and none of them is missed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from brokers.admin import BrokerUnreachable, Event
from brokers.model import object_name
from brokers.steady_clock import SteadyClock
from console.links.state import BrokerState
from console.links.synchronization import Pace, Synchronization

BROKER = object_name("Broker")


class Admin:
    """Yields batches of events, each at once, and then fails."""

    def __init__(self, batches: list[int]) -> None:
        self._batches = batches

    async def events(self, after: int) -> AsyncIterator[Event]:
        number = after
        for size in self._batches:
            for _ in range(size):
                number += 1
                yield Event(number, 1000 + number, "listener-started", BROKER, f"event {number}", {})
            await asyncio.sleep(0)
        raise BrokerUnreachable("it is gone")


async def test_readers_are_woken_once_for_a_batch_and_also_for_the_last_one() -> None:
    state = BrokerState("local", 100, SteadyClock(lambda: 0, lambda: 0))
    state.begin_events(0)
    seen: list[int] = []
    state.notify = lambda: seen.append(state.window.last or 0)  # type: ignore[method-assign]
    admin: Any = Admin([1, 40, 1, 7])
    with suppress(BrokerUnreachable):
        await Synchronization(admin, state, Pace())._follow_events(0, 0)
    await asyncio.sleep(0)
    assert seen == [1, 41, 42, 49]
