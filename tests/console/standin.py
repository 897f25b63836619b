"""An in-memory broker with generated traffic, for developing pages without a broker process.

    HEADGATE_BROKER_CONNECT=tests.console.standin.connect HEADGATE_STANDIN_QUEUES=40 uv run manage.py web

Never for production: nothing is stored, and every process has its own.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

from brokers.admin import BrokerAdmin, BrokerUnreachable, Event, Samples
from brokers.model import ObjectName, object_name
from brokers.testing import InMemoryBroker


class Connected:
    """One connection to an in-memory broker: closing it does not close the broker for others."""

    def __init__(self, broker: InMemoryBroker) -> None:
        if not broker.reachable:
            raise BrokerUnreachable("the broker cannot be reached")
        self._broker = broker
        self.types = broker.types
        self.read = broker.read
        self.query = broker.query
        self.create = broker.create
        self.update = broker.update
        self.delete = broker.delete
        self.call = broker.call

    def events(self, after: int | None = None) -> AsyncIterator[Event]:
        return self._broker.events(after)

    def samples(self) -> AsyncIterator[Samples]:
        return self._broker.samples()

    async def close(self) -> None:
        return None


_running: set[asyncio.Task[None]] = set()
_brokers: list[InMemoryBroker] = []


async def connect(**options: Any) -> BrokerAdmin:
    if not _brokers:
        _brokers.append(InMemoryBroker(now=_now()))
        task = asyncio.ensure_future(_traffic(_brokers[0]))
        task.add_done_callback(lambda ended: ended.cancelled() or ended.result())
        _running.add(task)
    return Connected(_brokers[0])


def _now() -> int:
    return int(time.time() * 1000)


async def _traffic(broker: InMemoryBroker) -> None:
    dice = random.Random(7)
    names = ["orders", "payments.eu", "payments.us", "audit-trail", "mail/out", "images,large"]
    names += [f"events.{n:04}" for n in range(int(os.environ.get("HEADGATE_STANDIN_QUEUES", "12")))]
    links = []
    for n, name in enumerate(names):
        producers = [broker.attach_producer(name, link=f"{name}-sender-{i}") for i in range(1 + n % 3)]
        consumer = broker.attach_consumer(name)
        queue = object_name("Queue", virtualhost="default", name=name)
        await _limit(broker, queue, {"capacity_messages": 200 + 50 * (n % 5), "flow_resume_messages": "80%"})
        links.append((producers, consumer, dice.uniform(5, 60), dice.uniform(5, 60)))
    at = time.monotonic()
    for tick in range(1 << 62):
        await asyncio.sleep(0.05)
        for producers, consumer, into, out in links[: 6 + tick % 40]:
            swing = 1.0 if (tick // 400) % 2 else 0.6
            for producer in producers:
                broker.publish(producer, int(into / 20 / len(producers) + dice.random()), dice.randrange(50, 2000))
            broker.consume(consumer, int(out * swing / 20 + dice.random()))
        passed = time.monotonic() - at
        at += passed
        broker.advance(max(1, int(passed * 1000)))
        if tick % 20 == 0:
            broker.sample()


async def _limit(broker: InMemoryBroker, name: ObjectName, attributes: Mapping[str, Any]) -> None:
    await broker.update(name, attributes, (await broker.read(name)).version)
