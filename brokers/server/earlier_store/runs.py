"""Runs: messages with successive numbers that are stored in one row, their bodies together in another.

SQLite's work, and how often the writer must reacquire Python's lock, depend on the number of rows: a run costs as much
as two single messages. A run is for messages that do not expire. Its row never changes but for its state: the messages
that are gone, and the failed deliveries of the others. What a start reads is in that row, and has a checksum (two: the
state has its own); each body has one, too, so that a damaged one costs no other.
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from zlib import crc32

from brokers.server.message_groups import Entry
from brokers.server.sqlite_file import is_damage

#: Maximum number of messages in a run.
RUN_MESSAGES = 256

#: `size`: total bytes of the bodies. `parts`: the sizes of the bodies, followed by their
#: checksums. `state`: see `State`.
TABLES = (
    "CREATE TABLE run (id INTEGER PRIMARY KEY, queue INTEGER NOT NULL, first INTEGER NOT NULL, count INTEGER NOT NULL,"
    " size INTEGER NOT NULL, state BLOB NOT NULL, mark INTEGER NOT NULL, parts BLOB NOT NULL)",
    "CREATE INDEX run_place ON run (queue, first)",
    "CREATE TABLE run_bodies (id INTEGER PRIMARY KEY, bodies BLOB NOT NULL)",
)

#: Cast, since a flipped bit may change a value's type, and text that is none cannot be read.
SELECT_RUN = (
    "SELECT id, CAST(queue AS INTEGER), CAST(first AS INTEGER), CAST(count AS INTEGER), CAST(size AS INTEGER),"
    " CAST(state AS BLOB), CAST(mark AS INTEGER), CAST(parts AS BLOB) FROM run"
)
INSERT_RUN = "INSERT INTO run VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
SELECT_BODIES = "SELECT CAST(bodies AS BLOB) FROM run_bodies WHERE id = ?"
INSERT_BODIES = "INSERT INTO run_bodies VALUES (?, ?)"

_PLACE = struct.Struct("<qqqqq").pack
_ROW = struct.Struct("<q").pack
_SUM = struct.Struct("<I")
_FAILED = struct.Struct("<BI")

#: Bytes that are read at once of bodies that cannot be read in one piece.
_PIECE = 1024


def run_mark(place: Sequence[int], parts: bytes) -> int:
    """Return the checksum of a run's row without its state. `place`: its first five columns."""
    return crc32(parts, crc32(_PLACE(*place)))


