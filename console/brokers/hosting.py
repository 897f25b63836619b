"""The brokers that this process polls and serves: those of the table that no other process hosts.

A lease a broker in the console's database: never two processes poll one. Changes of the table take effect at the next
look; a process whose leases could not be extended in time ends its polling, since another one may have taken over.
Beside the lease, links find where a broker is served now (`ServedBroker`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol, TypeVar, cast

from django.db import DatabaseError, transaction

from brokers.adapters.adapter import Adapter, Finding
from brokers.adapters.kinds import KINDS
from brokers.adapters.records import Records, StoreError
from brokers.admin import BrokerUnreachable
from brokers.model import ManagedType
from brokers.steady_clock import uptime
from console.brokers import keys
from console.brokers.database_thread import DatabaseThread
from console.brokers.keys import KeyMissing
from console.brokers.models import ForeignBroker, ServedBroker
from console.leases import lease
from console.leases.lease import Busy
from console.leases.process import this_process

T = TypeVar("T")
log = logging.getLogger(__name__)

#: Seconds between two looks at the table, between two extensions of the leases, and after which a lease expires. A
#: process of another host takes over within LEASE_SECONDS and two looks: it must have observed no extension for
#: LEASE_SECONDS, so that no difference between the clocks of the hosts lets two processes host a broker.
LOOK_SECONDS, EXTEND_SECONDS, LEASE_SECONDS = 1.0, 2.5, 10.0
#: Part of the names of leases.
PREFIX = "adapter~"


def steady() -> float:
    """Seconds of a clock that goes on while the machine sleeps."""
    return uptime() / 1000


def lease_of(slug: str) -> str:
    """Return the name of the lease of a broker."""
    return f"{PREFIX}{slug}"


@dataclass(frozen=True, slots=True)
class Address:
    """Where this process serves, see `ServedBroker`. `password`: of the user `console`."""

    host: str
    port: int
    password: str = field(repr=False)
    certificate: str = ""


class Service(Protocol):
    """What hosts adapters: `brokers.adapters.service.AdaptersService`."""

    @property
    def names(self) -> list[str]: ...

    @property
    def failed(self) -> list[str]: ...

    def add(self, name: str, adapter: Adapter, records: Records) -> None: ...

    async def remove(self, name: str) -> None: ...


@dataclass(slots=True)
class Hosting:
    """`now`: ms since the epoch, for adapters. `say`: called with the hosted brokers when they have changed. `open_`:
    opens what is stored of a broker, whose lease this process owns, in a thread with a connection to the database; its
    second argument extends the leases, for what takes long. `address`: of the service; None: it is not published.
    `steady`: monotonic seconds."""

    service: Service
    now: Callable[[], int]
    say: Callable[[list[str]], None]
    open_: Callable[[ForeignBroker, Callable[[], object]], Records]
    address: Address | None = None
    steady: Callable[[], float] = steady
    #: Of the hosted brokers: the row, its revision, and which acquisition of the lease. After another one everything is
    #: read again, since a process in between may have stored events and stops. Another row is another broker, which was
    #: added under the slug of one that was removed.
    _hosted: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    _leased: dict[str, int] = field(default_factory=dict)  # which acquisition
    _acquired: int = 0
    _extended: float = float("-inf")
    _said: list[str] | None = None
    _troubles: dict[str, str] = field(default_factory=dict)  # by broker; "": of the table
    _thread: DatabaseThread = field(default_factory=lambda: DatabaseThread("brokers"))

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
            self._report("", f"the table of brokers cannot be read: {error}")
            if self.steady() - self._extended < LEASE_SECONDS:
                return
            rows, leased = {}, {}  # another process may host them now
            self._leased = {}
        else:
            self._report("", "")
        failed = self.service.failed
        for slug, hosted in list(self._hosted.items()):
            same = slug in rows and slug in leased and hosted == (rows[slug].pk, rows[slug].revision, leased[slug])
            if not same or slug in failed:
                await self._remove(slug)
        for slug in sorted(leased.keys() & rows.keys() - self._hosted.keys()):
            await self._add(rows[slug], leased[slug])
        for slug in leased.keys() - rows.keys():
            self._leased.pop(slug, None)
            with contextlib.suppress(DatabaseError):
                await self._in_database(partial(lease.release, lease_of(slug)))
        slugs = sorted(self._hosted)
        if slugs != self._said:
            self._said = slugs
            self.say(slugs)

    async def end(self) -> None:
        for slug in list(self._hosted):
            await self._remove(slug)
        with contextlib.suppress(DatabaseError):
            for slug in self._leased:
                await self._in_database(partial(lease.release, lease_of(slug)))
        self._leased = {}
        self._thread.close()

    def owns(self, slug: str, acquired: int) -> bool:
        """Return whether the lease of a broker is that of an acquisition and cannot have expired, by the steady
        clock."""
        return self._leased.get(slug) == acquired and self.steady() - self._extended < LEASE_SECONDS

    def _read(self) -> tuple[dict[str, ForeignBroker], dict[str, int]]:
        """Return the brokers to host, and those of them and of the hosted ones that this process has a lease for, with
        its acquisition."""
        rows = {row.slug: row for row in ForeignBroker.objects.filter(paused=False).defer("encrypted", "authority")}
        self._extend()
        for slug in rows.keys() - self._leased.keys():
            if _take(lease_of(slug)):
                self._acquired += 1
                self._leased[slug] = self._acquired
        return rows, dict(self._leased)

    def _extend(self) -> None:
        """Extend the leases, if it is time. Those that expired are no longer this process's."""
        began = self.steady()
        if began - self._extended < EXTEND_SECONDS:
            return
        if self._leased and not lease.extend([lease_of(slug) for slug in self._leased], LEASE_SECONDS):
            owned = {slug: n for slug, n in self._leased.items() if lease.extend([lease_of(slug)], LEASE_SECONDS)}
            self._leased = owned
        self._extended = began

    async def _add(self, row: ForeignBroker, acquired: int) -> None:
        slug = row.slug
        try:
            adapter = await self._in_database(lambda: _adapter(row, self.now, lambda: self.owns(slug, acquired)))
            records = await self._in_database(lambda: self.open_(row, self._extend))
            self.service.add(slug, adapter, records)
        except (StoreError, DatabaseError) as error:
            self._report(slug, f"{slug} cannot be hosted: {error}")
            return
        except Exception:  # of one broker: the others are hosted
            log.exception("%s cannot be hosted", slug)
            return
        self._hosted[slug] = row.pk, row.revision, acquired
        try:
            await self._in_database(lambda: self._publish(row))
        except (DatabaseError, KeyMissing) as error:
            self._report(slug, f"{slug} cannot be hosted, since links would not find it: {error}")
            await self._remove(slug)
        else:
            self._report(slug, "")

    async def _remove(self, slug: str) -> None:
        del self._hosted[slug]
        await self.service.remove(slug)
        mine = ServedBroker.objects.filter(broker__slug=slug, process=this_process())
        with contextlib.suppress(DatabaseError):
            await self._in_database(mine.delete)

    def _publish(self, row: ForeignBroker) -> None:
        if self.address is None:
            return
        with keys.locked(), transaction.atomic():
            if not lease.owns(lease_of(row.slug)):
                return  # the next look removes it
            address, process = self.address, this_process()
            values = {"process": process, "host": address.host, "port": address.port}
            secret = {"encrypted": keys.encrypt(address.password), "certificate": address.certificate}
            ServedBroker.objects.update_or_create(broker_id=row.pk, defaults={**values, **secret})

    async def _in_database(self, work: Callable[[], T]) -> T:
        return await self._thread.run(work)

    def _report(self, slug: str, trouble: str) -> None:
        """Log what is wrong, once; "": nothing is."""
        trouble = trouble.strip()
        if trouble and trouble != self._troubles.get(slug):
            log.warning("%s", trouble)
        self._troubles[slug] = trouble


