"""The WebSocket of one page: the page sends what it watches, and gets numbered snapshots of that and every event.

A single task sends, so frames stay in order and a slow page does not slow others: it skips snapshots (each is
complete) but no events. A socket never changes anything at a broker.
"""

from __future__ import annotations

import asyncio
import time
from importlib import import_module
from typing import Any
from urllib.parse import parse_qs

from channels.auth import get_user
from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings

from brokers import input_limits as limits
from brokers.admin import AdminError, InvalidValue
from brokers.input_checks import readable_sentences, shortened
from console.access.user_rights import user_rights
from console.intake.json_text import read_json
from console.links.event_window import Tail
from console.links.link import BrokerLink
from console.links.readers import Subscription
from console.links.state import Status
from console.links.visible import UnknownBroker, visible_link
from console.live.event_text import event_text
from console.live.snapshot_cache import encode
from console.live.watching import BadWatch, Watch, data_text, last_known, state_of

#: Close codes: not signed in; no visible broker of that name; the user's permissions have changed, reconnect; message
#: too large (the code of the server for even larger ones).
SIGNED_OUT, NO_BROKER, OTHER_RIGHTS, TOO_LARGE = 4401, 4404, 4412, 1009

#: Intervals, s. EVENTS: shortest between frames of events; with many pages EVENTS_EACH per page, which limits the CPU
#: time for frames. SNAPSHOTS: shortest between snapshots. REREAD: of reading objects whose changes the broker does not
#: send. HEARTBEAT: longest without a frame. SESSION: of checking the session and its permissions.
EVENTS, EVENTS_EACH, SNAPSHOTS, REREAD, HEARTBEAT, SESSION = 0.02, 0.0005, 0.2, 2.0, 5.0, 30.0

_FIRST_EVENTS = 50
_EVENTS_IN_A_FRAME = 500


class LiveConsumer(AsyncWebsocketConsumer):
    """The protocol is shared with `static/console/core/live.js`."""

    link: BrokerLink

    async def connect(self) -> None:
        await self.accept()
        self._sender: asyncio.Task[None] | None = None
        self._subscription: Subscription | None = None
        user = self.scope["user"]
        if user is None or not user.is_authenticated:
            await self.close(SIGNED_OUT)
            return
        slug = parse_qs(self.scope.get("query_string", b"").decode("latin-1")).get("broker", [""])[0]
        self._rights = await database_sync_to_async(user_rights)(user)
        try:
            self.link = visible_link(self._rights, slug)
        except UnknownBroker:
            await self.close(NO_BROKER)
            return
        self._number = 0
        self._not_before = 0.0
        self._wake_scheduled = False
        self._woken = asyncio.Event()
        self._watch: Watch | None = None
        self._watch_is_new = False
        self._position: int | None = None
        self._events_sent = False
        self._status_sent: Status | None = None
        self._state_sent: object = None
        self._sent_text = ""
        self._last_frame = time.monotonic()
        self._last_snapshot = self._last_events = self._last_read = float("-inf")
        self._subscription = self.link.readers.subscribe(self._wake)
        self._sender = asyncio.create_task(self._send_loop())

    async def disconnect(self, code: int) -> None:
        if self._subscription is not None:
            self.link.readers.unsubscribe(self._subscription)
        if self._sender is not None:
            self._sender.cancel()
            await asyncio.gather(self._sender, return_exceptions=True)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        if self._sender is None:
            return
        if len(text_data or bytes_data or "") > limits.SOCKET_MESSAGE:
            await self.close(TOO_LARGE)
            return
        try:
            message = read_json(text_data or "")
            if not isinstance(message, dict):
                raise BadWatch("a message must be a JSON object")
            after = message.get("after")
            if after is not None and (isinstance(after, bool) or not isinstance(after, int) or after < 0):
                raise BadWatch(f"after is {after!r}: it must be the number of an event")
            self._watch = Watch.parse(message)
        except InvalidValue as error:
            text = " ".join(readable_sentences(error.errors).values())
            await self._frame({"type": "error", "detail": f"a message must be a JSON object: {text}"})
            return
        except BadWatch as error:
            await self._frame({"type": "error", "detail": shortened(str(error), 1000)})
            return
        if after is not None:
            self._position = after
        self._watch_is_new = True
        self._woken.set()

    # -- the sending task ---------------------------------------------------------------------------------------

    async def _send_loop(self) -> None:
        session_checked_at = time.monotonic()
        while True:
            await self._wait()
            if time.monotonic() - session_checked_at > SESSION:
                session_checked_at = time.monotonic()
                user = await self._user_now()
                if not (user.is_authenticated and user.is_active):
                    await self.close(SIGNED_OUT)
                    return
                if await database_sync_to_async(user_rights)(user) != self._rights:
                    await self.close(OTHER_RIGHTS)
                    return
            if self._watch is not None:
                await self._send_status()
                await self._send_events()
                await self._send_snapshot(self._watch)
            if time.monotonic() - self._last_frame >= HEARTBEAT:
                await self._frame({"type": "heartbeat", "at": _now(), "as_of": self.link.as_of})

    async def _wait(self) -> None:
        """Wait until something has changed or a frame is due."""
        due = self._last_frame + HEARTBEAT
        self._not_before = min(self._last_snapshot + SNAPSHOTS, self._last_events + self._events_interval)
        if self._watch is not None:
            if self._snapshot_wanted():
                due = min(due, self._last_snapshot + SNAPSHOTS)
            if self._watch.object is not None:
                due = min(due, self._last_read + REREAD)
            if self._events_wanted():
                due = min(due, self._last_events + self._events_interval)
        try:
            async with asyncio.timeout(max(0.0, due - time.monotonic())):
                await self._woken.wait()
        except TimeoutError:
            pass
        self._woken.clear()

    def _wake(self) -> None:
        """Wake the sending task after a change, but not before the next frame is due."""
        now = time.monotonic()
        if now >= self._not_before or self.link.status is not self._status_sent:
            self._woken.set()
        elif not self._wake_scheduled:
            self._wake_scheduled = True
            asyncio.get_running_loop().call_later(self._not_before - now, self._wake_later)

    def _wake_later(self) -> None:
        self._wake_scheduled = False
        self._woken.set()

    async def _user_now(self) -> Any:
        """Return the user of the session as stored now: the anonymous user once the session has ended."""
        session = self.scope.get("session")
        if session is None:
            return self.scope["user"]
        fresh = import_module(settings.SESSION_ENGINE).SessionStore(session.session_key)
        return await get_user({**self.scope, "session": fresh})

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
        now = time.monotonic()
        new = self._watch_is_new
        changed = self._snapshot_wanted() and now - self._last_snapshot >= SNAPSHOTS
        reread = watch.object is not None and now - self._last_read >= REREAD
        if not (new or changed or reread):
            return
        self._watch_is_new = False
        self._last_read = now
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
            "at": _now(),
        }
        await self._send_text(f'{encode(head)[:-1]},"data":{text}}}')

    # -- frames ---------------------------------------------------------------------------------------------------

    async def _frame(self, content: dict[str, Any]) -> None:
        await self._send_text(encode({**content, "n": self._next()}))

    def _next(self) -> int:
        self._number += 1
        return self._number

    async def _send_text(self, text: str) -> None:
        self._last_frame = time.monotonic()
        await self.send(text_data=text)


def _now() -> int:
    return int(time.time() * 1000)
