"""A sending link of a client to a queue: its credit account, its receipts, and the set of reasons that blocks it.

Amounts of credit, all in messages (how they move stands in `credit.py`):
`credit` it may use now; `withdrawn` was taken back, but messages sent before the client knew may still arrive, so it
stays reserved for a while; `lapsed` was taken back longer ago than that: nothing is reserved for it any more;
`doubtful` was taken back while the client was asked to give it back, and it may count it once more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Protocol

from brokers.engine.flow.enrolment import Enrolment
from brokers.engine.flow.usage import Resource
from brokers.engine.ports import ProducerConnection, ProducerPort
from brokers.engine.values.outcomes import Outcome, Verdict
from brokers.model import ObjectName, object_name


class Destination(Protocol):
    """What a producer publishes to: the queue, as flow control and the link of a client see it."""

    @property
    def name(self) -> str: ...

    @property
    def object_name(self) -> ObjectName: ...

    def publish(self, producer: Producer, body: bytes) -> Verdict:
        """Take in a message of the producer, if it has credit and the queue lets it in."""
        ...

    def publish_in(self, enrolment: Enrolment, producer: Producer, body: bytes) -> Verdict:
        """The same in a transaction."""
        ...

    def abort(self, producer: Producer) -> None:
        """The producer gave up a message half-way."""
        ...

    def refuses(self, body: bytes) -> bool:
        """A message would be rejected that came now."""
        ...

    def credit_returned(self, producer: Producer, count: int) -> None:
        """The producer's link answered a drain: it gave back so much credit."""
        ...

    def credit_forgone(self, producer: Producer, count: int) -> None:
        """The producer's link counts so much of its credit as used, for which no message may come."""
        ...

    def detach_producer(self, producer: Producer) -> None:
        """The producer's link has ended."""
        ...

    def event_attributes(self) -> dict[str, Any]:
        """The attributes that every fact about the queue carries."""
        ...

    def shortage_reasons(self) -> list[str]:
        """The reasons of the shortages for which a message is rejected; none if the queue is overfull as well."""
        ...

    def turn_condition(self, now: int) -> str:
        """What a producer waits for that has no credit, though nothing blocks it, in words. `now` in ms."""
        ...

    def release_conditions(self, reasons: Collection[str]) -> Iterator[str]:
        """What would end each of these reasons to block, in words."""
        ...


class Receipt:
    """The outcome of an unsettled delivery, which comes later. The message may wait for its queue to resume, for room,
    for the store to have it, or for several of these: `pending` things. When nothing is left to wait for, or one of
    them fails, the delivery has its outcome. A producer's receipts are resolved in the order in which it sent."""

    __slots__ = ("outcome", "pending", "producer")

    def __init__(self, producer: Producer, pending: int) -> None:
        self.producer = producer
        self.pending = pending
        self.outcome = Outcome.ACCEPTED

    def resolve(self, outcome: Outcome) -> None:
        """One of the things has come, with this outcome. What is not accepted waits for nothing more."""
        self.pending -= 1
        if outcome is not Outcome.ACCEPTED and self.outcome is Outcome.ACCEPTED:
            self.outcome = outcome
            self.pending = 0

    @property
    def ready(self) -> bool:
        return self.pending <= 0


class Producer:
    """`blocked_since` in ms since the epoch, None while it runs; `blocked_ms` counts finished blocks only.
    `causes` keeps the reasons of its own queue in the order in which they came. `fan_out`: the producers of the same
    link, itself included, without which no message of it is published; empty if there are none. `siblings`: all
    producers of its link; empty for a link to a single queue. `handle` belongs to the protocol layer."""

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
        "stored_at",
        "touched_at",
        "waiting",
        "withdrawn",
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
        self.lapsed = 0
        self.doubtful = 0
        self.low = 0  # asks for more when its credit falls to this
        self.receipts: deque[Receipt] = deque()  # of messages whose outcome comes later
        self.waiting = False  # stands in a line of its queue for credit
        self.idle = False  # gave credit back without having used it, and has not sent since
        self.probing = False  # its credit is a probe: one, with nothing reserved for it
        self.without_since: int | None = (
            None  # since when it is known to be without credit, ms: also while it is blocked
        )
        self.draining = False  # was asked to give its credit back
        self.mark = -1  # `messages` when it was last looked at, to tell the idle
        self.touched_at = 0  # when its credit was last taken back or asked back, ms
        self.inside = False  # what it publishes is in the broker already: it is one queue's producer of several
        self.denied_credit = False  # gets no credit, since the broker has run short of what its messages use
        self.awaited: Resource | None = None  # what its messages that wait outside for a shortage to end would use
        self.stored_at = -1  # `messages` when it last published one for the store
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
        """Its last message was for the store."""
        return self.stored_at == self.messages

    @property
    def unsettled(self) -> int:
        """Messages whose outcome comes later."""
        return len(self.receipts)

    @property
    def reasons(self) -> Mapping[str, None]:
        """Every reason why it may not send now, in the order in which each queue's came."""
        if not self.fan_out:
            return self.causes
        return {**self.causes, **{reason: None for other in self.fan_out for reason in other.causes}}

    @property
    def blocked(self) -> bool:
        return bool(self.reasons)

    def add_reason(self, reason: str) -> bool:
        """Add a reason of its queue; True if it is the first, so that this queue blocks the producer from now on."""
        first = not self.causes
        self.causes[reason] = None
        return first

    def keep_time(self, now: int) -> int | None:
        """Begin or end the time that it is blocked, as its reasons say. For how many ms it was blocked if it runs from
        now on, else None."""
        if self.reasons:
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
        """ms since it was blocked; 0 while it runs. A clock that was set back counts as no time."""
        return 0 if self.blocked_since is None else max(0, now - self.blocked_since)

    def release_condition(self) -> str:
        """What would release it, in words; empty while it runs."""
        conditions: dict[str, None] = {}
        for producer in self.fan_out or (self,):
            conditions.update(dict.fromkeys(producer.queue.release_conditions(producer.causes)))
        return "; and ".join(conditions)
