"""One table: Headgate's broker beside all available others, in one run, with the same C clients.

Each row's cells are what was measured (the median, and how far the farthest round was from it) and, in brackets, ours
by theirs. The rates and latencies are taken with all brokers running, in turns, so that what the machine does
otherwise hits all alike; what many queues and memory cost is taken from a fresh process of each, alone. A peer that
cannot be had is left out, and the note says why. A rate counts only if each message was accepted by the broker,
received once and acknowledged; else the cell says "failed", and a note why. A dash is what a broker does not support.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import os
import shlex
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from figures import Figures
from footprint import STEPS, Scale
from measured import Broker, Failed, folder, free_port, load_clients, our_broker, progress, running, table
from peer_brokers import PEERS, Start
from rate_rows import DURABLE, IN_TRANSACTIONS, TOPICS, RateRow, Scope, estimate, rate_rows
from side_by_side import SideBySide, limit_and_prepare

COMPILED, PLAIN, OTHER = "Headgate", "Headgate, plain", "other"
OWN = {"headgate": COMPILED, "headgate-plain": PLAIN}
RATES = ("transient", "durable", "topics", "transactions", "connections")
GROUPS = (*RATES, "latency", "flow", "alone")
OUR_DURABILITY = "a group of messages is accepted once it is synced"


def ours(title: str, rows: Sequence[RateRow], *, limited: bool) -> Start:
    """`rows`: those whose queues are to be created. `limited`: set the queues' capacity."""

    @contextlib.contextmanager
    def start(programs: Path, data: Path) -> Iterator[Broker]:
        from brokers.amqp import runs

        os.environ.pop(runs.PLAIN, None)  # that is decided here, for each broker
        compiled = runs.load()
        if title == COMPILED and compiled is None:
            raise Failed(runs.description(None))
        port = free_port()
        with running(our_broker(port, data), port, {runs.PLAIN: "1" if title == PLAIN else ""}) as process:
            if _has_loaded(process.pid, compiled) != (title == COMPILED):
                raise Failed("it does not handle messages in the way that is to be measured")
            if limited:
                limit_and_prepare(port, data, rows)
            yield Broker(title, port, process.pid, durability=OUR_DURABILITY)

    return start


def _has_loaded(process: int, extension: object) -> bool:
    """Return whether a process has loaded a compiled module, which is None if there is none."""
    file = getattr(extension, "__file__", None)
    return file is not None and str(Path(file).resolve()) in Path(f"/proc/{process}/maps").read_text()


def other(command: str) -> Start:
    @contextlib.contextmanager
    def start(programs: Path, data: Path) -> Iterator[Broker]:
        port = free_port()
        words = shlex.split(command.replace("{port}", str(port)))
        with running(words, port, {"NOUV": "1"}, into=data / "log") as process:
            lacks = dict.fromkeys((DURABLE, TOPICS, IN_TRANSACTIONS), "a prototype")
            yield Broker(OTHER, port, process.pid, lacks=lacks)

    return start


class Line:
    """The brokers of this run, in the order of the columns. An unavailable one is crossed out, once."""

    def __init__(self, programs: Path, names: Sequence[str], against: str, rows: Sequence[RateRow]) -> None:
        self.programs, self.rows = programs, rows
        self.own = [title for name, title in OWN.items() if name in names]
        self.missing: dict[str, str] = {}  # title -> reason
        self._starts: dict[str, Start] = {OTHER: other(against)} if against else {}
        self._starts |= {PEERS[name][0]: PEERS[name][1] for name in PEERS if name in names}
        self.titles = [*self.own, *self._starts]

    @contextlib.contextmanager
    def started(self, title: str, *, limited: bool) -> Iterator[Broker | None]:
        with contextlib.ExitStack() as stack:
            broker = None
            if title not in self.missing:
                progress(f"starting {title}")
                start = ours(title, self.rows, limited=limited) if title in self.own else self._starts[title]
                try:
                    broker = stack.enter_context(start(self.programs, stack.enter_context(folder())))
                except Failed as why:
                    progress(f"{title} is left out: {why}")
                    self.missing[title] = str(why)
            yield broker