@dataclass(slots=True)
class State:
    """What has become of the messages of a run. `gone`: a bit for each that was removed. `failed`: the failed
    deliveries of others, by position."""

    gone: int
    failed: dict[int, int]

    def pack(self, row: int, count: int) -> bytes:
        if not self.gone and not self.failed:
            return b""
        failed = b"".join(_FAILED.pack(at, times) for at, times in self.failed.items() if not self.gone >> at & 1)
        content = self.gone.to_bytes((count + 7) // 8, "little") + failed
        return _SUM.pack(crc32(content, crc32(_ROW(row)))) + content

    @classmethod
    def unpack(cls, row: int, count: int, packed: bytes) -> State:
        """Raises ValueError if it is not as it was written."""
        if not packed:
            return cls(0, {})
        content, bits = packed[_SUM.size :], (count + 7) // 8
        if count < 1 or len(content) < bits or (len(content) - bits) % _FAILED.size:
            raise ValueError("length")
        if _SUM.unpack_from(packed)[0] != crc32(content, crc32(_ROW(row))):
            raise ValueError("state")
        return cls(int.from_bytes(content[:bits], "little"), dict(_FAILED.iter_unpack(content[bits:])))


@dataclass(frozen=True, slots=True)
class Run:
    """A run without its bodies. `parts`: the sizes of the bodies, followed by their checksums."""

    row: int
    queue: int
    first: int
    count: int
    size: int
    state: State
    parts: tuple[int, ...]

    @classmethod
    def read(cls, columns: Sequence[object]) -> Run:
        """Parse a row of `SELECT_RUN`, which may contain anything. Raises ValueError if it is not as it was written."""
        *place, state, mark, parts = columns
        if not (isinstance(state, bytes) and isinstance(parts, bytes) and len(parts) <= 8 * RUN_MESSAGES):
            raise ValueError("types")
        try:
            if mark != run_mark(place, parts):  # type: ignore[arg-type]
                raise ValueError("mark")
        except struct.error as error:
            raise ValueError("place") from error
        row, _, _, count, _ = place
        return cls(*place, State.unpack(row, count, state), struct.unpack(f"<{2 * count}I", parts))  # type: ignore

    def has(self, number: int) -> bool:
        at = number - self.first
        return 0 <= at < self.count and not self.state.gone >> at & 1

    @property
    def end(self) -> int:
        """The number behind its last message; those of removed ones may have been assigned again."""
        left = ((1 << self.count) - 1) & ~self.state.gone
        return self.first + left.bit_length()

    def entries(self) -> Iterator[Entry]:
        """Yield its messages, ascending."""
        queue, gone, failed = self.queue, self.state.gone, self.state.failed
        if not gone and not failed:
            for number, size in enumerate(self.parts[: self.count], self.first):
                yield queue, number, size, 0, 0
            return
        for at, size in enumerate(self.parts[: self.count]):
            if not gone >> at & 1:
                yield queue, self.first + at, size, failed.get(at, 0), 0

    def bodies(self, stored: object, numbers: Iterable[int]) -> Iterator[tuple[int, bytes]]:
        """Yield those of these messages, all of which it has, whose bodies are as they were written. `stored`: what its
        row of bodies contains, or as much as can be read."""
        if not isinstance(stored, bytes):
            return
        ends = list(accumulate(self.parts[: self.count]))
        for number in numbers:
            at = number - self.first
            body = stored[ends[at] - self.parts[at] : ends[at]]
            if len(body) == self.parts[at] and crc32(body) == self.parts[self.count + at]:
                yield number, body


def run_with(db: sqlite3.Connection, queue: int, number: int) -> Run | None:
    """Return the run that has the message, if any."""
    found = db.execute(
        f"{SELECT_RUN} WHERE queue = ? AND first <= ? ORDER BY first DESC, id DESC LIMIT 1", (queue, number)
    ).fetchone()
    with suppress(ValueError):
        if found and (run := Run.read(found)).has(number):
            return run
    return None


def stored_bodies(db: sqlite3.Connection, row: int) -> object:
    """Return what a run's row of bodies contains, up to a page that cannot be read; None if there is none."""
    try:
        found = db.execute(SELECT_BODIES, (row,)).fetchone()
        return found[0] if found else None
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        return readable_bodies(db, row)


def readable_bodies(db: sqlite3.Connection, row: int) -> bytes:
    """Return what a run's row of bodies contains up to a page that cannot be read."""
    pieces = []
    with suppress(sqlite3.Error), db.blobopen("run_bodies", "bodies", row, readonly=True) as blob:
        while piece := blob.read(_PIECE):
            pieces.append(piece)
    return b"".join(pieces)


def read_or_mend(columns: Sequence[object]) -> tuple[Run, Sequence[object]] | None:
    """Return the run of a row of `SELECT_RUN`, and the row as it was before one bit of it flipped; None if more is
    damaged."""
    with suppress(ValueError):
        return Run.read(columns), columns
    for at, column in enumerate(columns):
        bits = 8 * len(column) if isinstance(column, bytes) else 64 if isinstance(column, int) else 0
        for bit in range(bits):
            row = (*columns[:at], _flipped(column, bit), *columns[at + 1 :])
            with suppress(ValueError):
                return Run.read(row), row
    return None


def _flipped(value: object, bit: int) -> object:
    if isinstance(value, bytes):
        changed = bytearray(value)
        changed[bit // 8] ^= 1 << bit % 8
        return bytes(changed)
    assert isinstance(value, int)
    return struct.unpack("<q", (value & (1 << 64) - 1 ^ 1 << bit).to_bytes(8, "little"))[0]
