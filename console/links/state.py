"""The snapshot of one broker: rows of its queues, its attributes, the newest events, and the connection's status.

Written only in the links' thread, by `synchronization.py` and `link.py`; read, and subscribed to, from any thread.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from brokers.model import TYPES, ManagedType, ObjectName
from brokers.steady_clock import SteadyClock
from console.conditions.active import ActiveConditions, Condition
from console.conditions.detectors import broker_findings, covers_clients, host_findings, is_ordinary
from console.conditions.remedies import Remedies
from console.conditions.trends import Rates, Trends
from console.links.event_window import EventWindow, Tail
from console.links.group_totals import TableGroups
from console.links.queue_order import Placed, QueueOrders, SortKey
from console.links.queue_table import QueueTable, Row
from console.links.queue_totals import GroupTotals, QueueTotals
from console.links.readers import Readers

log = logging.getLogger(__name__)

#: Attributes of the broker that change often, and that rows of queues and events show sooner.
_DERIVED_FROM_QUEUES = frozenset(
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


#: The error of a link before its first attempt to connect.
CONNECTING = "connecting"
#: After this time without an answer the broker may hang, and conditions are not updated, ms.
SILENT = 4000
#: A change of the difference of the clocks by this much is a step of the broker's clock, ms; less may be a late sample.
STEP = 10_000


@dataclass(frozen=True, slots=True)
class Status:
    """The status of a connection. `since`: ms since the epoch. `error`: why it is disconnected, for people.
    `is_removed`: the broker is not one of the console's any more."""

    connected: bool
    since: int
    error: str = ""
    is_removed: bool = False


