"""Power cuts at any moment: everything confirmed before a cut is present after the next start.

`uv run python -m tests.faults.power --cuts 300 --seed 1`. A broker under durable load has all that it does to its files
written down (`file_log.c`). Clients note with each confirmation how long that log was when they heard of it. Then the
log is played up to many moments, above all around syncs; what had not been synced survives in part (`disk.py`), and a
broker is started on it. It must start, and the promises of kills (`kills.py`) hold for all that was confirmed while the
log was no longer than that: messages, settlements, transactions, and the operator's changes. The journal can be read,
its numbers have no gap, and it knows each event up to some number.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from proton import Event
from proton.handlers import MessagingHandler
from proton.reactor import Container

from brokers.admin import AdminError
from brokers.drivers.bundled import BundledBroker
from brokers.model import object_name
from brokers.server.event_journal import EventJournal
from tests.faults.disk import Disk, Operation, read_log
from tests.faults.nursery import nursery
from tests.faults.queues import browse, set_up
from tests.faults.traffic import Promises, Traffic
from tests.faults.transacted import Books, Business

PLAIN = ("q",)
TRANSACTED = ("in", "book", "out")
SIZES = (0, 10, 3_000, 40_000)
CHANGED = "ruled"


class Broken(Exception):
    """A broken promise."""


class Noted(set[Any]):
    """A set that knows how long the log was when each was added to it."""

    def __init__(self, log: Path) -> None:
        super().__init__()
        self.log = log
        self.at: dict[Any, int] = {}

    def add(self, each: Any) -> None:
        if each not in self:
            self.at[each] = self.log.stat().st_size
            super().add(each)

    def __ior__(self, others: Iterable[Any]) -> Noted:  # type: ignore[override,misc]
        for each in others:
            self.add(each)
        return self

    def by(self, length: int) -> set[Any]:
        """Those that were added when the log was no longer than that."""
        return {each for each in self if self.at[each] <= length}

    def before(self, length: int) -> set[Any]:
        return {each for each in self if self.at[each] < length}


class Operator(threading.Thread):
    """Creates and deletes queues and changes a policy, one after the other, until the broker ends."""

    def __init__(self, data: Path, port: int, log: Path) -> None:
        super().__init__()
        self.data, self.port = data, port
        self.created, self.deleting, self.deleted = Noted(log), Noted(log), Noted(log)
        self.requested, self.changed = Noted(log), Noted(log)  # capacities

    def run(self) -> None:
        with suppress(AdminError):
            asyncio.run(self._work())

    async def _work(self) -> None:
        secret = (self.data / "console.secret").read_text().strip()
        broker = await BundledBroker.connect("127.0.0.1", self.port, "console", secret, timeout=60)
        ruled = object_name("Queue", virtualhost="default", name=CHANGED)
        version = (await broker.create(ruled, {"capacity_messages": 1})).version
        self.changed.add(1)
        for number in range(2, 10_000):
            await broker.create(_queue(number), {})
            self.created.add(number)
            self.requested.add(number)
            version = (await broker.update(ruled, {"capacity_messages": number}, version)).version
            self.changed.add(number)
            if number > 4:
                self.deleting.add(number - 3)
                await broker.delete(_queue(number - 3))
                self.deleted.add(number - 3)

    def check(self, length: int, capacities: dict[str, int | None]) -> None:
        """`capacities`: of the queues that are there after a cut at this length of the log."""
        there = {int(name.removeprefix("made-")) for name in capacities if name.startswith("made-")}
        assert not self.created.by(length) - self.deleting.before(length) - there, "a created queue is gone"
        assert not there & self.deleted.by(length), "a deleted queue is there again"
        confirmed = max(self.changed.by(length), default=0)
        if confirmed:
            found = capacities.get(CHANGED)
            assert found is not None, "the changed queue is gone"
            assert found >= confirmed, f"a change is gone: {found} for {confirmed}"


def _queue(number: int) -> Any:
    return object_name("Queue", virtualhost="default", name=f"made-{number}")


class Load(MessagingHandler):  # type: ignore[misc]
    """All clients for `seconds`, then the broker is killed."""

    def __init__(self, parts: list[Any], seconds: float, pid: int) -> None:
        super().__init__()
        self.parts, self.seconds, self.pid = parts, seconds, pid

    def on_start(self, event: Event) -> None:
        for part in self.parts:
            part.start(event.container)
        event.container.schedule(self.seconds, self)

    def on_timer_task(self, event: Event) -> None:
        os.kill(self.pid, 9)
        for part in self.parts:
            part.close()


@dataclass
class Recording:
    """A broker's file operations, and the confirmations of its clients meanwhile."""

    root: Path
    log: Path
    operations: list[Operation]
    promises: dict[str, Promises]
    books: Books
    operator: Operator

    def check(self, length: int, found: dict[str, list[Any]], capacities: dict[str, int | None]) -> None:
        """Raises AssertionError. `length`: of the log at the cut."""
        for queue, noted in self.promises.items():
            promises = Promises(
                sent=noted.sent,
                accepted=noted.accepted.by(length),  # type: ignore[attr-defined]
                rejected=noted.rejected,
                taken=noted.taken.before(length),  # type: ignore[attr-defined]
                settled=noted.settled.by(length),  # type: ignore[attr-defined]
            )
            promises.check(found[queue])
        books = Books(
            committed=self.books.committed.by(length),  # type: ignore[attr-defined]
            undone=self.books.undone,
            moved=self.books.moved.by(length),  # type: ignore[attr-defined]
            wholes=self.books.wholes,
        )
        books.check({queue: found[queue] for queue in TRANSACTED})
        self.operator.check(length, capacities)


