"""The open pages of one link: they are woken together, and new events are written to those in step.

A page is in step while it is at most one frame behind and its socket takes what is written. Pages in step at the same
position get the same frame, encoded once. A page that is further behind, whose socket is full, or whose events are no
longer in the link's window falls out of step: its own task sends (`consumer.py`), and it joins again. So a page that
does not read delays no other, and costs the memory of one frame.

Links are restricted to what their users see (`console/links/visibility.py`), and pages share frames by link.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from brokers.admin import Event
from console.links.link import BrokerLink
from console.links.readers import Subscription
from console.live.event_text import event_text
from console.live.frame_writer import text_frame

#: Shortest interval between two rounds, s.
EVENTS = 0.02
#: Events in a frame.
MOST = 500


class Page(Protocol):
    """`position`: number of the last event that the page has had. `began_events`: it has had a frame of events; the
    first one may be empty."""

    position: int
    began_events: bool

    def write_events(self, frame: bytes) -> bool:
        """Write a frame; return False if the socket does not take it now."""

    def wake(self) -> None:
        """Something has changed; called many times a second."""

    def wake_now(self) -> None:
        """Send at once: the connection to the broker has changed, or the page is out of step, so that its own task must
        send the next events and join again."""


@dataclass(frozen=True, slots=True)
class _Step:
    """What follows a position: `frame`, if there are visible events, up to `last`. `more`: another step follows."""

    frame: bytes | None
    last: int
    more: bool = False


class LinkPages:
    """See the module. For one event loop; `pages_of` returns it."""

    def __init__(self, link: BrokerLink) -> None:
        self._link = link
        self._loop = asyncio.get_running_loop()
        self._pages: set[Page] = set()
        self._in_step: set[Page] = set()
        self._subscription: Subscription | None = None
        self._timer: asyncio.Handle | None = None
        self._last_round = float("-inf")
        self._status = link.status

    def add(self, page: Page) -> None:
        """Wake a page after changes, from now on."""
        self._pages.add(page)
        _open[self._link, self._loop] = self
        if self._subscription is None:
            self._subscription = self._link.readers.subscribe(self._changed)

    def remove(self, page: Page) -> None:
        self._pages.discard(page)
        self._in_step.discard(page)
        if not self._pages and self._subscription is not None:
            self._link.readers.unsubscribe(self._subscription)
            self._subscription = None
            _open.pop((self._link, self._loop), None)
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def join(self, page: Page) -> bool:
        """Bring a page in step. Return False if it is too far behind."""
        if page not in self._pages or self._step(page.position, only_look=True) is None:
            return False
        self._in_step.add(page)
        if not page.began_events or self._link.has_events_after(page.position):
            self._changed()
        return True

    def leave(self, page: Page) -> None:
        """The page's position is about to change."""
        self._in_step.discard(page)

    def is_in_step(self, page: Page) -> bool:
        return page in self._in_step

    def _changed(self) -> None:
        if self._link.status is not self._status:  # shown at once
            self._status = self._link.status
            for page in tuple(self._pages):
                page.wake_now()
        if self._timer is not None:
            return
        left = self._last_round + EVENTS - time.monotonic()
        self._timer = self._loop.call_later(left, self._round) if left > 0 else self._loop.call_soon(self._round)

    def _round(self) -> None:
        """Write what is new to the pages in step, and wake all pages."""
        self._timer = None
        self._last_round = time.monotonic()
        steps: dict[int, _Step | None] = {}
        for page in tuple(self._in_step):
            if page.position not in steps:
                steps[page.position] = self._step(page.position)
            step = steps[page.position]
            if step is None or not self._advance(page, step):
                self._in_step.discard(page)
                page.wake_now()
        for page in tuple(self._pages):
            page.wake()
        if self._in_step and any(step is not None and step.more for step in steps.values()):
            self._changed()

    def _advance(self, page: Page, step: _Step) -> bool:
        frame = step.frame
        if frame is None and not page.began_events:
            frame = _NO_EVENTS
        if frame is not None and not page.write_events(frame):
            return False
        page.position = step.last
        return True

    def _step(self, position: int, *, only_look: bool = False) -> _Step | None:
        """Return what follows a position; None if that is not in the link's window. `only_look`: make no frame, and
        return None if there are more events than a frame has."""
        if not self._link.has_events_after(position):
            return _Step(None, position)
        tail = self._link.recent_events(position)
        last = tail.position
        if last is None or tail.expired_before is not None:
            return None
        more = len(tail.events) > MOST
        if only_look:
            return None if more else _Step(None, position)
        events = tail.events[:MOST]
        if more:
            last = events[-1].number
        return _Step(text_frame(events_text(events)) if events else None, last, more)


def events_text(events: Sequence[Event]) -> str:
    """Return the message of events. They have numbers of their own, so it has none, and is the same for all pages."""
    return f'{{"type":"events","events":[{",".join(map(event_text, events))}]}}'


_NO_EVENTS = text_frame(events_text(()))

#: Those with pages.
_open: dict[tuple[BrokerLink, asyncio.AbstractEventLoop], LinkPages] = {}


def pages_of(link: BrokerLink) -> LinkPages:
    """Return the pages of a link in the running loop."""
    return _open.get((link, asyncio.get_running_loop())) or LinkPages(link)
