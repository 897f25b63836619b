"""A survey of a broker's data folder: the configuration's records of the stores, and the content of each store.

Only reads, but for `finish`, and needs no running broker: whether it all belongs together is decided in
`store_identity.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from brokers.server.config_store import ConfigStore
from brokers.server.earlier_store.survey import read_earlier
from brokers.server.journal.recovery import recover
from brokers.server.journal.segment_file import LaterRelease
from brokers.server.journal.stamp_file import read_stamp
from brokers.server.sqlite_file import StoreError
from brokers.server.store_content import StoreFile
from brokers.server.store_folder import finish_renames, is_journal, virtualhost_of

CONFIG = "config.sqlite3"
FOLDER = "messages"
#: Record kinds of the configuration: the broker's identity, and the existing stores, by their names in the folder.
IDENTITY, STORE = "identity", "store"

#: (kind, key, value) of a record.
Record = tuple[str, str, Mapping[str, Any]]


@dataclass(slots=True)
class Configuration:
    """The configuration's records of the stores. `there`: a broker has written it. `next` is above `generation`
    while a start is under way. `queues`: number -> virtual
    host and name. `stores`: name in the folder -> virtual host."""

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


def read_store(path: Path) -> StoreFile:
    """Return the content of a store, without reading a body or changing anything."""
    found = StoreFile(path, virtualhost_of(path))
    if is_journal(path):
        _read_journal(found)
    else:
        read_earlier(found)
    if found.stamp is not None:
        found.virtualhost = found.stamp.virtualhost
    return found


def _read_journal(found: StoreFile) -> None:
    path = found.path
    try:
        found.stamp, _ = read_stamp(path)
        journal = recover(path)
    except StoreError as error:
        found.error, found.is_later = str(error), isinstance(error, LaterRelease)
        return
    if found.stamp is None and not journal.sequence and not journal.findings:
        found.error, found.blank = f"{path} is empty", True
        return
    if not journal.names or (journal.findings and not journal.headers):  # as if the whole store were missing
        found.error = f"{path} has lost its segments"
        return
    found.found, found.damage = journal, list(journal.findings)


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


def finish(data: Path) -> None:
    """Finish what a process was about to do when it was killed: see `store_folder.finish_renames`. Raises
    StoreError."""
    finish_renames(data / FOLDER, Configuration.of(data / CONFIG, read_records(data)).stores)
