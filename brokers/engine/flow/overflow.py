"""What a queue does while it is overfull: one row of settings per overflow policy, which the gate applies.

| policy | a message that arrives while the queue is overfull | its producers | credit |
|---|---|---|---|
| block | is parked outside the queue until it resumes | blocked | bound by the free capacity |
| hold | is enqueued; its settlement is withheld until the queue resumes (Qpid C++) | blocked | bound, see below |
| reject | is rejected with amqp:resource-limit-exceeded (ActiveMQ sendFailIfNoSpace) | run | the producer's window |
| reject-after | is parked outside the queue for a limited time, then rejected | blocked | the producer's window |
| spool | is enqueued, its body in the temp store (ActiveMQ's file cursor) | run | the producer's window |
| ring | is enqueued; the oldest are dropped, so the queue is never overfull | run | the producer's window |

With *block*, *reject* and *reject-after* the depth exceeds the stop level by one message at most, whatever the number
of producers and the sizes of their messages. With *hold* the queue accepts a tenth of the stop level more (at least one
message), shared as credit among the producers; further messages are parked. With *block* and *hold* few messages are
parked, since credit is bound by the room; with *reject* and *reject-after* producers continue to send. An operator's
stop withdraws all credit, whatever the policy, and messages in flight are parked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class Arrival(Enum):
    """What happens to an arriving message."""

    ENQUEUE = "it is enqueued"
    PARK = "it is parked outside the queue"
    WITHHOLD = "it is enqueued, and its settlement withheld; beyond the room for such messages it is parked"
    REJECT = "it is rejected"
    SPOOL = "it is enqueued, its body in the temp store"
    PARK_BEHIND = "it is parked while others are"
    CHECK_SHORTAGE = "it is parked until a shortage ends, or else treated as the policy says"


@dataclass(frozen=True, slots=True, eq=False)
class OverflowPolicy:
    """`arrival`: what happens to a message that arrives while the queue is overfull. `blocks`: an overfull queue blocks
    its producers. `withdraws`: outstanding credit is withdrawn when the queue becomes overfull. `grants`: credit is
    granted while the queue is overfull. `admits_parked`: parked messages are enqueued even while the queue is overfull.
    `expires`: parked messages are rejected after `Limits.reject_after_ms`. `drops`: above the stop level the oldest
    messages are dropped, and the queue does not become overfull."""

    arrival: Arrival
    blocks: bool = True
    withdraws: bool = False
    grants: bool = False
    admits_parked: bool = False
    expires: bool = False
    drops: bool = False

    @property
    def intercepts(self) -> bool:
        """Whether the gate handles each message that arrives while the queue is overfull."""
        return self.arrival is not Arrival.ENQUEUE


#: While messages are parked: a message must not overtake those of its own producer.
PARKING = OverflowPolicy(Arrival.PARK_BEHIND)

#: While the broker or the virtual host is short of a resource, see `scarcity.py`.
SHORTAGE = OverflowPolicy(Arrival.CHECK_SHORTAGE)

#: By the names of `Limits.overflow`.
OVERFLOW_POLICIES: Mapping[str, OverflowPolicy] = {
    "block": OverflowPolicy(Arrival.PARK, withdraws=True),
    "hold": OverflowPolicy(Arrival.WITHHOLD),  # outstanding credit is for the extra room
    "reject": OverflowPolicy(Arrival.REJECT, blocks=False, grants=True),
    "reject-after": OverflowPolicy(Arrival.PARK, grants=True, expires=True),
    "ring": OverflowPolicy(Arrival.ENQUEUE, blocks=False, drops=True),
    # The broker's temp limit alone bounds it.
    "spool": OverflowPolicy(Arrival.SPOOL, blocks=False, grants=True, admits_parked=True),
}
