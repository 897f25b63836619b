"""The live link to one broker: it connects by itself, follows events and samples, and connects again when lost.

Everything here runs in the one thread of `console/brokers.py`'s loop; other threads use the methods under
"from any thread". What it keeps are absolute values (rows of queues, the broker's totals) and the newest events
without a hole: after a lost connection it goes on from the last event it had, so that no reader misses one.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from brokers.admin import AdminError, BrokerAdmin, BrokerUnreachable, Event, EventsExpired, NotFound
from brokers.managed import ObjectName, object_name
from console.links.event_window import EventWindow, Tail
from console.links.queue_table import QueueTable, Row, must_be_read, queue_of, queue_values

T = TypeVar("T")
log = logging.getLogger(__name__)

BROKER = object_name("Broker")
STOPS = frozenset({"producers-stopped", "producers-started"})
#: Attributes of the broker that change all the time and that the queues' rows and the events tell sooner.
_TOLD_BY_QUEUES = frozenset(
    {
        "queues",
        "overfull_queues",
        "stopped_queues",
        "producers",
        "blocked_producers",
        "consumers",
        "depth_messages",
        "depth_bytes",
        "last_event",
    }
)
_PAGE = 500  # queues asked for at once
#: A broker with more queues is not asked for all of them again when a wider scope has changed: that would cost it more
#: than the samples that tell the same within a second.
_READ_ALL = 1000
_READ_SINGLY = 50  # more queues than this to read: read all of them, page by page


@dataclass(frozen=True, slots=True)
class Status:
    """`since`: ms since the epoch. `error`: a sentence, while it is not connected."""

    connected: bool
    since: int
    error: str = ""


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds. `retry_first` doubles up to `retry_most`. `requery`: all queues are read anew, as a safety net.
    `totals`: the broker object is read at most this often, unless its stops or defaults have changed.
    `answer`: the time limit of one question."""

    retry_first: float = 0.2
    retry_most: float = 3.0
    requery: float = 300.0
    totals: float = 1.0
    answer: float = 5.0


