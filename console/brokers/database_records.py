"""What is stored of one broker, in the console's database, for processes of several hosts.

A process that opens the records becomes their only writer, in a transaction that requires the lease of the broker.
Each write names its writer, in the same transaction: a process that hung while another one took over cannot write any
more, whatever it believes. The newest events are cached, so that followers need no queries.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from django.db import DatabaseError, connection, models, transaction

from brokers.adapters.records import (
    Expired,
    Fact,
    Memory,
    NotStored,
    Stop,
    StopChange,
    StoppedTarget,
    fact_of,
    fact_text,
)
from brokers.admin import Event
from brokers.model import ObjectName
from console.brokers.models import BrokerEvent, BrokerRecords, BrokerStop, KnownObject
from console.leases import lease

T = TypeVar("T")

#: Number of cached events.
TAIL = 2000
#: Number, time, size and text of an event, see `BrokerEvent`.
EventRow = tuple[int, int, int, str]

#: Rows in one statement, and pruned at once.
BATCH, PRUNED = 500, 5000
#: Approximate bytes of an event besides its text.
_OVERHEAD = 64


class DatabaseRecords:
    """A `brokers.adapters.records.Records`, made by `opened`. `wait`: runs a transaction and waits for it, see
    `DatabaseThread`. `max_bytes`: of the events' lengths. `max_age_ms`: milliseconds."""

    def __init__(
        self,
        slug: str,
        writer: str,
        wait: Callable[[Callable[[], None]], None],
        *,
        max_bytes: int = 256 * 1024 * 1024,
        max_age_ms: int = 30 * 24 * 3_600_000,
    ) -> None:
        """Read what is stored; in a thread with a connection."""
        self._slug = slug
        self._writer = writer
        self._wait = wait
        self._max_bytes = max_bytes
        self._max_age_ms = max_age_ms
        self.failed = False
        row = BrokerRecords.objects.get(slug=slug)
        self.identity, self.first, self.last, self._size = row.identity, row.first, row.last, row.size
        events = BrokerEvent.objects.filter(slug=slug, number__gt=self.last - TAIL).order_by("number")
        self._tail = deque((_event(*each) for each in events.values_list("number", "fact")), TAIL)
        parts: dict[str, list[Any]] = {"stop": [], "target": [], "change": []}
        for part, record in BrokerStop.objects.filter(slug=slug).order_by("pk").values_list("part", "record"):
            parts[part].append(json.loads(record))
        self._stops = [Stop.from_record(each) for each in parts["stop"]]
        self._targets = [StoppedTarget.from_record(each) for each in parts["target"]]
        self._unannounced = [StopChange.from_record(each) for each in parts["change"]]
        known = map(json.loads, KnownObject.objects.filter(slug=slug).values_list("record", flat=True))
        self._known = {ObjectName.parse(name): attributes for name, attributes in known}

    # As they were when the records were opened: the process has the present ones.

    def known(self) -> dict[ObjectName, dict[str, Any]]:
        known, self._known = self._known, {}
        return known

    def stops(self) -> list[Stop]:
        return self._stops

    def targets(self) -> list[StoppedTarget]:
        return self._targets

    def unannounced(self) -> list[StopChange]:
        return list(self._unannounced)

    def append(self, facts: Sequence[Fact], memory: Memory, unannounced: Sequence[StopChange] | None = None) -> None:
        rows = [event_row(number, fact) for number, fact in enumerate(facts, self.last + 1)]
        last, size = self.last + len(rows), self._size + sum(length for _, _, length, _ in rows)

        def write() -> None:
            self._own(last=last, size=size)
            add_events(self._slug, rows)
            remember(self._slug, memory)
            if unannounced is not None:
                replace_stops(self._slug, "change", [change.record() for change in unannounced])

        self._write(write)
        self.last, self._size = last, size
        self._tail += [_event(number, text) for number, _, _, text in rows]

    def save_stops(
        self, stops: Iterable[Stop], targets: Iterable[StoppedTarget], unannounced: Iterable[StopChange]
    ) -> None:
        rows: dict[str, list[Any]] = {
            "stop": [stop.record() for stop in stops],
            "target": [target.record() for target in targets],
            "change": [change.record() for change in unannounced],
        }

        def write() -> None:
            self._own()
            for part, found in rows.items():
                replace_stops(self._slug, part, found)

        self._write(write)

    def read(self, after: int, count: int = 500) -> list[Event]:
        after = max(after, 0)
        if after + 1 < self.first:
            raise Expired(self.first)
        if self._tail and self._tail[0].number <= after + 1:
            skip = after + 1 - self._tail[0].number
            return [self._tail[i] for i in range(skip, min(skip + count, len(self._tail)))]
        found: list[Event] = []

        def read() -> None:
            rows = BrokerEvent.objects.filter(slug=self._slug, number__gt=after, number__lte=after + count)
            found.extend(_event(*row) for row in rows.order_by("number").values_list("number", "fact"))

        with self._failing():
            self._wait(read)
        return found

    def prune(self, now_ms: int) -> int:
        oldest_at, before = now_ms - self._max_age_ms, self.first
        while self._prune_some(oldest_at) == PRUNED:
            pass
        return self.first - before

    def _prune_some(self, oldest_at: int) -> int:
        first, size = self.first, self._size

        def write() -> None:
            nonlocal first, size
            rows = BrokerEvent.objects.filter(slug=self._slug, number__gte=first).order_by("number")
            for count in (1, PRUNED):  # mostly there is nothing to prune
                first, size = self.first, self._size
                for number, at, length in rows.values_list("number", "at", "size")[:count]:
                    if at >= oldest_at and size <= self._max_bytes:
                        break
                    first, size = number + 1, size - length
                if first == self.first:
                    return
            self._own(first=first, size=size)
            BrokerEvent.objects.filter(slug=self._slug, number__lt=first).delete()

        self._write(write)
        dropped = first - self.first
        self.first, self._size = first, size
        while self._tail and self._tail[0].number < first:
            self._tail.popleft()
        return dropped

    def close(self) -> None:
        """Write nothing more."""
        self.failed = True

    def _own(self, **values: Any) -> None:
        """Set columns, and lock the row until the end of the transaction. Raises NotStored if another process has
        opened the records since."""
        if not BrokerRecords.objects.filter(slug=self._slug, writer=self._writer).update(writer=self._writer, **values):
            raise NotStored(f"another process hosts {self._slug} now")

    def _write(self, write: Callable[[], None]) -> None:
        def in_transaction() -> None:
            with transaction.atomic():
                write()

        if self.failed:
            raise NotStored(f"this process no longer hosts {self._slug}")
        with self._failing():
            self._wait(in_transaction)

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except NotStored:
            self.failed = True
            raise
        except DatabaseError as error:
            self.failed = True
            raise NotStored(f"the console's database cannot be written: {str(error).strip()}") from error


