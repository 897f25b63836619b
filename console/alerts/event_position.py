"""The position of the rules in a broker's events, also after an older broker was restored.

Event numbers continue across restarts. But a broker that was restored from a backup has fewer events than the console,
whose database may be newer, has processed, and uses the numbers after them again. So the position has a mark of its
event: its time and a digest of its text. When a broker has connected and does not have this event, the rules begin
again: with the first of its events that is later than the last processed one.
"""

from __future__ import annotations

import hashlib
import logging
import re
from dataclasses import dataclass, field

from brokers.admin import BrokerAdmin, Event, EventsExpired
from brokers.model import object_name
from console.alerts.models import Position
from console.links.registry import BrokerLink

log = logging.getLogger(__name__)

_BROKER = object_name("Broker")
_LONGEST_JOURNAL = 60  # characters, of an identity: with a mark it fits into the column


_MARK = re.compile(r" (?P<at>\d+) (?P<digest>[0-9a-f]{12})\Z")


def journal_of(position: Position) -> str:
    """Return the identity of the position's journal, without the mark."""
    return _MARK.sub("", position.journal)


def marked(journal: str, at: int, text: str) -> str:
    """Return what to store as `journal`: its identity, and the mark of the event at the position. `at`: ms."""
    return journal if len(journal) > _LONGEST_JOURNAL else f"{journal} {at} {_digest(text)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@dataclass
class Rewinds:
    """Finds journals that were set back, once for each connection to a broker. In one process."""

    _checked: dict[str, tuple[float, str]] = field(default_factory=dict)

    def restored_position(self, link: BrokerLink, position: Position) -> int | None:
        """Return the number of the event to continue after if the journal was set back; else None. Raises
        AdminError."""
        connection = (link.status.since, journal_of(position))
        if self._checked.get(link.slug) == connection:
            return None
        # By the broker: this link may be behind the evaluator that stored the position.
        newest = int(link.call(lambda admin: admin.read(_BROKER))["last_event"])
        mark = _MARK.search(position.journal)
        found = _event(link, position.event) if mark and 1 <= position.event <= newest else None
        is_same = found is None or mark is None or (str(found.at), _digest(found.text)) == mark.group("at", "digest")
        if newest >= position.event and is_same:
            self._checked[link.slug] = connection
            return None
        after = newest if mark is None else _last_until(link, int(mark["at"]), newest)
        log.warning(
            "%s: the broker was set back, such as from a backup: its newest event is %d, and event %d was processed."
            " Alerts continue after event %d",
            *(link.slug, newest, position.event, after),
        )
        self._checked[link.slug] = connection
        return after


def _event(link: BrokerLink, number: int) -> Event | None:
    """Return an event that exists, read from the broker; None if it is not retained any more."""

    async def first(admin: BrokerAdmin) -> Event | None:
        stream = admin.events(after=number - 1)
        try:
            return await anext(stream)
        except (EventsExpired, StopAsyncIteration):
            return None
        finally:
            close = getattr(stream, "aclose", None)
            if close is not None:
                await close()

    return link.call(first)


def _last_until(link: BrokerLink, at: int, newest: int) -> int:
    """Return the number of the last event until the time `at`, ms; 0: none. What is not retained counts as earlier."""
    low, high = 0, newest
    while low < high:
        middle = (low + high + 1) // 2
        event = _event(link, middle)
        if event is None or event.at <= at:
            low = middle
        else:
            high = middle - 1
    return low
