"""A queue that may be deeper than memory: behind the messages that are ready it can have a backlog.

With `spool = disk`, what comes while the queue is above its capacity goes to the broker's temp store (ActiveMQ's file
cursor): its producers are not held, and the bodies in memory stay bounded. The temp store is emptied at each start. A
body leaves memory once the temp store has it, and comes back when its turn comes; while there is a backlog, what comes
is put behind it.
"""

from __future__ import annotations

from collections import deque

from brokers.engine.backlog import HERE, TEMP, Entry
from brokers.engine.consumer import Consumer
from brokers.engine.line import Line
from brokers.engine.message import NEVER, number_of
from brokers.engine.metering import Meter
from brokers.engine.overflow import Verdict
from brokers.engine.producer import Producer
from brokers.engine.queue import Message, Queue
from brokers.engine.receipt import Receipt
from brokers.engine.turn import Turn
from brokers.engine.usage import Resource, Usage

#: What is loaded at a time.
LOAD_MESSAGES = 512
LOAD_BYTES = 1 << 20
#: How often that is done in one turn; then others have theirs.
LOADS = 4
#: How many messages of a backlog are looked at in one sweep for those that have expired.
SWEEP_MESSAGES = 50_000


class DeepQueue(Queue):
    """`temp_id`: what the temp store knows the queue by."""

    __slots__ = ("spooled_bodies", "temp_id")

    def __init__(self, virtualhost: str, name: str, turn: Turn, temp_id: int) -> None:
        super().__init__(virtualhost, name, turn)
        self.temp_id = temp_id
        self.spooled_bodies: deque[tuple[int, int]] = (
            deque()
        )  # (ticket, number) of bodies on their way to the temp store

    # -- in -----------------------------------------------------------------------------------------------------

    def spool(self, body: bytes, producer: Producer | None = None, receipt: Receipt | None = None) -> Verdict:
        self.line_of(number_of(0, self.header(body).priority)).deep = True
        return self.enqueue(body, producer, receipt)

    def put_behind(self, line: Line, number: int, body: bytes) -> None:
        """Put a message that is not stored behind the backlog; its body goes to the temp store, if the queue spools."""
        line.deep = True
        line.backlog.append(number, len(body), HERE, body, self.deadlines.forget(number))
        temp = self.turn.temp() if self.limits.spools else None
        if temp is not None:
            self.spooled_bodies.append((temp.put(self.temp_id, number, body), number))
            self.turn.spooling.add(self)

    def transient_usages(self, meter: Meter) -> tuple[Usage, ...]:
        return (meter.memory, meter.temp) if self.limits.spools else (meter.memory,)

    @property
    def spooling(self) -> bool:
        if not self.limits.spools:
            return False
        return self.state.overfull or any(usage.resource is Resource.MEMORY for usage in self.shortages)

    def transient_resource(self) -> Resource:
        return Resource.TEMP if self.spooling or (self.limits.spools and self.line.deep) else Resource.MEMORY

    def weigh(self) -> None:
        super().weigh()
        if self.spooled_bodies and (temp := self.turn.temp()) is not None:
            self.footprint.meter.count_temp(temp)

    def restore(self, message: Message) -> None:
        line = self.line_of(message[0])
        if message[0] > line.backlog.first:
            self.restore_behind(line, message)
        else:
            line.put_back(message)

    def restore_behind(self, line: Line, message: Message) -> None:
        """Its place is in the backlog: a consumer had chosen it there."""
        number, body = message
        line.backlog.insert(number, len(body), HERE, body, self.deadlines.forget(number))

    def spooled(self, ticket: int, *, stored: bool) -> bool:
        """What became of bodies on their way to the temp store. False: nothing is left to wait for."""
        spooling, temp = self.spooled_bodies, self.turn.temp()
        while spooling and spooling[0][0] <= ticket:
            _, number = spooling.popleft()
            if stored and not self.line_of(number).backlog.moved(number) and temp is not None:
                temp.remove(self.temp_id, number)  # its turn came first
        return bool(spooling)

    # -- out ----------------------------------------------------------------------------------------------------

    def serve(self, line: Line, batches: list[tuple[Consumer, list[Message]]]) -> bool:
        super().serve(line, batches)
        loads = LOADS
        while line.deep and not line.ready and self._wanted():
            if not loads:
                self.turn.later.add(self)
                return False
            if not self._load(line):
                self.watch()  # it is tried again by time
                return False
            loads -= 1
            super().serve(line, batches)
        return True

    def sweep(self) -> bool:
        more = super().sweep()
        if any(line.deep and not line.ready for line in self.lines) and self._wanted():
            self.touch()
            return True
        return more

    def _wanted(self) -> bool:
        return any(c.credit > 0 and c.connection.writable for c in self.consumers)

    def _load(self, line: Line) -> bool:
        """Make the first of the backlog ready. False: the store cannot be read now."""
        now, head = self.turn.now, line.backlog.head(LOAD_MESSAGES, LOAD_BYTES)
        bodies = self.bodies([entry for entry in head if entry[4] > now])
        if bodies is None:
            return False
        self._drop_head(line, len(head))
        before = self.expired
        for entry in head:
            number, size, place, _, expires = entry
            body = bodies.get(number)
            if expires <= now:
                self.forget_behind(entry)
                self.expired += 1
            elif body is None:  # a store that was damaged from outside
                self.discount(number, size)
                self.dropped += 1
            else:
                line.ready.append((number, body))
                self._leaves_backlog(number, place, expires)
        if self.expired > before:
            self.measure()
        return True

    def _leaves_backlog(self, number: int, place: int, expires: int) -> None:
        """The body of a message is in memory from now on."""
        if expires != NEVER:
            self.expires(number, expires)
        if place == TEMP:
            self.drop_spooled(number)

    @staticmethod
    def _drop_head(line: Line, count: int) -> None:
        line.backlog.drop(count)
        line.deep = len(line.backlog) > 0

    def bodies(self, found: list[Entry]) -> dict[int, bytes] | None:
        """By number; None if a store cannot be read now."""
        bodies = {number: body for number, _, _, body, _ in found if body is not None}
        spooled = [number for number, _, place, *_ in found if place == TEMP]
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

    def copies(self, line: Line, seen: int, count: int) -> list[Message]:
        copies = super().copies(line, seen, count)
        if line.deep and len(copies) < count:
            last = max(seen, copies[-1][0]) if copies else seen
            behind = line.backlog.after(last, min(count - len(copies), LOAD_MESSAGES), LOAD_BYTES)
            found = [entry for entry in behind if entry[4] > self.turn.now]
            bodies = self.bodies(found) or {}
            copies.extend((number, bodies[number]) for number, *_ in found if number in bodies)
            if behind:
                self.turn.later.add(self)  # there may be more for its credit
                if not found:
                    self.expire_all()
        return copies

    def pick(self, line: Line, number: int) -> None:
        if line.pick(number) is None and (entry := line.backlog.pick(number)) is not None:
            line.deep = len(line.backlog) > 0
            self._leaves_backlog(number, entry[2], entry[4])

    def drop_behind(self, line: Line) -> bool:
        return self._drop_backlog(line, 1) > 0

    def purge(self) -> int:
        behind = sum(self._drop_backlog(line, len(line.backlog)) for line in self.lines)
        return behind + super().purge()

    def _drop_backlog(self, line: Line, count: int) -> int:
        dropped = 0
        while dropped < count and len(line.backlog):
            head = line.backlog.head(min(LOAD_MESSAGES, count - dropped), 1 << 62)
            self._drop_head(line, len(head))
            for entry in head:
                self.forget_behind(entry)
            dropped += len(head)
        return dropped

    def expire_all(self) -> bool:
        more, now, before = super().expire_all(), self.turn.now, self.expired
        for line in self.lines:
            if line.backlog.soonest == NEVER:
                continue
            more = True
            for entry in line.backlog.expired(now, SWEEP_MESSAGES):
                self.forget_behind(entry)
                self.expired += 1
            line.deep = line.deep and len(line.backlog) > 0
        if self.expired > before:
            self.measure()
            self.touch()
        return more

    def forget_behind(self, entry: Entry) -> None:
        """A message of the backlog goes that no consumer had."""
        number, size, place, *_ = entry
        self.discount(number, size)
        if place == TEMP:
            self.drop_spooled(number)

    @property
    def memory_bytes(self) -> int:
        return self.depth_bytes - sum(line.backlog.bytes for line in self.lines)

    def let_go(self) -> None:
        """The queue has been deleted: what it spooled goes with it."""
        deep = any(line.deep for line in self.lines)
        temp = self.turn.temp() if deep or self.spooled_bodies else None
        if temp is not None:
            temp.drop_queue(self.temp_id)
        self.spooled_bodies.clear()
        self.turn.spooling.discard(self)
        super().let_go()
        self.turn.later.discard(self)