def opened(slug: str, lease_name: str, wait: Callable[[Callable[[], None]], None], **limits: int) -> DatabaseRecords:
    """Become the writer of a broker's records, which are created if there are none; in a thread with a connection.
    Raises NotStored without the lease, DatabaseError."""
    writer = uuid.uuid4().hex
    with transaction.atomic():
        if not lease.owns(lease_name):
            raise NotStored(f"another process hosts {slug} now")
        new = {"identity": uuid.uuid4().hex, "writer": writer}
        row, created = BrokerRecords.objects.get_or_create(slug=slug, defaults=new)
        if not created:
            BrokerRecords.objects.filter(slug=slug).update(writer=writer)
        if not row.identity:  # an import did not end, and the files are on another host
            BrokerEvent.objects.filter(slug=slug).delete()
            BrokerRecords.objects.filter(slug=slug).update(**new, first=1, last=0, size=0)
    return DatabaseRecords(slug, writer, wait, **limits)


def remember(slug: str, memory: Memory) -> None:
    """Store attributes of objects; None: forget the object. In a transaction."""
    digests = {name: hashlib.sha256(str(name).encode()).hexdigest() for name in memory}
    gone = [digests[name] for name, attributes in memory.items() if attributes is None]
    for start in range(0, len(gone), BATCH):
        KnownObject.objects.filter(slug=slug, digest__in=gone[start : start + BATCH]).delete()
    rows = [
        (slug, digests[name], json.dumps([str(name), attributes]))
        for name, attributes in memory.items()
        if attributes is not None
    ]
    conflict = "ON CONFLICT (slug, digest) DO UPDATE SET record = excluded.record"
    _insert(KnownObject, ("slug", "digest", "record"), rows, conflict)


def add_events(slug: str, rows: Sequence[EventRow]) -> None:
    """In a transaction."""
    _insert(BrokerEvent, ("slug", "number", "at", "size", "fact"), [(slug, *row) for row in rows])


def replace_stops(slug: str, part: str, records: Iterable[Any]) -> None:
    """Replace the stops, targets or changes. In a transaction."""
    BrokerStop.objects.filter(slug=slug, part=part).delete()
    _insert(BrokerStop, ("slug", "part", "record"), [(slug, part, json.dumps(record)) for record in records])


def event_row(number: int, fact: Fact) -> EventRow:
    text = fact_text(fact)
    return number, fact[0], _OVERHEAD + len(text.encode()), text


def _insert(model: type[models.Model], columns: Sequence[str], rows: Sequence[tuple[Any, ...]], more: str = "") -> None:
    """Insert many rows. Django's `bulk_create` takes ten times as long, and the event loop waits."""
    if rows:
        values = ", ".join(["%s"] * len(columns))
        sql = f"INSERT INTO {model._meta.db_table} ({', '.join(columns)}) VALUES ({values}) {more}"  # noqa: S608
        with connection.cursor() as cursor:
            cursor.executemany(sql, rows)


def _event(number: int, fact: str) -> Event:
    return Event(number, *fact_of(fact))
