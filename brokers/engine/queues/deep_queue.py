"""A queue that may be deeper than memory: behind the messages that are ready it can have a backlog.

With `spool = disk`, what comes while the queue is above its capacity goes to the broker's temp store (ActiveMQ's file
cursor): its producers are not held, and the bodies in memory stay bounded. The temp store is emptied at each start. A
body leaves memory once the temp store has it, and comes back when its turn comes; while there is a backlog, what comes
is put behind it.
"""

from __future__ import annotations

from collections import deque
from operator import itemgetter

from brokers.engine.flow.metering import Meter
from brokers.engine.flow.overflow import Verdict
from brokers.engine.flow.producer import Producer
from brokers.engine.flow.receipt import Receipt
from brokers.engine.flow.turn import Turn
from brokers.engine.flow.usage import Resource, Usage
from brokers.engine.queues.backlog import HERE, TEMP, Entry
from brokers.engine.queues.consumer import Consumer
from brokers.engine.queues.lanes import Line
from brokers.engine.queues.queue import Message, Queue
from brokers.engine.values.message import NEVER, number_of, rank_of, sequence_of

#: What is loaded at a time.
LOAD_MESSAGES = 512
LOAD_BYTES = 1 << 20
#: How often that is done in one turn; then others have theirs.
LOADS = 4
#: How many messages of a backlog are looked at in one sweep for those that have expired.
SWEEP_MESSAGES = 50_000


_number = itemgetter(0)


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
        self._spool_body(number, body)

    def set_aside(self, number: int, body: bytes) -> Entry:
        """A message that was in memory, for the backlog. Its body stays here: one that came from the temp store is
        being removed there, and a store takes each place once."""
        return number, len(body), HERE, body, self.deadlines.at.get(number, NEVER)

    def _spool_body(self, number: int, body: bytes) -> None:
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
            if not stored or self.line_of(number).backlog.moved(number) or self.delayed.moved(number):
                continue
            if temp is not None:
                temp.remove(self.temp_id, number)  # its turn came first
        return bool(spooling)

    # -- by their delivery time ---------------------------------------------------------------------------------

    def held_back(self, number: int, body: bytes, *, stored: bool = False) -> bool:
        held = super().held_back(number, body, stored=stored)
        if held and not stored and self.spooling:
            self._spool_body(number, body)
        return held

    def release(self) -> bool:
        now, delayed = self.turn.now, self.delayed
        if self.deadlines.soonest <= now:
            self.expire()
        if not (self._read_times() and self._show_due(delayed.take_due(now, LOAD_MESSAGES, LOAD_BYTES))):
            return False  # a store cannot be read now: it is tried again by time
        return delayed.has_unread or delayed.soonest <= now

    def _read_times(self) -> bool:
        """Read when the next messages of an earlier run are due. False: the store cannot be read now."""
        entries = self.delayed.unread(LOAD_MESSAGES, LOAD_BYTES)
        bodies = self.bodies(entries)
        if bodies is None:
            return False
        for entry in entries:
            body = bodies.get(entry[0])
            if body is None:
                self.delayed.take(entry[0])
                self._lose_damaged(entry)
            else:
                self.delayed.add(self.header(body).due - self.turn.ahead, entry, of_day=True)
        return True

    def _show_due(self, entries: list[Entry]) -> bool:
        """Show messages whose time has come. False: a store cannot be read now, and some wait on."""
        readable = True
        for rank in {rank_of(entry[0]) for entry in entries}:
            due = sorted((entry for entry in entries if rank_of(entry[0]) == rank), key=_number)
            line = self.line_of(due[0][0])
            limit = line.backlog.first
            if not self.has_room(line):
                limit = min(limit, next((_number(entry) for entry in due if entry[3] is None), NEVER))
            ahead = [entry for entry in due if _number(entry) < limit]
            bodies = self.bodies(ahead)
            if bodies is None:
                readable = False
                for entry in due:
                    self.delayed.add(self.turn.now, entry, of_day=False)
                continue
            # Where there is no room, bodies stay where they are, and what is in memory after them goes behind.
            aside = [self.set_aside(*message) for message in line.cut(limit)] if limit < line.backlog.first else []
            self._put_amid(line, sorted([*aside, *due[len(ahead) :]], key=_number))
            line.take_in([(number, bodies[number]) for number, *_ in ahead if number in bodies])
            for entry in ahead:
                if _number(entry) not in bodies:
                    self._lose_damaged(entry)
                elif entry[2] == TEMP:
                    self.drop_spooled(_number(entry))
            self._announce(due)
        return readable

    def has_room(self, line: Line) -> bool:
        """Whether bodies may be in memory before a consumer wants them."""
        return not self.spooling

    def _put_amid(self, line: Line, entries: list[Entry]) -> None:
        """They take their places in the backlog."""
        for entry in entries:
            self.deadlines.forget(_number(entry))
        line.backlog.merge(entries)
        line.deep = line.deep or bool(entries)

    def _lose_damaged(self, entry: Entry) -> None:
        """A store that was damaged from outside does not have it."""
        self.discount(entry[0], entry[1])
        self.dropped += 1
        self.measure()
        self.touch()

    def _announce(self, due: list[Entry]) -> None:
        """Let those look at the messages who have passed their places."""
        self.touch()
        for number, *_ in due:
            for consumer in (*self.choosers, *self.browsers):
                consumer.look_again(number)
            if self.delayed.shown is not None:
                self.delayed.shown[sequence_of(number)] = self.turn.now

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
        return self.depth_bytes - self.delayed.bytes - sum(line.backlog.bytes for line in self.lines)

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
