"""Why a producer that nothing blocks has no credit now, and how many such producers a queue has.

Its state is RUNNING: no level is crossed, no stop is in force, nothing is short. All the same it has no credit while
the room that is left is reserved for credit that others hold, while a staged start lets messages in at its rate, or
while messages that it has sent are not settled. Each of these ends within moments (`credit.py` says within which), and
is shown for as long as it lasts, so that no producer looks as if it could send when it cannot.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from brokers.engine.flow.producer import Producer
    from brokers.engine.queues.queue import Queue


def waits(producer: Producer) -> bool:
    """It has no credit, and no reason to be blocked."""
    return not producer.credit and not producer.blocked


def waiting_producers(queue: Queue) -> int:
    """How many producers of the queue have no credit and wait for their turn, though nothing blocks them."""
    if not queue.gate.open:
        return 0
    ledger = queue.gate.ledger
    return len({p for p in chain(ledger.waiting, ledger.idle, ledger.pending) if waits(p) and not p.receipts})


def waits_for(producer: Producer, now: int) -> str:
    """What it waits for, in words; empty if it has credit or is blocked. `now` in ms."""
    if not waits(producer):
        return ""
    if producer.receipts:
        count = len(producer.receipts)
        return f"the broker to settle {'the message' if count == 1 else f'{count:,} messages'} that it has sent"
    if producer.draining:
        return "its client's answer to the drain, and then its turn"
    return producer.queue.turn_condition(now)
