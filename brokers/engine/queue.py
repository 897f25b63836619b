"""A first-in first-out queue: its messages and its consumers, behind the gate that holds its producers.

Publishing checks the depth after the enqueue, in constant time; what follows from it is the gate's. Messages are opaque
bytes here, and their number in the queue keeps their order for ever: one that comes back takes its old place.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import deque
from typing import TYPE_CHECKING

from brokers.engine.consumer import Consumer
from brokers.engine.credit import Late
from brokers.engine.events import dropped_words
from brokers.engine.flow import State
from brokers.engine.gate import level
from brokers.engine.overflow import Verdict
from brokers.engine.producer import Producer
from brokers.engine.receipt import Receipt
from brokers.engine.turn import CreditChanged, Turn
from brokers.engine.uncommitted import UncommittedGate

if TYPE_CHECKING:
    from brokers.engine.transaction import Enrolment

#: (number in the queue, encoded message). A bare tuple, since one is made for every message.
Message = tuple[int, bytes]

#: Looked up for every message: members of an enumeration are slow to reach by their class.
TAKEN, NORMAL = Verdict.TAKEN, State.NORMAL

#: How many messages one of several consumers gets at a time.
BATCH = 16


class Queue(UncommittedGate):
    """See the module. `store_id`: what a store knows it by, no other queue having or having had it; 0: it is not
    durable. `transient`: it goes with those who use it, and no record of it is kept."""

    __slots__ = (
        "__weakref__",
        "browsers",
        "consumers",
        "deliveries",
        "dequeued",
        "dropped",
        "excluded",
        "mark_touched",
        "rate_in",
        "rate_out",
        "ready",
        "returned",
        "sampled",
        "store_id",
        "transient",
    )

    def __init__(self, virtualhost: str, name: str, turn: Turn) -> None:
        super().__init__(virtualhost, name, turn)
        self.mark_touched = turn.touched.add  # bound once: it is called for every message
        self.consumers: deque[Consumer] = deque()  # in turns
        self.browsers: list[Consumer] = []
        self.ready: deque[Message] = deque()
        self.returned: list[Message] = []  # came back from a consumer; sorted, all before those in `ready`
        self.deliveries: dict[int, int] = {}  # message number -> failed deliveries, where there were any
        self.excluded: dict[int, set[Consumer]] = {}  # message number -> consumers that must not get it again
        self.store_id = 0
        self.transient = False
        self.dequeued = 0
        self.dropped = 0
        self.rate_in = 0.0
        self.rate_out = 0.0
        self.sampled = (0, 0)  # enqueued, dequeued at the last sample

    def touch(self) -> None:
        self.turn.touched.add(self)

    def watch(self) -> None:
        self.turn.watched.add(self)

    # -- publishing -------------------------------------------------------------------------------------------

    def publish(self, producer: Producer, body: bytes) -> Verdict:
        """Take in a message of a producer, if it has credit and the queue is not full."""
        ledger = self.ledger
        credit = producer.credit
        if credit:
            producer.credit = credit = credit - 1
            ledger.reserved -= 1
            if credit <= producer.low and not producer.waiting:
                ledger.ask(producer)
        else:
            late = self._publish_late(producer, body)
            if late is not None:
                return late
        size = len(body)
        producer.messages += 1
        producer.bytes += size
        if size > ledger.recent:
            ledger.saw(producer, size)
        if self.full is not None:
            return self.full.publish(self, producer, body)
        return self.enqueue(body, producer)

    def publish_in(self, enrolment: Enrolment, producer: Producer, body: bytes) -> Verdict:
        """As `publish`, in a transaction: the message counts from now on, and is seen once that is committed."""
        ledger = self.ledger
        if producer.credit:
            producer.credit -= 1
            ledger.reserved -= 1
            if producer.credit <= producer.low:
                ledger.ask(producer)
        else:
            late = self._publish_late(producer, body, enrolment)
            if late is not None:
                return late
        self._tally(producer, len(body))
        if self.full is not None:
            return self.full.publish(self, producer, body, enrolment)
        return self.enrol(body, enrolment)

    def abort(self, producer: Producer) -> None:
        """A producer gave up a message half-way: its credit is used, nothing is enqueued."""
        if producer.credit:
            producer.credit -= 1
            self.ledger.reserved -= 1
            self.ledger.ask(producer)
        self.turn.touched.add(self)

    def _publish_late(self, producer: Producer, body: bytes, enrolment: Enrolment | None = None) -> Verdict | None:
        """A message without credit. None: it can be taken like any other."""
        late = self.ledger.late(producer)
        if late is Late.NEVER:
            return Verdict.NO_CREDIT
        self.turn.effects.append(CreditChanged(producer))
        # While an operator's stop is in force nothing more is accepted, not even what was on its way.
        taken = late is Late.RESERVED and not self.state.stopped
        if not self.outside and (taken or (self.open and self.room() > 0)):
            return None
        self._tally(producer, len(body))
        self.wait_outside(producer, body, enrolment)
        return Verdict.HELD

    def _tally(self, producer: Producer, size: int) -> None:
        """As `publish` does."""
        producer.messages += 1
        producer.bytes += size
        if size > self.ledger.recent:
            self.ledger.saw(producer, size)

    def enqueue(self, body: bytes, producer: Producer | None = None, receipt: Receipt | None = None) -> Verdict:
        self.enqueued = number = self.enqueued + 1
        message = (number, body)
        self.ready.append(message)
        self.depth_messages = messages = self.depth_messages + 1
        self.depth_bytes = depth = self.depth_bytes + len(body)
        if depth > self.stop_bytes or messages > self.stop_messages:
            self.overflow.above(self)
        self.mark_touched(self)
        return TAKEN

    def drop_excess(self) -> None:
        """Drop the oldest messages until the depth is at or below the stop level. Messages of open transactions push
        nothing out before their commit."""
        limits, count = self.limits, 0
        while (
            self.depth_bytes - self.uncommitted_bytes > limits.stop_bytes
            or self.depth_messages - self.uncommitted_messages > limits.stop_messages
        ):
            if not self.drop_oldest():
                break  # all that is left is with consumers
            count += 1
        if count:
            self.dropped += count
            words = dropped_words(
                count,
                self.depth_bytes,
                self.depth_messages,
                level(limits.stop_bytes),
                level(limits.stop_messages),
            )
            self.state_fact("queue-dropped", words, {"messages": count})

    def drop_oldest(self) -> bool:
        """Drop the oldest message that no consumer has acquired; False if there is none."""
        if self.returned:
            self.forget(self.returned.pop(0))
        elif self.ready:
            self.forget(self.ready.popleft())
        else:
            return False
        return True

    # -- consuming --------------------------------------------------------------------------------------------

    def dispatch(self) -> list[tuple[Consumer, list[Message]]]:
        """Assign messages to consumers that have credit, in turns. What is returned is acquired by them."""
        batches: list[tuple[Consumer, list[Message]]] = []
        if self.browsers:
            looking = [b for b in self.browsers if b.credit > 0 and b.connection.writable]
            batches.extend((b, copies) for b in looking if (copies := self._browse(b)))
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
        for index, message in enumerate(self.returned):
            barred = self.excluded.get(message[0], ())
            consumer = next(
                (c for c in self.consumers if c.credit > 0 and c.connection.writable and c not in barred), None
            )
            if consumer is None and not barred:  # nobody is ready, and will not be for those after it
                if index == 0:
                    return
                waiting.extend(self.returned[index:])
                break
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
        """Copies of messages after the last that it saw, as far as it has credit. What a consumer holds is passed over,
        and not shown if it comes back."""
        copies = self.copies(browser.seen, browser.credit)
        if copies:
            browser.seen = copies[-1][0]
            browser.credit -= len(copies)
            browser.messages += len(copies)
        return copies

    def copies(self, seen: int, count: int) -> list[Message]:
        """The first `count` messages that no consumer holds, of those with numbers above `seen`."""
        ready = self.ready
        first = bisect_right(self.returned, seen, key=lambda m: m[0])
        copies = self.returned[first : first + count]
        if ready and len(copies) < count:
            # Numbers ascend, mostly without gaps: the place can be told, or is a little before.
            start = min(len(ready), max(0, seen + 1 - ready[0][0]))
            while start and ready[start - 1][0] > seen:
                start -= 1
            copies.extend(ready[i] for i in range(start, min(len(ready), start + count - len(copies))))
        return copies

    def remove(self, consumer: Consumer, message: Message) -> int:
        """A consumer has done with a message. 0: for good; else the ticket of the change that must be safe first, see
        `confirm`."""
        consumer.unacknowledged -= 1
        self.depth_messages -= 1
        self.depth_bytes -= len(message[1])
        self.dequeued += 1
        if self.deliveries:
            self.deliveries.pop(message[0], None)
            self.excluded.pop(message[0], None)
        if self.state is not NORMAL:
            self.measure()
        self.mark_touched(self)
        return 0

    def retire_stored(self, message: Message) -> None:
        """Buffer the removal of a consumer's message, as a part of a transaction; `retire` follows if it is done."""

    def retire(self, consumer: Consumer, message: Message) -> None:
        """A transaction has removed a consumer's message for good, in the store as well."""
        self.remove(consumer, message)

    def confirm(self, consumer: Consumer, ticket: int) -> None:
        """Tell the consumer, by a Removed effect, when the removal with this ticket is safe."""
        raise NotImplementedError

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
        for message in messages:
            self.forget(message)
        self.measure()
        self.turn.touched.add(self)
        return len(messages)

    def forget(self, message: Message) -> None:
        """A message goes that no consumer had; whoever calls measures afterwards."""
        self.discount(message[0], len(message[1]))

    def discount(self, number: int, size: int) -> None:
        self.depth_messages -= 1
        self.depth_bytes -= size
        self.dequeued += 1
        self.deliveries.pop(number, None)
        self.excluded.pop(number, None)

    def let_go(self) -> None:
        """The queue has been deleted."""

    # -- links ------------------------------------------------------------------------------------------------

    @property
    def consumer_count(self) -> int:
        return len(self.consumers) + len(self.browsers)

    @property
    def takers(self) -> list[Consumer]:
        """The consumers that take messages away: all but those that browse."""
        return list(self.consumers)

    def oldest(self) -> int | None:
        """Of the messages that no consumer holds the oldest: as so manieth of all did it come."""
        first = [each[0][0] for each in (self.returned, self.ready) if each]
        return min(first, default=None)

    @property
    def memory_bytes(self) -> int:
        """Bytes of the messages whose bodies are in memory."""
        return self.depth_bytes

    @property
    def unacknowledged(self) -> int:
        return self.depth_messages - self.uncommitted_messages - len(self.ready) - len(self.returned)

    def attach_consumer(self, consumer: Consumer) -> None:
        if consumer.browsing:
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
