"""The duration of a change of policies with many queues and patterns, until it is effective and its turn has ended.

This is the engine as the server drives it, without sockets: a change's time is that of the management call, of
handing out or taking back the credit that follows from it, and of stating its facts. A tenth of the queues has a
capacity of its own, another tenth holds messages and a producer; half of them match patterns.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

from measured import table

REGIONS = ("eu", "us", "asia", "africa")
DEPTH = 10  # messages of a queue that holds any


def policy(pattern: str) -> Any:
    from brokers.model import object_name

    return object_name("Policy", virtualhost="default", pattern=pattern)


async def build(queues: int, patterns: int) -> Any:
    """Queues `areaN.REGION.queueN`; patterns `areaN.>`, `areaN.REGION.>`, then `areaN.*.queueN`, ten to an area."""
    from brokers.model import object_name
    from brokers.testing import InMemoryBroker

    broker = InMemoryBroker()
    areas = max(1, patterns // 10)
    for n in range(patterns):
        round_, area = divmod(n, areas)
        tails = [">", *(f"{region}.>" for region in REGIONS)]
        tail = tails[round_] if round_ < len(tails) else f"*.queue{n % queues}"
        await broker.create(policy(f"area{area}.{tail}"), {"capacity_messages": 1000 + n})
    for n in range(queues):
        place = f"area{n // 2 % areas}" if n % 2 else "elsewhere"
        name = object_name("Queue", virtualhost="default", name=f"{place}.{REGIONS[n % 4]}.queue{n}")
        await broker.create(name, {"capacity_messages": 20 + n} if n % 10 == 0 else {})
        if n % 10 in (1, 2) and n % 20 < 10:
            version = (await broker.read(name)).version
            await broker.update(name, {"capacity_messages": DEPTH}, version)
            broker.fill(name["name"], DEPTH + 1)
            await broker.update(name, {"capacity_messages": None}, version + 1)
    return broker


async def measure(queues: int, patterns: int, repeat: int) -> list[list[str]]:
    from brokers.engine.flow.gate import FlowGate
    from brokers.model import object_name

    broker = await build(queues, patterns)
    rows: list[list[str]] = []
    calls, set_limits = 0, FlowGate.set_limits

    def counted(self: FlowGate, *given: Any) -> None:
        nonlocal calls
        calls += 1
        set_limits(self, *given)

    # A count is what is measured here, and no other reason to have one in the engine: so the method is replaced.
    FlowGate.set_limits = counted  # type: ignore[method-assign, assignment]  # see above

    async def timed(words: str, *changes: Callable[[int], Awaitable[object]]) -> None:
        """Return one row for each of several alternating changes, such as creating and deleting."""
        took: list[list[float]] = [[] for _ in changes]
        calls_of: list[list[int]] = [[] for _ in changes]
        for n in range(repeat):
            for index, change in enumerate(changes):
                gc.collect()
                before, start = calls, time.perf_counter()
                await change(n)
                took[index].append((time.perf_counter() - start) * 1e3)
                calls_of[index].append(calls - before)
        for verb, times, counts in zip(words.split("|"), took, calls_of, strict=True):
            rows.append([verb, f"{max(counts):,}", f"{statistics.median(times):,.1f}", f"{max(times):,.1f}"])

    async def update(name: Any, **fields: Any) -> None:
        await broker.update(name, fields, (await broker.read(name)).version)

    def whole_life(pattern: str) -> tuple[Callable[[int], Awaitable[object]], ...]:
        name = policy(pattern)
        return (
            lambda n: broker.create(name, {"flow_resume_messages": "50%", "capacity_messages": 5}),
            lambda n: update(name, capacity_messages=DEPTH),
            lambda n: broker.delete(name),
        )

    for pattern in ("area1.africa.queue3", "*.*.>", ">"):
        await timed(f"create {pattern}|change {pattern}|delete {pattern}", *whole_life(pattern))
    name = policy("area1.africa.>")
    await timed("change area1.africa.>", lambda n: update(name, capacity_messages=7 + n))
    host, whole = object_name("VirtualHost", name="default"), object_name("Broker")
    await timed("virtual host: capacity_bytes for all queues", lambda n: update(host, capacity_bytes=900 + n))
    await timed(
        "broker: producer_window_messages for all queues", lambda n: update(whole, producer_window_messages=9 + n)
    )
    await timed("broker: capacity_messages, which patterns hide", lambda n: update(whole, capacity_messages=50 + n))

    async def preview(name: Any, **fields: Any) -> None:
        changes = [{"object": str(name), "attributes": fields}]
        await broker.call(whole, "preview-change", {"changes": changes})

    await timed("preview area1.africa.>", lambda n: preview(name, capacity_messages=9))
    await timed("preview broker: capacity_bytes for all queues", lambda n: preview(whole, capacity_bytes=DEPTH))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queues", type=int, default=10_000, help="(default: %(default)s)")
    parser.add_argument("--patterns", type=int, default=1_000, help="(default: %(default)s)")
    parser.add_argument("--repeat", type=int, default=5, help="of every change (default: %(default)s)")
    options = parser.parse_args()
    rows = asyncio.run(measure(options.queues, options.patterns, options.repeat))
    table(
        f"A change of policies with {options.queues:,} queues and {options.patterns:,} patterns",
        ["change", "queues with other limits", "ms, median", "ms, longest"],
        rows,
        ["In the engine, until its turn has ended."],
    )


if __name__ == "__main__":
    main()
