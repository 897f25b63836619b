"""The result of a published message: an immediate verdict, or the outcome of a delivery that is settled later."""

from __future__ import annotations

from enum import Enum

#: Why a message is dead-lettered.
MAXIMUM, REJECTED, MOVED = "maximum-deliveries", "rejected", "moved-by-operator"


class Verdict(Enum):
    """The immediate result of publishing a message. True: the broker has the message."""

    ACCEPTED = "the message is in the queue: accept the delivery"
    PENDING = "a Settled effect follows with the outcome of the delivery"
    REJECTED = "the queue does not take the message: reject the delivery"
    NO_CREDIT = "the producer sent without credit, which violates the protocol"

    def __bool__(self) -> bool:
        return self in (Verdict.ACCEPTED, Verdict.PENDING)


class Outcome(Enum):
    """How an unsettled delivery ends."""

    ACCEPTED = "accepted"
    REJECTED = "rejected, since the queue is overfull"
    NOT_STORED = "rejected, since the store cannot take it"
    ROLLED_BACK = "rejected, since its transaction was rolled back"
