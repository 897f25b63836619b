"""Dispatch of a queue's messages: to consumers round-robin, those with a selector first, and copies to browsers.

A consumer acquires the messages dispatched to it. The work of one turn is bounded: if there is more, the queue is
dispatched again in a later turn, so that other queues are served in between.

Acquired messages are in memory. Once they, and all others, have used up what the machine has (`Usage.exhausted`), a
backlog is loaded only for consumers that have no message: each of them goes on, and one that settles nothing waits.
"""

from __future__ import annotations

from collections import deque

from brokers.engine.queues.choosing import MOST_EXAMINED, dispatch_chosen, weight
from brokers.engine.queues.consumer import BATCH, Batches, Consumer
from brokers.engine.queues.groups import Groups
from brokers.engine.queues.lane import PriorityLane
from brokers.engine.queues.lanes import PriorityLanes
from brokers.engine.queues.returning import serve_returned
from brokers.engine.values.message import Message

#: Parts of a backlog that are loaded in one turn.
LOADS = 4

#: The most that a queue assigns in one turn, in messages, and in bytes by their mean size: a consumer may give any
#: credit.
MOST_SERVED, MOST_SERVED_BYTES = 4096, 4 << 20


class Dispatcher:
    """`consumers`: those without a selector, the next one first. `choosers`: consumers with a selector. `groups`: None
    until a consumer requests message groups. `sparing`: in the last turn, only consumers without a message got messages
    of a backlog. `_left`: messages that may still be assigned in this turn."""

    __slots__ = ("_left", "browsers", "choosers", "consumers", "groups", "sparing")

    def __init__(self) -> None:
        self.consumers: deque[Consumer] = deque()
        self.browsers: list[Consumer] = []
        self.choosers: deque[Consumer] = deque()
        self.groups: Groups | None = None
        self._left = 0
        self.sparing = False

    # -- links --------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.consumers) + len(self.choosers) + len(self.browsers)

    def of_kind(self, consumer: Consumer) -> list[Consumer] | deque[Consumer]:
        """Return the list that the consumer belongs to."""
        if consumer.browsing:
            return self.browsers
        return self.consumers if consumer.selects is None else self.choosers

    @property
    def destructive(self) -> list[Consumer]:
        """The consumers that remove messages: all but browsers."""
        return [*self.consumers, *self.choosers]

    def detach(self, consumer: Consumer) -> None:
        self.of_kind(consumer).remove(consumer)
        if self.groups is not None and self.groups.release(consumer):
            for chooser in self.choosers:
                chooser.revisit_all()

    def revisit(self, number: int) -> None:
        """Have consumers examine a message that was inserted before their position in a lane."""
        for consumer in (*self.choosers, *self.browsers):
            consumer.revisit(number)

    def has_credit(self) -> bool:
        """Whether a consumer without a selector can be sent a message."""
        return any(c.credit > 0 and c.connection.writable for c in self.consumers)

    # -- messages -----------------------------------------------------------------------------------------------

    def dispatch(self, lanes: PriorityLanes) -> Batches:  # noqa: C901 - every turn's path
        """Assign messages to consumers with credit, round-robin. Return them as acquired by these consumers."""
        batches: Batches = []
        gate = lanes.gate
        self._left = MOST_SERVED
        if gate.depth_bytes > MOST_SERVED_BYTES:
            self._left = _most_served(gate.depth_messages, gate.depth_bytes)
        if lanes.deadlines.soonest <= lanes.turn.now:
            lanes.expire()
        if self.browsers:
            looking = [b for b in self.browsers if b.credit > 0 and b.connection.writable]
            batches.extend((b, copies) for b in looking if (copies := _browse(lanes, b, self._left)))
        if self.sparing or lanes.usual.deep or len(lanes.lanes) > 1:
            self.sparing = gate.footprint.meter.memory.exhausted and any(lane.deep for lane in lanes.lanes)
            if self.sparing:
                lanes.agenda.watched.add(lanes.queue)  # until there is memory again
        if self.choosers:
            dispatch_chosen(lanes, self.choosers, batches, sparing=self.sparing)
        for lane in lanes.lanes:
            self._serve(lanes, lane, batches)
            if self._left <= 0:
                break
            if lane.deep and not lane.ready and self._has_taker and not self._serve_backlog(lanes, lane, batches):
                break  # the rest of this lane goes before lower priorities
        if self._left <= 0 and self.has_credit():
            lanes.agenda.redispatch.add(lanes.queue)
        return batches

    def _serve_backlog(self, lanes: PriorityLanes, lane: PriorityLane, batches: Batches) -> bool:
        """Assign messages of the backlog of a lane. Return False if more remain than can be assigned now."""
        for _ in range(LOADS):
            if not lanes.load(lane):
                lanes.agenda.watched.add(lanes.queue)  # retried by the sweep
                return False
            self._serve(lanes, lane, batches)
            if not lane.deep or lane.ready or not self._has_taker:
                return True
        lanes.agenda.redispatch.add(lanes.queue)
        return False

    def _serve(self, lanes: PriorityLanes, lane: PriorityLane, batches: Batches) -> None:
        """Assign the messages of a lane whose bodies are in memory."""
        if lane.returned:
            self._left -= serve_returned(lanes, lane, self.consumers, batches, self._left)
        ready, consumers, excluded, left = lane.ready, self.consumers, lanes.excluded, self._left
        while ready and left > 0:
            if excluded and ready[0][0] in excluded:
                lane.returned.append(ready.popleft())
                lane.note_returned(lane.returned[-1:])
                left -= serve_returned(lanes, lane, consumers, batches, left)
                continue
            consumer = self._next_consumer()
            if consumer is None:
                break
            count = min(consumer.credit, len(ready))
            if len(consumers) > 1 and count > BATCH:
                count = BATCH
            if count > left:  # noqa: PLR1730 - every batch's path
                count = left
            if excluded:
                count = next((at for at in range(count) if ready[at][0] in excluded), count)
            take = ready.popleft
            batches.append((consumer, [take() for _ in range(count)]))
            consumer.credit -= count
            consumer.messages += count
            consumer.unacknowledged += count
            left -= count
        self._left = left

    def _next_consumer(self) -> Consumer | None:
        consumers = self.consumers
        for _ in range(len(consumers)):
            consumer = consumers[0]
            consumers.rotate(-1)
            if consumer.credit > 0 and consumer.connection.writable and not (self.sparing and consumer.unacknowledged):
                return consumer
        return None

    @property
    def _has_taker(self) -> bool:
        """Whether a consumer without a selector gets a message of the present lane."""
        return any(
            c.credit > 0 and c.connection.writable and not (self.sparing and c.unacknowledged) for c in self.consumers
        )


