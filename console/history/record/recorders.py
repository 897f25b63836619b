"""The recorders of the brokers that this process owns: started and ended as the ownership changes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from django.db import DatabaseError, connection

from brokers.log_records import in_background
from console.history.record.ownership import LOOK_SECONDS, Ownership
from console.history.record.recorder import Recorder

T = TypeVar("T")
log = logging.getLogger(__name__)


class Recorders:
    """`start`: returns the recorder of a broker. `say`: is called with the brokers, when they have changed.
    `configured`: returns the slugs of the brokers as configured now, from the database. `look_seconds`: between two
    looks at the leases."""

    def __init__(
        self,
        ownership: Ownership,
        start: Callable[[str], Recorder],
        say: Callable[[list[str]], None],
        *,
        configured: Callable[[], list[str]] | None = None,
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        self._ownership = ownership
        self._configured = configured
        self._start, self._say, self._look_seconds = start, say, look_seconds
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._said: list[str] | None = None
        self._trouble = ""
        # The database's connection belongs to a thread.
        self._thread = ThreadPoolExecutor(1, "leases")

    async def run(self) -> None:
        """Record until cancelled; then publish what is buffered, and release the brokers. Raises the error of a
        recorder that has failed."""
        try:
            while True:
                await self._look()
                running = list(self._tasks.values())
                if running:
                    done, _ = await asyncio.wait(
                        running, timeout=self._look_seconds, return_when=asyncio.FIRST_COMPLETED
                    )
                    for task in done:
                        task.result()
                else:
                    await asyncio.sleep(self._look_seconds)
        finally:
            for slug in list(self._tasks):
                await self._end(slug)
            with contextlib.suppress(DatabaseError):
                await self._in_database(self._ownership.end)
            self._thread.shutdown()

    async def _look(self) -> None:
        ownership = self._ownership
        try:
            released = await self._in_database(self._look_at_leases)
            self._report("")
            for slug in released:
                await self._end(slug)
                await self._in_database(lambda slug=slug: ownership.release(slug))  # type: ignore[misc]
        except DatabaseError as error:
            self._report(str(error).strip())
        owned = [slug for slug in ownership.brokers if ownership.owns(slug)]
        for slug in set(self._tasks) - set(owned):
            log.warning("%s: the lease has expired: another process may record it", slug)
            await self._end(slug)
        for slug in owned:
            if slug not in self._tasks:
                self._tasks[slug] = asyncio.ensure_future(in_background(self._start(slug).run(), broker=slug))
        if owned != self._said:
            self._said = owned
            self._say(owned)

    def _look_at_leases(self) -> list[str]:
        if self._configured is not None:
            self._ownership.brokers = self._configured()
        return self._ownership.look()

    async def _end(self, slug: str) -> None:
        task = self._tasks.pop(slug, None)
        if task is None:
            return
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    async def _in_database(self, work: Callable[[], T]) -> T:
        def with_connection() -> T:
            try:
                return work()
            finally:
                connection.close()

        return await asyncio.get_running_loop().run_in_executor(self._thread, with_connection)

    def _report(self, trouble: str) -> None:
        """Log a change of the state: an error, once."""
        if trouble and trouble != self._trouble:
            log.warning("the leases cannot be extended: %s", trouble)
        self._trouble = trouble
