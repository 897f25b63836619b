"""How far the depth of a queue exceeds its capacity, and how soon every producer gets its turn.

For each number of producers (half of them attached first and idle for ever, all the others eager):
1. nobody consumes: the eager ones send until they are held, and the depth that remains is the greatest there was;
2. one consumer takes 2,000 messages a second, fewer than the eager ones would send, so that the queue stays full: the
   depth is asked for again and again through management, and the client notes when the last of the eager ones had its
   first message accepted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
from pathlib import Path
from typing import Any

from measured import admin, folder, free_port, load_client, load_command, our_broker, running, table

PRODUCERS = (1, 10, 100, 1000)
PACE = 2000  # messages/s of the consumer


async def measure(port: int, data: Path, program: Path, producers: int, capacity: int) -> list[str]:
    from brokers.managed import object_name

    broker = await admin(port, data)
    idle = producers // 2
    who = {"senders": producers - idle, "idle": idle, "size": 100}
    depths, first = [], {}
    for receivers in (0, 1):
        name = f"overshoot.{producers}.{receivers}"
        queue = object_name("Queue", virtualhost="default", name=name)
        await broker.create(queue, {"capacity_messages": capacity})
        count = 3 * PACE if receivers else 3 * capacity
        pace, quiet_ms = (PACE, 5000) if receivers else (0, 2000)
        options = {"receivers": receivers, "count": count, "pace": pace, "quiet_ms": quiet_ms}
        command = load_command(program, port, name, **options, **who)
        client = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        asked = asyncio.ensure_future(greatest_depth(broker, queue))
        output, _ = await client.communicate()
        asked.cancel()
        if client.returncode:
            raise SystemExit("the load client failed")
        counted = json.loads(output)
        if receivers and counted["received"] != count:
            raise SystemExit(f"{producers} producers: {counted['received']:,} of {count:,} messages arrived")
        if not receivers:
            first = counted
            depths.append((await broker.read(queue))["depth_messages"])
        else:
            depths.append(await asked)
            if counted["without_turn"]:
                raise SystemExit(f"{counted['without_turn']} of {producers} producers never had their turn")
            turn = f"{counted['turn_seconds'] * 1e3:,.0f} ms"
    await broker.close()
    without = f"{first['without_turn']:,} of {producers - idle:,}"
    return [f"{producers:,}", f"{idle:,}", *(f"{max(0, depth - capacity):,}" for depth in depths), without, turn]


async def greatest_depth(broker: Any, queue: Any) -> int:
    """Ask until cancelled; the greatest answer."""
    greatest = 0
    try:
        while True:
            greatest = max(greatest, (await broker.read(queue))["depth_messages"])
            await asyncio.sleep(0.002)
    except asyncio.CancelledError:
        return greatest


async def run(capacity: int) -> list[list[str]]:
    with folder() as data:
        program = load_client(data)
        port = free_port()
        with running(our_broker(port, data), port):
            return [await measure(port, data, program, producers, capacity) for producers in PRODUCERS]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--capacity", type=int, default=100, help="messages (default: %(default)s)")
    options = parser.parse_args()
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65536), hard))
    os.environ["PYTHONUNBUFFERED"] = "1"
    table(
        "Greatest depth over capacity, in messages",
        [
            "producers",
            "of them idle",
            "over, no consumer",
            "over, one consumer",
            "held without a turn, no consumer",
            "all had their turn, one consumer, after",
        ],
        asyncio.run(run(options.capacity)),
        [
            f"Capacity {options.capacity:,} messages of 100 B; every producer on a connection of its own.",
            f"The consumer takes {PACE:,} messages a second, so 500 eager producers could not all have had",
            f"their turn before {max(0, 500 - options.capacity) / PACE * 1e3:,.0f} ms.",
        ],
    )


if __name__ == "__main__":
    main()
