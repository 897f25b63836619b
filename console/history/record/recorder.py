"""Following one broker into the landing folder, for ever: every event once, every sample that comes, when it looked.

Events are replayed by number from the last one that was published, so none is lost and none is stored twice, whoever is
killed. Samples cannot be replayed: a row of coverage says from when to when they were followed, and is only written
after them, so what was not seen looks like it. Times are the broker's own clock's.

Rows are gathered for `Rhythm.rotate` seconds or `Rhythm.rows` rows, then a file of each kind is published. A folder
that cannot be written is tried again: events wait in the broker's journal meanwhile, samples here, up to a limit.
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
from console.history.storage.landing import Landing, LandingError, part

T = TypeVar("T")
log = logging.getLogger(__name__)

BROKER = object_name("Broker")
_PAGE = 500  # queues asked for at once
#: A change is in a sample after a second; ms until it is certain to be here if anything that was sent later is.
_ON_ITS_WAY = 1500


@dataclass(frozen=True, slots=True)
class Rhythm:
    """Seconds, and `rows`: a file is published sooner than `rotate` with so many, later (`idle`) if there is nothing to
    tell but that. `whole`: all queues are read anew.
    `most_samples`: kept while the folder cannot be written; then the oldest are given up."""

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
    """What was taken and is not published yet."""

    events: list[Event] = field(default_factory=list)
    samples: list[Row] = field(default_factory=list)
    coverage: list[Row] = field(default_factory=list)


class Recorder:
    """`connect` opens a connection to the broker `slug`; it may raise AdminError or OSError. `clock`: ms."""

    def __init__(
        self,
        slug: str,
        connect: Callable[[], Awaitable[BrokerAdmin]],
        landing: Landing,
        *,
        rhythm: Rhythm | None = None,
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self.slug = slug
        self.rhythm = rhythm or Rhythm()
        self._connect = connect
        self._landing = landing
        self._clock = clock
        self._ahead = 0  # the broker's clock less ours, ms
        self._position: Position | None = None
        self._journal, self._rewinds = "", 0
        self._pending = _Pending()
        self._missing: Row | None = None  # events that are gone, until it is known from when the next one is
        self._followed_from: int | None = None  # nothing since then is covered yet
        self._full = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._trouble = "not connected yet"
        self._published = 0.0

    @property
    def run_name(self) -> str:
        return run_of(self._journal, self._rewinds)

    async def run(self) -> None:
        """Connect and follow for ever. Cancelled, it publishes what it has."""
        delay = self.rhythm.retry_first
        while True:
            try:
                if self._position is None:
                    self._position = await asyncio.to_thread(position.load, self._landing, self.slug)
                async with asyncio.timeout(self.rhythm.answer):
                    admin = await self._connect()
            except (AdminError, OSError, TimeoutError, LandingError) as error:
                self._say(str(error) or "no connection in time")
            else:
                try:
                    await self._follow(admin)
                except (AdminError, OSError, TimeoutError) as error:
                    self._say(f"following {self.slug} ended: {error or 'no answer in time'}")
                    delay = self.rhythm.retry_first
                except Exception as error:
                    log.exception("%s: recording failed", self.slug)
                    self._say(f"recording failed: {error}")
                finally:
                    with suppress(AdminError, OSError, TimeoutError):
                        async with asyncio.timeout(1):
                            await admin.close()
            await asyncio.sleep(delay)
            delay = min(delay * 2, self.rhythm.retry_most)

    def _say(self, trouble: str) -> None:
        """A trouble that goes on is told once."""
        if trouble != self._trouble:
            log.warning("%s: %s", self.slug, trouble) if trouble else log.info("%s: recording", self.slug)
        self._trouble = trouble

    # -- one connection ---------------------------------------------------------------------------------------

    async def _follow(self, admin: BrokerAdmin) -> None:
        broker = await self._within(admin.read(BROKER))
        after = await self._place(admin, broker)
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
            self._pending.events.clear()  # what could not be written waits in the broker's journal
            self._room.set()

    async def _place(self, admin: BrokerAdmin, broker: ManagedObject) -> int:
        """The number of the event to go on after. Another journal counts its own events, from the beginning."""
        journal = str(broker.attributes.get("journal") or f"started-{broker['started']}")
        newest = int(broker["last_event"])
        known = self._position
        if known is None or known.journal != journal:
            self._journal, self._rewinds = journal, 0
            return 0
        self._journal, self._rewinds = journal, known.rewinds
        if known.number <= newest and await self._same_as(admin, known):
            return known.number
        # After a power cut the broker may have lost its last events, and given their numbers to others since.
        self._rewinds += 1
        log.warning("%s: events after number %s were lost by the broker and are numbered anew", self.slug, known.number)
        self._missing = {"reason": "the broker lost its last events and numbered on from older ones"}
        return newest

    async def _same_as(self, admin: BrokerAdmin, known: Position) -> bool:
        if known.number < 1:
            return True
        stream = admin.events(after=known.number - 1)
        try:
            event = await self._within(anext(stream))
        except EventsExpired:
            return True  # pruned: what it was cannot be seen any more
        finally:
            with suppress(AttributeError):
                await stream.aclose()  # type: ignore[attr-defined]
        return (event.at, event.text) == (known.at, known.text)

    async def _follow_events(self, admin: BrokerAdmin, after: int) -> None:
        while True:
            try:
                async for event in admin.events(after=after):
                    await self._room.wait()
                    self._take_event(event)
                return
            except EventsExpired as expired:
                if after == 0:
                    pass  # what was before the first time that anybody recorded is not missing
                elif expired.first <= after:
                    raise BrokerUnreachable("the broker's journal is another one now") from expired
                else:
                    log.warning(
                        "%s: events %s to %s are lost: the broker does not keep them any more",
                        *(self.slug, after + 1, expired.first - 1),
                    )
                    self._missing = {
                        "reason": "nobody recorded for so long that the broker dropped events",
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
        if len(self._pending.events) >= self.rhythm.rows:
            self._full.set()
            self._room.clear()  # the rest waits in the broker's journal

    async def _follow_samples(self, admin: BrokerAdmin) -> None:
        async for samples in admin.samples():
            self._ahead = samples.at - self._clock()
            self._take_samples(samples)

    def _take_samples(self, samples: Samples) -> None:
        rows = self._pending.samples
        run = self.run_name
        rows += [sample_row(self.slug, run, samples.at, name, v, whole=False) for name, v in samples.queues]
        if len(rows) >= self.rhythm.rows:
            self._full.set()

    async def _read_whole(self, admin: BrokerAdmin) -> None:
        """All queues, at once and every now and then: what does not change is in no sample."""
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
                self._say("")
            await asyncio.sleep(self.rhythm.whole)

    # -- publishing -------------------------------------------------------------------------------------------

    async def _rotate(self, admin: BrokerAdmin) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self.rhythm.rotate):
                    await self._full.wait()
            self._full.clear()
            # The answer says that the broker lives, so a silence before it was no lost connection.
            asked = self._now()
            await self._within(admin.read(BROKER))
            sure = asked - _ON_ITS_WAY
            if self._followed_from is not None and sure > self._followed_from:
                self._cover(self._followed_from, sure, followed=True)
                self._followed_from = sure
            news = self._pending.events or self._pending.samples
            if news or time.monotonic() - self._published >= self.rhythm.idle:
                await self._publish()

    def _cover(self, at: int, until: int, **values: Any) -> None:
        self._pending.coverage.append(
            {"broker": self.slug, "run": self.run_name, "source": "recorder", **values, "at": at, "until": until}
        )

    async def _publish(self) -> None:
        """Samples, then what they cover; events, then the position. What cannot be written is kept for next time."""
        taken, self._pending = self._pending, _Pending()
        self._published = time.monotonic()
        try:
            await _to_its_end(self._write, taken)
        except LandingError as error:
            self._say(f"{error}; trying again")
        else:
            if self._trouble and self._followed_from is not None:
                self._say("")
        finally:
            # `_write` has emptied what it could write.
            self._pending.events[:0] = taken.events
            self._pending.samples[:0] = taken.samples
            self._pending.coverage[:0] = taken.coverage
            self._give_up()
            if len(self._pending.events) < self.rhythm.rows:
                self._room.set()

    def _write(self, taken: _Pending) -> None:
        run = self.run_name
        if taken.events:
            first, last = taken.events[0], taken.events[-1]
            rows = table("events", [event_row(self.slug, run, event) for event in taken.events])
            self._landing.publish("events", rows, file_name(self.slug, run, first.number, last.number))
            taken.events.clear()
            self._position = Position(self._journal, last.number, last.at, last.text, self._rewinds)
            position.store(self._landing, self.slug, self._position)
        if taken.samples:
            at = taken.samples[0]["at"]
            name = f"recorder~{part(self.slug)}~{at:015}~{time.time_ns()}"
            self._landing.publish("samples", table("samples", taken.samples), name)
            taken.samples.clear()
        if taken.coverage:
            name = f"recorder~{part(self.slug)}~{taken.coverage[0]['at']:015}~{time.time_ns()}"
            self._landing.publish("coverage", table("coverage", taken.coverage), name)
            taken.coverage.clear()

    def _give_up(self) -> None:
        """Too many samples wait: the oldest go, and with them the claim to have followed that time."""
        samples = self._pending.samples
        if len(samples) <= self.rhythm.most_samples:
            return
        gone = samples[: len(samples) - self.rhythm.most_samples]
        del samples[: len(gone)]
        lost_from, lost_until = gone[0]["at"], gone[-1]["at"]
        log.warning("%s: %s samples are given up, since the history folder cannot be written", self.slug, len(gone))
        kept = []
        for row in self._pending.coverage:
            if not row["followed"] or row["at"] > lost_until or row["until"] < lost_from:
                kept.append(row)
            elif row["until"] > lost_until:
                kept.append({**row, "at": lost_until})
        self._pending.coverage = kept
        self._cover(lost_from, lost_until, followed=False, reason="the history folder could not be written")
        if self._followed_from is not None:
            self._followed_from = max(self._followed_from, lost_until)

    # -- --------------------------------------------------------------------------------------------------------

    def _now(self) -> int:
        """By the broker's clock, as far as it is known."""
        return self._clock() + self._ahead

    async def _within(self, answer: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout(self.rhythm.answer):
                return await answer
        except TimeoutError:
            raise BrokerUnreachable(f"the broker did not answer within {self.rhythm.answer:g} s") from None


async def _to_its_end(work: Callable[[T], None], what: T) -> None:
    """Work in a thread; whoever is cancelled meanwhile waits for its end first."""
    working = asyncio.ensure_future(asyncio.to_thread(work, what))
    try:
        await asyncio.shield(working)
    except asyncio.CancelledError:
        await working
        raise
