"""Operators' stops of a broker that has none: stored here, made effective by the adapter, and undone as they were made.

The record comes before the change: what a start must restore is on the disk before the broker is changed, so that a
crash at any moment leaves a record that `maintain` completes or undoes. A stop that could not be made whole is taken
back. `maintain` also stops what a broker forgot in a restart or what came later under the scope of a stop, and ends
stops that are due. Targets that cannot be stopped or started are tried again in each round, and hinder neither others
nor what else a round does. A round waits for nothing that takes seconds: what is not complete yet is carried on with in
the next one. One at a time: requests wait for each other, and a round leaves its part to the next one meanwhile.

All of this runs in the event loop of all brokers, also with thousands of stops of single queues: no step walks all
queues, or all stops, for each of them, and one transaction stores all that a request changes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

from brokers.adapters.adapter import Adapter, Faults, Objects, StopTarget
from brokers.adapters.attempts import in_words
from brokers.adapters.records import StopChange, StoppedTarget, StopRecords
from brokers.admin import AdminError, InvalidValue
from brokers.engine.values.stops import NO_END, End, Scope, Stop
from brokers.model import ObjectName

log = logging.getLogger("headgate.adapters")


class NotInForce(AdminError):
    """Some producers are not started, or not stopped, as they should be. The message is a sentence."""


class Stops:
    """See the module. `objects`: the inventory's, always current. `announce`: called with changes, once they are made
    and on record.

    A target belongs to the stops that needed it when it was stopped, whatever is listed later: a broker that is just
    starting lists fewer queues, and a stop must not end because of that.
    """

    def __init__(
        self, adapter: Adapter, store: StopRecords, objects: Objects, announce: Callable[[Sequence[StopChange]], None]
    ) -> None:
        self._adapter = adapter
        self._store = store
        self._objects = objects
        self._announce = announce
        #: For one change of the broker at a time: a limit that is set while a stop is made would be lost in it.
        self.lock = asyncio.Lock()
        self.stops: dict[Scope, Stop] = {stop.scope: stop for stop in store.stops()}
        self._targets: dict[str, StoppedTarget] = {stopped.target.id: stopped for stopped in store.targets()}
        self._saved = set(self.stops.values())
        #: Changes that have no event yet; stored with the stops, and without a change in the transaction of its event.
        self.unannounced: list[StopChange] = store.unannounced()
        self._requests = 0  # that are under way
        self._rounds = 0  # of reading everything
        self._started: dict[str, tuple[StopTarget, int]] = {}  # with the round that has read the start's result
        self._unfinished: set[str] = set()  # targets that were stopped, or begun to be, since the round before

    def by_queue(self) -> Mapping[ObjectName, list[Stop]]:
        """Return the stops of every stopped queue, also of one that can only be stopped together with another."""
        by_text = {str(scope): stop for scope, stop in self.stops.items()}
        found: dict[ObjectName, list[Stop]] = {}
        for stopped in self._targets.values():
            for queue in stopped.target.queues:
                stops = found.setdefault(queue, [])
                stops += [by_text[text] for text in stopped.scopes if text in by_text and by_text[text] not in stops]
        return {queue: sorted(stops, key=lambda stop: stop.since) for queue, stops in found.items() if stops}

    def covered(self) -> dict[str, set[ObjectName]]:
        """Return the queues that the stops cover, by the text of their scope, with those that are stopped together with
        them."""
        found: dict[str, set[ObjectName]] = {str(scope): set() for scope in self.stops}
        for stopped in self._targets.values():
            for text in stopped.scopes:
                found.setdefault(text, set()).update(stopped.target.queues)
        return found

    @asynccontextmanager
    async def _request(self) -> AsyncIterator[None]:
        self._requests += 1
        try:
            async with self.lock:
                yield
        finally:
            self._requests -= 1

    # -- requests -------------------------------------------------------------------------------------------------

    async def stop(
        self, scopes: Sequence[Scope], *, reason: str, actor: str, now: int, end: End = NO_END
    ) -> list[Scope]:
        """Stop the producers of scopes, all or none, and return those that changed. A repeated stop keeps its reason,
        actor and start, and gets the new end. `now`: ms since the epoch. Raises what the adapter raises; then nothing
        of this request stays stopped."""
        async with self._request():
            changed = [s for s in dict.fromkeys(scopes) if s not in self.stops or self.stops[s].end != end]
            new = [scope for scope in changed if scope not in self.stops]
            wanted = self.planned(new)
            before = dict(self.stops)
            for scope in changed:
                known = self.stops.get(scope)
                self.stops[scope] = Stop(scope, reason, actor, now, end) if known is None else replace(known, end=end)
            changes = [StopChange(self.stops[s], began=True, actor=actor, reason=reason) for s in changed]
            self.unannounced += changes
            try:
                await self._make_effective(wanted)
            except BaseException:
                self.stops = before
                self._is_announced(changes)
                with suppress(AdminError):
                    await self._undo_unneeded()
                raise
            self._announce_all(changes)
            return changed

    def planned(self, scopes: Sequence[Scope]) -> Mapping[Scope, Sequence[StopTarget]]:
        """Return what a request to stop the producers of scopes has to change. Raises what the adapter raises, and
        InvalidValue for too much at once."""
        found, most = self._adapter.stop_targets(scopes, self._objects), self._adapter.most_stopped
        count = len({target.id for targets in found.values() for target in targets})
        if most is not None and count > most:
            raise InvalidValue({"": f"{count:,} queues are more than the {most:,} that one stop covers here"})
        return found

    async def start(self, scopes: Sequence[Scope], *, actor: str, reason: str = "", only: bool = False) -> list[Scope]:
        """Lift the stops of scopes and those within them, and return the scopes that changed; `only`: exactly these.
        Raises BrokerUnreachable if the broker does not answer, and the first error of targets that cannot be started:
        the stops are lifted nevertheless, and these producers are started in a later round."""
        async with self._request():
            changed, faults = await self._start(scopes, actor, reason, only=only)
            if faults:
                log.warning("producers are not started yet: %s", in_words(faults))
                raise next(iter(faults.values()))
            return changed

    async def _start(
        self, scopes: Sequence[Scope], actor: str, reason: str, *, only: bool, automatic: bool = False
    ) -> tuple[list[Scope], Faults]:
        """Return the scopes that changed, and the targets that could not be started."""
        lifted, changed = [], []
        for scope in dict.fromkeys(scopes):
            if only or scope.queue:  # a queue has no other scope within it
                found = [scope] if scope in self.stops else []
            else:
                found = [s for s in self.stops if scope.contains(s)]
            lifted += [self.stops.pop(each) for each in found]
            changed += [scope] if found else []
        faults: Faults = {}
        if lifted:
            changes = [StopChange(stop, False, actor, reason, automatic) for stop in lifted]
            self.unannounced += changes
            try:
                faults = await self._undo_unneeded(in_round=automatic)
            finally:
                self._announce_all(changes)
        return changed, faults

    def _announce_all(self, changes: Sequence[StopChange]) -> None:
        if changes:
            self._is_announced(changes)
            self._announce(changes)

    def _is_announced(self, changes: Iterable[StopChange]) -> None:
        """These need no event any more."""
        gone = {id(change) for change in changes}
        self.unannounced = [change for change in self.unannounced if id(change) not in gone]

    async def maintain(self, now: int, percent: Callable[[ObjectName], float | None]) -> None:
        """Bring the broker to what the records say, after everything was read. `now`: ms since the epoch. `percent`:
        how full a queue is, in percent of its capacity; None: it has none, or it is unknown. Raises BrokerUnreachable,
        and NotInForce when all else is done."""
        if self._requests or self.lock.locked():  # a change of limits may wait for reports of queues, too
            return
        async with self.lock:
            self._rounds += 1
            self._started = {id_: each for id_, each in self._started.items() if each[1] > self._rounds}
            covered = self.covered()
            due = [s.scope for s in self.stops.values() if _is_due(s, now, covered[str(s.scope)], percent)]
            _, faults = await self._start(due, "", "", only=True, automatic=True)
            if not faults:  # else they have just been tried
                faults = await self._undo_unneeded(in_round=True)
            self._note_changes()
            wanted, unstoppable = self._wanted()
            forgotten = [
                stopped.target
                for stopped in self._targets.values()
                if not self._adapter.is_stopped(stopped.target, self._objects)
            ]
            if lost := [target.id for target in forgotten if target.id not in self._unfinished]:
                names = ", ".join(lost[:5])
                log.warning("%d stops were not in force any more and are made again: %s", len(lost), names)
            not_stopped = {**unstoppable, **await self._make_effective(wanted, again=forgotten, in_round=True)}
            self._announce_all([*self.unannounced])  # of a process that was killed before
            if faults:
                raise NotInForce(f"producers are not started yet: {in_words(faults)}")
            if not_stopped:
                raise NotInForce(f"producers are not stopped: {in_words(not_stopped)}")

    def _note_changes(self) -> None:
        """What another client has changed during a stop is what its start restores. It is on record before the stop is
        made again, which hides it."""
        changed = False
        for id_, stopped in self._targets.items():
            now = self._adapter.restore_now(stopped.target, self._objects) if stopped.scopes else None
            if now is not None and now != stopped.target.restore:
                log.info("%s was changed while it is stopped: a start restores that", id_)
                self._targets[id_] = replace(stopped, target=replace(stopped.target, restore=now))
                changed = True
        if changed:
            self._save()

    def clock_set(self, step: int) -> None:
        """The clock was set by `step` ms: a stop with a time lasts as long as was requested. Raises StoreError."""
        self.stops = {scope: stop.by_time_of_day(step) for scope, stop in self.stops.items()}
        if self.stops:
            self._save()

    def changed(self, queue: ObjectName) -> None:
        """The limits of a queue were changed by a request and read again: the next start restores those."""
        self._started = {id_: each for id_, each in self._started.items() if queue not in each[0].queues}

    def _wanted(self) -> tuple[Mapping[Scope, Sequence[StopTarget]], Faults]:
        """Return what the stops need by what is listed now, also if that has become more than a request may stop; and
        the stops that cannot be made. A queue that is not listed is left out: what is stopped remains so."""
        listed = [scope for scope in self.stops if not scope.queue or scope.object in self._objects]
        try:
            return self._adapter.stop_targets(listed, self._objects), {}
        except AdminError:  # of one of them
            return self._wanted_of_each(listed)

    def _wanted_of_each(self, scopes: Iterable[Scope]) -> tuple[Mapping[Scope, Sequence[StopTarget]], Faults]:
        found: dict[Scope, Sequence[StopTarget]] = {}
        faults: dict[str, AdminError] = {}
        stopped = {text for each in self._targets.values() for text in each.scopes}
        for scope in scopes:
            try:
                found |= self._adapter.stop_targets([scope], self._objects)
            except AdminError as error:
                if not scope.queue or str(scope) not in stopped:  # else it is stopped, whatever it is now
                    faults[str(scope)] = error
        return found, faults

    # -- making and undoing ---------------------------------------------------------------------------------------

    async def _make_effective(
        self,
        wanted: Mapping[Scope, Sequence[StopTarget]],
        again: Sequence[StopTarget] = (),
        *,
        in_round: bool = False,
    ) -> Faults:
        """Stop the targets that are not stopped yet, and those `again`. One on record keeps its own `restore`: what was
        read since then is the stop itself. Returns those that failed in a round."""
        made = {target.id: target for target in again}
        before = dict(self._targets)
        for scope, targets in wanted.items():
            for target in targets:
                stopped = self._targets.get(target.id) or StoppedTarget(self._as_started(target), frozenset())
                whole = replace(stopped.target, queues=target.queues | stopped.target.queues)
                self._targets[target.id] = StoppedTarget(whole, stopped.scopes | {str(scope)})
                if not stopped.scopes:  # new, or its start has not reached the broker
                    made[target.id] = whole
        if self._targets != before or self._saved != set(self.stops.values()):
            self._save()
        self._unfinished = set(made)
        return await self._adapter.stop(list(made.values()), in_round=in_round) if made else {}

    def _as_started(self, target: StopTarget) -> StopTarget:
        """Return the target as a start has left it, if what was observed is still its stop: to restore that would leave
        the producers stopped. What was changed since the start was observed with the change."""
        if target.id not in self._started:
            return target
        started, _ = self._started[target.id]
        now = self._adapter.restore_now(started, self._objects)
        return replace(target, restore=started.restore if now is None else now)

    async def _undo_unneeded(self, *, in_round: bool = False) -> Faults:
        """Start the targets that no stop needs any more. Their records go when the broker has confirmed it. Returns
        those that could not be started."""
        texts = {str(scope) for scope in self.stops}
        needed = {id_: replace(each, scopes=each.scopes & texts) for id_, each in self._targets.items()}
        undone = [stopped.target for stopped in needed.values() if not stopped.scopes]
        if needed != self._targets or self._saved != set(self.stops.values()):
            self._targets = needed
            self._save()
        if not undone:
            return {}
        faults = await self._adapter.start(undone, in_round=in_round)
        for target in undone:
            if target.id not in faults:
                del self._targets[target.id]
                self._started[target.id] = (target, self._rounds + 2)  # the present round may have read it before
        if len(faults) < len(undone):
            self._save()
        return faults

    def _save(self) -> None:
        self._store.save_stops(self.stops.values(), self._targets.values(), self.unannounced)
        self._saved = set(self.stops.values())


def _is_due(stop: Stop, now: int, covered: Iterable[ObjectName], percent: Callable[[ObjectName], float | None]) -> bool:
    if stop.end.until is not None and stop.end.until <= now:
        return True
    if not stop.end.below:
        return False
    used = [value for queue in covered if (value := percent(queue)) is not None]
    return bool(used) and max(used) <= stop.end.below


def check_end(end: End, queues: Iterable[ObjectName], percent: Callable[[ObjectName], float | None]) -> None:
    """Raise InvalidValue for a depth that no queue could reach, or that would end the stop at once."""
    if not end.below:
        return
    used = [value for queue in queues if (value := percent(queue)) is not None]
    errors: dict[str, Any] = {}
    if end.below >= 100:
        errors["below"] = f"below is {end.below}: it is a percentage of the capacity, from 1 to 99"
    elif not used:
        errors["below"] = f"below is {end.below}%, but no queue of the scope has a known capacity"
    elif max(used) <= end.below:
        errors["below"] = f"below is {end.below}%, and the fullest queue is at {max(used):.0f}%: it would end at once"
    if errors:
        raise InvalidValue(errors)
