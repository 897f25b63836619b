"""The brokers that this process polls and serves: those of the table that no other process hosts.

A lease a broker in the console's database: never two processes poll one. Changes of the table take effect at the next
look; a process whose leases could not be extended in time ends its polling, since another one may have taken over.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, cast

from django.db import DatabaseError, connection

from brokers.adapters.adapter import Adapter, Finding
from brokers.adapters.kinds import KINDS
from brokers.admin import BrokerUnreachable
from brokers.model import ManagedType
from console.brokers.keys import KeyMissing
from console.brokers.models import ForeignBroker
from console.leases import lease
from console.leases.lease import Busy
from console.leases.process import this_process

T = TypeVar("T")
log = logging.getLogger(__name__)

#: Seconds between two looks at the table, between two extensions of the leases, and after which a lease expires. A
#: process of another host takes over within LEASE_SECONDS and two looks.
LOOK_SECONDS, EXTEND_SECONDS, LEASE_SECONDS = 1.0, 2.5, 10.0


class Service(Protocol):
    """What hosts adapters: `brokers.adapters.service.AdaptersService`."""

    @property
    def names(self) -> list[str]: ...

    def add(self, name: str, adapter: Adapter) -> None: ...

    async def remove(self, name: str) -> None: ...


@dataclass(slots=True)
class Hosting:
    """`now`: ms since the epoch, for adapters. `say`: called with the hosted brokers when they have changed. `steady`:
    monotonic seconds. `take` and `extend`: of leases."""

    service: Service
    now: Callable[[], int]
    say: Callable[[list[str]], None]
    steady: Callable[[], float] = time.monotonic
    _revisions: dict[str, int] = field(default_factory=dict)  # of the hosted brokers
    _leased: set[str] = field(default_factory=set)
    _extended: float = float("-inf")
    _said: list[str] | None = None
    _trouble: str = ""
    #: The database's connection belongs to a thread.
    _thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "brokers"))

    async def run(self) -> None:
        """Host until cancelled; then release the brokers."""
        try:
            while True:
                await self.look()
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            await self.end()

    async def look(self) -> None:
        """Take over the table's state: begin, end and replace."""
        try:
            rows, leased = await self._in_database(self._read)
        except DatabaseError as error:
            self._report(str(error).strip())
            if self.steady() - self._extended < LEASE_SECONDS:
                return
            rows, leased = {}, set()  # another process may host them now
            self._leased = set()
        else:
            self._report("")
        for slug in list(self._revisions):
            if slug not in leased or slug not in rows or rows[slug].revision != self._revisions[slug]:
                await self._remove(slug)
        for slug in leased & rows.keys() - self._revisions.keys():
            await self._add(rows[slug])
        for slug in leased - rows.keys():
            self._leased.discard(slug)
            await self._in_database(lambda slug=slug: lease.release(_lease(slug)))  # type: ignore[misc]
        hosted = sorted(self._revisions)
        if hosted != self._said:
            self._said = hosted
            self.say(hosted)

    async def end(self) -> None:
        for slug in list(self._revisions):
            await self._remove(slug)
        with contextlib.suppress(DatabaseError):
            for slug in self._leased:
                await self._in_database(lambda slug=slug: lease.release(_lease(slug)))  # type: ignore[misc]
        self._leased = set()
        self._thread.shutdown()

    def _read(self) -> tuple[dict[str, ForeignBroker], set[str]]:
        """Return the brokers to host, and those of them and of the hosted ones that this process has a lease for."""
        rows = {row.slug: row for row in ForeignBroker.objects.filter(paused=False).defer("encrypted", "authority")}
        began = self.steady()
        if began - self._extended >= EXTEND_SECONDS:
            if self._leased and not lease.extend([_lease(slug) for slug in self._leased], LEASE_SECONDS):
                self._leased = {slug for slug in self._leased if lease.extend([_lease(slug)], LEASE_SECONDS)}
            self._extended = began
        for slug in rows.keys() - self._leased:
            if _take(_lease(slug)):
                self._leased.add(slug)
        return rows, set(self._leased)

    async def _add(self, row: ForeignBroker) -> None:
        try:
            adapter = await self._in_database(lambda: _adapter(row, self.now))
            self.service.add(row.slug, adapter)
        except Exception:  # of one broker: the others are hosted
            log.exception("%s cannot be hosted", row.slug)
            return
        self._revisions[row.slug] = row.revision

    async def _remove(self, slug: str) -> None:
        del self._revisions[slug]
        await self.service.remove(slug)

    async def _in_database(self, work: Callable[[], T]) -> T:
        def with_connection() -> T:
            try:
                return work()
            except DatabaseError:
                connection.close()
                raise

        return await asyncio.get_running_loop().run_in_executor(self._thread, with_connection)

    def _report(self, trouble: str) -> None:
        """Log a change of the state: an error, once."""
        if trouble and trouble != self._trouble:
            log.warning("the table of brokers cannot be read: %s", trouble)
        self._trouble = trouble


def _take(name: str) -> bool:
    """Acquire a lease, or again one that this process could not extend in time and that no other has taken."""
    try:
        lease.take(name, LEASE_SECONDS)
    except Busy as busy:
        return busy.holder == this_process() and lease.extend([name], LEASE_SECONDS)
    return True


def _lease(slug: str) -> str:
    return f"adapter~{slug}"


def _adapter(row: ForeignBroker, now: Callable[[], int]) -> Adapter:
    """Return the broker's adapter; if its password or kind is unusable, one that says so wherever it is shown."""
    try:
        return KINDS[row.kind].open(row.account(), now)
    except KeyMissing as error:
        return cast(Adapter, _Unusable(str(error)))
    except KeyError:
        return cast(Adapter, _Unusable(f"this version of Headgate has no kind {row.kind!r} of brokers"))


class _Unusable:
    """An adapter that cannot connect: nothing else of it is ever called."""

    types: Mapping[str, ManagedType] = {}
    reports: frozenset[str] = frozenset()
    paged = False

    def __init__(self, why: str) -> None:
        self._why = why

    async def connect(self) -> list[Finding]:
        raise BrokerUnreachable(self._why)

    async def reported(self) -> AsyncIterator[Any]:
        return
        yield

    async def close(self) -> None:
        """Do nothing."""
