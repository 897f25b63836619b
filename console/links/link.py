"""The link to one broker: connect, synchronize the snapshot, and reconnect after a lost connection.

A link runs in the thread of the event loop of `registry.py`. Other threads and loops read its snapshot (`state.py`)
and send requests to the broker with `call` and `acall`. After reconnecting it continues after its last event, so no
reader misses one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from brokers.admin import AdminError, BrokerAdmin, BrokerUnreachable, Event, EventsExpired
from console.conditions.active import ActiveConditions
from console.links.event_window import Tail
from console.links.state import BrokerState
from console.links.synchronization import BROKER, Pace, Synchronization

T = TypeVar("T")
log = logging.getLogger(__name__)


class BrokerLink(BrokerState):
    """The link to one broker. `connect` opens a connection; it may raise AdminError or OSError."""

    def __init__(
        self,
        slug: str,
        title: str,
        connect: Callable[[], Awaitable[BrokerAdmin]],
        loop: asyncio.AbstractEventLoop,
        *,
        pace: Pace | None = None,
        event_capacity: int = 5000,
        types_known: bool = True,
    ) -> None:
        super().__init__(slug, event_capacity, types_known=types_known)
        self.title = title
        self.pace = pace or Pace()
        self._connect = connect
        self._loop = loop
        self._admin: BrokerAdmin | None = None
        #: Restricted links, by visible virtual hosts; see `visibility.py`.
        self.restricted: dict[frozenset[str], BrokerLink] = {}
        self._attempted = asyncio.Event()
        self._elsewhere = asyncio.Event()  # `_connect` has been replaced

    def call(self, request: Callable[[BrokerAdmin], Awaitable[T]], timeout: float | None = None) -> T:
        """Send a request to the broker and wait for the answer; not for coroutines. `timeout`: s. Raises AdminError,
        among them BrokerUnreachable if the broker is disconnected or does not answer in time."""
        return asyncio.run_coroutine_threadsafe(self._request(request, timeout), self._loop).result()

    async def acall(self, request: Callable[[BrokerAdmin], Awaitable[T]], timeout: float | None = None) -> T:  # noqa: ASYNC109
        """`call` for coroutines of any loop."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._request(request, timeout), self._loop))

    def require_snapshot(self) -> None:
        """Raise BrokerUnreachable if there is no snapshot; wait for the first attempt to connect."""
        if self.as_of is None:
            self.call(_nothing)
            if self.as_of is None:
                raise BrokerUnreachable(f"{self.title} has not been read yet")

    def require_current(self) -> None:
        """Raise BrokerUnreachable unless the snapshot is current: decisions must not depend on an old one."""
        if not self.connected:
            self.call(_nothing)
            if not self.connected:
                raise BrokerUnreachable(f"{self.title} has not been read yet")

    def reconfigure(self, title: str, connect: Callable[[], Awaitable[BrokerAdmin]]) -> None:
        """Set the title, and how to connect. If that differs, the link connects again at once: the broker is served
        elsewhere now, or was paused or resumed."""
        self.title = title
        if _differ(connect, self._connect):
            self._connect = connect
            self._loop.call_soon_threadsafe(self._elsewhere.set)

    def removed(self) -> None:
        """The broker is no longer configured and `run` is cancelled: those who still have the link see it as
        disconnected, without conditions, since those are no longer observed. In the links' thread."""
        self._admin = None
        self.active_conditions = ActiveConditions()
        self.lost("the broker was removed from the console", is_removed=True)
        self._attempted.set()

    async def events_after(self, number: int, count: int = 1000) -> Tail:
        """Return at most `count` events after `number`, from the window or, if they are older, from the broker's
        journal; none while they are in flight. Raises AdminError."""
        tail = self.recent_events(number)
        if self.connected and number > self.newest_event:
            # Either the reader is briefly ahead of this link, or the broker lost its journal and restarted its numbers.
            newest = int((await self.acall(lambda admin: admin.read(BROKER)))["last_event"])
            if number <= newest:
                self.note_newest_event(newest)
                return Tail(())
            with self.lock:
                tail = self.window.after(number)
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

    async def _request(self, request: Callable[[BrokerAdmin], Awaitable[T]], seconds: float | None) -> T:
        limit = self.pace.answer if seconds is None else seconds
        try:
            async with asyncio.timeout(limit):
                await self._attempted.wait()
                if self._admin is None:
                    raise BrokerUnreachable(f"{self.title} cannot be reached: {self._status.error}")
                return await request(self._admin)
        except TimeoutError:
            raise BrokerUnreachable(f"{self.title} did not answer within {limit:g} s") from None

    async def run(self) -> None:
        """Connect and synchronize until cancelled."""
        delay = self.pace.retry_first
        while True:
            self._elsewhere.clear()
            try:
                async with asyncio.timeout(self.pace.answer):
                    admin = await self._connect()
            except (AdminError, OSError, TimeoutError) as error:
                self.lost(str(error) or f"no connection within {self.pace.answer:g} s")
            except Exception as error:
                self.lost(_bug(self.slug, error))
            else:
                try:
                    self._admin = admin
                    self._attempted.set()
                    await self._unless_elsewhere(Synchronization(admin, self, self.pace).run())
                except (AdminError, OSError, TimeoutError) as error:
                    if self.connected:
                        delay = self.pace.retry_first
                    self.lost(str(error) or "the connection was lost")
                except Exception as error:
                    self.lost(_bug(self.slug, error))
                finally:
                    self._admin = None
                    await _close(admin)
            self._attempted.set()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._elsewhere.wait(), delay)
                delay = self.pace.retry_first
                continue
            delay = min(delay * 2, self.pace.retry_most)

    async def _unless_elsewhere(self, work: Coroutine[Any, Any, None]) -> None:
        """Do the work; raise as soon as there is another way to connect."""
        working, elsewhere = asyncio.ensure_future(work), asyncio.ensure_future(self._elsewhere.wait())
        try:
            await asyncio.wait([working, elsewhere], return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                raise BrokerUnreachable("connecting to another address")
            await working
        finally:
            for task in (working, elsewhere):
                task.cancel()
            await asyncio.gather(working, elsewhere, return_exceptions=True)


def _differ(one: Callable[..., object], other: Callable[..., object]) -> bool:
    if isinstance(one, partial) and isinstance(other, partial):
        return (one.func, one.args, one.keywords) != (other.func, other.args, other.keywords)
    return one != other


def _bug(slug: str, error: Exception) -> str:
    """Log an unexpected error and return its text. It counts as a lost connection, so that pages show their data as
    outdated."""
    log.exception("%s: synchronization failed", slug)
    return f"synchronization failed: {type(error).__name__}: {error}"


async def _nothing(admin: BrokerAdmin) -> None:
    """Send no request: `call` raises unless the broker is connected."""


async def _collect(admin: BrokerAdmin, after: int, last: int) -> list[Event]:
    """Return the existing events above `after` up to number `last`."""
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
        pass  # the connection is already lost
