"""A queue whose durable messages live in a store: in it before they are accepted or seen, out of it when settled.

A message goes through `unsafe` (buffered, not on disk yet; nobody sees it) to `ready`, or once the queue is deep to the
backlog, whose bodies stay in the store until their turn comes. Messages that are not durable never touch the store;
they keep their place in the line. What the store says comes in by `committed`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection

from brokers.engine.backlog import STORE, Entry
from brokers.engine.consumer import Consumer
from brokers.engine.deep_queue import DeepQueue
from brokers.engine.overflow import Verdict
from brokers.engine.producer import Producer
from brokers.engine.queue import Message, Queue
from brokers.engine.receipt import Outcome, Receipt
from brokers.engine.store import Store
from brokers.engine.turn import Removed, Turn

#: Above so many messages ready, or bytes in memory, further bodies stay in the store.
READY_MESSAGES = 4096
READY_BYTES = 4 << 20


class Unsafe:
    """A message that is not in the store yet, or not to be stored but behind one that is not. `transaction`: the number
    of the one that it is stored or lost with; 0: it is in none."""

    __slots__ = ("body", "number", "receipt", "stored", "ticket", "transaction")

    def __init__(
        self, number: int, body: bytes, ticket: int, receipt: Receipt | None, *, stored: bool, transaction: int = 0
    ) -> None:
        self.number = number
        self.body = body
        self.ticket = ticket
        self.receipt = receipt
        self.stored = stored
        self.transaction = transaction


class DurableQueue(DeepQueue):
    """`stored`: how many of its messages are in the store or on their way."""

    __slots__ = ("is_durable", "removing", "store", "stored", "unsafe")

    def __init__(self, virtualhost: str, name: str, turn: Turn, temp_id: int, store: Store) -> None:
        super().__init__(virtualhost, name, turn, temp_id)
        self.is_durable = turn.is_durable  # bound once: it is called for every message
        self.store = store
        self.stored = 0
        self.unsafe: deque[Unsafe] = deque()
        self.removing: deque[tuple[int, Consumer]] = deque()  # settled by consumers who wait to hear that it is safe

    # -- in -----------------------------------------------------------------------------------------------------

    def enqueue(self, body: bytes, producer: Producer | None = None, receipt: Receipt | None = None) -> Verdict:
        if self.is_durable(body):
            return self._store(body, producer, receipt)
        if not self.unsafe:
            return DeepQueue.enqueue(self, body, producer, receipt)
        self.unsafe.append(Unsafe(self._count(body), body, self.unsafe[-1].ticket, None, stored=False))
        self._check_depth()
        return Verdict.TAKEN

    def _store(self, body: bytes, producer: Producer | None, receipt: Receipt | None) -> Verdict:
        number = self._count(body)
        if receipt is None and producer is not None:
            receipt = self.defer(producer, 0)
        if receipt is not None:
            receipt.pending += 1
        ticket = self.store.put(self.store_id, number, body)
        self.stored += 1
        self.unsafe.append(Unsafe(number, body, ticket, receipt, stored=True))
        self.turn.unsafe.add(self)
        self._check_depth()
        return Verdict.HELD

    def commit_stored(self, body: bytes, ticket: int, transaction: int) -> bool:
        self._count_uncommitted(-1, -len(body))
        number, stored = self._count(body), self.is_durable(body)
        if stored:
            self.store.put(self.store_id, number, body)
            self.stored += 1
        self.unsafe.append(Unsafe(number, body, ticket, None, stored=stored, transaction=transaction))
        self.turn.unsafe.add(self)
        self._check_depth()
        return True

    def _count(self, body: bytes) -> int:
        self.enqueued += 1
        self.depth_messages += 1
        self.depth_bytes += len(body)
        return self.enqueued

    def _check_depth(self) -> None:
        if self.depth_bytes > self.stop_bytes or self.depth_messages > self.stop_messages:
            self.overflow.above(self)
        self.mark_touched(self)

    def recover(self, number: int, size: int, failed: int) -> None:
        """Take up a stored message of an earlier run; in the order of their numbers. The caller measures afterwards."""
        self.enqueued = number
        self.depth_messages += 1
        self.depth_bytes += size
        self.stored += 1
        self.backlog.append(number, size, STORE)
        self.deep = True
        if failed:
            self.deliveries[number] = failed

    # -- what the store says ------------------------------------------------------------------------------------

    def committed(self, ticket: int, *, stored: bool, removed: bool, refused: Collection[int] = ()) -> bool:
        """What became of the changes with this ticket: whether its messages are stored, whether all changes up to it
        are safe, and which transactions the store refused. False: nothing is left to wait for."""
        unsafe, lost = self.unsafe, False
        while unsafe and unsafe[0].ticket <= ticket:
            each = unsafe.popleft()
            if each.transaction in refused if each.transaction else each.stored and not stored:
                self._lose(each)
                lost = True
                continue
            self._make_visible(each)
            if each.receipt is not None:
                self.resolve(each.receipt, Outcome.ACCEPTED)
        if lost:
            self.measure()
        if removed:
            self._confirm(ticket)
        self.touch()
        return bool(unsafe or self.removing)

    def _make_visible(self, each: Unsafe) -> None:
        body = each.body
        if each.stored and (self.deep or self.memory_bytes > READY_BYTES or len(self.ready) >= READY_MESSAGES):
            self.backlog.append(each.number, len(body), STORE)
            self.deep = True
        elif self.deep:
            self.put_behind(each.number, body)
        else:
            self.ready.append((each.number, body))

    def _lose(self, each: Unsafe) -> None:
        """The store did not take it, so neither does the queue."""
        self.depth_messages -= 1
        self.depth_bytes -= len(each.body)
        self.stored -= each.stored
        self.rejected += not each.transaction
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
        stored = [number for number, _, place, _ in found if place == STORE]
        if bodies is None or not stored:
            return bodies
        loaded = self.store.load(self.store_id, stored)
        return None if loaded is None else bodies | loaded

    def remove(self, consumer: Consumer, message: Message) -> int:
        Queue.remove(self, consumer, message)
        if not self.stored or not self.is_durable(message[1]):
            return 0
        self.stored -= 1
        return self.store.remove(self.store_id, message[0])

    def retire_stored(self, message: Message) -> None:
        if self.stored and self.is_durable(message[1]):
            self.store.remove(self.store_id, message[0])

    def retire(self, consumer: Consumer, message: Message) -> None:
        Queue.remove(self, consumer, message)
        self.stored -= bool(self.stored and self.is_durable(message[1]))

    def keeps(self, body: bytes) -> bool:
        return self.is_durable(body)

    def confirm(self, consumer: Consumer, ticket: int) -> None:
        self.removing.append((ticket, consumer))
        self.turn.unsafe.add(self)

    def put_back(self, consumer: Consumer, message: Message, *, failed: bool = False, barred: bool = False) -> None:
        super().put_back(consumer, message, failed=failed, barred=barred)
        if failed and self.is_durable(message[1]):
            self.store.fail(self.store_id, message[0], self.deliveries[message[0]])

    def forget_behind(self, entry: Entry) -> None:
        super().forget_behind(entry)
        if entry[2] == STORE:
            self.stored -= 1
            self.store.remove(self.store_id, entry[0])

    def forget(self, message: Message) -> None:
        super().forget(message)
        if self.stored and self.is_durable(message[1]):
            self.stored -= 1
            self.store.remove(self.store_id, message[0])

    def oldest(self) -> int | None:
        waiting = super().oldest()
        return self.unsafe[0].number if waiting is None and self.unsafe else waiting

    @property
    def unacknowledged(self) -> int:
        return super().unacknowledged - len(self.unsafe)

    def let_go(self) -> None:
        """The queue has been deleted: its messages go with it, and nobody waits for them."""
        self.store.drop_queue(self.store_id)
        self.unsafe.clear()
        self.removing.clear()
        self.turn.unsafe.discard(self)
        super().let_go()
