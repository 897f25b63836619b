"""A naive model of a queue, and a simulation that reports to the models of its queues and checks every grant.

The model knows nothing of credit: it has the messages of the queue with their sizes, knows which of them a consumer
holds, and says what state follows and how far depth and credit may go. The levels are those of the queue's effective
limits; what follows from them is computed here, from the rules in `brokers/README.md` and `brokers/DOMAIN.md`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from brokers.engine.flow.producer import Producer
from brokers.engine.flow.table import State
from brokers.engine.queues.consumer import Consumer
from brokers.engine.queues.queue import Message, Queue
from brokers.engine.values.limits import UNLIMITED, Limits
from brokers.engine.values.message import NEVER, PLAIN, Header, number_of, rank_of
from brokers.engine.values.outcomes import Verdict
from tests.engine.simulation import Simulation, origin

MINUTE = 60_000


def header(body: bytes) -> Header:
    """Return the header of a message, derived from its number among those of its producer."""
    _, number = origin((0, body))
    fields = Header(priority={0: 9, 1: 1}.get(number % 6, 4), ttl=400 if number % 7 == 0 else 0)
    return PLAIN if fields == PLAIN else fields


@dataclass
class Model:
    """The expected state of a queue. `available`: the numbers of messages that no consumer has acquired. `purged`: of
    those that a purge has removed."""

    queue: Queue
    overfull: bool = False
    sizes: dict[int, int] = field(default_factory=dict)
    available: set[int] = field(default_factory=set)
    purged: set[int] = field(default_factory=set)
    due: dict[int, int] = field(default_factory=dict)  # when messages expire
    failed: Counter[int] = field(default_factory=Counter)
    barred: dict[int, set[Consumer]] = field(default_factory=dict)
    acquired: Counter[Producer] = field(default_factory=Counter)  # enqueued messages with a withheld settlement
    outside: list[tuple[Producer, bytes, int]] = field(default_factory=list)  # producer, body, deadline
    enqueued: int = 0
    before: tuple[int, int] = (0, 0)  # the depth after the last step, messages and bytes
    received: dict[int, int] = field(default_factory=dict)  # minute -> the largest message of it, bytes

    def publish(self, producer: Producer, body: bytes, now: int, *, late: bool) -> Verdict:
        """`late`: on withdrawn credit."""
        limits = self.queue.gate.limits
        self.received[now // MINUTE] = max(self.received.get(now // MINUTE, 0), len(body))
        way = limits.overflow if self.overfull else "not full"
        behind_others = bool(self.outside) and not way.startswith("reject")
        if way == "hold" and not self.admits_withheld:
            way = "block"
        if (late and self.queue.gate.stops) or behind_others or way in ("block", "reject-after"):
            self.outside.append((producer, body, now + limits.reject_after_ms))
            return Verdict.PENDING
        if way == "reject":
            return Verdict.REJECTED
        self.enqueue(body)
        if way == "hold":
            self.acquired[producer] += 1
            return Verdict.PENDING
        return Verdict.ACCEPTED

    # -- bounds -------------------------------------------------------------------------------------------------

    def more(self, stop: int) -> int:
        """Return how much an overfull queue with mechanism hold accepts above this stop level, in its unit: a tenth of
        it, and 1 at least. Any other queue accepts nothing above it."""
        return max(1, stop // 10) if self.queue.gate.limits.overflow == "hold" else 0

    @property
    def most_messages(self) -> int:
        """The highest depth above which no message is accepted."""
        stop = self.queue.gate.limits.stop_messages
        return stop + self.more(stop)

    @property
    def most_bytes(self) -> int:
        stop = self.queue.gate.limits.stop_bytes
        return stop + self.more(stop)

    @property
    def admits_withheld(self) -> bool:
        """Whether an overfull queue with mechanism hold accepts a message, and withholds its settlement."""
        return len(self.sizes) <= self.most_messages and sum(self.sizes.values()) <= self.most_bytes

    @property
    def bounds_credit(self) -> bool:
        """Whether free capacity bounds the credit; otherwise each producer has its window."""
        return self.queue.gate.limits.overflow in ("block", "hold")

    @property
    def may_grant(self) -> bool:
        """Whether producers may get credit now."""
        way = self.queue.gate.limits.overflow
        if self.queue.gate.stops:
            return False
        if self.overfull and way == "hold":
            return self.admits_withheld and not self.outside
        return not self.overfull or way.startswith("reject")

    @property
    def largest(self) -> int:
        """The message size that one credit counts as: the largest of the last two minutes with messages; 64 KiB before
        the first message."""
        this = self.queue.turn.now // MINUTE
        earlier = [minute for minute in self.received if minute < this]
        return max(self.received.get(this, 0), self.received[max(earlier)] if earlier else 0) or 65536

    @property
    def room(self) -> int:
        """How many more credits may be outstanding; if negative, how many are to be withdrawn. Depth and credit that
        clients may still use exceed what the queue accepts by one message at most."""
        limits, room = self.queue.gate.limits, UNLIMITED
        if not self.bounds_credit:
            return room
        used = sum(p.credit * (not p.probing) + p.withdrawn for p in self.queue.gate.producers)
        if limits.stop_messages != UNLIMITED:
            room = self.most_messages + 1 - len(self.sizes) - used
        if limits.stop_bytes != UNLIMITED:
            fit = max(0, self.most_bytes - sum(self.sizes.values())) // self.largest
            room = min(room, fit + 1 - used)
        return room

    # -- messages -----------------------------------------------------------------------------------------------

    def enqueue(self, body: bytes) -> None:
        self.enqueued += 1
        fields = header(body)
        number = number_of(self.enqueued, fields.priority)
        self.sizes[number] = len(body)
        self.available.add(number)
        if fields.ttl:
            self.due[number] = self.queue.turn.now + fields.ttl
        self.drop()
        if self.above:
            self.overfull = True

    def let_in(self, *, whatever_the_state: bool = False) -> None:
        """Enqueue messages that the engine has enqueued from the parked ones. An invariant checks when it must."""
        while self.enqueued < self.queue.gate.enqueued:
            blocked = self.overfull or self.queue.gate.stops
            assert whatever_the_state or not blocked, "a parked message was enqueued before the queue has resumed"
            self.enqueue(self.outside.pop(0)[1])

    def forget(self, number: int) -> None:
        del self.sizes[number]
        self.available.discard(number)
        self.barred.pop(number, None)
        self.due.pop(number, None)
        self.failed.pop(number, None)

    def put_back(self, number: int) -> None:
        """Put a message back at its former place, if it has not expired."""
        self.available.add(number)
        self.expire_messages(self.queue.turn.now)

    def expire_messages(self, now: int) -> None:
        due = [n for n in self.available if self.due.get(n, NEVER) <= now]
        for number in due:
            self.forget(number)
        if due:
            self.measure()

    def measure(self) -> None:
        limits = self.queue.gate.limits
        size, count = sum(self.sizes.values()), len(self.sizes)
        if limits.ring:
            self.resume()
        elif self.above:
            self.overfull = True
        elif size <= limits.resume_bytes and count <= limits.resume_messages:
            self.resume()

    def resume(self) -> None:
        self.overfull = False
        self.acquired.clear()

    @property
    def above(self) -> bool:
        limits = self.queue.gate.limits
        if limits.ring:
            return False
        return sum(self.sizes.values()) > limits.stop_bytes or len(self.sizes) > limits.stop_messages

    def expire(self, now: int) -> None:
        while self.queue.gate.limits.overflow == "reject-after" and self.outside and self.outside[0][2] <= now:
            del self.outside[0]

    def leave(self, producer: Producer) -> None:
        del self.acquired[producer]
        self.outside = [w for w in self.outside if w[0] is not producer]

    def limits_changed(self, before: Limits) -> None:
        """Apply changed limits, and the change of the mechanism if there is one. `before`: the limits before it."""
        limits = self.queue.gate.limits
        switched = before.overflow != limits.overflow
        if switched:
            self.acquired.clear()
        if (before.overflow, before.reject_after_ms) != (limits.overflow, limits.reject_after_ms):
            deadline = self.queue.turn.now + limits.reject_after_ms
            self.outside = [(producer, body, deadline) for producer, body, _ in self.outside]
        self.drop()
        if not switched:
            self.measure()
        self.let_in(whatever_the_state=switched)
        self.measure()

    def withheld(self, producer: Producer) -> int:
        return self.acquired[producer] + sum(1 for w in self.outside if w[0] is producer)

    def drop(self) -> None:
        """Drop the oldest messages of the lowest priority from a ring."""
        limits = self.queue.gate.limits
        while (
            limits.ring
            and self.available
            and (sum(self.sizes.values()) > limits.stop_bytes or len(self.sizes) > limits.stop_messages)
        ):
            self.forget(min(self.available, key=lambda number: (-rank_of(number), number)))

    @property
    def state(self) -> State:
        stopped = bool(self.queue.gate.stops)
        if self.overfull:
            return State.OVERFULL_STOPPED if stopped else State.OVERFULL
        return State.STOPPED if stopped else State.NORMAL


class Watched(Simulation):
    """Reports dispatched messages to the models, and checks every grant."""

    def __init__(self) -> None:
        self.models: dict[Queue, Model] = {}
        super().__init__()
        self.broker.turn.header = header

    def dispatch(self, queue: Queue) -> None:
        model = self.models[queue]
        model.let_in()
        for consumer, messages in queue.dispatch():
            for message in messages:
                assert message[0] in model.sizes, "a removed message was dispatched"
                if not consumer.browsing:
                    self._dispatched(model, consumer, message)
            if not consumer.browsing:
                self.acquired[consumer].extend(messages)
        ready = {c for c in queue.dispatcher.consumers if c.credit}
        assert all(ready <= model.barred.get(n, set()) for n in model.available), "a ready consumer got nothing"

    def time_passed(self) -> None:
        for model in self.models.values():
            model.expire(self.broker.turn.now)
            model.expire_messages(self.broker.turn.now)

    @staticmethod
    def _dispatched(model: Model, consumer: Consumer, message: Message) -> None:
        number = message[0]
        barred = model.barred
        assert consumer not in barred.get(number, ()), "a consumer got a message that it is barred from"
        assert all(consumer in barred.get(n, ()) for n in model.available if n < number), "an older message was skipped"
        model.available.remove(number)

    def grant(self, queue: Queue) -> None:
        model = self.models[queue]
        before, reserved = {p: (p.credit, p.probing) for p in queue.gate.producers}, queue.gate.ledger.reserved
        super().grant(queue)
        model.let_in()
        if any(p.credit > before[p][0] for p in queue.gate.producers):
            assert model.may_grant, "credit was granted while the queue accepts nothing"
            assert queue.gate.ledger.reserved >= reserved
            assert model.room >= 0, "more credit was granted than there is room for"
        assert all(p.credit <= max(before[p][0], queue.gate.limits.window) for p in queue.gate.producers)
        if model.overfull and model.bounds_credit:
            assert all(before[p][1] for p in queue.gate.producers if p.probing), "an overfull queue has granted a probe"
