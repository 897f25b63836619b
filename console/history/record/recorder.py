"""Record one broker into the landing folder continuously: every event once, every received sample, and the coverage.

Events are requested by number from the last published one on, so none is lost or stored twice if any process is killed.
Samples cannot be requested again: a row of coverage states when they were recorded, and is written only after them, so
that gaps are visible. Times are those of the broker's clock.

Rows are published in a tail about every second and landed every minute (`recorded_files.py`); publishing takes at most
`Timing.share` of a processor. While the folder cannot be written, events remain in the broker's journal, and samples in
memory up to a limit.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa

from brokers.admin import AdminError, BrokerAdmin, BrokerUnreachable, Event, EventsExpired, ManagedObject, Samples
from brokers.model import object_name
from brokers.steady_clock import uptime
from console.history.record.another_journal import closing_events
from console.history.record.fresh_rollups import FreshRollups
from console.history.record.pace import Pace
from console.history.record.position import Position, run_of
from console.history.record.recorded_files import RecordedFiles
from console.history.record.unlanded import Unlanded
from console.history.storage.durations import HOUR, MINUTE
from console.history.storage.event_rows import Row, event_row, sample_row
from console.history.storage.fresh import RAW
from console.history.storage.landing import Landing, LandingError
from console.history.storage.table_versions import rolled_until

A = TypeVar("A")
T = TypeVar("T")
log = logging.getLogger(__name__)

BROKER = object_name("Broker")
_PAGE = 500  # queues per request
_ROWS = ("events", "samples")
#: ms after which a change has arrived in a sample, if anything sent later has arrived. Samples are sent every second.
_SAMPLE_DELAY_MS = 1500
#: A greater difference between the time that has passed and that of the broker's clock, in ms, is a clock that was set.
_CLOCK_STEP_MS = MINUTE


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds. `publish`: between two tails, longer if publishing takes more than `share` of a processor, `idle` if
    there is only coverage. `rotate`: between two landing files, fewer once there are `rows` rows; `rotate_coverage`: of
    coverage, which grows by one row a connection. `whole`: between two reads of all queues. `answer`: timeout of a
    request. `retry_first`, `retry_most`: delays before a new connection. `most_samples`: maximum buffered while the
    folder cannot be written; the oldest are dropped first."""

    publish: float = 1.0
    share: float = 0.05
    idle: float = 15.0
    rotate: float = 60.0
    rotate_coverage: float = 900.0
    rows: int = 20_000
    whole: float = 300.0
    answer: float = 10.0
    retry_first: float = 0.2
    retry_most: float = 5.0
    most_samples: int = 500_000