class BrokerState:
    """See the module. Every thread acquires `lock` to access the window or the table."""

    #: The visible virtual hosts; None: all.
    only_hosts: frozenset[str] | None = None

    def __init__(
        self, slug: str, event_capacity: int, clock: SteadyClock | None = None, *, types_known: bool = True
    ) -> None:
        """`types_known`: the broker has the types that the model declares, before it has been connected to."""
        self.slug = slug
        self.lock = threading.Lock()
        self.window = EventWindow(event_capacity)
        self.clock = clock or SteadyClock()
        self.table = QueueTable(self.clock.now)
        self._orders = QueueOrders(self.table, self.clock.now, self.lock)
        self.groups = TableGroups(self.table, self.clock.now, self.lock)
        self.trends = Trends()
        # Since conditions were last detected. Thousands of queues change each second, and nearly all are ordinary.
        self._without_conditions = self.table.record_changes(
            lambda name, row: not is_ordinary(row, self.trends.growth(name))
        )
        self.active_conditions = ActiveConditions()
        self.hosts: Mapping[str, Row] = {}  # attributes of the virtual hosts, by name
        #: The types of managed objects as this broker has them; those declared until the first connection.
        self.types: Mapping[str, ManagedType] = TYPES
        #: Whether `types` are those of this broker: of some kinds that is known from the first connection on.
        self.types_known = types_known
        self._broker_ahead: int | None = None  # the broker's clock minus ours, ms; None: before the first sample
        self._broker_clock_set = 0  # how often
        self._broker: Row | None = None
        # Both by the steady clock; public properties convert them to the time of day.
        self._status = Status(False, self.clock.now(), CONNECTING)
        self._public_status: tuple[Status, int, Status] | None = None
        self._answered: int | None = None
        self._was_lost = False
        self._revision = 0
        self._newest_event = 0
        self.readers = Readers()

    # -- from any thread ----------------------------------------------------------------------------------------

    @property
    def status(self) -> Status:
        status, ahead = self._status, self.clock.shown()
        public = self._public_status
        if public is None or public[0] is not status or public[1] != ahead:
            # The same object until it changes: readers compare its identity.
            self._public_status = public = status, ahead, replace(status, since=status.since + ahead)
        return public[2]

    @property
    def connected(self) -> bool:
        return self._status.connected

    @property
    def as_of(self) -> int | None:
        """The age of the snapshot: when the newest answered request was sent, ms since the epoch by the console's
        clock. None: there is no snapshot."""
        return None if self._answered is None else self._answered + self.clock.shown()

    @property
    def answered_at(self) -> int | None:
        """As `as_of`, by the steady `clock`, which steps of the machine's clock do not affect."""
        return self._answered

    @property
    def broker(self) -> Row | None:
        """The attributes of the broker object, as of the last read; None before the first connection."""
        return self._broker

    @property
    def revision(self) -> int:
        """Increases whenever a queue, the broker's totals or the status change."""
        return self._revision + self.table.revision

    @property
    def newest_event(self) -> int:
        """Number of the newest event that is known to exist, including events in flight."""
        return max(self._newest_event, self.window.last or 0)

    def queues(self) -> list[Row]:
        """Return the newest row of every queue: its attributes and `object`, the text of its name."""
        with self.lock:
            return self.table.rows()

    @property
    def queue_count(self) -> int:
        return len(self.table)

    def queue_totals(self) -> QueueTotals:
        """Return the totals over all queues."""
        totals = QueueTotals()
        with self.lock:
            for of_host in self.table.totals.values():
                totals.include(of_host)
        return totals

    def add_group_totals(self, groups: dict[str, GroupTotals], by: str) -> Collection[str]:
        """Add the totals of each group of queues to those of the same name, and return the names. `by`: as for
        `TableGroups`."""
        return self.groups.add_to(groups, by)

    def group_names(self, placed: Sequence[Placed], by: str) -> Iterator[str | None]:
        """Return the name of the group of each of these queues of an order; None: the queue is new or gone."""
        return self.groups.names_of(placed, by)

    def queues_in_order(self, key: SortKey) -> Sequence[Placed]:
        """Return the keys and names of all queues in the order of a key, which is updated rather than sorted as long as
        it is used: `key` should be the same object each time."""
        return self._orders.placed(key)

    def queues_named(self, names: Iterable[str]) -> list[Row]:
        """Return the rows of queues by the texts of their names, without those that do not exist."""
        return self.table.rows_named(names)

    def queue(self, name: ObjectName | str) -> Row | None:
        return self.table.row(str(name))

    def unchanged_since(self, queue: str) -> int | None:
        """Return when a queue last changed, by the text of its name, ms since the epoch by the console's clock."""
        since = self.table.unchanged_since(queue)
        return None if since is None else since + self.clock.shown()

    @property
    def broker_now(self) -> int:
        """The time by the broker's clock, as estimated from its samples, ms since the epoch."""
        return self.clock.now() + (self.clock.shown() if self._broker_ahead is None else self._broker_ahead)

    def rates(self, queue: str) -> Rates:
        """Return the rates of a queue, by the text of its name."""
        with self.lock:
            return self.trends.of(queue, self.broker_now)

    def conditions(self, name: str = "") -> list[Condition]:
        """Return the active conditions, the most severe first; of one object if the text of its name is given."""
        return [c for c in self.active_conditions.conditions if name in ("", c.finding.object)]

    def recent_events(self, after: int) -> Tail:
        """Return the events after `after` from the window; see `events_after` for older ones."""
        with self.lock:
            if after > (self.window.last or 0):
                return Tail(())  # in flight
            return self.window.after(after)

    def newest_position(self, count: int) -> int:
        """Return the number after which there are the newest `count` events."""
        return max(0, self.newest_event - count)

    def has_events_after(self, number: int) -> bool:
        """Return whether there are events that `recent_events` or `events_after` would return."""
        with self.lock:
            last = self.window.last or 0
            if number > last:
                return self.connected and number > self._newest_event
            return number < last

    # -- in the links' thread -----------------------------------------------------------------------------------

    def note_newest_event(self, number: int) -> None:
        """Record that an event with this number exists, which may be in flight."""
        self._newest_event = max(self._newest_event, number)

    def begin_events(self, newest: int) -> int:
        """Prepare for events of a new connection; `newest`: number of the broker's newest event. Return the number to
        continue after."""
        with self.lock:
            if self.window.last is None or newest < self.window.last:
                # The first connection, or a broker that lost its journal and restarted its numbers.
                self.window.begin_after(max(0, newest - self.window.capacity))
            self._newest_event = newest
            return self.window.last or 0

    def update_broker_clock(self, at: int) -> None:
        """Process the time of a sample, ms since the epoch by the broker's clock. If that clock was set, stored times
        are moved with it, so that durations stay correct."""
        before, self._broker_ahead = self._broker_ahead, at - self.clock.now()
        if before is not None and abs(by := self._broker_ahead - before) >= STEP:
            self._broker_clock_set += 1
            self.trends.shift(by)
            self.active_conditions.shift(by)

    def answered(self, requested: int) -> None:
        """Record that the broker answered a request that was sent at `requested`, ms by `clock`; see `as_of`."""
        self._answered = max(requested, self._answered or requested)  # an earlier request may be answered later

    def update_conditions(self) -> None:
        """Detect conditions; called once a second. Does nothing while the broker does not answer, since values that do
        not change then do not mean that there is no traffic."""
        for _ in self.update_conditions_in_steps():
            pass

    def update_conditions_in_steps(self) -> Generator[None, None, None]:
        """As `update_conditions`, in steps of few ms. If it is closed before its end, or the broker's clock is set
        meanwhile, the next update does it."""
        if self._answered is not None and self.clock.now() - self._answered > SILENT:
            return
        broker = self._broker or {}
        remedies = Remedies.of(self.types)
        others = [
            *broker_findings(broker, remedies),
            *(found for host in self.hosts.values() for found in host_findings(host, remedies)),
        ]
        short = bool(broker.get("shortages"))
        short_hosts = {name for name, host in self.hosts.items() if host.get("store_overfull")}
        stops = broker.get("stops") or ()
        now, clock_set = self.broker_now, self._broker_clock_set
        self._orders.end_unused()
        self.groups.end_unused()
        with self.lock:
            changed = set(self._without_conditions)
            self._without_conditions.clear()
            rows = self.table.rows_named(changed | self.active_conditions.watched)
            gone = [name for name in changed if self.table.row(name) is None]
        before = self.active_conditions.conditions
        steps = self.active_conditions.update(
            rows,
            lambda queue: self.trends.of(queue, now),
            now,
            gone=gone,
            others=others,
            short=lambda row: (
                short or row["virtualhost"] in short_hosts or any(covers_clients(stop, row) for stop in stops)
            ),
            remedies=remedies,
        )
        done = False
        try:
            for _ in steps:
                yield
                if self._broker_clock_set != clock_set:
                    return
            done = True
        finally:
            if not done:
                with self.lock:
                    self._without_conditions.update(changed)
        if before != self.active_conditions.conditions:
            self._revision += 1
            self.notify()

    def put_broker(self, attributes: Row) -> None:
        """Replace the attributes of the broker."""
        before, self._broker = self._broker, dict(attributes)
        if before is None or any(before.get(a) != v for a, v in attributes.items() if a not in _DERIVED_FROM_QUEUES):
            self._revision += 1

    def connected_now(self, requested: int) -> None:
        """Set the status to connected after everything has been read, from `requested` on, ms by `clock`."""
        self.answered(requested)
        self._status = Status(True, self.clock.now())
        self._revision += 1
        log.log(logging.INFO if self._was_lost else logging.DEBUG, "%s: connected", self.slug)
        self.notify()

    def lost(self, error: str, *, is_removed: bool = False) -> None:
        """Set the status to disconnected; `error`: why, for people; `is_removed`: for good."""
        if self.connected:
            log.warning("%s: connection lost: %s", self.slug, error)
            self._was_lost = True
        if self.connected or self._status.error != error:
            since = self.clock.now() if self.connected else self._status.since
            self._status = Status(False, since, error, is_removed)
            self._revision += 1
            self.notify()

    def notify(self) -> None:
        """Wake all subscribers."""
        self.readers.notify()