def _most_served(depth: int, size: int) -> int:
    """Return how many messages a queue with this depth in messages and bytes may assign in one turn."""
    if size * MOST_SERVED <= depth * MOST_SERVED_BYTES:
        return MOST_SERVED
    return max(1, depth * MOST_SERVED_BYTES // size)


def _browse(lanes: PriorityLanes, browser: Consumer, most: int) -> list[Message]:
    """Return copies for the browser's credit, up to `most`: messages after the last one of each priority that it got,
    and earlier ones whose delivery time has come since. Acquired messages are skipped, also if they are returned
    later. With a selector, what is examined counts, as in `choosing.py`."""
    shown: list[Message] = []
    selects = browser.selects
    left = most if selects is None else MOST_EXAMINED

    def show(message: Message) -> int:
        """Return as how many messages it counts."""
        if selects is not None and not selects(message[1]):
            return weight(lanes, message[1])
        browser.credit -= 1
        browser.messages += 1
        shown.append(message)
        return 1 if selects is None else weight(lanes, message[1])

    while browser.to_revisit and browser.credit > 0 and left > 0:
        number = browser.to_revisit.pop(0)
        left -= max(1, sum(show(m) for m in lanes.copies(lanes.lane_of(number), number - 1, 1) if m[0] == number))
    for lane in lanes.lanes:
        copies = lanes.copies(lane, browser.position(lane.rank), max(0, min(browser.credit, left)))
        for message in copies:
            if left <= 0:
                break
            browser.positions[lane.rank] = message[0]
            left -= show(message)
        if left <= 0 or (copies and selects is not None):
            lanes.agenda.redispatch.add(lanes.queue)  # there may be more for its credit
        if left <= 0 or lane.backlog.last > browser.position(lane.rank):
            break  # the rest of this lane goes before lower priorities
    return shown
