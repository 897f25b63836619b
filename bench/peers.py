"""One table: Headgate's broker beside all available others, in one run, with the same C clients.

Each row's cells are what was measured and, in brackets, ours by theirs. The rates and latencies are taken with all
brokers running, in turns, so that what the machine does otherwise hits all alike; what many queues and memory cost is
taken from a fresh process of each, alone. A peer that cannot be had is left out, and the note says why.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

from figures import Figures
from footprint import STEPS, Scale
from measured import Broker, Failed, folder, free_port, load_clients, our_broker, progress, running, table
from peer_brokers import PEERS, Start
from side_by_side import DURABLE, SideBySide, limit_and_prepare

OURS, OTHER = "Headgate", "other"
GROUPS = ("transient", "durable", "latency", "flow", "alone")


def ours(*, limited: bool) -> Start:
    @contextlib.contextmanager
    def start(programs: Path, data: Path) -> Iterator[Broker]:
        port = free_port()
        with running(our_broker(port, data), port) as process:
            if limited:
                limit_and_prepare(port, data)
            yield Broker(OURS, port, process.pid)

    return start


def other(command: str) -> Start:
    @contextlib.contextmanager
    def start(programs: Path, data: Path) -> Iterator[Broker]:
        port = free_port()
        words = shlex.split(command.replace("{port}", str(port)))
        with running(words, port, {"NOUV": "1"}, into=data / "log") as process:
            yield Broker(OTHER, port, process.pid)

    return start


class Line:
    """The brokers of this run, in the order of the columns. An unavailable one is crossed out, once."""

    def __init__(self, programs: Path, against: str, peers: list[str]) -> None:
        self.programs = programs
        self.missing: dict[str, str] = {}  # title -> reason
        self.titles = [OURS, *([OTHER] if against else []), *(PEERS[name][0] for name in peers)]
        self._starts: dict[str, Start] = {PEERS[name][0]: PEERS[name][1] for name in peers}
        if against:
            self._starts[OTHER] = other(against)

    @contextlib.contextmanager
    def started(self, title: str, *, limited: bool) -> Iterator[Broker | None]:
        with contextlib.ExitStack() as stack:
            broker = None
            if title not in self.missing:
                progress(f"starting {title}")
                start = ours(limited=limited) if title == OURS else self._starts[title]
                try:
                    broker = stack.enter_context(start(self.programs, stack.enter_context(folder())))
                except Failed as why:
                    if title == OURS:
                        raise
                    progress(f"{title} is left out: {why}")
                    self.missing[title] = str(why)
            yield broker


def main() -> None:
    options = _options()
    load_before = os.getloadavg()[0]
    with folder() as programs:
        load_clients(programs)
        line = Line(programs, options.against, options.peers)
        figures = Figures(OURS, OTHER if options.against else "", line.titles)
        if set(options.only) & {"transient", "durable", "latency", "flow"}:
            with contextlib.ExitStack() as stack:
                brokers: dict[str, Broker] = {}
                for title in line.titles:
                    broker = stack.enter_context(line.started(title, limited=True))
                    if broker is not None:
                        brokers[title] = broker
                side = SideBySide(programs, brokers, figures, seconds=options.seconds, rounds=options.rounds)
                steps: dict[str, Callable[[], None]] = {
                    "transient": side.transient,
                    "durable": lambda: side.durable(OURS, OTHER),
                    "latency": side.latency,
                    "flow": lambda: side.flow_control(OURS),
                }
                for name, step in steps.items():
                    if name in options.only:
                        step()
        if "alone" in options.only:
            scale = Scale(options.queues, options.connections, options.messages)
            for take in STEPS:
                for title in line.titles:
                    with line.started(title, limited=False) as broker:
                        if broker is not None:
                            take(programs, title, broker, figures, scale)
    head, rows = figures.as_table(without=line.missing)
    table("Headgate beside others", head, rows, _notes(options, figures, line, load_before))


def _notes(options: argparse.Namespace, figures: Figures, line: Line, load_before: float) -> list[str]:
    notes = [
        "In brackets: Headgate's figure by that one.",
        f"Rates: medians of {options.rounds} runs of about {options.seconds:g} s each, all brokers running, in turns;",
        "every message unsettled, counted when received and accepted, Headgate with flow control on.",
        f"Durable: {DURABLE}.",
        "Memory: growth of the resident size, after a full collection in the Java brokers.",
        f"Load of the machine: {load_before:.1f} before, {os.getloadavg()[0]:.1f} after.",
    ]
    if OTHER in line.titles:
        notes.append(f"other: `{options.against}`.")
    notes += [f"{title} left out: {why}." for title, why in line.missing.items()]
    return notes + [f"{why}." for why in figures.failures]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--against", default="", help='one more broker\'s command, e.g. "python other_broker.py {port}"'
    )
    parser.add_argument(
        "--peers", type=_names(tuple(PEERS)), default=list(PEERS), help=f"of {','.join(PEERS)} (default: all)"
    )
    parser.add_argument(
        "--only", type=_names(GROUPS), default=list(GROUPS), help=f"of {','.join(GROUPS)} (default: all)"
    )
    parser.add_argument(
        "--rounds", type=int, default=3, help="number of runs, of which the median counts (default: %(default)s)"
    )
    parser.add_argument("--seconds", type=float, default=4, help="of a run, about (default: %(default)s)")
    parser.add_argument("--queues", type=int, default=10_000, help="with 10 messages each (default: %(default)s)")
    parser.add_argument("--connections", type=int, default=1000, help="idle ones (default: %(default)s)")
    parser.add_argument("--messages", type=int, default=100_000, help="waiting in a queue (default: %(default)s)")
    return parser.parse_args()


def _names(known: tuple[str, ...]) -> Callable[[str], list[str]]:
    def parse(text: str) -> list[str]:
        names = [name for name in text.split(",") if name]
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(f"{name} is none of {', '.join(known)}")
        return names

    return parse


if __name__ == "__main__":
    main()
