"""The messages of a queue, in priority lanes: a lane is first in first out, and those of a higher priority go first.

A message whose delivery time has not come is in none (`delayed.py`); then it takes the place of its arrival. One whose
time is up goes, unless a consumer has it. Messages are opaque bytes but for what their header and annotations ask.

A lane may be deeper than memory: behind the messages that are ready it can have a backlog, whose bodies are where the
queue's storage keeps them, and come back when their turn comes. While there is a backlog, what comes is put behind it.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any

from brokers.engine.flow.gate import FlowGate, level
from brokers.engine.flow.turn import Turn
from brokers.engine.queues.agenda import Agenda
from brokers.engine.queues.backlog import HERE, STORE, Entry
from brokers.engine.queues.consumer import Consumer
from brokers.engine.queues.delayed import Delayed
from brokers.engine.queues.expiry import Deadlines
from brokers.engine.queues.lane import PriorityLane
from brokers.engine.queues.storage import Storage
from brokers.engine.values.events import dropped_words
from brokers.engine.values.message import LATEST, NEVER, Header, Message, number_of, rank_of, sequence_of

#: What is loaded at a time.
LOAD_MESSAGES = 512
LOAD_BYTES = 1 << 20
#: How many messages of a backlog are looked at in one sweep for those that have expired.
SWEEP_MESSAGES = 50_000

_number = itemgetter(0)


class PriorityLanes:
    """`lanes`: the highest priority first; `usual`: that of the usual priority. `deliveries`: message number -> failed
    deliveries, where there were any; `excluded`: message number -> consumers that must not get it again. `announce` is
    called with the number of each message whose delivery time has come. The queue sets `storage`."""

    __slots__ = (
        "_by_rank",
        "agenda",
        "announce",
        "deadlines",
        "delayed",
        "deliveries",
        "dequeued",
        "dropped",
        "excluded",
        "expired",
        "gate",
        "lanes",
        "queue",
        "storage",
        "turn",
        "undeclared_drops",
        "usual",
    )

    storage: Storage

    def __init__(self, queue: Any, gate: FlowGate, agenda: Agenda[Any], announce: Callable[[int], None]) -> None:
        self.queue = queue  # what the agenda knows
        self.gate = gate
        self.agenda = agenda
        self.turn: Turn = agenda.turn
        self.announce = announce
        self.usual = PriorityLane(0)
        self.lanes = [self.usual]
        self._by_rank = {0: self.usual}
        self.deadlines = Deadlines()
        self.delayed = Delayed()
        self.deliveries: dict[int, int] = {}
        self.excluded: dict[int, set[Consumer]] = {}
        self.dequeued = 0
        self.dropped = 0
        self.undeclared_drops = 0  # of them, since the last fact that stated some
        self.expired = 0

    def lane_of(self, number: int) -> PriorityLane:
        """The lane of the message with this number."""
        rank = rank_of(number)
        lane = self._by_rank.get(rank)
        if lane is None:
            lane = self._by_rank[rank] = PriorityLane(rank)
            self.lanes = sorted(self._by_rank.values(), key=lambda each: each.rank)
        return lane

    def memory_bytes(self) -> int:
        """Bytes of the messages whose bodies are in memory."""
        here = self.gate.depth_bytes - self.delayed.bytes
        for lane in self.lanes:
            here -= lane.backlog.bytes
        return here

    # -- in -----------------------------------------------------------------------------------------------------

    def timed(self, header: Header, body: bytes) -> tuple[Header, bytes]:
        """The message as it is kept: one that asks for a delay says its delivery time from now on."""
        if not header.delay:
            return header, body
        due = min(LATEST, self.turn.time_of_day + header.delay)
        kept = self.turn.at_delivery_time(body, due)
        # What cannot be written could not be read after a restart.
        return (header._replace(delay=0), body) if kept is body else (header._replace(due=due), kept)

    def count(self, header: Header, body: bytes) -> int:
        """A message is in the queue from now on, visible or not; its number."""
        gate = self.gate
        gate.enqueued += 1
        gate.depth_messages += 1
        gate.depth_bytes += len(body)
        number = number_of(gate.enqueued, header.priority)
        if header.ttl:
            self.expires(number, self.turn.now + header.ttl)
        if header.due > self.turn.time_of_day:
            of_day = not header.delay
            self.delayed.arriving[number] = (header.due if of_day else self.turn.now + header.delay), of_day
        return number

    def expires(self, number: int, at: int) -> None:
        self.deadlines.add(number, at)
        self.agenda.expiring.add(self.queue)

    def delay(self, number: int, body: bytes, *, stored: bool = False) -> bool:
        """Keep a message that counts, and is not due yet, beside the lanes. False: it is due. `stored`: its body is in
        the store."""
        arriving = self.delayed.arriving
        found = arriving.pop(number, None) if arriving else None
        if found is None:
            return False
        due, of_day = found
        place, kept = (STORE, None) if stored else (HERE, body)
        entry = (number, len(body), place, kept, self.deadlines.at.get(number, NEVER))
        self.delayed.add(due - self.turn.ahead if of_day else due, entry, of_day=of_day)
        self.agenda.delayed.add(self.queue)
        if not stored and self.storage.spooling:
            self.storage.spool(number, body)
        return True

    def show(self, number: int, body: bytes) -> None:
        """Consumers may have the message, once it is its turn."""
        lane = self.lane_of(number)
        if lane.deep:
            self.put_behind(lane, number, body)
        else:
            lane.ready.append((number, body))

    def put_behind(self, lane: PriorityLane, number: int, body: bytes) -> None:
        """Put a message that is not stored behind the backlog of its lane."""
        lane.deep = True
        lane.backlog.append(number, len(body), HERE, body, self.deadlines.forget(number))
        self.storage.spool(number, body)

    def restore(self, message: Message) -> None:
        """A message that a consumer had takes its old place; it may be in the backlog, if the consumer had chosen it
        there."""
        number, body = message
        lane = self.lane_of(number)
        if number > lane.backlog.first:
            lane.backlog.insert(*self.storage.entry(number, body, self.deadlines.forget(number)))
        else:
            lane.put_back(message)

    # -- by their delivery time ---------------------------------------------------------------------------------

    def release(self) -> bool:
        """Show messages that are due, a batch at a time. True: there are more to show now."""
        now, delayed = self.turn.now, self.delayed
        if self.deadlines.soonest <= now:
            self.expire()
        if not (self._read_times() and self._show_due(delayed.take_due(now, LOAD_MESSAGES, LOAD_BYTES))):
            return False  # a store cannot be read now: it is tried again by time
        return delayed.has_unread or delayed.soonest <= now

    def _read_times(self) -> bool:
        """Read when the next messages of an earlier run are due. False: the store cannot be read now."""
        entries = self.delayed.unread(LOAD_MESSAGES, LOAD_BYTES)
        bodies = self.storage.bodies(entries)
        if bodies is None:
            return False
        for entry in entries:
            body = bodies.get(entry[0])
            if body is None:
                self.delayed.take(entry[0])
                self._lose_damaged(entry)
            else:
                self.delayed.add(self.turn.header(body).due - self.turn.ahead, entry, of_day=True)
        return True

    def _show_due(self, entries: list[Entry]) -> bool:
        """Show messages whose time has come. False: a store cannot be read now, and some wait on."""
        readable = True
        for rank in {rank_of(entry[0]) for entry in entries}:
            due = sorted((entry for entry in entries if rank_of(entry[0]) == rank), key=_number)
            lane = self.lane_of(due[0][0])
            limit = lane.backlog.first
            if not self.storage.has_room(lane):
                limit = min(limit, next((_number(entry) for entry in due if entry[3] is None), NEVER))
            ahead = [entry for entry in due if _number(entry) < limit]
            bodies = self.storage.bodies(ahead)
            if bodies is None:
                readable = False
                for entry in due:
                    self.delayed.add(self.turn.now, entry, of_day=False)
                continue
            # Where there is no room, bodies stay where they are, and what is in memory after them goes behind.
            aside = [self._set_aside(*message) for message in lane.cut(limit)] if limit < lane.backlog.first else []
            self._put_amid(lane, sorted([*aside, *due[len(ahead) :]], key=_number))
            lane.take_in([(number, bodies[number]) for number, *_ in ahead if number in bodies])
            for entry in ahead:
                if _number(entry) not in bodies:
                    self._lose_damaged(entry)
                else:
                    self.storage.loaded(_number(entry), entry[2])
            self._announce(due)
        return readable

    def _set_aside(self, number: int, body: bytes) -> Entry:
        return self.storage.entry(number, body, self.deadlines.at.get(number, NEVER))

    def _put_amid(self, lane: PriorityLane, entries: list[Entry]) -> None:
        """They take their places in the backlog."""
        for entry in entries:
            self.deadlines.forget(_number(entry))
        lane.backlog.merge(entries)
        lane.deep = lane.deep or bool(entries)

    def _lose_damaged(self, entry: Entry) -> None:
        """A store that was damaged from outside does not have it."""
        self.discount(entry[0], entry[1])
        self.dropped += 1
        self.gate.measure()
        self.gate.touch()

    def _announce(self, due: list[Entry]) -> None:
        """Let those look at the messages who have passed their places."""
        self.gate.touch()
        for number, *_ in due:
            self.announce(number)
            if self.delayed.shown is not None:
                self.delayed.shown[sequence_of(number)] = self.turn.now

    # -- out ----------------------------------------------------------------------------------------------------

    def load(self, lane: PriorityLane) -> bool:
        """Make the first of the backlog ready. False: the store cannot be read now."""
        now, head = self.turn.now, lane.backlog.head(LOAD_MESSAGES, LOAD_BYTES)
        bodies = self.storage.bodies([entry for entry in head if entry[4] > now])
        if bodies is None:
            return False
        lane.drop_head(len(head))
        before = self.expired
        for entry in head:
            number, size, place, _, expires = entry
            body = bodies.get(number)
            if expires <= now:
                self.forget_entry(entry)
                self.expired += 1
            elif body is None:  # a store that was damaged from outside
                self.discount(number, size)
                self.dropped += 1
            else:
                lane.ready.append((number, body))
                self._leaves_backlog(number, place, expires)
        if self.expired > before:
            self.gate.measure()
        return True

    def _leaves_backlog(self, number: int, place: int, expires: int) -> None:
        """The body of a message is in memory from now on."""
        if expires != NEVER:
            self.expires(number, expires)
        self.storage.loaded(number, place)

    def copies(self, lane: PriorityLane, seen: int, count: int) -> list[Message]:
        """The first `count` messages of a lane that no consumer has, of those with numbers above `seen`."""
        copies = lane.after(seen, count)
        if lane.deep and len(copies) < count:
            last = max(seen, copies[-1][0]) if copies else seen
            behind = lane.backlog.after(last, min(count - len(copies), LOAD_MESSAGES), LOAD_BYTES)
            found = [entry for entry in behind if entry[4] > self.turn.now]
            bodies = self.storage.bodies(found) or {}
            copies.extend((number, bodies[number]) for number, *_ in found if number in bodies)
            if behind:
                self.agenda.redispatch.add(self.queue)  # there may be more for its credit
                if not found:
                    self.expire_all()
        return copies

    def pick(self, lane: PriorityLane, number: int) -> None:
        """Take out a message of which `copies` has given a copy."""
        if lane.pick(number) is None and (entry := lane.backlog.pick(number)) is not None:
            lane.deep = len(lane.backlog) > 0
            self._leaves_backlog(number, entry[2], entry[4])

    # -- away ---------------------------------------------------------------------------------------------------

    def drop_excess(self) -> None:
        """Drop the oldest messages until the depth is at or below the stop level. Messages of open transactions push
        nothing out before their commit."""
        gate, count = self.gate, 0
        limits = gate.limits
        while (
            gate.depth_bytes - gate.uncommitted_bytes > limits.stop_bytes
            or gate.depth_messages - gate.uncommitted_messages > limits.stop_messages
        ):
            if not self.drop_oldest():
                break  # all that is left is with consumers
            count += 1
        if count:
            self.dropped += count
            self.undeclared_drops += count
            self.turn.before_facts[self._state_dropped] = None

    def _state_dropped(self) -> None:
        """State how many messages were dropped: once a turn, since a full ring drops one for each that comes."""
        gate, limits = self.gate, self.gate.limits
        count, self.undeclared_drops = self.undeclared_drops, 0
        words = dropped_words(
            count, gate.depth_bytes, gate.depth_messages, level(limits.stop_bytes), level(limits.stop_messages)
        )
        gate.add_fact("queue-dropped", words, {"messages": count})

    def drop_oldest(self) -> bool:
        """Drop the oldest message of the lowest priority that no consumer has acquired, those that are not due after
        all others; False if there is none."""
        for lane in reversed(self.lanes):
            message = lane.first()
            if message is not None:
                self.forget(message)
                return True
            if self._drop_backlog(lane, 1):
                return True
        delayed = self.delayed.take_oldest()
        if delayed is not None:
            self.forget_entry(delayed)
        return delayed is not None

    def _drop_backlog(self, lane: PriorityLane, count: int) -> int:
        dropped = 0
        while dropped < count and len(lane.backlog):
            head = lane.backlog.head(min(LOAD_MESSAGES, count - dropped), 1 << 62)
            lane.drop_head(len(head))
            for entry in head:
                self.forget_entry(entry)
            dropped += len(head)
        return dropped

    def purge(self) -> int:
        """Remove every message that no consumer has acquired; how many there were."""
        count = sum(self._drop_backlog(lane, len(lane.backlog)) for lane in self.lanes)
        messages = [m for lane in self.lanes for m in (*lane.returned, *lane.ready)]
        for lane in self.lanes:
            lane.returned.clear()
            lane.ready.clear()
        for message in messages:
            self.forget(message)
        while (entry := self.delayed.take_oldest()) is not None:
            self.forget_entry(entry)
            count += 1
        self.gate.measure()
        self.gate.touch()
        return count + len(messages)

    def expire(self) -> None:
        """Remove the messages whose time is up, of those whose bodies are in memory and that no consumer has."""
        before = self.expired
        for number in self.deadlines.due(self.turn.now):
            message = self.lane_of(number).pick(number)
            if message is not None:
                self.forget(message)
                self.expired += 1
            elif (delayed := self.delayed.take(number)) is not None:
                self.forget_entry(delayed)
                self.expired += 1
        if self.expired > before:
            self.gate.measure()
            self.gate.touch()

    def expire_all(self) -> bool:
        """The same, by time, of all messages. False: none is left that expires."""
        self.expire()
        more, now, before = bool(self.deadlines.at), self.turn.now, self.expired
        for lane in self.lanes:
            if lane.backlog.soonest == NEVER:
                continue
            more = True
            for entry in lane.backlog.expired(now, SWEEP_MESSAGES):
                self.forget_entry(entry)
                self.expired += 1
            lane.deep = lane.deep and len(lane.backlog) > 0
        if self.expired > before:
            self.gate.measure()
            self.gate.touch()
        return more

    def forget(self, message: Message) -> None:
        """A message goes that no consumer had; the caller measures afterwards."""
        self.discount(message[0], len(message[1]))
        self.storage.forget(message)

    def forget_entry(self, entry: Entry) -> None:
        """The same of a message whose body may be elsewhere."""
        self.discount(entry[0], entry[1])
        self.storage.forget_entry(entry)

    def discount(self, number: int, size: int) -> None:
        """A message is no longer in the queue."""
        self.gate.depth_messages -= 1
        self.gate.depth_bytes -= size
        self.dequeued += 1
        self.deliveries.pop(number, None)
        self.excluded.pop(number, None)
        self.deadlines.forget(number)
        if self.delayed.shown:
            self.delayed.shown.pop(sequence_of(number), None)

    # -- what there is ------------------------------------------------------------------------------------------

    @property
    def returned(self) -> list[Message]:
        """What came back from consumers, in order."""
        return [message for lane in self.lanes for message in lane.returned]

    @property
    def unacknowledged(self) -> int:
        """Messages that consumers have."""
        available = sum(map(len, self.lanes)) + len(self.storage.unsafe) + len(self.delayed)
        return self.gate.depth_messages - self.gate.uncommitted_messages - available

    def oldest(self) -> int | None:
        """Of the messages that no consumer has the oldest: its sequence number among all that came."""
        first = [lane.first_number for lane in self.lanes if len(lane)] or [each.number for each in self.storage.unsafe]
        return min(map(sequence_of, first), default=None)
