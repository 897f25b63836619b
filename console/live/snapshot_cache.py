"""Cache of snapshots as JSON text, shared by all pages with the same watch; uses at most a fifth of a core.

With many queues a snapshot is expensive. It is computed in a thread, so that other sockets need not wait, and reused
for four times the total computation time of all watched snapshots.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Protocol

from django.core.serializers.json import DjangoJSONEncoder

from console.links.link import BrokerLink
from console.live.overview import View

#: With at least this many queues, snapshots are computed in a thread.
_MANY_QUEUES = 1000
#: Cached texts per broker: distinct pages, searches and sorts that are watched at the same time.
_CACHED = 64
#: The cost of a text counts until this time after its last use, s.
_UNUSED_AFTER = 3.0


class SnapshotQuery(Hashable, Protocol):
    """What a page watches. Equal queries share a snapshot."""

    def data(self, view: View) -> dict[str, Any]:
        """Return the data for a view of the broker."""


@dataclass(slots=True)
class _Text:
    """A cached JSON text. `revision`: that of the link. `cost`: computation time, s. `made` and `used`: time of
    computation and of last use, s (monotonic)."""

    revision: int
    text: str
    made: float
    cost: float
    used: float


class SnapshotCache:
    """The cached snapshots of one broker."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._texts: dict[Hashable, _Text] = {}
        self._making: dict[Hashable, asyncio.Future[tuple[str, int]]] = {}
        self._view: View | None = None
        self._view_of = -1
        self._view_cost = self._view_made = 0.0

    async def text(self, link: BrokerLink, query: SnapshotQuery) -> tuple[str, int]:
        """Return the JSON text of a snapshot, and the revision of the link that it shows."""
        cached = self._texts.get(query)
        now = time.monotonic()
        if cached is not None:
            cached.used = now
            if cached.revision == link.revision or now - cached.made <= 4 * self._cost(now):
                return cached.text, cached.revision
        if link.queue_count < _MANY_QUEUES:
            return self._make(link, query)
        making = self._making.get(query)
        if making is None or making.get_loop() is not asyncio.get_running_loop():
            making = asyncio.ensure_future(asyncio.to_thread(self._make, link, query))
            making.add_done_callback(lambda _: self._making.pop(query, None))
            self._making[query] = making
        return await asyncio.shield(making)

    def _cost(self, now: float) -> float:
        return self._view_cost + sum(t.cost for t in list(self._texts.values()) if now - t.used < _UNUSED_AFTER)

    def _make(self, link: BrokerLink, query: SnapshotQuery) -> tuple[str, int]:
        with self._lock:
            view, revision = self._current_view(link)
            began = time.monotonic()
            text = encode(query.data(view))
            ended = time.monotonic()
            self._texts.pop(query, None)
            self._texts[query] = _Text(revision, text, ended, ended - began, ended)
            while len(self._texts) > _CACHED:
                del self._texts[next(iter(self._texts))]
            return text, revision

    def _current_view(self, link: BrokerLink) -> tuple[View, int]:
        """Return a view of the broker and its revision; not the newest one if a view is expensive."""
        now = time.monotonic()
        revision = link.revision
        if self._view is None or (revision != self._view_of and now - self._view_made > 4 * self._view_cost):
            self._view, self._view_of, self._view_made = View.of(link), revision, time.monotonic()
            self._view_cost = self._view_made - now
        return self._view, self._view_of


_encoder = DjangoJSONEncoder(separators=(",", ":"), ensure_ascii=False)


def encode(value: Any) -> str:
    return _encoder.encode(value)
