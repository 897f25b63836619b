"""`$events`: every event with a number above the client's last one, from the journal and then live.

Each link stores the last number it sent, so nothing accumulates for a client that reads slowly, and no event is left
out. The newest events are cached encoded, since all followers need the same ones at the same time. A user who manages
only some virtual hosts gets only their events: then the numbers have gaps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from proton import Message, symbol

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


#: Number, virtual host ("": the broker), message.
_Encoded = tuple[int, str, bytes]


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
        self._tail: deque[_Encoded] = deque(maxlen=TAIL)
        self._behind: set[NodeSource] = set()  # have credit, and more events than one turn sends

    def open_source(self, link: NodeSource, filters: Any) -> None:
        after = _after(filters)
        reached = self.journal.last if after is None else after
        if not self.journal.first <= reached + 1 <= self.journal.last + 1:
            raise _expired(self.journal.first)  # pruned, or of another data folder
        self._reached[link] = reached
        link.on_credit = lambda: self._pump(link)
        link.on_end.append(lambda: self._forget(link))

    def open_target(self, link: NodeTarget) -> None:
        raise Refused("amqp:not-allowed", "$events can only be received from")

    def publish(self, events: Sequence[Event]) -> None:
        """Send events, which are in the journal already, to the followers."""
        if self._reached:
            self._tail.extend(_encoded(e) for e in events)
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
        self._behind.discard(link)

    def _pump(self, link: NodeSource) -> None:
        """Send as many events as the link's credit allows, `AT_ONCE` at most."""
        left = AT_ONCE
        rights = self._rights(link.context.user or "")
        while (credit := link.credit) > 0 and self._reached.get(link, self.journal.last) < self.journal.last:
            if left <= 0:
                self._behind.add(link)
                return
            try:
                batch = self._after(self._reached[link], min(credit, left))
            except Expired as expired:
                gone = _expired(expired.first)
                link.end(gone.condition, str(gone), gone.info)
                return
            except StoreError as error:
                link.end("amqp:internal-error", str(error))
                return
            left -= len(batch)
            for number, virtualhost, encoded in batch:
                self._reached[link] = number
                if rights.may(MANAGE, virtualhost):
                    link.push(encoded)

    def _after(self, number: int, count: int) -> list[_Encoded]:
        tail = self._tail
        if tail and tail[0][0] <= number + 1:
            skip = number + 1 - tail[0][0]
            return [tail[i] for i in range(skip, min(skip + count, len(tail)))]
        return [_encoded(e) for e in self.journal.read(number, count)]


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
    raise Refused("amqp:invalid-field", f"the source's filter must be a map with {FILTER}")


def _expired(first: int) -> Refused:
    text = f"the requested events are no longer available: the first is number {first}"
    return Refused("headgate:events-expired", text, {symbol("first"): first})


def _encoded(event: Event) -> _Encoded:
    body = {
        "number": event.number,
        "at": event.at,
        "kind": event.kind,
        "object": str(event.object),
        "text": event.text,
        "attributes": to_amqp(event.attributes),
    }
    return event.number, virtualhost_of(event.object), bytes(Message(body=body, address="$events").encode())
