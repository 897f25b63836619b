"""The stamps that a start writes: the broker's identity and its number of starts, in the configuration and every store.

`store_identity.py` describes the order, and why a broker can be killed at any moment.
"""

from __future__ import annotations

import contextlib
import glob
import logging
import uuid
from collections.abc import Sequence
from pathlib import Path

from brokers.server.config_store import ConfigStore
from brokers.server.message_file import Stamp, open_messages, write_stamp
from brokers.server.sqlite_file import DiskFull, failures_named
from brokers.server.store_survey import IDENTITY, STORE, Configuration, StoreFile, file_name

log = logging.getLogger("headgate.broker")


class Lineage:
    """The identity of a starting, then running, broker. `stores`: the result of `check`. Raises StoreError if a file
    cannot be written; a full disk does not prevent the start, since consumers can then free space."""

    def __init__(self, config: ConfigStore, stores: Sequence[StoreFile]) -> None:
        self._config = config
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
            log.warning("%s. This start is not counted", error)

    def _begin(self, known: Configuration, stores: Sequence[StoreFile]) -> None:
        hosts = {file_name(host): host for host in known.virtualhosts}
        self._put(known.generation)
        self._config.commit()
        for store in stores:
            path, host = store.path, hosts.get(store.path.name)
            if known.generation and host is None and store.stamp is not None and path.name not in known.stores:
                unlink_store(path)  # the broker was killed just after its virtual host was deleted
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
        """The stamp of this start."""
        return Stamp(self.identity, virtualhost, self.generation)

    def opened(self, path: Path, virtualhost: str) -> None:
        """Record a stamped store, which must not be missing from now on. Buffered until the configuration is
        committed."""
        self._config.put(STORE, path.name, {"virtualhost": virtualhost})

    def dropped(self, path: Path) -> None:
        """Remove a store's record: it may be missing after the next commit of the configuration."""
        self._config.remove(STORE, path.name)


def unlink_store(path: Path) -> None:
    """Delete a store with its log and its reserve."""
    for file in path.parent.glob(f"{glob.escape(path.name)}*"):
        with contextlib.suppress(OSError):
            file.unlink()
