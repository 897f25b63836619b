"""A broker behind an adapter under test, and the helpers of the contract's tests."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, TypeVar

from brokers.admin import BrokerAdmin, BrokerUnreachable, Event
from brokers.model import ManagedType, ObjectName, Operation
from tests.adapters.fake import BROKER
from tests.adapters.hosted import LIMIT

T = TypeVar("T")


class Subject(ABC):
    """A broker with two empty queues that have no stop. `admin`: it through its adapter. `queues`: their names.
    `reports`: kinds of events that the broker itself reports, so that they are not observed by polls."""

    admin: BrokerAdmin
    queues: tuple[ObjectName, ObjectName]
    reports: frozenset[str] = frozenset()

    @abstractmethod
    async def pass_time(self) -> None:
        """Let a moment pass, in which polls that are due are made."""

    @abstractmethod
    async def limits(self) -> Any:
        """Return all limits of the two queues and of the broker, or the policies that they follow from, as the broker
        itself has them: read past the adapter."""

    @abstractmethod
    async def declare(self, name: str) -> ObjectName:
        """Create a queue past the adapter."""

    @abstractmethod
    async def remove(self, name: ObjectName) -> None:
        """Delete a queue past the adapter."""

    @abstractmethod
    async def lose(self) -> None:
        """Let the broker answer nothing."""

    @abstractmethod
    async def recover(self) -> None:
        """Let it answer again."""

    @abstractmethod
    async def restart(self) -> None:
        """Restart the process of the adapters, on the same files, and connect again."""

    async def types(self) -> Mapping[str, ManagedType]:
        return await self.admin.types()

    async def scopes(self) -> dict[str, ObjectName]:
        """Return an object of each type whose producers can be stopped, from the narrowest; each covers the next."""
        types = await self.types()
        host = ObjectName("VirtualHost", (("name", self.queues[0]["virtualhost"]),))
        objects = {"Queue": self.queues[0], "VirtualHost": host, "Broker": BROKER}
        return {n: o for n, o in objects.items() if n in types and types[n].operation("stop-producers") is not None}

    async def arguments(self, scope: ObjectName, **more: Any) -> dict[str, Any]:
        """Return the arguments of a stop, which names its effect if it is not to hold producers."""
        effect = (await self.stop_operation(scope)).producer_effect
        return {"actor": "ada", "reason": "flood", **({} if effect == "hold" else {"effect": effect}), **more}

    async def stop_operation(self, scope: ObjectName) -> Operation:
        operation = (await self.types())[scope.type].operation("stop-producers")
        assert operation is not None
        return operation

    async def is_stopped(self, queue: ObjectName) -> bool:
        return str((await self.admin.read(queue))["state"]).endswith("STOPPED")

    async def last_event(self) -> int:
        return int((await self.admin.read(BROKER))["last_event"])

    async def events(self, after: int = 0) -> list[Event]:
        """Return the events after a number up to now."""
        last, stream = await self.last_event(), self.admin.events(after)
        return [await soon(anext(stream)) for _ in range(last - after)]

    async def events_of(self, kind: str, name: ObjectName, after: int) -> list[Event]:
        return [event for event in await self.events(after) if (event.kind, event.object) == (kind, name)]

    async def until(self, condition: Callable[[], Awaitable[bool]]) -> None:
        async with asyncio.timeout(LIMIT):
            while not await condition():
                await self.pass_time()

    async def is_reachable(self) -> bool:
        try:
            await self.admin.read(BROKER)
        except BrokerUnreachable:
            return False
        return True

    async def is_unreachable(self) -> bool:
        return not await self.is_reachable()

    async def lists(self, queue: ObjectName) -> bool:
        return bool((await self.admin.query("Queue", where={"name": queue["name"]})).total)


async def soon(awaitable: Awaitable[T]) -> T:
    async with asyncio.timeout(LIMIT):
        return await awaitable


async def following(subject: Subject, stream: AsyncIterator[T]) -> asyncio.Task[T]:
    """Wait for the stream's next item, in a task; the broker has the subscription when this returns."""
    task = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    await subject.admin.read(BROKER)
    return task
