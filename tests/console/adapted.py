"""Brokers of other kinds behind the console's links: the core of the adapters over a broker in memory.

What the console says of a stop is compared with the limits that the broker in memory has.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from brokers.adapters.adapted_broker import AdaptedBroker
from brokers.adapters.adapter import Faults, Objects, StopTarget
from brokers.adapters.file_records import FileRecords
from brokers.adapters.observed import Observed
from brokers.adapters.pace import Pace
from brokers.adapters.poller import Poller
from brokers.admin import BrokerAdmin, BrokerUnreachable, Event, InvalidValue, NotAllowed, Samples
from brokers.engine.values.stops import Scope
from brokers.model import ObjectName
from console.links.registry import link
from tests.adapters.fake import STOPPED, Has, Memory, MemoryAdapter
from tests.console.conftest import LIMIT, QUICK

T = TypeVar("T")


class Adapter(MemoryAdapter):
    """`unstoppable`: names of queues that cannot be stopped, such as streams. `denied`: the account lacks the
    permission to change anything."""

    unstoppable: frozenset[str] = frozenset()
    denied = False

    def stop_targets(self, scopes: Sequence[Scope], objects: Objects) -> Mapping[Scope, Sequence[StopTarget]]:
        found = super().stop_targets(scopes, objects)
        for scope in scopes:
            if scope.queue in self.unstoppable:
                raise InvalidValue({"": f"queue {scope.queue} cannot be stopped: it is a stream"})
        return {scope: [t for t in targets if not self._has_unstoppable(t)] for scope, targets in found.items()}

    def _has_unstoppable(self, target: StopTarget) -> bool:
        return any(queue["name"] in self.unstoppable for queue in target.queues)

    async def stop(self, targets: Sequence[StopTarget], *, in_round: bool = False) -> Faults:
        if self.denied:
            raise NotAllowed("user headgate needs the tag policymaker")
        return await super().stop(targets, in_round=in_round)


class Adapted:
    """A broker of another kind. `hung`: requests for changes are not answered, though they may be carried out
    (`carries_out`)."""

    def __init__(self, slug: str, folder: Path, *, effect: str = "reject", title: str = "") -> None:
        self.slug = slug
        self.folder = folder / slug
        self.folder.mkdir(parents=True)
        self.memory = Memory()
        self.adapter = Adapter(self.memory, lambda: int(time.time() * 1000), has=Has(effect=effect))
        self.hung = False
        self.carries_out = False
        self.lost = False
        self.entry = {
            "slug": slug,
            "title": title or slug.title(),
            "connect": self.connect,
            "options": {},
            "pace": QUICK,
        }
        self._observed: Observed | None = None
        self._polling: asyncio.Task[None] | None = None

    async def connect(self) -> BrokerAdmin:
        if self.lost:
            raise BrokerUnreachable("no route to the host")
        if self._observed is None:
            self._records = FileRecords(self.folder)
            self._observed = Observed(self.adapter, self._records, self.adapter.now)
            poller = Poller(self.adapter, self._observed, clock=time.monotonic)
            poller.all = Pace(0.2, 0.5)
            self._polling = asyncio.create_task(poller.run())
        self._observed.check_reachable()  # until it has been read, the link tries again
        return Served(AdaptedBroker(self._observed, self.adapter), self)

    def do(self, act: Callable[[], T]) -> T:
        """Act in the links' thread."""

        async def acting() -> T:
            return act()

        return asyncio.run_coroutine_threadsafe(acting(), link(self.slug)._loop).result(LIMIT)

    def lose(self) -> None:
        """Lose the connection, until `lost` is false again."""

        def losing() -> None:
            self.lost = True
            if self._observed is not None:
                self._observed.unreachable("the connection was lost")

        self.do(losing)

    def come_back(self) -> None:
        self.do(lambda: setattr(self, "lost", False))

    def close(self) -> None:
        async def closing() -> None:
            if self._polling is not None:
                self._polling.cancel()
                await asyncio.wait([self._polling])
                self._records.close()

        asyncio.run_coroutine_threadsafe(closing(), link(self.slug)._loop).result(LIMIT)

    def stops(self) -> list[Scope]:
        """The stops on record. In the links' thread."""
        return [] if self._observed is None else list(self._observed.stops.stops)

    def limits(self) -> dict[str, int]:
        return {queue["name"]: limit for queue, limit in self.memory.limits.items()}

    def stopped(self) -> set[str]:
        """Names of the queues that the broker itself has stopped."""
        return {name for name, limit in self.limits().items() if limit == STOPPED}


class Served:
    """One connection to the broker."""

    def __init__(self, broker: AdaptedBroker, of: Adapted) -> None:
        self._broker = broker
        self._of = of
        self.types = broker.types
        self.read = broker.read
        self.query = broker.query
        self.create = broker.create
        self.update = broker.update
        self.delete = broker.delete

    async def call(self, name: ObjectName, operation: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        if self._of.hung and operation != "preview-stop":
            if self._of.carries_out:
                await self._broker.call(name, operation, arguments)
            await asyncio.Event().wait()
        return await self._broker.call(name, operation, arguments)

    def events(self, after: int | None = None) -> AsyncIterator[Event]:
        return self._broker.events(after)

    def samples(self) -> AsyncIterator[Samples]:
        return self._broker.samples()

    async def close(self) -> None:
        return None