class Subscription:
    """Wakes a reader on the reader's own loop; wake-ups that come while one is on its way are one."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._wake = wake
        self._on_its_way = False

    def _notify(self) -> None:
        if self._on_its_way:
            return
        self._on_its_way = True
        try:
            self._loop.call_soon_threadsafe(self._arrive)
        except RuntimeError:  # the reader's loop has ended without unsubscribing
            self._on_its_way = True

    def _arrive(self) -> None:
        self._on_its_way = False
        self._wake()


class BrokerLink:
    """One broker. `connect` opens a connection; it may raise AdminError or OSError."""

    def __init__(
        self,
        slug: str,
        title: str,
        connect: Callable[[], Awaitable[BrokerAdmin]],
        loop: asyncio.AbstractEventLoop,
        *,
        pace: Pace | None = None,
        keep_events: int = 5000,
    ) -> None:
        self.slug = slug
        self.title = title
        self.pace = pace or Pace()
        self._connect = connect
        self._loop = loop
        self._lock = threading.Lock()
        self._window = EventWindow(keep_events)
        self._queues = QueueTable()
        self._broker: Row | None = None
        self._status = Status(False, _now(), "connecting")
        self._was_lost = False
        self._revision = 0
        self._newest_event = 0
        self._subscriptions: set[Subscription] = set()
        self._admin: BrokerAdmin | None = None
        self._attempted = asyncio.Event()
        self._to_read: set[ObjectName] = set()
        self._read_all = False
        self._reading_due = asyncio.Event()
        self._totals_due = asyncio.Event()
        self._totals_urgent = asyncio.Event()

    # -- from any thread ----------------------------------------------------------------------------------------

    @property
    def status(self) -> Status:
        return self._status

    @property
    def connected(self) -> bool:
        return self._status.connected

    @property
    def broker(self) -> Row | None:
        """The attributes of the broker object, as of the last read; None before the first connection."""
        return self._broker

    @property
    def revision(self) -> int:
        """Grows whenever a queue, the broker's totals or the status change."""
        return self._revision + self._queues.revision

    @property
    def newest_event(self) -> int:
        """Number of the newest event that is known to exist, whether it has arrived here yet or not."""
        return max(self._newest_event, self._window.last or 0)

    def queues(self) -> list[Row]:
        """Every queue's newest row: its attributes and `object`, the text of its name."""
        with self._lock:
            return self._queues.rows()

    @property
    def queue_count(self) -> int:
        return len(self._queues)

    def queue(self, name: ObjectName | str) -> Row | None:
        return self._queues.row(str(name))

    def recent_events(self, after: int) -> Tail:
        """What this link has of the events after `after`; see `events_after` for older ones."""
        with self._lock:
            if after > (self._window.last or 0):
                return Tail(())  # still on their way
            return self._window.after(after)

    def has_events_after(self, number: int) -> bool:
        """Whether `recent_events` would tell something new."""
        with self._lock:
            last = self._window.last or 0
            if number > last:
                return self.connected and number > self._newest_event
            return number < last

    def subscribe(self, wake: Callable[[], None]) -> Subscription:
        """Call `wake` on the running loop whenever events, values or the status have changed."""
        subscription = Subscription(wake)
        with self._lock:
            self._subscriptions.add(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        with self._lock:
            self._subscriptions.discard(subscription)

    def call(self, ask: Callable[[BrokerAdmin], Awaitable[T]], timeout: float | None = None) -> T:
        """Ask the broker and wait for the answer; not from a coroutine. Raises AdminError, among them
        BrokerUnreachable when it is not connected or the time (seconds) is up."""
        return asyncio.run_coroutine_threadsafe(self._ask(ask, timeout), self._loop).result()

    async def acall(self, ask: Callable[[BrokerAdmin], Awaitable[T]], timeout: float | None = None) -> T:  # noqa: ASYNC109
        """`call` for coroutines of any loop."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._ask(ask, timeout), self._loop))

    async def events_after(self, number: int, count: int = 1000) -> Tail:
        """At most `count` events after `number`, from here or, if they are older, from the broker's journal. Nothing
        while they are still on their way. Raises AdminError."""
        tail = self.recent_events(number)
        if self.connected and number > self.newest_event:
            # Either the reader is ahead of this link for a moment, or the broker lost its journal and counts anew.
            newest = int((await self.acall(lambda admin: admin.read(BROKER)))["last_event"])
            if number <= newest:
                self._newest_event = max(self._newest_event, newest)
                return Tail(())
            with self._lock:
                tail = self._window.after(number)
        elif tail.expired_before is not None and self.connected:
            return await self._events_of_journal(number, count)
        return Tail(tail.events[:count], tail.expired_before)

    async def _events_of_journal(self, number: int, count: int) -> Tail:
        end = min(self.newest_event, number + count)
        try:
            return Tail(tuple(await self.acall(lambda admin: _collect(admin, number, end))))
        except EventsExpired as expired:
            first = expired.first
            end = min(self.newest_event, first - 1 + count)
            return Tail(tuple(await self.acall(lambda admin: _collect(admin, first - 1, end))), first)

    # -- in the loop --------------------------------------------------------------------------------------------

    async def _ask(self, ask: Callable[[BrokerAdmin], Awaitable[T]], seconds: float | None) -> T:
        limit = self.pace.answer if seconds is None else seconds
        try:
            async with asyncio.timeout(limit):
                await self._attempted.wait()
                if self._admin is None:
                    raise BrokerUnreachable(f"{self.title} cannot be reached: {self._status.error}")
                return await ask(self._admin)
        except TimeoutError:
            raise BrokerUnreachable(f"{self.title} did not answer within {limit:g} s") from None

    async def run(self) -> None:
        """Connect and follow for ever; ends by cancellation only."""
        delay = self.pace.retry_first
        while True:
            try:
                async with asyncio.timeout(self.pace.answer):
                    admin = await self._connect()
            except (AdminError, OSError, TimeoutError) as error:
                self._lost(str(error) or f"no connection within {self.pace.answer:g} s")
            except Exception as error:
                self._lost(_bug(self.slug, error))
            else:
                try:
                    self._admin = admin
                    self._attempted.set()
                    await self._follow(admin)
                except (AdminError, OSError, TimeoutError) as error:
                    if self.connected:
                        delay = self.pace.retry_first
                    self._lost(str(error) or "the connection was lost")
                except Exception as error:
                    self._lost(_bug(self.slug, error))
                finally:
                    self._admin = None
                    await _close(admin)
            self._attempted.set()
            await asyncio.sleep(delay)
            delay = min(delay * 2, self.pace.retry_most)

    async def _follow(self, admin: BrokerAdmin) -> None:
        """Read the state, then keep it up to date until the connection is lost."""
        broker = await self._within(admin.read(BROKER))
        newest = int(broker["last_event"])
        with self._lock:
            if self._window.last is None or newest < self._window.last:
                # The first connection, or a broker whose journal was lost and that counts anew.
                self._window.begin_after(max(0, newest - self._window.keep))
            self._newest_event = newest
            after = self._window.last or 0
        tasks = [
            asyncio.ensure_future(self._follow_events(admin, after, newest)),
            asyncio.ensure_future(self._follow_samples(admin)),
        ]
        try:
            await self._until_done(self._read_queues(admin), tasks)
            self._put_broker(broker.attributes)
            self._connected_now()
            tasks += [asyncio.ensure_future(self._keep_read(admin)), asyncio.ensure_future(self._keep_totals(admin))]
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            raise BrokerUnreachable("the broker ended the stream of events")
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _until_done(self, work: Awaitable[None], watched: Sequence[asyncio.Future[None]]) -> None:
        """Do the work, but give up as soon as one of the watched tasks ends."""
        task = asyncio.ensure_future(work)
        try:
            await asyncio.wait([task, *watched], return_when=asyncio.FIRST_COMPLETED)
            for ended in watched:
                if ended.done():
                    ended.result()
                    raise BrokerUnreachable("the broker ended the stream of events")
            await task
        finally:
            task.cancel()

    async def _follow_events(self, admin: BrokerAdmin, after: int, known: int) -> None:
        """`known`: events up to this number happened before the state was read, and so tell nothing new about it."""
        while True:
            try:
                async for event in admin.events(after=after):
                    self._take_event(event, applies=event.number > known)
                return
            except EventsExpired as expired:
                after = expired.first - 1
                with self._lock:
                    self._window.begin_after(after)

    def _take_event(self, event: Event, *, applies: bool) -> None:
        with self._lock:
            if not self._window.add([event]):
                return
            if applies:
                self._apply(event)
        if applies:
            self._totals_due.set()
            if event.kind in STOPS or event.object == BROKER:
                self._totals_urgent.set()
        self._notify()

    def _apply(self, event: Event) -> None:
        if event.kind == "queue-deleted":
            self._queues.drop(event.object)
            return
        queue = queue_of(event)
        if queue is not None and not self._queues.merge(queue, queue_values(event)):
            self._to_read.add(queue)
        names, everything = must_be_read([event])
        self._to_read |= names
        self._read_all |= everything and len(self._queues) <= _READ_ALL
        if self._to_read or self._read_all:
            self._reading_due.set()

    async def _follow_samples(self, admin: BrokerAdmin) -> None:
        async for samples in admin.samples():
            with self._lock:
                for name, values in samples.queues:
                    if not self._queues.merge(name, values):
                        self._to_read.add(name)
            if self._to_read:
                self._reading_due.set()
            self._totals_due.set()
            self._notify()

    async def _read_queues(self, admin: BrokerAdmin) -> None:
        with self._lock:
            self._queues.begin_sweep()
        offset = 0
        while True:
            page = await self._within(admin.query("Queue", offset=offset, count=_PAGE))
            with self._lock:
                for queue in page.items:
                    self._queues.put(queue)
            offset += len(page.items)
            if not page.items or offset >= page.total:
                break
        with self._lock:
            self._queues.end_sweep()
        self._notify()

    async def _keep_read(self, admin: BrokerAdmin) -> None:
        """Read whole what events left open, and everything now and then."""
        while True:
            try:
                async with asyncio.timeout(self.pace.requery):
                    await self._reading_due.wait()
            except TimeoutError:
                self._read_all = True
                self._totals_due.set()
            self._reading_due.clear()
            names, self._to_read = self._to_read, set()
            read_all, self._read_all = self._read_all, False
            if read_all or len(names) > _READ_SINGLY:
                await self._read_queues(admin)
                continue
            for name in names:
                await self._read_queue(admin, name)
            self._notify()

    async def _read_queue(self, admin: BrokerAdmin, name: ObjectName) -> None:
        try:
            queue = await self._within(admin.read(name))
        except NotFound:
            with self._lock:
                self._queues.drop(name)
            return
        with self._lock:
            self._queues.put(queue)

    async def _keep_totals(self, admin: BrokerAdmin) -> None:
        while True:
            await self._totals_due.wait()
            self._totals_due.clear()
            self._totals_urgent.clear()
            self._put_broker((await self._within(admin.read(BROKER))).attributes)
            self._notify()
            with suppress(TimeoutError):
                async with asyncio.timeout(self.pace.totals):
                    await self._totals_urgent.wait()

    async def _within(self, answer: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout(self.pace.answer):
                return await answer
        except TimeoutError:
            raise BrokerUnreachable(f"the broker did not answer within {self.pace.answer:g} s") from None

    def _put_broker(self, attributes: Any) -> None:
        known, self._broker = self._broker, dict(attributes)
        if known is None or any(known.get(a) != v for a, v in attributes.items() if a not in _TOLD_BY_QUEUES):
            self._revision += 1

    def _connected_now(self) -> None:
        self._status = Status(True, _now())
        self._revision += 1
        log.log(logging.INFO if self._was_lost else logging.DEBUG, "%s: connected", self.slug)
        self._notify()

    def _lost(self, error: str) -> None:
        if self.connected:
            log.warning("%s: lost: %s", self.slug, error)
            self._was_lost = True
        if self.connected or self._status.error != error:
            self._status = Status(False, _now() if self.connected else self._status.since, error)
            self._revision += 1
            self._notify()

    def _notify(self) -> None:
        with self._lock:
            subscriptions = list(self._subscriptions)
        for subscription in subscriptions:
            subscription._notify()


def _bug(slug: str, error: Exception) -> str:
    """A fault of ours or of a driver must not leave pages with what looks like the truth: it is a lost connection."""
    log.exception("%s: following the broker failed", slug)
    return f"following the broker failed: {type(error).__name__}: {error}"


async def _collect(admin: BrokerAdmin, after: int, last: int) -> list[Event]:
    """The events above `after` up to number `last`, which exist already."""
    events: list[Event] = []
    if after >= last:
        return events
    stream = admin.events(after=after)
    try:
        async for event in stream:
            events.append(event)
            if event.number >= last:
                break
    finally:
        close = getattr(stream, "aclose", None)
        if close is not None:
            await close()
    return events


async def _close(admin: BrokerAdmin) -> None:
    try:
        async with asyncio.timeout(1):
            await admin.close()
    except (AdminError, OSError, TimeoutError):
        pass  # it was lost already


def _now() -> int:
    return int(time.time() * 1000)
