"""The WebSocket of a page about one broker: numbered snapshots of what the page watches, and every event.

A slow page skips snapshots (each is complete) but no events. Events are written to all pages in step at once
(`link_pages.py`); here a page sends those that it lacks before it is in step, or all, if the server offers no writer.
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
from console.links.state import Status
from console.links.visible import UnknownBroker, visible_link
from console.live import frame_writer
from console.live.link_pages import EVENTS, MOST, LinkPages, events_text, pages_of
from console.live.page_socket import NO_BROKER, PageSocket, now
from console.live.snapshot_cache import encode
from console.live.watching import BadWatch, Watch, data_text, last_known, same_until, state_of

#: Intervals, s. SNAPSHOTS: shortest between snapshots. REREAD: of reading objects whose changes the broker does not
#: send.
SNAPSHOTS, REREAD = 0.2, 2.0

_FIRST_EVENTS = 50
#: A wake-up that is scheduled for so little later than wanted is not scheduled again, s.
_SOON = 0.005


class LiveConsumer(PageSocket):
    """The socket of a page about the broker `?broker=`, or else the first one."""

    link: BrokerLink
    _pages: LinkPages | None = None
    _wake_later: asyncio.TimerHandle | None = None

    def begins(self) -> bool:
        slug = parse_qs(self.scope.get("query_string", b"").decode("latin-1")).get("broker", [""])[0]
        try:
            self.link = visible_link(self._rights, slug)
        except UnknownBroker:
            return False
        self._not_before = 0.0
        self._watch: Watch | None = None
        self._watch_is_new = False
        self._writer = frame_writer.offered.get()
        self.position = 0
        self.began_events = False
        self._has_position = False
        self._status_sent: Status | None = None
        self._state_sent: object = None
        self._sent_text = ""
        self._last_snapshot = self._last_events = self._last_read = float("-inf")
        self._pages = pages_of(self.link)
        self._pages.add(self)
        return True

    def ends(self) -> None:
        if self._pages is not None:
            self._pages.remove(self)
        if self._wake_later is not None:  # it may be seconds away, and refers to the page
            self._wake_later.cancel()
            self._wake_later = None

    def take(self, message: Mapping[str, Any]) -> None:
        after = message.get("after")
        if after is not None and (isinstance(after, bool) or not isinstance(after, int) or after < 0):
            raise BadWatch(f"after is {after!r}: it must be the number of an event")
        self._watch = Watch.parse(message)
        if after is not None:
            if self._pages is not None:
                self._pages.leave(self)
            self.position, self._has_position = after, True
        self._watch_is_new = True
        self._not_before = 0.0  # which may have been far away, for the last watch

    def as_of(self) -> int | None:
        return self.link.as_of

    async def close(self, code: int | bool | None = None, reason: str | None = None) -> None:
        self.ends()  # no frame may follow
        await super().close(code, reason)

    def end_code(self) -> int | None:
        return NO_BROKER if self.link.status.is_removed else None

    async def send_due(self) -> None:
        if self._watch is not None:
            await self._send_status()
            await self._send_events()
            await self._send_snapshot(self._watch)

    def next_due(self) -> float:
        due = float("inf")
        self._not_before = snapshot_at = self._next_snapshot()
        if not self._in_step:
            self._not_before = min(self._not_before, self._last_events + EVENTS)
        if self._watch is not None:
            if self._snapshot_wanted():
                due = min(due, snapshot_at)
            if self._watch.object is not None:
                due = min(due, self._last_read + REREAD)
            if self._events_wanted():
                due = min(due, self._last_events + EVENTS)
        return due

    def wake(self) -> None:
        """Wake the sending task after a change, but not before the next frame is due."""
        at, later = time.monotonic(), self._wake_later
        if at >= self._not_before:
            self._woken.set()
        elif later is None or later.when() > self._not_before + _SOON:
            if later is not None:
                later.cancel()
            self._wake_later = asyncio.get_running_loop().call_later(self._not_before - at, self._wake_scheduled)

    def wake_now(self) -> None:
        self._woken.set()

    def _wake_scheduled(self) -> None:
        self._wake_later = None
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

    def write_events(self, frame: bytes) -> bool:
        if self._writer is None or not self._writer.write(frame):
            return False
        self.began_events = True
        self._last_frame = time.monotonic()
        return True

    @property
    def _in_step(self) -> bool:
        return self._pages is not None and self._pages.is_in_step(self)

    def _join(self) -> bool:
        """Let new events be written to the socket, if they can be."""
        return (
            self._writer is not None and not self._writer.is_full and self._pages is not None and self._pages.join(self)
        )

    def _events_wanted(self) -> bool:
        return self._has_position and not self._in_step and self.link.has_events_after(self.position)

    async def _send_events(self) -> None:
        if not self._has_position:
            if self.link.as_of is None:
                return  # no snapshot yet
            self.position, self._has_position = self.link.newest_position(_FIRST_EVENTS), True
        if self._in_step or self._join():
            return
        while self._events_wanted() and time.monotonic() - self._last_events >= EVENTS:
            position = self.position
            try:
                tail = await self.link.events_after(position, MOST)
            except AdminError:
                return  # connection lost; the rest is sent after the link has reconnected
            if self.position != position:
                continue  # the page requested another position while the journal was read
            await self._send_tail(tail)
            if self._join() or (tail.position is None and tail.expired_before is None):
                return
        if not self.began_events and self.position >= self.link.newest_event:
            # An empty frame: there are no events yet.
            self.began_events = True
            await self._send_text(events_text(()))

    async def _send_tail(self, tail: Tail) -> None:
        # Before anything is awaited: meanwhile the page may request another position.
        if tail.position is not None:
            self.position = tail.position
        elif tail.expired_before is not None:
            self.position = tail.expired_before - 1
        if tail.expired_before is not None:
            await self._frame({"type": "events-expired", "first": tail.expired_before})
        if tail.events:
            self.began_events = True
            await self._send_text(events_text(tail.events))
        full = len(tail.events) == MOST
        self._last_events = float("-inf") if full else time.monotonic()

    # -- snapshots ------------------------------------------------------------------------------------------------

    def _next_snapshot(self) -> float:
        """Return when the next snapshot may be sent, s (monotonic)."""
        soonest = self._last_snapshot + SNAPSHOTS
        return soonest if self._watch is None else max(soonest, same_until(self.link, self._watch, self._state_sent))

    def _snapshot_wanted(self) -> bool:
        assert self._watch is not None
        return self._watch_is_new or state_of(self.link, self._watch) != self._state_sent

    async def _send_snapshot(self, watch: Watch) -> None:
        began = time.monotonic()
        new = self._watch_is_new
        changed = self._snapshot_wanted() and began >= self._next_snapshot()
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
