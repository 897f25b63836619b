"""The adapter of `RemoteBroker`: that of the broker in memory, which is read and changed over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from brokers.adapters.adapter import Faults, Finding, Objects, StopTarget
from brokers.adapters.http import JsonHttp
from brokers.adapters.kinds import Account
from brokers.adapters.observation import Attributes, Observation
from brokers.model import ObjectName
from tests.adapters.fake import STOPPED, Memory, MemoryAdapter, queue_name


class RemoteAdapter(MemoryAdapter):
    def __init__(self, http: JsonHttp, now: Callable[[], int]) -> None:
        super().__init__(Memory(), now)
        self.http = http

    async def _load(self) -> None:
        found: dict[str, list[int]] = await self.http.request("GET", "/queues")
        self.memory.limits = {queue_name(name): limit for name, (limit, _) in found.items()}
        self.memory.depths = {queue_name(name): depth for name, (_, depth) in found.items()}

    async def connect(self) -> Sequence[Finding]:
        await self._load()
        return [Finding("connected")]

    async def read_changing(self) -> Observation:
        await self._load()
        return Observation(self.now(), {queue: self.attributes(queue) for queue in self.memory.limits})

    async def read_all(self) -> AsyncIterator[Observation]:
        await self._load()
        async for seen in super().read_all():
            yield seen

    async def read(self, name: ObjectName) -> Observation:
        await self._load()
        return await super().read(name)

    async def update(self, name: ObjectName, attributes: Attributes, objects: Objects) -> None:
        await self._set(name, attributes["capacity_messages"])

    async def stop(self, targets: Sequence[StopTarget], *, in_round: bool = False) -> Faults:
        for target in targets:
            await self._set(next(iter(target.queues)), STOPPED)
        return {}

    async def start(self, targets: Sequence[StopTarget], *, in_round: bool = False) -> Faults:
        await self._load()
        for target in targets:
            queue = next(iter(target.queues))
            if self.memory.limits.get(queue) == STOPPED:
                await self._set(queue, target.restore["limit"])
        return {}

    async def _set(self, queue: ObjectName, limit: int) -> None:
        await self.http.request("PUT", f"/queues/{queue['name']}", body=limit)

    async def close(self) -> None:
        await self.http.close()


def open_account(account: Account, now: Callable[[], int]) -> Any:
    return RemoteAdapter(JsonHttp.of(account, account.url), now)
