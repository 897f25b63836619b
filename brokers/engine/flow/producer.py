"""A sending link of a client to a queue: its credit, its receipts, and the reasons that block it.

Amounts of credit are in messages (`credit.py` has the rules that change them): `credit` may be used now; `withdrawn`
was withdrawn, but messages in flight may still use it, so it stays reserved for a while; `lapsed` was withdrawn earlier
and is no longer reserved; `doubtful` was withdrawn during a drain, so the client may use it once more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Protocol

from brokers.engine.flow.enrolment import Enrolment, Transaction
from brokers.engine.flow.usage import Resource
from brokers.engine.ports import ProducerConnection, ProducerPort
from brokers.engine.values.outcomes import Outcome, Verdict
from brokers.model import ObjectName, object_name


class Destination(Protocol):
    """What a producer publishes to: the queue, as flow control and a client's link use it."""

    @property
    def name(self) -> str: ...

    @property
    def object_name(self) -> ObjectName: ...

    def publish(self, producer: Producer, body: bytes) -> Verdict:
        """Publish a message of the producer, which must have credit."""
        ...

    def run_allowance(self, producer: Producer) -> tuple[int, int, int]:
        """Return how long the producer's next run may be: messages, bytes, bytes of one message."""
        ...

    def publish_run(self, producer: Producer, bodies: list[bytes], size: int, *, durable: bool) -> Verdict:
        """Publish a run of messages within its allowance."""
        ...

    def publish_in(self, enrolment: Enrolment, producer: Producer, body: bytes) -> Verdict:
        """Publish a message in a transaction."""
        ...

    def enrol_run(
        self, transaction: Transaction, producer: Producer, bodies: Sequence[bytes], size: int, *, durable: bool
    ) -> None:
        """Publish a run of messages within its allowance in an open transaction."""
        ...

    def abort(self, producer: Producer) -> None:
        """Use up the credit of a message that the producer aborted."""
        ...

    def refuses(self, body: bytes) -> bool:
        """Return whether the message would be rejected now."""
        ...

    def credit_returned(self, producer: Producer, count: int) -> None:
        """Take back `count` credits that the client returned in answer to a drain."""
        ...

    def credit_forgone(self, producer: Producer, count: int) -> None:
        """Take back `count` credits that the client used up without sending messages."""
        ...

    def detach_producer(self, producer: Producer) -> None:
        """Remove a producer whose link has ended."""
        ...

    def event_attributes(self) -> dict[str, Any]:
        """Return the attributes of every event of the queue."""
        ...

    def shortage_reasons(self) -> list[str]:
        """Return the shortages that cause rejections; empty if the queue is overfull as well."""
        ...

    def turn_condition(self, now: int) -> str:
        """Say what an unblocked producer without credit waits for. `now` in ms."""
        ...

    def release_conditions(self, reasons: Collection[str]) -> Iterator[str]:
        """Say for each of these reasons what would end it."""
        ...


class Receipt:
    """The outcome of unsettled deliveries that are settled later. `count`: number of deliveries, one or those of a run.
    `pending`: how many conditions are not met yet: the queue resumes, it has room, the store confirms. The deliveries
    have their outcome when all conditions are met or one has failed. A producer's deliveries are settled in the order
    in which it sent them."""

    __slots__ = ("count", "outcome", "pending", "producer")

    def __init__(self, producer: Producer, pending: int, count: int = 1) -> None:
        self.producer = producer
        self.pending = pending
        self.count = count
        self.outcome = Outcome.ACCEPTED

    def resolve(self, outcome: Outcome) -> None:
        """Record that one condition is met, or has failed if the outcome is not ACCEPTED."""
        self.pending -= 1
        if outcome is not Outcome.ACCEPTED and self.outcome is Outcome.ACCEPTED:
            self.outcome = outcome
            self.pending = 0

    @property
    def ready(self) -> bool:
        return self.pending <= 0


