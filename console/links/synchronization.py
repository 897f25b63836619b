"""Synchronize the snapshot of a broker over one connection: read its state, then update it until the connection ends.

Events and samples have absolute values, and both subscriptions start before the state is read, so no change is missed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from brokers.admin import BrokerAdmin, BrokerUnreachable, Event, EventsExpired, NotFound, Page
from brokers.model import ObjectName, object_name
from console.links.queue_table import Row, must_be_read, queue_of, queue_values
from console.links.state import BrokerState

T = TypeVar("T")

BROKER = object_name("Broker")
STORES = frozenset({"store-overfull", "store-underfull"})
STOPS = frozenset({"producers-stopped", "producers-started"})
_SWEEPS = 3  # at most, in sequence
_PAGE = 500  # queues, or virtual hosts, per query
#: The queues of a larger broker are not all read again after a change of a wider scope: samples have the new values
#: within a second at a lower cost.
_READ_ALL = 1000
#: Queues that are read by their names at once: with more, decoding the answer delays others.
_NAMED = 100
#: Pause after a part of the samples, or of the conditions, of thousands of queues, s: a part takes some 8 ms, and a
#: request to the broker several turns of the loop, which must not wait for a part each.
_PAUSE = 0.005


@dataclass(frozen=True, slots=True)
class Pace:
    """Intervals and time limits, s. `retry_first`: pause before reconnecting; it doubles up to `retry_most`.
    `requery`: interval of reading all queues, as a safety net. `totals`: shortest interval of reading the broker
    object, longer with many queues; a change of its stops or defaults is read at once. `hosts`: interval of reading
    virtual hosts; a shortage of a store is read at once. `conditions`: interval of detecting conditions. `answer`:
    time limit of a request. `probe`: a broker that has not answered for this time gets a small request, with the time
    limit `probe_answer`, so that a hanging broker is detected and the snapshot's age is known. Idle processes do little
    else, so it is not sent more often."""

    retry_first: float = 0.2
    retry_most: float = 3.0
    requery: float = 300.0
    totals: float = 1.0
    hosts: float = 10.0
    conditions: float = 1.0
    answer: float = 5.0
    probe: float = 2.0
    probe_answer: float = 4.0


class Synchronization:
    """Synchronization over one connection; `run` raises the AdminError that ended the connection."""

    def __init__(self, admin: BrokerAdmin, state: BrokerState, pace: Pace) -> None:
        self._admin = admin
        self._state = state
        self._pace = pace
        self._to_read: set[ObjectName] = set()
        #: The queues that were deleted while a query of queues waits for its answer; None: none waits. There is one at
        #: a time.
        self._deleted: set[ObjectName] | None = None
        self._read_all = False
        self._reading_due = asyncio.Event()
        self._totals_due = asyncio.Event()
        self._totals_urgent = asyncio.Event()
        self._hosts_due = asyncio.Event()
        self._notifying = False

    async def run(self) -> None:
        began = self._state.clock.now()
        self._state.types = await self._within(self._admin.types())
        self._state.types_known = True
        broker = await self._within(self._admin.read(BROKER))
        newest = int(broker["last_event"])
        after = self._state.begin_events(newest)
        tasks = [
            asyncio.ensure_future(self._follow_events(after, newest)),
            asyncio.ensure_future(self._follow_samples()),
        ]
        try:
            await self._until_done(self._read_queues(), tasks)
            self._state.put_broker(broker.attributes)
            self._state.connected_now(began)
            tasks += [
                asyncio.ensure_future(work)
                for work in (
                    self._read_due_queues(),
                    self._read_totals(),
                    self._read_hosts(),
                    self._probe(),
                    self._update_conditions(),
                )
            ]
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            raise BrokerUnreachable("the broker closed the stream of events")
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _until_done(self, work: Awaitable[None], watched: Sequence[asyncio.Future[None]]) -> None:
        """Do the work; raise as soon as one of the watched tasks ends."""
        task = asyncio.ensure_future(work)
        try:
            await asyncio.wait([task, *watched], return_when=asyncio.FIRST_COMPLETED)
            for ended in watched:
                if ended.done():
                    ended.result()
                    raise BrokerUnreachable("the broker closed the stream of events")
            await task
        finally:
            task.cancel()

    async def _follow_events(self, after: int, newest: int) -> None:
        """Process events after a number. Those up to `newest` precede the state that is read, and do not change it."""
        while True:
            try:
                async for event in self._admin.events(after=after):
                    self._take_event(event, applies=event.number > newest)
                return
            except EventsExpired as expired:
                after = expired.first - 1
                with self._state.lock:
                    self._state.window.begin_after(after)

    def _take_event(self, event: Event, *, applies: bool) -> None:
        with self._state.lock:
            if not self._state.window.add([event]):
                return
            if applies:
                self._apply(event)
        if applies:
            self._totals_due.set()
            if event.kind in STOPS or event.object == BROKER:
                self._totals_urgent.set()
        if not self._notifying:
            # Once for all events that have arrived in one message: they are read without a turn of the loop between.
            self._notifying = True
            asyncio.get_running_loop().call_soon(self._notify)

    def _notify(self) -> None:
        self._notifying = False
        self._state.notify()

    def _apply(self, event: Event) -> None:
        if event.kind == "queue-deleted":
            self._drop(event.object)
            if self._deleted is not None:
                self._deleted.add(event.object)
            return
        queue = queue_of(event)
        if queue is not None and event.kind == "queue-overfull":
            self._state.active_conditions.became_overfull(str(queue), event.at)
        elif queue is not None and event.kind == "producer-detached":
            self._state.active_conditions.broke_flow_control(str(queue), event.at, event.text)
        elif event.kind in STORES:
            self._hosts_due.set()
        if queue is not None and not self._state.table.merge(queue, queue_values(event)):
            self._to_read.add(queue)
        names, everything = must_be_read([event])
        self._to_read |= names
        self._read_all |= everything and len(self._state.table) <= _READ_ALL
        if self._to_read or self._read_all:
            self._reading_due.set()

    async def _follow_samples(self) -> None:
        async for samples in self._admin.samples():
            with self._state.lock:
                self._state.update_broker_clock(samples.at)
                for name, values in samples.queues:
                    self._state.trends.take(str(name), samples.at, values)
                self._to_read.update(self._state.table.merge_all(samples.queues))
            if self._to_read:
                self._reading_due.set()
            self._totals_due.set()
            self._state.notify()
            await asyncio.sleep(_PAUSE)  # samples of all queues have arrived together

    async def _read_queues(self) -> None:
        """Read every queue, page by page; repeat it if queues were created or deleted meanwhile, since the pages may
        then miss a queue."""
        table = self._state.table
        for _ in range(_SWEEPS):
            with self._state.lock:
                table.begin_sweep()
            offset = total = 0
            while True:
                page = await self._query_queues(offset=offset, count=_PAGE)
                offset, total = offset + len(page.items), page.total
                if not page.items or offset >= total:
                    break
            with self._state.lock:
                missing = table.end_sweep()
            await self._read_named(missing)
            if len(table) == total:
                break
        self._state.notify()

    async def _read_due_queues(self) -> None:
        """Read the queues whose events are incomplete, and all queues periodically."""
        while True:
            try:
                async with asyncio.timeout(self._pace.requery):
                    await self._reading_due.wait()
            except TimeoutError:
                self._read_all = True
                self._totals_due.set()
            self._reading_due.clear()
            names, self._to_read = self._to_read, set()
            read_all, self._read_all = self._read_all, False
            if read_all:
                await self._read_queues()
                continue
            await self._read_named(names)
            self._state.notify()

    async def _read_named(self, names: Collection[ObjectName]) -> None:
        """Read these queues, and drop those that do not exist. Many at once, by virtual host: a stop of named queues
        changes thousands."""
        by_host: dict[str, list[ObjectName]] = {}
        for name in names:
            by_host.setdefault(name["virtualhost"], []).append(name)
        for host, of_host in by_host.items():
            for first in range(0, len(of_host), _NAMED):
                some = of_host[first : first + _NAMED]
                where = {"virtualhost": host, "name": [name["name"] for name in some]}
                page = await self._query_queues(where=where, count=len(some))
                with self._state.lock:
                    for gone in set(some) - {queue.name for queue in page.items}:
                        self._drop(gone)

    async def _query_queues(self, **query: Any) -> Page:
        """Send a query of queues, put their rows into the table, and return the answer. Events have a connection of
        their own: that of a deletion can be processed before an answer that still has the queue. If a queue of that
        name has been created since, an event follows, after which it is read again."""
        self._deleted = deleted = set[ObjectName]()
        try:
            page = await self._within(self._admin.query("Queue", **query))
        finally:
            self._deleted = None
        with self._state.lock:
            for queue in page.items:
                if queue.name not in deleted:
                    self._state.table.put(queue)
        return page

    def _drop(self, queue: ObjectName) -> None:
        self._state.table.drop(queue)
        self._state.trends.drop(str(queue))

    async def _read_totals(self) -> None:
        while True:
            await self._totals_due.wait()
            self._totals_due.clear()
            self._totals_urgent.clear()
            self._state.put_broker((await self._within(self._admin.read(BROKER))).attributes)
            self._state.notify()
            # The broker computes sums over its queues, which takes tens of milliseconds for 10,000 of them.
            factor = max(1, len(self._state.table) / _READ_ALL)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._pace.totals * factor):
                    await self._totals_urgent.wait()

    async def _read_hosts(self) -> None:
        while True:
            self._hosts_due.clear()
            with suppress(NotFound):  # a broker without virtual hosts
                self._state.hosts = await self._all_hosts()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._pace.hosts):
                    await self._hosts_due.wait()

    async def _all_hosts(self) -> dict[str, Row]:
        found: dict[str, Row] = {}
        offset = 0
        while True:
            page = await self._within(self._admin.query("VirtualHost", offset=offset, count=_PAGE))
            found.update({host.name["name"]: {"object": str(host.name), **host.attributes} for host in page.items})
            offset += len(page.items)
            if not page.items or offset >= page.total:
                return found

    async def _probe(self) -> None:
        """Send a small request after a time without answers, to distinguish an idle broker from a hanging one."""
        while True:
            answered = self._state.answered_at or 0
            left = self._pace.probe - (self._state.clock.now() - answered) / 1000
            await asyncio.sleep(max(left, 0.01))
            if (self._state.answered_at or 0) == answered:
                await self._within(self._small_request(), min(self._pace.answer, self._pace.probe_answer))

    async def _small_request(self) -> None:
        with suppress(NotFound):  # also an answer
            await self._admin.query("VirtualHost", count=0)

    async def _update_conditions(self) -> None:
        while True:
            with closing(self._state.update_conditions_in_steps()) as steps:
                for _ in steps:
                    await asyncio.sleep(_PAUSE)
            await asyncio.sleep(self._pace.conditions)

    async def _within(self, answer: Awaitable[T], limit: float | None = None) -> T:
        limit, requested = limit or self._pace.answer, self._state.clock.now()
        try:
            async with asyncio.timeout(limit):
                result = await answer
        except TimeoutError:
            raise BrokerUnreachable(f"the broker did not answer within {limit:g} s") from None
        if self._state.connected:  # until everything has been read, the snapshot keeps its age
            self._state.answered(requested)
        return result
