"""What is read from a journal by its index: bodies, which messages there are, and which are damaged.

For the store of a running broker and for one that no process writes (`JournalReader`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path

from google_crc32c import value

from brokers.engine.ports import Place
from brokers.server.journal.message_index import MessageIndex
from brokers.server.journal.recovery import Found, recover
from brokers.server.journal.runs import Run
from brokers.server.message_groups import Entry
from brokers.server.sqlite_file import StoreError


class JournalReader:
    """The journal in a folder, which no process writes: nothing is changed. `names`: of its queues. `damaged`: messages
    that were missing or had a wrong checksum when they were loaded. Raises StoreError."""

    def __init__(self, folder: Path, found: Found | None = None) -> None:
        self.index = (found or recover(folder)).index
        self.names = self.index.names
        self.damaged: set[Place] = set()

    def load(self, queue: int, numbers: Sequence[int]) -> dict[int, bytes]:
        """Return the bodies of messages, by number, without missing and damaged ones. Raises StoreError."""
        bodies = load(self.index, queue, numbers, around=True)
        self.damaged.update((queue, number) for number in numbers if number not in bodies)
        return bodies

    def recover(self) -> Iterator[Entry]:
        """Yield every message, by queue and number."""
        return entries(self.index)

    def unreadable(self) -> list[str]:
        """Return a line for each file that the disk could not read everywhere."""
        files = [segment.file for segment in self.index.segments.values()]
        bad = [(min(file.unreadable), file.path) for file in files if file.unreadable]
        return [f"the disk cannot read byte {at:,} of {path}" for at, path in bad]

    def close(self) -> None:
        for segment in self.index.segments.values():
            segment.file.close()


def load(index: MessageIndex, queue: int, numbers: Sequence[int], *, around: bool) -> dict[int, bytes]:
    """Return the bodies of messages, by number, without missing and damaged ones; `around`: those that the disk cannot
    read are. Raises Unreadable for them otherwise; StoreError."""
    bodies: dict[int, bytes] = {}
    ascending = sorted(numbers)
    at, end = 0, len(ascending)
    with index.lock:  # so that no segment is used again meanwhile
        while at < end:
            run = index.run_with(queue, ascending[at])
            first, at = at, at + 1
            if run is not None:
                while at < end and run.has(ascending[at]):
                    at += 1
                file = run.segment.file
                bodies.update(_read(run, ascending[first:at], file.read_around if around else file.read))
    return bodies


def entries(index: MessageIndex) -> Iterator[Entry]:
    """Yield every message, by queue and number."""
    with index.lock:
        queues = index.queues()
    for queue in queues:
        with index.lock:
            of_queue = index.entries(queue)
        yield from of_queue


def _read(run: Run, numbers: Sequence[int], read: Callable[[int, int], bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield those of these messages of a run, ascending, whose bodies are as they were written. Raises StoreError."""
    count, first = run.put.count, run.put.first
    sizes_and_sums = memoryview(run.put.parts).cast("I")
    ends = list(accumulate(sizes_and_sums[:count], initial=0))
    begin = ends[numbers[0] - first]
    data = read(run.at + begin, ends[numbers[-1] - first + 1] - begin)
    for number in numbers:
        at = number - first
        body = data[ends[at] - begin : ends[at + 1] - begin]
        if len(body) == sizes_and_sums[at] and value(body) == sizes_and_sums[count + at]:
            yield number, body


def damaged_messages(path: Path, found: Found | None = None) -> Iterator[str]:
    """Read all bodies of a journal that no process writes; yield a line, which names the folder, for each that is not
    as it was written."""
    try:
        index = (found or recover(path)).index
        for segment in index.segments.values():
            for run in sorted(segment.runs, key=lambda each: each.at):
                numbers = [number for _, number, *_ in run.entries()]
                sound = {number for number, _ in _read(run, numbers, run.segment.file.read_around)}
                for number in numbers:
                    if number not in sound:
                        yield f"{path}: message {number} of queue number {run.put.queue} is not as it was written"
            segment.file.close()
    except StoreError as error:
        yield str(error)