def _take(name: str) -> bool:
    """Acquire a lease, or again one that this process could not extend in time and that no other has taken."""
    try:
        lease.take(name, LEASE_SECONDS, silence=LEASE_SECONDS)
    except Busy as busy:
        return busy.holder == this_process() and lease.extend([name], LEASE_SECONDS)
    return True


def _adapter(row: ForeignBroker, now: Callable[[], int], allowed: Callable[[], bool]) -> Adapter:
    """Return the broker's adapter; if its password or kind is unusable, one that says so wherever it is shown."""
    try:
        return KINDS[row.kind].open(replace(row.account(), allowed=allowed), now)
    except KeyMissing as error:
        return cast(Adapter, _Unusable(str(error)))
    except KeyError:
        return cast(Adapter, _Unusable(f"this version of Headgate has no kind {row.kind!r} of brokers"))


class _Unusable:
    """An adapter that cannot connect: nothing else of it is ever called."""

    types: Mapping[str, ManagedType] = {}
    reports: frozenset[str] = frozenset()
    paged = False
    identity = ""

    def __init__(self, why: str) -> None:
        self._why = why

    async def connect(self) -> list[Finding]:
        raise BrokerUnreachable(self._why)

    async def reported(self) -> AsyncIterator[Any]:
        return
        yield

    def clock_set(self, step: int) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Do nothing."""
