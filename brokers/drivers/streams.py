"""Streams of events and samples from a link: read one by one, with a bounded buffer.

Messages are buffered undecoded until they are read. When the link ends, the buffered ones are still returned, then
each read raises the reason. A stream without references detaches its link.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Generic, TypeVar

from proton import Described, Message, ProtonException, symbol

from brokers.admin import AdminError, BrokerUnreachable, Event, EventsExpired, NotAllowed, Samples
from brokers.drivers.amqp_client import AmqpClient
from brokers.drivers.amqp_links import LinkEnded
from brokers.drivers.amqp_values import plain
from brokers.model import ObjectName

_T = TypeVar("_T")

_AFTER = symbol("headgate:after")

#: Maximum number of unread messages. One message of samples has up to 500 queues.
_EVENTS_WINDOW, _SAMPLES_WINDOW = 500, 20


class _Stream(Generic[_T]):
    """An asynchronous iterator for one reader. The link is attached at once."""

    def __init__(self, client: AmqpClient, source: str, window: int, filters: dict[Any, Any] | None = None) -> None:
        # The link refers to this: it must not refer to the stream, which would then outlive its reader.
        arrived: deque[bytes] = deque()
        news = asyncio.Event()

        def deliver(message: bytes) -> None:
            arrived.append(message)
            news.set()

        self._arrived, self._news = arrived, news
        self._closed = False
        self._loop = asyncio.get_running_loop()
        self._receiver = client.receiver(source, filters=filters, window=window, deliver=deliver)
        self._receiver.ended.add_done_callback(lambda _: news.set())

    def __aiter__(self) -> _Stream[_T]:
        return self

    async def __anext__(self) -> _T:
        while not self._arrived:
            if self._closed:
                raise StopAsyncIteration
            if self._receiver.ended.done():
                raise _reason(self._receiver.ended.result())
            self._news.clear()
            await self._news.wait()
        message = Message()
        try:
            message.decode(self._arrived.popleft())
            read = self._read(plain(message.body))
        except (ProtonException, LookupError, TypeError, ValueError) as error:
            await self.aclose()
            raise BrokerUnreachable(f"{self._receiver.name} sent an unreadable message: {error!r}") from error
        self._receiver.consumed()
        return read

    def _read(self, body: Any) -> _T:
        raise NotImplementedError

    async def aclose(self) -> None:
        """Close the stream: a waiting reader gets the end of the iteration."""
        self._closed = True
        self._arrived.clear()
        self._news.set()
        self._receiver.detach()

    def __del__(self) -> None:
        if not self._loop.is_closed():
            self._receiver.detach()


class EventStream(_Stream[Event]):
    """Every event after a number, or from now on. Raises the errors of `BrokerAdmin.events`."""

    def __init__(self, client: AmqpClient, after: int | None, source: str = "$events") -> None:
        self._last = after
        super().__init__(client, source, _EVENTS_WINDOW, None if after is None else {_AFTER: Described(_AFTER, after)})

    def _read(self, body: Any) -> Event:
        number = body["number"]
        if self._last is not None and number <= self._last:
            # Its data folder was replaced: the reader's events are from an earlier journal.
            raise EventsExpired(f"the broker is at event {number}, before the requested event {self._last}", number)
        if self._last is not None and number > self._last + 1:
            raise ValueError(f"event {number} after event {self._last}")
        self._last = number
        return Event(
            number, body["at"], body["kind"], ObjectName.parse(body["object"]), body["text"], body["attributes"]
        )


class SampleStream(_Stream[Samples]):
    """The changed queues, about once a second; a large number is split into several groups with the same `at`."""

    def __init__(self, client: AmqpClient, source: str = "$samples") -> None:
        super().__init__(client, source, _SAMPLES_WINDOW)

    def _read(self, body: Any) -> Samples:
        names = body["names"]
        return Samples(
            body["at"],
            tuple((ObjectName.parse(row[0]), dict(zip(names, row[1:], strict=True))) for row in body["rows"]),
        )


def _reason(ended: Exception) -> AdminError:
    if isinstance(ended, LinkEnded):
        if ended.condition == "headgate:events-expired":
            return EventsExpired(str(ended), int(ended.info.get("first", 0)))
        if ended.condition == "amqp:unauthorized-access":
            return NotAllowed(str(ended))
    return BrokerUnreachable(str(ended))
