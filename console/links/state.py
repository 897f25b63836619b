"""What is known of one broker: rows of its queues, its own attributes, the newest events, and whether it is there.

Written in the links' thread only, by `following.py` and `link.py`; read, and subscribed to, from any thread.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace

from brokers.model import ObjectName
from brokers.steady_clock import SteadyClock
from console.conditions.active import ActiveConditions, Condition
from console.conditions.detectors import broker_findings, host_findings
from console.conditions.trends import Rates, Trends
from console.links.event_window import EventWindow, Tail
from console.links.queue_table import QueueTable, Row
from console.links.readers import Readers

log = logging.getLogger(__name__)

#: Attributes of the broker that change all the time and that the queues' rows and the events tell sooner.
_TOLD_BY_QUEUES = frozenset(
    {
        "queues",
        "overfull_queues",
        "stopped_queues",
        "producers",
        "blocked_producers",
        "consumers",
        "depth_messages",
        "depth_bytes",
        "last_event",
    }
)


#: The error of a link that has not tried yet.
CONNECTING = "connecting"
#: A broker that has answered nothing for longer than this, ms, may hang: no conditions are drawn from what it said.
SILENT = 4000
#: By so much, ms, the broker's clock was set, if its samples tell: of one that is less they may just come late.
STEP = 10_000


@dataclass(frozen=True, slots=True)
class Status:
    """`since`: ms since the epoch. `error`: a sentence, while it is not connected."""

    connected: bool
    since: int
    error: str = ""


class BrokerState:
    """See the module. `lock` is held by every thread for as long as it touches the window or the table."""

    #: The virtual hosts that this is about; None: all.
    only_hosts: frozenset[str] | None = None

    def __init__(self, slug: str, keep_events: int, clock: SteadyClock | None = None) -> None:
        self.slug = slug
        self.lock = threading.Lock()
        self.window = EventWindow(keep_events)
        self.clock = clock or SteadyClock()
        self.table = QueueTable(self.clock.now)
        self.trends = Trends()
        self.active_conditions = ActiveConditions()
        self.hosts: Mapping[str, Row] = {}  # attributes of the virtual hosts, by name
        self._broker_ahead: int | None = None  # the broker's clock less ours, ms; None: no sample has told it yet
        self._broker: Row | None = None
        # Both by the steady clock: what is told of them is the time of day.
        self._status = Status(False, self.clock.now(), CONNECTING)
        self._told: tuple[Status, int, Status] | None = None
        self._answered: int | None = None
        self._was_lost = False
        self._revision = 0
        self._newest_event = 0
        self.readers = Readers()

    # -- from any thread ----------------------------------------------------------------------------------------

    @property
    def status(self) -> Status:
        status, ahead = self._status, self.clock.shown()
        told = self._told
        if told is None or told[0] is not status or told[1] != ahead:
            # The same one until it changes: readers look whether it is.
            self._told = told = status, ahead, replace(status, since=status.since + ahead)
        return told[2]

    @property
    def connected(self) -> bool:
        return self._status.connected

    @property
    def as_of(self) -> int | None:
        """What is known here is at least as new as this, ms since the epoch by the console's clock: when the last
        question that the broker has answered was asked. None: it has answered none, and nothing is known."""
        return None if self._answered is None else self._answered + self.clock.shown()

    @property
    def answered_at(self) -> int | None:
        """As `as_of`, by `clock`, whatever the machine's clock is set to."""
        return self._answered

    @property
    def broker(self) -> Row | None:
        """The attributes of the broker object, as of the last read; None before the first connection."""
        return self._broker

    @property
    def revision(self) -> int:
        """Grows whenever a queue, the broker's totals or the status change."""
        return self._revision + self.table.revision

    @property
    def newest_event(self) -> int:
        """Number of the newest event that is known to exist, whether it has arrived here yet or not."""
        return max(self._newest_event, self.window.last or 0)

    def queues(self) -> list[Row]:
        """Every queue's newest row: its attributes and `object`, the text of its name."""
        with self.lock:
            return self.table.rows()

    @property
    def queue_count(self) -> int:
        return len(self.table)

    def queue(self, name: ObjectName | str) -> Row | None:
        return self.table.row(str(name))

    def unchanged_since(self, queue: str) -> int | None:
        """Since when nothing of a queue has changed, by the text of its name, ms by the console's clock."""
        since = self.table.unchanged_since(queue)
        return None if since is None else since + self.clock.shown()

    @property
    def broker_now(self) -> int:
        """The time by the broker's clock, as far as its samples tell, ms since the epoch."""
        return self.clock.now() + (self.clock.shown() if self._broker_ahead is None else self._broker_ahead)

    def rates(self, queue: str) -> Rates:
        """How fast a queue fills and drains, by the text of its name."""
        with self.lock:
            return self.trends.of(queue, self.broker_now)

    def conditions(self, name: str = "") -> list[Condition]:
        """What looks wrong now, trouble first; of one object only, if the text of its name is given."""
        return [c for c in self.active_conditions.conditions if name in ("", c.finding.object)]

    def recent_events(self, after: int) -> Tail:
        """What this link has of the events after `after`; see `events_after` for older ones."""
        with self.lock:
            if after > (self.window.last or 0):
                return Tail(())  # still on their way
            return self.window.after(after)

    def has_events_after(self, number: int) -> bool:
        """Whether `recent_events` would tell something new."""
        with self.lock:
            last = self.window.last or 0
            if number > last:
                return self.connected and number > self._newest_event
            return number < last

    # -- in the links' thread -----------------------------------------------------------------------------------

    def knows_event(self, number: int) -> None:
        """An event of that number exists, whether it has arrived or not."""
        self._newest_event = max(self._newest_event, number)

    def begin_events(self, newest: int) -> int:
        """The broker's newest event has that number: returns the number to go on after."""
        with self.lock:
            if self.window.last is None or newest < self.window.last:
                # The first connection, or a broker whose journal was lost and that counts anew.
                self.window.begin_after(max(0, newest - self.window.keep))
            self._newest_event = newest
            return self.window.last or 0

    def clock_shows(self, at: int) -> None:
        """It is `at` by the broker's clock. If that was set, what is remembered by it is set with it: what has lasted
        for a second has not lasted for an hour then."""
        known, self._broker_ahead = self._broker_ahead, at - self.clock.now()
        if known is not None and abs(by := self._broker_ahead - known) >= STEP:
            self.trends.shift(by)
            self.active_conditions.shift(by)

    def answered(self, asked: int) -> None:
        """The broker has answered what was asked at `asked`, ms by `clock`; see `as_of`."""
        self._answered = asked

    def look(self) -> None:
        """Once a second: look for what is wrong; not while the broker is silent, which is not "nothing moves"."""
        if self._answered is not None and self.clock.now() - self._answered > SILENT:
            return
        broker = self._broker or {}
        others = [*broker_findings(broker), *(found for host in self.hosts.values() for found in host_findings(host))]
        short = bool(broker.get("shortages"))
        now = self.broker_now
        with self.lock:
            rows = self.table.rows()
        changed = self.active_conditions.update(
            rows,
            lambda queue: self.trends.of(queue, now),
            now,
            others=others,
            short=lambda row: short or bool(self.hosts.get(row["virtualhost"], {}).get("store_overfull")),
        )
        if changed:
            self._revision += 1
            self.notify()

    def put_broker(self, attributes: Row) -> None:
        known, self._broker = self._broker, dict(attributes)
        if known is None or any(known.get(a) != v for a, v in attributes.items() if a not in _TOLD_BY_QUEUES):
            self._revision += 1

    def connected_now(self, asked: int) -> None:
        """All has been read; the reading began at `asked`, ms by `clock`."""
        self.answered(asked)
        self._status = Status(True, self.clock.now())
        self._revision += 1
        log.log(logging.INFO if self._was_lost else logging.DEBUG, "%s: connected", self.slug)
        self.notify()

    def lost(self, error: str) -> None:
        if self.connected:
            log.warning("%s: lost: %s", self.slug, error)
            self._was_lost = True
        if self.connected or self._status.error != error:
            self._status = Status(False, self.clock.now() if self.connected else self._status.since, error)
            self._revision += 1
            self.notify()

    def notify(self) -> None:
        """Wake whoever has subscribed."""
        self.readers.notify()
