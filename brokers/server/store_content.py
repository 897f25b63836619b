"""What a survey finds in a message store (`StoreFile`), whichever release has written it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from brokers.server.journal.recovery import Found
from brokers.server.journal.stamp_file import Stamp


@dataclass(frozen=True, slots=True)
class StoredQueue:
    """Messages in a store by the number of their queue. `name`: its name in the store, if known."""

    number: int
    name: str
    messages: int
    bytes: int


@dataclass(slots=True)
class Extent:
    """How the messages of an earlier release's store are stored, which determines the size of a journal.
    `alone`: messages in rows of their own, or left of a run. `runs`: that are as they were written, or unreadable.
    `largest`: bytes of the largest message."""

    alone: int = 0
    runs: int = 0
    largest: int = 0


@dataclass(slots=True)
class StoreFile:
    """The content of one message store. `listed`: its queues, of a journal once they were needed. `error`: why it
    cannot be read; then the rest is unknown. `damage`: why `queues` may be incomplete, or have messages that were
    removed. `blank`: nothing has been written to it yet.
    `is_later`: a later release has written it. `found`: of a journal, what was read, so that a start reads it once.
    `extent`: of a store of an earlier release."""

    path: Path
    virtualhost: str
    stamp: Stamp | None = None
    listed: dict[int, StoredQueue] = field(default_factory=dict)
    error: str = ""
    damage: list[str] = field(default_factory=list)
    blank: bool = False
    is_later: bool = False
    found: Found | None = None
    extent: Extent = field(default_factory=Extent)

    @property
    def queues(self) -> dict[int, StoredQueue]:
        """The queues that have messages. To count those takes some time in a large store."""
        if self.found is not None and not self.listed:
            index = self.found.index
            for queue in index.queues():
                self.listed[queue] = StoredQueue(queue, index.names.get(queue, ""), *index.totals(queue))
        return self.listed

    @property
    def messages(self) -> int:
        return sum(queue.messages for queue in self.queues.values())

    @property
    def holds(self) -> bool:
        """Whether it has messages, or may have."""
        return bool(self.damage or self.listed or (self.found is not None and self.found.index.queues()))

    @property
    def last_queue(self) -> int:
        """The highest queue number that it has used."""
        used = self.found.index.last_queue if self.found is not None else 0
        return max([self.stamp.last_queue if self.stamp else 0, used, *self.listed])
