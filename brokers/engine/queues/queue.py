"""A queue: producers publish to it, and consumers take from it what `contents.py` keeps in order.

Publishing checks the depth after the enqueue, in constant time; what follows from it is the gate's. A message's number
keeps its place for ever: one that comes back takes its old place.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from brokers.engine.flow.credit import Late
from brokers.engine.flow.overflow import Verdict
from brokers.engine.flow.producer import Producer
from brokers.engine.flow.table import State
from brokers.engine.flow.turn import CreditChanged, Turn
from brokers.engine.queues.choosing import dispatch_chosen
from brokers.engine.queues.consumer import BATCH, Consumer
from brokers.engine.queues.contents import Contents
from brokers.engine.queues.groups import Groups
from brokers.engine.queues.lanes import Line
from brokers.engine.values.message import NEVER, Message, sequence_of
from brokers.engine.values.outcomes import MAXIMUM, REJECTED

if TYPE_CHECKING:
    from brokers.engine.services.transaction import Enrolment

__all__ = ["BATCH", "Message", "Queue"]

#: Looked up for every message: members of an enumeration are slow to reach by their class.
NORMAL = State.NORMAL


class Queue(Contents):
    """See the module. `store_id`: what a store knows it by, no other queue having or having had it; 0: it is not
    durable. `transient`: it goes with those who use it, and no record of it is kept."""

    __slots__ = (
        "__weakref__",
        "browsers",
        "choosers",
        "consumers",
        "dead_lettered",
        "deleted",
        "discarded",
        "groups",
        "rate_in",
        "rate_out",
        "sampled",
        "store_id",
        "transient",
    )

    def __init__(self, virtualhost: str, name: str, turn: Turn) -> None:
        super().__init__(virtualhost, name, turn)
        self.consumers: deque[Consumer] = deque()  # in turns
        self.browsers: list[Consumer] = []
        self.choosers: deque[Consumer] = deque()  # consumers with a selector
        self.groups: Groups | None = None  # once a consumer has asked for them
        self.deleted = False
        self.store_id = 0
        self.dead_lettered = 0
        self.discarded = 0
        self.transient = False
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
        if self.keeps(body):
            producer.stored_at = producer.messages
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
        if producer.lacking is not None:
            return None  # it goes behind those that wait for a shortage to end
        self.turn.effects.append(CreditChanged(producer))
        if not self.state.stopped:
            return None
        # While an operator's stop is in force nothing more is accepted, not even what was on its way.
        self._tally(producer, len(body))
        self.wait_outside(producer, body, enrolment)
        return Verdict.HELD

    def _tally(self, producer: Producer, size: int) -> None:
        """As `publish` does."""
        producer.messages += 1
        producer.bytes += size
        if size > self.ledger.recent:
            self.ledger.saw(producer, size)

    # -- consuming --------------------------------------------------------------------------------------------

    def dispatch(self) -> list[tuple[Consumer, list[Message]]]:
        """Assign messages to consumers that have credit, in turns. What is returned is acquired by them."""
        batches: list[tuple[Consumer, list[Message]]] = []
        if self.deadlines.soonest <= self.turn.now:
            self.expire()
        if self.browsers:
            looking = [b for b in self.browsers if b.credit > 0 and b.connection.writable]
            batches.extend((b, copies) for b in looking if (copies := self._browse(b)))
        if self.choosers:
            dispatch_chosen(self, batches)
        for line in self.lines:
            if not self.serve(line, batches):
                break
        return batches

    def serve(self, line: Line, batches: list[tuple[Consumer, list[Message]]]) -> bool:
        """Assign the messages of a line. False: there are more to come, before those of lower priority."""
        if line.returned:
            self._dispatch_returned(line, batches)
        ready, consumers = line.ready, self.consumers
        while ready:
            if self.excluded and ready[0][0] in self.excluded:
                line.returned.append(ready.popleft())
                self._dispatch_returned(line, batches)
                continue
            consumer = self._next_consumer()
            if consumer is None:
                break
            count = min(consumer.credit, len(ready))
            if len(consumers) > 1 and count > BATCH:
                count = BATCH
            if self.excluded:
                count = next((at for at in range(count) if ready[at][0] in self.excluded), count)
            take = ready.popleft
            batches.append((consumer, [take() for _ in range(count)]))
            consumer.credit -= count
            consumer.messages += count
            consumer.unacknowledged += count
        return True

    def _next_consumer(self) -> Consumer | None:
        consumers = self.consumers
        for _ in range(len(consumers)):
            consumer = consumers[0]
            consumers.rotate(-1)
            if consumer.credit > 0 and consumer.connection.writable:
                return consumer
        return None

    def _dispatch_returned(self, line: Line, batches: list[tuple[Consumer, list[Message]]]) -> None:
        """Messages that came back go first, one by one, past consumers that must not have them."""
        waiting: list[Message] = []
        for index, message in enumerate(line.returned):
            barred = self.excluded.get(message[0], ())
            consumer = next(
                (c for c in self.consumers if c.credit > 0 and c.connection.writable and c not in barred), None
            )
            if consumer is None and not barred:  # nobody is ready, and will not be for those after it
                if index == 0:
                    return
                waiting.extend(line.returned[index:])
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
        line.returned = waiting

    def _browse(self, browser: Consumer) -> list[Message]:
        """Copies of messages after the last that it saw of each priority, as far as it has credit, and of those before
        whose delivery time has come since. What a consumer holds is passed over, and not shown if it comes back."""
        shown: list[Message] = []
        while browser.again and len(shown) < browser.credit:
            number = browser.again.pop(0)
            shown += [m for m in self.copies(self.line_of(number), number - 1, 1) if m[0] == number]
        if browser.selects is not None:
            shown = [m for m in shown if browser.selects(m[1])]
        browser.credit -= len(shown)
        browser.messages += len(shown)
        for line in self.lines:
            copies = self.copies(line, browser.seen_of(line.rank), browser.credit)
            if copies:
                browser.seen[line.rank] = copies[-1][0]
                if browser.selects is not None:
                    copies = [m for m in copies if browser.selects(m[1])]
                    self.turn.later.add(self)  # there may be more for its credit
                browser.credit -= len(copies)
                browser.messages += len(copies)
                shown += copies
            if line.backlog.last > browser.seen_of(line.rank):
                break  # there is more to come, before those of lower priority
        return shown

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
        if self.deadlines.at:
            self.deadlines.forget(message[0])
        if self.delayed.shown:
            self.delayed.shown.pop(sequence_of(message[0]), None)
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

    def reject(self, consumer: Consumer, message: Message, said: str = "") -> int:
        """A consumer will have a message neither now nor later: it goes to the dead-letter queue, or away. Returns as
        `remove` does. `said`: why, in the consumer's words."""
        ticket = self.turn.give_up(self, consumer, message, REJECTED, said)
        if ticket is None:  # there is nowhere to put it now
            self.put_back(consumer, message, barred=True)
        return ticket or 0

    def put_back(self, consumer: Consumer, message: Message, *, failed: bool = False, barred: bool = False) -> None:
        """A consumer gave a message back: it takes its old place. `failed`: counts as a failed delivery, and may have
        been one too many. `barred`: this consumer must not get it again."""
        number = message[0]
        if failed:
            self.deliveries[number] = count = self.deliveries.get(number, 0) + 1
            if count >= self.limits.maximum_deliveries > 0:
                gone = self.turn.give_up(self, consumer, message, MAXIMUM, "")
                if gone is not None:
                    return
        consumer.unacknowledged -= 1
        if barred:
            self.deliveries.setdefault(number, 0)
            self.excluded.setdefault(number, set()).add(consumer)
        self.restore(message)
        if self.deadlines.at and (at := self.deadlines.at.get(number, NEVER)) <= self.turn.now:
            self.expires(number, at)  # it fell due while the consumer had it
        for chooser in self.choosers:
            chooser.look_again(number)
        self.turn.touched.add(self)

    def hand_over(self, consumer: Consumer, message: Message, target: Queue, body: bytes) -> int:
        """Take a message that a consumer has out of this queue, and put what was made of it into another. Returns as
        `remove` does."""
        ticket = self.remove(consumer, message)
        target.enqueue(body)
        return ticket

    def let_go(self) -> None:
        """The queue has been deleted."""
        self.deleted = True
        self.footprint.clear()
        self.turn.expiring.discard(self)
        self.turn.delayed.discard(self)

    # -- links ------------------------------------------------------------------------------------------------

    @property
    def consumer_count(self) -> int:
        return len(self.consumers) + len(self.choosers) + len(self.browsers)

    def attached(self, consumer: Consumer) -> list[Consumer] | deque[Consumer]:
        """Those of its kind."""
        if consumer.browsing:
            return self.browsers
        return self.consumers if consumer.selects is None else self.choosers

    @property
    def takers(self) -> list[Consumer]:
        """The consumers that take messages away: all but those that browse."""
        return [*self.consumers, *self.choosers]

    def attach_consumer(self, consumer: Consumer) -> None:
        self.attached(consumer).append(consumer)
        self.turn.touched.add(self)

    def detach_consumer(self, consumer: Consumer) -> None:
        """Messages that it had acquired must have been put back before."""
        self.attached(consumer).remove(consumer)
        for barred in self.excluded.values():
            barred.discard(consumer)
        if self.groups is not None and self.groups.release(consumer):
            for chooser in self.choosers:
                chooser.look_anew()
        self.turn.touched.add(self)
