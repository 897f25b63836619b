"""A queue whose durable messages live in a store: in it before they are accepted or seen, out of it when settled.

A message goes through `unsafe` (buffered, not on disk yet; nobody sees it) to `ready`, or once the queue is deep to the
backlog, whose bodies stay in the store until their turn comes. Messages that are not durable never touch the store;
they keep their place in the line. What the store says comes in by `committed`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection

from brokers.engine.flow.metering import Meter
from brokers.engine.flow.overflow import Verdict
from brokers.engine.flow.producer import Producer
from brokers.engine.flow.receipt import Outcome, Receipt
from brokers.engine.flow.turn import Removed, Turn
from brokers.engine.flow.usage import Resource, Usage
from brokers.engine.ports import Store
from brokers.engine.queues.backlog import STORE, Entry
from brokers.engine.queues.consumer import Consumer
from brokers.engine.queues.deep_queue import DeepQueue
from brokers.engine.queues.lanes import Line
from brokers.engine.queues.queue import Message, Queue
from brokers.engine.values.message import DELAYED, NEVER, Header, sequence_of

#: Above so many messages ready, or bytes in memory, further bodies stay in the store.
READY_MESSAGES = 4096
READY_BYTES = 4 << 20


class Unsafe:
    """A message that is not in the store yet, or not to be stored but behind one that is not. `moved`: it is in the
    store, as another queue's. `transaction`: the number of the one that it is stored or lost with; 0: it is in none."""

    __slots__ = ("body", "late", "moved", "number", "receipt", "stored", "ticket", "transaction")

    def __init__(
        self,
        number: int,
        body: bytes,
        ticket: int,
        receipt: Receipt | None = None,
        *,
        stored: bool,
        moved: bool = False,
        transaction: int = 0,
    ) -> None:
        self.number = number
        self.body = body
        self.ticket = ticket
        self.receipt = receipt
        self.stored = stored
        self.moved = moved
        self.late = False  # others that came later are seen already
        self.transaction = transaction


