"""What happens while the process of the adapters restarts is found by the next one, also if there was nothing of its
kind to remember, and is found once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from brokers.adapters.rabbitmq_clients import CLIENTS_RETRY_MS
from brokers.admin import BrokerUnreachable
from tests.adapters.test_rabbitmq_clients import World
from tests.adapters.test_rabbitmq_reading import answer


class Restarting(World):
    """A RabbitMQ, and the process that reads it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.folder = folder

    async def restart(self) -> None:
        self.records.close()
        http, now = self.http, self.now
        super().__init__(self.folder)
        self.http.lists, self.http.fault, self.http.more = http.lists, http.fault, http.more
        self.now = now
        await self.round()


@pytest_asyncio.fixture
async def world(tmp_path: Path) -> AsyncIterator[Restarting]:
    world = Restarting(tmp_path)
    await world.round()
    yield world
    world.records.close()


async def test_a_block_that_begins_meanwhile_is_found_and_ends(world: Restarting) -> None:
    world.set_state("blocked")
    await world.restart()
    assert world.kinds() == ["producer-blocked"]
    await world.restart()
    world.set_state("running")
    await world.round()
    assert world.kinds() == ["producer-blocked", "producer-released"]


async def test_a_first_policy_that_is_made_meanwhile_is_found(world: Restarting) -> None:
    world.http.more["policies"] = []
    await world.round()
    await world.round()  # paged: gone when two rounds have missed it
    before = world.kinds()
    world.http.more["policies"] = answer("policies")
    await world.restart()
    assert world.kinds() == [*before, "policy-changed"]


async def test_an_alarm_is_found_once_and_its_end_meanwhile(world: Restarting) -> None:
    world.http.more["health"] = answer("alarms-memory")
    await world.round()
    await world.restart()
    assert limits(world) == ["limit-exceeded"]
    world.http.more["health"] = {}
    await world.restart()
    assert limits(world) == ["limit-exceeded", "limit-cleared"]


def limits(world: World) -> list[str]:
    return [kind for kind in world.kinds() if kind.startswith("limit-")]


async def test_clients_that_no_round_has_listed_are_there_already(tmp_path: Path) -> None:
    world = Restarting(tmp_path)
    world.http.fault = BrokerUnreachable("never listed")
    world.set_state("blocked")
    await world.round()
    await world.restart()
    world.http.fault = None
    await world.round(CLIENTS_RETRY_MS)
    assert world.kinds() == []
    world.records.close()
