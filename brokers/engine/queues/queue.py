"""A queue: producers publish to it, and consumers receive its messages in order.

It is composed of a `FlowGate` (limits, blocked producers, credit), `PriorityLanes` (the messages), a `Storage` (their
bodies) and a `Dispatcher` (the consumers). Publishing checks the depth after the enqueue, in constant time, and leaves
the consequences to the gate. A message has the same number for as long as it is in the queue, so a returned message
goes back to its former place.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from brokers.engine.flow.credit import Late
from brokers.engine.flow.enrolment import Enrolment, Transaction
from brokers.engine.flow.explanation import release_conditions, shortage_reasons, turn_condition
from brokers.engine.flow.gate import FlowGate
from brokers.engine.flow.metering import Meter
from brokers.engine.flow.producer import Producer, Receipt
from brokers.engine.flow.table import State
from brokers.engine.flow.turn import CreditChanged, Turn
from brokers.engine.flow.usage import Resource, Usage
from brokers.engine.ports import Store
from brokers.engine.queues.agenda import Agenda
from brokers.engine.queues.arrivals import Arrivals
from brokers.engine.queues.consumer import BATCH, Batches, Consumer
from brokers.engine.queues.dispatching import Dispatcher
from brokers.engine.queues.durable_storage import DurableStorage
from brokers.engine.queues.lanes import PriorityLanes
from brokers.engine.queues.runs import Allowance, allowance, count_published
from brokers.engine.queues.storage import Storage
from brokers.engine.queues.transient_storage import TransientStorage
from brokers.engine.values.message import NEVER, PLAIN, Message, number_of, sequence_of
from brokers.engine.values.outcomes import MAXIMUM, REJECTED, Verdict
from brokers.engine.values.policy import Value
from brokers.model import ObjectName, object_name

__all__ = ["BATCH", "Message", "Queue"]

#: Used for every message: access to a member of an enumeration by its class is slow.
NORMAL, ACCEPTED = State.NORMAL, Verdict.ACCEPTED


class Queue:
    """`own`: the policy fields set on the queue itself. `store_id`: its number in the store, which is never reused; 0:
    it is not durable. `temp_id`: its number in the temp store. `durable`: its storage if it is durable, else None.
    `transient`: it is deleted with its last user, and has no record."""

    __slots__ = (
        "__weakref__",
        "_deadlines",
        "_delayed",
        "_deliveries",
        "_ledger",
        "_mark_touched",
        "_ready",
        "_unsafe",
        "_usual",
        "agenda",
        "arrivals",
        "dead_lettered",
        "deleted",
        "discarded",
        "dispatch",
        "dispatcher",
        "durable",
        "gate",
        "lanes",
        "memory_bytes",
        "name",
        "object_name",
        "own",
        "rate_in",
        "rate_out",
        "sampled",
        "storage",
        "store_id",
        "touch",
        "transient",
        "turn",
        "version",
        "virtualhost",
        "weigh_stores",
    )

    def __init__(
        self,
        virtualhost: str,
        name: str,
        agenda: Agenda[Queue],
        own: Mapping[str, Value],
        *,
        temp_id: int,
        store_id: int = 0,
        store: Store | None = None,
    ) -> None:
        self.virtualhost = virtualhost
        self.name = name
        self.object_name: ObjectName = object_name("Queue", virtualhost=virtualhost, name=name)
        self.agenda = agenda
        self.turn: Turn = agenda.turn
        self.own = dict(own)
        self.version = 1
        self.store_id = store_id
        self.transient = False
        self.deleted = False
        self.dead_lettered = 0
        self.discarded = 0
        self.rate_in = 0.0
        self.rate_out = 0.0
        self.arrivals = Arrivals(self.turn.now)
        self.sampled = (0, 0)  # enqueued, dequeued at the last sample
        # Bound once, since they are called in every turn.
        self.touch: Callable[[], None] = partial(agenda.touched.add, self)
        self.dispatcher = Dispatcher()
        self.gate = FlowGate(virtualhost, name, self.turn, self)
        self.lanes = lanes = PriorityLanes(self, self.gate, agenda, self.dispatcher.revisit)
        self.durable = (
            DurableStorage(lanes, temp_id, store, store_id, self.dispatcher.has_credit)
            if store_id and store is not None
            else None
        )
        self.storage: Storage = self.durable or TransientStorage(lanes, temp_id)
        lanes.storage = self.storage
        self.memory_bytes = lanes.memory_bytes
        self.weigh_stores = self.storage.weigh
        #: See `Dispatcher.dispatch`.
        self.dispatch: Callable[[], Batches] = partial(self.dispatcher.dispatch, lanes)
        # Bound once, since they are used for every message; none of these objects is ever replaced.
        self._mark_touched: Callable[[Queue], None] = agenda.touched.add
        self._ledger = self.gate.ledger
        self._usual = lanes.usual
        self._ready = lanes.usual.ready
        self._unsafe = self.storage.unsafe
        self._deliveries = lanes.deliveries
        self._deadlines = lanes.deadlines
        self._delayed = lanes.delayed

    # -- gate.Contents ----------------------------------------------------------------------------------------

    def watch(self) -> None:
        self.agenda.watched.add(self)

    def note_change(self) -> None:
        self.agenda.changed.add(self)

    @property
    def spooling(self) -> bool:
        return self.storage.spooling

    def usages(self, meter: Meter) -> tuple[tuple[Usage, ...], tuple[Usage, ...]]:
        return self.storage.usages(meter)

    def resource_of(self, body: bytes) -> Resource:
        return self.storage.resource_of(body)

    def resources(self, producer: Producer) -> tuple[Resource, ...]:
        return self.storage.resources(producer)

    def drop_excess(self) -> None:
        self.lanes.drop_excess()

    # -- publishing -------------------------------------------------------------------------------------------

    def publish(self, producer: Producer, body: bytes) -> Verdict:
        """Publish a message of a producer, which must have credit."""
        ledger = self._ledger
        credit = producer.credit
        if credit:
            producer.credit = credit = credit - 1
            ledger.reserved -= 1
            if credit <= producer.low and not producer.waiting:
                ledger.request(producer)
        else:
            late = self._publish_late(producer, body)
            if late is not None:
                return late
        size = len(body)
        producer.messages += 1
        producer.bytes += size
        if size > ledger.recent:
            ledger.note_size(producer, size)
        if self.gate.active_overflow is not None:
            return self.gate.intercept(producer, body)
        return self.enqueue(body, producer)

    def publish_in(self, enrolment: Enrolment, producer: Producer, body: bytes) -> Verdict:
        """Publish a message in a transaction: it counts in the depth at once, and is visible after the commit."""
        ledger = self._ledger
        if producer.credit:
            producer.credit -= 1
            ledger.reserved -= 1
            if producer.credit <= producer.low:
                ledger.request(producer)
        else:
            late = self._publish_late(producer, body, enrolment)
            if late is not None:
                return late
        self._tally(producer, len(body))
        if self.is_durable(body):
            producer.stored_at = producer.messages
        if self.gate.active_overflow is not None:
            return self.gate.intercept(producer, body, enrolment)
        return self.enrol(body, enrolment)

    def abort(self, producer: Producer) -> None:
        """Use up the credit of a message that the producer aborted."""
        if producer.credit:
            producer.credit -= 1
            self._ledger.reserved -= 1
            self._ledger.request(producer)
        self.touch()

    def _publish_late(self, producer: Producer, body: bytes, enrolment: Enrolment | None = None) -> Verdict | None:
        """Handle a message of a producer without credit. Return None if it can be published like any other."""
        late = self._ledger.late(producer, self.turn.now)
        if late is Late.NEVER:
            return Verdict.NO_CREDIT
        if producer.stopped:
            self.turn.effects.append(CreditChanged(producer.handle))
            self._tally(producer, len(body))
            self.gate.parking.park_stopped(producer, body, enrolment)
            return Verdict.PENDING
        if producer.awaited is not None:
            return None  # it is parked behind messages that wait for a shortage to end
        self.turn.effects.append(CreditChanged(producer.handle))
        if not self.gate.state.stopped:
            return None
        # While an operator's stop applies, messages in flight are not accepted either.
        self._tally(producer, len(body))
        self.gate.parking.park(producer, body, enrolment)
        return Verdict.PENDING

    def _tally(self, producer: Producer, size: int) -> None:
        """Count a message of the producer, as `publish` does."""
        producer.messages += 1
        producer.bytes += size
        if size > self._ledger.recent:
            self._ledger.note_size(producer, size)

    def enqueue(self, body: bytes, producer: Producer | None = None, receipt: Receipt | None = None) -> Verdict:
        """Add a message and check the depth after it. Return ACCEPTED, or PENDING for a message that its store has yet
        to confirm: then the store resolves `receipt`, or a new receipt of `producer`."""
        header = self.turn.header(body)
        if header is not PLAIN or self._unsafe:
            return self.storage.place(header, body, producer, receipt)
        # The same as `TransientStorage.place`, inlined for the usual message.
        gate = self.gate
        gate.enqueued = number = gate.enqueued + 1
        if self._usual.deep:
            self.lanes.put_behind(self._usual, number, body)
        else:
            self._ready.append((number, body))
        gate.depth_messages = messages = gate.depth_messages + 1
        gate.depth_bytes = depth = gate.depth_bytes + len(body)
        if depth > gate.stop_bytes or messages > gate.stop_messages:
            gate.above()
        self._mark_touched(self)
        return ACCEPTED

    def run_allowance(self, producer: Producer) -> Allowance:
        """Return how long the producer's next run may be, see `runs.py`."""
        return allowance(self.gate, producer)

    def publish_run(self, producer: Producer, bodies: list[bytes], size: int, *, durable: bool) -> Verdict:
        """Publish a run within its allowance: ordinary messages, all durable or none; `size`: the sum of their bytes.
        Return ACCEPTED or PENDING for all of them."""
        count_published(self._ledger, producer, len(bodies), size)
        if self.durable is not None and (durable or self._unsafe):
            return self.durable.place_run(producer, bodies, size, durable=durable)
        self._enqueue_run(bodies, size)
        return ACCEPTED

    def _enqueue_run(self, bodies: Sequence[bytes], size: int) -> None:
        """Add a run of transient messages, which wait for no store."""
        if self._usual.deep:
            for body in bodies:
                self.enqueue(body)
            return
        self._ready.extend(enumerate(bodies, self.lanes.count_run(len(bodies), size)))
        self.gate.check_depth()

    def spool(self, body: bytes, producer: Producer | None = None, receipt: Receipt | None = None) -> Verdict:
        """Add a message, with its body to the temp store."""
        self.lanes.lane_of(number_of(0, self.turn.header(body).priority)).deep = True
        return self.enqueue(body, producer, receipt)

    # -- transactions -----------------------------------------------------------------------------------------

    def enrol(self, body: bytes, enrolment: Enrolment) -> Verdict:
        """Count a message of an open transaction, and check the depth after it."""
        self.gate.count_uncommitted(1, len(body))
        enrolment.transaction.add_published(self, body)
        self.gate.check_depth()
        return ACCEPTED

    def enrol_run(
        self, transaction: Transaction, producer: Producer, bodies: Sequence[bytes], size: int, *, durable: bool
    ) -> None:
        """Publish a run within its allowance in an open transaction, as `publish_in` does each message."""
        count_published(self._ledger, producer, len(bodies), size)
        if durable and self.durable is not None:
            producer.stored_at = producer.messages
        self.gate.count_uncommitted(len(bodies), size)
        transaction.add_published_run(self, bodies, size, durable=durable)
        self.gate.check_depth()

    def commit(self, body: bytes) -> None:
        """Enqueue a message of a committed transaction that needs no store."""
        self.gate.count_uncommitted(-1, -len(body))
        if self.storage.spooling:
            self.spool(body)
        else:
            self.enqueue(body)

    def commit_run(self, bodies: Sequence[bytes], size: int) -> None:
        """As `commit`, with all messages of a run."""
        if self.storage.spooling or self._unsafe:
            for body in bodies:
                self.commit(body)
            return
        self.gate.count_uncommitted(-len(bodies), -size)
        self._enqueue_run(bodies, size)

    def commit_stored(self, body: bytes, ticket: int, transaction: int) -> bool:
        """Store a message of a transaction, in the group with this ticket. Return True if it becomes visible, or is
        dropped, when the store has answered; False if the queue is not durable: `commit` or `FlowGate.roll_back`
        follows.
        """
        if self.durable is None:
            return False
        self.durable.commit(body, ticket, transaction)
        return True

    def commit_run_stored(
        self, bodies: Sequence[bytes], size: int, ticket: int, transaction: int, *, durable: bool
    ) -> bool:
        """As `commit_stored`, with all messages of a run."""
        if self.durable is None:
            return False
        self.durable.commit_run(bodies, size, ticket, transaction, durable=durable)
        return True

    def is_durable(self, body: bytes) -> bool:
        """Return whether the message is durable, and so is or will be in the store."""
        return self.durable is not None and self.durable.is_durable(body)

    def buffer_removal(self, message: Message) -> None:
        """Buffer the removal of an acquired message, as part of a transaction; `retire` follows the commit."""
        if self.durable is not None:
            self.durable.buffer_removal(message)

    def retire(self, consumer: Consumer, message: Message) -> None:
        """Remove an acquired message that a committed transaction has removed from the store."""
        self.remove(consumer, message, in_store=False)
        if self.durable is not None:
            self.durable.retire(message)

    # -- consuming --------------------------------------------------------------------------------------------

    def remove(self, consumer: Consumer, message: Message, *, in_store: bool = True) -> int:
        """Remove a message that a consumer has settled. Return the ticket of the change that must be safe first, see
        `confirm`; 0: none. `in_store`: False if another change removes it from the store."""
        number, body = message
        consumer.unacknowledged -= 1
        gate = self.gate
        gate.depth_messages -= 1
        gate.depth_bytes -= len(body)
        lanes = self.lanes
        lanes.dequeued += 1
        if self._deliveries:
            self._deliveries.pop(number, None)
            lanes.excluded.pop(number, None)
        if self._deadlines.at:
            self._deadlines.forget(number)
        if self._delayed.visible_since:
            self._delayed.visible_since.pop(sequence_of(number), None)
        if gate.state is not NORMAL:
            gate.measure()
        self._mark_touched(self)
        if self.durable is not None and in_store:
            return self.durable.remove(message)
        return 0

    def acknowledge_run(self, consumer: Consumer, messages: list[Message]) -> None:
        """Remove messages that a consumer has accepted and settled."""
        if self._deliveries or self._deadlines.at or self._delayed.visible_since:
            for message in messages:
                self.remove(consumer, message)
            return
        gate, count = self.gate, len(messages)
        consumer.unacknowledged -= count
        self.lanes.dequeued += count
        size = sum([len(body) for _, body in messages])
        if gate.state is NORMAL or gate.stays_overfull(count, size):
            gate.depth_messages -= count
            gate.depth_bytes -= size
        else:
            for _, body in messages:
                gate.depth_messages -= 1
                gate.depth_bytes -= len(body)
                if gate.state is not NORMAL:
                    gate.measure()
        self._mark_touched(self)
        if self.durable is not None:
            self.durable.remove_run(messages)

    def confirm(self, consumer: Consumer, ticket: int) -> None:
        """Leave a Removed effect once the removal with this ticket is safe."""
        assert self.durable is not None  # no other removal has a ticket
        self.durable.confirm(consumer, ticket)

    def reject(self, consumer: Consumer, message: Message, words: str = "") -> int:
        """Dead-letter or discard a message that a consumer rejects. Return as `remove` does. `words`: the consumer's
        error."""
        ticket = self.agenda.dead_letter(self, consumer, message, REJECTED, words)
        if ticket is None:  # the dead-letter queue cannot take it now
            self.put_back(consumer, message, barred=True)
        return ticket or 0

    def put_back(self, consumer: Consumer, message: Message, *, failed: bool = False, barred: bool = False) -> None:
        """Put a message that a consumer returns at its former place. `failed`: counts as a failed delivery, and
        exceeding the maximum dead-letters the message. `barred`: this consumer must not get it again."""
        number, lanes = message[0], self.lanes
        count = 0
        if failed:
            lanes.deliveries[number] = count = lanes.deliveries.get(number, 0) + 1
            if count >= self.gate.limits.maximum_deliveries > 0:
                ticket = self.agenda.dead_letter(self, consumer, message, MAXIMUM, "")
                if ticket is not None:
                    return
        consumer.unacknowledged -= 1
        if barred:
            lanes.deliveries.setdefault(number, 0)
            lanes.excluded.setdefault(number, set()).add(consumer)
        self.restore(message)
        if count and self.durable is not None:
            self.durable.fail(message, count)

    def restore(self, message: Message) -> None:
        """Put a message that is part of the queue, and in no lane, at its former place."""
        number, lanes = message[0], self.lanes
        lanes.restore(message)
        if lanes.deadlines.at and (at := lanes.deadlines.at.get(number, NEVER)) <= self.turn.now:
            lanes.expires(number, at)  # it expired while it was acquired
        for chooser in self.dispatcher.choosers:
            chooser.revisit(number)
        self.touch()

    def hand_over(self, consumer: Consumer, message: Message, target: Queue, body: bytes) -> int:
        """Move an acquired message to another queue, with this body. Return as `remove` does. Not for a message that
        the other queue must store first: see `leaving.py`."""
        source, durable = self.durable, target.durable
        if source is None or durable is None or not source.stored or not source.is_durable(message[1]):
            ticket = self.remove(consumer, message)
            target.enqueue(body)
            return ticket
        self.remove(consumer, message, in_store=False)
        return source.move(message, durable, body)

    @property
    def failed_deliveries(self) -> Mapping[int, int]:
        """Message number -> failed deliveries, if not 0."""
        return self.lanes.deliveries

    @property
    def expiries(self) -> Mapping[int, int]:
        """Message number -> expiry in ms, for messages that expire and whose bodies were in memory."""
        return self.lanes.deadlines.at

    def arrived_at(self, number: int) -> int | None:
        """Return when a message of the queue arrived, in ms of the engine's time; None: not known."""
        return self.arrivals.at(sequence_of(number), self.agenda.marked_at)

    # -- links ------------------------------------------------------------------------------------------------

    @property
    def consumer_count(self) -> int:
        return len(self.dispatcher)

    def attach_consumer(self, consumer: Consumer) -> None:
        self.dispatcher.of_kind(consumer).append(consumer)
        self.touch()

    def detach_consumer(self, consumer: Consumer) -> None:
        """Detach a consumer, whose acquired messages must have been put back before."""
        self.dispatcher.detach(consumer)
        for barred in self.lanes.excluded.values():
            barred.discard(consumer)
        for lane in self.lanes.lanes:
            lane.aside_for.discard(consumer)
        self.touch()

    def detach_producer(self, producer: Producer) -> None:
        """Remove a producer whose link has ended."""
        self.gate.detach_producer(producer)

    def credit_returned(self, producer: Producer, count: int) -> None:
        """Take back `count` credits that the client returned in answer to a drain."""
        self.gate.credit_returned(producer, count)

    def credit_forgone(self, producer: Producer, count: int) -> None:
        """Take back `count` credits that the client used up without sending messages."""
        self.gate.credit_forgone(producer, count)

    def must_store(self, message: Message, source: Queue) -> bool:
        """Return whether a message of another queue would have to be stored to move here."""
        return source.durable is None and self.is_durable(message[1])

    @property
    def has_room_in_store(self) -> bool:
        """Whether its store takes further messages now, as is known."""
        return self.durable is not None and not self.durable.store.full and self.gate.admits(Resource.STORE)

    def refuses(self, body: bytes) -> bool:
        """Return whether the message would be rejected now."""
        return self.gate.refuses(body)

    def event_attributes(self) -> dict[str, Any]:
        """Return the attributes of every event of this queue."""
        return self.gate.event_attributes()

    def shortage_reasons(self) -> list[str]:
        """Return the shortages that cause rejections; empty if the queue is overfull as well."""
        return shortage_reasons(self.gate)

    def turn_condition(self, now: int) -> str:
        """Say what an unblocked producer without credit waits for. `now` in ms."""
        return turn_condition(self.gate, now)

    def release_conditions(self, reasons: Collection[str]) -> Iterator[str]:
        """Say for each of these reasons what would end it."""
        return release_conditions(self.gate, reasons)

    # -- time -------------------------------------------------------------------------------------------------

    def sweep(self) -> bool:
        """Take back unused credit, and retry a backlog that could not be read. Return False if nothing is left to
        do."""
        more = self.gate.sweep()
        dispatcher = self.dispatcher
        unread = dispatcher.has_credit() and any(lane.deep and not lane.ready for lane in self.lanes.lanes)
        if unread or dispatcher.sparing:
            self.touch()
            return True
        return more

    def close(self) -> None:
        """Drop all messages of the queue, which is deleted. They are freed in later turns."""
        self.storage.drop_all()
        self.lanes.discard_all()
        self.deleted = True
        self.gate.footprint.clear()
        self.agenda.forget(self)
