"""The WebSocket of a page about one broker: numbered snapshots of what the page watches, and every event.

A slow page skips snapshots (each is complete) but no events.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs

from brokers.admin import AdminError
from console.links.event_window import Tail
from console.links.link import BrokerLink
from console.links.readers import Subscription
from console.links.state import Status
from console.links.visible import UnknownBroker, visible_link
from console.live.event_text import event_text
from console.live.page_socket import PageSocket, now
from console.live.snapshot_cache import encode
from console.live.watching import BadWatch, Watch, data_text, last_known, state_of

#: Intervals, s. EVENTS: shortest between frames of events; with many pages EVENTS_EACH per page, which limits the CPU
#: time for frames. SNAPSHOTS: shortest between snapshots. REREAD: of reading objects whose changes the broker does not
#: send.
EVENTS, EVENTS_EACH, SNAPSHOTS, REREAD = 0.02, 0.0005, 0.2, 2.0

_FIRST_EVENTS = 50
_EVENTS_IN_A_FRAME = 500


class LiveConsumer(PageSocket):
    """The socket of a page about the broker `?broker=`, or else the first one."""

    link: BrokerLink
    _subscription: Subscription | None = None

    def begins(self) -> bool:
        slug = parse_qs(self.scope.get("query_string", b"").decode("latin-1")).get("broker", [""])[0]
        try:
            self.link = visible_link(self._rights, slug)
        except UnknownBroker:
            return False
        self._not_before = 0.0
        self._wake_scheduled = False
        self._watch: Watch | None = None
        self._watch_is_new = False
        self._position: int | None = None
        self._events_sent = False
        self._status_sent: Status | None = None
        self._state_sent: object = None
        self._sent_text = ""
        self._last_snapshot = self._last_events = self._last_read = float("-inf")
        self._subscription = self.link.readers.subscribe(self._wake)
        return True

    def ends(self) -> None:
        if self._subscription is not None:
            self.link.readers.unsubscribe(self._subscription)

    def take(self, message: Mapping[str, Any]) -> None:
        after = message.get("after")
        if after is not None and (isinstance(after, bool) or not isinstance(after, int) or after < 0):
            raise BadWatch(f"after is {after!r}: it must be the number of an event")
        self._watch = Watch.parse(message)
        if after is not None:
            self._position = after
        self._watch_is_new = True

    def as_of(self) -> int | None:
        return self.link.as_of

    async def send_due(self) -> None:
        if self._watch is not None:
            await self._send_status()
            await self._send_events()
            await self._send_snapshot(self._watch)

    def next_due(self) -> float:
        due = float("inf")
        self._not_before = min(self._last_snapshot + SNAPSHOTS, self._last_events + self._events_interval)
        if self._watch is not None:
            if self._snapshot_wanted():
                due = min(due, self._last_snapshot + SNAPSHOTS)
            if self._watch.object is not None:
                due = min(due, self._last_read + REREAD)
            if self._events_wanted():
                due = min(due, self._last_events + self._events_interval)
        return due

    def _wake(self) -> None:
        """Wake the sending task after a change, but not before the next frame is due."""
        at = time.monotonic()
        if at >= self._not_before or self.link.status is not self._status_sent:
            self._woken.set()
        elif not self._wake_scheduled:
            self._wake_scheduled = True
            asyncio.get_running_loop().call_later(self._not_before - at, self._wake_later)

    def _wake_later(self) -> None:
        self._wake_scheduled = False
        self._woken.set()

    # -- status ---------------------------------------------------------------------------------------------------

    async def _send_status(self) -> None:
        status = self.link.status
        before, self._status_sent = self._status_sent, status
        if before is status or (before is None and status.connected):
            return
        self._watch_is_new = self._watch_is_new or status.connected
        await self._frame(
            {
                "type": "broker",
                "broker": self.link.slug,
                "connected": status.connected,
                "since": status.since,
                "error": status.error,
                "as_of": self.link.as_of,
            }
        )

    # -- events ---------------------------------------------------------------------------------------------------

    @property
    def _events_interval(self) -> float:
        return max(EVENTS, EVENTS_EACH * len(self.link.readers))

    def _events_wanted(self) -> bool:
        return self._position is not None and self.link.has_events_after(self._position)

    async def _send_events(self) -> None:
        if self._position is None:
            if self.link.as_of is None:
                return  # no snapshot yet
            self._position = max(0, self.link.newest_event - _FIRST_EVENTS)
        while self._events_wanted() and time.monotonic() - self._last_events >= self._events_interval:
            position = self._position
            try:
                tail = await self.link.events_after(position, _EVENTS_IN_A_FRAME)
            except AdminError:
                return  # connection lost; the rest is sent after the link has reconnected
            if self._position != position:
                continue  # the page requested another position while the journal was read
            await self._send_tail(tail)
            if tail.position is None and tail.expired_before is None:
                return
        if not self._events_sent and self._position >= self.link.newest_event:
            # An empty frame: there are no events yet.
            self._events_sent = True
            await self._frame({"type": "events", "events": []})

    async def _send_tail(self, tail: Tail) -> None:
        if tail.expired_before is not None:
            await self._frame({"type": "events-expired", "first": tail.expired_before})
            self._position = tail.expired_before - 1
        if tail.position is not None:
            self._position = tail.position
        if tail.events:
            texts = ",".join(map(event_text, tail.events))
            self._events_sent = True
            await self._send_text(f'{{"type":"events","n":{self._next()},"events":[{texts}]}}')
        full = len(tail.events) == _EVENTS_IN_A_FRAME
        self._last_events = float("-inf") if full else time.monotonic()

    # -- snapshots ------------------------------------------------------------------------------------------------

    def _snapshot_wanted(self) -> bool:
        assert self._watch is not None
        return self._watch_is_new or state_of(self.link, self._watch) != self._state_sent

    async def _send_snapshot(self, watch: Watch) -> None:
        began = time.monotonic()
        new = self._watch_is_new
        changed = self._snapshot_wanted() and began - self._last_snapshot >= SNAPSHOTS
        reread = watch.object is not None and began - self._last_read >= REREAD
        if not (new or changed or reread):
            return
        self._watch_is_new = False
        self._last_read = began
        status, state, as_of = self.link.status, state_of(self.link, watch), self.link.as_of
        try:
            text, state = await data_text(self.link, watch)
        except AdminError as error:
            self._state_sent = state
            if not new:
                return  # the page keeps its data; the frame about the broker has the reason
            text = last_known(self.link, watch)
            if status.connected:  # the broker hangs, and the link has not detected it yet
                status = Status(False, as_of or status.since, str(error))
        self._last_snapshot = time.monotonic()
        if watch is not self._watch:
            return  # the page has changed its watch meanwhile
        self._state_sent = state
        if text == self._sent_text and not new:
            return
        self._sent_text = text
        head = {
            "type": "snapshot",
            "n": self._next(),
            "watch": watch.kind,
            "broker": self.link.slug,
            "connected": status.connected,
            "since": status.since,
            "error": status.error,
            "as_of": as_of,
            "at": now(),
        }
        await self._send_text(f'{encode(head)[:-1]},"data":{text}}}')
