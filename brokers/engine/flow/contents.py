"""What a flow gate requires of the queue that it belongs to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from brokers.engine.flow.enrolment import Enrolment
from brokers.engine.flow.metering import Meter
from brokers.engine.flow.producer import Producer, Receipt
from brokers.engine.flow.usage import Resource, Usage
from brokers.engine.values.outcomes import Verdict


class Contents(Protocol):
    """The messages of a queue. `touch`: have the queue dispatched, and its credit granted, at the end of the turn.
    `memory_bytes`: size of the message bodies in memory, without parked ones. `weigh_stores`: count what the stores use
    now. These three are attributes, since they are called in every turn. `spooling`: whether the bodies of new messages
    go to the temp store, unless they are durable."""

    touch: Callable[[], None]
    memory_bytes: Callable[[], int]
    weigh_stores: Callable[[Meter], None]

    @property
    def spooling(self) -> bool: ...

    def note_change(self) -> None:
        """Have the queue in the next sample; for a change that lets nothing be dispatched or granted."""
        ...

    def watch(self) -> None:
        """Have the queue swept until its `sweep` returns False."""
        ...

    def enqueue(self, body: bytes, producer: Producer | None = None, receipt: Receipt | None = None) -> Verdict:
        """Add a message and check the depth after it. Return ACCEPTED, or PENDING for a message that its store has yet
        to confirm: then the store resolves `receipt`, or a new receipt of `producer`."""
        ...

    def spool(self, body: bytes, producer: Producer | None = None, receipt: Receipt | None = None) -> Verdict:
        """Add a message, with its body to the temp store."""
        ...

    def enrol(self, body: bytes, enrolment: Enrolment) -> Verdict:
        """Count a message of an open transaction, and check the depth after it."""
        ...

    def drop_excess(self) -> None:
        """Drop the oldest messages of a ring until the depth is at or below the stop level."""
        ...

    def usages(self, meter: Meter) -> tuple[tuple[Usage, ...], tuple[Usage, ...]]:
        """Return the usages that transient messages affect, and those that durable ones affect in addition."""
        ...

    def resource_of(self, body: bytes) -> Resource:
        """Return the resource that a message would use now."""
        ...

    def resources(self, producer: Producer) -> tuple[Resource, ...]:
        """Return the resources that the producer's next message may use, if it is like the last one."""
        ...
