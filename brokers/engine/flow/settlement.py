"""Settlements of one destination that are deferred: until a store confirms, until there is room, or withheld by
policy."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from brokers.engine.flow.credit import CreditLedger
from brokers.engine.flow.producer import Producer, Receipt
from brokers.engine.flow.turn import Settled, Turn
from brokers.engine.values.outcomes import Outcome


class Settlement:
    """`withheld`: receipts of enqueued messages that are settled when the queue resumes (`mechanism = hold`)."""

    __slots__ = ("_ledger", "_touch", "_turn", "withheld")

    def __init__(self, turn: Turn, ledger: CreditLedger, touch: Callable[[], None]) -> None:
        self._turn = turn
        self._ledger = ledger
        self._touch = touch
        self.withheld: deque[Receipt] = deque()

    def defer(self, producer: Producer, pending: int, count: int = 1) -> Receipt:
        """Defer the settlement of the producer's newest `count` messages until `pending` conditions are met."""
        receipt = Receipt(producer, pending, count)
        producer.receipts.append(receipt)
        producer.unsettled += count
        return receipt

    def withhold(self, producer: Producer) -> Receipt:
        """Withhold the settlement of the producer's newest message."""
        receipt = self.defer(producer, 1)
        self.withheld.append(receipt)
        return receipt

    def settle_withheld(self) -> None:
        """Settle the withheld messages, unless they wait for something else."""
        while self.withheld:
            self.resolve(self.withheld.popleft(), Outcome.ACCEPTED)

    def resolve(self, receipt: Receipt, outcome: Outcome) -> None:
        """Record that one condition of a receipt is met or has failed, and settle the producer's messages that are
        ready, in the order in which it sent them."""
        receipt.resolve(outcome)
        producer = receipt.producer
        receipts, effects = producer.receipts, self._turn.effects
        while receipts and receipts[0].ready:
            first = receipts.popleft()
            producer.unsettled -= first.count
            last = effects[-1] if effects else None
            if isinstance(last, Settled) and last.port is producer.handle and last.outcome is first.outcome:
                last.count += first.count
            else:
                effects.append(Settled(producer.handle, first.count, first.outcome))
        if producer in self._ledger.members:  # else its link has ended
            self._ledger.request(producer)
        self._touch()

    @staticmethod
    def forget(producer: Producer) -> None:
        """Drop the receipts of a producer whose link has ended."""
        producer.receipts.clear()
        producer.unsettled = 0
