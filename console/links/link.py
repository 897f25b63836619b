"""The live link to one broker: it connects by itself, follows it, and connects again when the connection is lost.

It lives in the one thread of the loop of `registry.py`; other threads and loops read what it knows (`state.py`) and ask
the broker through `call` and `acall`. After a lost connection it goes on from the last event it had, so that no reader
misses one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from brokers.admin import AdminError, BrokerAdmin, BrokerUnreachable, Event, EventsExpired
from console.links.event_window import Tail
from console.links.following import BROKER, Following, Pace
from console.links.state import BrokerState

T = TypeVar("T")
log = logging.getLogger(__name__)


class BrokerLink(BrokerState):
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
        super().__init__(slug, keep_events)
        self.title = title
        self.pace = pace or Pace()
        self._connect = connect
        self._loop = loop
        self._admin: BrokerAdmin | None = None
        #: The link as it is for those who see some virtual hosts only; see `seen.py`.
        self.seen: dict[frozenset[str], BrokerLink] = {}
        self._attempted = asyncio.Event()

    def call(self, ask: Callable[[BrokerAdmin], Awaitable[T]], timeout: float | None = None) -> T:
        """Ask the broker and wait for the answer; not from a coroutine. Raises AdminError, among them
        BrokerUnreachable when it is not connected or the time (seconds) is up."""
        return asyncio.run_coroutine_threadsafe(self._ask(ask, timeout), self._loop).result()

    async def acall(self, ask: Callable[[BrokerAdmin], Awaitable[T]], timeout: float | None = None) -> T:  # noqa: ASYNC109
        """`call` for coroutines of any loop."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._ask(ask, timeout), self._loop))

    def require_known(self) -> None:
        """Raises BrokerUnreachable while nothing is known here at all; waits for the first attempt to connect."""
        if self.as_of is None:
            self.call(_nothing)
            if self.as_of is None:
                raise BrokerUnreachable(f"{self.title} has not been read yet")

    def require_current(self) -> None:
        """Raises BrokerUnreachable unless what is known here is of now: for what a decision is made from."""
        if not self.connected:
            self.call(_nothing)
            if not self.connected:
                raise BrokerUnreachable(f"{self.title} has not been read yet")

    async def events_after(self, number: int, count: int = 1000) -> Tail:
        """At most `count` events after `number`, from here or, if they are older, from the broker's journal. Nothing
        while they are still on their way. Raises AdminError."""
        tail = self.recent_events(number)
        if self.connected and number > self.newest_event:
            # Either the reader is ahead of this link for a moment, or the broker lost its journal and counts anew.
            newest = int((await self.acall(lambda admin: admin.read(BROKER)))["last_event"])
            if number <= newest:
                self.knows_event(newest)
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
                self.lost(str(error) or f"no connection within {self.pace.answer:g} s")
            except Exception as error:
                self.lost(_bug(self.slug, error))
            else:
                try:
                    self._admin = admin
                    self._attempted.set()
                    await Following(admin, self, self.pace).run()
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
            await asyncio.sleep(delay)
            delay = min(delay * 2, self.pace.retry_most)


def _bug(slug: str, error: Exception) -> str:
    """A fault of ours or of a driver must not leave pages with what looks like the truth: it is a lost connection."""
    log.exception("%s: following the broker failed", slug)
    return f"following the broker failed: {type(error).__name__}: {error}"


async def _nothing(admin: BrokerAdmin) -> None:
    """Asks nothing: the broker is reached, or `call` raises."""


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
