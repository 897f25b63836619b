"""Messages per second through Headgate's broker and another, in turns: a quick check; `peers.py` has the full table.

Both are loaded by the same C client (`load.c`), in the same run, one after the other and round after round, so that
what the machine does otherwise hits both alike. Unsettled; our broker has flow control on.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import shlex
import statistics
from pathlib import Path

from measured import Broker, Failed, folder, free_port, limit, load, load_clients, our_broker, running, table

ROWS = [("1 x 1, 100 B", 1, 100), ("8 x 8, 100 B", 8, 100), ("1 x 1, 1 KiB", 1, 1024), ("8 x 8, 1 KiB", 8, 1024)]
DURABLE_ROWS = [row for row in ROWS if row[2] == 1024]
CAPACITY = 20_000  # messages of our virtual host's queues: flow control has something to do


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", help='another broker\'s command, e.g. "python other_broker.py {port}"')
    parser.add_argument("--checkout", type=Path, help="our broker of another commit: the folder of its checkout")
    parser.add_argument(
        "--rounds", type=int, default=3, help="number of runs, of which the median counts (default: %(default)s)"
    )
    parser.add_argument("--count", type=int, default=300_000, help="messages of a run (default: %(default)s)")
    parser.add_argument("--durable", action="store_true", help="durable messages, which are stored, instead of others")
    options = parser.parse_args()
    measured = DURABLE_ROWS if options.durable else ROWS
    load_before = os.getloadavg()[0]
    with contextlib.ExitStack() as stack:
        data = stack.enter_context(folder())
        load_clients(data)
        port = free_port()
        process = stack.enter_context(running(our_broker(port, data), port))
        brokers = [Broker("Headgate", port, process.pid)]
        asyncio.run(limit(port, data, CAPACITY))
        if options.against:
            port = free_port()
            command = shlex.split(options.against.replace("{port}", str(port)))
            process = stack.enter_context(running(command, port, {"NOUV": "1"}))
            brokers.append(Broker("other", port, process.pid))
        if options.checkout:
            port, other = free_port(), stack.enter_context(folder())
            command = ["env", f"--chdir={options.checkout.resolve()}", *our_broker(port, other)]
            process = stack.enter_context(running(command, port))
            asyncio.run(limit(port, other, CAPACITY))
            brokers.append(Broker("checkout", port, process.pid))
        rates: dict[tuple[str, Broker], list[float]] = {}
        cpu: dict[tuple[str, Broker], list[float]] = {}
        client: list[float] = []
        for turn in range(options.rounds + 1):
            for title, pairs, size in measured:
                for broker in brokers:
                    count = options.count if turn else options.count // 10  # the first round only warms up
                    before = broker.cpu_seconds()
                    queue = f"bench.{pairs}.{size}"
                    shape: dict[str, int | bool] = {"senders": pairs, "receivers": pairs, "count": count, "size": size}
                    done = load(data, broker, queue, durable=options.durable, **shape)
                    if done["received"] != count:
                        raise Failed(f"{broker.title}, {title}: {done['received']:,} of {count:,} messages arrived")
                    if turn:
                        rates.setdefault((title, broker), []).append(count / done["seconds"])
                        spent = broker.cpu_seconds() - before
                        cpu.setdefault((title, broker), []).append(spent / count * 1e6)
                        client.append(done["client_cpu"] / done["seconds"])
    rows = []
    for title, _pairs, _size in measured:
        middle = [statistics.median(rates[title, broker]) for broker in brokers]
        cost = [statistics.median(cpu[title, broker]) for broker in brokers]
        ratio = [f"{middle[0] / each:.3f}" for each in middle[1:]]
        rows.append([title, *(f"{value:,.0f}" for value in middle), *ratio, *(f"{value:.1f} µs" for value in cost)])
    table(
        "Throughput, messages/s",
        [
            "senders x receivers, size",
            *(broker.title for broker in brokers),
            *(f"ratio to {broker.title}" for broker in brokers[1:]),
            *(f"CPU a message, {broker.title}" for broker in brokers),
        ],
        rows,
        [
            f"Medians of {options.rounds} runs of {options.count:,} messages through one queue, the brokers in turns;",
            f"unsettled, {'durable' if options.durable else 'not durable'}, capacity {CAPACITY:,} messages.",
            f"Load of the machine before: {load_before:.1f}.",
            f"The client used {statistics.median(client):.0%} of one core, {max(client):.0%} at most.",
        ],
    )


if __name__ == "__main__":
    main()
