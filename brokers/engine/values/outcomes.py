"""What becomes of a message that a producer has sent: at once (a verdict), or later (an outcome)."""

from __future__ import annotations

from enum import Enum

#: Why a message was given up by those who consume it.
MAXIMUM, REJECTED = "maximum-deliveries", "rejected"


class Verdict(Enum):
    """What became of a published message."""

    TAKEN = "it is in the queue: accept it"
    HELD = "its outcome comes later, by a Settled effect"
    REFUSED = "the queue is overfull: reject it"
    NO_CREDIT = "its producer broke the protocol"

    def __bool__(self) -> bool:
        """Whether the broker has the message now."""
        return self in (Verdict.TAKEN, Verdict.HELD)


class Outcome(Enum):
    """How an unsettled delivery ends."""

    ACCEPTED = "accepted"
    REFUSED = "rejected, since the queue is overfull"
    NOT_STORED = "rejected, since the store cannot take it"
    ROLLED_BACK = "rejected, since its transaction was rolled back"
