"""Measurements on a single broker in a new process: many queues, and memory per object."""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from figures import Figures
from measured import Broker, Failed, client_command, load

EACH = 10  # messages of each queue
WIRES = 10  # connections that the queues' links are spread over
LIMIT_SECONDS = 600
QUIET_MS = 120_000
WARM = 2000


class Steps:
    """The client `many` at work: it waits after each step for a line on its input."""

    def __init__(self, process: subprocess.Popen[str], title: str) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._title = title
        self._process = process
        self._to: IO[str] = process.stdin
        self._from: IO[str] = process.stdout
        self._at_rest = False

    def next(self, step: str) -> float:
        """Run the next step; return its seconds. Raises Failed if it was not completed."""
        if self._at_rest:
            with contextlib.suppress(BrokenPipeError):
                self._to.write("\n")
                self._to.flush()
        line = self._from.readline()
        if not line:
            self._process.wait()
            said = (self._process.stderr.read() if self._process.stderr else "").strip()
            raise Failed(f"{self._title}: {said or f'not done after {LIMIT_SECONDS} s'}")
        done: dict[str, Any] = json.loads(line)
        assert done["step"] == step
        self._at_rest = True
        return float(done["seconds"])


@contextlib.contextmanager
def steps(programs: Path, broker: Broker, queue: str, **options: int | bool) -> Iterator[Steps]:
    command = client_command(programs / "many", broker, queue, quiet=QUIET_MS, **options)
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        limit = threading.Timer(LIMIT_SECONDS, process.kill)
        limit.start()
        try:
            yield Steps(process, broker.title)
        finally:
            limit.cancel()
            process.kill()


@dataclass(frozen=True)
class Scale:
    queues: int
    connections: int
    messages: int


def take_connections(programs: Path, title: str, broker: Broker, figures: Figures, scale: Scale) -> None:
    row = figures.row("memory of an idle connection, KiB", digits=1)
    try:
        load(programs, broker, "warm", count=WARM)
        base = broker.memory()
        with steps(programs, broker, "idle", connections=scale.connections, queues=0) as many:
            many.next("opened")
            row.add(title, (broker.memory() - base) / scale.connections / 1024)
    except Failed as why:
        figures.failed(row, title, why)


def take_queues(programs: Path, title: str, broker: Broker, figures: Figures, scale: Scale) -> None:
    queues = scale.queues
    create, fill, drain = (
        figures.row(f"{queues:,} queues: {what}, s", digits=1)
        for what in ("create", f"{EACH} messages into each", "drain")
    )
    empty = figures.row("memory of an empty queue, KiB", digits=1)
    full = figures.row(f"memory for {queues:,} queues with {EACH} messages of 100 B each, MiB")
    at = create
    try:
        load(programs, broker, "warm", count=WARM)
        base = broker.memory()
        with steps(programs, broker, "many", connections=WIRES, queues=queues, each=EACH, size=100) as many:
            many.next("opened")
            create.add(title, many.next("created"))
            empty.add(title, (broker.memory() - base) / queues / 1024)
            at = fill
            fill.add(title, many.next("filled"))
            full.add(title, (broker.memory() - base) / 2**20)
            at = drain
            drain.add(title, many.next("drained"))
    except Failed as why:
        figures.failed(at, title, why)


def take_messages(programs: Path, title: str, broker: Broker, figures: Figures, scale: Scale) -> None:
    row = figures.row("memory of a waiting message of 1 KiB, bytes")
    messages = scale.messages
    try:
        load(programs, broker, "warm", count=WARM)
        base = broker.memory()
        done = load(programs, broker, "waiting", receivers=0, count=messages, size=1024, quiet=20_000)
        if done["accepted"] != messages:
            raise Failed(f"{title}: {done['accepted']:,} of {messages:,} accepted")
        row.add(title, (broker.memory() - base) / messages)
    except Failed as why:
        figures.failed(row, title, why)


#: Each wants a process of its own: memory that another had freed would serve again, and not be seen.
STEPS = (take_connections, take_queues, take_messages)
