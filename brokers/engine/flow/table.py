"""The flow-control state machine of queues, and the reasons that block their producers.

A queue is overfull or not, and stopped by an operator or not; the two are independent. The table maps a state and an
input to the next state and the change. A pair that is not in the table changes nothing, so every input is idempotent.
`limits.py` has the levels that the depth is compared with, `credit.py` what follows for credit.

A producer is BLOCKED while its set of reasons is not empty (DOMAIN.md section 7). Starting all producers removes the
operator's reasons, never those of an overfull queue.
"""

from __future__ import annotations

from enum import Enum

from brokers.engine.values.limits import Limits


class State(Enum):
    """`overfull`, `stopped`: attributes, since they are read for each of thousands of queues."""

    NORMAL = "NORMAL"
    OVERFULL = "OVERFULL"
    STOPPED = "STOPPED"
    OVERFULL_STOPPED = "OVERFULL_STOPPED"

    def __init__(self, value: str) -> None:
        self.overfull = "OVERFULL" in value
        self.stopped = "STOPPED" in value


class Input(Enum):
    ABOVE_STOP = "bytes or messages exceed the stop level"
    AT_RESUME = "bytes and messages are both at or below the resume level"
    STOP = "an operator's first stop covers the queue"
    START = "the last operator's stop of the queue is lifted"


class Change(Enum):
    OVERFULL_BEGAN = "overfull began"
    OVERFULL_ENDED = "overfull ended"
    STOP_BEGAN = "stop began"
    STOP_ENDED = "stop ended"


TABLE: dict[tuple[State, Input], tuple[State, Change]] = {
    (State.NORMAL, Input.ABOVE_STOP): (State.OVERFULL, Change.OVERFULL_BEGAN),
    (State.NORMAL, Input.STOP): (State.STOPPED, Change.STOP_BEGAN),
    (State.OVERFULL, Input.AT_RESUME): (State.NORMAL, Change.OVERFULL_ENDED),
    (State.OVERFULL, Input.STOP): (State.OVERFULL_STOPPED, Change.STOP_BEGAN),
    (State.STOPPED, Input.ABOVE_STOP): (State.OVERFULL_STOPPED, Change.OVERFULL_BEGAN),
    (State.STOPPED, Input.START): (State.NORMAL, Change.STOP_ENDED),
    (State.OVERFULL_STOPPED, Input.AT_RESUME): (State.STOPPED, Change.OVERFULL_ENDED),
    (State.OVERFULL_STOPPED, Input.START): (State.OVERFULL, Change.STOP_ENDED),
}


def step(state: State, given: Input) -> tuple[State, Change | None]:
    """Return the next state and the change, None if nothing changed."""
    return TABLE.get((state, given), (state, None))


def measure(limits: Limits, depth_bytes: int, depth_messages: int) -> Input | None:
    """Compare the depth of a queue with its levels; None between resume and stop level, where the state stays."""
    if depth_bytes > limits.stop_bytes or depth_messages > limits.stop_messages:
        return Input.ABOVE_STOP
    if depth_bytes <= limits.resume_bytes and depth_messages <= limits.resume_messages:
        return Input.AT_RESUME
    return None


def overfull_reason(queue: str) -> str:
    return f"queue-overfull:{queue}"


def stop_reason(scope: str) -> str:
    return f"operator-stop:{scope}"
