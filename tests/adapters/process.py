"""The process of the adapters with the broker in memory, on a clock of its own."""

from __future__ import annotations

import asyncio
from pathlib import Path

from brokers.adapters.adapted_broker import AdaptedBroker
from brokers.adapters.file_records import FileRecords
from brokers.adapters.observed import Observed
from brokers.adapters.poller import Poller
from brokers.admin import Event
from tests.adapters.fake import Memory, MemoryAdapter


class Clock:
    """Seconds that pass only in `pass_`; sleepers wake in the order of their times."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._sleepers: list[tuple[float, asyncio.Event]] = []

    async def sleep(self, seconds: float) -> None:
        woken = asyncio.Event()
        self._sleepers.append((self.seconds + max(0.0, seconds), woken))
        await woken.wait()

    async def pass_(self, seconds: float) -> None:
        end = self.seconds + seconds
        while True:
            await settled()
            due = sorted((each for each in self._sleepers if each[0] <= end), key=lambda each: each[0])
            if not due:
                break
            self._sleepers.remove(due[0])
            self.seconds = max(self.seconds, due[0][0])
            due[0][1].set()
        self.seconds = end
        await settled()


async def settled() -> None:
    """Let everything run that is ready."""
    for _ in range(50):
        await asyncio.sleep(0)


class Process:
    """The process of the adapters, with one broker; it can be killed and started again on the same files."""

    def __init__(self, folder: Path, memory: Memory, **options: object) -> None:
        self.folder = folder
        self.memory = memory
        self.clock = Clock()
        self.options = options
        self.ahead = 0  # how far the machine's clock was set, ms
        self.open()

    def now(self) -> int:
        return 1_000_000_000 + self.ahead + round(self.clock.seconds * 1000)

    def set_clock(self, step: int) -> None:
        """Set the machine's clock by some ms."""
        self.ahead += step
        self.observed.clock_set(step)

    def adapted(self) -> MemoryAdapter:
        return MemoryAdapter(self.memory, self.now, **self.options)  # type: ignore[arg-type]

    def open(self) -> None:
        self.adapter = self.adapted()
        self.journal = FileRecords(self.folder)
        self.observed = Observed(self.adapter, self.journal, self.now)
        self.broker = AdaptedBroker(self.observed, self.adapter)
        self.poller = Poller(self.adapter, self.observed, clock=lambda: self.clock.seconds, sleep=self.clock.sleep)
        self.running = asyncio.ensure_future(self.poller.run())

    async def close(self) -> None:
        self.running.cancel()
        await asyncio.wait([self.running])
        self.journal.close()

    async def restart(self) -> None:
        await self.close()
        self.open()
        await self.clock.pass_(0)

    def events(self) -> list[Event]:
        return self.journal.read(0, 1000)

    def kinds(self) -> list[str]:
        return [f"{event.kind} {event.object.get('name')}".strip() for event in self.events()]
