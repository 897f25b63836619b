"""Brokers without sockets for looking at many: thousands of queues each, of which a share changes each second.

Options of `connect`: `name`, `queues`, `share` (of the queues, that changes each second), and `trouble`: "" (none),
"away" (refuses connections) or "hung" (answers nothing after its first minute).
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Mapping
from functools import cache
from itertools import cycle
from typing import Any

from brokers.admin import BrokerAdmin, BrokerUnreachable, Event, ManagedObject, NotFound, Page, Samples
from brokers.model import TYPES, ManagedType, ObjectName, object_name
from brokers.testing import InMemoryBroker

CAPACITY = 1000
AREAS = ("orders", "payments", "mail", "stock", "billing", "audit")


@cache
def _templates() -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the attributes of a queue and of a broker, as the engine has them."""
    memory = InMemoryBroker()
    limits = {"capacity_messages": CAPACITY, "capacity_bytes": 1000 * CAPACITY, "flow_resume_messages": 800}
    queue = memory.management.create(object_name("Queue", virtualhost="default", name="queue"), limits, "bench")
    return queue.attributes, memory.management.read(object_name("Broker")).attributes


class SimulatedBroker:
    """A `brokers.admin.BrokerAdmin` that is only read."""

    def __init__(self, name: str, queues: int, share: float, *, hangs: bool) -> None:
        self._dice = random.Random(name)
        self._hangs_after = time.monotonic() + 60 if hangs else float("inf")
        self._names = [
            object_name("Queue", virtualhost="blue" if n % 10 == 9 else "default", name=f"{AREAS[n % 6]}.{name}.{n:05}")
            for n in range(queues)
        ]
        self._busy = self._dice.sample(range(queues), max(1, round(queues * share)))
        self._at = {name: number for number, name in enumerate(self._names)}
        self._depths = [self._dice.randrange(CAPACITY // 2) for _ in self._names]
        self._counters = [0] * queues
        self._overfull: list[int | None] = [None] * queues
        self._steps = cycle([self._dice.randrange(-60, 64) for _ in range(9973)])
        self._newest = 0
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._phase = self._dice.random()

    async def types(self) -> Mapping[str, ManagedType]:
        return TYPES

    async def read(self, name: ObjectName) -> ManagedObject:
        await self._answers()
        if name == object_name("Broker"):
            totals = {"queues": len(self._names), "last_event": self._newest}
            return ManagedObject(name, 1, {**_templates()[1], **totals})
        if name not in self._at:
            raise NotFound(f"there is no {name}")
        return self._queue(self._at[name])

    async def query(self, type_name: str, **options: Any) -> Page:
        await self._answers()
        if type_name != "Queue":
            return Page((), 0, 0)
        offset, count = options.get("offset", 0), options.get("count", 100)
        found = tuple(map(self._queue, range(offset, min(offset + count, len(self._names)))))
        return Page(found, len(self._names), offset)

    async def events(self, after: int | None = None) -> AsyncIterator[Event]:
        while True:
            event = await self._events.get()
            await self._answers()
            yield event

    async def samples(self) -> AsyncIterator[Samples]:
        await asyncio.sleep(self._phase)  # brokers do not send their samples all at once
        while True:
            await asyncio.sleep(1)  # as a broker does
            await self._answers()
            yield self.sample(int(time.time() * 1000))

    def sample(self, at: int) -> Samples:
        """Return the values of the queues that change within a second."""
        self._busy[self._dice.randrange(len(self._busy))] = self._dice.randrange(len(self._names))
        found = []
        for number in set(self._busy):
            depth = self._depths[number]
            if number % 20 == 0:  # fills and drains; the depth of the others hardly changes
                depth = self._depths[number] = min(max(0, depth + next(self._steps)), 2 * CAPACITY)
            else:
                depth += next(self._steps) % 4
            self._counters[number] += 100
            if (depth > CAPACITY) != (self._overfull[number] is not None) and not 800 < depth <= CAPACITY:
                self._overfull[number] = at if depth > CAPACITY else None
                self._publish(at, number)
            found.append((self._names[number], self._sampled(number)))
        return Samples(at, tuple(found))

    async def close(self) -> None:
        return None

    async def _answers(self) -> None:
        if time.monotonic() > self._hangs_after:
            await asyncio.sleep(3600)  # it hangs

    def _publish(self, at: int, number: int) -> None:
        self._newest += 1
        name, overfull = self._names[number], self._overfull[number] is not None
        text = f"{name['name']} is {'overfull' if overfull else 'underfull'}"
        values = {"state": "OVERFULL" if overfull else "NORMAL"}
        self._events.put_nowait(
            Event(self._newest, at, f"queue-{'overfull' if overfull else 'underfull'}", name, text, values)
        )

    def _sampled(self, number: int) -> dict[str, Any]:
        depth, enqueued, overfull = self._depths[number], self._counters[number], self._overfull[number]
        return {
            "state": "NORMAL" if overfull is None else "OVERFULL",
            "depth_messages": depth,
            "depth_bytes": 500 * depth,
            "unacknowledged_messages": 3,
            "producers": 2,
            "blocked_producers": 0 if overfull is None else 2,
            "draining_producers": 0,
            "consumers": 1,
            "credit": 100,
            "rate_in": 100.0,
            "rate_out": 99.0,
            "enqueued_messages": depth + enqueued,
            "dequeued_messages": enqueued,
            "overfull_since": overfull,
            "stopped_since": None,
            "effective_capacity_bytes": 1000 * CAPACITY,
            "effective_stop_bytes": 1000 * CAPACITY,
            "effective_resume_bytes": 800_000,
            "effective_capacity_messages": CAPACITY,
            "effective_stop_messages": CAPACITY,
            "effective_resume_messages": 800,
            "version": 1,
        }

    def _queue(self, number: int) -> ManagedObject:
        name = self._names[number]
        return ManagedObject(name, 1, {**_templates()[0], **dict(name.keys), **self._sampled(number)})


_brokers: dict[str, SimulatedBroker] = {}


async def connect(*, name: str, queues: int, share: float, trouble: str = "") -> BrokerAdmin:
    if trouble == "away":
        raise BrokerUnreachable("connection refused")
    if name not in _brokers:
        _brokers[name] = SimulatedBroker(name, queues, share, hangs=trouble == "hung")
    return _brokers[name]  # type: ignore[return-value]  # it has only what the page of all brokers needs
