"""The message store of each virtual host, and the broker's temporary store: a journal and a committer for each.

A journal for each virtual host, so that what it takes on disk is known, and one that is full or slow delays no other.
The temp store is for bodies that memory has no room for; it is empty at each start.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from shutil import rmtree
from threading import Event

from brokers.admin import AdminError
from brokers.server.commit import GroupCommitter
from brokers.server.journal.journal_store import SEGMENT_BYTES, JournalStore
from brokers.server.lineage import Lineage
from brokers.server.message_groups import Entry, Written
from brokers.server.sqlite_file import StoreError
from brokers.server.store_folder import TEMP as TEMP_FOLDER
from brokers.server.store_folder import file_name, forget_store

log = logging.getLogger("headgate.broker")

#: The temporary store's name among those of the virtual hosts, none of which can have it.
TEMP = ""


class ReadableStore(JournalStore):
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
            log.error("%s is damaged: %s is not delivered and stays where it is", self.path, self._named(queue, lost))
        return bodies

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
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        self.folder = folder
        self._lineage = lineage
        self._segment_bytes = segment_bytes
        self._written = written
        self._committers: dict[str, GroupCommitter] = {}
        self._dropped: dict[Path, GroupCommitter] = {}  # of virtual hosts whose deletion is not on disk yet
        self._deleting: dict[asyncio.Future[None], tuple[Path, Event]] = {}  # and when each name is free again

    def open(self, virtualhost: str) -> JournalStore:
        """Raises AdminError."""
        path = self._path(virtualhost)
        if path in self._dropped:
            self._unlink(path)  # a new one with this name, before the deletion of the first is on disk
        for deleted, freed in list(self._deleting.values()):
            if deleted == path:
                freed.wait()  # at most until a group is written, whose thread would create files in the new folder
        return self._open(virtualhost, path, durable=True)

    def open_temp(self) -> JournalStore:
        """Raises AdminError."""
        return self._open(TEMP, self.folder / TEMP_FOLDER, durable=False)

    def _open(self, name: str, path: Path, *, durable: bool) -> JournalStore:
        try:
            found = self._lineage.found.pop(path, None)
            store = ReadableStore(path, durable=durable, segment_bytes=self._segment_bytes, found=found)
            try:
                if durable and store.stamp() is None:
                    store.set_stamp(self._lineage.stamp(name))
                    self._lineage.opened(path, name)
            except BaseException:
                store.close()  # else it would be locked for the next attempt
                raise
        except StoreError as error:
            log.error("%s", error)
            raise AdminError(str(error)) from error

        def written(what: Written) -> None:
            if self._committers.get(name) is committer:  # unless the virtual host was deleted meanwhile
                self._written(name, what)

        committer = self._committers[name] = GroupCommitter(store, written)
        return store

    def drop(self, virtualhost: str) -> None:
        """Drop a store. Its folder is deleted after the configuration is committed (`unlink_dropped`)."""
        path = self._path(virtualhost)
        self._dropped[path] = self._committers.pop(virtualhost)
        self._lineage.dropped(path)

    def unlink_dropped(self) -> None:
        """Delete the stores of virtual hosts whose deletion is on disk."""
        for path in list(self._dropped):
            self._unlink(path)

    def _unlink(self, path: Path) -> None:
        freed = Event()
        deleting = self._dropped.pop(path).discard(partial(_delete, path, freed))
        self._deleting[deleting] = path, freed
        deleting.add_done_callback(self._deleting.pop)

    def commit(self) -> None:
        """Write the buffered messages; see `GroupCommitter.commit`."""
        for committer in self._committers.values():
            committer.commit()

    def recover(self, virtualhost: str) -> Iterator[Entry]:
        """See `JournalStore.recover`."""
        return self._committers[virtualhost].store.recover()

    def is_incomplete(self, virtualhost: str) -> bool:
        """Whether there may be more messages, which a later start can read."""
        return bool(self._committers[virtualhost].store.findings)

    async def close(self) -> None:
        all_of_them = [*self._committers.values(), *self._dropped.values()]
        await asyncio.gather(*(_close(c) for c in all_of_them), *self._deleting)
        self._committers.clear()
        self._dropped.clear()

    def _path(self, virtualhost: str) -> Path:
        return self.folder / file_name(virtualhost)


async def _close(committer: GroupCommitter) -> None:
    await committer.close()
    committer.store.close()


def _delete(path: Path, freed: Event) -> None:
    """Delete the folder of a store that is closed. `freed` is set when another may have its name."""
    try:
        left = forget_store(path)
    finally:
        freed.set()
    if left is not None:  # that takes time, if it is large
        rmtree(left, ignore_errors=True)
