"""Requests to the broker are answered while the samples and conditions of thousands of queues are processed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any

import pytest

from brokers.admin import BrokerUnreachable, Samples
from brokers.steady_clock import SteadyClock
from console.links.state import BrokerState
from console.links.synchronization import Pace, Synchronization
from tests.server.virtual_time import VirtualTimeLoop

PARTS = 20
#: Turns of the loop that a request and its answer need.
TURNS = 12


class Work:
    """`done`: the parts of samples or conditions that were processed."""

    def __init__(self) -> None:
        self.done = 0
        self.state = BrokerState("local", 100, SteadyClock(lambda: 0, lambda: 0))

    async def samples(self) -> AsyncIterator[Samples]:
        for _ in range(PARTS):
            self.done += 1
            yield Samples(1000, ())
        raise BrokerUnreachable("it is gone")

    def steps(self) -> Iterator[None]:
        for _ in range(PARTS):
            self.done += 1
            yield
        raise BrokerUnreachable("it is gone")

    async def request(self) -> int:
        """Return how many parts were processed before the answer."""
        for _ in range(TURNS):
            await asyncio.sleep(0)
        return self.done


def _samples(work: Work) -> Coroutine[Any, Any, None]:
    admin: Any = work
    return Synchronization(admin, work.state, Pace())._follow_samples()


def _conditions(work: Work) -> Coroutine[Any, Any, None]:
    work.state.update_conditions_in_steps = work.steps  # type: ignore[method-assign, assignment]
    admin: Any = work
    return Synchronization(admin, work.state, Pace())._update_conditions()


@pytest.mark.parametrize("begin", [_samples, _conditions])
def test_answer_waits_for_one_part_at_most(begin: Callable[[Work], Coroutine[Any, Any, None]]) -> None:
    async def both() -> int:
        work = Work()
        working = asyncio.ensure_future(begin(work))
        answered_after = await asyncio.ensure_future(work.request())
        with pytest.raises(BrokerUnreachable):
            await working
        assert work.done == PARTS
        return answered_after

    loop = VirtualTimeLoop()
    try:
        assert loop.run_until_complete(both()) == 1
    finally:
        loop.close()
