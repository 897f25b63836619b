"""What a queue does while the broker or its virtual host is short of memory, store or temp store.

A message waits only for the resource that it would use: the store if the queue stores it, the temp store if the queue
spools it, else memory. A shortage of a virtual host's own store blocks every producer of its queues, as in Qpid's Java
broker. While memory is short, a queue that spools puts new messages into the temp store.

The next message of a producer is assumed to be like its last. A producer that has sent nothing yet is blocked only if
any message it may send would have to wait; otherwise it gets credit for one message. A message that has to wait is
parked, unsettled, with later messages of its producer behind it, and the producer is blocked; with `mechanism` reject
or reject-after it is rejected, at once or after `reject_after_ms`, like a message to an overfull queue.

The number of parked messages is bounded by the credit outstanding when the shortage began. If messages grow far beyond
the assumed size, or a client ignores its credit, memory itself could run out: then new messages are rejected, whatever
the mechanism (`Usage.exhausted`).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from brokers.engine.flow import blocking
from brokers.engine.flow.contents import Contents
from brokers.engine.flow.credit import CreditLedger
from brokers.engine.flow.enrolment import Enrolment, Transaction
from brokers.engine.flow.parked import Parked, ParkedMessage
from brokers.engine.flow.producer import Producer
from brokers.engine.flow.settlement import Settlement
from brokers.engine.flow.table import State
from brokers.engine.flow.turn import Turn
from brokers.engine.flow.usage import Resource, Usage
from brokers.engine.values.limits import Limits
from brokers.engine.values.message import NEVER
from brokers.engine.values.outcomes import Outcome, Verdict
from brokers.engine.values.stops import Scope, Stop


class Parking(Protocol):
    """The part of `parking.Parking` that shortages need."""

    def admit(self, waiting: ParkedMessage) -> None: ...

    def waited(self, ms: int) -> None: ...


class Gate(Protocol):
    """The part of a `FlowGate` that shortages need. `awaiting`: messages parked until the end of a shortage, or of a
    stop of their client."""

    turn: Turn
    limits: Limits
    ledger: CreditLedger
    settlement: Settlement
    shortages: list[Usage]
    awaiting: Parked
    client_stops: dict[Scope, Stop]
    rejected: int

    @property
    def contents(self) -> Contents: ...

    @property
    def parking(self) -> Parking: ...

    @property
    def state(self) -> State: ...

    @property
    def producers(self) -> Iterable[Producer]: ...

    def touch(self) -> None: ...

    def weigh(self) -> None: ...

    def admits(self, resource: Resource) -> bool: ...

    def reject(self) -> Verdict: ...

    def take_credit_back(self, producer: Producer) -> None: ...

    def abandon(self, transaction: Transaction) -> None: ...

    def event_attributes(self) -> dict[str, Any]: ...


def blocked_producers(gate: Gate, limits: Limits) -> int:
    """Return how many producers the shortages of a queue, and stops of their clients, block with these limits."""
    if not gate.shortages and not gate.client_stops:
        return 0
    return sum(1 for producer in gate.producers if producer.stopped or _blocked_by(gate, producer, limits))


def _blocked_by(gate: Gate, producer: Producer, limits: Limits) -> list[str]:
    """Return the reasons for which the shortages of a queue block one of its producers."""
    if limits.when_short == "reject" or not gate.shortages:
        return []
    wanted = (producer.awaited,) if producer.awaited else gate.contents.resources(producer)
    short = [[u for u in gate.shortages if u.resource is each or u.blocks_all] for each in wanted]
    if not all(short):
        return []
    return list(dict.fromkeys(usage.reason for usages in short for usage in usages))


def intercept(gate: Gate, producer: Producer, body: bytes, enrolment: Enrolment | None) -> Verdict | None:
    """Park or reject a message that arrives during a shortage. Return None if the shortage does not concern it."""
    if any(usage.exhausted for usage in gate.shortages):
        return gate.reject()
    resource = gate.contents.resource_of(body)
    if producer.awaited is None and gate.admits(resource):
        return None
    if gate.limits.when_short == "reject":
        return gate.reject()
    receipt = gate.settlement.defer(producer, 1)
    if enrolment is not None:
        enrolment.transaction.wait(gate)
    park(gate, ParkedMessage(receipt, body, gate.turn.now, NEVER, enrolment), resource)
    return Verdict.PENDING


def park(gate: Gate, waiting: ParkedMessage, resource: Resource) -> None:
    """Park a message until the shortage of the resource ends or the message's deadline passes."""
    producer = waiting.producer
    waiting.deadline = deadline(gate)
    gate.awaiting.append(waiting)
    producer.awaited = producer.awaited or resource
    review(gate, producer)
    gate.contents.watch()
    gate.touch()


