"""Persistence of a turn's changes: records, then events in the journal, then the log, then the events' followers.

A full or missing disk delays no message: a failed write is retried every second, and meanwhile no change is confirmed
to its client (`Container.finish`).
"""

from __future__ import annotations

import logging
from collections import deque
from itertools import compress

from brokers.engine.broker import Broker
from brokers.engine.flow.turn import PersistRecord
from brokers.engine.values.events import Fact
from brokers.server.config_store import ConfigStore, StoreError
from brokers.server.event_journal import EventJournal
from brokers.server.event_node import EventNode
from brokers.server.virtualhost_stores import VirtualHostStores

#: Maximum number of events buffered while the journal cannot be written; the oldest are dropped first.
MAX_UNSAVED = 10_000

operational = logging.getLogger("headgate.broker.events")
log = logging.getLogger("headgate.broker")


class ChangeLog:
    """`failed`: what has been changed since is not safe."""

    def __init__(
        self,
        broker: Broker,
        *,
        store: ConfigStore,
        journal: EventJournal,
        messages: VirtualHostStores,
        followers: EventNode,
    ) -> None:
        self.failed = False
        self._broker = broker
        self._store = store
        self._journal = journal
        self._messages = messages
        self._followers = followers
        self._unsaved: deque[Fact] = deque(maxlen=MAX_UNSAVED)

    def settle(self, facts: list[Fact], records: list[PersistRecord]) -> bool:
        """Save records and facts. Return False if the records could not be written: then no change may be confirmed."""
        self.put(records)
        self._unsaved.extend(facts)
        return self.save()

    def put(self, records: list[PersistRecord]) -> None:
        """Buffer records for the next `save`."""
        for record in records:
            if record.value is None:
                self._store.remove(record.kind, record.key)
            else:
                self._store.put(record.kind, record.key, record.value)

    def save(self) -> bool:
        """Write everything that is buffered. Return False if not even the records could be written."""
        stored = False
        try:
            self._store.commit()
            stored = True
            self._messages.unlink_dropped()
            events = self._journal.append([(f.at, f.kind, f.object, f.text, f.attributes) for f in self._unsaved])
        except StoreError as error:
            if not self.failed:
                self.failed = True
                log.error(
                    "%s. Messages are still delivered; changes and events are not safe until it can be written again",
                    error,
                )
            return stored
        if self.failed:
            self.failed = False
            log.warning("the data folder %s can be written again; all changes are saved", self._journal.path.parent)
        logged = [f.logged for f in self._unsaved]
        self._unsaved.clear()
        self._broker.last_event = self._journal.last
        for event in compress(events, logged):
            operational.info("%s", _one_line(event.text), extra={"event": event.number, "object": str(event.object)})
        self._followers.publish(events)
        return True


def _one_line(text: str) -> str:
    """Return the text in one line of the broker log; names and reasons that clients chose cannot forge a second
    line."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
