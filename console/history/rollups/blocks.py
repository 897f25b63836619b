"""Blocks of one broker's producers, from events in order: rows of the table `holds`. Pure.

A block starts with `producer-blocked`. It ends with the first of: the producer's release or detach, the end of its
connection, evidence that its queue blocks no producer, the broker's restart. After a restart it is known only that it
ended later than the last recorded moment before, which is the end that it gets. `pipeline/blocks.py` computes the same
from stored rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from console.history.rollups.recorded_time import RecordedTime

#: Virtual host and name.
Queue = tuple[str | None, str | None]
Bounds = tuple[int, int | None]
#: Producer, virtual host, queue: it has one ongoing block at a time.
_Subject = tuple[str, str | None, str | None]
RESTART = "broker-ready"


@dataclass(slots=True)
class Block:
    """One block; times in ms. `found_at`: time of the event that ended it. `ends`: whose ends were found at that time:
    `producer`, `connection`, `queue`, `broker`; the first of each counts, and the first cause by name is given."""

    producer: str
    virtualhost: str | None
    queue: str | None
    client: str | None
    link: str | None
    connection: str | None
    channel: str | None
    reasons: list[str] | None
    start: int
    end: int | None = None
    ended_by: str | None = None
    found_at: int | None = None
    ends: list[str] = field(default_factory=list)

    @property
    def subject(self) -> _Subject:
        return self.producer, self.virtualhost, self.queue

    @property
    def label(self) -> str:
        """The producer's name for people: the `name` of its rollups."""
        who = self.client if self.client is not None else self.connection
        link = self.link if self.link is not None else self.channel
        return " ".join(part for part in (self.producer if who is None else who, link) if part is not None)

    def state(self) -> list[Any]:
        """Return the arguments of an equal one, for JSON."""
        return [getattr(self, each.name) for each in fields(self)]

    def row(self, broker: str) -> dict[str, Any]:
        return {
            "broker": broker,
            "virtualhost": self.virtualhost,
            "queue": self.queue,
            "producer": self.producer,
            "client": self.client,
            "link": self.link,
            "connection": self.connection,
            "channel": self.channel,
            "reasons": self.reasons,
            "start": self.start,
            "end": self.end,
            "ended_by": None if self.end is None else self.ended_by,
        }