def deadline(gate: Gate) -> int:
    """Return until when a message parked now may wait, ms."""
    limits = gate.limits
    return gate.turn.now + limits.reject_after_ms if limits.when_short == "reject-after" else NEVER


def review_all(gate: Gate) -> None:
    """Update all producers; see `review`. Their events have the same attributes, whose count takes a step for each
    producer."""
    attributes = gate.event_attributes()
    for producer in gate.producers:
        review(gate, producer, attributes)


def review(gate: Gate, producer: Producer, attributes: Mapping[str, Any] | None = None) -> None:
    """Update whether shortages block a producer, and whether it gets credit. `attributes`: of the queue, for its
    events; None: the present ones."""
    wanted = _blocked_by(gate, producer, gate.limits)
    for resource in Resource:
        reason = resource.value
        if reason in producer.causes and reason not in wanted:
            blocking.unblock(gate.turn, producer, reason, attributes or gate.event_attributes())
    for reason in wanted:
        if reason not in producer.causes:
            blocking.block(gate.turn, producer, reason, blocking.ALL_QUEUES, attributes or gate.event_attributes())
    denied = producer.stopped or (bool(wanted) and gate.limits.when_short == "block" and not producer.inside)
    unknown = not producer.messages and bool(gate.shortages)
    if producer.credit and (unknown or (denied and not producer.denied_credit)):
        gate.take_credit_back(producer)
    producer.denied_credit = denied
    if not denied:
        gate.ledger.request(producer)


def admit_parked(gate: Gate) -> None:
    """Enqueue parked messages whose shortage has ended, in the order of arrival from each producer. Those of a client
    that is stopped stay. What has to stay is not looked at but for the first message of each producer."""
    awaiting = gate.awaiting
    heads = [
        (first.number, first)
        for producer in awaiting.producers
        if not producer.stopped and (first := awaiting.first_of(producer)) is not None
    ]
    heapq.heapify(heads)
    while heads and (gate.state is State.NORMAL or (gate.contents.spooling and not gate.state.stopped)):
        waiting = heads[0][1]
        producer, resource = waiting.producer, gate.contents.resource_of(waiting.body)
        if awaiting.first_of(producer) is not waiting:  # it was dropped with its transaction
            heapq.heappop(heads)
            continue
        if not gate.admits(resource):
            producer.awaited = resource
            heapq.heappop(heads)
            continue
        awaiting.remove(waiting)
        gate.parking.admit(waiting)
        gate.weigh()
        unparked(gate, producer)
        following = awaiting.first_of(producer)
        if following is None or producer.stopped:
            heapq.heappop(heads)
        else:
            heapq.heapreplace(heads, (following.number, following))


def reject_expired(gate: Gate) -> bool:
    """Reject parked messages whose deadline has passed. Return whether others have a deadline."""
    now = gate.turn.now
    for waiting in gate.awaiting.take(lambda waiting: waiting.deadline <= now):
        gate.parking.waited(now - waiting.since)
        gate.rejected += 1
        gate.settlement.resolve(waiting.receipt, Outcome.REJECTED)
        if waiting.enrolment is not None:
            waiting.enrolment.refused(gate)
        unparked(gate, waiting.producer)
    return any(waiting.deadline != NEVER for waiting in gate.awaiting)


def unparked(gate: Gate, producer: Producer) -> None:
    """Update a producer of which a message is no longer parked."""
    if producer not in gate.awaiting.producers:
        producer.awaited = None
        review(gate, producer)
