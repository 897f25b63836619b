"""A profile of Headgate's broker under the C client: time per message, by function and by line.

A timer of the processor time that the broker uses interrupts it, and the line that it is at is counted: the line that
calls into C for the time spent there, and otherwise the next one at which the interpreter looks for signals, such as
the entry of a function. Unlike a tracing profiler this costs next to nothing, and does not make small functions look
expensive.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import linecache
import signal
import sys
from collections import Counter
from pathlib import Path
from types import FrameType

from measured import ROOT, Broker, folder, free_port, limit, load, load_clients, running, table

CAPACITY = 20_000
INTERVAL = 0.001  # seconds of processor time; the kernel makes it the length of its tick, if that is longer


def serve(into: Path, arguments: list[str]) -> int:
    """The broker in this process, sampled; the counts go to the file `into` when it ends."""
    from brokers.server.main import main as broker

    counts: Counter[tuple[str, str, int]] = Counter()

    def sample(_number: int, frame: FrameType | None) -> None:
        if frame is not None:
            counts[frame.f_code.co_filename, frame.f_code.co_qualname, frame.f_lineno] += 1

    def forget(_number: int, _frame: FrameType | None) -> None:
        counts.clear()

    signal.signal(signal.SIGPROF, sample)
    signal.signal(signal.SIGUSR1, forget)
    signal.setitimer(signal.ITIMER_PROF, INTERVAL, INTERVAL)
    code = broker(arguments)
    signal.setitimer(signal.ITIMER_PROF, 0)
    into.write_text(json.dumps([[*where, count] for where, count in counts.items()]))
    return code


def place(file: str) -> str:
    path = Path(file)
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) and ".venv" not in path.parts else path.name


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=1, help="senders, and receivers (default: %(default)s)")
    parser.add_argument("--size", type=int, default=100, help="bytes of a message (default: %(default)s)")
    parser.add_argument("--count", type=int, default=1_000_000, help="messages (default: %(default)s)")
    parser.add_argument("--top", type=int, default=25, help="rows of each table (default: %(default)s)")
    options = parser.parse_args()
    with folder() as data:
        load_clients(data)
        port, samples = free_port(), data / "samples.json"
        broker_options = ["--port", str(port), "--data", str(data / "broker"), "--demo"]
        with running([sys.executable, __file__, "--serve", samples, *broker_options], port) as process:
            asyncio.run(limit(port, data, CAPACITY))
            broker = Broker("Headgate", port, process.pid)
            pairs = {"senders": options.pairs, "receivers": options.pairs, "size": options.size}
            load(data, broker, "profile", count=options.count // 10, **pairs)
            process.send_signal(signal.SIGUSR1)
            before = broker.cpu_seconds()
            done = load(data, broker, "profile", count=options.count, **pairs)
            spent = broker.cpu_seconds() - before
        counts = json.loads(samples.read_text())
    total = sum(count for *_, count in counts)
    each = spent / options.count * 1e9 / total  # ns of a message for one sample

    functions: Counter[str] = Counter()
    lines: Counter[tuple[str, int]] = Counter()
    for file, name, line, count in counts:
        functions[f"{place(file)} {name}"] += count
        lines[file, line] += count
    what = f"{options.pairs} x {options.pairs}, {options.size} B"
    table(
        f"Processor time of a message by function, {what}",
        ["function, without what it calls in Python", "ns", "share"],
        [[name, f"{n * each:,.0f}", f"{n / total:.1%}"] for name, n in functions.most_common(options.top)],
        [f"{spent / options.count * 1e6:.2f} µs a message in all, {options.count / done['seconds']:,.0f} messages/s."],
    )
    print()
    table(
        f"The same by line, {what}",
        ["line", "", "ns"],
        [
            [
                f"{place(file)}:{line}",
                f"`{linecache.getline(file, line).strip().replace('|', '¦')}`",
                f"{n * each:,.0f}",
            ]
            for (file, line), n in lines.most_common(options.top)
        ],
        [],
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        sys.exit(serve(Path(sys.argv[2]), sys.argv[3:]))
    main()
