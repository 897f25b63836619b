"""What open transactions have published to a destination: counted in its depth, and not to be seen yet.

It counts from its arrival on, since otherwise concurrent transactions would overshoot the stop level together at their
commits, each by all it holds. It gets its number, and so its place in the line, at the commit. A rollback takes it out
again, which may end overfull.

A commit waits for the transaction's messages that wait outside. Those may wait for room that the commit itself would
make, or that of another transaction which waits likewise; so after `COMMIT_WAIT_MS` they are let in above the stop
level, if open transactions hold part of the queue's depth, or the one that waits takes from it. It is the one exception
to its bound: one transaction at a time, since with its commit the others may find room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokers.engine.flow.gate import Gate
from brokers.engine.flow.overflow import Verdict
from brokers.engine.flow.receipt import Outcome
from brokers.engine.flow.table import State
from brokers.engine.flow.turn import Turn

if TYPE_CHECKING:
    from brokers.engine.services.transaction import Enrolment, Transaction


COMMIT_WAIT_MS = 1000


class UncommittedGate(Gate):
    """`uncommitted_messages`, `uncommitted_bytes`: the part of the depth that open transactions hold."""

    __slots__ = ("uncommitted_bytes", "uncommitted_messages")

    def __init__(self, virtualhost: str, name: str, turn: Turn) -> None:
        super().__init__(virtualhost, name, turn)
        self.uncommitted_messages = 0
        self.uncommitted_bytes = 0

    def enrol(self, body: bytes, enrolment: Enrolment) -> Verdict:
        self._count_uncommitted(1, len(body))
        enrolment.transaction.published.append((self, body))
        if self.depth_bytes > self.stop_bytes or self.depth_messages > self.stop_messages:
            self.overflow.above(self)
        self.touch()
        return Verdict.TAKEN

    def keeps(self, body: bytes) -> bool:
        """Whether the message goes to, or is in, the store."""
        return False

    def commit(self, body: bytes) -> None:
        """The message's transaction is committed, with nothing left to wait for."""
        self._count_uncommitted(-1, -len(body))
        if self.spooling:
            self.spool(body)
        else:
            self.enqueue(body)

    def commit_stored(self, body: bytes, ticket: int, transaction: int) -> bool:
        """The message's transaction goes to the store, in the group with this ticket. True: the message is seen, or
        forgotten, when the store has answered; False: not kept there, so `commit` or `roll_back` follows."""
        return False

    def roll_back(self, messages: int, size: int) -> None:
        """So many messages, of so many bytes together, will never be."""
        self._count_uncommitted(-messages, -size)
        self.measure()
        self.touch()

    def held_in_transactions(self) -> str:
        count = self.uncommitted_messages
        return f", {count:,} of them in open transactions" if count else ""

    def _count_uncommitted(self, messages: int, size: int) -> None:
        self.uncommitted_messages += messages
        self.uncommitted_bytes += size
        self.depth_messages += messages
        self.depth_bytes += size

    def abandon(self, transaction: Transaction) -> None:
        for waiting in self.take_out(lambda w: w.enrolment is not None and w.enrolment.transaction is transaction):
            self.resolve(waiting.receipt, Outcome.ROLLED_BACK)

    def sweep(self) -> bool:
        more = super().sweep()
        return self._let_in_commits() or more

    def _let_in_commits(self) -> bool:
        """See the module. False: no message in a transaction waits outside."""
        if not self.outside or all(w.enrolment is None for w in self.outside):
            return False
        if self.state is State.OVERFULL and not self.shortages:
            enrolled = (w.enrolment.transaction for w in self.outside if w.enrolment is not None)
            first = next((each for each in enrolled if self._waits_for_itself(each)), None)
            for waiting in self.outside.take(lambda w: w.enrolment is not None and w.enrolment.transaction is first):
                self.let_in(waiting)
        return True

    def _waits_for_itself(self, transaction: Transaction) -> bool:
        since = transaction.committing_since
        if since is None or self.turn.now - since < COMMIT_WAIT_MS:
            return False
        return self.uncommitted_messages > 0 or any(a.consumer.queue is self for a in transaction.acknowledged)
