"""A queue that may be deeper than memory: behind the messages that are ready it can have a backlog.

With `spool = disk`, what comes while the queue is above its capacity goes to the broker's temp store (ActiveMQ's file
cursor): its producers are not held, and the bodies in memory stay bounded. The temp store is emptied at each start. A
body leaves memory once the temp store has it, and comes back when its turn comes; while there is a backlog, what comes
is put behind it.
"""

from __future__ import annotations

from collections import deque

from brokers.engine.backlog import HERE, TEMP, Backlog, Entry
from brokers.engine.consumer import Consumer
from brokers.engine.overflow import Verdict
from brokers.engine.producer import Producer
from brokers.engine.queue import Message, Queue
from brokers.engine.receipt import Receipt
from brokers.engine.turn import Turn

#: What is loaded at a time.
LOAD_MESSAGES = 512
LOAD_BYTES = 1 << 20
#: How often that is done in one turn; then others have theirs.
LOADS = 4


class DeepQueue(Queue):
    """`deep`: there is a backlog. `temp_id`: what the temp store knows the queue by."""

    __slots__ = ("backlog", "deep", "spooling", "temp_id")

    def __init__(self, virtualhost: str, name: str, turn: Turn, temp_id: int) -> None:
        super().__init__(virtualhost, name, turn)
        self.temp_id = temp_id
        self.backlog = Backlog()
        self.deep = False
        self.spooling: deque[tuple[int, int]] = deque()  # (ticket, number) of bodies on their way to the temp store

    # -- in -----------------------------------------------------------------------------------------------------

    def enqueue(self, body: bytes, producer: Producer | None = None, receipt: Receipt | None = None) -> Verdict:
        # The same as Queue's but for one question; written out, since it runs for every message.
        self.enqueued = number = self.enqueued + 1
        if self.deep:
            self.put_behind(number, body)
        else:
            self.ready.append((number, body))
        self.depth_messages = messages = self.depth_messages + 1
        self.depth_bytes = depth = self.depth_bytes + len(body)
        if depth > self.stop_bytes or messages > self.stop_messages:
            self.overflow.above(self)
        self.mark_touched(self)
        return Verdict.TAKEN

    def spool(self, body: bytes, producer: Producer | None = None) -> Verdict:
        self.deep = True
        return self.enqueue(body, producer)

    def put_behind(self, number: int, body: bytes) -> None:
        """Add a message that is not stored to the backlog; with its body to the temp store, if the queue spools."""
        self.deep = True
        self.backlog.append(number, len(body), HERE, body)
        temp = self.turn.temp() if self.limits.spools else None
        if temp is not None:
            self.spooling.append((temp.put(self.temp_id, number, body), number))
            self.turn.spooling.add(self)

    def spooled(self, ticket: int, *, stored: bool) -> bool:
        """What became of bodies on their way to the temp store. False: nothing is left to wait for."""
        spooling, backlog, temp = self.spooling, self.backlog, self.turn.temp()
        while spooling and spooling[0][0] <= ticket:
            _, number = spooling.popleft()
            if stored and not backlog.moved(number) and temp is not None:
                temp.remove(self.temp_id, number)  # its turn came first
        return bool(spooling)

    # -- out ----------------------------------------------------------------------------------------------------

    def dispatch(self) -> list[tuple[Consumer, list[Message]]]:
        batches = super().dispatch()
        if not self.deep:
            return batches
        loads = LOADS
        while self.deep and not self.ready and self._wanted():
            if not loads:
                self.turn.later.add(self)
                break
            if not self._load():
                self.watch()  # it is tried again by time
                break
            loads -= 1
            batches.extend(super().dispatch())
        return batches

    def sweep(self) -> bool:
        more = super().sweep()
        if self.deep and not self.ready and self._wanted():
            self.touch()
            return True
        return more

    def _wanted(self) -> bool:
        return any(c.credit > 0 and c.connection.writable for c in self.consumers)

    def _load(self) -> bool:
        """Make the first of the backlog ready. False: the store cannot be read now."""
        head = self.backlog.head(LOAD_MESSAGES, LOAD_BYTES)
        bodies = self.bodies(head)
        if bodies is None:
            return False
        self._drop_head(len(head))
        for number, size, place, _ in head:
            body = bodies.get(number)
            if body is None:  # a store that was damaged from outside
                self.discount(number, size)
                self.dropped += 1
                continue
            self.ready.append((number, body))
            if place == TEMP:
                self.drop_spooled(number)
        return True

    def _drop_head(self, count: int) -> None:
        self.backlog.drop(count)
        self.deep = len(self.backlog) > 0

    def bodies(self, found: list[Entry]) -> dict[int, bytes] | None:
        """By number; None if a store cannot be read now."""
        bodies = {number: body for number, _, _, body in found if body is not None}
        spooled = [number for number, _, place, _ in found if place == TEMP]
        if spooled:
            temp = self.turn.temp()
            loaded = temp.load(self.temp_id, spooled) if temp is not None else None
            if loaded is None:
                return None
            bodies.update(loaded)
        return bodies

    def drop_spooled(self, number: int) -> None:
        temp = self.turn.temp()
        if temp is not None:
            temp.remove(self.temp_id, number)

    def copies(self, seen: int, count: int) -> list[Message]:
        copies = super().copies(seen, count)
        if self.deep and len(copies) < count:
            last = max(seen, copies[-1][0]) if copies else seen
            found = self.backlog.after(last, min(count - len(copies), LOAD_MESSAGES), LOAD_BYTES)
            bodies = self.bodies(found) or {}
            copies.extend((number, bodies[number]) for number, *_ in found if number in bodies)
            if found:
                self.turn.later.add(self)  # there may be more for its credit
        return copies

    def drop_oldest(self) -> bool:
        return super().drop_oldest() or bool(self._drop_backlog(1))

    def purge(self) -> int:
        return super().purge() + self._drop_backlog(len(self.backlog))

    def _drop_backlog(self, count: int) -> int:
        dropped = 0
        while dropped < count and self.deep:
            head = self.backlog.head(min(LOAD_MESSAGES, count - dropped), 1 << 62)
            self._drop_head(len(head))
            for entry in head:
                self.forget_behind(entry)
            dropped += len(head)
        if dropped:
            self.measure()
        return dropped

    def forget_behind(self, entry: Entry) -> None:
        """A message of the backlog goes that no consumer had."""
        number, size, place, _ = entry
        self.discount(number, size)
        if place == TEMP:
            self.drop_spooled(number)

    def oldest(self) -> int | None:
        waiting = super().oldest()
        behind = self.backlog.head(1, 0) if waiting is None else []
        return behind[0][0] if behind else waiting

    @property
    def memory_bytes(self) -> int:
        return self.depth_bytes - self.backlog.bytes

    @property
    def unacknowledged(self) -> int:
        return super().unacknowledged - len(self.backlog)

    def let_go(self) -> None:
        """The queue has been deleted: what it spooled goes with it."""
        temp = self.turn.temp() if self.deep or self.spooling else None
        if temp is not None:
            temp.drop_queue(self.temp_id)
        self.spooling.clear()
        self.turn.spooling.discard(self)
        self.turn.later.discard(self)
