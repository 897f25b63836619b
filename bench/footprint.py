"""Measurements on a single broker in a new process: many queues, and memory per object."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from figures import Figures
from measured import Broker, Failed, load
from steps import steps

EACH = 10  # messages of each queue
WIRES = 10  # connections that the queues' links are spread over
QUIET_MS = 120_000
WARM = 2000


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
        with steps(programs / "many", broker, "idle", quiet=QUIET_MS, connections=scale.connections, queues=0) as many:
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
        scale_options = {"connections": WIRES, "queues": queues, "each": EACH, "size": 100}
        with steps(programs / "many", broker, "many", quiet=QUIET_MS, **scale_options) as many:
            many.next("opened")
            create.add(title, many.next("created")["seconds"])
            empty.add(title, (broker.memory() - base) / queues / 1024)
            at = fill
            fill.add(title, many.next("filled")["seconds"])
            full.add(title, (broker.memory() - base) / 2**20)
            at = drain
            drain.add(title, many.next("drained")["seconds"])
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
