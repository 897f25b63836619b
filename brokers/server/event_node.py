"""`$events`: every event with a number above the client's last one, from the journal and then live.

Each link stores the last number it sent, so nothing accumulates for a client that reads slowly, and no event is left
out. The newest events are cached encoded, since all followers need the same ones at the same time. A user who manages
only some virtual hosts gets only their events: then the numbers have gaps.

A message is one event, or, for a follower that requests it (`json_bodies.py`), a batch of those that there are when it
has credit. So a follower that grants credit for few messages gets larger batches the more it has to do.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

from proton import Message, symbol

from brokers import json_bodies
from brokers.admin import Event
from brokers.amqp.node_links import NodeSource, NodeTarget
from brokers.amqp.refusals import Refused
from brokers.engine.management.permission import virtualhost_of
from brokers.engine.values.rights import MANAGE, Rights
from brokers.server.event_journal import Expired
from brokers.server.sqlite_file import StoreError
from brokers.server.values import to_amqp

FILTER = "headgate:after"

#: Number of encoded events in the cache.
TAIL = 1000

#: Events sent to one follower before the others are served.
AT_ONCE = 500

#: Limits of a batch: events, and characters, of which one event may have more.
BATCH_EVENTS, BATCH_CHARACTERS = 200, 256 * 1024


class Journal(Protocol):
    """Numbered events, see `EventJournal`."""

    @property
    def first(self) -> int: ...

    @property
    def last(self) -> int: ...

    def read(self, after: int, count: int = 500) -> list[Event]: ...


class EventNode:
    """See the module."""

    def __init__(self, journal: Journal, rights: Callable[[str], Rights]) -> None:
        self.journal = journal
        self._rights = rights
        self._reached: dict[NodeSource, int] = {}
        self._batched: set[NodeSource] = set()
        self._tail: deque[_Encoded] = deque(maxlen=TAIL)
        self._behind: set[NodeSource] = set()  # have credit, and more events than one turn sends

    def open_source(self, link: NodeSource, filters: Any) -> None:
        after = _after(filters)
        reached = self.journal.last if after is None else after
        if not self.journal.first <= reached + 1 <= self.journal.last + 1:
            raise _expired(self.journal.first)  # pruned, or of another data folder
        self._reached[link] = reached
        if json_bodies.is_requested(filters):
            self._batched.add(link)
        link.on_credit = lambda: self._pump(link)
        link.on_end.append(lambda: self._forget(link))

    def open_target(self, link: NodeTarget) -> None:
        raise Refused("amqp:not-allowed", "$events can only be received from")

    def publish(self, events: Sequence[Event]) -> None:
        """Send events, which are in the journal already, to the followers."""
        if self._reached:
            self._cache([_Encoded(event) for event in events])
            for link in list(self._reached):
                self._pump(link)
        else:
            self._tail.clear()

    @property
    def is_behind(self) -> bool:
        """Whether a follower catches up, so that `go_on` has something to do."""
        return bool(self._behind)

    def go_on(self) -> None:
        """Send more to followers that catch up; called many times a second while there are any."""
        behind, self._behind = self._behind, set()
        for link in behind:
            self._pump(link)

    def _forget(self, link: NodeSource) -> None:
        self._reached.pop(link, None)
        self._batched.discard(link)
        self._behind.discard(link)

    def _pump(self, link: NodeSource) -> None:
        """Send as many events as the link's credit allows, `AT_ONCE` at most."""
        left = AT_ONCE
        rights = self._rights(link.context.user or "")
        send = self._send_batch if link in self._batched else self._send_each
        while (credit := link.credit) > 0 and self._reached.get(link, self.journal.last) < self.journal.last:
            if left <= 0:
                self._behind.add(link)
                return
            try:
                most = min(BATCH_EVENTS if link in self._batched else credit, left)
                events = self._after(self._reached[link], most)
            except Expired as expired:
                gone = _expired(expired.first)
                link.end(gone.condition, str(gone), gone.info)
                return
            except StoreError as error:
                link.end("amqp:internal-error", str(error))
                return
            left -= send(link, events, rights)

    def _send_each(self, link: NodeSource, events: Sequence[_Encoded], rights: Rights) -> int:
        """Send each event that the user may see in a message; return the number of events that are done."""
        for event in events:
            self._reached[link] = event.number
            if rights.may(MANAGE, event.virtualhost):
                link.push(event.message)
        return len(events)

    def _send_batch(self, link: NodeSource, events: Sequence[_Encoded], rights: Rights) -> int:
        """Send as many events as fit into one message; return the number of events that are done."""
        texts: list[str] = []
        size = done = 0
        for event in events:
            if rights.may(MANAGE, event.virtualhost):
                size += len(event.json)
                if texts and size > BATCH_CHARACTERS:
                    break
                texts.append(event.json)
            self._reached[link] = event.number
            done += 1
        if texts:
            link.push(json_bodies.events_message(texts))
        return done

    def _after(self, number: int, count: int) -> list[_Encoded]:
        tail = self._tail
        if tail and tail[0].number <= number + 1 <= tail[-1].number:
            skip = number + 1 - tail[0].number
            return [tail[i] for i in range(skip, min(skip + count, len(tail)))]
        events = [_Encoded(event) for event in self.journal.read(number, count)]
        self._cache(events)
        return events

    def _cache(self, events: Sequence[_Encoded]) -> None:
        """Cache events if they are newer than the cached ones, whose numbers are consecutive."""
        tail = self._tail
        if not events or (tail and events[-1].number <= tail[-1].number):
            return
        if tail and events[0].number != tail[-1].number + 1:
            tail.clear()
        tail.extend(events)


class _Encoded:
    """An event, encoded once for all followers of either kind. `virtualhost`: "" for the broker's."""

    def __init__(self, event: Event) -> None:
        self.number = event.number
        self.virtualhost = virtualhost_of(event.object)
        self._event = event

    @cached_property
    def json(self) -> str:
        return json_bodies.event_json(self._event)

    @cached_property
    def message(self) -> bytes:
        event = self._event
        body = {
            "number": event.number,
            "at": event.at,
            "kind": event.kind,
            "object": str(event.object),
            "text": event.text,
            "attributes": to_amqp(event.attributes),
        }
        return bytes(Message(body=body, address="$events").encode())


def _after(filters: Any) -> int | None:
    """Return the number after which to start; None for "from now on"."""
    if not filters:
        return None
    if isinstance(filters, Mapping):
        for key, value in filters.items():
            if str(key) != FILTER:
                continue
            number = getattr(value, "value", value)
            if isinstance(number, int) and not isinstance(number, bool) and number >= 0:
                return int(number)
            raise Refused("amqp:invalid-field", f"{FILTER} is {number!r}: it must be the number of an event")
        if json_bodies.FILTER in map(str, filters):
            return None
    raise Refused("amqp:invalid-field", f"the source's filter must be a map with {FILTER}")


def _expired(first: int) -> Refused:
    text = f"the requested events are no longer available: the first is number {first}"
    return Refused("headgate:events-expired", text, {symbol("first"): first})
