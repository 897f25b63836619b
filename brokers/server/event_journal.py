"""The broker's events on disk, numbered consecutively, so that a follower that reconnects gets the events it missed.

An append survives the process (kill -9), though the last moments may be lost in a power cut; then the numbers of the
lost events are assigned again, which is why events are only sent after they are appended. Bounded by age and by the
sum of the records' lengths; the file itself is somewhat larger, for SQLite's own needs.
"""

from __future__ import annotations

import json
import logging
import sqlite3
import uuid
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from brokers.admin import Event
from brokers.model import ObjectName, object_name
from brokers.server.checksums import texts_checksum
from brokers.server.sqlite_file import StoreError, failures_named, is_damage, open_sqlite, transaction

#: The values of a new event: at (ms since the epoch), kind, object, text, attributes.
Fact = tuple[int, str, ObjectName, str, Mapping[str, Any]]

#: Approximate bytes of a record besides its texts (number, time, SQLite's own).
_RECORD_OVERHEAD = 32

#: Bytes above the bound on size at which an append drops the oldest events.
MOST_ABOVE = 8 << 20

#: Of the schema.
KIND, VERSION = "headgate-events", 2

_SCHEMA = (
    "CREATE TABLE event (number INTEGER PRIMARY KEY, at INTEGER NOT NULL, size INTEGER NOT NULL, kind TEXT NOT NULL,"
    " object TEXT NOT NULL, text TEXT NOT NULL, attributes TEXT NOT NULL, checksum INTEGER)",
    # One row, written in the same transaction as the events it counts: the last number survives pruning, and the
    # size of the journal is known without reading all of it.
    "CREATE TABLE journal (last INTEGER NOT NULL, size INTEGER NOT NULL)",
    "INSERT INTO journal VALUES (0, 0)",
)

#: Version -> statements that upgrade it to the next one. Events older than checksums have none.
_UPGRADES = {1: ("ALTER TABLE event ADD COLUMN checksum INTEGER",)}

#: Replaces a damaged event.
DAMAGED = "event-damaged"

log = logging.getLogger("headgate.broker")

_name_text = lru_cache(4096)(str)
_parse_name = lru_cache(4096)(ObjectName.parse)


#: number, at, kind, object, text, attributes, checksum
_Row = tuple[int, int, str, str, str, str, int | None]


class Expired(Exception):
    """The requested events are no longer available. `first`: the number of the oldest one that is."""

    def __init__(self, first: int) -> None:
        super().__init__(f"events before number {first} are no longer available")
        self.first = first


