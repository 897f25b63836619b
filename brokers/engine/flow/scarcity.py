"""What a queue does while the broker, or its virtual host, has run short of memory, store or temp store.

A message is held by the resource that it would use, and by no other: the store for one that the queue stores, the temp
store for one that it spools, else memory. A virtual host's own store blocks every producer of its queues, as it does
in Qpid's Java broker. While memory is short, a queue that spools takes what comes to the temp store.

A producer is known by its last message. One that has sent nothing yet is blocked only if whatever it may send is held;
until then it has credit for one message, which shows what it is. A message that comes and is held waits outside the
queue, unsettled, with those of its producer behind it, and its producer is blocked; with `mechanism` reject and
reject-after it is rejected, at once or after `reject_after_ms`, as a message for a full queue is.

What waits outside is bounded by the credit that was out when the shortage began, reckoned with the sizes seen by then.
Where it comes to far more, since messages have grown a thousandfold or a client goes on regardless, memory itself would
run out: then what still comes is rejected, whatever the mechanism (`Usage.exhausted`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from brokers.engine.flow import blocking
from brokers.engine.flow.credit import CreditLedger
from brokers.engine.flow.enrolment import Enrolment, Transaction
from brokers.engine.flow.parked import Parked, ParkedMessage
from brokers.engine.flow.producer import Producer, Receipt
from brokers.engine.flow.table import State
from brokers.engine.flow.turn import Turn
from brokers.engine.flow.usage import Resource, Usage
from brokers.engine.values.limits import Limits
from brokers.engine.values.message import NEVER
from brokers.engine.values.outcomes import Outcome, Verdict


class Contents(Protocol):
    """The part of `gate.Contents` that decides what a message uses."""

    @property
    def spooling(self) -> bool: ...

    def watch(self) -> None: ...

    def resource_of(self, body: bytes) -> Resource: ...

    def resources(self, producer: Producer) -> tuple[Resource, ...]: ...


class Gate(Protocol):
    """The part of a `FlowGate` that shortages concern. `awaiting`: messages parked until the end of a shortage."""

    turn: Turn
    limits: Limits
    ledger: CreditLedger
    shortages: list[Usage]
    awaiting: Parked
    rejected: int

    @property
    def contents(self) -> Contents: ...

    @property
    def state(self) -> State: ...

    @property
    def producers(self) -> Iterable[Producer]: ...

    def touch(self) -> None: ...

    def weigh(self) -> None: ...

    def admits(self, resource: Resource) -> bool: ...

    def reject(self) -> Verdict: ...

    def defer(self, producer: Producer, pending: int) -> Receipt: ...

    def resolve(self, receipt: Receipt, outcome: Outcome) -> None: ...

    def waited(self, ms: int) -> None: ...

    def admit_parked(self, waiting: ParkedMessage) -> None: ...

    def take_credit_back(self, producer: Producer) -> None: ...

    def abandon(self, transaction: Transaction) -> None: ...

    def event_attributes(self) -> dict[str, Any]: ...


def blocked_producers(gate: Gate, limits: Limits) -> int:
    """How many producers the shortages of a queue block with these limits."""
    return sum(1 for producer in gate.producers if _blocked_by(gate, producer, limits)) if gate.shortages else 0


def _blocked_by(gate: Gate, producer: Producer, limits: Limits) -> list[str]:
    """The reasons for which the shortages of a queue block one of its producers."""
    if limits.when_short == "reject" or not gate.shortages:
        return []
    wanted = (producer.awaited,) if producer.awaited else gate.contents.resources(producer)
    holding = [[u for u in gate.shortages if u.resource is each or u.whole] for each in wanted]
    if not all(holding):
        return []
    return list(dict.fromkeys(usage.reason for usages in holding for usage in usages))


def arrived(gate: Gate, producer: Producer, body: bytes, enrolment: Enrolment | None) -> Verdict | None:
    """A message has come while there is a shortage. None: the shortage does not concern it."""
    if any(usage.exhausted for usage in gate.shortages):
        return gate.reject()
    resource = gate.contents.resource_of(body)
    if producer.awaited is None and gate.admits(resource):
        return None
    if gate.limits.when_short == "reject":
        return gate.reject()
    receipt = gate.defer(producer, 1)
    if enrolment is not None:
        enrolment.transaction.wait(gate)
    park(gate, ParkedMessage(receipt, body, gate.turn.now, NEVER, enrolment), resource)
    return Verdict.PENDING


def park(gate: Gate, waiting: ParkedMessage, resource: Resource) -> None:
    """Park a message that has no outcome yet, until there is enough of the resource or its time is up."""
    producer = waiting.producer
    waiting.deadline = deadline(gate)
    gate.awaiting.append(waiting)
    producer.awaited = producer.awaited or resource
    review(gate, producer)
    gate.contents.watch()
    gate.touch()


def deadline(gate: Gate) -> int:
    """Until when a message may wait that is held now, ms."""
    limits = gate.limits
    return gate.turn.now + limits.reject_after_ms if limits.when_short == "reject-after" else NEVER


def review(gate: Gate, producer: Producer) -> None:
    """Bring up to date whether shortages block a producer, and whether it gets credit meanwhile."""
    wanted = _blocked_by(gate, producer, gate.limits)
    for resource in Resource:
        reason = resource.value
        if reason in producer.causes and reason not in wanted:
            blocking.unblock(gate.turn, producer, reason, gate.event_attributes())
    for reason in wanted:
        if reason not in producer.causes:
            blocking.block(gate.turn, producer, reason, blocking.ALL_QUEUES, gate.event_attributes())
    denied = bool(wanted) and gate.limits.when_short == "block" and not producer.inside
    unknown = not producer.messages and bool(gate.shortages)
    if producer.credit and (unknown or (denied and not producer.denied_credit)):
        gate.take_credit_back(producer)
    producer.denied_credit = denied
    if not denied:
        gate.ledger.request(producer)


def admit_parked(gate: Gate) -> None:
    """Enqueue what waits no longer, in the order in which it came from each producer."""
    behind: set[Producer] = set()
    for waiting in list(gate.awaiting):
        if not (gate.state is State.NORMAL or (gate.contents.spooling and not gate.state.stopped)):
            break
        producer = waiting.producer
        resource = gate.contents.resource_of(waiting.body)
        if producer in behind or not gate.admits(resource):
            if producer not in behind:
                producer.awaited = resource
            behind.add(producer)
            continue
        gate.awaiting.remove(waiting)
        gate.admit_parked(waiting)
        gate.weigh()
        _went(gate, producer)


def passed(gate: Gate) -> bool:
    """Time has passed: reject what has waited for too long. Whether there is more to wait for."""
    now = gate.turn.now
    for waiting in gate.awaiting.take(lambda waiting: waiting.deadline <= now):
        gate.waited(now - waiting.since)
        gate.rejected += 1
        gate.resolve(waiting.receipt, Outcome.REJECTED)
        if waiting.enrolment is not None:
            waiting.enrolment.refused(gate)
        _went(gate, waiting.producer)
    return any(waiting.deadline != NEVER for waiting in gate.awaiting)


def _went(gate: Gate, producer: Producer) -> None:
    """A message of it waits no longer."""
    if not any(waiting.producer is producer for waiting in gate.awaiting):
        producer.awaited = None
        review(gate, producer)
