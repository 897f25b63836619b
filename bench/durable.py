"""Durable messages through whole brokers with different stores, in turns: rate, CPU and bytes written per message.

`uv run bench/durable.py --broker NAME=FOLDER ...`: a checkout each, whose environment is in FOLDER/.venv.
CPU time of the broker, unlike its rate, hardly depends on what else the machine does.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import statistics
from collections.abc import Iterator
from pathlib import Path

from measured import Broker, Failed, folder, free_port, limit, load, load_clients, running, table

ROWS = [("1 x 1", 1), ("8 x 8", 8)]
SIZE = 1024
CAPACITY = 20_000  # messages of a virtual host's queues: flow control has something to do


@contextlib.contextmanager
def broker(title: str, checkout: Path, disk: Path | None) -> Iterator[Broker]:
    import tempfile

    with tempfile.TemporaryDirectory(prefix="headgate-bench-", dir=disk) as name:
        port, data = free_port(), Path(name)
        command: list[str | Path] = [
            *("env", f"--chdir={checkout.resolve()}", f"PYTHONPATH={checkout.resolve()}"),
            *(checkout.resolve() / ".venv/bin/python", "manage.py", "broker", "--port", str(port)),
            *("--data", data / "broker", "--demo"),
        ]
        with running(command, port) as process:
            asyncio.run(limit(port, data, CAPACITY))
            yield Broker(title, port, process.pid)


def written_bytes(process: int) -> int:
    """Return the bytes that the process has written to the disk."""
    lines = Path(f"/proc/{process}/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["write_bytes"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--broker", action="append", required=True, help="NAME=FOLDER", metavar="NAME=FOLDER")
    parser.add_argument("--disk", type=Path, help="folder on the disk to be used (default: that of temporary files)")
    parser.add_argument("--rounds", type=int, default=5, help="of which the median counts (default: %(default)s)")
    parser.add_argument("--transaction", type=int, default=0, help="messages of a transaction (default: none)")
    parser.add_argument("--count", type=int, default=100_000, help="messages of a run (default: %(default)s)")
    options = parser.parse_args()
    before = os.getloadavg()[0]
    found: dict[tuple[str, str], list[tuple[float, float, float]]] = {}
    with contextlib.ExitStack() as stack:
        programs = stack.enter_context(folder())
        load_clients(programs)
        brokers = []
        for each in options.broker:
            name, _, checkout = each.partition("=")
            brokers.append(stack.enter_context(broker(name, Path(checkout), options.disk)))
        for turn in range(options.rounds + 1):
            for title, pairs in ROWS:
                for each in brokers[turn % len(brokers) :] + brokers[: turn % len(brokers)]:
                    count = options.count if turn else options.count // 10  # the first round only warms up
                    cpu, written = each.cpu_seconds(), written_bytes(each.process)
                    given = {"senders": pairs, "receivers": pairs, "count": count, "size": SIZE, "durable": True}
                    if options.transaction:
                        given["transaction"] = options.transaction
                    done = load(programs, each, f"bench.{pairs}", **given)
                    if done["received"] < count:
                        raise Failed(f"{each.title}, {title}: {done['received']:,} of {count:,} messages arrived")
                    if turn:
                        spent, written = each.cpu_seconds() - cpu, written_bytes(each.process) - written
                        found.setdefault((title, each.title), []).append(
                            (count / done["seconds"], spent / count * 1e6, written / count)
                        )
    rows = []
    for (title, name), runs in found.items():
        rate, cpu, size = (statistics.median(column) for column in zip(*runs, strict=True))
        first = found[title, brokers[0].title]
        ratio = statistics.median(run[0] / other[0] for run, other in zip(runs, first, strict=True))
        saved = statistics.median(other[1] / run[1] for run, other in zip(runs, first, strict=True))
        spread = f"{min(run[1] for run in runs):.1f} to {max(run[1] for run in runs):.1f}"
        rows.append(
            [title, name, f"{rate:,.0f}", f"{ratio:.2f}", f"{cpu:.1f} µs ({spread})", f"{saved:.2f}", f"{size:,.0f} B"]
        )
    table(
        "Durable messages of 1 KiB",
        [
            "senders x receivers",
            "store",
            "messages/s",
            "ratio",
            "CPU of the broker a message",
            "ratio",
            "written a message",
        ],
        rows,
        [
            f"Medians of {options.rounds} runs of {options.count:,} messages through one queue, the brokers in turns;",
            f"ratios are medians of pairs, to {brokers[0].title}.",
            f"Load of the machine: {before:.1f} before, {os.getloadavg()[0]:.1f} after.",
        ],
    )


if __name__ == "__main__":
    main()
