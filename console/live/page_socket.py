"""The WebSocket of a page: sign-in, messages within limits, numbered frames, heartbeats, and the end of the session.

What the page watches is the subclasses' matter; each page can follow firing alerts, too. A single task sends, so frames
stay in order, and a slow page does not slow others. It never waits for the database: the session is checked beside it.
A socket never changes anything at a broker.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from channels.auth import get_user
from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.db import Error as DatabaseError

from brokers import input_limits as limits
from brokers.admin import InvalidValue
from brokers.input_checks import readable_sentences, shortened
from console.access.user_rights import user_rights
from console.intake.json_text import read_json
from console.live import firing_alerts
from console.live.snapshot_cache import encode
from console.live.watching import BadWatch
from console.permissions.rights import Rights

log = logging.getLogger(__name__)

#: Close codes: not signed in; no visible broker of that name; the user's permissions have changed, reconnect; message
#: too large (the code of the server for even larger ones).
SIGNED_OUT, NO_BROKER, OTHER_RIGHTS, TOO_LARGE = 4401, 4404, 4412, 1009

#: Intervals, s. HEARTBEAT: longest without a frame. SESSION: of checking the session and its permissions.
HEARTBEAT, SESSION = 5.0, 30.0


class PageSocket(AsyncWebsocketConsumer):
    """The protocol is shared with `static/console/core/live.js`."""

    _rights: Rights
    #: The firing alerts sent last, and when they are due again, s (monotonic). A page follows them on request.
    _alerts: list[dict[str, Any]] | None = None
    _alerts_due = float("inf")

    #: Of the session, in progress or ended; None: none.
    _check: asyncio.Task[int | None] | None = None

    async def connect(self) -> None:
        await self.accept()
        self._sender: asyncio.Task[None] | None = None
        self._number = 0
        self._last_frame = time.monotonic()
        self._woken = asyncio.Event()
        user = self.scope["user"]
        if user is None or not user.is_authenticated:
            await self.close(SIGNED_OUT)
            return
        self._rights = await database_sync_to_async(user_rights)(user)
        if not self.begins():
            await self.close(NO_BROKER)
            return
        self._sender = asyncio.create_task(self._send_loop())

    async def disconnect(self, code: int) -> None:
        self.ends()
        tasks = [task for task in (self._sender, self._check) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

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
            if "alerts" in message:
                self._follow_alerts(message)
            else:
                self.take(message)
        except InvalidValue as error:
            text = " ".join(readable_sentences(error.errors).values())
            await self._frame({"type": "error", "detail": f"a message must be a JSON object: {text}"})
            return
        except BadWatch as error:
            await self._frame({"type": "error", "detail": shortened(str(error), 1000)})
            return
        self._woken.set()

    # -- firing alerts ------------------------------------------------------------------------------------------------

    def _follow_alerts(self, message: Mapping[str, Any]) -> None:
        """Process {"alerts": true} or {"alerts": false}. Raises BadWatch."""
        if not isinstance(message["alerts"], bool) or len(message) != 1:
            raise BadWatch("alerts must be true or false, and the only member of its message")
        self._alerts = None
        self._alerts_due = float("-inf") if message["alerts"] else float("inf")

    async def _send_alerts(self) -> None:
        """Send the firing alerts that the user may see, if they have changed."""
        source = firing_alerts.source
        if source is None or time.monotonic() < self._alerts_due:
            return
        found = source.visible(self._rights)
        wait = firing_alerts.EVERY if found is not None else min(firing_alerts.SOON, firing_alerts.EVERY)
        self._alerts_due = time.monotonic() + wait
        if found is not None and found != self._alerts:
            self._alerts = found
            await self._frame({"type": "alerts", "at": now(), "alerts": found})

    # -- of subclasses ------------------------------------------------------------------------------------------------

    def begins(self) -> bool:
        """The user is known. Return whether they see what the socket is about."""
        raise NotImplementedError

    def ends(self) -> None:
        """The socket is closed, perhaps before `begins`."""

    def take(self, message: Mapping[str, Any]) -> None:
        """Process a message of the page. Raises BadWatch."""
        raise NotImplementedError

    def next_due(self) -> float:
        """Return when something is due without a wake-up, s (monotonic), besides a heartbeat."""
        raise NotImplementedError

    def end_code(self) -> int | None:
        """Return the code with which the socket must be closed now, since what it is about has ended; None: it stays
        open."""
        return None

    async def send_due(self) -> None:
        """Send what has changed."""
        raise NotImplementedError

    def as_of(self) -> int | None:
        """Return the time of the data for a heartbeat, ms since the epoch; None: no data."""
        raise NotImplementedError

    # -- the sending task ---------------------------------------------------------------------------------------------

    async def _send_loop(self) -> None:
        check_at = time.monotonic() + SESSION
        while True:
            await self._wait()
            if self._check is not None and self._check.done():
                code, self._check = self._check.result(), None
                if code is not None:
                    await self.close(code)
                    return
                check_at = time.monotonic() + SESSION
            elif self._check is None and time.monotonic() >= check_at:
                self._check = asyncio.create_task(self._why_closed())
                self._check.add_done_callback(lambda _: self._woken.set())
            if (code := self.end_code()) is not None:
                await self.close(code)
                return
            await self.send_due()
            await self._send_alerts()
            if time.monotonic() - self._last_frame >= HEARTBEAT:
                await self._frame({"type": "heartbeat", "at": now(), "as_of": self.as_of()})

    async def _wait(self) -> None:
        """Wait until something has changed or a frame is due."""
        due = min(self._last_frame + HEARTBEAT, self.next_due(), self._alerts_due)
        try:
            async with asyncio.timeout(max(0.0, due - time.monotonic())):
                await self._woken.wait()
        except TimeoutError:
            pass
        self._woken.clear()

    async def _why_closed(self) -> int | None:
        """Return the code with which the socket must be closed, since its session has ended or the permissions have
        changed; None: it stays open, also while the database cannot be read."""
        try:
            user = await self._user_now()
            if not (user.is_authenticated and user.is_active):
                return SIGNED_OUT
            return None if await database_sync_to_async(user_rights)(user) == self._rights else OTHER_RIGHTS
        except DatabaseError:
            log.warning("a page's session could not be checked: the database cannot be read", exc_info=True)
            return None

    async def _user_now(self) -> Any:
        """Return the user of the session as stored now: the anonymous user once the session has ended."""
        session = self.scope.get("session")
        if session is None:
            return self.scope["user"]
        fresh = import_module(settings.SESSION_ENGINE).SessionStore(session.session_key)
        return await get_user({**self.scope, "session": fresh})

    # -- frames -------------------------------------------------------------------------------------------------------

    async def _frame(self, content: dict[str, Any]) -> None:
        await self._send_text(encode({**content, "n": self._next()}))

    def _next(self) -> int:
        self._number += 1
        return self._number

    async def _send_text(self, text: str) -> None:
        self._last_frame = time.monotonic()
        await self.send(text_data=text)


def now() -> int:
    return int(time.time() * 1000)
