"""Waiting producers: those that are not blocked, and have no credit.

Their state is RUNNING: the queue is not overfull, no stop is active, and there is no shortage. They have no credit
while the free capacity is reserved for other producers' credit, while a staged start limits the rate, or while messages
that they sent are not settled. Each of these ends soon (`credit.py` has the times), and is shown while it lasts, so
that no producer seems able to send when it is not.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from brokers.engine.flow.producer import Producer
    from brokers.engine.queues.queue import Queue


def waits(producer: Producer) -> bool:
    """Return whether a producer has no credit and is not blocked."""
    return not producer.credit and not producer.blocked


def waiting_producers(queue: Queue) -> int:
    """Return how many unblocked producers of the queue wait for credit."""
    if not queue.gate.open:
        return 0
    ledger = queue.gate.ledger
    return len({p for p in chain(ledger.waiting, ledger.idle, ledger.pending) if waits(p) and not p.unsettled})


def waits_for(producer: Producer, now: int) -> str:
    """Say what a producer waits for; empty if it has credit or is blocked. `now` in ms."""
    if not waits(producer):
        return ""
    if producer.unsettled:
        count = producer.unsettled
        return f"the broker to settle {'the message' if count == 1 else f'{count:,} messages'} that it has sent"
    if producer.draining:
        return "its client's answer to the drain, and then its turn"
    return producer.queue.turn_condition(now)
