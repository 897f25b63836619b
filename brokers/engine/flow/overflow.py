"""What a queue does while it is overfull: one row of settings for each overflow policy. The gate acts on them.

| policy | a message that comes while the queue is overfull | its producers | credit |
|---|---|---|---|
| block | is parked outside the queue until it resumes | blocked | bound by the room that is left |
| hold | is taken, and its settlement withheld until the queue resumes (Qpid C++) | blocked | bound, see below |
| reject | is rejected with amqp:resource-limit-exceeded (ActiveMQ sendFailIfNoSpace) | run | the producer's window |
| reject-after | is parked outside the queue, for a limited time, then rejected | blocked | the producer's window |
| spool | is taken, its body to the temp store (ActiveMQ's file cursor) | run | the producer's window |
| ring | is taken, and the oldest are dropped: the queue is never overfull | run | the producer's window |

With *block*, *reject* and *reject-after* the depth exceeds the stop level by the one message that makes the queue
overfull, whatever the number of producers and the sizes of their messages. With *hold* it takes a tenth of the stop
level more (one at least), shared as credit among the producers; what comes beyond that is parked. With these two
next to nothing comes beyond, since credit is bound by the room; with *reject* and *reject-after* producers go on.
An operator's stop works through credit, whatever the policy, and what was in flight then is parked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class Arrival(Enum):
    """What becomes of a message that comes."""

    ENQUEUE = "it is enqueued"
    PARK = "it is parked outside the queue"
    WITHHOLD = "it is enqueued, and its settlement withheld; beyond the room for such messages it is parked"
    REJECT = "it is rejected"
    SPOOL = "it is enqueued, its body in the temp store"
    PARK_BEHIND = "it is parked while others are"
    CHECK_SHORTAGE = "it waits for the end of a shortage, or else for what the policy says"


@dataclass(frozen=True, slots=True, eq=False)
class OverflowPolicy:
    """`arrival`: of a message that comes while the queue is overfull. `blocks`: producers of an overfull queue are
    blocked. `withdraws`: the credit that is out is taken back when the queue becomes overfull. `grants`: credit is
    given while the queue is overfull. `admits_parked`: parked messages need not wait until the queue is no longer
    overfull. `expires`: parked messages are rejected after `Limits.reject_after_ms`. `drops`: above the stop level the
    oldest messages are dropped, and the queue does not become overfull."""

    arrival: Arrival
    blocks: bool = True
    withdraws: bool = False
    grants: bool = False
    admits_parked: bool = False
    expires: bool = False
    drops: bool = False

    @property
    def intercepts(self) -> bool:
        """The gate decides about every message that comes while the queue is overfull."""
        return self.arrival is not Arrival.ENQUEUE


#: While messages are parked: a message must not overtake those of its own producer.
PARKING = OverflowPolicy(Arrival.PARK_BEHIND)

#: While the broker or the virtual host is short of something, see `scarcity.py`.
SHORTAGE = OverflowPolicy(Arrival.CHECK_SHORTAGE)

#: By the names of `Limits.overflow`.
OVERFLOW_POLICIES: Mapping[str, OverflowPolicy] = {
    "block": OverflowPolicy(Arrival.PARK, withdraws=True),
    "hold": OverflowPolicy(Arrival.WITHHOLD),  # credit that is out then is for what the queue takes more
    "reject": OverflowPolicy(Arrival.REJECT, blocks=False, grants=True),
    "reject-after": OverflowPolicy(Arrival.PARK, grants=True, expires=True),
    "ring": OverflowPolicy(Arrival.ENQUEUE, blocks=False, drops=True),
    # The broker's temp limit alone bounds it.
    "spool": OverflowPolicy(Arrival.SPOOL, blocks=False, grants=True, admits_parked=True),
}
