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

from typing import TYPE_CHECKING

from brokers.engine.flow import blocking
from brokers.engine.flow.overflow import Overflow, Verdict, Waiting
from brokers.engine.flow.receipt import Outcome
from brokers.engine.flow.table import State
from brokers.engine.flow.usage import Resource
from brokers.engine.values.message import NEVER

if TYPE_CHECKING:
    from brokers.engine.flow.gate import Gate
    from brokers.engine.flow.producer import Producer
    from brokers.engine.services.transaction import Enrolment
    from brokers.engine.values.limits import Limits


def blocked_producers(gate: Gate, limits: Limits) -> int:
    """How many producers the shortages of a queue block with these limits."""
    return sum(1 for producer in gate.producers if _blocked_by(gate, producer, limits)) if gate.shortages else 0


def _blocked_by(gate: Gate, producer: Producer, limits: Limits) -> list[str]:
    """The reasons for which the shortages of a queue block one of its producers."""
    if limits.when_short == "reject" or not gate.shortages:
        return []
    wanted = (producer.lacking,) if producer.lacking else gate.resources(producer)
    holding = [[u for u in gate.shortages if u.resource is each or u.whole] for each in wanted]
    if not all(holding):
        return []
    return list(dict.fromkeys(usage.reason for usages in holding for usage in usages))


class Short(Overflow):
    """Looks at every message while there is a shortage; those that it does not hold go the queue's usual way."""

    intercepts = True

    def publish(self, queue: Gate, producer: Producer, body: bytes, enrolment: Enrolment | None = None) -> Verdict:
        if any(usage.exhausted for usage in queue.shortages):
            return self._refuse(queue)
        resource = queue.resource_of(body)
        if producer.lacking is not None or not queue.admits(resource):
            if queue.limits.when_short == "reject":
                return self._refuse(queue)
            receipt = queue.defer(producer, 1)
            if enrolment is not None:
                enrolment.transaction.wait(queue)
            hold(queue, Waiting(receipt, body, queue.turn.now, NEVER, enrolment), resource)
            return Verdict.HELD
        full = queue.interception()
        if full is not None:
            return full.publish(queue, producer, body, enrolment)
        if resource is Resource.TEMP and enrolment is None:
            return queue.spool(body, producer)
        return queue.admit(body, producer, enrolment=enrolment)

    def _refuse(self, queue: Gate) -> Verdict:
        queue.rejected += 1
        queue.touch()
        return Verdict.REFUSED


SHORT = Short()


def hold(queue: Gate, waiting: Waiting, resource: Resource) -> None:
    """Keep a message outside that has no outcome yet, until there is enough of the resource or its time is up."""
    producer = waiting.producer
    waiting.deadline = deadline(queue)
    queue.lacking.append(waiting)
    producer.lacking = producer.lacking or resource
    review(queue, producer)
    queue.watch()
    queue.touch()


def deadline(queue: Gate) -> int:
    """Until when a message may wait that is held now, ms."""
    limits = queue.limits
    return queue.turn.now + limits.reject_after_ms if limits.when_short == "reject-after" else NEVER


def review(queue: Gate, producer: Producer) -> None:
    """Bring up to date whether shortages block a producer, and whether it gets credit meanwhile."""
    wanted = _blocked_by(queue, producer, queue.limits)
    for resource in Resource:
        reason = resource.value
        if reason in producer.causes and reason not in wanted:
            blocking.unblock(queue.turn, producer, reason, queue.shown())
    for reason in wanted:
        if reason not in producer.causes:
            blocking.block(queue.turn, producer, reason, blocking.ALL_QUEUES, queue.shown())
    shut = bool(wanted) and queue.limits.when_short == "block" and not producer.inside
    unknown = not producer.messages and bool(queue.shortages)
    if producer.credit and (unknown or (shut and not producer.shut)):
        queue.take_credit_back(producer)
    producer.shut = shut
    if not shut:
        queue.ledger.ask(producer)


def let_in(queue: Gate) -> None:
    """Enqueue what is held no longer, in the order in which it came from each producer."""
    behind: set[Producer] = set()
    for waiting in list(queue.lacking):
        if not (queue.state is State.NORMAL or (queue.spooling and not queue.state.stopped)):
            break
        producer = waiting.producer
        resource = queue.resource_of(waiting.body)
        if producer in behind or not queue.admits(resource):
            if producer not in behind:
                producer.lacking = resource
            behind.add(producer)
            continue
        queue.lacking.remove(waiting)
        queue.let_in(waiting)
        queue.weigh()
        _went(queue, producer)


def passed(queue: Gate) -> bool:
    """Time has passed: reject what has waited for too long. Whether there is more to wait for."""
    now = queue.turn.now
    for waiting in queue.lacking.take(lambda waiting: waiting.deadline <= now):
        queue.waited(now - waiting.since)
        queue.rejected += 1
        queue.resolve(waiting.receipt, Outcome.REFUSED)
        if waiting.enrolment is not None:
            waiting.enrolment.refused(queue)
        _went(queue, waiting.producer)
    return any(waiting.deadline != NEVER for waiting in queue.lacking)


def _went(queue: Gate, producer: Producer) -> None:
    """A message of it is held no longer."""
    if not any(waiting.producer is producer for waiting in queue.lacking):
        producer.lacking = None
        review(queue, producer)
