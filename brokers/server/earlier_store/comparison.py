"""Comparison of a journal with the store of an earlier release that it was made of, before it takes its place.

Everything is read from both again, also the bodies: checksums of the journal only say that it is as it was written. It
is read as a start reads it, and once more without the listings of its segments, which a start may find damaged.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import zip_longest
from pathlib import Path

from brokers.engine.ports import Place
from brokers.server.earlier_store.reader import MessageReader, in_batches
from brokers.server.journal.message_index import MessageIndex
from brokers.server.journal.reading import JournalReader, entries
from brokers.server.journal.recovery import Found, groups, recover
from brokers.server.journal.runs import Segment
from brokers.server.journal.segment_file import CONTENT
from brokers.server.message_groups import Entry
from brokers.server.sqlite_file import failures_named


def differences(path: Path, db: sqlite3.Connection, journal: Path, damaged: set[Place]) -> Iterator[str]:
    """Yield a line for each kind of difference between the store at `path`, which is open as `db`, without the damaged
    messages, and the journal. Raises StoreError."""
    found = recover(journal)
    yield from found.findings
    yield from found.repairs
    yield from _of_entries(_sound(path, db, damaged), entries(found.index))
    yield from _of_entries(_sound(path, db, damaged), entries(_without_listings(found)))
    yield from _of_bodies(path, db, journal, found)
    with failures_named(path):
        names = dict(db.execute("SELECT id, name FROM queue"))
    for queue in found.index.queues():
        if found.index.names.get(queue) != names.get(queue):
            yield f"the name of queue {queue} became {found.index.names.get(queue)}"


def _sound(path: Path, db: sqlite3.Connection, damaged: set[Place]) -> Iterator[Entry]:
    with closing(MessageReader(path, db).recover()) as messages:
        yield from (entry for entry in messages if entry[:2] not in damaged)


def _of_entries(those: Iterable[Entry], these: Iterable[Entry]) -> Iterator[str]:
    for entry, copy in zip_longest(those, these):
        if entry != copy:
            yield f"{entry} became {copy}"
            return


def _without_listings(found: Found) -> MessageIndex:
    index = MessageIndex()
    for serial, read in found.index.segments.items():
        file, header = found.headers[serial]
        segment = index.segments[serial] = Segment(file, serial, header.salt, CONTENT, header.first - 1)
        for group in groups(file, header, read.last):
            index.apply(segment, group.changes, group.bodies_at)
        file.close()
    return index


def _of_bodies(path: Path, db: sqlite3.Connection, journal: Path, found: Found) -> Iterator[str]:
    reader = MessageReader(path, db)
    with closing(reader.recover()) as messages:  # which knows the runs that its index does not find
        for _ in messages:
            pass
    with closing(JournalReader(journal, found)) as copies:
        for batch in in_batches(copies.recover()):
            queue, numbers = batch[0][0], [number for _, number, *_ in batch]
            bodies, copied = reader.load(queue, numbers), copies.load(queue, numbers)
            for number in numbers:
                if number not in copied or bodies.get(number) != copied[number]:
                    yield f"the body of message {number} of queue number {queue} became another"
                    return
