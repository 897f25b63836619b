"""What is in a queue, behind the gate that counts it: messages in lines, one for each priority.

A line is first in first out, and those of a higher priority go first. A message whose delivery time has not come is in
none (`delayed.py`); then it takes the place of its arrival. One whose time is up goes, unless a consumer has it. Who
gets what is `queue.py`'s business. Messages are opaque bytes but for what their header and annotations ask.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from brokers.engine.flow.gate import level
from brokers.engine.flow.overflow import Verdict
from brokers.engine.flow.producer import Producer
from brokers.engine.flow.receipt import Receipt
from brokers.engine.flow.turn import Turn
from brokers.engine.flow.uncommitted import UncommittedGate
from brokers.engine.queues.backlog import HERE, STORE, Entry
from brokers.engine.queues.delayed import Delayed
from brokers.engine.queues.expiry import Deadlines
from brokers.engine.queues.lanes import Line
from brokers.engine.values.events import dropped_words
from brokers.engine.values.message import LATEST, NEVER, PLAIN, Header, Message, number_of, rank_of, sequence_of

if TYPE_CHECKING:
    from brokers.engine.queues.consumer import Consumer
    from brokers.engine.queues.durable_queue import Unsafe

#: Looked up for every message: members of an enumeration are slow to reach by their class.
TAKEN = Verdict.TAKEN


class Contents(UncommittedGate):
    """See the module. `lines`: the highest priority first; `line`: that of the usual priority, and `ready` what is
    ready in it."""

    __slots__ = (
        "by_rank",
        "deadlines",
        "delayed",
        "deliveries",
        "dequeued",
        "dropped",
        "excluded",
        "expired",
        "header",
        "line",
        "lines",
        "mark_touched",
        "ready",
        "unsafe",
    )

    turn: Turn

    def __init__(self, virtualhost: str, name: str, turn: Turn) -> None:
        super().__init__(virtualhost, name, turn)
        self.mark_touched: Callable[[Any], None] = turn.touched.add  # bound once: they are called for every message
        self.header = turn.header
        self.line = Line(0)
        self.ready = self.line.ready
        self.lines = [self.line]
        self.by_rank = {0: self.line}
        self.deadlines = Deadlines()
        self.delayed = Delayed()
        self.unsafe: deque[Unsafe] = deque()  # of a durable queue: messages that nobody sees yet
        self.deliveries: dict[int, int] = {}  # message number -> failed deliveries, where there were any
        self.excluded: dict[int, set[Consumer]] = {}  # message number -> consumers that must not get it again
        self.dequeued = 0
        self.dropped = 0
        self.expired = 0

    # -- in -----------------------------------------------------------------------------------------------------

    def enqueue(self, body: bytes, producer: Producer | None = None, receipt: Receipt | None = None) -> Verdict:
        header = self.header(body)
        if header is not PLAIN or self.unsafe:
            return self.place(header, body, producer, receipt)
        # What `place` does, written out for the usual message.
        self.enqueued = number = self.enqueued + 1
        if self.line.deep:
            self.put_behind(self.line, number, body)
        else:
            self.ready.append((number, body))
        self.depth_messages = messages = self.depth_messages + 1
        self.depth_bytes = depth = self.depth_bytes + len(body)
        if depth > self.stop_bytes or messages > self.stop_messages:
            self.overflow.above(self)
        self.mark_touched(self)
        return TAKEN

    def place(self, header: Header, body: bytes, producer: Producer | None, receipt: Receipt | None) -> Verdict:
        """As `enqueue` does, by what the header asks."""
        header, body = self.timed(header, body)
        number = self.count(header, body)
        if not self.held_back(number, body):
            self.show(number, body)
        self.check_depth()
        return TAKEN

    def timed(self, header: Header, body: bytes) -> tuple[Header, bytes]:
        """The message as it is kept: one that asks for a delay says its delivery time from now on."""
        if not header.delay:
            return header, body
        due = min(LATEST, self.turn.time_of_day + header.delay)
        kept = self.turn.at_delivery_time(body, due)
        # What cannot be written could not be read after a restart.
        return (header._replace(delay=0), body) if kept is body else (header._replace(due=due), kept)

    def held_back(self, number: int, body: bytes, *, stored: bool = False) -> bool:
        """Keep a message that counts, and is not due yet, beside the lines. `stored`: its body is in the store."""
        arriving = self.delayed.arriving
        found = arriving.pop(number, None) if arriving else None
        if found is None:
            return False
        due, of_day = found
        place, kept = (STORE, None) if stored else (HERE, body)
        entry = (number, len(body), place, kept, self.deadlines.at.get(number, NEVER))
        self.delayed.add(due - self.turn.ahead if of_day else due, entry, of_day=of_day)
        self.turn.delayed.add(self)
        return True

    def count(self, header: Header, body: bytes) -> int:
        """A message is in the queue from now on, seen or not; its number."""
        self.enqueued += 1
        self.depth_messages += 1
        self.depth_bytes += len(body)
        number = number_of(self.enqueued, header.priority)
        if header.ttl:
            self.expires(number, self.turn.now + header.ttl)
        if header.due > self.turn.time_of_day:
            of_day = not header.delay
            self.delayed.arriving[number] = (header.due if of_day else self.turn.now + header.delay), of_day
        return number

    def expires(self, number: int, at: int) -> None:
        self.deadlines.add(number, at)
        self.turn.expiring.add(self)

    def show(self, number: int, body: bytes) -> None:
        """Consumers may have the message, once it is its turn."""
        line = self.line_of(number)
        if line.deep:
            self.put_behind(line, number, body)
        else:
            line.ready.append((number, body))

    def put_behind(self, line: Line, number: int, body: bytes) -> None:
        """Put a message behind the backlog of a line that has one."""
        raise NotImplementedError

    def check_depth(self) -> None:
        if self.depth_bytes > self.stop_bytes or self.depth_messages > self.stop_messages:
            self.overflow.above(self)
        self.mark_touched(self)

    def restore(self, message: Message) -> None:
        """A message that a consumer had takes its old place."""
        self.line_of(message[0]).put_back(message)

    def line_of(self, number: int) -> Line:
        """The line of the message with this number."""
        rank = rank_of(number)
        line = self.by_rank.get(rank)
        if line is None:
            line = self.by_rank[rank] = Line(rank)
            self.lines = sorted(self.by_rank.values(), key=lambda each: each.rank)
        return line

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
            self.turn.dropped[self] = self.turn.dropped.get(self, 0) + count

    def state_dropped(self, count: int) -> None:
        """State that so many messages were dropped: once a turn, since a full ring drops one for each that comes."""
        limits = self.limits
        words = dropped_words(
            count, self.depth_bytes, self.depth_messages, level(limits.stop_bytes), level(limits.stop_messages)
        )
        self.state_fact("queue-dropped", words, {"messages": count})

    def drop_oldest(self) -> bool:
        """Drop the oldest message of the lowest priority that no consumer has acquired, those that are not due after
        all others; False if there is none."""
        for line in reversed(self.lines):
            message = line.first()
            if message is not None:
                self.forget(message)
                return True
            if self.drop_behind(line):
                return True
        delayed = self.delayed.take_oldest()
        if delayed is not None:
            self.forget_behind(delayed)
        return delayed is not None

    def drop_behind(self, line: Line) -> bool:
        """Drop the first of a line's backlog; False if there is none."""
        return False

    def release(self) -> bool:
        """Show messages that are due, a batch at a time. True: there are more to show now."""
        raise NotImplementedError

    # -- out ----------------------------------------------------------------------------------------------------

    def copies(self, line: Line, seen: int, count: int) -> list[Message]:
        """The first `count` messages of a line that no consumer holds, of those with numbers above `seen`."""
        return line.after(seen, count)

    def pick(self, line: Line, number: int) -> None:
        """Take out a message of which `copies` has given a copy."""
        line.pick(number)

    def purge(self) -> int:
        """Remove every message that no consumer has acquired; how many there were."""
        messages = [m for line in self.lines for m in (*line.returned, *line.ready)]
        for line in self.lines:
            line.returned.clear()
            line.ready.clear()
        for message in messages:
            self.forget(message)
        delayed = 0
        while (entry := self.delayed.take_oldest()) is not None:
            self.forget_behind(entry)
            delayed += 1
        self.measure()
        self.touch()
        return len(messages) + delayed

    def expire(self) -> None:
        """Remove the messages that are due, of those whose bodies are in memory and that no consumer holds."""
        before = self.expired
        for number in self.deadlines.due(self.turn.now):
            message = self.line_of(number).pick(number)
            if message is not None:
                self.forget(message)
                self.expired += 1
            elif (delayed := self.delayed.take(number)) is not None:
                self.forget_behind(delayed)
                self.expired += 1
        if self.expired > before:
            self.measure()
            self.touch()

    def expire_all(self) -> bool:
        """The same, by time, of all messages. False: none is left that expires."""
        self.expire()
        return bool(self.deadlines.at)

    def forget(self, message: Message) -> None:
        """A message goes that no consumer had; whoever calls measures afterwards."""
        self.discount(message[0], len(message[1]))

    def forget_behind(self, entry: Entry) -> None:
        """The same of a message whose body may be elsewhere."""
        self.discount(entry[0], entry[1])

    def discount(self, number: int, size: int) -> None:
        self.depth_messages -= 1
        self.depth_bytes -= size
        self.dequeued += 1
        self.deliveries.pop(number, None)
        self.excluded.pop(number, None)
        self.deadlines.forget(number)
        if self.delayed.shown:
            self.delayed.shown.pop(sequence_of(number), None)

    @property
    def returned(self) -> list[Message]:
        """What came back from consumers, in order."""
        return [message for line in self.lines for message in line.returned]

    @property
    def unacknowledged(self) -> int:
        seen = sum(map(len, self.lines))
        return self.depth_messages - self.uncommitted_messages - seen - len(self.unsafe) - len(self.delayed)

    def oldest(self) -> int | None:
        """Of the messages that no consumer holds the oldest: as so manieth of all did it come."""
        first = [line.first_number for line in self.lines if len(line)] or [each.number for each in self.unsafe]
        return min(map(sequence_of, first), default=None)
