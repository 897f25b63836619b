"""The parked messages of one destination: how they are parked, enqueued when there is room, and rejected when they
expire.

A commit waits for the parked messages of its transaction. These may wait for room that the commit itself would make, or
that of another transaction which waits likewise. So after `COMMIT_WAIT_MS` they are enqueued above the stop level, if
open transactions have part of the queue's depth, or the waiting transaction consumes from the queue. This is the only
exception to the bound on depth: for one transaction at a time, since its commit may make room for the others.

Likewise a commit may wait for the end of a shortage that only itself can end: its acknowledgements make room in the
store, or the messages of open transactions use all the memory. So after the same time the messages that wait for the
end of a shortage are enqueued, too, for one transaction a second that removes messages or has some. Not on a full disk,
where the store would refuse them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from brokers.engine.flow import scarcity
from brokers.engine.flow.contents import Contents
from brokers.engine.flow.enrolment import Enrolment, Transaction
from brokers.engine.flow.overflow import OverflowPolicy
from brokers.engine.flow.parked import Parked, ParkedMessage
from brokers.engine.flow.producer import Producer, Receipt
from brokers.engine.flow.staging import Staging
from brokers.engine.flow.table import State
from brokers.engine.values.message import NEVER
from brokers.engine.values.outcomes import Outcome, Verdict

COMMIT_WAIT_MS = 1000


class Gate(scarcity.Gate, Protocol):
    """The part of a `FlowGate` that parking needs."""

    overflow: OverflowPolicy
    staging: Staging
    uncommitted_messages: int

    @property
    def contents(self) -> Contents: ...

    def admit(
        self,
        body: bytes,
        producer: Producer | None = None,
        receipt: Receipt | None = None,
        enrolment: Enrolment | None = None,
    ) -> Verdict: ...

    def choose_interception(self) -> None: ...


class Parking:
    """`parked`: messages that wait for room. `awaiting`: messages that wait for the end of a shortage, or of a stop of
    their client. `longest_ms`: the longest wait of a message or producer that has ended."""

    __slots__ = ("_admitted_at", "_gate", "awaiting", "longest_ms", "parked")

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self.parked = Parked()
        self.awaiting = Parked()
        self.longest_ms = 0
        self._admitted_at = 0  # when a commit's messages were last enqueued during a shortage, ms

    def park(self, producer: Producer, body: bytes, enrolment: Enrolment | None = None) -> None:
        """Park a message, unsettled, until there is room or its deadline passes."""
        gate = self._gate
        receipt = gate.settlement.defer(producer, 1)
        self.parked.append(ParkedMessage(receipt, body, gate.turn.now, self._deadline(), enrolment))
        if enrolment is not None:
            enrolment.transaction.wait(gate)
        gate.choose_interception()
        gate.contents.watch()
        gate.touch()

    def park_stopped(self, producer: Producer, body: bytes, enrolment: Enrolment | None = None) -> None:
        """Park a message of a producer whose client is stopped, until that stop is lifted."""
        gate = self._gate
        receipt = gate.settlement.defer(producer, 1)
        if enrolment is not None:
            enrolment.transaction.wait(gate)
        self._set_aside(ParkedMessage(receipt, body, gate.turn.now, NEVER, enrolment))

    def set_aside(self, producer: Producer) -> None:
        """Let the parked messages of a producer whose client is stopped wait beside those of others."""
        for waiting in self.parked.take_of(producer):
            self._set_aside(waiting)
        self._gate.choose_interception()

    def _set_aside(self, waiting: ParkedMessage) -> None:
        scarcity.park(self._gate, waiting, self._gate.contents.resource_of(waiting.body))

    def take_up(self, producer: Producer) -> None:
        """Let the messages of a producer whose client is started again wait for room; during a shortage, for its
        end."""
        if self._gate.shortages:
            return
        for waiting in self.awaiting.take_of(producer):
            waiting.deadline = self._deadline()
            self.parked.append(waiting)
        producer.awaited = None
        self._gate.contents.watch()
        self.admit_while_room()

    def take_out_of(self, producer: Producer) -> list[ParkedMessage]:
        """Remove and return the parked messages of a producer."""
        producer.awaited = None
        return [*self.parked.take_of(producer), *self.awaiting.take_of(producer)]

    def take_out(self, wanted: Callable[[ParkedMessage], bool]) -> list[ParkedMessage]:
        """Remove and return the parked messages for which `wanted` is true."""
        taken = [*self.parked.take(wanted), *self.awaiting.take(wanted)]
        for producer in {waiting.producer for waiting in taken if waiting.producer.awaited is not None}:
            if producer not in self.awaiting.producers:
                producer.awaited = None
        return taken

    def waited(self, ms: int) -> None:
        """Record the end of a wait of `ms`."""
        self.longest_ms = max(self.longest_ms, ms)

    # -- deadlines --------------------------------------------------------------------------------------------

    def _deadline(self) -> int:
        """Return until when a message parked now may wait, ms."""
        gate = self._gate
        return gate.turn.now + gate.limits.reject_after_ms if gate.overflow.expires else NEVER

    def restart_deadlines(self) -> None:
        """Give all parked messages new deadlines, since the policy for them has changed."""
        for each in self.awaiting:
            each.deadline = scarcity.deadline(self._gate)
        for each in self.parked:
            each.deadline = self._deadline()
        self._gate.contents.watch()

    def reject_expired(self) -> bool:
        """Reject messages that were parked for too long. Return whether others have a deadline."""
        gate, parked = self._gate, self.parked
        if not gate.overflow.expires:
            return False
        now = gate.turn.now
        while parked and parked.first.deadline <= now:
            expired = parked.popleft()
            self.waited(now - expired.since)
            gate.rejected += 1
            gate.settlement.resolve(expired.receipt, Outcome.REJECTED)
            if expired.enrolment is not None:
                expired.enrolment.refused(gate)
        return bool(parked)

    # -- enqueuing --------------------------------------------------------------------------------------------

    def admit_while_room(self) -> None:
        """Enqueue parked messages until the queue is overfull. Credit reserved for other producers does not count: its
        messages may never arrive, and are parked if they do."""
        while self.parked and self._admits():
            self.admit_first()
            self._gate.weigh()
        self._gate.choose_interception()

    def _admits(self) -> bool:
        """Return whether parked messages may be enqueued now."""
        gate = self._gate
        if gate.state.stopped or (gate.staging.staged and gate.staging.allowance() <= 0):
            return False
        return gate.overflow.admits_parked or not gate.state.overfull

    def admit_all(self) -> None:
        """Enqueue all parked messages, whatever the depth."""
        while self.parked:
            self.admit_first()

    def admit_first(self) -> None:
        """Enqueue the message that has been parked for the longest time, unless it also has to wait for the end of a
        shortage."""
        gate = self._gate
        waiting = self.parked.popleft()
        if gate.shortages:
            resource = gate.contents.resource_of(waiting.body)
            if waiting.producer.awaited is not None or not gate.admits(resource):
                scarcity.park(gate, waiting, resource)
                return
        self.admit(waiting)

    def admit(self, waiting: ParkedMessage) -> None:
        """Enqueue a parked message."""
        gate = self._gate
        self.waited(gate.turn.now - waiting.since)
        if gate.contents.spooling and waiting.enrolment is None:
            gate.contents.spool(waiting.body, receipt=waiting.receipt)
        else:
            gate.admit(waiting.body, receipt=waiting.receipt, enrolment=waiting.enrolment)
        gate.settlement.resolve(waiting.receipt, Outcome.ACCEPTED)
        if waiting.enrolment is not None:
            waiting.enrolment.transaction.wait_ended(gate)

    def admit_for_commits(self) -> bool:
        """Enqueue the parked messages of a commit that would wait for itself, see the module. Return False if no
        message of a transaction is parked."""
        gate = self._gate
        behind_shortage = self.awaiting if gate.shortages else ()
        if all(waiting.enrolment is None for each in (self.parked, behind_shortage) for waiting in each):
            return False
        if gate.state is State.OVERFULL and not gate.shortages:
            enrolled = (p.enrolment.transaction for p in self.parked if p.enrolment is not None)
            first = next((each for each in enrolled if self._waits_for_itself(each)), None)
            for each in self.parked.take(lambda p: p.enrolment is not None and p.enrolment.transaction is first):
                self.admit(each)
        elif gate.shortages and not gate.state.stopped:
            self._admit_despite_shortage()
        return True

    def _waits_for_itself(self, transaction: Transaction) -> bool:
        """Return whether the commit waits for room in the queue, which it or another one would make."""
        gate = self._gate
        return self._waits_long(transaction) and (gate.uncommitted_messages > 0 or transaction.takes_from(gate))

    def _waits_long(self, transaction: Transaction) -> bool:
        since = transaction.committing_since
        return since is not None and self._gate.turn.now - since >= COMMIT_WAIT_MS

    def _admit_despite_shortage(self) -> None:
        """Enqueue the messages of one transaction which its commit waits for, and whose commit may end the shortage.
        The next transaction follows when the end of a shortage has been checked."""
        gate = self._gate
        if gate.turn.now - self._admitted_at < COMMIT_WAIT_MS or any(usage.full for usage in gate.shortages):
            return
        enrolled = (
            p.enrolment.transaction for p in self.awaiting if p.enrolment is not None and not p.producer.stopped
        )
        first = next((each for each in enrolled if each.uses_resources and self._waits_long(each)), None)
        if first is None:
            return
        self._admitted_at = gate.turn.now

        def wanted(waiting: ParkedMessage) -> bool:
            enrolment = waiting.enrolment
            return enrolment is not None and enrolment.transaction is first and not waiting.producer.stopped

        taken = self.awaiting.take(wanted)
        if gate.state is State.OVERFULL and self._waits_for_itself(first):
            taken += self.parked.take(wanted)
        for each in taken:
            self.admit(each)
        for producer in {each.producer: None for each in taken}:
            scarcity.unparked(gate, producer)
