"""The flow-control state machine: one table for queues, and the set of reasons that holds a producer.

A queue is overfull or not, and stopped by an operator or not; the two are independent. Inputs say what was found or
asked; the table says the next state and what changed. A (state, input) that is not in the table changes nothing: every
input is idempotent. What is *measured* stands in `limits.py`, what follows for credit in `credit.py`.

A producer is BLOCKED while its set of reasons is not empty (DOMAIN.md section 7). Starting all producers removes the
operator's reasons, never an overfull queue's.
"""

from __future__ import annotations

from enum import Enum

from brokers.engine.values.limits import Limits


class State(Enum):
    NORMAL = "NORMAL"
    OVERFULL = "OVERFULL"
    STOPPED = "STOPPED"
    OVERFULL_STOPPED = "OVERFULL_STOPPED"

    @property
    def overfull(self) -> bool:
        return self in (State.OVERFULL, State.OVERFULL_STOPPED)

    @property
    def stopped(self) -> bool:
        return self in (State.STOPPED, State.OVERFULL_STOPPED)


class Input(Enum):
    ABOVE_STOP = "bytes or messages exceed the stop level"
    AT_RESUME = "bytes and messages are both at or below the resume level"
    STOP = "an operator's first stop covers the queue"
    START = "no operator's stop covers the queue any more"


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


def step(state: State, seen: Input) -> tuple[State, Change | None]:
    """The next state and what changed, None if nothing did."""
    return TABLE.get((state, seen), (state, None))


def measure(limits: Limits, depth_bytes: int, depth_messages: int) -> Input | None:
    """What the depth of a queue says; None between resume and stop, where the state stays what it is."""
    if depth_bytes > limits.stop_bytes or depth_messages > limits.stop_messages:
        return Input.ABOVE_STOP
    if depth_bytes <= limits.resume_bytes and depth_messages <= limits.resume_messages:
        return Input.AT_RESUME
    return None


def overfull_reason(queue: str) -> str:
    return f"queue-overfull:{queue}"


def stop_reason(scope: str) -> str:
    return f"operator-stop:{scope}"
