"""Streams of events and samples from a link: read one by one, with a bounded buffer.

Messages are buffered undecoded until they are read. When the link ends, the buffered ones are still returned, then
each read raises the reason. A stream without references detaches its link.

Both are requested as JSON (`brokers/json_bodies.py`), events in batches. What a broker of an earlier release sends, an
event a message, and maps, is read, too.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Iterable
from typing import Any, Generic, TypeVar

from proton import Described, Message, ProtonException, symbol

from brokers.admin import AdminError, BrokerUnreachable, Event, EventsExpired, NotAllowed, Samples
from brokers.drivers.amqp_client import AmqpClient
from brokers.drivers.amqp_links import LinkEnded
from brokers.drivers.amqp_values import plain
from brokers.json_bodies import FILTER, FORMAT, events_of, text_of
from brokers.model import ObjectName

_T = TypeVar("_T")

_AFTER, _JSON = symbol("headgate:after"), symbol(FILTER)

#: Maximum number of unread messages: events, batches of them, and samples, of up to 500 queues each. Few batches, since
#: a broker collects in the next one what happens while its follower has given no credit.
_EVENTS_WINDOW, _BATCHES_WINDOW, _SAMPLES_WINDOW = 500, 2, 20
#: Shortest time between two renewals of the credit for batches, s: an event waits only if others came just before it.
_BATCHES_PACE = 0.01


class _Stream(Generic[_T]):
    """An asynchronous iterator for one reader. The link is attached at once."""

    def __init__(
        self, client: AmqpClient, source: str, window: int, filters: dict[Any, Any] | None, pace: float = 0.0
    ) -> None:
        # The link refers to this: it must not refer to the stream, which would then outlive its reader.
        arrived: deque[bytes] = deque()
        news = asyncio.Event()

        def deliver(message: bytes) -> None:
            arrived.append(message)
            news.set()

        self._arrived, self._news = arrived, news
        self._items: deque[_T] = deque()  # of the message that is being read
        self._closed = False
        self._loop = asyncio.get_running_loop()
        self._receiver = client.receiver(source, filters=filters, window=window, deliver=deliver, pace=pace)
        self._receiver.ended.add_done_callback(lambda _: news.set())

    def __aiter__(self) -> _Stream[_T]:
        return self

    async def __anext__(self) -> _T:
        try:
            while not self._items:
                self._items.extend(self._read(_body(await self._message())))
                if not self._items:
                    self._receiver.consumed()
            item = self._items.popleft()
            self._check(item)
        except _UNREADABLE as error:
            await self.aclose()
            raise BrokerUnreachable(f"{self._receiver.name} sent an unreadable message: {error!r}") from error
        if not self._items:
            self._receiver.consumed()
        return item

    async def _message(self) -> bytes:
        while not self._arrived:
            if self._closed:
                raise StopAsyncIteration
            if self._receiver.ended.done():
                raise _reason(self._receiver.ended.result())
            self._news.clear()
            await self._news.wait()
        return self._arrived.popleft()

    def _read(self, body: Any) -> Iterable[_T]:
        """Return what a message contains; may raise one of `_UNREADABLE`. `body`: a string of JSON, or plain values."""
        raise NotImplementedError

    def _check(self, item: _T) -> None:
        """Raise one of `_UNREADABLE` if the item cannot follow the one before."""

    async def aclose(self) -> None:
        """Close the stream: a waiting reader gets the end of the iteration."""
        self._closed = True
        self._arrived.clear()
        self._items.clear()
        self._news.set()
        self._receiver.detach()

    def __del__(self) -> None:
        if not self._loop.is_closed():
            self._receiver.detach()


_UNREADABLE = (ProtonException, LookupError, TypeError, ValueError, RecursionError)


class EventStream(_Stream[Event]):
    """Every event after a number, or from now on. Raises the errors of `BrokerAdmin.events`."""

    def __init__(self, client: AmqpClient, after: int | None, source: str = "$events") -> None:
        self._last = after
        # Earlier releases refuse a filter set without a number.
        self._batched = after is not None
        filters = {_AFTER: Described(_AFTER, after), _JSON: Described(_JSON, FORMAT)} if self._batched else None
        if self._batched:
            super().__init__(client, source, _BATCHES_WINDOW, filters, _BATCHES_PACE)
        else:
            super().__init__(client, source, _EVENTS_WINDOW, filters)

    def _read(self, body: Any) -> Iterable[Event]:
        if isinstance(body, str):
            return events_of(body)
        if self._batched:  # requested in vain
            self._batched = False
            self._receiver.widen(_EVENTS_WINDOW)
        name = ObjectName.parse(body["object"])
        return (Event(body["number"], body["at"], body["kind"], name, body["text"], body["attributes"]),)

    def _check(self, item: Event) -> None:
        number = item.number
        if self._last is not None and number <= self._last:
            # Its data folder was replaced: the reader's events are from an earlier journal.
            raise EventsExpired(f"the broker is at event {number}, before the requested event {self._last}", number)
        if self._last is not None and number > self._last + 1:
            raise ValueError(f"event {number} after event {self._last}")
        self._last = number


class SampleStream(_Stream[Samples]):
    """The changed queues, about once a second; a large number is split into several groups with the same `at`."""

    def __init__(self, client: AmqpClient, source: str = "$samples") -> None:
        super().__init__(client, source, _SAMPLES_WINDOW, {_JSON: Described(_JSON, FORMAT)})

    def _read(self, body: Any) -> Iterable[Samples]:
        if isinstance(body, str):
            body = json.loads(body)
        names = body["names"]
        rows = tuple((ObjectName.parse(name), dict(zip(names, row, strict=True))) for name, *row in body["rows"])
        return (Samples(body["at"], rows),)


def _body(message: bytes) -> Any:
    if (text := text_of(message)) is not None:
        return text
    decoded = Message()
    decoded.decode(message)
    return plain(decoded.body)


def _reason(ended: Exception) -> AdminError:
    if isinstance(ended, LinkEnded):
        if ended.condition == "headgate:events-expired":
            return EventsExpired(str(ended), int(ended.info.get("first", 0)))
        if ended.condition == "amqp:unauthorized-access":
            return NotAllowed(str(ended))
    return BrokerUnreachable(str(ended))
