"""The units of writing to the message store: groups, their changes, and the transactions in them."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from brokers.engine.ports import Place
from brokers.server.sqlite_file import StoreError

#: Values in a row: queue, number, body and expiry of a message.
COLUMNS = 4

#: Bytes that a message is taken to have on the disk besides its body.
MESSAGE_BYTES = 32

Body = bytes

#: Messages with successive numbers: (queue, first number, bodies).
Run = tuple[int, int, Sequence[Body]]

#: Of a stored message: (queue, number, size in bytes, failed deliveries, expiry in ms or 0).
Entry = tuple[int, int, int, int, int]


@dataclass(slots=True)
class Changes:
    """Changes to stored messages: numbers removed, (queue, number) -> failed deliveries, queues dropped;
    `moved`: (queue, number) -> its new row, without failed deliveries. A message is moved before other changes at its
    new place. `purged`: (queue, numbers removed, in order), each of any number of messages. `named`: queue -> its name;
    written with the next group that has other changes."""

    removed: dict[int, set[int]] = field(default_factory=dict)
    failed: dict[tuple[int, int], int] = field(default_factory=dict)
    dropped: list[int] = field(default_factory=list)
    moved: dict[Place, tuple[int | bytes, ...]] = field(default_factory=dict)
    purged: list[tuple[int, array[int]]] = field(default_factory=list)
    named: dict[int, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.removed or self.failed or self.dropped or self.moved or self.purged)

    def add(self, later: Changes) -> None:
        for queue, numbers in later.removed.items():
            self.removed.setdefault(queue, set()).update(numbers)
        self.failed.update(later.failed)
        self.dropped += later.dropped
        self.purged += later.purged
        self.moved.update(later.moved)
        self.named.update(later.named)


@dataclass(slots=True, kw_only=True)
class Messages:
    """Messages that are written together. `rows`: `COLUMNS` values of each message, flat. `runs`: further messages,
    arranged by the writer, so that the loop does not wait for that."""

    rows: list[int | bytes] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    open: list[Body] | None = None  # the last run's bodies, if `put` made it
    next: Place = (0, 0)  # follows it

    def put(self, queue: int, number: int, body: Body) -> None:
        """Add a message that does not expire, to the last run if it follows it."""
        if self.next == (queue, number) and self.open is not None:
            self.open.append(body)
        else:
            self.open = [body]
            self.runs.append((queue, number, self.open))
        self.next = queue, number + 1

    def put_run(self, queue: int, first: int, bodies: Sequence[Body]) -> None:
        """Add messages that do not expire and have successive numbers."""
        self.open = None
        self.runs.append((queue, first, bodies))


@dataclass(slots=True)
class Whole(Messages):
    """A client's transaction with this number, written completely or not at all."""

    transaction: int
    changes: Changes = field(default_factory=Changes)


@dataclass(slots=True)
class Group(Messages):
    """Messages and changes that are written together. `bytes`: of all messages, those of transactions included;
    `disk_bytes`: their approximate disk space."""

    ticket: int
    bytes: int = 0
    disk_bytes: int = 0
    changes: Changes = field(default_factory=Changes)
    wholes: list[Whole] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.rows or self.runs or self.changes or self.wholes)

    @property
    def messages(self) -> int:
        """Number of messages, without those of transactions."""
        return len(self.rows) // COLUMNS + sum(len(bodies) for _, _, bodies in self.runs)


@dataclass(frozen=True, slots=True)
class Written:
    """The result of the group with this ticket and number of messages. `fault`: None if they are safe, else why none of
    them is stored. `removed`: every change up to and including this group's is safe. `unfinished`: there is more to do
    even without a new group. `refused`: the numbers of transactions that were not written, and why; all others of
    the group are safe."""

    ticket: int
    messages: int
    fault: StoreError | None
    removed: bool
    unfinished: bool
    refused: Mapping[int, StoreError] = field(default_factory=dict)
