"""The storage of a durable queue: durable messages are stored before they are accepted and visible, until settled.

A message is first in `unsafe` (buffered, not on disk, invisible), then in its lane, or in the backlog if the lane is
deep; bodies of the backlog stay in the store until they are dispatched. Messages that are not durable are never stored;
their `TransientStorage` has them, in the order of the lane. The store confirms changes through `committed`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence

from brokers.engine.flow.metering import Meter
from brokers.engine.flow.producer import Producer, Receipt
from brokers.engine.flow.turn import Removed
from brokers.engine.flow.usage import Resource, Usage
from brokers.engine.ports import Store
from brokers.engine.queues.backlog import STORE, Entry
from brokers.engine.queues.consumer import Consumer
from brokers.engine.queues.lane import PriorityLane
from brokers.engine.queues.lanes import PriorityLanes
from brokers.engine.queues.purging import Taken
from brokers.engine.queues.storage import Unsafe, UnsafeRun
from brokers.engine.queues.transient_storage import TransientStorage
from brokers.engine.values.message import DELAYED, NEVER, Header, Message, sequence_of
from brokers.engine.values.outcomes import Outcome, Verdict

#: Above this number of ready messages, or of bytes in memory, further bodies stay in the store.
READY_MESSAGES = 4096
READY_BYTES = 4 << 20

#: How many times as many stay in memory while a consumer has credit for them, since they would be read again at once:
#: eight producers have as much as that written in one group.
WANTED = 4


class DurableStorage:
    """See `storage.Storage`. `store_id`: the number of the queue in the store. `has_credit`: returns whether a consumer
    has credit for the next message."""

    __slots__ = (
        "_awaited",
        "_gate",
        "_has_credit",
        "_lanes",
        "_purged",
        "_transient",
        "_turn",
        "removing",
        "store",
        "store_id",
        "stored",
        "unsafe",
    )

    def __init__(
        self, lanes: PriorityLanes, temp_id: int, store: Store, store_id: int, has_credit: Callable[[], bool]
    ) -> None:
        self._lanes = lanes
        self._gate = lanes.gate
        self._turn = lanes.turn
        self._has_credit = has_credit
        self._transient = TransientStorage(lanes, temp_id)
        self.removing: deque[tuple[int, Consumer]] = deque()  # settled, not confirmed to their consumers yet
        self._awaited: deque[tuple[int, Callable[[], None]]] = deque()  # changes that are not safe yet
        self._purged = 0  # messages of purges that may be among those of `stored`
        self.store = store
        self.store_id = store_id
        self.stored = 0
        self.unsafe: deque[Unsafe | UnsafeRun] = deque()

    @property
    def spooling(self) -> bool:
        return self._transient.spooling

    # -- what is used -------------------------------------------------------------------------------------------

    def usages(self, meter: Meter) -> tuple[tuple[Usage, ...], tuple[Usage, ...]]:
        return self._transient.usages(meter)[0], (meter.store, meter.quota)

    def resource_of(self, body: bytes) -> Resource:
        return Resource.STORE if self.is_durable(body) else self._transient.resource

    def resources(self, producer: Producer) -> tuple[Resource, ...]:
        if not producer.messages:
            return (Resource.STORE, self._transient.resource)
        return (Resource.STORE,) if producer.persistent else (self._transient.resource,)

    def weigh(self, meter: Meter) -> None:
        self._transient.weigh(meter)
        meter.count_store(self.store)

    def has_room(self, lane: PriorityLane) -> bool:
        return (
            not self._transient.spooling
            and self._lanes.memory_bytes() <= READY_BYTES
            and len(lane.ready) < READY_MESSAGES
        )

    # -- messages in --------------------------------------------------------------------------------------------

    def is_durable(self, body: bytes) -> bool:
        """Return whether the message is durable, and so is or will be in the store."""
        return self._turn.header(body).durable

    def place(self, header: Header, body: bytes, producer: Producer | None, receipt: Receipt | None) -> Verdict:
        if header.durable:
            return self._store(header, body, producer, receipt)
        if not self.unsafe:
            return self._transient.place(header, body, producer, receipt)
        header, body = self._lanes.timed(header, body)
        self.unsafe.append(Unsafe(self._lanes.count(header, body), body, self.unsafe[-1].ticket, stored=False))
        self._gate.check_depth()
        return Verdict.ACCEPTED

    def _store(self, header: Header, body: bytes, producer: Producer | None, receipt: Receipt | None) -> Verdict:
        header, body = self._lanes.timed(header, body)
        number = self._lanes.count(header, body)
        if receipt is None and producer is not None:
            receipt = self._gate.settlement.defer(producer, 0)
        if receipt is not None:
            receipt.pending += 1
            receipt.producer.stored_at = receipt.producer.messages
        ticket = self.store.put(self.store_id, number, body, self._expiry(number))
        self._wait(Unsafe(number, body, ticket, receipt, stored=True))
        return Verdict.PENDING

    def receive(self, header: Header, body: bytes, answered: Callable[[bool], None]) -> None:
        """Add a durable message of a queue that is not durable, and has it until the store has answered. `answered`:
        called with whether it is stored."""
        header, body = self._lanes.timed(header, body)
        number = self._lanes.count(header, body)
        ticket = self.store.put(self.store_id, number, body, self._expiry(number))
        self._wait(Unsafe(number, body, ticket, stored=True, answered=answered))

    def place_run(self, producer: Producer, bodies: list[bytes], size: int, *, durable: bool) -> Verdict:
        """Add a run of durable messages, or a transient one behind messages that the store has not confirmed. `size`:
        of all bodies, in bytes."""
        count, gate = len(bodies), self._gate
        first = self._lanes.count_run(count, size)
        if not durable:
            self.unsafe.append(UnsafeRun(first, bodies, size, self.unsafe[-1].ticket, None, stored=False))
            gate.check_depth()
            return Verdict.ACCEPTED
        receipt = gate.settlement.defer(producer, 1, count)
        producer.stored_at = producer.messages
        ticket = self.store.put_run(self.store_id, first, bodies, size)
        self._wait(UnsafeRun(first, bodies, size, ticket, receipt, stored=True))
        return Verdict.PENDING

    def _adopt(self, body: bytes, header: Header, queue: int, number: int) -> int:
        """Move a message of another queue in the same store to this one; its body may change. Return the ticket."""
        place = self._lanes.count(header, body)
        ticket = self.store.move((queue, number), (self.store_id, place), body, self._expiry(place))
        self._wait(Unsafe(place, body, ticket, stored=True, moved=True))
        return ticket

    def commit(self, body: bytes, ticket: int, transaction: int) -> None:
        """Store a message of a transaction, in the group with this ticket. It becomes visible, or is dropped, when the
        store has answered."""
        self._gate.count_uncommitted(-1, -len(body))
        header, body = self._lanes.timed(self._turn.header(body), body)
        number = self._lanes.count(header, body)
        if header.durable:
            self.store.put(self.store_id, number, body, self._expiry(number))
        self._wait(Unsafe(number, body, ticket, stored=header.durable, transaction=transaction))

    def commit_run(self, bodies: Sequence[bytes], size: int, ticket: int, transaction: int, *, durable: bool) -> None:
        """As `commit`, with all messages of a run, all durable or none."""
        self._gate.count_uncommitted(-len(bodies), -size)
        first = self._lanes.count_run(len(bodies), size)
        if durable:
            self.store.put_run(self.store_id, first, bodies, size)
        self._wait(UnsafeRun(first, bodies, size, ticket, None, stored=durable, transaction=transaction))

    def _wait(self, unsafe: Unsafe | UnsafeRun) -> None:
        if unsafe.stored:
            self.stored += unsafe.count
        self.unsafe.append(unsafe)
        self._lanes.agenda.unsafe.add(self._lanes.queue)
        self._gate.check_depth()

    def _expiry(self, number: int) -> int:
        """Return the expiry for the store, as a time of day, since the next start begins with it; with DELAYED for a
        message with a delivery time."""
        at = self._lanes.deadlines.at.get(number)
        delayed = DELAYED if number in self._lanes.delayed.arriving else 0
        return delayed if at is None else delayed | max(1, at + self._turn.ahead)

    def recover(self, number: int, size: int, failed: int, expires: int) -> None:
        """Add a stored message of an earlier run, in order of the numbers. The caller checks the depth afterwards."""
        gate, lanes = self._gate, self._lanes
        gate.enqueued = max(gate.enqueued, sequence_of(number))
        gate.depth_messages += 1
        gate.depth_bytes += size
        self.stored += 1
        if failed:
            lanes.deliveries[number] = failed
        if expires & DELAYED:
            expires -= DELAYED
            if expires:
                lanes.expires(number, expires)
            lanes.delayed.add_unread((number, size, STORE, None, expires or NEVER))
            lanes.agenda.delay(lanes.queue, lanes.turn.now)  # it is not known
            return
        lane = lanes.lane_of(number)
        lane.backlog.append(number, size, STORE, None, expires or NEVER)
        lane.deep = True
        if expires:
            lanes.agenda.expiring.add(lanes.queue)

    # -- confirmations of the stores ----------------------------------------------------------------------------

    def committed(self, ticket: int, *, stored: bool, removed: bool, refused: Collection[int] = ()) -> bool:
        """Handle the store's answer for all changes up to this ticket: whether messages are stored, whether other
        changes are safe, and which transactions were refused. Return False if no change is left to confirm."""
        unsafe, lost, pending = self.unsafe, False, list[Unsafe]()
        while unsafe and unsafe[0].ticket <= ticket:
            each = unsafe.popleft()
            if isinstance(each, UnsafeRun):
                if each.transaction in refused if each.transaction else each.stored and not stored:
                    self._lose_run(each)
                    lost = True
                else:
                    self._make_run_visible(each)
                continue
            if each.moved and not removed:
                each.late = True  # the store retries
                pending.append(each)
                continue
            if each.transaction in refused if each.transaction else each.stored and not (each.moved or stored):
                self._lose(each)
                lost = True
                continue
            self._make_visible(each)
            if each.receipt is not None:
                self._gate.settlement.resolve(each.receipt, Outcome.ACCEPTED)
            if each.answered is not None:
                each.answered(True)
        unsafe.extendleft(reversed(pending))
        if lost:
            self._gate.measure()
        if removed:
            self._confirm(ticket)
        self._gate.touch()
        return bool(unsafe or self.removing or self._awaited)

    def _make_visible(self, each: Unsafe) -> None:
        number, body = each.number, each.body
        lanes = self._lanes
        lane, expires = lanes.lane_of(number), lanes.deadlines.at.get(number, NEVER)
        if lanes.delay(number, body, stored=each.stored):
            pass
        elif each.late:
            lanes.restore((number, body))
            lanes.announce(number)
        elif each.stored and not self._room(lane):
            lanes.deadlines.forget(number)
            lane.backlog.append(number, len(body), STORE, None, expires)
            lane.deep = True
        else:
            lanes.make_visible(number, body)
        if expires <= self._turn.now:
            lanes.expires(number, expires)  # expired meanwhile

    def _room(self, lane: PriorityLane) -> int:
        """Return how many messages that are stored may stay in memory for this lane."""
        if lane.deep:
            return 0
        times = WANTED if self._has_credit() and not self._gate.footprint.meter.memory.exhausted else 1
        if self._lanes.memory_bytes() > times * READY_BYTES:
            return 0
        return max(0, times * READY_MESSAGES - len(lane.ready))

    def _make_run_visible(self, run: UnsafeRun) -> None:
        """As `_make_visible` does with each message of the run."""
        lanes, lane = self._lanes, self._lanes.usual
        messages = list(enumerate(run.bodies, run.number))
        if lane.deep and not run.stored:
            for number, body in messages:
                lanes.put_behind(lane, number, body)
            return
        fits = self._room(lane) if run.stored else len(messages)
        lane.ready.extend(messages[:fits])
        for number, body in messages[fits:]:
            lane.backlog.append(number, len(body), STORE)
            lane.deep = True
        if run.receipt is not None:
            self._gate.settlement.resolve(run.receipt, Outcome.ACCEPTED)

    def _lose_run(self, run: UnsafeRun) -> None:
        """Drop a run that the store has refused."""
        gate, count = self._gate, run.count
        gate.depth_messages -= count
        gate.depth_bytes -= run.size
        if not run.transaction:
            gate.rejected += count
        if run.stored:
            self.stored -= count
        if run.receipt is not None:
            gate.settlement.resolve(run.receipt, Outcome.NOT_STORED)

    def _lose(self, each: Unsafe) -> None:
        """Drop a message that the store has refused."""
        self._gate.depth_messages -= 1
        self._gate.depth_bytes -= len(each.body)
        self.stored -= each.stored
        self._gate.rejected += not each.transaction and each.answered is None
        self._lanes.deadlines.forget(each.number)
        self._lanes.delayed.arriving.pop(each.number, None)
        if each.receipt is not None:
            self._gate.settlement.resolve(each.receipt, Outcome.NOT_STORED)
        if each.answered is not None:
            each.answered(False)

    def _confirm(self, ticket: int) -> None:
        while self._awaited and self._awaited[0][0] <= ticket:
            self._awaited.popleft()[1]()
        removing, confirmed = self.removing, dict[Consumer, int]()
        while removing and removing[0][0] <= ticket:
            _, consumer = removing.popleft()
            confirmed[consumer] = confirmed.get(consumer, 0) + 1
        self._turn.effects.extend(Removed(consumer.handle, count) for consumer, count in confirmed.items())

    def spooled(self, ticket: int, *, stored: bool) -> bool:
        return self._transient.spooled(ticket, stored=stored)

    # -- messages out -------------------------------------------------------------------------------------------

    def spool(self, number: int, body: bytes) -> None:
        self._transient.spool(number, body)

    def entry(self, number: int, body: bytes, expires: int) -> Entry:
        if self.is_durable(body):
            return number, len(body), STORE, None, expires
        return self._transient.entry(number, body, expires)

    def bodies(self, found: list[Entry]) -> dict[int, bytes] | None:
        bodies = self._transient.bodies(found)
        stored = [number for number, _, place, *_ in found if place == STORE]
        if bodies is None or not stored:
            return bodies
        loaded = self.store.load(self.store_id, stored)
        return None if loaded is None else bodies | loaded

    def loaded(self, number: int, place: int) -> None:
        self._transient.loaded(number, place)

    def forget(self, message: Message) -> None:
        self.remove(message)

    def forget_entry(self, entry: Entry) -> None:
        self._transient.forget_entry(entry)
        if entry[2] == STORE:
            self.stored -= 1
            self.store.remove(self.store_id, entry[0])

    def remove(self, message: Message) -> int:
        """Remove a message. Return the ticket of the change that must be safe first; 0: it was not stored."""
        if not self.stored or not self.is_durable(message[1]):
            return 0
        self.stored -= 1
        return self.store.remove(self.store_id, message[0])

    def remove_run(self, messages: Sequence[Message]) -> None:
        """Remove messages that are no longer part of the depth; their consumer waits for no confirmation."""
        if not self.stored:
            return
        gate = self._gate
        others = gate.depth_messages - gate.uncommitted_messages + self._purged
        all_durable = self.stored >= others + len(messages)
        numbers = [number for number, body in messages if all_durable or self.is_durable(body)]
        if numbers:
            self.stored -= len(numbers)
            self.store.remove_run(self.store_id, numbers)

    def confirm(self, consumer: Consumer, ticket: int) -> None:
        """Leave a Removed effect once the removal with this ticket is safe."""
        self.removing.append((ticket, consumer))
        self._lanes.agenda.unsafe.add(self._lanes.queue)

    def purge(self, taken: Taken) -> int:
        self._transient.purge(taken)
        stored, ticket = taken.count_at(STORE), 0
        if stored:
            for numbers in taken.behind():
                ticket = self.store.purge(self.store_id, numbers)
        self.stored -= stored
        if self.stored:  # which of those in memory are durable takes long to find out: the store ignores the others
            for numbers in taken.ahead():
                ticket = self.store.purge(self.store_id, numbers)
            self._purged += taken.in_memory
            taken.reports = True
        return ticket

    def left(self, messages: list[Message]) -> None:
        self._purged -= len(messages)
        self.stored -= sum(1 for _, body in messages if self.is_durable(body))

    def when_safe(self, ticket: int, then: Callable[[], None]) -> None:
        """Call `then` once the changes with this ticket, and earlier ones, are safe, or were refused."""
        self._awaited.append((ticket, then))
        self._lanes.agenda.unsafe.add(self._lanes.queue)

    def buffer_removal(self, message: Message) -> None:
        """Buffer the removal of an acquired message, as part of a transaction; `retire` follows the commit."""
        if self.stored and self.is_durable(message[1]):
            self.store.remove(self.store_id, message[0])

    def retire(self, message: Message) -> None:
        """Count the removal of an acquired message by a committed transaction."""
        self.stored -= bool(self.stored and self.is_durable(message[1]))

    def fail(self, message: Message, count: int) -> None:
        """Store the number of failed deliveries of a message."""
        if self.is_durable(message[1]):
            self.store.fail(self.store_id, message[0], count)

    def move(self, message: Message, target: DurableStorage, body: bytes, header: Header | None = None) -> int:
        """Move a message that is in no lane to another queue, with another body, in one change of the store. Return the
        ticket. `header`: None: that of the body."""
        self.stored -= 1
        return target._adopt(body, header or self._turn.header(body), self.store_id, message[0])

    def drop_all(self) -> None:
        """Remove all messages; the links that would get their outcomes are detached."""
        self.store.drop_queue(self.store_id)
        refused = [each.answered for each in self.unsafe if isinstance(each, Unsafe) and each.answered is not None]
        self.unsafe.clear()
        for answered in refused:
            answered(False)
        self.removing.clear()
        while self._awaited:
            self._awaited.popleft()[1]()
        self._transient.drop_all()
