"""An in-memory broker behind the console's link, and users with different roles."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest
from django.contrib.auth.models import Group, User
from rest_framework.test import APIClient

from brokers.admin import BrokerAdmin
from brokers.testing import InMemoryBroker
from console.links.registry import BrokerLink, Pace, close_links, link
from tests.console.standin import Connected

T = TypeVar("T")

#: Timeout of conditions that should be true at once, in seconds; long, since other work shares the machine.
LIMIT = 60.0

QUICK = Pace(retry_first=0.01, retry_most=0.05, requery=30, totals=0.05, hosts=0.2, conditions=0.02, answer=2)


class Broker:
    """An `InMemoryBroker` that the console's default link is connected to.

    The engine runs in the link's thread: tests access it through `do`.
    """

    def __init__(self) -> None:
        self.memory = InMemoryBroker()
        self.connections = 0
        self.wrap: Callable[[BrokerAdmin], BrokerAdmin] = lambda admin: admin

    async def connect(self) -> BrokerAdmin:
        admin = Connected(self.memory)  # refuses while the broker is disconnected
        self.connections += 1
        return self.wrap(admin)

    @property
    def link(self) -> BrokerLink:
        return link()

    def do(self, act: Callable[[InMemoryBroker], T]) -> T:
        async def acting() -> T:
            return act(self.memory)

        return asyncio.run_coroutine_threadsafe(acting(), self.link._loop).result(LIMIT)

    def sample(self) -> None:
        """Advance the broker's clock by a second and send its samples."""
        self.do(lambda memory: (memory.advance(1000), memory.sample()))

    def sample_until(self, condition: Callable[[], object]) -> None:
        """Advance the broker's clock as fast as the link receives samples, until the condition is true."""
        until(lambda: condition() or self.sample())

    def connected(self) -> BrokerLink:
        """Connect the link and return it."""
        until(lambda: self.link.connected)
        return self.link

    def lose(self) -> None:
        self.do(lambda memory: memory.disconnect())
        until(lambda: not self.link.connected)

    def come_back(self) -> None:
        self.do(lambda memory: memory.reconnect())
        until(lambda: self.link.connected)


def until(condition: Callable[[], object], limit: float = LIMIT) -> None:
    """Wait for a condition that another thread makes true. Fails after `limit` seconds."""
    end = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < end, "the condition did not come true in time"
        time.sleep(0.002)


async def until_async(condition: Callable[[], object], limit: float = LIMIT) -> None:
    """Like `until`, without blocking the event loop."""
    await asyncio.to_thread(until, condition, limit)


@pytest.fixture
def broker(settings: Any) -> Iterator[Broker]:
    close_links()
    made = Broker()
    settings.HEADGATE_BROKERS = [
        {"slug": "local", "title": "Local broker", "connect": made.connect, "options": {}, "pace": QUICK}
    ]
    yield made
    close_links()


@pytest.fixture
def viewer(db: None) -> User:
    user = User.objects.create_user("vera")
    user.groups.add(Group.objects.get(name="viewers"))
    return user


@pytest.fixture
def operator(db: None) -> User:
    user = User.objects.create_user("olga")
    user.groups.add(Group.objects.get(name="operators"))
    return user


@pytest.fixture
def administrator(db: None) -> User:
    user = User.objects.create_user("adele")
    user.groups.add(Group.objects.get(name="administrators"))
    return user


def signed_in(user: User) -> APIClient:
    client = APIClient()
    client.force_login(user)
    return client


@pytest.fixture
def as_viewer(viewer: User) -> APIClient:
    return signed_in(viewer)


@pytest.fixture
def as_operator(operator: User) -> APIClient:
    return signed_in(operator)


@pytest.fixture
def as_administrator(administrator: User) -> APIClient:
    return signed_in(administrator)
