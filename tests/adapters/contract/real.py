"""A real broker under the contract: behind the service of the adapters, which reaches it through a proxy that can
stall."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from brokers.adapters.adapter import Adapter
from brokers.admin import BrokerAdmin
from brokers.model import ObjectName
from tests.adapters.contract.subject import Subject
from tests.adapters.fake import queue_name
from tests.adapters.hosted import Hosted, until
from tests.adapters.stalling import Stalling, stalling

#: The time after which a broker that does not answer is unreachable, s.
ANSWERS = 5.0

#: Takes a port of the broker's management, and the clock of the service (ms since the epoch).
Open = Callable[[int, Callable[[], int]], Adapter]


class Real(Subject):
    """What each kind has to add: `limits`, `declare` and `remove`, by the broker's own management."""

    VIRTUALHOST = "default"

    def __init__(self, folder: Path, proxy: Stalling, open_: Open) -> None:
        self.proxy = proxy
        self.hosted = Hosted(folder, lambda now: open_(proxy.port, now), self.VIRTUALHOST)
        self.queues = (self.named("contract-orders"), self.named("contract-bills"))

    def named(self, name: str) -> ObjectName:
        return queue_name(name, self.VIRTUALHOST)

    @property
    def admin(self) -> BrokerAdmin:  # type: ignore[override]
        return self.hosted.broker

    async def pass_time(self) -> None:
        await asyncio.sleep(0.1)

    async def lose(self) -> None:
        self.proxy.stall.set()

    async def recover(self) -> None:
        self.proxy.stall.clear()

    async def restart(self) -> None:
        await self.hosted.stop()
        await self.hosted.start()

    async def close(self) -> None:
        """Close the clients of the broker's own management."""


T = TypeVar("T", bound=Real)


@asynccontextmanager
async def contracted(create: Callable[[Stalling], T], port: int) -> AsyncIterator[T]:
    """Run the subject that `create` returns for a proxy. `port`: of the broker's management."""
    with stalling(port) as proxy:
        subject = create(proxy)
        for queue in subject.queues:
            await subject.declare(queue["name"])
        await subject.hosted.start()
        for queue in subject.queues:
            await until(lambda name=queue["name"]: subject.hosted.lists(name))  # type: ignore[misc]
        try:
            yield subject
        finally:
            await subject.recover()
            for scope in (await subject.scopes()).values():  # what a test that failed has left
                await subject.admin.call(scope, "start-producers", {})
            await subject.hosted.stop()
            for queue in subject.queues:
                await subject.remove(queue)
            await subject.close()
