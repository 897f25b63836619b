"""Runs: several ordinary messages of one link in one step, with the same effects as one by one.

An ordinary message has the default priority, no time to live and no delivery time, and is no larger than the largest
that its queue received lately. All messages of a run are in the same transaction, or in none. A run ends with the
message that takes the depth above the stop level: then the gate decides about the next one. Where a step per message is
required, a run is taken message by message.
"""

from __future__ import annotations

from typing import NamedTuple

from brokers.engine.flow.credit import CreditLedger
from brokers.engine.flow.gate import FlowGate
from brokers.engine.flow.producer import Producer


class Allowance(NamedTuple):
    """How long a run may be: at most `messages`; it ends with the message with which it exceeds `size` bytes; and none
    is larger than `largest` bytes. Valid until anything else happens to the queue."""

    messages: int
    size: int
    largest: int


NOTHING = Allowance(0, 0, 0)

#: As good as no limit, and not too large for the protocol layer's C code.
_NO_LIMIT = 1 << 62


def allowance(gate: FlowGate, producer: Producer) -> Allowance:
    """Return how long the producer's next run may be."""
    if gate.active_overflow is not None:
        return NOTHING
    if gate.overflow.drops:
        return Allowance(producer.credit, _NO_LIMIT, gate.ledger.recent)
    return Allowance(
        min(producer.credit, gate.stop_messages - gate.depth_messages + 1),
        min(gate.stop_bytes - gate.depth_bytes, _NO_LIMIT),
        gate.ledger.recent,
    )


def count_published(ledger: CreditLedger, producer: Producer, count: int, size: int) -> None:
    """Count a run, as `Queue.publish` does each message: its credit, and what the producer has sent."""
    producer.credit = credit = producer.credit - count
    ledger.reserved -= count
    if credit <= producer.low and not producer.waiting:
        ledger.request(producer)
    producer.messages += count
    producer.bytes += size
