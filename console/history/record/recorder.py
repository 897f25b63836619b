"""Record one broker into the landing folder continuously: every event once, every received sample, and the coverage.

Events are requested by number from the last published one on, so none is lost or stored twice if any process is killed.
Samples cannot be requested again: a row of coverage states when they were recorded, and is written only after them, so
that gaps are visible. Times are those of the broker's clock.

Rows are buffered for `Timing.rotate` seconds or up to `Timing.rows` rows, then published as a file of each kind. While
the folder cannot be written, events remain in the broker's journal, and samples in memory up to a limit.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from brokers.admin import AdminError, BrokerAdmin, BrokerUnreachable, Event, EventsExpired, ManagedObject, Samples
from brokers.model import object_name
from console.history.record import position
from console.history.record.position import Position, file_name, run_of
from console.history.storage.event_rows import Row, event_row, sample_row, table
from console.history.storage.landing import Landing, LandingError
from console.history.storage.landing_names import part

T = TypeVar("T")
log = logging.getLogger(__name__)

BROKER = object_name("Broker")
_PAGE = 500  # queues per request
#: ms after which a change has arrived in a sample, if anything sent later has arrived. Samples are sent every second.
_SAMPLE_DELAY_MS = 1500


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds. `rotate`: between two files, fewer once there are `rows` rows, up to `idle` if there is only coverage.
    `whole`: between two reads of all queues. `answer`: timeout of a request. `retry_first`, `retry_most`: delays before
    a new connection. `most_samples`: maximum buffered while the folder cannot be written; the oldest are dropped
    first."""

    rotate: float = 5.0
    idle: float = 15.0
    rows: int = 20_000
    whole: float = 300.0
    answer: float = 10.0
    retry_first: float = 0.2
    retry_most: float = 5.0
    most_samples: int = 500_000


@dataclass(slots=True)
class _Pending:
    """Received rows that are not published yet."""

    events: list[Event] = field(default_factory=list)
    samples: list[Row] = field(default_factory=list)
    coverage: list[Row] = field(default_factory=list)