class Recorder:
    """Records the broker `slug`. `connect` opens a connection and may raise AdminError, OSError. `clock`: ms.
    `steady`: ms of a clock that is not set. `may_write`: whether this process still owns the broker."""

    def __init__(
        self,
        slug: str,
        connect: Callable[[], Awaitable[BrokerAdmin]],
        landing: Landing,
        *,
        timing: Timing | None = None,
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        steady: Callable[[], int] = uptime,
        may_write: Callable[[], bool] = lambda: True,
    ) -> None:
        self.slug = slug
        self.timing = timing or Timing()
        self._connect = connect
        self._files = RecordedFiles(landing, slug, may_write=may_write)
        self._rollups: FreshRollups | None = None
        self._rollups_took = 0.0  # processor seconds
        self._untaken: list[tuple[list[Row], list[Row], list[Row]]] = []
        self._clock, self._steady = clock, steady
        self._ahead = 0  # offset of the broker's clock, ms
        self._is_restored = False
        self._position: Position | None = None  # the last received event
        self._journal, self._rewinds = "", 0
        self._unlanded = Unlanded()
        self._missing: Row | None = None  # coverage of lost events, until the time of the next event is known
        self._is_covered = False  # since the start of the connection
        self._connected = 0  # when the connection was made, ms of the broker's clock
        self._followed_from: int | None = None  # start of the time that has no coverage yet
        self._followed_since = 0  # the same by the steady clock
        self._news = asyncio.Event()  # rows that are not published yet
        self._full = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._trouble = "not connected yet"
        self._published = 0.0  # monotonic seconds
        self._pace = Pace(self.timing.publish, self.timing.share)
        self._landing_due = self._coverage_due = float("inf")  # monotonic seconds
        self._hour: int | None = None  # of the broker's clock, up to which rows are published

    @property
    def run_name(self) -> str:
        return run_of(self._journal, self._rewinds)

    async def run(self) -> None:
        """Connect and record until cancelled; then publish the buffered rows."""
        delay = self.timing.retry_first
        while True:
            try:
                if not self._is_restored:
                    await asyncio.to_thread(self._restore)
                    self._position, self._is_restored = self._files.position, True
                async with asyncio.timeout(self.timing.answer):
                    admin = await self._connect()
            except (AdminError, OSError, TimeoutError, LandingError) as error:
                self._report(str(error) or "no connection in time")
            except Exception as error:
                # The recorders of the other brokers continue.
                trouble = f"recording cannot begin: {error!r}"
                if trouble != self._trouble:
                    log.exception("%s: recording cannot begin", self.slug)
                self._report(trouble)
            else:
                began = time.monotonic()
                try:
                    await self._follow(admin)
                except (AdminError, OSError, TimeoutError) as error:
                    self._report(f"recording of {self.slug} ended: {error or 'no response in time'}")
                except Exception as error:
                    log.exception("%s: recording failed", self.slug)
                    self._report(f"recording failed: {error}")
                finally:
                    with suppress(AdminError, OSError, TimeoutError):
                        async with asyncio.timeout(1):
                            await admin.close()
                # One that ends each connection at once gets no more of them than one that does not respond.
                if time.monotonic() - began > self.timing.retry_most:
                    delay = self.timing.retry_first
            await asyncio.sleep(delay)
            delay = min(delay * 2, self.timing.retry_most)

    def _restore(self) -> None:
        self._files.restore()
        timing, url = self.timing, self._files.landing.url
        self._rollups = FreshRollups(
            self._files,
            rolled_until=lambda: rolled_until(url, self.slug),
            share=timing.share,
            least=timing.publish,
        )
        self._with_rollups(FreshRollups.restore)

    def _with_rollups(self, work: Callable[[FreshRollups], T]) -> T | None:
        """Do work with the rollups. An error in them must not end the recording, from which the pipeline computes the
        same."""
        if self._rollups is None:
            return None
        began = time.thread_time()
        try:
            return work(self._rollups)
        except LandingError:
            raise
        except Exception:
            log.exception("%s: rollups are not published until the recorder starts again", self.slug)
            self._rollups = None
            return None
        finally:
            self._rollups_took += time.thread_time() - began

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
                self._publish_continuously(admin),
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
            self._followed_from, self._is_covered = None, False
            try:
                await self._publish(RAW)
            except Exception:
                # It must not replace what ended the connection, such as the end of the process.
                log.exception("%s: the last rows are not published", self.slug)

    async def _resume_after(self, admin: BrokerAdmin, broker: ManagedObject) -> int:
        """Return the number of the event to continue after: 0 for another journal, which has its own numbers."""
        self._connected = self._now()
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
        log.warning(
            "%s: the broker lost its last events, up to number %s, and reuses numbers",
            *(self.slug, last.number),
            extra={"event": last.number},
        )
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
                        extra={"event": after + 1},
                    )
                    self._missing = {
                        "reason": "not recorded for so long that the broker deleted events",
                        "first_missing": after + 1,
                        "last_missing": expired.first - 1,
                    }
                after = expired.first - 1

    def _take_event(self, event: Event) -> None:
        last = self._position
        if self._missing is not None:
            self._cover(last.at if last else event.at, event.at, followed=False, **self._missing)
            self._missing = None
        if last is not None and last.journal != self._journal:
            # Before the time of this connection, which is recorded as that of the new broker.
            closing = closing_events(last, self._journal, event, self._unlanded.covered_until, self._connected - 1)
            self._unlanded.events.received += [event_row(self.slug, self.run_name, each) for each in closing]
        self._unlanded.events.received.append(event_row(self.slug, self.run_name, event))
        self._position = Position(self._journal, event.number, event.at, event.text, self._rewinds)
        self._has_news()
        if len(self._unlanded.events) >= self.timing.rows:
            self._full.set()
            self._room.clear()  # the rest remains in the broker's journal

    async def _follow_samples(self, admin: BrokerAdmin) -> None:
        async for samples in admin.samples():
            self._ahead = samples.at - self._clock()
            self._take_samples(samples)

    def _take_samples(self, samples: Samples) -> None:
        run = self.run_name
        self._add_samples([sample_row(self.slug, run, samples.at, name, v, whole=False) for name, v in samples.queues])

    def _add_samples(self, rows: list[Row]) -> None:
        if not rows:
            return
        self._unlanded.samples.received += rows
        self._has_news()
        if len(self._unlanded.samples) >= self.timing.rows:
            self._full.set()

    def _has_news(self) -> None:
        self._news.set()
        self._landing_due = min(self._landing_due, time.monotonic() + self.timing.rotate)

    async def _read_whole(self, admin: BrokerAdmin) -> None:
        """Read all queues at the start and periodically: unchanged queues are in no sample."""
        first = True
        while True:
            began, since = self._now(), self._steady()
            offset, total = 0, 1
            while offset < total:
                page = await self._within(admin.query("Queue", offset=offset, count=_PAGE))
                at = self._now()
                self._add_samples(
                    [sample_row(self.slug, self.run_name, at, q.name, q.attributes, whole=True) for q in page.items]
                )
                offset, total = offset + max(len(page.items), 1), page.total
            if first:
                self._followed_from, self._followed_since, first = began, since, False
                self._report("")
            await asyncio.sleep(self.timing.whole)

    # -- publishing -------------------------------------------------------------------------------------------

    async def _publish_continuously(self, admin: BrokerAdmin) -> None:
        while True:
            await self._wait_until_due()
            # A response proves that the connection was alive until the request.
            requested, at = self._now(), self._steady()
            await self._within(admin.read(BROKER))
            certain = requested - _SAMPLE_DELAY_MS
            self._cover_until(certain, at)
            # A closed hour is landed at once, since the pipeline waits for it.
            hour = certain // HOUR
            has_closed = self._hour is not None and hour > self._hour
            self._hour = hour
            now = time.monotonic()
            if has_closed or now >= self._coverage_due:
                await self._publish(RAW)
            else:
                await self._publish(_ROWS if now >= self._landing_due or self._is_full() else ())

    async def _wait_until_due(self) -> None:
        timing = self.timing
        # The first coverage of a connection is published as soon as there is some.
        idle = timing.idle if self._is_covered else timing.publish
        until = min(self._published + idle, time.monotonic() + self._seconds_to_next_hour())
        with suppress(TimeoutError):
            async with asyncio.timeout_at(_loop_time(until)):
                await self._news.wait()
        with suppress(TimeoutError):
            async with asyncio.timeout_at(_loop_time(self._published + self._pace.seconds)):
                await self._full.wait()

    def _seconds_to_next_hour(self) -> float:
        """Return the seconds until the present hour can be covered to its end."""
        return (HOUR - (self._now() - _SAMPLE_DELAY_MS) % HOUR) / 1000

    def _is_full(self) -> bool:
        return max(len(self._unlanded.events), len(self._unlanded.samples)) >= self.timing.rows

    def _cover_until(self, certain: int, at: int) -> None:
        """Cover the time up to `certain`, unless the clock was set since the last coverage: which of that time is
        before the step, and which after it, is unknown. `at`: the same as `certain` by the steady clock."""
        since = self._followed_from
        if since is None:
            return
        step = certain - since - (at - self._followed_since)
        if abs(step) > _CLOCK_STEP_MS:
            log.warning("%s: the broker's clock moved by %+.0f s, which is no recorded time", self.slug, step / 1000)
        elif certain > since:
            self._cover(since, certain, followed=True)
            self._is_covered = True
        else:
            return
        self._followed_from, self._followed_since = certain, at

    def _cover(self, at: int, until: int, **values: Any) -> None:
        row = {"broker": self.slug, "run": self.run_name, "source": "recorder", **values, "at": at, "until": until}
        self._unlanded.cover(row)
        self._coverage_due = min(self._coverage_due, time.monotonic() + self.timing.rotate_coverage)

    async def _publish(self, landing: Sequence[str]) -> None:
        """Publish the rows that are not landed; land those of the kinds `landing` first. Unwritten rows remain
        buffered."""
        self._published = time.monotonic()
        self._news.clear()
        self._full.clear()
        self._untaken.append(self._unlanded.seal(self._position))
        try:
            await _finish_in_thread(self._write, landing)
        except LandingError as error:
            self._report(f"{error}; retrying")
        else:
            if landing:
                self._landing_due = float("inf") if self._unlanded.is_sealed else self._published + self.timing.rotate
            if "coverage" in landing:
                self._coverage_due = float("inf")
            if self._trouble and self._followed_from is not None:
                self._report("")
        finally:
            self._unlanded.settle()
            self._drop_oldest_samples()
            if len(self._unlanded.events) < self.timing.rows:
                self._room.set()

    def _write(self, landing: Sequence[str]) -> None:
        """Land these kinds, and publish. The processor time counts for the pace without that of the rollups, also that
        of an attempt that fails, since the next one repeats it."""
        began, of_rollups = time.thread_time(), self._rollups_took
        try:
            self._land_and_publish(landing)
        finally:
            self._pace.took(time.thread_time() - began - (self._rollups_took - of_rollups))

    def _land_and_publish(self, landing: Sequence[str]) -> None:
        unlanded = self._unlanded
        try:
            tails = {kind: rows for kind, rows in unlanded.tables().items() if rows.num_rows}
            has_landed = self._land(landing, tails)
        finally:
            # Also while nothing can be written, or they would be buffered without a limit.
            while self._untaken:
                received = self._untaken.pop(0)
                self._with_rollups(lambda rollups, received=received: rollups.take(*received))  # type: ignore[misc]
        fresh = self._with_rollups(FreshRollups.files)
        # Landed rows whose coverage a power failure has lost would be unknown.
        self._files.publish(tails, unlanded.position, unlanded.covered_until, fresh, durable=has_landed)
        if has_landed:
            self._with_rollups(FreshRollups.store_state)

    def _land(self, landing: Sequence[str], tails: dict[str, pa.Table]) -> bool:
        """Land these kinds, and remove them from `tails`. Return whether there were any."""
        has_landed = False
        for kind in landing:  # samples before their coverage
            if kind in tails:
                position = self._unlanded.position if kind == "events" else None
                self._files.land(kind, tails.pop(kind), position)
                self._unlanded.landed(kind)
                has_landed = True
        if has_landed:
            self._files.remember()
        return has_landed

    def _drop_oldest_samples(self) -> None:
        """Drop the oldest samples above the maximum, and the coverage of their time."""
        dropped = self._unlanded.drop_oldest_samples(self.timing.most_samples)
        if dropped is None:
            return
        count, lost_from, lost_until = dropped
        log.warning("%s: %s samples were dropped, since the history folder cannot be written", self.slug, count)
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


def _loop_time(at: float) -> float:
    """Return the event loop's time for a monotonic time, which another implementation of the loop may count from
    elsewhere."""
    return asyncio.get_running_loop().time() + at - time.monotonic()


async def _finish_in_thread(work: Callable[[A], T], argument: A) -> T:
    """Run `work` in a thread; if cancelled meanwhile, wait for its end first, also if that is an error."""
    working = asyncio.ensure_future(asyncio.to_thread(work, argument))
    cancelled = False
    while not working.done():
        try:
            await asyncio.wait([working])
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        working.exception()  # retrieved, or it would be logged as lost
        raise asyncio.CancelledError
    return working.result()