class DurableQueue(DeepQueue):
    """`stored`: how many of its messages are in the store or on their way."""

    __slots__ = ("removing", "store", "stored")

    def __init__(self, virtualhost: str, name: str, turn: Turn, temp_id: int, store: Store) -> None:
        super().__init__(virtualhost, name, turn, temp_id)
        self.store = store
        self.stored = 0
        self.removing: deque[tuple[int, Consumer]] = deque()  # settled by consumers who wait to hear that it is safe

    # -- in -----------------------------------------------------------------------------------------------------

    def place(self, header: Header, body: bytes, producer: Producer | None, receipt: Receipt | None) -> Verdict:
        if header.durable:
            return self._store(header, body, producer, receipt)
        if not self.unsafe:
            return super().place(header, body, producer, receipt)
        header, body = self.timed(header, body)
        self.unsafe.append(Unsafe(self.count(header, body), body, self.unsafe[-1].ticket, stored=False))
        self.check_depth()
        return Verdict.TAKEN

    def _store(self, header: Header, body: bytes, producer: Producer | None, receipt: Receipt | None) -> Verdict:
        header, body = self.timed(header, body)
        number = self.count(header, body)
        if receipt is None and producer is not None:
            receipt = self.defer(producer, 0)
        if receipt is not None:
            receipt.pending += 1
            receipt.producer.stored_at = receipt.producer.messages
        ticket = self.store.put(self.store_id, number, body, self._expiry(number))
        self._wait(Unsafe(number, body, ticket, receipt, stored=True))
        return Verdict.HELD

    def adopt(self, body: bytes, queue: int, number: int) -> int:
        """Take over a stored message of another queue of the same store; its body may have changed. Returns the
        ticket."""
        place = self.count(self.header(body), body)
        ticket = self.store.move((queue, number), (self.store_id, place), body, self._expiry(place))
        self._wait(Unsafe(place, body, ticket, stored=True, moved=True))
        return ticket

    def commit_stored(self, body: bytes, ticket: int, transaction: int) -> bool:
        self._count_uncommitted(-1, -len(body))
        header, body = self.timed(self.header(body), body)
        number = self.count(header, body)
        if header.durable:
            self.store.put(self.store_id, number, body, self._expiry(number))
        self._wait(Unsafe(number, body, ticket, stored=header.durable, transaction=transaction))
        return True

    def _wait(self, unsafe: Unsafe) -> None:
        self.stored += unsafe.stored
        self.unsafe.append(unsafe)
        self.turn.unsafe.add(self)
        self.check_depth()

    def _expiry(self, number: int) -> int:
        """For the store, where the time of day counts: the next start begins with that. With DELAYED where there is a
        delivery time."""
        at = self.deadlines.at.get(number)
        delayed = DELAYED if number in self.delayed.arriving else 0
        return delayed if at is None else delayed | max(1, at + self.turn.ahead)

    def recover(self, number: int, size: int, failed: int, expires: int) -> None:
        """Take up a stored message of an earlier run; in the order of their numbers. The caller measures afterwards."""
        self.enqueued = max(self.enqueued, sequence_of(number))
        self.depth_messages += 1
        self.depth_bytes += size
        self.stored += 1
        if failed:
            self.deliveries[number] = failed
        if expires & DELAYED:
            expires -= DELAYED
            if expires:
                self.expires(number, expires)
            self.delayed.add_unread((number, size, STORE, None, expires or NEVER))
            self.turn.delayed.add(self)
            return
        line = self.line_of(number)
        line.backlog.append(number, size, STORE, None, expires or NEVER)
        line.deep = True
        if expires:
            self.turn.expiring.add(self)

    def stored_usages(self, meter: Meter) -> tuple[Usage, ...]:
        return (meter.store, meter.quota)

    def resource_of(self, body: bytes) -> Resource:
        return Resource.STORE if self.header(body).durable else super().resource_of(body)

    def resources(self, producer: Producer) -> tuple[Resource, ...]:
        if not producer.messages:
            return (Resource.STORE, *super().resources(producer))
        return (Resource.STORE,) if producer.persistent else super().resources(producer)

    def weigh(self) -> None:
        super().weigh()
        self.footprint.meter.count_store(self.store)

    # -- what the store says ------------------------------------------------------------------------------------

    def committed(self, ticket: int, *, stored: bool, removed: bool, refused: Collection[int] = ()) -> bool:
        """What became of the changes with this ticket: whether its messages are stored, whether all changes up to it
        are safe, and which transactions the store refused. False: nothing is left to wait for."""
        unsafe, lost, kept = self.unsafe, False, list[Unsafe]()
        while unsafe and unsafe[0].ticket <= ticket:
            each = unsafe.popleft()
            if each.moved and not removed:
                each.late = True  # the store goes on trying
                kept.append(each)
                continue
            if each.transaction in refused if each.transaction else each.stored and not (each.moved or stored):
                self._lose(each)
                lost = True
                continue
            self._make_visible(each)
            if each.receipt is not None:
                self.resolve(each.receipt, Outcome.ACCEPTED)
        unsafe.extendleft(reversed(kept))
        if lost:
            self.measure()
        if removed:
            self._confirm(ticket)
        self.touch()
        return bool(unsafe or self.removing)

    def _make_visible(self, each: Unsafe) -> None:
        number, body = each.number, each.body
        line, expires = self.line_of(number), self.deadlines.at.get(number, NEVER)
        if self.held_back(number, body, stored=each.stored):
            pass
        elif each.late:
            self.restore((number, body))
        elif each.stored and (line.deep or self.memory_bytes > READY_BYTES or len(line.ready) >= READY_MESSAGES):
            self.deadlines.forget(number)
            line.backlog.append(number, len(body), STORE, None, expires)
            line.deep = True
        else:
            self.show(number, body)
        if expires <= self.turn.now:
            self.expires(number, expires)  # it fell due while it waited

    def _lose(self, each: Unsafe) -> None:
        """The store did not take it, so neither does the queue."""
        self.depth_messages -= 1
        self.depth_bytes -= len(each.body)
        self.stored -= each.stored
        self.rejected += not each.transaction
        self.deadlines.forget(each.number)
        self.delayed.arriving.pop(each.number, None)
        if each.receipt is not None:
            self.resolve(each.receipt, Outcome.NOT_STORED)

    def _confirm(self, ticket: int) -> None:
        removing, told = self.removing, dict[Consumer, int]()
        while removing and removing[0][0] <= ticket:
            _, consumer = removing.popleft()
            told[consumer] = told.get(consumer, 0) + 1
        self.turn.effects.extend(Removed(consumer, count) for consumer, count in told.items())

    # -- out ----------------------------------------------------------------------------------------------------

    def bodies(self, found: list[Entry]) -> dict[int, bytes] | None:
        bodies = super().bodies(found)
        stored = [number for number, _, place, *_ in found if place == STORE]
        if bodies is None or not stored:
            return bodies
        loaded = self.store.load(self.store_id, stored)
        return None if loaded is None else bodies | loaded

    def remove(self, consumer: Consumer, message: Message) -> int:
        Queue.remove(self, consumer, message)
        if not self.stored or not self.header(message[1]).durable:
            return 0
        self.stored -= 1
        return self.store.remove(self.store_id, message[0])

    def retire_stored(self, message: Message) -> None:
        if self.stored and self.header(message[1]).durable:
            self.store.remove(self.store_id, message[0])

    def retire(self, consumer: Consumer, message: Message) -> None:
        Queue.remove(self, consumer, message)
        self.stored -= bool(self.stored and self.header(message[1]).durable)

    def keeps(self, body: bytes) -> bool:
        return self.header(body).durable

    def confirm(self, consumer: Consumer, ticket: int) -> None:
        self.removing.append((ticket, consumer))
        self.turn.unsafe.add(self)

    def put_back(self, consumer: Consumer, message: Message, *, failed: bool = False, barred: bool = False) -> None:
        super().put_back(consumer, message, failed=failed, barred=barred)
        count = self.deliveries.get(message[0]) if failed else 0
        if count and self.header(message[1]).durable:  # and it is still there
            self.store.fail(self.store_id, message[0], count)

    def has_room(self, line: Line) -> bool:
        return super().has_room(line) and self.memory_bytes <= READY_BYTES and len(line.ready) < READY_MESSAGES

    def set_aside(self, number: int, body: bytes) -> Entry:
        if self.header(body).durable:
            return number, len(body), STORE, None, self.deadlines.at.get(number, NEVER)
        return super().set_aside(number, body)

    def restore_behind(self, line: Line, message: Message) -> None:
        number, body = message
        if self.header(body).durable:
            line.backlog.insert(number, len(body), STORE, None, self.deadlines.forget(number))
        else:
            super().restore_behind(line, message)

    def hand_over(self, consumer: Consumer, message: Message, target: Queue, body: bytes) -> int:
        if not (self.stored and isinstance(target, DurableQueue) and self.header(message[1]).durable):
            return super().hand_over(consumer, message, target, body)
        Queue.remove(self, consumer, message)
        self.stored -= 1
        return target.adopt(body, self.store_id, message[0])

    def forget_behind(self, entry: Entry) -> None:
        super().forget_behind(entry)
        if entry[2] == STORE:
            self.stored -= 1
            self.store.remove(self.store_id, entry[0])

    def forget(self, message: Message) -> None:
        super().forget(message)
        if self.stored and self.header(message[1]).durable:
            self.stored -= 1
            self.store.remove(self.store_id, message[0])

    def let_go(self) -> None:
        """The queue has been deleted: its messages go with it, and nobody waits for them."""
        self.store.drop_queue(self.store_id)
        self.unsafe.clear()
        self.removing.clear()
        self.turn.unsafe.discard(self)
        super().let_go()
