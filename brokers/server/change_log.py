"""What a turn has changed, made safe: records, then events in the journal, then the log, then their followers.

A disk that is full or gone delays no message: what could not be written is tried again every second, and meanwhile no
client hears that its change is safe (`Container.finish`).
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

#: Events that wait for when the journal can be written again; the oldest are dropped first.
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
        """False: the disk would not take the records, and no client may hear that a change is safe."""
        self.put(records)
        self._unsaved.extend(facts)
        return self.save()

    def put(self, records: list[PersistRecord]) -> None:
        """Have them written by the next `save`."""
        for record in records:
            if record.value is None:
                self._store.remove(record.kind, record.key)
            else:
                self._store.put(record.kind, record.key, record.value)

    def save(self) -> bool:
        """Write what there is to write. False: not even the records."""
        stored = False
        try:
            self._store.commit()
            stored = True
            self._messages.unlink_dropped()
            events = self._journal.append([(f.at, f.kind, f.object, f.text, f.attributes) for f in self._unsaved])
        except StoreError as error:
            if not self.failed:
                self.failed = True
                log.error("%s. Messages go on; changes and events are not safe until it can be written again", error)
            return stored
        if self.failed:
            self.failed = False
            log.warning("the data folder %s can be written again; nothing is left to save", self._journal.path.parent)
        logged = [f.logged for f in self._unsaved]
        self._unsaved.clear()
        self._broker.last_event = self._journal.last
        for event in compress(events, logged):
            operational.info("%s", _one_line(event.text))
        self._followers.publish(events)
        return True


def _one_line(text: str) -> str:
    """A text of the broker log; names and reasons that clients chose cannot forge a line of their own."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
