"""The messages of a queue in priority lanes: each lane is first in, first out; higher priorities go first.

A message whose delivery time has not come is in no lane (`delayed.py`); afterwards it takes the place of its arrival.
An expired message is removed, unless a consumer has acquired it. Message bodies are opaque except for header and
annotations.

A lane may have more messages than fit into memory: behind the ready messages it may have a backlog, with bodies in the
queue's storage, which are loaded before they are dispatched. New messages are appended to the backlog if there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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
from brokers.engine.queues.purging import Taken, forget_in, free_rest
from brokers.engine.queues.storage import Storage
from brokers.engine.values.events import dropped_words
from brokers.engine.values.message import LATEST, NEVER, Header, Message, number_of, rank_of, sequence_of

#: The most that is loaded from a store at a time.
LOAD_MESSAGES = 512
LOAD_BYTES = 1 << 20
#: Messages of a backlog that one sweep searches for expired ones.
SWEEP_MESSAGES = 50_000

_number = itemgetter(0)


class PriorityLanes:
    """`lanes`: the highest priority first; `usual`: the lane of the default priority. `deliveries`: message number ->
    failed deliveries, if not 0; `excluded`: message number -> consumers that must not get it again. `leaving`: see
    `leaving.py`. `announce` is called with the number of each message whose delivery time has come. The queue sets
    `storage`."""

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
        "leaving",
        "queue",
        "storage",
        "turn",
        "unreported_drops",
        "usual",
    )

    storage: Storage

    def __init__(self, queue: Any, gate: FlowGate, agenda: Agenda[Any], announce: Callable[[int], None]) -> None:
        self.queue = queue  # the element of the agenda's sets
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
        self.leaving: dict[int, bytes] = {}
        self.dequeued = 0
        self.dropped = 0
        self.unreported_drops = 0  # dropped since the last fact about drops
        self.expired = 0

    def lane_of(self, number: int) -> PriorityLane:
        """Return the lane of the message with this number."""
        rank = rank_of(number)
        lane = self._by_rank.get(rank)
        if lane is None:
            lane = self._by_rank[rank] = PriorityLane(rank)
            self.lanes = sorted(self._by_rank.values(), key=lambda each: each.rank)
        return lane

    def memory_bytes(self) -> int:
        """Return the size of the bodies in memory, in bytes."""
        in_memory = self.gate.depth_bytes - self.delayed.bytes
        for lane in self.lanes:
            in_memory -= lane.backlog.bytes
        return in_memory

    # -- in -----------------------------------------------------------------------------------------------------

    def timed(self, header: Header, body: bytes) -> tuple[Header, bytes]:
        """Return the message as it is stored: with a delivery time in place of a delay."""
        if not header.delay:
            return header, body
        due = min(LATEST, self.turn.time_of_day + header.delay)
        timed = self.turn.at_delivery_time(body, due)
        # A delivery time that cannot be written into the message would be lost at a restart.
        return (header._replace(delay=0), body) if timed is body else (header._replace(due=due), timed)

    def count(self, header: Header, body: bytes) -> int:
        """Count a new message of the queue, visible or not. Return its number."""
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

    def count_run(self, count: int, size: int) -> int:
        """Count new ordinary messages, visible or not, with successive numbers. `size`: of their bodies. Return the
        first number."""
        gate = self.gate
        first = gate.enqueued + 1
        gate.enqueued += count
        gate.depth_messages += count
        gate.depth_bytes += size
        return first

    def expires(self, number: int, at: int) -> None:
        self.deadlines.add(number, at)
        self.agenda.expiring.add(self.queue)

    def delay(self, number: int, body: bytes, *, stored: bool = False) -> bool:
        """Add a counted message to the delayed ones. Return False if it is due. `stored`: its body is in the store."""
        arriving = self.delayed.arriving
        found = arriving.pop(number, None) if arriving else None
        if found is None:
            return False
        due, of_day = found
        place, in_memory = (STORE, None) if stored else (HERE, body)
        entry = (number, len(body), place, in_memory, self.deadlines.at.get(number, NEVER))
        until = due - self.turn.ahead if of_day else due
        self.delayed.add(until, entry, of_day=of_day)
        self.agenda.delay(self.queue, until)
        if not stored and self.storage.spooling:
            self.storage.spool(number, body)
        return True

    def make_visible(self, number: int, body: bytes) -> None:
        """Make the message visible to consumers."""
        lane = self.lane_of(number)
        if lane.deep:
            self.put_behind(lane, number, body)
        else:
            lane.ready.append((number, body))

    def put_behind(self, lane: PriorityLane, number: int, body: bytes) -> None:
        """Append a message that is not stored to the backlog of its lane."""
        lane.deep = True
        lane.backlog.append(number, len(body), HERE, body, self.deadlines.forget(number))
        self.storage.spool(number, body)

    def restore(self, message: Message) -> None:
        """Put a message that a consumer returned at its former place, possibly in the backlog."""
        number, body = message
        lane = self.lane_of(number)
        if number > lane.backlog.first:
            lane.backlog.insert(*self.storage.entry(number, body, self.deadlines.forget(number)))
        else:
            lane.put_back(message)

    # -- by their delivery time ---------------------------------------------------------------------------------

    def release(self) -> bool:
        """Make due messages visible, a batch at a time. Return True if there are more."""
        now, delayed = self.turn.now, self.delayed
        if self.deadlines.soonest <= now:
            self.expire()
        if not (self._read_times() and self._make_due_visible(delayed.take_due(now, LOAD_MESSAGES, LOAD_BYTES))):
            return False  # a store cannot be read now: retried by the next call
        return delayed.has_unread or delayed.soonest <= now

    def _read_times(self) -> bool:
        """Read the delivery times of the next messages of an earlier run. Return False if the store cannot be read
        now."""
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

    def _make_due_visible(self, entries: list[Entry]) -> bool:
        """Make due messages visible. Return False if a store cannot be read now, so that some stay delayed."""
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
            # Without room, bodies stay in their store, and later messages in memory join the backlog behind them.
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
        """Insert messages at their places in the backlog."""
        for entry in entries:
            self.deadlines.forget(_number(entry))
        lane.backlog.merge(entries)
        lane.deep = lane.deep or bool(entries)

    def _lose_damaged(self, entry: Entry) -> None:
        """Drop a message whose body is missing from a damaged store."""
        self.discount(entry[0], entry[1])
        self.dropped += 1
        self.gate.measure()
        self.gate.touch()

    def _announce(self, due: list[Entry]) -> None:
        """Announce messages that have become visible, and record when they did."""
        self.gate.touch()
        for number, *_ in due:
            self.announce(number)
            if self.delayed.visible_since is not None:
                self.delayed.visible_since[sequence_of(number)] = self.turn.now

    # -- out ----------------------------------------------------------------------------------------------------

    def load(self, lane: PriorityLane) -> bool:
        """Load the first messages of the backlog. Return False if the store cannot be read now."""
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
            elif body is None:  # missing from a damaged store
                self.discount(number, size)
                self.dropped += 1
            else:
                lane.ready.append((number, body))
                self._leaves_backlog(number, place, expires)
        if self.expired > before:
            self.gate.measure()
        return True

    def _leaves_backlog(self, number: int, place: int, expires: int) -> None:
        """Record that a message of the backlog is in memory now."""
        if expires != NEVER:
            self.expires(number, expires)
        self.storage.loaded(number, place)

    def copies(self, lane: PriorityLane, seen: int, count: int) -> list[Message]:
        """Return copies of the first `count` available messages of a lane with numbers above `seen`."""
        copies = lane.after(seen, count)
        if lane.deep and len(copies) < count:
            last = max(seen, copies[-1][0]) if copies else seen
            behind = lane.backlog.after(last, min(count - len(copies), LOAD_MESSAGES), LOAD_BYTES)
            found = [entry for entry in behind if entry[4] > self.turn.now]
            bodies = self.storage.bodies(found) or {}
            copies.extend((number, bodies[number]) for number, *_ in found if number in bodies)
            if behind:
                self.agenda.redispatch.add(self.queue)  # there may be more for the remaining credit
                if not found:
                    self.expire_all()
        return copies

    def pick(self, lane: PriorityLane, number: int) -> None:
        """Acquire a message that `copies` has returned."""
        if lane.pick(number) is None and (entry := lane.backlog.pick(number)) is not None:
            lane.deep = len(lane.backlog) > 0
            self._leaves_backlog(number, entry[2], entry[4])

    # -- removal ------------------------------------------------------------------------------------------------

    def drop_excess(self) -> None:
        """Drop the oldest messages until the depth is at or below the stop level. Messages of open transactions count
        only after their commit."""
        gate, count = self.gate, 0
        limits = gate.limits
        while (
            gate.depth_bytes - gate.uncommitted_bytes > limits.stop_bytes
            or gate.depth_messages - gate.uncommitted_messages > limits.stop_messages
        ):
            if not self.drop_oldest():
                break  # consumers have acquired all others
            count += 1
        if count:
            self.dropped += count
            self.unreported_drops += count
            self.turn.before_facts[self._report_dropped] = None

    def _report_dropped(self) -> None:
        """Add one fact for the messages dropped in a turn: an overfull ring drops one for each that arrives."""
        gate, limits = self.gate, self.gate.limits
        count, self.unreported_drops = self.unreported_drops, 0
        words = dropped_words(
            count, gate.depth_bytes, gate.depth_messages, level(limits.stop_bytes), level(limits.stop_messages)
        )
        gate.add_fact("queue-dropped", words, {"messages": count})

    def drop_oldest(self) -> bool:
        """Drop the oldest available message of the lowest priority, and delayed messages last. Return False if there is
        none."""
        for lane in reversed(self.lanes):
            message = lane.first()
            if message is not None:
                self.forget(message)
                return True
            if len(lane.backlog):
                [entry] = lane.backlog.head(1, NEVER)
                lane.drop_head(1)
                self.forget_entry(entry)
                return True
        delayed = self.delayed.take_oldest()
        if delayed is not None:
            self.forget_entry(delayed)
        return delayed is not None

    def purge(self) -> tuple[int, int]:
        """Remove every message that no consumer has acquired. Return their number, and the ticket of the change that
        must be safe first; 0: none was stored. They are freed later, a portion at a time: see `purging.py`."""
        taken, gate = self._take_all(), self.gate
        in_lanes = sum(sum([len(body) for _, body in each]) for each in taken.messages)
        count = taken.count
        gate.depth_messages -= count
        gate.depth_bytes -= in_lanes + sum(backlog.all_bytes() for backlog in taken.backlogs) + taken.delayed_bytes
        self.dequeued += count
        ticket = self.storage.purge(taken)
        self.agenda.freeing.append(self._free(taken))
        self.agenda.free_some()
        gate.measure()
        gate.touch()
        return count, ticket

    def discard_all(self) -> None:
        """Take every message out of the queue, which is deleted; they are freed later, as those of a purge."""
        taken = self._take_all(ends=True)
        if taken.count:
            self.agenda.freeing.append(self._free(taken))

    def _take_all(self, *, ends: bool = False) -> Taken:
        taken = Taken()
        for lane in self.lanes:
            messages, backlog = lane.take_all(ends=ends)
            taken.messages += messages
            taken.backlogs.append(backlog)
        self.delayed.take_all(taken)
        return taken

    def _free(self, taken: Taken) -> Iterator[None]:
        yield from taken.free(self._forget_all, self.storage.left)
        yield from free_rest(self.deadlines.shorten())

    def _forget_all(self, numbers: Sequence[int]) -> None:
        """Forget what is known of messages that have left the queue."""
        for found in (self.deliveries, self.excluded, self.deadlines.at):
            forget_in(found, numbers)
        if self.delayed.visible_since:
            forget_in(self.delayed.visible_since, map(sequence_of, numbers))

    def expire(self) -> None:
        """Remove expired messages whose bodies are in memory and that no consumer has acquired."""
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
        """Remove expired messages, those of backlogs included. Return False if no message with an expiry is left."""
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
        """Remove a message that no consumer has acquired; the caller checks the depth afterwards."""
        self.discount(message[0], len(message[1]))
        self.storage.forget(message)

    def forget_entry(self, entry: Entry) -> None:
        """Remove a message whose body may be in a store; the caller checks the depth afterwards."""
        self.discount(entry[0], entry[1])
        self.storage.forget_entry(entry)

    def discount(self, number: int, size: int) -> None:
        """Count a message that leaves the queue."""
        self.gate.depth_messages -= 1
        self.gate.depth_bytes -= size
        self.dequeued += 1
        self.deliveries.pop(number, None)
        self.excluded.pop(number, None)
        self.deadlines.forget(number)
        if self.delayed.visible_since:
            self.delayed.visible_since.pop(sequence_of(number), None)

    # -- contents -----------------------------------------------------------------------------------------------

    @property
    def returned(self) -> list[Message]:
        """Messages that consumers returned, in order."""
        return [message for lane in self.lanes for message in lane.returned]

    @property
    def unacknowledged(self) -> int:
        """Number of messages that consumers have acquired."""
        unsafe = sum(each.count for each in self.storage.unsafe)
        available = sum(map(len, self.lanes)) + unsafe + len(self.delayed) + len(self.leaving)
        return self.gate.depth_messages - self.gate.uncommitted_messages - available

    def oldest(self) -> int | None:
        """Return the sequence number of the oldest message that no consumer has acquired, None if there is none."""
        first = [lane.first_number for lane in self.lanes if len(lane)] or [each.number for each in self.storage.unsafe]
        return min(map(sequence_of, first), default=None)
