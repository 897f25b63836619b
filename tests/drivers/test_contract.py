"""The contract of the admin interface, tested with each of its implementations."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from proton import Message

from brokers.drivers.amqp_client import AmqpClient
from brokers.drivers.amqp_links import Sender
from brokers.drivers.bundled import BundledBroker
from brokers.testing import InMemoryBroker
from tests.drivers.contract import BROKER, LIMIT, Contract, Subject, queue


class InMemory(Subject):
    """The engine without sockets."""

    KEEP = 2000

    def __init__(self) -> None:
        self.broker = InMemoryBroker(keep=self.KEEP)
        self.admin = self.broker

    async def publish(self, name: str, count: int, size: int = 100) -> int:
        producer = self.broker.attach_producer(name)
        return self.broker.publish(producer, count, size)

    async def consume(self, name: str, count: int) -> int:
        return self.broker.consume(self.broker.attach_consumer(name), count)

    async def pass_time(self) -> None:
        self.broker.advance(100)

    async def sample(self) -> None:
        self.broker.advance(1000)
        self.broker.sample()

    async def expire_events(self) -> None:
        for n in range(self.KEEP):
            await self.admin.call(BROKER, "start-producers" if n % 2 else "stop-producers", {})

    async def lose_connection(self) -> None:
        self.broker.disconnect()


class TestInMemoryBroker(Contract):
    @pytest.fixture
    def subject(self) -> InMemory:
        return InMemory()


class Bundled(Subject):
    """A broker of our own in the test's loop, over a real socket, with clients of its own."""

    def __init__(self, service: Any, admin: BundledBroker) -> None:
        self.service = service
        self.broker = admin
        self.admin = admin
        self._clients: list[AmqpClient] = []

    @classmethod
    async def start(cls, data: Path) -> Bundled:
        from brokers.server.service import Service

        service = Service(data, port=0, demo=True)
        await service.start()
        secret = (data / "console.secret").read_text().strip()
        return cls(service, await BundledBroker.connect("127.0.0.1", service.port, "console", secret, timeout=LIMIT))

    async def end(self) -> None:
        await self.broker.close()
        await asyncio.gather(*(client.close() for client in self._clients))
        await self.service.stop()

    async def _client(self) -> AmqpClient:
        secret = (self.service.data / "console.secret").read_text().strip()
        client = await AmqpClient.connect("127.0.0.1", self.service.port, "console", secret, idle_timeout=LIMIT)
        self._clients.append(client)
        return client

    async def publish(self, name: str, count: int, size: int = 100) -> int:
        client = await self._client()
        sender = client.sender(name, refused=lambda _tag, reason: pytest.fail(str(reason)))
        message = Message(body=b"x" * size).encode()
        for n in range(count):
            sender.send(str(n), message)
        sent = await self._sent(sender, count)
        for n in range(count):
            sender.forget(str(n))  # messages that flow control blocked are not sent later
        return sent

    async def _sent(self, sender: Sender, count: int) -> int:
        """Wait until all is sent, or nothing more goes out while the broker says that the queue holds its producers."""
        async with asyncio.timeout(LIMIT):
            while sender._waiting:
                before = len(sender._waiting)
                for _ in range(10):
                    await self.pass_time()
                blocked = (await self.admin.query("Producer", where={"link": sender.name, "state": "BLOCKED"})).total
                if blocked and len(sender._waiting) == before:
                    break
            sent = count - len(sender._waiting)
            # What was sent has been enqueued when the broker has settled it.
            while sender.link.unsettled:
                await self.pass_time()
        return sent

    async def consume(self, name: str, count: int) -> int:
        client = await self._client()
        count = min(count, (await self.admin.read(queue(name)))["depth_messages"])
        taken: list[bytes] = []
        client.receiver(name, window=count, deliver=taken.append)
        async with asyncio.timeout(LIMIT):
            while len(taken) < count:
                await self.pass_time()
        await client.close()
        return len(taken)

    async def pass_time(self) -> None:
        await asyncio.sleep(0.01)

    async def sample(self) -> None:
        """It does so automatically, once a second."""

    async def expire_events(self) -> None:
        self.service.journal.prune(self.service.clock.now() + 100 * 24 * 3_600_000)

    async def lose_connection(self) -> None:
        for listener in list(self.service._listeners):
            listener.transport.abort()


@pytest.mark.skipif(find_spec("brokers.server.service") is None, reason="the broker's server is not there yet")
class TestBundledBroker(Contract):
    @pytest.fixture
    async def subject(self, tmp_path: Path) -> AsyncIterator[Bundled]:
        subject = await Bundled.start(tmp_path / "data")
        yield subject
        await subject.end()
