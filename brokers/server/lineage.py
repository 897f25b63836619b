"""The stamps that a start writes: the broker's identity and its number of starts, in the configuration and every store.

`store_identity.py` describes the order, and why a broker can be killed at any moment.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from brokers.server.config_store import ConfigStore
from brokers.server.journal.recovery import Found
from brokers.server.journal.stamp_file import Stamp, write_stamp
from brokers.server.sqlite_file import DiskFull
from brokers.server.store_content import StoreFile
from brokers.server.store_folder import file_name, journal_of, unlink_store
from brokers.server.store_survey import IDENTITY, STORE, Configuration

log = logging.getLogger("headgate.broker")


class Lineage:
    """The identity of a starting, then running, broker. `stores`: the result of `check`, all of them journals. Raises
    StoreError if a file cannot be written; a full disk does not prevent the start, since consumers can then free
    space. `found`: what was read of journals, for those who open them."""

    def __init__(self, config: ConfigStore, stores: Sequence[StoreFile]) -> None:
        self._config = config
        self.found: dict[Path, Found] = {}
        known = Configuration.of(config.path, config.load())
        self.identity = known.identity or uuid.uuid4().hex
        self.generation = max(known.next, known.generation + 1)
        #: New queues get numbers above this.
        self.last_queue = max([known.last_queue, *(store.last_queue for store in stores)])
        try:
            self._begin(known, stores)
        except DiskFull as error:
            if not known.identity:
                raise
            config.discard()
            # A store that is created now must not be ahead of a configuration that could not count.
            self.generation = known.generation
            log.warning("%s. This start is not counted", error)

    def _begin(self, known: Configuration, stores: Sequence[StoreFile]) -> None:
        hosts = {file_name(host): host for host in known.virtualhosts}
        self._put(known.generation)
        self._config.commit()
        for store in stores:
            path, host = store.path, hosts.get(store.path.name)
            if is_of_deleted(known, store):
                unlink_store(path)
                continue
            host = host or store.virtualhost
            stamp = replace(self.stamp(host), last_queue=store.last_queue)
            write_stamp(path, stamp, max(store.found.headers, default=0) if store.found else 0)
            if store.found is not None:
                self.found[path] = store.found
            self.opened(path, host)
        self._put(self.generation)
        self._config.commit()

    def _put(self, generation: int) -> None:
        value = {"identity": self.identity, "generation": generation, "next": self.generation}
        self._config.put(IDENTITY, "", value)

    def stamp(self, virtualhost: str) -> Stamp:
        """The stamp of this start."""
        return Stamp(self.identity, virtualhost, self.generation)

    def opened(self, path: Path, virtualhost: str) -> None:
        """Record a stamped store, which must not be missing from now on. Buffered until the configuration is
        committed."""
        self._config.put(STORE, path.name, {"virtualhost": virtualhost})

    def dropped(self, path: Path) -> None:
        """Remove a store's record: it may be missing after the next commit of the configuration."""
        self._config.remove(STORE, path.name)


def is_of_deleted(known: Configuration, store: StoreFile) -> bool:
    """Whether the broker was killed just after the store's virtual host was deleted."""
    is_known = store.path.name in known.stores or journal_of(store.path).name in map(file_name, known.virtualhosts)
    return bool(known.generation) and not is_known and store.stamp is not None
