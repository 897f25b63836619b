"""What a start of the release before makes of a data folder, before it changes anything: its rule, word for word."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from brokers.server.earlier_store.runs import SELECT_RUN, read_or_mend
from brokers.server.journal.stamp_file import Stamp
from brokers.server.sqlite_file import StoreError, reading

CONFIG = "config.sqlite3"
FOLDER = "messages"
IDENTITY, STORE = "identity", "store"

#: (kind, key, value) of a record.
Record = tuple[str, str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class StoredQueue:
    """Messages in a store by the number of their queue. `name`: its name in the store, if known."""

    number: int
    name: str
    messages: int
    bytes: int


@dataclass(slots=True)
class StoreFile:
    """The content of one message store. `error`: why it cannot be read; then the rest is unknown. `damage`: why
    `queues` may be incomplete. `blank`: nothing has been written to it yet."""

    path: Path
    virtualhost: str
    stamp: Stamp | None = None
    queues: dict[int, StoredQueue] = field(default_factory=dict)
    error: str = ""
    damage: str = ""
    blank: bool = False

    @property
    def messages(self) -> int:
        return sum(queue.messages for queue in self.queues.values())

    @property
    def holds(self) -> bool:
        """Whether it has messages, or may have."""
        return bool(self.queues or self.damage)

    @property
    def last_queue(self) -> int:
        """The highest queue number that it has used."""
        return max([self.stamp.last_queue if self.stamp else 0, *self.queues])


@dataclass(slots=True)
class Configuration:
    """The configuration's records of the stores. `there`: a broker has written it. `next` is above `generation`
    while a start is under way. `queues`: number -> virtual
    host and name. `stores`: file name -> virtual host."""

    path: Path
    there: bool = False
    identity: str = ""
    generation: int = 0
    next: int = 0
    last_queue: int = 0
    queues: dict[int, tuple[str, str]] = field(default_factory=dict)
    virtualhosts: set[str] = field(default_factory=set)
    stores: dict[str, str] = field(default_factory=dict)
    error: str = ""

    @classmethod
    def of(cls, path: Path, records: Sequence[Record]) -> Configuration:
        """Parse the records. Raises StoreError if one is invalid."""
        found = cls(path)
        try:
            for kind, key, value in records:
                if kind == IDENTITY:
                    found.identity, found.generation = value["identity"], int(value["generation"])
                    found.next = int(value["next"])
                elif kind == STORE:
                    found.stores[key] = value["virtualhost"]
                elif kind == "broker":
                    found.there = True
                    found.last_queue = int(value.get("last_store_id", 0))
                elif kind == "virtualhost":
                    found.virtualhosts.add(value["name"])
                elif kind == "queue" and value.get("store_id"):
                    found.queues[int(value["store_id"])] = (value["virtualhost"], value["name"])
        except (KeyError, TypeError, ValueError) as error:
            raise StoreError(f"{path} is damaged: record {kind} {key}: {error!r}") from error
        return found


def store_files(folder: Path) -> list[Path]:
    """Return the message stores in the folder, without the temporary store, which is emptied at each start."""
    return sorted(path for path in folder.glob("*-*.sqlite3") if path.is_file())


def read_store(path: Path) -> StoreFile:
    """Return the content of a store, without reading a body or changing the file."""
    found = StoreFile(path, unquote(path.stem.rsplit("-", 1)[0]))
    try:
        if path.stat().st_size == 0:
            found.error, found.blank = f"{path} is empty", True
            return found
        with reading(path) as db:
            tables = {name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
            if "message" not in tables:
                found.error, found.blank = f"{path} has no messages in it, and no table for them", not tables
                return found
            names: dict[int, str] = {}
            if "store" in tables:
                row = db.execute("SELECT identity, virtualhost, generation, last_queue FROM store").fetchone()
                found.stamp = Stamp(*row) if row else None
                names = dict(db.execute("SELECT id, name FROM queue"))
            try:
                for queue, messages, size in _totals(db, with_runs="run" in tables):
                    found.queues[queue] = StoredQueue(queue, names.get(queue, ""), messages, size)
            except sqlite3.DatabaseError as error:
                found.damage = f"{path} is damaged: {error}"
    except OSError as error:
        found.error = f"cannot read {path}: {error.strerror or error}"
    except StoreError as error:
        found.error = str(error)
    if found.stamp is not None:
        found.virtualhost = found.stamp.virtualhost
    return found


def _totals(db: sqlite3.Connection, *, with_runs: bool) -> Iterator[tuple[int, int, int]]:
    """Yield each queue with its number of messages and their bytes. Raises sqlite3.DatabaseError."""
    totals = {
        queue: (messages, size)
        for queue, messages, size in db.execute(
            "SELECT queue, count(*), sum(size) FROM message INDEXED BY message_place GROUP BY queue"
        )
    }
    for row in db.execute(SELECT_RUN) if with_runs else ():
        found = read_or_mend(row)
        if found is None:
            continue  # a damaged one is a matter of the verification
        run, _ = found
        count, size = run.count, run.size
        if run.state.gone:
            sizes = [size for _, _, size, *_ in run.entries()]
            count, size = len(sizes), sum(sizes)
        before = totals.get(run.queue, (0, 0))
        totals[run.queue] = (before[0] + count, before[1] + size)
    for queue, (messages, size) in totals.items():
        yield queue, messages, size


class StoreMismatch(StoreError):
    """The configuration and the stores do not belong together. The message gives the possible actions."""


def mismatches(config: Configuration, stores: Sequence[StoreFile]) -> list[str]:
    """Return why the configuration and the stores do not belong together; empty if they do."""
    found = [why for store in stores if (why := _mismatch(config, store))]
    there = {store.path.name for store in stores}
    found += [
        f"{config.path.parent / FOLDER / name}, the message store of virtual host {host}, is missing, and {config.path}"
        " says that it was there"
        for name, host in sorted(config.stores.items())
        if name not in there
    ]
    return found


def _mismatch(config: Configuration, store: StoreFile) -> str:
    stamp, recorded = store.stamp, store.path.name in config.stores
    if store.error:
        return "" if store.blank and not recorded else store.error  # created just before a kill -9
    if not config.there:
        return f"{config.path} is missing or empty, and {_contents(store)}" if store.holds else ""
    if stamp is None:
        if config.generation and (store.holds or recorded):
            return f"{store.path} is older than {config.path}: it has no identity yet"
    elif config.identity and stamp.identity != config.identity:
        different = f"{store.path} is of another broker than {config.path}: the identities differ"
        return different if store.holds or recorded else ""
    elif stamp.generation < config.generation:
        return f"{store.path} is older than {config.path}: of start {stamp.generation:,}, not {config.generation:,}"
    elif store.holds and (not config.identity or stamp.generation > config.next):
        ahead = f"of start {config.generation:,}, not {stamp.generation:,}"
        return f"{config.path} is older than {store.path}: {ahead}; {_contents(store)}"
    if store.holds and store.last_queue > config.last_queue:
        unknown = f"the numbers of its queues end at {config.last_queue:,}, not at {store.last_queue:,}"
        return f"{config.path} is older than {store.path}: {unknown}; {_contents(store)}"
    return ""


def _contents(store: StoreFile) -> str:
    if store.damage:
        return store.damage
    count = store.messages
    return f"{store.path} has {count:,} {'message' if count == 1 else 'messages'}"


def check(data: Path, records: Sequence[Record]) -> list[StoreFile]:
    """Return the message stores. Raises StoreMismatch, with the possible actions, if they do not belong to the
    configuration with these records; StoreError if a record is damaged, or the folder cannot be written. Writes
    nothing."""
    folder = data / FOLDER
    # Its stores could not even be read, and would seem not to belong to the configuration.
    if folder.exists() and not os.access(folder, os.W_OK | os.X_OK):
        raise StoreError(f"cannot write {folder}: give write permission to the user that runs the broker")
    stores = [read_store(path) for path in store_files(data / FOLDER)]
    if found := mismatches(Configuration.of(data / CONFIG, records), stores):
        raise StoreMismatch(
            f"{'; '.join(found)}. The broker does not start, so that no message is lost or delivered from another"
            f" queue. `headgate store check --data {data}` lists which messages belong to which queue. Restore"
            f" {data / CONFIG} and {data / FOLDER} as of one moment; or keep the messages with `headgate store"
            f" adopt --data {data}`, in recovered queues where the configuration has none; or start without them after"
            f" `headgate store set-aside --data {data}`, which moves the stores to a dated folder beside them"
        )
    return stores
