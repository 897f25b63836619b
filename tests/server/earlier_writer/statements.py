"""The statements with which the release before wrote its message stores."""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterator, Sequence
from functools import lru_cache
from zlib import crc32

from brokers.server.earlier_store.runs import RUN_MESSAGES
from brokers.server.earlier_store.tables import PAGE_BYTES, batches
from brokers.server.journal.stamp_file import Stamp
from brokers.server.sqlite_file import transaction

#: Disk space of a message besides its body: its row, its index entry, and slack in their pages.
ROW_BYTES = 128

#: Fewer messages are stored singly.
FEWEST = 4

#: Maximum bytes of a run, unless it is a single message.
RUN_BYTES = 256 << 10

MOVE = (
    "UPDATE message SET queue = ?, number = ?, size = ?, body = ?, expires = ?, mark = ?, checksum = ?, failed = 0"
    " WHERE queue = ? AND number = ?"
)

FAIL = (
    "UPDATE message SET failed = ?1, mark = place_mark(queue, number, size, ?1, expires)"
    " WHERE queue = ?2 AND number = ?3"
)


# Nothing but question marks is put into their text (S608).


@lru_cache(None)
def insert_of(rows: int) -> str:
    values = ",".join(["(?,?,?,?,?,?,?)"] * rows)
    return f"INSERT INTO message (queue, number, size, body, expires, mark, checksum) VALUES {values}"


@lru_cache(None)
def delete_of(rows: int) -> str:
    return f"DELETE FROM message WHERE queue = ? AND number IN ({','.join('?' * rows)})"


def write_stamp(db: sqlite3.Connection, stamp: Stamp) -> None:
    """Write the stamp in one transaction. The highest number of a queue only increases."""
    with transaction(db):
        before = db.execute("SELECT last_queue FROM store").fetchone()
        db.execute("DELETE FROM store")
        last = max(stamp.last_queue, before[0] if before else 0)
        row = (stamp.identity, stamp.virtualhost, stamp.generation, last)
        db.execute("INSERT INTO store VALUES (?, ?, ?, ?)", row)


def on_disk(size: int) -> int:
    """Return the bytes of a message in the file: its row and index entry, and whole pages if it is long."""
    if size > PAGE_BYTES // 4:
        size += -size % PAGE_BYTES
    return size + ROW_BYTES


def on_disk_in_all(bodies: Sequence[bytes], size: int) -> int:
    """Return the total of `on_disk` for messages whose bodies have `size` bytes together."""
    if max(map(len, bodies)) <= PAGE_BYTES // 4:
        return size + ROW_BYTES * len(bodies)
    return sum(on_disk(len(body)) for body in bodies)


def delete_messages(db: sqlite3.Connection, queue: int, numbers: Sequence[int]) -> None:
    """Delete the messages of a queue with these numbers, ascending and distinct."""
    if numbers[-1] - numbers[0] + 1 == len(numbers):  # without gaps, as a queue is usually read
        db.execute("DELETE FROM message WHERE queue = ? AND number BETWEEN ? AND ?", (queue, numbers[0], numbers[-1]))
        return
    for at, count in batches(len(numbers)):
        db.execute(delete_of(count), (queue, *numbers[at : at + count]))


def split(first: int, bodies: Sequence[bytes]) -> Iterator[tuple[int, Sequence[bytes]]]:
    """Split messages with successive numbers into runs: the first number and the bodies of each."""
    at = size = 0
    for end, body in enumerate(bodies):
        size += len(body)
        if end > at and (size > RUN_BYTES or end - at == RUN_MESSAGES):
            yield first + at, bodies[at:end]
            at, size = end, len(body)
    yield first + at, bodies[at:]


def parts_of(bodies: Sequence[bytes]) -> bytes:
    """Return the sizes of the bodies, followed by their checksums."""
    return struct.pack(f"<{2 * len(bodies)}I", *map(len, bodies), *map(crc32, bodies))
