"""The managed type Queue."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from brokers.admin import InvalidValue
from brokers.engine.broker import Broker
from brokers.engine.flow import client_stops
from brokers.engine.flow.credit import draining
from brokers.engine.flow.explanation import longest_wait
from brokers.engine.management.resources.message_operations import message_operations
from brokers.engine.management.resources.policies import explanation, merged_policy, policy_of
from brokers.engine.management.resources.resource import Change, ManagedResource, Values
from brokers.engine.management.resources.shared_readers import (
    effective_levels,
    effective_readers,
    policy_readers,
    stops_at_time_of_day,
    time_reader,
)
from brokers.engine.management.resources.stop_operations import stop_operations
from brokers.engine.management.waiting import waiting_producers
from brokers.engine.queues.queue import Queue
from brokers.engine.services.queue_facts import queue_fact
from brokers.engine.values.amounts import counted
from brokers.engine.values.events import policy_words
from brokers.engine.values.message import LEFT_OUT, NEVER
from brokers.engine.values.policy import NOTHING, fields
from brokers.engine.values.stops import Scope, Stop
from brokers.model import ObjectName, check_attributes


class QueueResource(ManagedResource[Queue]):
    type_name = "Queue"

    def __init__(self, broker: Broker) -> None:
        super().__init__()
        self.broker = broker
        turn = broker.turn
        self.readers = {
            "virtualhost": lambda q: q.virtualhost,
            "name": lambda q: q.name,
            "durable": lambda q: q.store_id > 0,
            "temporary_for": lambda q: str(owner.name) if (owner := broker.temporary.owner(q)) is not None else "",
            "state": lambda q: q.gate.state.value,
            "depth_messages": lambda q: q.gate.depth_messages,
            "depth_bytes": lambda q: q.gate.depth_bytes,
            "unacknowledged_messages": lambda q: q.lanes.unacknowledged,
            "delayed_messages": lambda q: len(q.lanes.delayed),
            "delayed_bytes": lambda q: q.lanes.delayed.depth_bytes,
            "next_delivery_time": time_reader(turn, _next_delivery_time),
            "uncommitted_messages": lambda q: q.gate.uncommitted_messages,
            "uncommitted_bytes": lambda q: q.gate.uncommitted_bytes,
            "parked_messages": lambda q: len(q.gate.parked) + len(q.gate.awaiting),
            "parked_bytes": lambda q: q.gate.parked.bytes + q.gate.awaiting.bytes,
            "oldest_message_at": time_reader(turn, _oldest_message_at),
            "dead_letter_sources": lambda q: broker.virtualhosts[q.virtualhost].dead_letter_sources.get(q.name, 0),
            **policy_readers(lambda q: q.own),
            **effective_readers(),
            "producers": lambda q: q.gate.producer_count,
            "blocked_producers": lambda q: q.gate.blocked_producers,
            "waiting_producers": waiting_producers,
            "draining_producers": lambda q: draining(q.gate.ledger.pending),
            "consumers": lambda q: q.consumer_count,
            "credit": lambda q: q.gate.ledger.reserved + len(q.gate.ledger.probes),
            "rate_in": lambda q: q.rate_in,
            "rate_out": lambda q: q.rate_out,
            "enqueued_messages": lambda q: q.gate.enqueued % LEFT_OUT,
            "dequeued_messages": lambda q: q.lanes.dequeued,
            "overfull_since": time_reader(turn, lambda q: q.gate.overfull_since),
            "stopped_since": time_reader(turn, lambda q: q.gate.stopped_since),
            "rejected_messages": lambda q: q.gate.rejected,
            "longest_wait_ms": lambda q: longest_wait(q.gate, turn.now),
            "dropped_messages": lambda q: q.lanes.dropped,
            "expired_messages": lambda q: q.lanes.expired,
            "dead_lettered_messages": lambda q: q.dead_lettered,
            "discarded_messages": lambda q: q.discarded,
            "overfull_count": lambda q: q.gate.overfull_count,
            "overfull_ms": self._overfull_ms,
            "stops": lambda q: stops_at_time_of_day(turn, _stops(q)),
            "policy": self._best_match,
            "bindings": self._bindings,
            "version": lambda q: q.version,
        }
        self.operations = {
            **stop_operations(broker, lambda q, _: Scope(q.virtualhost, queue=q.name)),
            **message_operations(broker),
            "explain": self._explain,
            "check": self._check,
            "purge": self._purge,
        }

    def _overfull_ms(self, queue: Queue) -> int:
        now, since = self.broker.turn.now, queue.gate.overfull_since
        return queue.gate.overfull_ms + (max(0, now - since) if since else 0)

    def _best_match(self, queue: Queue) -> str | None:
        best = self.broker.virtualhosts[queue.virtualhost].policies.of(queue.name)
        return best.pattern if best is not None else None

    def _bindings(self, queue: Queue) -> list[dict[str, str]]:
        exchanges = self.broker.virtualhosts[queue.virtualhost].bound.get(queue, ())
        return [{"exchange": each.name, "key": key} for each in exchanges for key in each.bindings[queue]]

    def all(self) -> Iterable[Queue]:
        return self.broker.queues()

    def look_up(self, name: ObjectName) -> Queue:
        return self.broker.queue(name["virtualhost"], name["name"])

    def name_of(self, thing: Queue) -> ObjectName:
        return thing.object_name

    def rows(self, queues: Iterable[Queue], attributes: Iterable[str]) -> list[list[Any]]:
        """Return a row for each queue: the values of these attributes, in order."""
        readers = [self.readers[attribute] for attribute in attributes]
        return [[read(queue) for read in readers] for queue in queues]

    def create_object(self, values: Values, actor: str) -> Queue:
        host = self.broker.virtualhost(values["virtualhost"])
        durable = values.get("durable", False)
        return self.broker.create_queue(host, values["name"], policy_of(values), durable=durable)

    def update_object(self, thing: Queue, change: Change) -> None:
        self.broker.set_own_policy(thing, merged_policy(thing.own, change.after))
        facts = {"before": dict(change.before), "after": dict(change.after), "actor": change.actor}
        queue_fact(thing, "policy-changed", policy_words(change.before, change.after), facts)

    def delete_object(self, thing: Queue, actor: str) -> None:
        self.broker.delete_queue(thing)

    def _explain(self, queue: Queue, given: Values) -> dict[str, Any]:
        layers = self.broker.enforcement.layers_of(queue)
        return explanation(layers, layers._replace(own=NOTHING))

    def _check(self, queue: Queue, given: Values) -> dict[str, Any]:
        good, wrong = check_attributes(self.declared, given["attributes"], creating=False)
        if wrong:
            raise InvalidValue(dict(wrong))
        own, enforcement = fields(merged_policy(queue.own, good)), self.broker.enforcement
        _, limits = enforcement.effective(enforcement.layers_of(queue)._replace(own=own))
        return {"effective": effective_levels(limits)}

    def _purge(self, queue: Queue, given: Values) -> dict[str, Any]:
        (count, ticket), actor = queue.lanes.purge(), given["actor"]
        facts = {"messages": count, "actor": actor, "reason": given.get("reason", "")}
        queue_fact(queue, "queue-purged", f"Purged : {counted(count, 'message')}, By : {actor}", facts)
        if ticket and queue.durable is not None:
            queue.turn.once_safe = partial(queue.durable.when_safe, ticket)
        return {"messages": count}


def _oldest_message_at(queue: Queue) -> int | None:
    oldest = queue.lanes.oldest()
    return None if oldest is None else queue.arrived_at(oldest)


def _stops(queue: Queue) -> Iterable[Stop]:
    """Return the stops of the queue, those of clients if they block one of its producers."""
    gate = queue.gate
    return (*gate.stops.values(), *gate.staged.values(), *client_stops.blocking_stops(gate))


def _next_delivery_time(queue: Queue) -> int | None:
    soonest = queue.lanes.delayed.soonest
    return soonest if soonest < NEVER else None
