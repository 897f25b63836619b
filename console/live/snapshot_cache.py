"""Cache of snapshots as JSON text, shared by all pages with the same watch; uses about a tenth of a core.

With many queues a snapshot is expensive. It is computed in a thread, so that other sockets need not wait, and reused
for nine times the processor time of all watched snapshots. Meanwhile at most four views of the broker are made:
each text sorts and searches one of them, so a view for each would cost as much as the texts.
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
from console.links.state import Status
from console.live.overview import View

#: With at least this many queues, snapshots are computed in a thread.
_MANY_QUEUES = 1000
#: Cached texts per broker: distinct pages, searches and sorts that are watched at the same time.
_CACHED = 256
#: A text is used for this many times the cost of all, which makes a tenth of the time.
_REUSED = 9
#: Views of the broker in that time, at most.
_VIEWS = 4
#: The cost of a text counts until this time after its last use, s.
_UNUSED_AFTER = 3.0


class SnapshotQuery(Hashable, Protocol):
    """What a page watches. Equal queries share a snapshot."""

    def data(self, view: View) -> dict[str, Any]:
        """Return the data for a view of the broker."""


@dataclass(slots=True)
class _Text:
    """A cached JSON text. `revision` and `status`: those of the link. `cost`: processor time of its computation, s.
    `made` and `used`: time of computation and of last use, s (monotonic), also in the future, while pages wait."""

    revision: int
    status: Status
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
        self._view_status: Status | None = None
        self._view_cost = self._view_made = 0.0

    async def text(self, link: BrokerLink, query: SnapshotQuery) -> tuple[str, int]:
        """Return the JSON text of a snapshot, and the revision of the link that it shows."""
        cached = self._texts.get(query)
        now = time.monotonic()
        if cached is not None and cached.status is link.status:  # not one from before a reconnect
            cached.used = max(cached.used, now)
            if cached.revision == link.revision or now - cached.made <= self._reused(now):
                return cached.text, cached.revision
        if link.queue_count < _MANY_QUEUES:
            return self._make(link, query)
        making = self._making.get(query)
        if making is None or making.get_loop() is not asyncio.get_running_loop():
            making = asyncio.ensure_future(asyncio.to_thread(self._make, link, query))
            making.add_done_callback(lambda _: self._making.pop(query, None))
            self._making[query] = making
        return await asyncio.shield(making)

    def same_until(self, link: BrokerLink, query: SnapshotQuery, revision: object) -> float:
        """Return until when `text` returns the text of this revision, which a page has, whatever changes; s
        (monotonic). The page waits until then, so the cost of the text counts."""
        cached = self._texts.get(query)
        if cached is None or cached.revision != revision or cached.status is not link.status:
            return float("-inf")
        until = cached.made + self._reused(time.monotonic())
        cached.used = max(cached.used, until)
        return until

    def _reused(self, now: float) -> float:
        """Return how long a text is used, s."""
        texts = sum(t.cost for t in list(self._texts.values()) if now - t.used < _UNUSED_AFTER)
        return _REUSED * (self._view_cost + texts)

    def _make(self, link: BrokerLink, query: SnapshotQuery) -> tuple[str, int]:
        with self._lock:
            view, revision, status = self._current_view(link)
            began = time.thread_time()
            text = encode(query.data(view))
            cost, made = time.thread_time() - began, time.monotonic()
            self._texts.pop(query, None)
            self._texts[query] = _Text(revision, status, text, made, cost, made)
            while len(self._texts) > _CACHED:
                del self._texts[next(iter(self._texts))]
            return text, revision

    def _current_view(self, link: BrokerLink) -> tuple[View, int, Status]:
        """Return a view of the broker, its revision and the link's status; not the newest one if a view is
        expensive, but none from before a reconnect."""
        now, revision, status = time.monotonic(), link.revision, link.status
        if (
            self._view is None
            or self._view_status is not status
            or (revision != self._view_of and now - self._view_made > self._reused(now) / _VIEWS)
        ):
            began = time.thread_time()
            self._view, self._view_of, self._view_status = View.of(link), revision, status
            self._view_cost, self._view_made = time.thread_time() - began, time.monotonic()
        return self._view, self._view_of, status


_encoder = DjangoJSONEncoder(separators=(",", ":"), ensure_ascii=False)


def encode(value: Any) -> str:
    return _encoder.encode(value)
