"""A survey of a broker's data folder: the configuration's records of the stores, and the content of each store.

Only reads, and needs no running broker: whether it all belongs together is decided in `store_identity.py`.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from brokers.server.config_store import ConfigStore
from brokers.server.message_file import Stamp
from brokers.server.message_runs import SELECT_RUN, read_or_mend
from brokers.server.sqlite_file import StoreError, reading

CONFIG = "config.sqlite3"
FOLDER = "messages"
#: Record kinds of the configuration: the broker's identity, and the existing stores, by the name of the file.
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


def file_name(virtualhost: str) -> str:
    """Return the file name of a virtual host's store. Virtual host names may be longer than file names, and differ only
    in letters that a file system does not distinguish."""
    mark = hashlib.sha256(virtualhost.encode()).hexdigest()[:8]
    return f"{quote(virtualhost, safe='')[:80]}-{mark}.sqlite3"


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
            continue  # a damaged one is a matter of `store_verification.py`
        run, _ = found
        count, size = run.count, run.size
        if run.state.gone:
            sizes = [size for _, _, size, *_ in run.entries()]
            count, size = len(sizes), sum(sizes)
        before = totals.get(run.queue, (0, 0))
        totals[run.queue] = (before[0] + count, before[1] + size)
    for queue, (messages, size) in totals.items():
        yield queue, messages, size


def is_missing(path: Path) -> bool:
    """Return whether the configuration is missing or empty."""
    return not path.exists() or not path.stat().st_size


def read_records(data: Path) -> list[Record]:
    """Return the records of the configuration of a stopped broker; none if it is missing or empty. Raises
    StoreError."""
    path = data / CONFIG
    if is_missing(path):
        return []
    store = ConfigStore(path)
    try:
        return list(store.load())
    finally:
        store.close()
