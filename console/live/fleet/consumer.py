"""The WebSocket of the page of all brokers: numbered snapshots of the fleet."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from console.links.visible import visible_links
from console.live.fleet.members import members_of
from console.live.fleet.watching import EVERY, FleetSnapshots, FleetWatch
from console.live.page_socket import PageSocket, now
from console.live.snapshot_cache import encode

_snapshots = FleetSnapshots()


class FleetConsumer(PageSocket):
    """The socket of a page about all brokers that its user sees. Brokers come and go while it is open."""

    def begins(self) -> bool:
        self._watch: FleetWatch | None = None
        self._watch_is_new = False
        self._sent_text = ""
        self._last_snapshot = float("-inf")
        return bool(visible_links(self._rights))

    def take(self, message: Mapping[str, Any]) -> None:
        self._watch = FleetWatch.parse(message)
        self._watch_is_new = True

    def as_of(self) -> int | None:
        return now()

    def next_due(self) -> float:
        if self._watch is None:
            return float("inf")
        return float("-inf") if self._watch_is_new else self._last_snapshot + EVERY

    async def send_due(self) -> None:
        watch, new = self._watch, self._watch_is_new
        if watch is None or not (new or time.monotonic() - self._last_snapshot >= EVERY):
            return
        self._watch_is_new = False
        text = await _snapshots.text(members_of(self._rights), watch)
        self._last_snapshot = time.monotonic()
        if watch is not self._watch or (text == self._sent_text and not new):
            return  # the page has changed its watch meanwhile, or nothing has changed
        self._sent_text = text
        # Connected to the console, which always answers; which brokers are connected is in the data.
        state = {"connected": True, "since": now(), "error": "", "as_of": now(), "at": now()}
        head = {"type": "snapshot", "n": self._next(), "watch": "fleet", **state}
        await self._send_text(f'{encode(head)[:-1]},"data":{text}}}')
