"""Operators' stops: applied to the queues of a scope and lifted, with facts and records.

`values/stops.py` says which queues a scope covers; the gate of each queue applies the stop, to all its producers or to
those of some clients.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

from brokers.admin import InvalidValue
from brokers.engine.flow import client_stops
from brokers.engine.flow.explanation import percent_used
from brokers.engine.flow.producer import Producer
from brokers.engine.flow.turn import PersistRecord, Turn
from brokers.engine.queues.queue import Queue
from brokers.engine.registry.registry import Registry
from brokers.engine.services import depth_ends
from brokers.engine.values.policy import pattern_fault
from brokers.engine.values.stage import Stage
from brokers.engine.values.stops import NO_END, End, Halt, Scope, Stop, StopOutcome
from brokers.model import object_name


class Stopping:
    """See the module. The stops are in the registry."""

    def __init__(self, registry: Registry, turn: Turn) -> None:
        self.registry = registry
        self.turn = turn

    def stop_producers(self, scope: Scope, reason: str, actor: str, end: End = NO_END) -> StopOutcome:
        """Stop the producers of a scope. Idempotent: an active stop retains its reason, actor and age, and gets the end
        of the latest request. A stop in a staged start, or after a halted one, is replaced. Raises NotFound,
        InvalidValue."""
        return self.stop_all([scope], reason, actor, end)

    def stop_all(self, scopes: Sequence[Scope], reason: str, actor: str, end: End = NO_END) -> StopOutcome:
        """Stop several scopes, all or none."""
        covered = [(scope, self._covered(scope)) for scope in scopes]
        for scope, queues in covered:
            depth_ends.check(scope, end, self._counting(scope, queues) if end.below else ())
        now = self.turn.now
        changed = [
            scope for scope, queues in covered if self._stop(scope, queues, Stop(scope, reason, actor, now, end))
        ]
        return _outcome(covered, changed)

    def _stop(self, scope: Scope, queues: list[Queue], requested: Stop) -> bool:
        """Stop one scope. Return False if an equal stop is active."""
        known = self.registry.stops.get(scope)
        if known is not None and known.stage is None and known.halted is None:
            if known.end == requested.end:
                return False
            stop = replace(known, end=requested.end)
        else:
            stop = requested
        if depth_ends.is_per_client(scope):
            awaited = depth_ends.keys(self._counting(scope, queues)) if stop.end.below else ()
            stop = replace(stop, awaited=awaited)
        self.registry.stops[scope] = stop
        self._stop_fact("producers-stopped", requested, queues)
        for queue in queues:
            queue.gate.stop(stop)
        if not (scope.queue and queues[0].transient):
            self.turn.records.append(PersistRecord("stop", str(scope), self._record(stop)))
        return True

    def _counting(self, scope: Scope, queues: Sequence[Queue]) -> Collection[Queue]:
        """Return the covered queues whose depth can end a stop of the scope that is requested now."""
        if not depth_ends.is_per_client(scope):
            return queues
        known = self.registry.stops.get(scope)
        before = depth_ends.counting(self.registry, known) if known is not None and known.end.below else set()
        return before | set(_distinct(_narrowed([(scope, queues)])))

    def queues_of(self, scopes: Sequence[Scope]) -> Sequence[Queue]:
        """Return the queues that stops of these scopes would cover; with clients, those that they publish to. Raises
        NotFound, InvalidValue."""
        return _distinct(_narrowed([(scope, self._covered(scope)) for scope in scopes]))

    def progress(self, scopes: Sequence[Scope]) -> StopOutcome:
        """Return how far stops of these scopes have come. Raises NotFound, InvalidValue."""
        return _outcome([(scope, self._covered(scope)) for scope in scopes])

    def awaited(self, scopes: Sequence[Scope]) -> list[tuple[Queue, int]] | None:
        """Return the queues whose depth must fall before the stops of exactly these scopes end, each with the
        percentage of its capacity that it must reach; None: none of these stops ends at a depth."""
        stops = [stop for scope in scopes if (stop := self.registry.stops.get(scope)) is not None and stop.end.below]
        return [(queue, stop.end.below) for stop in stops for queue in self._counted(stop)] if stops else None

    def start_producers(
        self, scope: Scope, reason: str, actor: str, *, only: bool = False, stage: Stage | None = None
    ) -> StopOutcome:
        """Lift the stop of the scope and, unless `only`, all stops that lie wholly inside it; in stages with a `stage`,
        which stops of clients do not have: those inside are lifted at once. Idempotent. Raises NotFound,
        InvalidValue."""
        return self.start_all([scope], reason, actor, only=only, stage=stage)

    def start_all(
        self, scopes: Sequence[Scope], reason: str, actor: str, *, only: bool = False, stage: Stage | None = None
    ) -> StopOutcome:
        """Start several scopes."""
        covered = [(scope, self._covered(scope)) for scope in scopes]
        if stage is not None and any(scope.client for scope in scopes):
            raise InvalidValue({"rate": "a stop of a client is not lifted in stages: start its producers at once"})
        changed = []
        inside = {} if only else self._stops_by_place(scopes)
        for scope, queues in covered:
            candidates = (scope,) if only else inside.get(scope.place, self.registry.stops)
            lifted = [s for s in candidates if s in self.registry.stops and scope.contains(s)]
            if stage is not None:  # a running staged start continues
                lifted = [s for s in lifted if self.registry.stops[s].stage is None]
            if lifted:
                changed.append(scope)
                start = Stop(scope, reason, actor, self.turn.now, stage=stage)
                self._stop_fact("producers-started", start, queues)
            for each in lifted:
                if each.client and each != scope:
                    # An event of its own: which other scopes contain it does not follow from their texts.
                    self._stop_fact("producers-started", replace(start, scope=each, stage=None), self._covered(each))
                if stage is None or each.client:
                    self._lift(each)
                else:
                    begun = replace(stage, actor=actor, reason=reason)
                    self._change(replace(self.registry.stops[each], end=NO_END, stage=begun, halted=None))
        return _outcome(covered, changed)

    def _stops_by_place(self, scopes: Iterable[Scope]) -> dict[tuple[str, str, str, str], list[Scope]]:
        """Return the scopes of the stops that scopes of queues and exchanges may contain, by their places: looked up
        for each of thousands of queues that are started together."""
        found: dict[tuple[str, str, str, str], list[Scope]] = {s.place: [] for s in scopes if s.queue or s.exchange}
        for stop in self.registry.stops if found else ():
            if (same := found.get(stop.place)) is not None:
                same.append(stop)
        return found

    def _lift(self, scope: Scope) -> None:
        self.forget_stop(scope)
        for queue in self._may_apply_to(scope):
            queue.gate.start(scope)

    def _may_apply_to(self, scope: Scope) -> Iterable[Queue]:
        """Return the queues that a stop of this scope may cover, cheaply, for hundreds of stops."""
        if not scope.queue:
            return self.registry.queues()
        host = self.registry.virtualhosts.get(scope.virtualhost)
        queue = host.queues.get(scope.queue) if host is not None else None
        return () if queue is None else (queue,)

    def _change(self, stop: Stop) -> None:
        """Persist a changed stop, and apply it to the queues that it covers."""
        self.registry.stops[stop.scope] = stop
        for queue in self._may_apply_to(stop.scope):
            if queue.gate.has_stop(stop.scope) or stop.scope in queue.gate.staged:
                queue.gate.stop(stop)
        self.turn.records.append(PersistRecord("stop", str(stop.scope), self._record(stop)))

    def _check_stage(self, stop: Stop, stage: Stage) -> None:
        """Lift the stop completely after its last step; stop all producers again if a queue is too deep."""
        queues = [queue for queue in self._may_apply_to(stop.scope) if stop.scope in queue.gate.staged]
        used = [(percent, queue) for queue in queues if (percent := percent_used(queue.gate)) is not None]
        percent, deepest = max(used, key=lambda each: each[0], default=(0, None))
        if stage.halt and deepest is not None and percent > stage.halt:
            # Rounded up: a queue at 60.2% is above 60%, and must not be reported as at 60%.
            name = str(object_name("Queue", virtualhost=deepest.virtualhost, name=deepest.name))
            halted = Halt(stage.actor, stage.reason, stage.since, name, math.ceil(percent), stage.halt)
            stopped = Stop(stop.scope, halted.words(), "", self.turn.now, halted=halted)
            self._stop_fact("producers-stopped", stopped, queues)
            self._change(stopped)
        elif stage.rate_at(self.turn.now) is None:
            start = Stop(stop.scope, "the staged start is complete", "", self.turn.now)
            self._stop_fact("producers-started", start, queues)
            self._lift(stop.scope)

    def end_due_stops(self) -> None:
        """End stops whose end has come, and advance staged starts; called once a second."""
        for stop in [stop for stop in self.registry.stops.values() if stop.stage is not None]:
            if stop.stage is not None:
                self._check_stage(stop, stop.stage)
        for stop in [stop for stop in self.registry.stops.values() if stop.end]:
            why = self._end_reason(stop)
            if why:
                queues = [queue for queue in self._may_apply_to(stop.scope) if queue.gate.has_stop(stop.scope)]
                start = Stop(stop.scope, why, "", self.turn.now)
                self._stop_fact("producers-started", start, queues)
                self._lift(stop.scope)

    def _end_reason(self, stop: Stop) -> str:
        """Return why the stop has ended, in words; empty if it has not."""
        if stop.end.until is not None and self.turn.now >= stop.end.until:
            return f"the stop reached its end ({stop.reason})" if stop.reason else "the stop reached its end"
        if stop.end.below and depth_ends.is_reached(stop.end.below, self._awaited(stop)):
            return f"the depth fell to {stop.end.below} %{f' ({stop.reason})' if stop.reason else ''}"
        return ""

    def _awaited(self, stop: Stop) -> Collection[Queue]:
        """Return the queues whose depth can end a stop, and record them if its clients have attached to others."""
        queues = self._counted(stop)
        if depth_ends.is_per_client(stop.scope) and (awaited := depth_ends.keys(queues)) != stop.awaited:
            self._change(replace(stop, awaited=awaited))
        return queues

    def _counted(self, stop: Stop) -> Collection[Queue]:
        """Return the queues whose depth can end a stop."""
        if depth_ends.is_per_client(stop.scope):
            return depth_ends.counting(self.registry, stop)
        return [queue for queue in self._may_apply_to(stop.scope) if queue.gate.has_stop(stop.scope)]

    def _covered(self, scope: Scope) -> list[Queue]:
        """Return the covered queues. Raises NotFound for an unknown object, InvalidValue for an invalid pattern."""
        if fault := pattern_fault(scope.pattern):
            raise InvalidValue({"pattern": fault})
        if scope.queue:
            return [self.registry.queue(scope.virtualhost, scope.queue)]
        if scope.exchange:
            return list(self.registry.exchange(scope.virtualhost, scope.exchange).bindings)
        hosts = (
            [self.registry.virtualhost(scope.virtualhost)] if scope.virtualhost else self.registry.virtualhosts.values()
        )
        queues = [queue for host in hosts for queue in host.queues.values()]
        return [queue for queue in queues if self._covers(scope, queue)] if scope.pattern else queues

    def _covers(self, scope: Scope, queue: Queue) -> bool:
        bound = self.registry.virtualhosts[queue.virtualhost].bound.get(queue, ())
        return scope.covers(queue.virtualhost, queue.name, [exchange.name for exchange in bound])

    def drop_stop(self, scope: Scope, why: str) -> None:
        """Forget a stop whose queue, exchange or virtual host is being deleted."""
        if scope.client:
            self._stop_fact("producers-started", Stop(scope, why, "", self.turn.now), ())
        self.forget_stop(scope)

    def forget_stop(self, scope: Scope) -> None:
        """Remove a stop from the registry and persist that; the caller starts its queues."""
        del self.registry.stops[scope]
        self.turn.records.append(PersistRecord("stop", str(scope), None))

    def _record(self, stop: Stop) -> dict[str, Any]:
        return stop.by_time_of_day(self.turn.ahead).record()

    def _stop_fact(self, kind: str, change: Stop, queues: Sequence[Queue]) -> None:
        """Add the fact before the change is made, so that the log explains it before the lines of the channels."""
        scope = change.scope
        narrowed = _narrowed([(scope, queues)])
        queues = _distinct(narrowed)
        producers = len(_producers(narrowed)) if scope.client else sum(q.gate.producer_count for q in queues)
        verb = "Stopped" if kind == "producers-stopped" else "Started"
        words = (
            f"Producers {verb} : Scope : {scope}, By : {change.actor or 'itself'}, Reason : {change.reason},"
            f" Queues : {len(queues):,}, Producers : {producers:,}"
        )
        if change.end:
            words += f", Ends : {change.end.words(self.turn.now)}"
        if change.stage:
            words += f", Staged : {change.stage.rate:,} messages/s, doubled every {change.stage.step_ms // 1000:,} s"
        change = change.by_time_of_day(self.turn.ahead)
        attributes = {
            "scope": str(scope),
            "pattern": scope.pattern,
            **(scope.client.as_json() if scope.client else {}),
            "reason": change.reason,
            "actor": change.actor,
            "queues": len(queues),
            "producers": producers,
            "until": change.end.until,
            "below": change.end.below,
            "stage": change.stage.as_json() if change.stage else None,
            "halted": change.halted.as_json() if change.halted else None,
        }
        self.turn.add_fact(kind, scope.object, "broker", words, attributes)

    def stop_covered(self, queue: Queue) -> None:
        for stop in self.registry.stops.values():
            if self._covers(stop.scope, queue):
                queue.gate.stop(stop)


#: Scopes with the queues that each covers.
Covered = Iterable[tuple[Scope, Sequence[Queue]]]


def _outcome(covered: Covered, changed: Sequence[Scope] = ()) -> StopOutcome:
    narrowed = _narrowed(covered)
    producers = _producers(narrowed)
    blocked = [p for p in producers if p.blocked]
    # Of a running producer, messages in flight do not matter. A blocked one has credit with the mechanisms hold and
    # reject-after, whose queues take its messages while they are overfull.
    in_flight = sum(1 for p in blocked if p.credit or p.withdrawn)
    stopped = len(blocked) - in_flight
    return StopOutcome(len(_distinct(narrowed)), len(producers), stopped, in_flight, bool(changed), tuple(changed))


def _narrowed(covered: Covered) -> list[tuple[Scope, Sequence[Queue]]]:
    """Restrict the queues of scopes with clients to those that these publish to."""
    return [
        (scope, queues if not scope.client else [queue for queue in queues if any(_members(scope, queue))])
        for scope, queues in covered
    ]


def _producers(covered: Covered) -> list[Producer]:
    """Return the producers that scopes cover in their queues, each once."""
    # Most of ten thousand queues have none.
    found = ((scope, queue) for scope, queues in covered for queue in queues if queue.gate.ledger.members)
    return list(dict.fromkeys(p for scope, queue in found for p in _members(scope, queue)))


def _members(scope: Scope, queue: Queue) -> Iterable[Producer]:
    producers = queue.gate.producers
    return (p for p in producers if client_stops.covers(scope, p)) if scope.client else producers


def _distinct(covered: Sequence[tuple[Scope, Sequence[Queue]]]) -> Sequence[Queue]:
    if len(covered) == 1:
        return covered[0][1]  # a scope covers each queue once
    return list(dict.fromkeys(queue for _, queues in covered for queue in queues))
