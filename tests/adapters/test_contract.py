"""The contract of brokers behind adapters, with the broker in memory and several sets of what a broker can have."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from brokers.admin import BrokerAdmin
from brokers.model import ObjectName
from tests.adapters.contract import AdapterContract, Subject
from tests.adapters.fake import Has, Memory, queue_name
from tests.adapters.process import Process

SETS = {
    "everything": Has(),
    "rejects": Has(effect="reject", creates=False),
    "trickles": Has(effect="trickle", scopes=("Queue",), creates=False),
    "read-only": Has(scopes=(), changes=False, levels=False, creates=False),
    "read in pages": Has(paged=True),
}


class InMemory(Subject):
    def __init__(self, process: Process) -> None:
        self.process = process
        self.queues = (queue_name("orders"), queue_name("bills"))

    @property
    def admin(self) -> BrokerAdmin:  # type: ignore[override]
        return self.process.broker

    async def pass_time(self) -> None:
        await self.process.clock.pass_(5)

    async def limits(self) -> Any:
        return {name: self.process.memory.limits[name] for name in self.queues}

    async def declare(self, name: str) -> ObjectName:
        return self.process.memory.add(name)

    async def remove(self, name: ObjectName) -> None:
        del self.process.memory.limits[name]

    async def lose(self) -> None:
        self.process.memory.up = False

    async def recover(self) -> None:
        self.process.memory.up = True

    async def restart(self) -> None:
        await self.process.restart()


@pytest.mark.parametrize("has", SETS.values(), ids=SETS)
class TestInMemory(AdapterContract):
    @pytest_asyncio.fixture
    async def subject(self, tmp_path: Path, has: Has) -> AsyncIterator[InMemory]:
        memory = Memory()
        memory.add("orders", 10)
        memory.add("bills", 5)
        process = Process(tmp_path, memory, has=has)
        await process.clock.pass_(0)
        yield InMemory(process)
        await process.close()
