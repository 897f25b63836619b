"""Messages per second from the first send to the last receive, through our broker and through others, in turns.

Every broker is loaded by the same C client (`load.c`), in the same run, one after the other and round after round, so
that what the machine does otherwise hits all alike. Unsettled, not durable; our broker has flow control on.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import shlex
import statistics
from pathlib import Path

import psutil
from measured import admin, folder, free_port, load, load_client, our_broker, running, table

ROWS = [("1 x 1, 100 B", 1, 100), ("8 x 8, 100 B", 8, 100), ("1 x 1, 1 KiB", 1, 1024), ("8 x 8, 1 KiB", 8, 1024)]
CAPACITY = 20_000  # messages of our virtual host's queues: flow control has something to do


async def limit(port: int, data: Path) -> None:
    from brokers.managed import object_name

    broker = await admin(port, data)
    host = await broker.read(object_name("VirtualHost", name="default"))
    await broker.update(host.name, {"capacity_messages": CAPACITY}, host.version)
    await broker.close()


def cpu_seconds(process: int) -> float:
    """What a broker has used so far: unlike its rate, this hardly depends on what else the machine does."""
    times = psutil.Process(process).cpu_times()
    return float(times.user + times.system)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", help='another broker\'s command, e.g. "python other_broker.py {port}"')
    parser.add_argument("--rounds", type=int, default=3, help="the median of so many (default: %(default)s)")
    parser.add_argument("--count", type=int, default=300_000, help="messages of a run (default: %(default)s)")
    options = parser.parse_args()
    load_before = os.getloadavg()[0]
    with contextlib.ExitStack() as stack:
        data = stack.enter_context(folder())
        program = load_client(data)
        ports = {"Headgate": free_port()}
        servers = {"Headgate": stack.enter_context(running(our_broker(ports["Headgate"], data), ports["Headgate"]))}
        asyncio.run(limit(ports["Headgate"], data))
        if options.against:
            ports["other"] = free_port()
            command = shlex.split(options.against.replace("{port}", str(ports["other"])))
            servers["other"] = stack.enter_context(running(command, ports["other"], {"NOUV": "1"}))
        rates: dict[tuple[str, str], list[float]] = {}
        cpu: dict[tuple[str, str], list[float]] = {}
        client: list[float] = []
        for turn in range(options.rounds + 1):
            for title, pairs, size in ROWS:
                for broker, port in ports.items():
                    count = options.count if turn else options.count // 10  # the first round only warms up
                    queue = f"bench.{pairs}.{size}"
                    before = cpu_seconds(servers[broker].pid)
                    done = load(program, port, queue, senders=pairs, receivers=pairs, count=count, size=size)
                    if done["received"] != count:
                        raise SystemExit(f"{broker}, {title}: {done['received']:,} of {count:,} messages arrived")
                    if turn:
                        rates.setdefault((title, broker), []).append(count / done["seconds"])
                        spent = cpu_seconds(servers[broker].pid) - before
                        cpu.setdefault((title, broker), []).append(spent / count * 1e6)
                        client.append(done["client_cpu"] / done["seconds"])
    rows = []
    for title, _pairs, _size in ROWS:
        rate = [statistics.median(rates[title, broker]) for broker in ports]
        cost = [statistics.median(cpu[title, broker]) for broker in ports]
        ratio = [f"{rate[0] / rate[1]:.2f}"] if options.against else []
        rows.append([title, *(f"{value:,.0f}" for value in rate), *ratio, *(f"{value:.1f} µs" for value in cost)])
    table(
        "Throughput, messages/s",
        [
            "senders x receivers, size",
            *ports,
            *(["ratio"] if options.against else []),
            *(f"CPU a message, {broker}" for broker in ports),
        ],
        rows,
        [
            f"Medians of {options.rounds} runs of {options.count:,} messages through one queue, the brokers in turns;",
            f"unsettled, not durable, capacity {CAPACITY:,} messages.",
            f"Load of the machine before: {load_before:.1f}.",
            f"The client used {statistics.median(client):.0%} of one core, {max(client):.0%} at most.",
        ],
    )


if __name__ == "__main__":
    main()
