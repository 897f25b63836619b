"""A first-in first-out queue: its messages, its consumers, and its producers under flow control.

Publishing checks the depth after the enqueue, in constant time. What the check finds goes through the table in
`flow.py`; what that means for credit is told by `credit.py`. Messages are opaque bytes here, and their number in the
queue keeps their order for ever: one that comes back takes its old place.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from brokers.engine import flow
from brokers.engine.consumer import Consumer
from brokers.engine.credit import CreditLedger
from brokers.engine.events import dropped_words, overfull_words, queue_subject, underfull_words
from brokers.engine.flow import Change, Input, State
from brokers.engine.limits import UNLIMITED, Limits
from brokers.engine.policy import Setting, Value
from brokers.engine.producer import Producer
from brokers.engine.stops import Scope, Stop
from brokers.engine.turn import CreditChanged, Drain, Turn
from brokers.managed import ObjectName, object_name

#: (number in the queue, encoded message). A bare tuple, since one is made for every message.
Message = tuple[int, bytes]

#: How many messages one of several consumers gets at a time.
BATCH = 16


class Queue:
    """See the module. Times in ms since the epoch. `own`: the policy fields set on the queue itself."""

    __slots__ = (
        "__weakref__",
        "browsers",
        "consumers",
        "deliveries",
        "depth_bytes",
        "depth_messages",
        "dequeued",
        "dropped",
        "enqueued",
        "excluded",
        "ledger",
        "limits",
        "name",
        "object_name",
        "overfull_count",
        "overfull_ms",
        "overfull_since",
        "own",
        "rate_in",
        "rate_out",
        "ready",
        "returned",
        "sampled",
        "settings",
        "state",
        "stopped_since",
        "stops",
        "turn",
        "version",
        "virtualhost",
    )

    def __init__(self, virtualhost: str, name: str, turn: Turn) -> None:
        self.virtualhost = virtualhost
        self.name = name
        self.object_name: ObjectName = object_name("Queue", virtualhost=virtualhost, name=name)
        self.turn = turn
        self.version = 1
        self.own: dict[str, Value] = {}
        self.settings: Mapping[str, Setting] = {}
        self.limits = Limits()
        self.state = State.NORMAL
        self.stops: dict[Scope, Stop] = {}
        self.ledger = CreditLedger()
        self.consumers: deque[Consumer] = deque()  # in turns
        self.browsers: list[Consumer] = []
        self.ready: deque[Message] = deque()
        self.returned: list[Message] = []  # came back from a consumer; sorted, all before those in `ready`
        self.deliveries: dict[int, int] = {}  # message number -> failed deliveries, where there were any
        self.excluded: dict[int, set[Consumer]] = {}  # message number -> consumers that must not get it again
        self.depth_messages = 0
        self.depth_bytes = 0
        self.enqueued = 0
        self.dequeued = 0
        self.dropped = 0
        self.overfull_since: int | None = None
        self.stopped_since: int | None = None
        self.overfull_count = 0
        self.overfull_ms = 0
        self.rate_in = 0.0
        self.rate_out = 0.0
        self.sampled = (0, 0, 0)  # at (ms), enqueued, dequeued

    # -- publishing -------------------------------------------------------------------------------------------

    def publish(self, producer: Producer, body: bytes) -> bool:
        """Enqueue a message of a producer. False: it had no credit, and its message was not taken."""
        ledger = self.ledger
        credit = producer.credit
        if credit:
            producer.credit = credit = credit - 1
            ledger.reserved -= 1
            if credit <= producer.low and not producer.waiting:
                ledger.ask(producer)
        elif not self._take_late(producer):
            return False
        size = len(body)
        producer.messages += 1
        producer.bytes += size
        if size > ledger.largest:
            ledger.saw(size)
        self.enqueue(body)
        return True

    def abort(self, producer: Producer) -> None:
        """A producer gave up a message half-way: its credit is used, nothing is enqueued."""
        if producer.credit:
            producer.credit -= 1
            self.ledger.reserved -= 1
            self.ledger.ask(producer)
        self.turn.touched.add(self)

    def _take_late(self, producer: Producer) -> bool:
        taken = self.ledger.late(producer, self.room())
        if taken:
            self.turn.effects.append(CreditChanged(producer))
        return taken

    def enqueue(self, body: bytes) -> None:
        """Add a message, and check the depth after it."""
        self.enqueued = number = self.enqueued + 1
        message = (number, body)
        self.ready.append(message)
        self.depth_messages += 1
        self.depth_bytes += len(body)
        if self.browsers:
            for browser in self.browsers:
                browser.backlog.append(message)
        limits = self.limits
        if self.depth_bytes > limits.stop_bytes or self.depth_messages > limits.stop_messages:
            self._drop_oldest() if limits.ring else self.feed(Input.ABOVE_STOP)
        self.turn.touched.add(self)

    def _drop_oldest(self) -> None:
        limits, count = self.limits, 0
        while self.depth_bytes > limits.stop_bytes or self.depth_messages > limits.stop_messages:
            if self.returned:
                message = self.returned.pop(0)
            elif self.ready:
                message = self.ready.popleft()
            else:
                break  # all that is left is with consumers
            self._forget(message)
            count += 1
        if count:
            self.dropped += count
            words = dropped_words(
                count,
                self.depth_bytes,
                self.depth_messages,
                _level(limits.stop_bytes),
                _level(limits.stop_messages),
            )
            self._state_fact("queue-dropped", words, {"messages": count})

    def room(self) -> int:
        """Credits that may be given out now; below 0: credits to take back."""
        return self.ledger.room(self.limits, self.depth_bytes, self.depth_messages)

    # -- consuming --------------------------------------------------------------------------------------------

    def dispatch(self) -> list[tuple[Consumer, list[Message]]]:
        """Assign messages to consumers that have credit, in turns. What is returned is acquired by them."""
        batches: list[tuple[Consumer, list[Message]]] = []
        if self.browsers:
            batches.extend((b, self._browse(b)) for b in self.browsers if b.credit and b.connection.writable)
        if self.returned:
            self._dispatch_returned(batches)
        ready, consumers = self.ready, self.consumers
        while ready:
            consumer = self._next_consumer()
            if consumer is None:
                break
            count = min(consumer.credit, len(ready))
            if len(consumers) > 1 and count > BATCH:
                count = BATCH
            take = ready.popleft
            batches.append((consumer, [take() for _ in range(count)]))
            consumer.credit -= count
            consumer.messages += count
            consumer.unacknowledged += count
        return batches

    def _next_consumer(self) -> Consumer | None:
        consumers = self.consumers
        for _ in range(len(consumers)):
            consumer = consumers[0]
            consumers.rotate(-1)
            if consumer.credit > 0 and consumer.connection.writable:
                return consumer
        return None

    def _dispatch_returned(self, batches: list[tuple[Consumer, list[Message]]]) -> None:
        """Messages that came back go first, one by one, past consumers that must not have them."""
        waiting: list[Message] = []
        for message in self.returned:
            barred = self.excluded.get(message[0], ())
            consumer = next(
                (c for c in self.consumers if c.credit > 0 and c.connection.writable and c not in barred), None
            )
            if consumer is None:
                waiting.append(message)
                continue
            self.consumers.remove(consumer)
            self.consumers.append(consumer)
            consumer.credit -= 1
            consumer.messages += 1
            consumer.unacknowledged += 1
            batches.append((consumer, [message]))
        self.returned = waiting

    def _browse(self, browser: Consumer) -> list[Message]:
        copies: list[Message] = []
        while browser.backlog and browser.credit > 0:
            copies.append(browser.backlog.popleft())
            browser.credit -= 1
            browser.messages += 1
        return copies

    def remove(self, consumer: Consumer, message: Message) -> None:
        """A consumer has done with a message."""
        consumer.unacknowledged -= 1
        self.depth_messages -= 1
        self.depth_bytes -= len(message[1])
        self.dequeued += 1
        if self.deliveries:
            self.deliveries.pop(message[0], None)
            self.excluded.pop(message[0], None)
        if self.state is not State.NORMAL:
            self.measure()
        self.turn.touched.add(self)

    def put_back(self, consumer: Consumer, message: Message, *, failed: bool = False, barred: bool = False) -> None:
        """A consumer gave a message back: it takes its old place. `failed`: counts as a failed delivery. `barred`:
        this consumer must not get it again."""
        consumer.unacknowledged -= 1
        number = message[0]
        if failed:
            self.deliveries[number] = self.deliveries.get(number, 0) + 1
        if barred:
            self.deliveries.setdefault(number, 0)
            self.excluded.setdefault(number, set()).add(consumer)
        insort(self.returned, message, key=lambda m: m[0])
        self.turn.touched.add(self)

    def purge(self) -> int:
        """Remove every message that no consumer has acquired; how many there were."""
        messages = [*self.returned, *self.ready]
        self.returned.clear()
        self.ready.clear()
        for browser in self.browsers:
            browser.backlog.clear()
        for message in messages:
            self._forget(message)
        self.measure()
        self.turn.touched.add(self)
        return len(messages)

    def _forget(self, message: Message) -> None:
        self.depth_messages -= 1
        self.depth_bytes -= len(message[1])
        self.dequeued += 1
        self.deliveries.pop(message[0], None)
        self.excluded.pop(message[0], None)

    # -- links ------------------------------------------------------------------------------------------------

    @property
    def producers(self) -> Iterable[Producer]:
        return self.ledger.members

    @property
    def producer_count(self) -> int:
        return len(self.ledger.members)

    @property
    def consumer_count(self) -> int:
        return len(self.consumers) + len(self.browsers)

    @property
    def blocked_producers(self) -> int:
        """All producers of a queue share its reasons."""
        return len(self.ledger.members) if self.state is not State.NORMAL else 0

    @property
    def unacknowledged(self) -> int:
        return self.depth_messages - len(self.ready) - len(self.returned)

    def attach_producer(self, producer: Producer) -> None:
        """A producer that attaches while the queue is overfull or stopped starts blocked."""
        self.ledger.join(producer)
        for reason in self.reasons():
            self._hold(producer, reason)
        self.turn.touched.add(self)

    def detach_producer(self, producer: Producer) -> None:
        self.ledger.leave(producer)
        self.turn.touched.add(self)

    def attach_consumer(self, consumer: Consumer) -> None:
        if consumer.browsing:
            consumer.backlog.extend(self.returned)
            consumer.backlog.extend(self.ready)
            self.browsers.append(consumer)
        else:
            self.consumers.append(consumer)
        self.turn.touched.add(self)

    def detach_consumer(self, consumer: Consumer) -> None:
        """Messages that it had acquired must have been put back before."""
        (self.browsers if consumer.browsing else self.consumers).remove(consumer)
        for barred in self.excluded.values():
            barred.discard(consumer)
        self.turn.touched.add(self)

    # -- flow control -----------------------------------------------------------------------------------------

    def reasons(self) -> list[str]:
        """Every reason that holds the producers of this queue now."""
        reasons = [flow.overfull_reason(self.name)] if self.state.overfull else []
        return reasons + [flow.stop_reason(str(scope)) for scope in self.stops]

    def set_limits(self, limits: Limits, settings: Mapping[str, Setting]) -> None:
        """Put other limits in force, at once and in both directions."""
        self.limits, self.settings = limits, settings
        if limits.ring:
            self._drop_oldest()
            self.feed(Input.AT_RESUME)
        else:
            self.measure()
        for producer in self.ledger.members:
            self.ledger.ask(producer)
        self.turn.touched.add(self)

    def measure(self) -> None:
        """Look at the depth, and act on what it says."""
        seen = flow.measure(self.limits, self.depth_bytes, self.depth_messages)
        if seen is not None and not (self.limits.ring and seen is Input.ABOVE_STOP):
            self.feed(seen)

    def stop(self, stop: Stop) -> bool:
        """Put an operator's stop in force; False if it was."""
        if stop.scope in self.stops:
            return False
        self.stops[stop.scope] = stop
        self.feed(Input.STOP)
        self._hold_all(flow.stop_reason(str(stop.scope)))
        self.turn.touched.add(self)
        return True

    def start(self, scope: Scope) -> bool:
        """Lift an operator's stop; False if there was none."""
        if self.stops.pop(scope, None) is None:
            return False
        if not self.stops:
            self.feed(Input.START)
        self._free_all(flow.stop_reason(str(scope)))
        self.turn.touched.add(self)
        return True

    def feed(self, seen: Input) -> None:
        """Put an input through the table, and do what the change means."""
        self.state, change = flow.step(self.state, seen)
        if change is not None:
            self._CHANGES[change](self)
            self.turn.touched.add(self)

    def _overfull_began(self) -> None:
        limits, now = self.limits, self.turn.now
        self.overfull_since = now
        self.overfull_count += 1
        words = overfull_words(
            self.depth_bytes, _level(limits.stop_bytes), self.depth_messages, _level(limits.stop_messages)
        )
        self._state_fact("queue-overfull", words, {})
        self._withdraw()
        self._hold_all(flow.overfull_reason(self.name))

    def _overfull_ended(self) -> None:
        limits, now = self.limits, self.turn.now
        lasted = max(0, now - (self.overfull_since or now))
        self.overfull_since = None
        self.overfull_ms += lasted
        words = underfull_words(
            self.depth_bytes, _level(limits.resume_bytes), self.depth_messages, _level(limits.resume_messages)
        )
        self._state_fact("queue-underfull", words, {"overfull_ms": lasted})
        self._free_all(flow.overfull_reason(self.name))

    def _stop_began(self) -> None:
        self.stopped_since = self.turn.now
        self._withdraw()

    def _stop_ended(self) -> None:
        self.stopped_since = None

    _CHANGES = {
        Change.OVERFULL_BEGAN: _overfull_began,
        Change.OVERFULL_ENDED: _overfull_ended,
        Change.STOP_BEGAN: _stop_began,
        Change.STOP_ENDED: _stop_ended,
    }

    def _withdraw(self) -> None:
        """Take back all credit that is out."""
        turn = self.turn
        turn.effects.extend(CreditChanged(p) for p in self.ledger.withdraw(turn.now))
        if self.ledger.pending:
            turn.watched.add(self)

    def _hold_all(self, reason: str) -> None:
        for producer in self.ledger.members:
            self._hold(producer, reason)

    def _hold(self, producer: Producer, reason: str) -> None:
        if producer.hold(reason, self.turn.now):
            words = f"Flow Control Enforced (Queue {self.name})"
            self._producer_fact("producer-blocked", producer, words, {"reasons": list(producer.reasons)})

    def _free_all(self, reason: str) -> None:
        for producer in self.ledger.members:
            before = producer.blocked_ms
            if producer.free(reason, self.turn.now):
                lasted = producer.blocked_ms - before
                self._producer_fact("producer-released", producer, "Flow Control Removed", {"blocked_ms": lasted})
                self.ledger.ask(producer)

    def grant(self) -> list[Producer]:
        """Hand out credit where there is room. Returns the producers whose credit has changed."""
        if self.state is not State.NORMAL:
            return []
        ledger = self.ledger
        if not ledger.waiting and not ledger.pending:
            return []
        changed = ledger.grant(self.limits, self.depth_bytes, self.depth_messages, self.turn.now)
        if ledger.contended or ledger.pending:
            self.turn.watched.add(self)
        return changed

    def sweep(self) -> bool:
        """What time does to credit. False: nothing is left to watch."""
        ledger, turn = self.ledger, self.turn
        contended = self.state is State.NORMAL and ledger.contended and self.room() <= 0
        drain, changed = ledger.sweep(turn.now, self.enqueued, contended=contended)
        turn.effects.extend(Drain(p) for p in drain)
        turn.effects.extend(CreditChanged(p) for p in changed)
        turn.touched.add(self)
        return contended or bool(ledger.pending)

    def credit_returned(self, producer: Producer, count: int) -> None:
        """The producer's link answered a drain."""
        self.ledger.returned(producer, count)
        self.turn.touched.add(self)

    def resume_condition(self) -> str:
        """What would end overfull, in words, from the depth now."""
        limits, left = self.limits, []
        for unit, depth, resume in (
            ("messages", self.depth_messages, limits.resume_messages),
            ("bytes", self.depth_bytes, limits.resume_bytes),
        ):
            if depth > resume:
                left.append(f"{resume:,} {unit} or fewer (now {depth:,})")
        return f"queue {self.name} comes down to {' and '.join(left)}" if left else f"queue {self.name} resumes"

    # -- facts ------------------------------------------------------------------------------------------------

    def shown(self) -> dict[str, Any]:
        """The attributes that every fact about this queue carries."""
        return {
            "queue": str(self.object_name),
            "state": self.state.value,
            "depth_messages": self.depth_messages,
            "depth_bytes": self.depth_bytes,
            "blocked_producers": self.blocked_producers,
        }

    def _state_fact(self, kind: str, words: str, attributes: Mapping[str, Any]) -> None:
        subject = queue_subject(self.virtualhost, self.name)
        self.turn.state(kind, self.object_name, subject, words, {**self.shown(), **attributes})

    def _producer_fact(self, kind: str, producer: Producer, words: str, attributes: Mapping[str, Any]) -> None:
        connection = producer.connection
        subject = f"{connection.subject}/ch:{producer.channel}"
        facts = {**self.shown(), "client": connection.client, "link": producer.link, **attributes}
        self.turn.state(kind, producer.name, subject, words, facts)


def _level(level: int) -> int:
    """A level as people and logs read it: 0 where there is none."""
    return 0 if level == UNLIMITED else level
