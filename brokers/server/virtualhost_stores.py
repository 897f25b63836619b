"""The message store of each virtual host, and the broker's temporary store: a file and a committer for each.

A file for each virtual host, so that what it takes on disk is known, and one that is full or slow holds up no other.
The temp store is for bodies that memory has no room for; it is empty at each start.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from brokers.admin import AdminError
from brokers.server.commit import GroupCommitter
from brokers.server.lineage import Lineage, unlink_store
from brokers.server.message_groups import Written
from brokers.server.message_store import RESERVE_BYTES, MessageStore
from brokers.server.sqlite_file import StoreError
from brokers.server.store_survey import file_name

log = logging.getLogger("headgate.broker")

#: The temporary store's name among those of the virtual hosts, none of which can have it.
TEMP = ""


class ReadableStore(MessageStore):
    """A store that logs read errors; the caller retries later."""

    def load(self, queue: int, numbers: Sequence[int]) -> dict[int, bytes] | None:  # type: ignore[override]
        known = len(self.damaged)
        try:
            bodies = super().load(queue, numbers)
        except StoreError as error:
            log.error("%s. Messages wait until it can be read again", error)
            return None
        if len(self.damaged) > known:
            lost = sorted(number for number in numbers if number not in bodies)
            log.error("%s is damaged: %s is not delivered and stays in the file", self.path, self._named(queue, lost))
        return bodies

    def recover(self) -> Iterator[tuple[int, int, int, int, int]]:
        yield from super().recover()
        if self.repaired:
            log.warning("%s was damaged: %d index entries were repaired, nothing is lost", self.path, self.repaired)
        for queue, number in sorted(self.damaged):
            log.error("%s is damaged: the index entry of %s is wrong", self.path, self._named(queue, [number]))

    def _named(self, queue: int, numbers: Sequence[int]) -> str:
        shown = ", ".join(map(str, numbers[:10])) + (f" and {len(numbers) - 10:,} more" if len(numbers) > 10 else "")
        return f"message {shown} of queue {self.names.get(queue) or f'number {queue}'}"


class VirtualHostStores:
    """See the module; `brokers.engine.ports.Stores` for the engine. Within a running loop. `written` is called with the
    name of the virtual host, or `TEMP`, and the result of a group."""

    def __init__(
        self,
        folder: Path,
        written: Callable[[str, Written], None],
        lineage: Lineage,
        *,
        reserve_bytes: int = RESERVE_BYTES,
    ) -> None:
        self.folder = folder
        self._lineage = lineage
        self._reserve_bytes = reserve_bytes
        self._written = written
        self._committers: dict[str, GroupCommitter] = {}
        self._dropped: dict[Path, GroupCommitter] = {}  # of virtual hosts whose deletion is not on disk yet
        self._closing: set[asyncio.Task[None]] = set()

    def open(self, virtualhost: str) -> MessageStore:
        """Raises AdminError."""
        path = self._path(virtualhost)
        if path in self._dropped:
            self._unlink(path)  # a new one with this name, before the deletion of the first is on disk
        return self._open(virtualhost, path, durable=True)

    def open_temp(self) -> MessageStore:
        """Raises AdminError."""
        return self._open(TEMP, self.folder / "temp.sqlite3", durable=False)

    def _open(self, name: str, path: Path, *, durable: bool) -> MessageStore:
        try:
            store = ReadableStore(path, durable=durable, reserve_bytes=self._reserve_bytes)
            if durable and store.stamp() is None:
                store.set_stamp(self._lineage.stamp(name))
                self._lineage.opened(path, name)
        except StoreError as error:
            log.error("%s", error)
            raise AdminError(str(error)) from error

        def written(what: Written) -> None:
            if self._committers.get(name) is committer:  # unless the virtual host was deleted meanwhile
                self._written(name, what)

        committer = self._committers[name] = GroupCommitter(store, written)
        return store

    def drop(self, virtualhost: str) -> None:
        """Drop a store. Its file is deleted after the configuration is committed (`unlink_dropped`)."""
        path = self._path(virtualhost)
        self._dropped[path] = self._committers.pop(virtualhost)
        self._lineage.dropped(path)

    def unlink_dropped(self) -> None:
        """Delete the stores of virtual hosts whose deletion is on disk."""
        for path in list(self._dropped):
            self._unlink(path)

    def _unlink(self, path: Path) -> None:
        committer = self._dropped.pop(path)
        unlink_store(path)  # closed when the thread has ended: SQLite does not touch an unlinked file
        task = asyncio.create_task(_close(committer))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def commit(self) -> None:
        """Write the buffered messages; see `GroupCommitter.commit`."""
        for committer in self._committers.values():
            committer.commit()

    def recover(self, virtualhost: str) -> Iterator[tuple[int, int, int, int, int]]:
        """See `MessageStore.recover`."""
        return self._committers[virtualhost].store.recover()

    async def close(self) -> None:
        all_of_them = [*self._committers.values(), *self._dropped.values()]
        await asyncio.gather(*(_close(c) for c in all_of_them), *self._closing)
        self._committers.clear()
        self._dropped.clear()

    def _path(self, virtualhost: str) -> Path:
        return self.folder / file_name(virtualhost)


async def _close(committer: GroupCommitter) -> None:
    await committer.close()
    committer.store.close()