class Blocks:
    """The ongoing blocks and the last closed ones. `changed`: blocks with changed bounds, by identity, each with its
    former bounds, or None for a new one; the owner clears it."""

    def __init__(self, recorded: RecordedTime) -> None:
        self._recorded = recorded
        self.closed: list[Block] = []
        self.changed: dict[int, tuple[Block, Bounds | None]] = {}
        self._open: dict[_Subject, Block] = {}
        self._open_of: dict[tuple[Any, ...], dict[_Subject, Block]] = {}
        self._of_queue: dict[Queue, list[Block]] = {}
        self._free_at: dict[Queue, int] = {}  # the last evidence that a queue blocks no producer
        self._ended: dict[_Subject, Block] = {}  # at `_now`
        self._now: int | None = None

    def __iter__(self) -> Iterator[Block]:
        yield from self.closed
        yield from self._open.values()

    def of_queue(self, queue: Queue) -> list[Block]:
        """Return the blocks by that queue."""
        return self._of_queue.get(queue, [])

    def take_event(self, row: Mapping[str, Any]) -> None:
        """Take an event. Events and samples are in order of time, samples first, and sequence."""
        kind, at, get = row["kind"], row["at"], row.get
        if kind == RESTART:
            self._end(("broker",), at, kind)
        elif kind == "connection-closed":
            if get("connection") is not None:
                self._end(("connection", get("connection")), at, kind)
        elif kind in ("producer-released", "producer-detached"):
            self._end(("producer", _producer(row)), at, kind)
        blocked = get("blocked_producers")
        if kind == "queue-deleted" or blocked == 0 or (kind == "queue-underfull" and blocked is None):
            self.free(at, (get("virtualhost"), get("queue")), kind)
        if kind == "producer-blocked":
            self._begin(row)

    def free(self, at: int, queue: Queue, what: str = "seen") -> None:
        """Take evidence that a queue blocks no producer: an event, or a sample of all queues."""
        if None not in queue:
            self._free_at[queue] = max(at, self._free_at.get(queue, at))
            self._end(("queue", *queue), at, what)

    def add(self, block: Block) -> None:
        """Add a block: a new one, or one of a snapshot."""
        self._of_queue.setdefault((block.virtualhost, block.queue), []).append(block)
        if block.end is not None:
            self.closed.append(block)
            return
        self._open[block.subject] = block
        for group in _groups(block):
            self._open_of.setdefault(group, {})[block.subject] = block

    def end_batch(self) -> None:
        """Note that all rows up to the time of the last one have been taken."""
        self._now, self._ended = None, {}

    def forget(self, before: int, needed: Callable[[Block], bool]) -> None:
        """Forget blocks that ended before that time, unless they are `needed`."""
        remaining: list[Block] = []
        gone: list[Block] = []
        for block in self.closed:
            ended = block.end is not None and block.end < before
            (gone if ended and not needed(block) else remaining).append(block)
        self.closed = remaining
        for block in gone:
            self._remove(block)
        self._free_at = {queue: at for queue, at in self._free_at.items() if at >= before}

    def _begin(self, row: Mapping[str, Any]) -> None:
        get = row.get
        reasons = get("reasons")
        block = Block(
            _producer(row),
            get("virtualhost"),
            get("queue"),
            get("client"),
            get("link"),
            get("connection"),
            get("channel"),
            None if reasons is None else list(reasons),
            row["at"],
        )
        if block.subject in self._open or block.start < self._free_at.get((block.virtualhost, block.queue), 0):
            return
        earlier = self._ended.get(block.subject)
        if earlier is not None and earlier.start == block.start == self._now:  # ended and began again: one block
            self.changed.setdefault(id(earlier), (earlier, (earlier.start, earlier.end)))
            del self._ended[block.subject]
            self.closed.remove(earlier)
            self._remove(earlier)
            earlier.end = None
            self.add(earlier)
        else:
            self.add(block)
            self.changed[id(block)] = (block, None)

    def _end(self, group: tuple[Any, ...], at: int, what: str) -> None:
        if at != self._now:
            self._now, self._ended = at, {}
        by = group[0]
        for block in self._ended.values():
            if by not in block.ends and group in _groups(block):
                self._close(block, at, by, what)
        for block in list(self._open_of.get(group, {}).values()):
            if block.start > at:
                continue  # a late end, of an earlier block
            subject = block.subject
            del self._open[subject]
            for each in _groups(block):
                del self._open_of[each][subject]
                if not self._open_of[each]:
                    del self._open_of[each]
            self._close(block, at, by, what)
            earlier = self._ended.get(subject)
            if earlier is None:
                self._ended[subject] = block
                self.closed.append(block)
            else:  # ended twice at the same time: one block
                self._close(earlier, at, by, what)
                self._remove(block)
                del self.changed[id(block)]

    def _close(self, block: Block, at: int, by: str, what: str) -> None:
        self.changed.setdefault(id(block), (block, (block.start, block.end)))
        if block.found_at != at:
            block.ends, block.ended_by = [], None
        block.ends.append(by)
        block.ended_by = what if block.ended_by is None else min(block.ended_by, what)
        block.end = block.found_at = at
        if block.ended_by == RESTART:
            block.end = self._recorded.last_until(at, block.start)

    def _remove(self, block: Block) -> None:
        queue = (block.virtualhost, block.queue)
        self._of_queue[queue] = [other for other in self._of_queue[queue] if other is not block]
        if not self._of_queue[queue]:
            del self._of_queue[queue]


def _groups(block: Block) -> tuple[tuple[Any, ...], ...]:
    """Return what can end a block."""
    return (
        ("producer", block.producer),
        ("connection", block.connection),
        ("queue", block.virtualhost, block.queue),
        ("broker",),
    )


def _producer(row: Mapping[str, Any]) -> str:
    """Return a producer's identity: the managed object's name, or a log's connection and channel."""
    name: str | None = row.get("object")
    if name is not None:
        return name
    return "/".join(part for part in (row.get("connection"), row.get("channel")) if part is not None)
