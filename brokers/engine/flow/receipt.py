"""Outcomes that come later: what an unsettled delivery of a producer still waits for.

A message may wait for its queue to resume, for room, for the store to have it, or for several of these. When nothing is
left to wait for, or one of them fails, the delivery has its outcome. A producer is told in the order in which it sent.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from brokers.engine.flow.producer import Producer


class Outcome(Enum):
    """How a held delivery ends."""

    ACCEPTED = "accepted"
    REFUSED = "rejected, since the queue is full"
    NOT_STORED = "rejected, since the store cannot take it"
    ROLLED_BACK = "rejected, since its transaction was rolled back"


class Receipt:
    """`pending`: how many things the delivery waits for."""

    __slots__ = ("outcome", "pending", "producer")

    def __init__(self, producer: Producer, pending: int) -> None:
        self.producer = producer
        self.pending = pending
        self.outcome = Outcome.ACCEPTED

    def tell(self, outcome: Outcome) -> None:
        """One of the things has come, with this outcome. What is not accepted waits for nothing more."""
        self.pending -= 1
        if outcome is not Outcome.ACCEPTED and self.outcome is Outcome.ACCEPTED:
            self.outcome = outcome
            self.pending = 0

    @property
    def ready(self) -> bool:
        return self.pending <= 0
