"""kill -9 in the middle of moves: each durable message is in exactly one of the two queues after each start."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from proton import Message
from proton.utils import BlockingConnection

from brokers.admin import BrokerUnreachable
from brokers.drivers.bundled import BundledBroker
from brokers.model import object_name
from tests.amqp.broker_thread import wait_until
from tests.faults.nursery import nursery
from tests.faults.queues import set_up

MESSAGES, KILLS, AT_A_TIME = 1500, 12, 40
QUEUES = {name: object_name("Queue", virtualhost="default", name=name) for name in ("here", "there")}


async def connected(data: Path, port: int) -> BundledBroker:
    secret = (data / "console.secret").read_text().strip()
    return await BundledBroker.connect("127.0.0.1", port, "console", secret, timeout=20)


def publish(port: int) -> None:
    connection = BlockingConnection(f"127.0.0.1:{port}", timeout=30, allowed_mechs="ANONYMOUS")
    sender = connection.create_sender("here")
    sent = []
    for number in range(MESSAGES):
        wait_until(lambda: sender.link.credit > 0 or not connection.container.process(), "there is credit")
        sent.append(sender.link.send(Message(subject=str(number), body="x" * 300, durable=True)))
    wait_until(lambda: connection.container.process() and all(each.settled for each in sent), "all are accepted")
    connection.close()


async def contents(broker: BundledBroker, queue: str) -> list[str]:
    found: list[str] = []
    given: dict[str, Any] = {"count": 200}
    while True:
        answer = await broker.call(QUEUES[queue], "list-messages", given)
        found += [message["properties"]["subject"] for message in answer["messages"]]
        if answer["next"] is None:
            return found
        given["after"] = answer["next"]


async def move_until_killed(
    broker: BundledBroker, source: str, target: str, *, pid: int, calls: int, wait: float
) -> None:
    """Kill the broker `wait` seconds after the request of the last of `calls` was sent."""
    given: dict[str, Any] = {"to": target, "match": {}, "count": AT_A_TIME, "reason": "test"}
    for _ in range(calls - 1):
        answer = await broker.call(QUEUES[source], "move-messages", given)
        given |= {"after": answer["next"], "until": answer["until"]}
        if answer["next"] is None:
            break
    last = asyncio.ensure_future(broker.call(QUEUES[source], "move-messages", given))
    await asyncio.wait([last], timeout=wait)
    os.kill(pid, signal.SIGKILL)
    await asyncio.gather(last, return_exceptions=True)


@pytest.mark.domain("9 kills")
@pytest.mark.timeout(300)
def test_each_moved_message_is_in_exactly_one_queue_after_a_kill(tmp_path: Path) -> None:
    random_ = random.Random(os.getpid())
    every = Counter(str(number) for number in range(MESSAGES))
    split = 0

    async def look(port: int) -> tuple[list[str], list[str]]:
        broker = await connected(tmp_path, port)
        try:
            return await contents(broker, "here"), await contents(broker, "there")
        finally:
            await broker.close()

    async def move(port: int, pid: int, source: str, target: str) -> None:
        broker = await connected(tmp_path, port)
        try:
            calls, wait = random_.randint(1, 25), random_.uniform(0, 0.03)
            await move_until_killed(broker, source, target, pid=pid, calls=calls, wait=wait)
        finally:
            with contextlib.suppress(BrokerUnreachable):
                await broker.close()

    with nursery(tmp_path) as brokers:
        set_up(brokers, tmp_path, *QUEUES, capacity=2 * MESSAGES)
        pid, port = brokers.start()
        publish(port)
        source, target = "here", "there"
        for _ in range(KILLS):
            here, there = asyncio.run(look(port))
            assert Counter(here) + Counter(there) == every
            split += bool(here and there)
            if not (here if source == "here" else there):
                source, target = target, source
            asyncio.run(move(port, pid, source, target))
            pid, port = brokers.start()
        here, there = asyncio.run(look(port))
        assert Counter(here) + Counter(there) == every
        os.kill(pid, signal.SIGKILL)
    assert split > KILLS // 3, "most kills came in the middle"
