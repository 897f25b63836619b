"""A broker under test, and the helpers of the contract's tests."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

from brokers.admin import (
    BrokerAdmin,
    Event,
    ManagedObject,
)
from brokers.model import ObjectName, object_name

T = TypeVar("T")

#: Seconds to wait for an expected result.
LIMIT = 15.0

BROKER = object_name("Broker")
HOST = object_name("VirtualHost", name="default")


def queue(name: str) -> ObjectName:
    return object_name("Queue", virtualhost="default", name=name)


def policy(pattern: str) -> ObjectName:
    return object_name("Policy", virtualhost="default", pattern=pattern)


def exchange(name: str) -> ObjectName:
    return object_name("Exchange", virtualhost="default", name=name)


def user(name: str) -> ObjectName:
    return object_name("User", name=name)


class Subject(ABC):
    """A broker under test."""

    admin: BrokerAdmin

    @abstractmethod
    async def publish(self, name: str, count: int, size: int = 100) -> int:
        """Have a new client publish up to `count` messages of `size` bytes, while flow control allows; what
        it blocks is discarded. The client stays attached. Returns how many were accepted."""

    @abstractmethod
    async def consume(self, name: str, count: int) -> int:
        """Have a client receive and acknowledge up to `count` messages; returns how many there were."""

    @abstractmethod
    async def pass_time(self) -> None:
        """Let a moment pass (tens of ms), in which the broker's timers run."""

    @abstractmethod
    async def sample(self) -> None:
        """Send the due samples."""

    @abstractmethod
    async def expire_events(self) -> None:
        """Make the broker drop its oldest events, including the first."""

    @abstractmethod
    async def lose_connection(self) -> None:
        """Break the admin's connection."""


async def soon(awaitable: Awaitable[T]) -> T:
    async with asyncio.timeout(LIMIT):
        return await awaitable


async def following(subject: Subject, stream: AsyncIterator[T]) -> asyncio.Task[T]:
    """Wait for the stream's next item, in a task; the broker has the subscription when this returns."""
    task = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    await subject.admin.read(BROKER)
    return task


async def take(stream: AsyncIterator[T], count: int) -> list[T]:
    return [await soon(anext(stream)) for _ in range(count)]


async def eventually(subject: Subject, name: ObjectName, condition: Callable[[ManagedObject], object]) -> ManagedObject:
    async with asyncio.timeout(LIMIT):
        while not condition(found := await subject.admin.read(name)):
            await subject.pass_time()
    return found


async def last_event(subject: Subject) -> int:
    return int((await subject.admin.read(BROKER))["last_event"])


async def events_about(subject: Subject, name: ObjectName, after: int, count: int) -> list[Event]:
    found: list[Event] = []
    stream = subject.admin.events(after)
    while len(found) < count:
        event = await soon(anext(stream))
        if event.object == name:
            found.append(event)
    return found
