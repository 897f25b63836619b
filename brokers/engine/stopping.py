"""Operators' stops at work: put in force on the queues of a scope, lifted, and stated as facts.

`stops.py` says which scope covers what; the gate of each queue says what a stop does there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokers.admin import InvalidValue
from brokers.engine.credit import draining
from brokers.engine.policy import pattern_fault
from brokers.engine.queue import Queue
from brokers.engine.stops import Scope, Stop, StopOutcome
from brokers.engine.turn import Keep

if TYPE_CHECKING:
    from brokers.engine.broker import Broker


class Stopping:
    """See the module. The stops in force are the broker's."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker

    def stop_producers(self, scope: Scope, reason: str, actor: str) -> StopOutcome:
        queues = self._covered(scope)
        changed = scope not in self.broker.stops
        if changed:
            stop = self.broker.stops[scope] = Stop(scope, reason, actor, self.broker.turn.now)
            for queue in queues:
                queue.stop(stop)
            if not (scope.queue and queues[0].transient):
                self.broker.turn.keep.append(Keep("stop", str(scope), stop.record()))
        outcome = self._outcome(queues, changed=changed)
        if changed:
            self._stop_fact("producers-stopped", Stop(scope, reason, actor, self.broker.turn.now), outcome)
        return outcome

    def start_producers(self, scope: Scope, reason: str, actor: str) -> StopOutcome:
        queues = self._covered(scope)
        lifted = [s for s in self.broker.stops if scope.contains(s)]
        for each in lifted:
            self.forget_stop(each)
            for queue in self.broker.queues():
                queue.start(each)
        outcome = self._outcome(queues, changed=bool(lifted))
        if lifted:
            self._stop_fact("producers-started", Stop(scope, reason, actor, self.broker.turn.now), outcome)
        return outcome

    def _covered(self, scope: Scope) -> list[Queue]:
        """Raises NotFound for a scope that names nothing, InvalidValue for a pattern that cannot be read."""
        if fault := pattern_fault(scope.pattern):
            raise InvalidValue({"pattern": fault})
        if scope.queue:
            return [self.broker.queue(scope.virtualhost, scope.queue)]
        if scope.exchange:
            return list(self.broker.routing.exchange(scope.virtualhost, scope.exchange).bindings)
        hosts = [self.broker.virtualhost(scope.virtualhost)] if scope.virtualhost else self.broker.virtualhosts.values()
        return [q for host in hosts for q in host.queues.values() if self._covers(scope, q)]

    def _covers(self, scope: Scope, queue: Queue) -> bool:
        bound = self.broker.virtualhosts[queue.virtualhost].bound.get(queue, ())
        return scope.covers(queue.virtualhost, queue.name, [exchange.name for exchange in bound])

    def _outcome(self, queues: list[Queue], *, changed: bool) -> StopOutcome:
        producers = [p for q in queues for p in q.producers]
        stopped = sum(1 for p in producers if p.blocked and not draining((p,)))
        return StopOutcome(len(queues), len(producers), stopped, draining(producers), changed)

    def forget_stop(self, scope: Scope) -> None:
        """The queues that it held are the caller's to start."""
        del self.broker.stops[scope]
        self.broker.turn.keep.append(Keep("stop", str(scope), None))

    def _stop_fact(self, kind: str, asked: Stop, outcome: StopOutcome) -> None:
        scope, name = asked.scope, self.broker.object_name
        verb = "Stopped" if kind == "producers-stopped" else "Started"
        if scope.queue:
            name = self.broker.queue(scope.virtualhost, scope.queue).object_name
        elif scope.exchange:
            name = self.broker.routing.exchange(scope.virtualhost, scope.exchange).object_name
        elif scope.virtualhost:
            name = self.broker.virtualhost(scope.virtualhost).object_name
        words = (
            f"Producers {verb} : Scope : {scope}, By : {asked.actor}, Reason : {asked.reason},"
            f" Queues : {outcome.queues:,}, Producers : {outcome.producers:,}"
        )
        attributes = {
            "scope": str(scope),
            "pattern": scope.pattern,
            "reason": asked.reason,
            "actor": asked.actor,
            "queues": outcome.queues,
            "producers": outcome.producers,
        }
        self.broker.turn.state(kind, name, "broker", words, attributes)

    def stop_covered(self, queue: Queue) -> None:
        for stop in self.broker.stops.values():
            if self._covers(stop.scope, queue):
                queue.stop(stop)