def main() -> None:
    options = _options()
    rows = _chosen(options)
    scope = Scope(
        rows,
        brokers=len(options.peers) + bool(options.against),
        own=len(set(OWN) & set(options.peers)),
        rounds=options.rounds,
        seconds=options.seconds,
        warm_up=options.warm_up,
        latency="latency" in options.only,
        flow="flow" in options.only,
        alone="alone" in options.only,
    )
    progress(f"{len(rows)} rows of rates, {scope.brokers} brokers: about {estimate(scope) / 60:.0f} minutes")
    if options.list:
        print("\n".join([*(row.what for row in rows), *(name for name in options.only if name not in RATES)]))
        return
    notes = [
        *_about(options),
        f"A sync of 4 KiB takes {_sync_seconds() * 1e3:.2f} ms on the disk of the brokers' data.",
    ]
    load_before = os.getloadavg()[0]
    with folder() as programs:
        load_clients(programs)
        line = Line(programs, options.peers, options.against, rows)
        figures = Figures(line.own, OTHER if options.against else "", line.titles)
        if rows or scope.latency or scope.flow:
            notes += _side_by_side(options, line, figures)
        if scope.alone:
            _alone(Scale(options.queues, options.connections, options.messages), line, figures)
    head, cells = figures.as_table(without=line.missing)
    notes.append(f"Load of the machine: {load_before:.1f} before, {os.getloadavg()[0]:.1f} after.")
    notes += [f"{title} left out: {why}." for title, why in line.missing.items()]
    table("Headgate beside others", head, cells, notes + [f"{why}." for why in figures.failures])


def _side_by_side(options: argparse.Namespace, line: Line, figures: Figures) -> list[str]:
    """Take what is measured with all brokers running; return notes."""
    with contextlib.ExitStack() as stack:
        started = {title: stack.enter_context(line.started(title, limited=True)) for title in line.titles}
        brokers = {title: broker for title, broker in started.items() if broker is not None}
        side = SideBySide(line.programs, brokers, figures, seconds=options.seconds, rounds=options.rounds)
        side.warm_up(options.warm_up)
        side.rates(line.rows)
        if "latency" in options.only:
            side.latency()
        if "flow" in options.only:
            side.flow_control(line.own)
    notes = [
        f"Durable: {'; '.join(f'{title}: {each.durability}' for title, each in brokers.items() if each.durability)}."
    ]
    if side.busy_clients:
        notes.append(f"The client may have been the limit (its share of a core): {'; '.join(side.busy_clients)}.")
    return notes


def _alone(scale: Scale, line: Line, figures: Figures) -> None:
    """Take what is measured in a new process of each broker."""
    for take in STEPS:
        for title in line.titles:
            with line.started(title, limited=False) as broker:
                if broker is not None:
                    take(line.programs, title, broker, figures, scale)


def _about(options: argparse.Namespace) -> list[str]:
    notes = [
        f"Rates: medians of {options.rounds} runs of about {options.seconds:g} s each, ± the distance of the farthest;",
        "all brokers running, in turns; in brackets Headgate's figure by that one;",
        "each message unsettled, counted once the broker and the consumer had accepted it, in transactions (of the",
        "producer) once these were committed; Headgate with flow control on.",
        f"Before, each broker had {options.warm_up:g} s of load (compilers at run time), and each row two runs.",
        "CPU: user and system time of the broker's process and its children, from the first message until it rests.",
        "Memory: growth of the resident size, after a full collection in the Java brokers.",
    ]
    if options.against:
        notes.append(f"{OTHER}: `{options.against}`.")
    return notes


def _sync_seconds() -> float:
    """Return the median time of a sync where the brokers have their data."""
    with folder() as data:
        descriptor = os.open(data / "probe", os.O_CREAT | os.O_WRONLY)
        times = []
        for _ in range(51):
            start = time.perf_counter()
            os.pwrite(descriptor, bytes(4096), 0)
            os.fdatasync(descriptor)
            times.append(time.perf_counter() - start)
        os.close(descriptor)
    return statistics.median(times)


def _chosen(options: argparse.Namespace) -> list[RateRow]:
    """Return the rows of rates to be measured. Ends the program if a pattern is of none."""
    rows = [row for row in rate_rows() if row.group in options.only]
    for pattern in options.rows:
        if not any(fnmatch.fnmatch(row.what, pattern) for row in rows):
            sys.exit(f"no row of rates is like {pattern!r}; --list shows them")
    return [row for row in rows if not options.rows or any(fnmatch.fnmatch(row.what, each) for each in options.rows)]


def _options() -> argparse.Namespace:
    known = (*OWN, *PEERS)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--against", default="", help='one more broker\'s command, e.g. "python other_broker.py {port}"'
    )
    parser.add_argument("--peers", type=_names(known), default=list(known), help=f"of {','.join(known)} (default: all)")
    parser.add_argument(
        "--only", type=_names(GROUPS), default=list(GROUPS), help=f"of {','.join(GROUPS)} (default: all)"
    )
    parser.add_argument(
        "--rows", action="append", default=[], help="rates: only rows like this pattern, e.g. '*10 KiB*' (repeatable)"
    )
    parser.add_argument("--list", action="store_true", help="show the rows and about how long they take, and end")
    parser.add_argument(
        "--rounds", type=int, default=3, help="number of runs, of which the median counts (default: %(default)s)"
    )
    parser.add_argument("--seconds", type=float, default=4, help="of a run, about (default: %(default)s)")
    parser.add_argument(
        "--warm-up", type=float, default=20, help="seconds of load on each broker at first (default: %(default)s)"
    )
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
