"""The message store of each virtual host, and the broker's temp store: a file and a committer for each.

A file for each virtual host, so that what it takes on disk is known, and one that is full or slow holds up no other.
The temp store is for bodies that memory has no room for; it is empty at each start.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

from brokers.admin import AdminError
from brokers.server.commit import GroupCommitter
from brokers.server.message_groups import Written
from brokers.server.message_store import RESERVE_BYTES, MessageStore
from brokers.server.sqlite_file import StoreError

log = logging.getLogger("headgate.broker")

#: What the temp store is called among the virtual hosts, none of which is called so.
TEMP = ""


class ReadableStore(MessageStore):
    """A store that says in the log when it cannot be read, and that is asked again later."""

    def load(self, queue: int, numbers: Sequence[int]) -> dict[int, bytes] | None:  # type: ignore[override]
        try:
            return super().load(queue, numbers)
        except StoreError as error:
            log.error("%s. Messages wait until it can be read again", error)
            return None


class VirtualHostStores:
    """See the module; `brokers.engine.store.Stores` for the engine. Within a running loop. `written` is called with the
    name of the virtual host, or `TEMP`, and what became of a group."""

    def __init__(
        self, folder: Path, written: Callable[[str, Written], None], *, reserve_bytes: int = RESERVE_BYTES
    ) -> None:
        self.folder = folder
        self._reserve_bytes = reserve_bytes
        self._written = written
        self._committers: dict[str, GroupCommitter] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def open(self, virtualhost: str) -> MessageStore:
        """Raises AdminError."""
        return self._open(virtualhost, self._path(virtualhost), durable=True)

    def open_temp(self) -> MessageStore:
        """Raises AdminError."""
        return self._open(TEMP, self.folder / "temp.sqlite3", durable=False)

    def _open(self, name: str, path: Path, *, durable: bool) -> MessageStore:
        try:
            store = ReadableStore(path, durable=durable, reserve_bytes=self._reserve_bytes)
        except StoreError as error:
            log.error("%s", error)
            raise AdminError(str(error)) from error

        def written(what: Written) -> None:
            if self._committers.get(name) is committer:  # not of a virtual host that has gone meanwhile
                self._written(name, what)

        committer = self._committers[name] = GroupCommitter(store, written)
        return store

    def drop(self, virtualhost: str) -> None:
        committer = self._committers.pop(virtualhost)
        # Unlinked now, so that a virtual host of the same name may have a file at once; closed when the thread is done.
        for file in self.folder.glob(f"{self._path(virtualhost).name}*"):
            with contextlib.suppress(OSError):
                file.unlink()
        task = asyncio.create_task(_close(committer))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def commit(self) -> None:
        """Have written what is buffered; see `GroupCommitter.commit`."""
        for committer in self._committers.values():
            committer.commit()

    def recover(self, virtualhost: str) -> Iterator[tuple[int, int, int, int, int]]:
        """See `MessageStore.recover`."""
        return self._committers[virtualhost].store.recover()

    async def close(self) -> None:
        await asyncio.gather(*(_close(c) for c in self._committers.values()), *self._closing)
        self._committers.clear()

    def _path(self, virtualhost: str) -> Path:
        # Names may be longer than a file's, and differ in letters that a file system takes for the same.
        mark = hashlib.sha256(virtualhost.encode()).hexdigest()[:8]
        return self.folder / f"{quote(virtualhost, safe='')[:80]}-{mark}.sqlite3"


async def _close(committer: GroupCommitter) -> None:
    await committer.close()
    committer.store.close()
