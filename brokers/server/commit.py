"""Group commit: the messages that the loop buffers while one group is being written are the next group.

So all producers share one fsync, and the load determines the size of the groups: a single message is written at once.
Everything here runs in the loop, except `JournalStore.write`, and the end of a store that is deleted: those run in a
thread of the store.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from brokers.server.journal.journal_store import JournalStore
from brokers.server.message_groups import Group, Written
from brokers.server.sqlite_file import StoreError

#: Seconds without an error after which a store counts as working again.
SOUND_SECONDS = 5.0

#: Seconds until the next attempt after a group that could not be written completely.
RETRY_SECONDS = 0.5

log = logging.getLogger("headgate.broker")


class GroupCommitter:
    """`written` is called in the loop with the result of each group, in the order of their tickets."""

    def __init__(self, store: JournalStore, written: Callable[[Written], None]) -> None:
        self.store = store
        self._written = written
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="message-store")
        self._writing: asyncio.Future[Written] | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._faulty_at: float | None = None  # time of the last error, if it persists
        self._discarded = False

    def commit(self) -> None:
        """Write the buffered messages: now, or after the current group."""
        if self._writing is None and self.store.pending:
            self._start()

    async def flush(self) -> None:
        """Return when everything buffered before the call has been written or refused."""
        self.commit()
        while self._writing is not None:
            await asyncio.wait([self._writing])
            await asyncio.sleep(0)  # its callback may have started the next

    async def close(self) -> None:
        """Write the buffered messages, then end the thread. The store stays open."""
        await self.flush()
        if self._retry is not None:
            self._retry.cancel()
        self._thread.shutdown()

    def discard(self, then: Callable[[], None]) -> asyncio.Future[None]:
        """Write nothing any more, and close the store, which is about to be deleted; then call `then`. Both in the
        writer's thread, after the group that is being written: no turn waits for that. Done when `then` has returned.
        """
        self._discarded = True
        if self._retry is not None:
            self._retry.cancel()
        self.store.discard()
        ended = self._loop.run_in_executor(self._thread, self._end, then)
        self._thread.shutdown(wait=False)
        return ended

    def _end(self, then: Callable[[], None]) -> None:
        try:
            self.store.close()
        finally:
            then()

    def _start(self) -> None:
        if self._discarded:
            return
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        self._writing = self._loop.run_in_executor(self._thread, self._write, self.store.take())
        self._writing.add_done_callback(self._done)

    def _write(self, group: Group) -> Written:
        """Write a group, in the thread. An unexpected error costs its group; the groups after it are still written."""
        try:
            return self.store.write(group)
        except Exception as error:
            log.exception("a group of messages could not be written to %s", self.store.path)
            fault = StoreError(str(error))
            refused = {whole.transaction: fault for whole in group.wholes}
            return Written(group.ticket, group.messages, fault, False, False, refused)

    def _done(self, writing: asyncio.Future[Written]) -> None:
        self._writing = None
        written = writing.result()
        if self._discarded:
            return  # what became of it concerns nothing any more
        self._log_faults(written)
        try:
            self._written(written)
        finally:
            if self.store.pending:
                self._start()
            elif written.unfinished:
                delay = 0 if written.removed else RETRY_SECONDS
                self._retry = self._loop.call_later(delay, self._start)

    def _log_faults(self, written: Written) -> None:
        """Log an error once when it begins and once when it ends, not with every group."""
        now = self._loop.time()
        fault = written.fault or next(iter(written.refused.values()), None)
        if fault is not None:
            if self._faulty_at is None:
                log.error("%s. Durable messages are refused until it can be written again", fault)
            self._faulty_at = now
        elif written.messages and self._faulty_at is not None and now - self._faulty_at > SOUND_SECONDS:
            self._faulty_at = None
            log.warning("%s can be written again", self.store.path)
