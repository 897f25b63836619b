"""Overviews as text, computed once for all pages that ask for the same, and never at more than a fifth of a core.

With many queues an overview is dear. It is computed in a thread, so that other sockets are not kept waiting, and used
again until it has been there for four times as long as all overviews that are watched took together.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Protocol

from django.core.serializers.json import DjangoJSONEncoder

from console.links.link import BrokerLink
from console.live.overview import View

#: From so many queues on, it is computed in a thread.
_MANY_QUEUES = 1000
#: Texts kept per broker: distinct pages, searches and sorts that are watched at the same time.
_KEPT = 64
#: Seconds after which a text that nobody asked for again does not count any more.
_FORGOTTEN = 3.0


class Asked(Hashable, Protocol):
    """What somebody watches. Equal ones are computed once."""

    def data(self, view: View) -> dict[str, Any]:
        """Of a view of the broker."""


@dataclass(slots=True)
class _Text:
    """JSON text as of the link's `revision`; it took `cost` seconds, was made at `made` and last asked for at `used`
    (monotonic)."""

    revision: int
    text: str
    made: float
    cost: float
    used: float


class SnapshotCache:
    """The texts of one broker."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._texts: dict[Hashable, _Text] = {}
        self._making: dict[Hashable, asyncio.Future[tuple[str, int]]] = {}
        self._view: View | None = None
        self._view_of = -1
        self._view_cost = self._view_made = 0.0

    async def text(self, link: BrokerLink, asked: Asked) -> tuple[str, int]:
        """(JSON text, revision of the link that it shows)"""
        known = self._texts.get(asked)
        now = time.monotonic()
        if known is not None:
            known.used = now
            if known.revision == link.revision or now - known.made <= 4 * self._cost(now):
                return known.text, known.revision
        if link.queue_count < _MANY_QUEUES:
            return self._make(link, asked)
        making = self._making.get(asked)
        if making is None or making.get_loop() is not asyncio.get_running_loop():
            making = asyncio.ensure_future(asyncio.to_thread(self._make, link, asked))
            making.add_done_callback(lambda _: self._making.pop(asked, None))
            self._making[asked] = making
        return await asyncio.shield(making)

    def _cost(self, now: float) -> float:
        return self._view_cost + sum(t.cost for t in list(self._texts.values()) if now - t.used < _FORGOTTEN)

    def _make(self, link: BrokerLink, asked: Asked) -> tuple[str, int]:
        with self._lock:
            view, revision = self._viewed(link)
            began = time.monotonic()
            text = encode(asked.data(view))
            ended = time.monotonic()
            self._texts.pop(asked, None)
            self._texts[asked] = _Text(revision, text, ended, ended - began, ended)
            while len(self._texts) > _KEPT:
                del self._texts[next(iter(self._texts))]
            return text, revision

    def _viewed(self, link: BrokerLink) -> tuple[View, int]:
        """The broker as of now, or of a moment ago if taking it in is dear."""
        now = time.monotonic()
        revision = link.revision
        if self._view is None or (revision != self._view_of and now - self._view_made > 4 * self._view_cost):
            view = View(link.broker, link.queues(), link.conditions())
            _ = view.totals, view.trouble_first
            self._view, self._view_of, self._view_made = view, revision, time.monotonic()
            self._view_cost = self._view_made - now
        return self._view, self._view_of


def encode(value: Any) -> str:
    return json.dumps(value, cls=DjangoJSONEncoder, separators=(",", ":"), ensure_ascii=False)