class Producer:
    """`blocked_since` in ms since the epoch, None while it runs; `blocked_ms` counts finished blocks only.
    `causes`: the reasons of its own queue, oldest first. `fan_out`: the producers of the same link, itself included,
    that get every message that it gets; empty if there are no others. `siblings`: all producers of its link; empty for
    a link to a single queue. `handle` belongs to the protocol layer."""

    __slots__ = (
        "awaited",
        "blocked_count",
        "blocked_ms",
        "blocked_since",
        "bytes",
        "causes",
        "channel",
        "connection",
        "credit",
        "denied_credit",
        "doubtful",
        "draining",
        "fan_out",
        "handle",
        "id",
        "idle",
        "inside",
        "lapsed",
        "link",
        "low",
        "mark",
        "messages",
        "name",
        "probing",
        "queue",
        "receipts",
        "siblings",
        "stopped",
        "stored_at",
        "touched_at",
        "unsettled",
        "waiting",
        "withdrawn",
        "withdrawn_at",
        "without_since",
    )

    def __init__(
        self,
        number: int,
        connection: ProducerConnection,
        queue: Destination,
        link: str,
        *,
        channel: int,
        handle: ProducerPort,
    ) -> None:
        self.id = number
        self.connection = connection
        self.queue = queue
        self.link = link
        self.channel = channel
        self.handle = handle
        self.credit = 0
        self.withdrawn = 0
        self.withdrawn_at: int | None = 0  # when a withdrawal was last sent, ms; None: at the end of this turn
        self.lapsed = 0
        self.doubtful = 0
        self.low = 0  # requests more when its credit falls to this
        self.receipts: deque[Receipt] = deque()  # of deliveries that are settled later; see `settlement.py`
        self.unsettled = 0  # deliveries of these receipts
        self.waiting = False  # is in a waiting list of its ledger
        self.idle = False  # returned unused credit, and has not sent since
        self.probing = False  # its credit is a probe: one credit, not reserved
        self.without_since: int | None = None  # when it was first found without credit, ms; also while it is blocked
        self.draining = False  # a drain has not been answered
        self.mark = -1  # `messages` at the last check whether it is idle
        self.touched_at = 0  # when its credit was last granted, drained or withdrawn, ms; later if late messages came
        self.inside = False  # a branch of a fan-out: its messages are already in the broker
        self.stopped = False  # by an operator's stop of its client, see `client_stops.py`
        self.denied_credit = False  # because of that, or of a shortage of what its messages use
        self.awaited: Resource | None = None  # what its messages would use that are parked until a shortage ends
        self.stored_at = -1  # `messages` when it last published a durable message
        self.messages = 0
        self.bytes = 0
        self.causes: dict[str, None] = {}
        self.fan_out: Collection[Producer] = ()
        self.siblings: Collection[Producer] = ()
        self.blocked_since: int | None = None
        self.blocked_ms = 0
        self.blocked_count = 0
        self.name: ObjectName = object_name("Producer", virtualhost=connection.virtualhost, id=number)

    @property
    def persistent(self) -> bool:
        """Whether its last message was stored."""
        return self.stored_at == self.messages

    @property
    def reasons(self) -> Mapping[str, None]:
        """Every reason that blocks it, those of its own queue first."""
        if not self.fan_out:
            return self.causes
        return {**self.causes, **{reason: None for other in self.fan_out for reason in other.causes}}

    @property
    def blocked(self) -> bool:
        return bool(self.causes) or any(other.causes for other in self.fan_out)

    def add_reason(self, reason: str) -> bool:
        """Add a reason of its queue. Return True if it is the first."""
        first = not self.causes
        self.causes[reason] = None
        return first

    def update_blocked_time(self, now: int) -> int | None:
        """Start or end its blocked time, depending on its reasons. Return for how many ms it was blocked if that ended,
        else None."""
        if self.blocked:
            if self.blocked_since is None:
                self.blocked_since = now
                self.blocked_count += 1
            return None
        if self.blocked_since is None:
            return None
        lasted = self.blocked_for(now)
        self.blocked_ms += lasted
        self.blocked_since = None
        return lasted

    def blocked_for(self, now: int) -> int:
        """Return for how long it has been blocked, in ms; 0 while it runs, and after the clock was set back."""
        return 0 if self.blocked_since is None else max(0, now - self.blocked_since)

    def release_condition(self) -> str:
        """Say what would unblock it; empty while it runs."""
        conditions: dict[str, None] = {}
        for producer in self.fan_out or (self,):
            conditions.update(dict.fromkeys(producer.queue.release_conditions(producer.causes)))
        return "; and ".join(conditions)
