"""What is known of one broker, in one place: its inventory, journal, stops and streams, and what outlasts a restart.

Every observation passes `apply`: the inventory takes it over, differences become events, the journal numbers them, and
readers get them. The flow state of objects is remembered with the events, so that after a restart of this process the
first round of reading finds what has happened meanwhile, and reports nothing twice. Objects that are found for the
first time in a new journal are there already: they are no events.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from types import MappingProxyType
from typing import Any

from brokers.adapters.adapter import Adapter
from brokers.adapters.differences import exact, facts, subject_of
from brokers.adapters.feeds import Feeds
from brokers.adapters.flow_state import is_so
from brokers.adapters.freshness import Freshness
from brokers.adapters.inventory import Change, Inventory, Round
from brokers.adapters.observation import Attributes, Observation, Reported
from brokers.adapters.reconciliation import Reconciliation
from brokers.adapters.records import Memory, Records, StopChange
from brokers.adapters.scopes import within
from brokers.adapters.several_addresses import IDENTITY, SeveralAddresses
from brokers.adapters.stop_requests import stop_fact
from brokers.adapters.stops import Stops
from brokers.adapters.totals import percent_used, totals
from brokers.admin import SAMPLED, Samples
from brokers.engine.values.events import Fact, text
from brokers.model import ManagedType, ObjectName, object_name

#: Attribute of the broker's object: the types that were read completely. It is not declared, so that no client sees it.
_MET = "types_read"
#: Attributes of the flow state that are remembered, besides the writable ones.
_FLOW = ("overfull", "overfull_since", "overfull_count", "overfull_ms", "blocked", "blocked_since", "blocked_count",
         "shortages", _MET)  # fmt: skip
#: Types of which objects are remembered: of producers those that are blocked, of the others all. Connections are not:
#: after a restart those that are open are no events.
_REMEMBERED = ("Queue", "Policy", "Producer", "VirtualHost", "Broker")

BROKER = object_name("Broker")


class Observed:
    """See the module. `now`: ms since the epoch."""

    def __init__(self, adapter: Adapter, records: Records, now: Callable[[], int]) -> None:
        self._adapter = adapter
        self.records = records
        self.now = now
        self.feeds = Feeds(records)
        self.inventory = Inventory({})
        known = records.known()
        self.inventory.objects.update(known)
        #: Types that were read completely before, in this process or, by their records, an earlier one. Of some of them
        #: there may have been no objects to remember, such as blocked producers.
        self._met: set[str] = {name.type for name in known} | set(known.get(BROKER, {}).get(_MET, ()))
        if isinstance(adapter, SeveralAddresses):
            adapter.recall(known.get(BROKER, {}))
        self.freshness = Freshness()
        self._reconciliation = Reconciliation()
        self.stops = Stops(adapter, records, self.inventory.objects, self._on_stop)
        self._shown_stops: set[ObjectName] = set()

    @property
    def types(self) -> Mapping[str, ManagedType]:
        return self._adapter.types

    def check_reachable(self) -> None:
        """Raise BrokerUnreachable while the broker does not answer."""
        self.feeds.check()

    def reachable(self) -> None:
        """The broker has answered a complete round of reading."""
        self.feeds.unreachable = None

    def unreachable(self, why: str) -> None:
        """The broker does not answer: end all streams, and refuse requests, with this sentence."""
        self.feeds.unreachable = why
        self.feeds.news()

    # -- observing ------------------------------------------------------------------------------------------------

    def apply(
        self, seen: Observation, *, since: int | None = None, instead: Iterable[Fact] = (), kinds: Collection[str] = ()
    ) -> None:
        """Take over an observation. `since`: the moment of its request (`freshness`); None: of what Headgate has just
        changed. `instead`: events that are known better than by the observation, which then yields none of these
        `kinds`."""
        self.inventory.types = self._adapter.types
        newer: Set[ObjectName] = frozenset()
        if since is not None:
            newer = self.freshness.newer(since)
            seen = self.freshness.current(seen, since, self.inventory.objects)
        self._record(self.inventory.apply(seen, newer), seen.at, instead, kinds)
        if since is None:
            for name, read in seen.objects.items():
                self.freshness.learned(name, read)

    def end_round(self, done: Round, at: int, since: int) -> None:
        """End a round of reading everything: what is missing is gone, and all types have been met. `since`: the moment
        when the round began."""
        newer = self.freshness.newer(since)
        self._record(self.inventory.end_round(done, paged=self._adapter.paged, except_=newer), at)
        self._forget_states(done, at)
        self._note_met(set(self._adapter.types) - done.unlisted, at)
        self._sum_up(at)
        self.show_stops()

    def _note_met(self, types: Set[str], at: int) -> None:
        """Remember which types were read completely: of these the next process finds what is new."""
        self._met |= types
        met = sorted(self._met & set(_REMEMBERED))
        if BROKER in self.inventory.objects and self.inventory.objects[BROKER].get(_MET) != met:
            self.inventory.set(BROKER, {_MET: met}, at)
            self._append([], {BROKER: self._memory(BROKER, self.inventory.objects[BROKER])})

    def _forget_states(self, done: Round, at: int) -> None:
        """Producers that could not be listed may be blocked or not: nothing old is shown as the present."""
        if "Producer" in done.unlisted:
            known = [name for name in self.inventory.objects if name.type == "Producer"]
            states = {name: {"blocked": None} for name in known if name not in done.found.get("Producer", ())}
            self._record(self.inventory.apply(Observation(at, states)), at)

    def reported(self, event: Reported) -> None:
        """Take over an event that the broker has reported, unless it is one already."""
        name, objects, now = event.object, self.inventory.objects, self.now()
        line = text(event.kind, subject_of(name, objects.get(name)), event.words)
        said = Fact(event.at, event.kind, name, line, event.attributes)
        if event.kind == "policy-changed" and self.freshness.is_changing(name):
            self._reconciliation.reported_early(said)
            return
        match = self._reconciliation.match(said, event.observed, now)
        due = match.before
        waited = self._no_longer_waiting([name]) if due or match.expected is not None else {}
        if match.expected is not None:
            if not match.expected.is_event:
                due = [*due, said if event.words else exact(match.expected.fact, event)]
            self._append(due, waited)
            return
        if event.words and name not in objects:
            self._reconciliation.reported_first(said, now)
            self._append([*due, said], waited)
            return
        changes = self._learn(event)
        found = [fact for fact in facts(changes, event.at, self._adapter.types) if fact.kind == event.kind]
        if event.words:
            due = [*due, said] if found or not event.observed else due
        else:
            due = [*due, *(exact(each, event) for each in found)]
        if waited:
            waited = self._no_longer_waiting([name])  # as it is after this report
        self._append(due, {**waited, **self._remembered(changes)})

    def reports_ended(self) -> None:
        """No more reports come, since the source or this process ends: what waited for them are events now."""
        waited = self._reconciliation.waiting
        due = self._reconciliation.polled((), {}, (), self.now())
        self._append(due, self._no_longer_waiting(waited))

    def _learn(self, event: Reported) -> list[Change]:
        """Take over what a report says about its object."""
        if event.observed is None:
            change = self.inventory.remove(event.object)
            changes = [change] if change else []
        else:
            changes = self.inventory.apply(Observation(event.at, {event.object: event.observed}))
        if changes:
            self.freshness.learned(event.object, event.observed or ())
        return changes

    def clock_set(self, step: int) -> None:
        """The clock of this machine was set by `step` ms: times of day move with it, and what lasts goes on as if it
        had not been set. Raises StoreError."""
        self._adapter.clock_set(step)
        self._reconciliation.clock_set(step)
        moved = [name for name in self.inventory.clock_set(step) if name not in self._reconciliation.waiting]
        self.stops.clock_set(step)
        self.show_stops()
        self._append([], {name: self._memory(name, self.inventory.objects[name]) for name in moved})

    def removed(self, name: ObjectName, found: Iterable[Fact] = ()) -> None:
        """Take over the deletion of an object by Headgate."""
        change = self.inventory.remove(name)
        self.freshness.learned(name, ())
        self._record([change] if change else [], self.now(), found, {"policy-changed"})

    def publish(self, at: int) -> None:
        """Publish samples of the queues that have changed since the last ones."""
        names = self.inventory.take_changed_queues()
        rows = self.inventory.rows(names, SAMPLED)
        present = [name for name in names if name in self.inventory.objects]
        queues = tuple((name, dict(zip(SAMPLED, row, strict=True))) for name, row in zip(present, rows, strict=True))
        self.feeds.publish(Samples(at, queues))

    def _record(
        self, changes: list[Change], at: int, instead: Iterable[Fact] = (), kinds: Collection[str] = ()
    ) -> None:
        news = [change for change in changes if change.before is not None or change.name.type in self._met]
        found = [fact for fact in facts(news, at, self._adapter.types) if fact.kind not in kinds]
        waited, reports, now = self._reconciliation.waiting, self._adapter.reports, self.now()
        own = list(instead)
        due = self._reconciliation.polled(found, self.inventory.objects, reports, now)
        self._append([*own, *due], {**self._no_longer_waiting(waited), **self._remembered(changes)})
        self._reconciliation.changed(own, self.inventory.objects, reports, now)

    def _append(
        self, found: list[Fact], memory: Memory = MappingProxyType({}), unannounced: Sequence[StopChange] | None = None
    ) -> None:
        """Store events together with what the next process must know of the changed objects: it finds no change twice,
        and misses none."""
        rows = [(each.at, each.kind, each.object, each.text, each.attributes) for each in found]
        if rows or memory:
            self.records.append(rows, memory, unannounced)
        if rows:
            self.inventory.set(BROKER, {"last_event": self.records.last}, self.now())
            self.feeds.news()

    def _remembered(self, changes: Iterable[Change]) -> dict[ObjectName, Attributes | None]:
        """Return what the next process must know of the changed objects. A change that waits for its report is not
        stored yet: what changes and changes back within that time is lost in a crash."""
        memory: dict[ObjectName, Attributes | None] = {}
        waiting = self._reconciliation.waiting
        for change in changes:
            if change.name.type not in _REMEMBERED or change.name in waiting:
                continue
            before, after = self._memory(change.name, change.before), self._memory(change.name, change.after)
            if before != after:
                memory[change.name] = after
        return memory

    def _no_longer_waiting(self, names: Iterable[ObjectName]) -> dict[ObjectName, Attributes | None]:
        """Return what to remember of objects whose change has waited for its report, unless one still waits."""
        due = [n for n in names if n.type in _REMEMBERED and n not in self._reconciliation.waiting]
        return {name: self._memory(name, self.inventory.objects.get(name)) for name in due}

    def _memory(self, name: ObjectName, attributes: Attributes | None) -> dict[str, Any] | None:
        if attributes is None or (name.type == "Producer" and not is_so(attributes, "blocked")):
            return None
        declared = self._adapter.types.get(name.type)
        writable = [a.name for a in declared.writable] if declared is not None else []
        return {key: attributes[key] for key in (*_FLOW, IDENTITY, *writable) if key in attributes}

    # -- stops and totals -----------------------------------------------------------------------------------------

    def _on_stop(self, changes: Sequence[StopChange]) -> None:
        covered, now = self.stops.covered(), self.now()
        found = []
        for change in changes:
            scope = change.stop.scope
            queues = within(scope, covered.get(str(scope), ()) if change.began else self._shown_stops)
            found.append(stop_fact(change, queues, self.inventory.objects, now))
        self._append(found, unannounced=self.stops.unannounced)
        self.show_stops()

    def show_stops(self) -> None:
        """Show the stops at their queues, and all of them at the broker."""
        by_queue, at = self.stops.by_queue(), self.now()
        shown = {stop: stop.as_json() for stop in self.stops.stops.values()}
        for name in self._shown_stops - set(by_queue):
            self.inventory.set(name, {"stops": [], "stopped_since": None}, at)
        for name, stops in by_queue.items():
            attributes = {"stops": [shown[stop] for stop in stops], "stopped_since": stops[0].since}
            self.inventory.set(name, attributes, at)
        self._shown_stops = set(by_queue)
        self.inventory.set(BROKER, {"stops": list(shown.values())}, at)
        for host in [name for name in self.inventory.objects if name.type == "VirtualHost"]:
            inside = [each for stop, each in shown.items() if stop.scope.virtualhost in ("", host["name"])]
            self.inventory.set(host, {"stops": inside}, at)

    def percent(self, queue: ObjectName) -> float | None:
        """Return how full a queue is, see `percent_used`."""
        return percent_used(self.inventory.objects.get(queue))

    def _sum_up(self, at: int) -> None:
        """Set the totals of the broker and its virtual hosts; what the broker reports itself takes precedence."""
        queues: list[Attributes] = []
        by_host: dict[str, list[Attributes]] = {}
        for name, queue in self.inventory.objects.items():
            if name.type == "Queue":
                queues.append(queue)
                by_host.setdefault(name["virtualhost"], []).append(queue)
        self._set_totals(BROKER, queues, at)
        for host in [name for name in self.inventory.objects if name.type == "VirtualHost"]:
            self._set_totals(host, by_host.get(host["name"], ()), at)

    def _set_totals(self, name: ObjectName, queues: Sequence[Attributes], at: int) -> None:
        more = {"last_event": self.records.last, "journal": self.records.identity} if name == BROKER else {}
        self.inventory.set(name, {**totals(queues), **more}, at)
