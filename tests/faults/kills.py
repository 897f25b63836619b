"""Kill -9 of the broker under durable load, a thousand times: its promises hold after each start.

`uv run python -m tests.faults.kills --kills 1000 --seed 1 --log kills.jsonl`; `--sum kills.jsonl …` adds up what
several runs wrote. One process of clients, one broker that is killed at random moments: while it serves, while it
recovers, and while it stops in order. Its load: producers and consumers of two queues with messages of 0 to 100,000
characters, and clients that work in transactions over three more queues.

The oracle is the clients' memory alone (`traffic.Promises`, `transacted.Books`): no message lost whose acceptance a
client has heard, none back whose settlement it has heard, the order of each producer preserved, each transaction there
whole or not at all, none of an aborted one. This is checked after every start that succeeds, of all that a browser
reads, and at the end of an epoch of what consumers take out.

An epoch is a data folder of its own with its own seed, so that runs add up and a memory of promises stays small. The
seed decides the load and when it is cut; what the broker is doing at that moment is up to the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from proton import Event
from proton.handlers import MessagingHandler
from proton.reactor import Container

from tests.faults.nursery import nursery
from tests.faults.queues import browse, set_up
from tests.faults.traffic import Promises, Traffic
from tests.faults.transacted import Books, Business

EPOCH_KILLS = 25

SIZES = (0, 0, 0, 10, 200, 5_000, 100_000)

PLAIN = ("q", "r")
TRANSACTED = ("in", "book", "out")

#: Parts of all kills that come while a broker starts, and while it stops in order.
STARTING, STOPPING = 0.35, 0.1


class Broken(Exception):
    """A broken promise, or a broker that ends or logs an error unexpectedly."""


class Load(MessagingHandler):  # type: ignore[misc]
    """All clients, until the last of `cuts` has been called: the first after `after` seconds, each other one `more`
    seconds later."""

    def __init__(
        self, parts: list[Traffic | Business], after: float, cuts: list[Callable[[], None]], more: float
    ) -> None:
        super().__init__()
        self.parts, self.after, self.cuts, self.more = parts, after, cuts, more

    def on_start(self, event: Event) -> None:
        for part in self.parts:
            part.start(event.container)
        event.container.schedule(self.after, self)

    def on_timer_task(self, event: Event) -> None:
        self.cuts.pop(0)()
        if self.cuts:
            event.container.schedule(self.more, self)
            return
        for part in self.parts:
            part.close()


@dataclass
class Epoch:
    """One data folder, and the confirmations that its clients got. `counts`: see `run`."""

    data: Path
    seed: str
    kills: int
    counts: Counter[str] = field(default_factory=Counter)

    def run(self) -> Counter[str]:
        """Raises Broken. Returns how many there were of each kind of thing."""
        self.random = random.Random(self.seed)
        self.promises = {queue: Promises() for queue in PLAIN}
        self.books = Books()
        self.start_seconds = 0.2  # how long a start took last
        errors = self.data.with_name(self.data.name + ".stderr")
        try:
            with errors.open("wb") as stderr, nursery(self.data, errors=stderr) as self.brokers:
                capacity = self.random.choice((50, 400, 2000))
                set_up(self.brokers, self.data, *PLAIN, capacity=capacity)
                set_up(self.brokers, self.data, *TRANSACTED, capacity=100_000)
                while (started := self._started()) and self.counts["kills"] < self.kills:
                    self._round(*started)
                self._take_all(*started)
        except AssertionError as error:
            raise Broken(str(error)) from error
        finally:
            self._count()
        if said := errors.read_text(errors="replace").strip():
            raise Broken(f"the broker complained:\n{said}")
        if unexpected := set(self.brokers.ended) - {0, -signal.SIGKILL}:
            raise Broken(f"the broker ended with the status {unexpected}")
        return self.counts

    def _started(self) -> tuple[int, int]:
        """A broker that serves, after none or some that were killed while they started; all promises hold."""
        while True:
            began = time.monotonic()
            pid = self.brokers.begin()
            cut = self.random.random() < STARTING and self.counts["kills"] < self.kills
            port = self.brokers.ready(pid, self.random.uniform(0, 1.1 * self.start_seconds) if cut else 60)
            if cut:
                self._kill(pid, "while serving at once" if port else "while starting")
                continue
            if not port:
                raise Broken("the broker did not start within 60 s")
            self.start_seconds = time.monotonic() - began
            self.counts["starts"] += 1
            self._check(port)
            return pid, port

    def _kill(self, pid: int, when: str) -> None:
        os.kill(pid, signal.SIGKILL)
        self.counts["kills"] += 1
        self.counts[f"kills {when}"] += 1

    def _check(self, port: int) -> None:
        found = {queue: browse(self.data, port, queue) for queue in (*PLAIN, *TRANSACTED)}
        for queue, promises in self.promises.items():
            promises.check(found[queue])
        self.books.check({queue: found[queue] for queue in TRANSACTED})
        self.counts["messages found"] += sum(map(len, found.values()))

    def _round(self, pid: int, port: int) -> None:
        traffic = [
            Traffic(
                self.promises[queue],
                port,
                producers=self.random.randint(1, 4),
                consumers=self.random.randint(0, 3),
                size=SIZES,
                queue=queue,
            )
            for queue in PLAIN
        ]
        parts: list[Traffic | Business] = [*traffic, Business(self.books, port)]
        self.counts["connections"] += sum(map(sum, (part.counts for part in traffic))) + 4
        in_order = self.random.random() < STOPPING
        cuts = [lambda: os.kill(pid, signal.SIGTERM)] if in_order else []
        cuts.append(lambda: self._kill(pid, "while stopping" if in_order else "while serving"))
        more = self.random.uniform(0, 0.1) if in_order else 0.0
        Container(Load(parts, self.random.uniform(0.02, 0.5), cuts, more)).run()
        for part in traffic:
            part.check_order()

    def _take_all(self, pid: int, port: int) -> None:
        """Check that consumers get exactly the messages of a browser, each once."""
        for queue in (*PLAIN, *TRANSACTED):
            there = browse(self.data, port, queue)
            taken = browse(self.data, port, queue, take=True)
            assert taken == there, f"{queue}: a consumer gets other messages than a browser"
            self.counts["messages taken at the end"] += len(taken)
        os.kill(pid, signal.SIGKILL)

    def _count(self) -> None:
        for promises in self.promises.values():
            for name in ("sent", "accepted", "settled"):
                self.counts[name] += len(getattr(promises, name))
        self.counts["transactions declared"] += self.books.declared
        self.counts["committed"] += self.books.commits
        self.counts["aborted"] += self.books.aborts


def run(kills: int, seed: str, log: Path | None) -> int:
    """Return the exit code: 1 after the first broken promise, whose data folder is retained. With a log that has epochs
    of this seed it continues after them."""
    earlier = logged([log]) if log is not None and log.exists() else {}
    done = [counts for name, counts in earlier.items() if name.startswith(f"{seed}:")]
    total = add_up(done)
    began, number = time.monotonic(), len(done)
    while total["kills"] < kills:
        folder = Path(tempfile.mkdtemp(prefix="headgate-kills-"))
        epoch = Epoch(folder / "data", f"{seed}:{number}", min(EPOCH_KILLS, kills - total["kills"]))
        try:
            epoch.run()
        except Broken as broken:
            print(f"epoch {epoch.seed}, after {total['kills'] + epoch.counts['kills']} kills: {broken}")
            print(f"its files: {folder}")
            return 1
        shutil.rmtree(folder)
        total += epoch.counts
        total["broken promises"] += 0
        if log is not None:
            with log.open("a") as lines:
                lines.write(json.dumps({"seed": epoch.seed, **epoch.counts}) + "\n")
        print(f"{time.monotonic() - began:6.0f} s: {total['kills']} kills", flush=True)
        number += 1
    show(total)
    return 0


def show(total: Counter[str]) -> None:
    for name, count in sorted(total.items()):
        print(f"{name:32} {count:12,}")
    print("Nothing accepted lost, nothing settled back, nothing out of order, no transaction by half.")


def logged(logs: list[Path]) -> dict[str, dict[str, int]]:
    """Seed of each epoch -> its counts."""
    epochs = {}
    for log in logs:
        for line in log.read_text().splitlines():
            epoch = json.loads(line)
            epochs[epoch.pop("seed")] = epoch
    return epochs


def add_up(epochs: Iterable[dict[str, int]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for epoch in epochs:
        total.update(epoch)
    return total


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.kills", description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", default=str(random.SystemRandom().randrange(10**6)), help="default: a random one")
    parser.add_argument("--log", type=Path, help="file that gets a line for each epoch")
    parser.add_argument("--sum", type=Path, nargs="+", metavar="LOG", help="add up logs, and kill nothing")
    options = parser.parse_args(argv)
    if options.sum:
        show(add_up(logged(options.sum).values()))
        return 0
    print(f"seed {options.seed}")
    return run(options.kills, options.seed, options.log)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