class Recorder:
    """Records the broker `slug`. `connect` opens a connection and may raise AdminError, OSError. `clock`: ms."""

    def __init__(
        self,
        slug: str,
        connect: Callable[[], Awaitable[BrokerAdmin]],
        landing: Landing,
        *,
        timing: Timing | None = None,
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self.slug = slug
        self.timing = timing or Timing()
        self._connect = connect
        self._landing = landing
        self._clock = clock
        self._ahead = 0  # offset of the broker's clock, ms
        self._position: Position | None = None
        self._journal, self._rewinds = "", 0
        self._pending = _Pending()
        self._missing: Row | None = None  # coverage of lost events, until the time of the next event is known
        self._followed_from: int | None = None  # start of the time that has no coverage yet
        self._full = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._trouble = "not connected yet"
        self._published = 0.0

    @property
    def run_name(self) -> str:
        return run_of(self._journal, self._rewinds)

    async def run(self) -> None:
        """Connect and record until cancelled; then publish the buffered rows."""
        delay = self.timing.retry_first
        while True:
            try:
                if self._position is None:
                    self._position = await asyncio.to_thread(position.load, self._landing, self.slug)
                async with asyncio.timeout(self.timing.answer):
                    admin = await self._connect()
            except (AdminError, OSError, TimeoutError, LandingError) as error:
                self._report(str(error) or "no connection in time")
            else:
                try:
                    await self._follow(admin)
                except (AdminError, OSError, TimeoutError) as error:
                    self._report(f"recording of {self.slug} ended: {error or 'no response in time'}")
                    delay = self.timing.retry_first
                except Exception as error:
                    log.exception("%s: recording failed", self.slug)
                    self._report(f"recording failed: {error}")
                finally:
                    with suppress(AdminError, OSError, TimeoutError):
                        async with asyncio.timeout(1):
                            await admin.close()
            await asyncio.sleep(delay)
            delay = min(delay * 2, self.timing.retry_most)

    def _report(self, trouble: str) -> None:
        """Log a change of the state: an error, once, or "" for recording."""
        if trouble != self._trouble:
            log.warning("%s: %s", self.slug, trouble) if trouble else log.info("%s: recording", self.slug)
        self._trouble = trouble

    # -- one connection ---------------------------------------------------------------------------------------

    async def _follow(self, admin: BrokerAdmin) -> None:
        broker = await self._within(admin.read(BROKER))
        after = await self._resume_after(admin, broker)
        tasks = [
            asyncio.ensure_future(work)
            for work in (
                self._follow_events(admin, after),
                self._follow_samples(admin),
                self._read_whole(admin),
                self._rotate(admin),
            )
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            raise BrokerUnreachable("the broker ended a stream")
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._followed_from = None
            await self._publish()
            self._pending.events.clear()  # unwritten ones remain in the broker's journal
            self._room.set()

    async def _resume_after(self, admin: BrokerAdmin, broker: ManagedObject) -> int:
        """Return the number of the event to continue after: 0 for another journal, which has its own numbers."""
        journal = str(broker.attributes.get("journal") or f"started-{broker['started']}")
        newest = int(broker["last_event"])
        last = self._position
        if last is None or last.journal != journal:
            self._journal, self._rewinds = journal, 0
            return 0
        self._journal, self._rewinds = journal, last.rewinds
        if last.number <= newest and await self._same_as(admin, last):
            return last.number
        # After a power failure the broker may have lost its last events and reused their numbers.
        self._rewinds += 1
        log.warning("%s: the broker lost its last events, up to number %s, and reuses numbers", self.slug, last.number)
        self._missing = {"reason": "the broker lost its last events and reused their numbers"}
        return newest

    async def _same_as(self, admin: BrokerAdmin, last: Position) -> bool:
        if last.number < 1:
            return True
        stream = admin.events(after=last.number - 1)
        try:
            event = await self._within(anext(stream))
        except EventsExpired:
            return True  # pruned: it cannot be compared any more
        finally:
            with suppress(AttributeError):
                await stream.aclose()  # type: ignore[attr-defined]
        return (event.at, event.text) == (last.at, last.text)

    async def _follow_events(self, admin: BrokerAdmin, after: int) -> None:
        while True:
            try:
                async for event in admin.events(after=after):
                    await self._room.wait()
                    self._take_event(event)
                return
            except EventsExpired as expired:
                if after == 0:
                    pass  # events from before the first recording are not missing
                elif expired.first <= after:
                    raise BrokerUnreachable("the broker has another journal now") from expired
                else:
                    log.warning(
                        "%s: events %s to %s are lost: the broker has deleted them",
                        *(self.slug, after + 1, expired.first - 1),
                    )
                    self._missing = {
                        "reason": "not recorded for so long that the broker deleted events",
                        "first_missing": after + 1,
                        "last_missing": expired.first - 1,
                    }
                after = expired.first - 1

    def _take_event(self, event: Event) -> None:
        if self._missing is not None:
            since = self._position.at if self._position else event.at
            self._cover(since, event.at, followed=False, **self._missing)
            self._missing = None
        self._pending.events.append(event)
        if len(self._pending.events) >= self.timing.rows:
            self._full.set()
            self._room.clear()  # the rest remains in the broker's journal

    async def _follow_samples(self, admin: BrokerAdmin) -> None:
        async for samples in admin.samples():
            self._ahead = samples.at - self._clock()
            self._take_samples(samples)

    def _take_samples(self, samples: Samples) -> None:
        rows = self._pending.samples
        run = self.run_name
        rows += [sample_row(self.slug, run, samples.at, name, v, whole=False) for name, v in samples.queues]
        if len(rows) >= self.timing.rows:
            self._full.set()

    async def _read_whole(self, admin: BrokerAdmin) -> None:
        """Read all queues at the start and periodically: unchanged queues are in no sample."""
        first = True
        while True:
            began = self._now()
            offset, total = 0, 1
            while offset < total:
                page = await self._within(admin.query("Queue", offset=offset, count=_PAGE))
                at = self._now()
                self._pending.samples += [
                    sample_row(self.slug, self.run_name, at, q.name, q.attributes, whole=True) for q in page.items
                ]
                offset, total = offset + max(len(page.items), 1), page.total
            if first:
                self._followed_from, first = began, False
                self._report("")
            await asyncio.sleep(self.timing.whole)

    # -- publishing -------------------------------------------------------------------------------------------

    async def _rotate(self, admin: BrokerAdmin) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self.timing.rotate):
                    await self._full.wait()
            self._full.clear()
            # A response proves that the connection was alive until the request.
            requested = self._now()
            await self._within(admin.read(BROKER))
            certain = requested - _SAMPLE_DELAY_MS
            if self._followed_from is not None and certain > self._followed_from:
                self._cover(self._followed_from, certain, followed=True)
                self._followed_from = certain
            has_rows = self._pending.events or self._pending.samples
            if has_rows or time.monotonic() - self._published >= self.timing.idle:
                await self._publish()

    def _cover(self, at: int, until: int, **values: Any) -> None:
        self._pending.coverage.append(
            {"broker": self.slug, "run": self.run_name, "source": "recorder", **values, "at": at, "until": until}
        )

    async def _publish(self) -> None:
        """Publish samples before their coverage, and events before the position. Unwritten rows remain buffered."""
        pending, self._pending = self._pending, _Pending()
        self._published = time.monotonic()
        try:
            await _finish_in_thread(self._write, pending)
        except LandingError as error:
            self._report(f"{error}; retrying")
        else:
            if self._trouble and self._followed_from is not None:
                self._report("")
        finally:
            # `_write` has cleared the lists that it has written.
            self._pending.events[:0] = pending.events
            self._pending.samples[:0] = pending.samples
            self._pending.coverage[:0] = pending.coverage
            self._drop_oldest_samples()
            if len(self._pending.events) < self.timing.rows:
                self._room.set()

    def _write(self, pending: _Pending) -> None:
        run = self.run_name
        if pending.events:
            first, last = pending.events[0], pending.events[-1]
            rows = table("events", [event_row(self.slug, run, event) for event in pending.events])
            self._landing.publish("events", rows, file_name(self.slug, run, first.number, last.number))
            pending.events.clear()
            self._position = Position(self._journal, last.number, last.at, last.text, self._rewinds)
            position.store(self._landing, self.slug, self._position)
        if pending.samples:
            at = pending.samples[0]["at"]
            name = f"recorder~{part(self.slug)}~{at:015}~{time.time_ns()}"
            self._landing.publish("samples", table("samples", pending.samples), name)
            pending.samples.clear()
        if pending.coverage:
            name = f"recorder~{part(self.slug)}~{pending.coverage[0]['at']:015}~{time.time_ns()}"
            self._landing.publish("coverage", table("coverage", pending.coverage), name)
            pending.coverage.clear()

    def _drop_oldest_samples(self) -> None:
        """Drop the oldest samples above the maximum, and the coverage of their time."""
        samples = self._pending.samples
        if len(samples) <= self.timing.most_samples:
            return
        dropped = samples[: len(samples) - self.timing.most_samples]
        del samples[: len(dropped)]
        lost_from, lost_until = dropped[0]["at"], dropped[-1]["at"]
        log.warning("%s: %s samples were dropped, since the history folder cannot be written", self.slug, len(dropped))
        remaining = []
        for row in self._pending.coverage:
            if not row["followed"] or row["at"] > lost_until or row["until"] < lost_from:
                remaining.append(row)
            elif row["until"] > lost_until:
                remaining.append({**row, "at": lost_until})
        self._pending.coverage = remaining
        self._cover(lost_from, lost_until, followed=False, reason="the history folder could not be written")
        if self._followed_from is not None:
            self._followed_from = max(self._followed_from, lost_until)

    # -- inside -------------------------------------------------------------------------------------------------

    def _now(self) -> int:
        """Return the time of the broker's clock, ms, estimated from its last sample."""
        return self._clock() + self._ahead

    async def _within(self, answer: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout(self.timing.answer):
                return await answer
        except TimeoutError:
            raise BrokerUnreachable(f"the broker did not respond within {self.timing.answer:g} s") from None


async def _finish_in_thread(work: Callable[[T], None], argument: T) -> None:
    """Run `work` in a thread; if cancelled meanwhile, wait for its end first."""
    working = asyncio.ensure_future(asyncio.to_thread(work, argument))
    try:
        await asyncio.shield(working)
    except asyncio.CancelledError:
        await working
        raise
