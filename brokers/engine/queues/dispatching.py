"""Dispatch of a queue's messages: to consumers round-robin, those with a selector first, and copies to browsers.

A consumer acquires the messages dispatched to it. The work of one turn is bounded: if there is more, the queue is
dispatched again in a later turn, so that other queues are served in between.
"""

from __future__ import annotations

from collections import deque

from brokers.engine.queues.choosing import dispatch_chosen
from brokers.engine.queues.consumer import BATCH, Consumer
from brokers.engine.queues.groups import Groups
from brokers.engine.queues.lane import PriorityLane
from brokers.engine.queues.lanes import PriorityLanes
from brokers.engine.values.message import Message

#: Parts of a backlog that are loaded in one turn.
LOADS = 4

Batches = list[tuple[Consumer, list[Message]]]


class Dispatcher:
    """`consumers`: those without a selector, the next one first. `choosers`: consumers with a selector. `groups`: None
    until a consumer requests message groups."""

    __slots__ = ("browsers", "choosers", "consumers", "groups")

    def __init__(self) -> None:
        self.consumers: deque[Consumer] = deque()
        self.browsers: list[Consumer] = []
        self.choosers: deque[Consumer] = deque()
        self.groups: Groups | None = None

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

    @property
    def has_credit(self) -> bool:
        """Whether a consumer without a selector can be sent a message."""
        return any(c.credit > 0 and c.connection.writable for c in self.consumers)

    # -- messages -----------------------------------------------------------------------------------------------

    def dispatch(self, lanes: PriorityLanes) -> Batches:
        """Assign messages to consumers with credit, round-robin. Return them as acquired by these consumers."""
        batches: Batches = []
        if lanes.deadlines.soonest <= lanes.turn.now:
            lanes.expire()
        if self.browsers:
            looking = [b for b in self.browsers if b.credit > 0 and b.connection.writable]
            batches.extend((b, copies) for b in looking if (copies := _browse(lanes, b)))
        if self.choosers:
            dispatch_chosen(lanes, self.choosers, batches)
        for lane in lanes.lanes:
            self._serve(lanes, lane, batches)
            if lane.deep and not lane.ready and self.has_credit and not self._serve_backlog(lanes, lane, batches):
                break  # the rest of this lane goes before lower priorities
        return batches

    def _serve_backlog(self, lanes: PriorityLanes, lane: PriorityLane, batches: Batches) -> bool:
        """Assign messages of the backlog of a lane. Return False if more remain than can be assigned now."""
        for _ in range(LOADS):
            if not lanes.load(lane):
                lanes.agenda.watched.add(lanes.queue)  # retried by the sweep
                return False
            self._serve(lanes, lane, batches)
            if not lane.deep or lane.ready or not self.has_credit:
                return True
        lanes.agenda.redispatch.add(lanes.queue)
        return False

    def _serve(self, lanes: PriorityLanes, lane: PriorityLane, batches: Batches) -> None:
        """Assign the messages of a lane whose bodies are in memory."""
        if lane.returned:
            self._serve_returned(lanes, lane, batches)
        ready, consumers, excluded = lane.ready, self.consumers, lanes.excluded
        while ready:
            if excluded and ready[0][0] in excluded:
                lane.returned.append(ready.popleft())
                self._serve_returned(lanes, lane, batches)
                continue
            consumer = self._next_consumer()
            if consumer is None:
                break
            count = min(consumer.credit, len(ready))
            if len(consumers) > 1 and count > BATCH:
                count = BATCH
            if excluded:
                count = next((at for at in range(count) if ready[at][0] in excluded), count)
            take = ready.popleft
            batches.append((consumer, [take() for _ in range(count)]))
            consumer.credit -= count
            consumer.messages += count
            consumer.unacknowledged += count

    def _next_consumer(self) -> Consumer | None:
        consumers = self.consumers
        for _ in range(len(consumers)):
            consumer = consumers[0]
            consumers.rotate(-1)
            if consumer.credit > 0 and consumer.connection.writable:
                return consumer
        return None

    def _serve_returned(self, lanes: PriorityLanes, lane: PriorityLane, batches: Batches) -> None:
        """Assign returned messages, one by one, before all others, and not to consumers that are barred from them."""
        waiting: list[Message] = []
        for index, message in enumerate(lane.returned):
            barred = lanes.excluded.get(message[0], ())
            consumer = next(
                (c for c in self.consumers if c.credit > 0 and c.connection.writable and c not in barred), None
            )
            if consumer is None and not barred:  # no consumer has credit
                if index == 0:
                    return
                waiting.extend(lane.returned[index:])
                break
            if consumer is None:
                waiting.append(message)
                continue
            self.consumers.remove(consumer)
            self.consumers.append(consumer)
            consumer.credit -= 1
            consumer.messages += 1
            consumer.unacknowledged += 1
            batches.append((consumer, [message]))
        lane.returned = waiting


def _browse(lanes: PriorityLanes, browser: Consumer) -> list[Message]:
    """Return copies for the browser's credit: messages after the last one of each priority that it got, and earlier
    ones whose delivery time has come since. Acquired messages are skipped, also if they are returned later."""
    shown: list[Message] = []
    while browser.to_revisit and len(shown) < browser.credit:
        number = browser.to_revisit.pop(0)
        shown += [m for m in lanes.copies(lanes.lane_of(number), number - 1, 1) if m[0] == number]
    if browser.selects is not None:
        shown = [m for m in shown if browser.selects(m[1])]
    browser.credit -= len(shown)
    browser.messages += len(shown)
    for lane in lanes.lanes:
        copies = lanes.copies(lane, browser.position(lane.rank), browser.credit)
        if copies:
            browser.positions[lane.rank] = copies[-1][0]
            if browser.selects is not None:
                copies = [m for m in copies if browser.selects(m[1])]
                lanes.agenda.redispatch.add(lanes.queue)  # there may be more for its credit
            browser.credit -= len(copies)
            browser.messages += len(copies)
            shown += copies
        if lane.backlog.last > browser.position(lane.rank):
            break  # the rest of this lane goes before lower priorities
    return shown