class EventJournal:
    """Open or create the journal. Raises StoreError, as every method does when the file fails.

    `max_bytes`: of the records' lengths. `max_age_ms`: milliseconds. Both act when `prune` is called, the first also
    when it is exceeded by `MOST_ABOVE`.
    """

    def __init__(
        self, path: Path, *, max_bytes: int = 256 * 1024 * 1024, max_age_ms: int = 30 * 24 * 3_600_000
    ) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._max_age_ms = max_age_ms
        self._damaged: set[int] = set()  # numbers of damaged events that were logged
        self._db = open_sqlite(
            path,
            kind=KIND,
            version=VERSION,
            schema=_SCHEMA,
            upgrades=_UPGRADES,
            synchronous="NORMAL",
            check=False,
        )
        with failures_named(path):
            last, size = self._db.execute("SELECT last, size FROM journal").fetchone()
            oldest = self._db.execute("SELECT min(number) FROM event").fetchone()[0]
            # Outside the schema: journals older than this table continue their numbers, and get an identity now.
            self._db.execute("CREATE TABLE IF NOT EXISTS identity (text TEXT NOT NULL)")
            self._db.execute(
                "INSERT INTO identity SELECT ? WHERE NOT EXISTS (SELECT * FROM identity)", (uuid.uuid4().hex,)
            )
            #: Assigned once: the journal of a new data folder in the same place has another one.
            self.identity: str = self._db.execute("SELECT text FROM identity").fetchone()[0]
        self._last: int = last
        self._size: int = size
        self._first: int = last + 1 if oldest is None else oldest

    @property
    def first(self) -> int:
        """Number of the oldest retained event; `last + 1` if there is none."""
        return self._first

    @property
    def last(self) -> int:
        """Number of the newest event ever appended; 0 if there never was one."""
        return self._last

    def append(self, facts: Sequence[Fact]) -> list[Event]:
        """Append the facts with the numbers after `last`, all or none."""
        events = [Event(number, *fact) for number, fact in enumerate(facts, self._last + 1)]
        if not events:
            return []
        rows = [_row(event) for event in events]
        last, size = events[-1].number, self._size + sum(row[2] for row in rows)
        with failures_named(self.path), transaction(self._db):
            self._db.executemany("INSERT INTO event VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
            self._db.execute("UPDATE journal SET last = ?, size = ?", (last, size))
        self._last, self._size = last, size
        if size > self._max_bytes + MOST_ABOVE:  # a burst of events must not fill the disk
            with suppress(StoreError):  # the events are appended: the next call of `prune` reports it
                self.prune(events[-1].at)
        return events

    def read(self, after: int, count: int = 500) -> list[Event]:
        """Return at most `count` events from number `after + 1` on, in order; an empty list if there is none yet.
        Raises Expired if the first of them is no longer retained."""
        after = max(after, 0)
        if after + 1 < self._first:
            raise Expired(self._first)
        with failures_named(self.path):
            try:
                rows = self._rows(after, after + count)
            except sqlite3.DatabaseError as error:
                if not is_damage(error):
                    raise
                rows = self._rows_one_by_one(after, min(after + count, self._last))
        return [self._event(row) for row in rows]

    def _rows(self, after: int, last: int) -> list[_Row]:
        return self._db.execute(
            "SELECT number, at, kind, object, text, attributes, checksum FROM event"
            " WHERE number > ? AND number <= ? ORDER BY number",
            (after, last),
        ).fetchall()

    def _rows_one_by_one(self, after: int, last: int) -> list[_Row]:
        """Read the events one by one: a damaged page costs only its own events."""
        rows: list[_Row] = []
        for number in range(after + 1, last + 1):
            try:
                rows += self._rows(number - 1, number)
            except sqlite3.DatabaseError:
                rows.append((number, 0, "", "", "", "", -1))
        return rows

    def _event(self, row: _Row) -> Event:
        """Return the event, or one that reports its damage, so that followers miss no number."""
        number, at, kind, name, text, attributes, checksum = row
        if checksum not in (None, texts_checksum(number, at, kind, name, text, attributes)):
            text = f"Event {number} in {self.path.name} is damaged and cannot be read"
            if number not in self._damaged:
                self._damaged.add(number)
                log.error(
                    "%s is damaged: event %d is not as it was written", self.path, number, extra={"event": number}
                )
            return Event(number, at if isinstance(at, int) else 0, DAMAGED, object_name("Broker"), text, {})
        return Event(number, at, kind, _parse_name(name), text, json.loads(attributes))

    def prune(self, now_ms: int) -> int:
        """Drop the oldest events while the first is too old or the journal too large; return how many. It reads only
        the events that it drops, so call it often."""
        oldest_at = now_ms - self._max_age_ms
        first, size = self._first, self._size
        with failures_named(self.path):
            with closing(self._db.execute("SELECT number, at, size FROM event ORDER BY number")) as rows:
                for number, at, length in rows:
                    if at >= oldest_at and size <= self._max_bytes:
                        break
                    first, size = number + 1, size - length
            dropped = first - self._first
            if dropped:
                with transaction(self._db):
                    self._db.execute("DELETE FROM event WHERE number < ?", (first,))
                    self._db.execute("UPDATE journal SET size = ?", (size,))
        self._first, self._size = first, size
        return dropped

    def close(self) -> None:
        self._db.close()


def _row(event: Event) -> tuple[int, int, int, str, str, str, str, int]:
    attributes = json.dumps(event.attributes, ensure_ascii=False, separators=(",", ":"), default=plain)
    name = _name_text(event.object)
    size = _RECORD_OVERHEAD + sum(len(text.encode()) for text in (event.kind, name, event.text, attributes))
    checksum = texts_checksum(event.number, event.at, event.kind, name, event.text, attributes)
    return (event.number, event.at, size, event.kind, name, event.text, attributes, checksum)


def plain(value: Any) -> Any:
    """Convert attribute values that JSON does not support: names and read-only maps."""
    if isinstance(value, ObjectName):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"an event's attribute cannot be {value!r}")
