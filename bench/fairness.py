"""How far a queue's depth exceeds its capacity, how evenly producers share it, and how soon all of them can be stopped.

For each capacity and number of producers (half of them attached first and permanently idle, the others active):
1. without consumers: the active ones send until they are blocked, and the final depth is the maximum;
2. one consumer takes 2,000 messages a second, fewer than the eager ones would send, so that the queue stays full: the
   depth is polled through management, and the client counts the accepted messages of each active one.
   Jain's index of these counts is 1 if all are equal, and 1/n if one of n had all.

Then 1,000 producers send to 100 queues, each with a capacity and a consumer, and stop-producers is called for all: the
time from just before the call to the last message accepted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import time
from pathlib import Path
from typing import Any

from measured import Broker, Failed, admin, client_command, folder, free_port, load_clients, our_broker, running, table

PACE = 2000  # messages/s of the consumer
QUEUES = 100
WITHOUT_END = 1_000_000_000


def jain(counts: list[int]) -> float:
    """Jain's fairness index."""
    squares = sum(count * count for count in counts)
    return sum(counts) ** 2 / (len(counts) * squares) if squares else 0.0


class Measurement:
    """Headgate's broker, the client, and management."""

    def __init__(self, programs: Path, broker: Broker, management: Any) -> None:
        self.programs, self.broker, self.management = programs, broker, management

    async def client(self, queue: str, **options: int | bool) -> asyncio.subprocess.Process:
        command = client_command(self.programs / "load", self.broker, queue, **options)
        return await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)

    async def counted(self, client: asyncio.subprocess.Process) -> dict[str, Any]:
        output, _ = await client.communicate()
        if client.returncode:
            raise Failed("the load client failed")
        return dict(json.loads(output))

    async def create(self, name: str, capacity: int) -> Any:
        from brokers.model import object_name

        queue = object_name("Queue", virtualhost="default", name=name)
        await self.management.create(queue, {"capacity_messages": capacity})
        return queue

    async def full(self, capacity: int, producers: int, seconds: int) -> list[str]:
        """Return one row of the first table."""
        idle = producers // 2
        who = {"senders": producers - idle, "idle": idle, "size": 100}

        name = f"full.{capacity}.{producers}"
        queue = await self.create(f"{name}.unconsumed", capacity)
        sent = await self.counted(
            await self.client(f"{name}.unconsumed", receivers=0, count=capacity * 3, quiet=2000, **who)
        )
        over = (await self.management.read(queue))["depth_messages"] - capacity

        queue = await self.create(f"{name}.consumed", capacity)
        client = await self.client(
            f"{name}.consumed", count=WITHOUT_END, pace=PACE, seconds=seconds, quiet=30_000, **who
        )
        depths = asyncio.ensure_future(self.greatest_depth(queue))
        done = await self.counted(client)
        depths.cancel()
        over_consumed = await depths - capacity

        counts = done["accepted_by"]
        index = jain(counts)
        return [
            f"{capacity:,}",
            f"{producers:,}",
            f"{idle:,}",
            f"{max(0, over):,}",
            f"{max(0, over_consumed):,}",
            f"{sent['without_turn']:,} of {producers - idle:,}",
            f"{done['without_turn']:,}"
            if done["without_turn"]
            else f"none, after {done['turn_seconds'] * 1e3:,.0f} ms",
            f"{min(counts):,} to {max(counts):,}",
            f"{index:.3f}{'' if index >= 0.9 else ', missed'}",
        ]

    async def greatest_depth(self, queue: Any) -> int:
        """Poll until cancelled; return the maximum."""
        greatest = 0
        try:
            while True:
                greatest = max(greatest, (await self.management.read(queue))["depth_messages"])
                await asyncio.sleep(0.002)  # between two polls: no event says that a depth has grown
        except asyncio.CancelledError:
            return greatest

    async def stop_all(self, producers: int, capacity: int, seconds: int) -> list[str]:
        """Return one row of the second table."""
        from brokers.model import object_name

        for number in range(QUEUES):
            await self.create(f"stop.{capacity}.{number}", capacity)
        client = await self.client(
            f"stop.{capacity}",
            senders=producers,
            receivers=QUEUES,
            queues=QUEUES,
            count=WITHOUT_END,
            seconds=2 * seconds + 60,
            quiet=2000,
            size=100,
        )
        last = object_name("Queue", virtualhost="default", name=f"stop.{capacity}.{QUEUES - 1}")
        async with asyncio.timeout(60):  # until all clients have attached and messages flow
            while (await self.management.read(last))["dequeued_messages"] < 100:  # noqa: ASYNC110  # no event to await
                await asyncio.sleep(0.05)  # between two polls of the counters: the broker sends no event for a message
        await asyncio.sleep(seconds)  # of load before the stop
        broker = object_name("Broker")
        called = time.monotonic()  # the client's clock, too
        answer = await self.management.call(broker, "stop-producers", {"reason": "measured"})
        answered = time.monotonic()
        done = await self.counted(client)
        await self.management.call(broker, "start-producers", {"reason": "measured"})
        after = (done["last_accepted"] - called) * 1e3
        return [
            f"{producers:,}",
            f"{QUEUES}",
            f"{capacity:,}",
            f"{done['accepted'] / done['seconds']:,.0f}",
            f"{(answered - called) * 1e3:,.0f} ms",
            f"{answer['stopped']:,} stopped, {answer['draining']:,} draining",
            f"{after:,.0f} ms, {'reached' if after <= 250 else 'missed'}",
        ]


async def run(options: argparse.Namespace) -> tuple[list[list[str]], list[list[str]]]:
    with folder() as data:
        load_clients(data)
        port = free_port()
        with running(our_broker(port, data), port) as process:
            management = await admin(port, data)
            measurement = Measurement(data, Broker("Headgate", port, process.pid), management)
            full = [
                await measurement.full(capacity, producers, options.seconds)
                for capacity in options.capacities
                for producers in options.producers
            ]
            most = max(options.producers)
            stop = [await measurement.stop_all(most, capacity, options.seconds) for capacity in options.capacities]
            await management.close()
    return full, stop


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--capacities", type=int, nargs="+", default=[50, 1000], help="messages (default: 50 1000)")
    parser.add_argument("--producers", type=int, nargs="+", default=[1, 10, 100, 1000], help="(default: up to 1000)")
    parser.add_argument("--seconds", type=int, default=8, help="of a run with a consumer (default: %(default)s)")
    options = parser.parse_args()
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65536), hard))
    before = os.getloadavg()[0]
    full, stop = asyncio.run(run(options))
    table(
        "Overshoot and fairness",
        [
            "capacity",
            "producers",
            "of them idle",
            "over, no consumer",
            "over, one consumer",
            "without a turn, no consumer",
            "without a turn, one consumer",
            "accepted of each",
            "Jain's index (aim 0.9)",
        ],
        full,
        [
            f"Messages of 100 B; every producer on a connection of its own. The consumer takes {PACE:,} messages a",
            f"second for {options.seconds} s. Load of the machine before: {before:.1f}.",
        ],
    )
    print()
    table(
        "Stop all producers",
        [
            "producers",
            "queues",
            "capacity of each",
            "messages/s before",
            "the call took",
            "its answer",
            "last message accepted after the call (aim 250 ms)",
        ],
        stop,
        ["All eager, a consumer on each queue."],
    )


if __name__ == "__main__":
    main()