def compiled(folder: Path) -> Path:
    """Compile the library that logs a process's file operations."""
    library = folder / "file_log.so"
    source = Path(__file__).with_name("file_log.c")
    command = ["gcc", "-Wall", "-O1", "-shared", "-fPIC", "-D_LARGEFILE64_SOURCE", "-o", str(library), str(source)]
    subprocess.run(command, check=True)
    return library


def record(folder: Path, seconds: float, segment_bytes: int) -> Recording:
    """A broker's first start, and its load, which begins with the second one."""
    root, log = folder.resolve() / "recorded", folder.resolve() / "file.log"
    root.mkdir()
    log.touch()
    environment = {"LD_PRELOAD": str(compiled(folder)), "FILE_LOG_ROOT": str(root), "FILE_LOG": str(log)}
    data = root / "data"
    promises = {queue: Promises(accepted=Noted(log), taken=Noted(log), settled=Noted(log)) for queue in PLAIN}
    books = Books(committed=Noted(log), moved=Noted(log))
    with nursery(data, segment_bytes=segment_bytes, environment=environment) as brokers:
        set_up(brokers, data, *PLAIN, *TRANSACTED, capacity=100_000)
        pid, port = brokers.start()
        operator = Operator(data, port, log)
        operator.start()
        parts: list[Any] = [Traffic(promises[q], port, producers=3, consumers=2, size=SIZES, queue=q) for q in PLAIN]
        Container(Load([*parts, Business(books, port)], seconds, pid)).run()
        operator.join()
    return Recording(root, log, list(read_log(log)), promises, books, operator)


