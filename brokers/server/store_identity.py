"""The configuration and the message stores belong together: one identity in all of them, and one count of starts.

A store's rows are known by numbers that only the configuration gives a meaning. So one that is lost, or restored from a
backup, must not meet stores that have gone on without it: numbers would be given again, and the messages of one queue
be delivered from another. Each file holds the identity of its broker and the *generation*, how often it has started.

A start writes in this order, each step on the disk before the next: the configuration's intention (`next`), every
store's generation, the configuration's own. Killed anywhere between, the next start finds each store at `generation` or
at `next`, and goes on with the same `next`; a completed one leaves both the same. A store that is behind, ahead or of
another broker is a mismatch, and so is one that knows of a queue whose number the configuration has not given yet.
Files of before there were identities have none; they are given one when their numbers agree.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import logging
import os
import sqlite3
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from brokers.server.config_store import ConfigStore
from brokers.server.message_file import Stamp, open_messages, write_stamp
from brokers.server.sqlite_file import DiskFull, StoreError, failures_named, reading

log = logging.getLogger("headgate.broker")

CONFIG = "config.sqlite3"
FOLDER = "messages"
#: Record kinds of the configuration: who the broker is, and which stores there are, by the name of the file.
IDENTITY, STORE = "identity", "store"

#: (kind, key, value) of a record.
Record = tuple[str, str, Mapping[str, Any]]


class StoreMismatch(StoreError):
    """The configuration and the stores do not belong together. The message says what to do."""


@dataclass(frozen=True, slots=True)
class StoredQueue:
    """Messages in a store by the number of their queue. `name`: what the store says it is called, if it does."""

    number: int
    name: str
    messages: int
    bytes: int


@dataclass(slots=True)
class StoreFile:
    """What one message store says of itself. `error`: why it cannot be read; then the rest is unknown. `damage`: why
    `queues` may not be all that is in it. `blank`: nothing has been written to it yet."""

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
        """Whether there are messages in it, as far as that can be known."""
        return bool(self.queues or self.damage)

    @property
    def last_queue(self) -> int:
        """The highest number of a queue it has seen."""
        return max([self.stamp.last_queue if self.stamp else 0, *self.queues])


@dataclass(slots=True)
class Configuration:
    """What the configuration says of the stores. `there`: it has been written by a broker. `next` is above `generation`
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
        """Raises StoreError if a record is not as a broker writes it."""
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


# -- what is there ----------------------------------------------------------------------------------------------------


def file_name(virtualhost: str) -> str:
    """Of a virtual host's store. Names may be longer than a file's, and differ in letters that a file system takes for
    the same."""
    mark = hashlib.sha256(virtualhost.encode()).hexdigest()[:8]
    return f"{quote(virtualhost, safe='')[:80]}-{mark}.sqlite3"


def store_files(folder: Path) -> list[Path]:
    """The message stores in the folder, without the temp store, which is emptied at each start anyway."""
    return sorted(path for path in folder.glob("*-*.sqlite3") if path.is_file())


def read_store(path: Path) -> StoreFile:
    """What the store says of itself, and what is in it, without a body being read or the file being changed."""
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
                for queue, messages, size in db.execute(
                    "SELECT queue, count(*), sum(size) FROM message INDEXED BY message_place GROUP BY queue"
                ):
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


# -- whether it belongs together -----------------------------------------------------------------------------------


def mismatches(config: Configuration, stores: Sequence[StoreFile]) -> list[str]:
    """Why the configuration and the stores do not belong together; empty if they do."""
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
        return "" if store.blank and not recorded else store.error  # made just before a kill -9
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


def is_missing(path: Path) -> bool:
    """Whether the configuration is not there, or has been cut off to nothing."""
    return not path.exists() or not path.stat().st_size


def read_records(data: Path) -> list[Record]:
    """Of the configuration of a broker that is not running; none if it is missing or empty. Raises StoreError."""
    path = data / CONFIG
    if is_missing(path):
        return []
    store = ConfigStore(path)
    try:
        return list(store.load())
    finally:
        store.close()


def check(data: Path, records: Sequence[Record]) -> list[StoreFile]:
    """The message stores. Raises StoreMismatch, which says what to do, if they do not belong to the configuration that
    these are the records of; StoreError if one of these is damaged, or the folder cannot be written. Writes nothing."""
    folder = data / FOLDER
    # A store there can then not even be read, and would look like one that does not belong to the configuration.
    if folder.exists() and not os.access(folder, os.W_OK | os.X_OK):
        raise StoreError(f"cannot write {folder}: let the user that the broker runs as write there")
    stores = [read_store(path) for path in store_files(data / FOLDER)]
    if found := mismatches(Configuration.of(data / CONFIG, records), stores):
        raise StoreMismatch(
            f"{'; '.join(found)}. The broker does not start, so that no message is lost or delivered from another"
            f" queue. `manage.py store check --data {data}` shows what belongs to what. Restore {data / CONFIG} and"
            f" {data / FOLDER} as they were at one moment; or keep the messages with `manage.py store adopt --data"
            f" {data}`, in recovered queues where the configuration has none; or start without them after `manage.py"
            f" store set-aside --data {data}`, which moves the stores to a dated folder beside"
        )
    return stores


# -- what a start writes --------------------------------------------------------------------------------------------


class Lineage:
    """The identity of a broker that is starting, and then running. `stores`: as `check` has found them. StoreError if a
    file cannot be written; a full disk does not keep the broker from starting, whose consumers then make room."""

    def __init__(self, config: ConfigStore, stores: Sequence[StoreFile]) -> None:
        self._config = config
        known = Configuration.of(config.path, config.load())
        self.identity = known.identity or uuid.uuid4().hex
        self.generation = max(known.next, known.generation + 1)
        #: No queue may be given this number, or one below.
        self.last_queue = max([known.last_queue, *(store.last_queue for store in stores)])
        try:
            self._begin(known, stores)
        except DiskFull as error:
            if not known.identity:
                raise
            config.discard()
            log.warning("%s. This start is not counted", error)

    def _begin(self, known: Configuration, stores: Sequence[StoreFile]) -> None:
        hosts = {file_name(host): host for host in known.virtualhosts}
        self._put(known.generation)
        self._config.commit()
        for store in stores:
            path, host = store.path, hosts.get(store.path.name)
            if known.generation and host is None and store.stamp is not None and path.name not in known.stores:
                unlink_store(path)  # the broker was killed when its virtual host had just been deleted
                continue
            host = host or store.virtualhost
            with contextlib.closing(open_messages(path)) as db, failures_named(path):
                write_stamp(db, self.stamp(host))
            self.opened(path, host)
        self._put(self.generation)
        self._config.commit()

    def _put(self, generation: int) -> None:
        value = {"identity": self.identity, "generation": generation, "next": self.generation}
        self._config.put(IDENTITY, "", value)

    def stamp(self, virtualhost: str) -> Stamp:
        """Of this start."""
        return Stamp(self.identity, virtualhost, self.generation)

    def opened(self, path: Path, virtualhost: str) -> None:
        """A store is there, stamped: it must not be missing any more. Buffered until the configuration is committed."""
        self._config.put(STORE, path.name, {"virtualhost": virtualhost})

    def dropped(self, path: Path) -> None:
        """A store may be missing from the next commit of the configuration on."""
        self._config.remove(STORE, path.name)


def unlink_store(path: Path) -> None:
    """With its log and its reserve."""
    for file in path.parent.glob(f"{glob.escape(path.name)}*"):
        with contextlib.suppress(OSError):
            file.unlink()
