"""What is stored of one broker, in two SQLite files of a folder: for processes of one host, one at a time.

Two files cannot be written in one transaction. So the store of the adapter has the events that are about to be
appended, together with the flow state that they were derived from: a process that is killed between the two writes
leaves events that the next one appends when it opens the files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from brokers.adapters.records import Fact, Memory, NotStored, StopChange, StoppedTarget
from brokers.adapters.store import AdapterStore
from brokers.admin import Event
from brokers.engine.values.stops import Stop
from brokers.model import ObjectName
from brokers.server.event_journal import EventJournal
from brokers.server.sqlite_file import StoreError

#: The names of the files.
FILES = ("adapter.sqlite3", "events.sqlite3")


class FileRecords:
    """Open or create the files. A `brokers.adapters.records.Records`. `owner`: which broker they are of: the stops of
    another one are forgotten; "": not to be checked."""

    def __init__(self, folder: Path, owner: str = "") -> None:
        self._store = AdapterStore(folder / FILES[0])
        try:
            if owner:
                self._store.claim(owner)
            self._journal = EventJournal(folder / FILES[1])
            number, facts = self._store.pending()
            if number > self._journal.last:
                self._journal.append(facts)
        except BaseException:
            self._store.close()
            raise
        self.failed = False

    @property
    def is_abandoned(self) -> bool:
        """Whether the stops were left behind when their broker was removed."""
        return self._store.is_abandoned

    @property
    def identity(self) -> str:
        return self._journal.identity

    @property
    def first(self) -> int:
        return self._journal.first

    @property
    def last(self) -> int:
        return self._journal.last

    def append(self, facts: Sequence[Fact], memory: Memory, unannounced: Sequence[StopChange] | None = None) -> None:
        with self._writing():
            if memory or unannounced is not None:
                self._store.remember(memory, (self.last + 1, facts) if facts else None, unannounced)
            self._journal.append(facts)

    def read(self, after: int, count: int = 500) -> list[Event]:
        return self._journal.read(after, count)

    def prune(self, now_ms: int) -> int:
        with self._writing():
            return self._journal.prune(now_ms)

    def known(self) -> dict[ObjectName, dict[str, Any]]:
        return self._store.known()

    def stops(self) -> list[Stop]:
        return self._store.stops()

    def targets(self) -> list[StoppedTarget]:
        return self._store.targets()

    def unannounced(self) -> list[StopChange]:
        return self._store.unannounced()

    def save_stops(
        self, stops: Iterable[Stop], targets: Iterable[StoppedTarget], unannounced: Iterable[StopChange]
    ) -> None:
        with self._writing():
            self._store.save_stops(stops, targets, unannounced)

    def close(self) -> None:
        self._journal.close()
        self._store.close()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        if self.failed:
            raise NotStored("a write of the broker's records has failed: it is read again")
        try:
            yield
        except StoreError as error:
            self.failed = True
            raise NotStored(str(error)) from error