def moments(operations: list[Operation], cuts: int, chance: random.Random) -> list[int]:
    """Numbers of operations after which the power is cut, ascending: most of them just before or after a sync."""
    syncs = [n for n, each in enumerate(operations) if each.kind == "s"]
    around = [max(0, chance.choice(syncs) - chance.randint(0, 1)) for _ in range(cuts * 2 // 3)]
    return sorted([*around, *(chance.randrange(len(operations)) for _ in range(cuts - len(around)))])


async def _capacities(data: Path, port: int) -> dict[str, int | None]:
    """Of each queue."""
    secret = (data / "console.secret").read_text().strip()
    broker = await BundledBroker.connect("127.0.0.1", port, "console", secret, timeout=60)
    found = dict[str, int | None]()
    while (page := await broker.query("Queue", offset=len(found))).items:
        found |= {str(each["name"]): each["capacity_messages"] for each in page.items}
    await broker.close()
    return found


def _events(data: Path) -> int:
    """How many the journal has, once its broker has ended; their numbers have no gap."""
    journal = EventJournal(data / "events.sqlite3")
    events = journal.read(journal.first - 1, 1_000_000)
    journal.close()
    numbers = [event.number for event in events]
    assert numbers == list(range(journal.first, journal.last + 1)), "the journal has a gap"
    return len(events)


@dataclass
class Cutter:
    recording: Recording
    folder: Path
    segment_bytes: int
    counts: Counter[str] = field(default_factory=Counter)

    def cut_all(self, cuts: int, seed: str) -> Counter[str]:
        """Raises Broken."""
        chance = random.Random(seed)
        operations, done = self.recording.operations, 0
        disk = Disk(str(self.recording.root))
        for number, moment in enumerate(moments(operations, cuts, chance)):
            for operation in operations[done : moment + 1]:
                disk.apply(operation)
            done = max(done, moment + 1)
            survives = chance.choice((0.0, 0.1, 0.5, 0.9))
            folder = self.folder / f"cut-{number}"
            folder.mkdir()
            disk.cut(folder, chance, survives)
            try:
                self._start(folder / "data", operations[moment].end)
            except (AssertionError, AdminError, OSError) as error:
                said = (self.folder / "stderr").read_text(errors="replace")
                what = operations[moment]
                raise Broken(
                    f"cut {number} after operation {moment} ({what.kind} {what.path}),"
                    f" {survives:g} of the rest survives;"
                    f" its files: {folder}: {type(error).__name__}: {error}\n{said}"
                ) from error
            shutil.rmtree(folder)
            self.counts["cuts"] += 1
            self.counts[f"cuts after which {survives:4.0%} of what was not synced survives"] += 1
        return self.counts

    def _start(self, data: Path, length: int) -> None:
        with (
            (self.folder / "stderr").open("wb") as errors,
            nursery(data, segment_bytes=self.segment_bytes, errors=errors) as brokers,
        ):
            pid = brokers.begin()
            port = brokers.ready(pid, 60)
            assert port, "the broker does not start"
            capacities = asyncio.run(_capacities(data, port))
            found = {q: browse(data, port, q) if q in capacities else [] for q in (*PLAIN, *TRANSACTED)}
            self.recording.check(length, found, capacities)
            self.counts["messages found"] += sum(map(len, found.values()))
            self.counts["queues found"] += len(capacities)
        self.counts["events found"] += _events(data)


def run(cuts: int, seed: str, seconds: float, folder: Path) -> Counter[str]:
    """Raises Broken."""
    segment_bytes = 1 << 20
    recording = record(folder, seconds, segment_bytes)
    counts = Cutter(recording, folder, segment_bytes).cut_all(cuts, seed)
    counts["operations written down"] = len(recording.operations)
    counts["syncs among them"] = sum(each.kind == "s" for each in recording.operations)
    counts["messages accepted"] = sum(len(each.accepted) for each in recording.promises.values())
    counts["transactions committed"] = recording.books.commits
    counts["changes by the operator"] = sum(
        len(each) for each in (recording.operator.created, recording.operator.changed, recording.operator.deleted)
    )
    return counts


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.power", description=str(__doc__).splitlines()[0])
    parser.add_argument("--cuts", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=3.0, help="of load (default: %(default)s)")
    parser.add_argument("--seed", default=str(random.SystemRandom().randrange(10**6)), help="default: a random one")
    options = parser.parse_args(argv)
    print(f"seed {options.seed}")
    folder = Path(tempfile.mkdtemp(prefix="headgate-power-"))
    try:
        counts = run(options.cuts, options.seed, options.seconds, folder)
    except Broken as broken:
        print(f"BROKEN: {broken}")
        return 1
    shutil.rmtree(folder)
    for name, count in sorted(counts.items()):
        print(f"{name:50} {count:12,}")
    print("All that was confirmed before the cut was there after it.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
