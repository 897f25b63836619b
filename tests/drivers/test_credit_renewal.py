"""The credit that a client gives: renewed in halves of its window, and not more often than its pace."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from brokers.drivers.amqp_links import LinkEnded, Receiver
from tests.server.virtual_time import VirtualTimeLoop


class Owner:
    def wake(self) -> None: ...

    def forget(self, name: str) -> None: ...


class Link:
    """Records the time and amount of each credit, ms since it was made."""

    name = "$events-1"

    def __init__(self) -> None:
        self.given: list[tuple[int, int]] = []
        self._began = asyncio.get_running_loop().time()

    def open(self) -> None: ...

    def flow(self, credit: int) -> None:
        self.given.append((round((asyncio.get_running_loop().time() - self._began) * 1000), credit))


def given(window: int, pace: float, work: Callable[[Receiver], Any]) -> list[tuple[int, int]]:
    async def run() -> list[tuple[int, int]]:
        link = Link()
        receiver = Receiver(Owner(), link, window, lambda message: None, pace)  # type: ignore[arg-type]
        receiver.open()
        await work(receiver)
        return link.given

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(run())


async def consume(receiver: Receiver, times: int, interval: float) -> None:
    for _ in range(times):
        receiver.consumed()
        await asyncio.sleep(interval)
    await asyncio.sleep(1.0)


def test_without_a_pace_half_of_the_window_is_renewed_at_once() -> None:
    assert given(4, 0.0, lambda receiver: consume(receiver, 5, 0.003)) == [(0, 4), (3, 2), (9, 2)]


def test_busy_receiver_gives_credit_in_its_pace_and_all_of_it() -> None:
    renewed = given(2, 0.01, lambda receiver: consume(receiver, 7, 0.003))
    assert renewed == [(0, 2), (0, 1), (10, 3), (20, 3)]


def test_message_after_a_pause_is_renewed_without_a_wait() -> None:
    assert given(2, 0.01, lambda receiver: consume(receiver, 3, 0.05)) == [(0, 2), (0, 1), (50, 1), (100, 1)]


def test_ended_link_gets_no_late_credit() -> None:
    async def end_between(receiver: Receiver) -> None:
        receiver.consumed()
        receiver.consumed()
        receiver.end(LinkEnded("", "it was closed here"))
        await asyncio.sleep(1.0)

    assert given(2, 0.01, end_between) == [(0, 2), (0, 1)]
