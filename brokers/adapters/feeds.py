"""The events and samples of a broker behind an adapter, for any number of readers in this process.

Events come from the journal, so that a slow reader needs no memory and misses none. Samples are absolute values: a slow
reader gets each queue's latest.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakSet

from brokers.adapters.records import Expired, Records
from brokers.admin import BrokerUnreachable, Event, EventsExpired, Samples
from brokers.model import ObjectName

#: Events read from the journal at once.
BATCH = 500


class Feeds:
    """What the readers of one broker wait for. `unreachable`: why there is nothing to read, None while there is."""

    def __init__(self, journal: Records) -> None:
        self.journal = journal
        self.unreachable: str | None = "the broker has not been read yet"
        #: Called when there are events or samples, or the broker has become unreachable.
        self.on_news: Callable[[], None] = lambda: None
        self._readers: WeakSet[EventFeed | SampleFeed] = WeakSet()

    def add(self, reader: EventFeed | SampleFeed) -> None:
        self._readers.add(reader)

    def news(self) -> None:
        """Wake the readers."""
        for reader in list(self._readers):
            reader.wake()
        self.on_news()

    def publish(self, samples: Samples) -> None:
        for reader in list(self._readers):
            if isinstance(reader, SampleFeed):
                reader.put(samples)
        self.news()

    def check(self) -> None:
        """Raise BrokerUnreachable if nothing can be read."""
        if self.unreachable is not None:
            raise BrokerUnreachable(self.unreachable)


class EventFeed:
    """Every event after a number (None: from now on), then new ones."""

    def __init__(self, feeds: Feeds, after: int | None) -> None:
        self._feeds = feeds
        journal = feeds.journal
        if after is not None and not journal.first <= after + 1 <= journal.last + 1:
            text = f"the requested events are no longer available: the first is number {journal.first}"
            self._expired: EventsExpired | None = EventsExpired(text, journal.first)
        else:
            self._expired = None
        self._last = journal.last if after is None else after
        self._ready: deque[Event] = deque()
        self._news = asyncio.Event()
        self._closed = False
        feeds.add(self)

    def wake(self) -> None:
        self._news.set()

    def __aiter__(self) -> EventFeed:
        return self

    async def __anext__(self) -> Event:
        if self._expired is not None:
            raise self._expired
        while not self._ready:
            if self._closed:
                raise StopAsyncIteration
            self._news.clear()
            try:
                self._ready.extend(self._feeds.journal.read(self._last, BATCH))
            except Expired as expired:
                raise EventsExpired(str(expired), expired.first) from None
            if self._ready:
                break
            self._feeds.check()  # after the events: the last ones say why it cannot be reached
            await self._news.wait()
        event = self._ready.popleft()
        self._last = event.number
        return event

    async def aclose(self) -> None:
        self._closed = True
        self._news.set()


class SampleFeed:
    """The samples, about once a second."""

    def __init__(self, feeds: Feeds) -> None:
        self._feeds = feeds
        self._at: int | None = None  # of the newest unread sample
        self._queues: dict[ObjectName, Mapping[str, Any]] = {}
        self._news = asyncio.Event()
        self._closed = False
        feeds.add(self)

    def put(self, samples: Samples) -> None:
        self._at = samples.at
        self._queues.update(samples.queues)

    def wake(self) -> None:
        self._news.set()

    def __aiter__(self) -> SampleFeed:
        return self

    async def __anext__(self) -> Samples:
        while self._at is None:
            if self._closed:
                raise StopAsyncIteration
            self._feeds.check()
            self._news.clear()
            await self._news.wait()
        samples = self.take()
        assert samples is not None
        return samples

    def take(self, most: int | None = None) -> Samples | None:
        """Return the unread samples, of at most `most` queues, or None if there are none."""
        if self._at is None:
            return None
        names = list(self._queues)[:most]
        samples = Samples(self._at, tuple((name, self._queues.pop(name)) for name in names))
        if not self._queues:
            self._at = None
        return samples

    async def aclose(self) -> None:
        self._closed = True
        self._news.set()
