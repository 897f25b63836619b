"""A real broker behind the service of the adapters, and a client of the service: as a console reaches the broker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from brokers.adapters.adapter import Adapter
from brokers.adapters.service import AdaptersService
from brokers.admin import BrokerUnreachable, Event, ManagedObject
from brokers.drivers.bundled import BundledBroker
from tests.adapters.fake import BROKER, queue_name

LIMIT = 120.0  # s, also on a slow machine

#: Takes the clock of the service (ms since the epoch).
Open = Callable[[Callable[[], int]], Adapter]


class Hosted:
    """The broker `peer`, and others that are added. `open_`: its adapter. `virtualhost`: of its queues."""

    broker: BundledBroker

    def __init__(self, folder: Path, open_: Open, virtualhost: str = "default") -> None:
        self._folder = folder
        self._open = open_
        self._virtualhost = virtualhost

    async def start(self) -> None:
        """Start the service, and connect as soon as the broker is reachable."""
        self.service = AdaptersService(self._folder)
        await self.service.start()
        self.add("peer", self._open)
        await self.connect()

    async def stop(self) -> None:
        await self.broker.close()
        await self.service.stop()

    def add(self, name: str, open_: Open) -> None:
        """Serve another broker."""
        self.service.add(name, open_(self.service.time_of_day))

    async def connect(self) -> None:
        """Connect to the broker, as soon as it is reachable, in place of an earlier connection."""

        async def connected() -> bool:
            try:
                self.broker = await self.client("peer")
            except BrokerUnreachable:
                return False
            return True

        await until(connected)

    async def client(self, name: str) -> BundledBroker:
        """Connect to a broker. Raises BrokerUnreachable."""
        password = self.service.secret.read_text().strip()
        return await BundledBroker.connect(
            "127.0.0.1", self.service.port, "console", password, timeout=LIMIT, name=name
        )

    async def is_reachable(self, name: str = "peer") -> bool:
        try:
            client = await self.client(name)
        except BrokerUnreachable:
            return False
        await client.close()
        return True

    async def is_unreachable(self, name: str = "peer") -> bool:
        return not await self.is_reachable(name)

    # -- reading --------------------------------------------------------------------------------------------------

    async def queue(self, name: str) -> ManagedObject:
        return await self.broker.read(queue_name(name, self._virtualhost))

    async def lists(self, name: str) -> bool:
        """Return whether there is a queue of this name."""
        return bool((await self.broker.query("Queue", where={"name": name})).items)

    async def shows(self, name: str, *states: str) -> bool:
        """Return whether a queue is in one of the states; not while the broker cannot be reached."""
        try:
            return (await self.queue(name))["state"] in states
        except BrokerUnreachable:
            return False

    async def events(self) -> list[Event]:
        """Return all events up to now."""
        last = (await self.broker.read(BROKER))["last_event"]
        stream = self.broker.events(0)
        return [await anext(stream) for _ in range(last)]


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait until the condition, which reads from another process, is true."""
    async with asyncio.timeout(LIMIT):
        while not await condition():  # noqa: ASYNC110
            await asyncio.sleep(0.1)
