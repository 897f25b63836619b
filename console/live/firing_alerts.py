"""Firing alerts for pages that want browser notifications. A process reads them once for all of its pages.

`console/asgi.py` sets `source`: this package does not know where alerts are stored.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from channels.db import database_sync_to_async

from console.permissions.rights import Rights

#: Seconds between two reads, and between two looks of a page.
EVERY = 3.0

#: An alert: `broker` and `object` for its visibility, the other values for the page.
Firing = dict[str, Any]


@dataclass(slots=True)
class FiringAlerts:
    """`read`: returns all firing alerts, newest first; `is_visible`: returns whether a user may see one."""

    read: Callable[[], list[Firing]]
    is_visible: Callable[[Rights, Firing], bool]
    _found: list[Firing] = field(default_factory=list)
    _read_at: float = float("-inf")
    _lock: asyncio.Lock | None = None

    async def visible(self, rights: Rights) -> list[Firing]:
        """Return the firing alerts that a user may see."""
        self._lock = self._lock or asyncio.Lock()
        async with self._lock:
            if time.monotonic() - self._read_at >= EVERY:
                self._found = await database_sync_to_async(self.read)()
                self._read_at = time.monotonic()
        return [each for each in self._found if self.is_visible(rights, each)]


source: FiringAlerts | None = None
