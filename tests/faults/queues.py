"""Durable queues of a broker under test: created through management, and browsed without removing messages."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

from proton.reactor import Container

from brokers.drivers.bundled import BundledBroker
from brokers.model import ObjectName, object_name
from tests.faults.nursery import Nursery
from tests.faults.traffic import Look


def _queue(name: str) -> ObjectName:
    return object_name("Queue", virtualhost="default", name=name)


async def _create_queue(data: Path, port: int, name: str, capacity: int) -> None:
    secret = (data / "console.secret").read_text().strip()
    broker = await BundledBroker.connect("127.0.0.1", port, "console", secret, timeout=20)
    await broker.create(_queue(name), {"durable": True, "capacity_messages": capacity})
    await broker.close()


async def _depth(data: Path, port: int, name: str) -> int:
    secret = (data / "console.secret").read_text().strip()
    broker = await BundledBroker.connect("127.0.0.1", port, "console", secret, timeout=20)
    depth = (await broker.read(_queue(name))).attributes["depth_messages"]
    await broker.close()
    assert isinstance(depth, int)
    return depth


def browse(data: Path, port: int, queue: str = "q", *, take: bool = False) -> list[tuple[int, int]]:
    """Return the messages of the queue. `take`: consume them, which empties the queue."""
    depth = asyncio.run(_depth(data, port, queue))
    look = Look(port, depth, queue, take=take)
    if depth:
        Container(look).run()
    assert len(look.found) == depth
    return look.found


def set_up(brokers: Nursery, data: Path, *queues: str, capacity: int = 400) -> None:
    """Durable queues (with no name: `q`) in a data folder that no broker has used yet."""
    pid, port = brokers.start()
    for queue in queues or ("q",):
        asyncio.run(_create_queue(data, port, queue, capacity))
    os.kill(pid, signal.SIGKILL)
