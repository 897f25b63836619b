"""What a queue does when it is full: one interface, one small class for each way.

| way | a message that comes while the queue is overfull | its producers | credit |
|---|---|---|---|
| block | waits outside the queue until it resumes | blocked | bound by the room that is left |
| hold | is taken, and its settlement withheld until the queue resumes (Qpid C++) | blocked | bound, see below |
| reject | is rejected with amqp:resource-limit-exceeded (ActiveMQ sendFailIfNoSpace) | run | the producer's window |
| reject-after | waits outside the queue, for so long at most, then is rejected | blocked | the producer's window |
| spool | is taken, its body to the temp store (ActiveMQ's file cursor) | run | the producer's window |
| ring | is taken, and the oldest are dropped: the queue is never overfull | run | the producer's window |

With *block*, *reject* and *reject-after* the depth exceeds the stop level by the one message that makes the queue
overfull, whatever the number of producers and the sizes of their messages. With *hold* it takes a tenth of the stop
level more (one at least), shared as credit among the producers; what comes beyond that waits outside. With these two
next to nothing comes beyond, since credit is bound by the room; with *reject* and *reject-after* producers go on.
An operator's stop works through credit, whatever the way, and what comes on its way then waits outside.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from brokers.engine.flow.receipt import Outcome, Receipt
from brokers.engine.flow.table import Input
from brokers.engine.values.message import NEVER

if TYPE_CHECKING:
    from brokers.engine.flow.gate import Gate
    from brokers.engine.flow.producer import Producer
    from brokers.engine.services.transaction import Enrolment


class Verdict(Enum):
    """What became of a published message."""

    TAKEN = "it is in the queue: accept it"
    HELD = "its outcome comes later, by a Settled effect"
    REFUSED = "the queue is full: reject it"
    NO_CREDIT = "its producer broke the protocol"

    def __bool__(self) -> bool:
        """Whether the broker has the message now."""
        return self in (Verdict.TAKEN, Verdict.HELD)


@dataclass(slots=True, eq=False)
class Waiting:
    """A message that waits outside the queue until `deadline` (ms). `enrolment`: in a transaction, if it is in one."""

    receipt: Receipt
    body: bytes
    since: int
    deadline: int
    enrolment: Enrolment | None = None

    @property
    def producer(self) -> Producer:
        return self.receipt.producer


class Overflow:
    """`blocks`: producers of an overfull queue are blocked. `withdraws`: the credit that is out is taken back
    when the queue becomes overfull.
    `grants`: credit is given while the queue is overfull. `takes`: what waits outside need not wait until the queue is
    no longer overfull."""

    blocks = True
    withdraws = False
    grants = False
    takes = False
    intercepts = False  # `publish` is asked while the queue is overfull

    def above(self, queue: Gate) -> None:
        """The depth has gone above the stop level."""
        queue.feed(Input.ABOVE_STOP)

    def publish(self, queue: Gate, producer: Producer, body: bytes, enrolment: Enrolment | None = None) -> Verdict:
        """A message has come while the queue is overfull; its credit is used."""
        return queue.admit(body, producer, enrolment=enrolment)

    def resumed(self, queue: Gate) -> None:
        """The queue is no longer overfull."""

    def deadline(self, queue: Gate) -> int:
        """Until when a message may wait outside that comes now, ms."""
        return NEVER

    def passed(self, queue: Gate) -> bool:
        """Time has passed; whether there is more to wait for."""
        return False

    def left(self, queue: Gate) -> None:
        """Another way is in force from now on: let go of everything that was held, losing nothing."""


class Block(Overflow):
    withdraws = True
    intercepts = True

    def publish(self, queue: Gate, producer: Producer, body: bytes, enrolment: Enrolment | None = None) -> Verdict:
        queue.wait_outside(producer, body, enrolment)
        return Verdict.HELD


class Parking(Overflow):
    """While others wait outside: a message must not overtake those of its own producer."""

    intercepts = True

    def publish(self, queue: Gate, producer: Producer, body: bytes, enrolment: Enrolment | None = None) -> Verdict:
        if queue.outside:
            queue.wait_outside(producer, body, enrolment)
            return Verdict.HELD
        queue.choose_interception()
        if queue.full is not None:
            return queue.full.publish(queue, producer, body, enrolment)
        return queue.admit(body, producer, enrolment=enrolment)


class Hold(Overflow):
    """Credit that is out when the queue becomes overfull is for what it takes more."""

    intercepts = True

    def publish(self, queue: Gate, producer: Producer, body: bytes, enrolment: Enrolment | None = None) -> Verdict:
        if not queue.takes_held():
            queue.wait_outside(producer, body, enrolment)
            return Verdict.HELD
        receipt = queue.defer(producer, 1)
        queue.withheld.append(receipt)
        queue.admit(body, receipt=receipt, enrolment=enrolment)
        return Verdict.HELD

    def resumed(self, queue: Gate) -> None:
        while queue.withheld:
            queue.resolve(queue.withheld.popleft(), Outcome.ACCEPTED)

    left = resumed


class Reject(Overflow):
    blocks = False
    grants = True
    intercepts = True

    def publish(self, queue: Gate, producer: Producer, body: bytes, enrolment: Enrolment | None = None) -> Verdict:
        queue.rejected += 1
        queue.touch()
        return Verdict.REFUSED


class RejectAfter(Overflow):
    grants = True
    intercepts = True

    def publish(self, queue: Gate, producer: Producer, body: bytes, enrolment: Enrolment | None = None) -> Verdict:
        queue.wait_outside(producer, body, enrolment)
        return Verdict.HELD

    def left(self, queue: Gate) -> None:
        while queue.outside:
            queue.let_first_in()

    def deadline(self, queue: Gate) -> int:
        return queue.turn.now + queue.limits.reject_after_ms

    def passed(self, queue: Gate) -> bool:
        now, outside = queue.turn.now, queue.outside
        while outside and outside.first.deadline <= now:
            waiting = outside.popleft()
            queue.waited(now - waiting.since)
            queue.rejected += 1
            queue.resolve(waiting.receipt, Outcome.REFUSED)
            if waiting.enrolment is not None:
                waiting.enrolment.refused(queue)
        return bool(outside)


class Spool(Overflow):
    """Held by the broker's temp limit alone."""

    blocks = False
    grants = True
    takes = True
    intercepts = True

    def publish(self, queue: Gate, producer: Producer, body: bytes, enrolment: Enrolment | None = None) -> Verdict:
        return queue.spool(body, producer) if enrolment is None else queue.enrol(body, enrolment)


class Ring(Overflow):
    blocks = False

    def above(self, queue: Gate) -> None:
        queue.drop_excess()


PARKING = Parking()

#: By the names of `limits.Limits.full`.
WAYS: Mapping[str, Overflow] = {
    "block": Block(),
    "hold": Hold(),
    "reject": Reject(),
    "reject-after": RejectAfter(),
    "ring": Ring(),
    "spool": Spool(),
}
