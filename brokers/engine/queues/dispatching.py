"""Who gets which message of a queue: consumers in turns, those with a selector before them, and browsers.

What is dispatched is acquired by its consumer; browsers get copies. The work of one turn is bounded: where there is
more, the queue is dispatched again in a turn of its own, so that other queues have theirs.
"""

from __future__ import annotations

from collections import deque

from brokers.engine.queues.choosing import dispatch_chosen
from brokers.engine.queues.consumer import BATCH, Consumer
from brokers.engine.queues.groups import Groups
from brokers.engine.queues.lane import PriorityLane
from brokers.engine.queues.lanes import PriorityLanes
from brokers.engine.values.message import Message

#: How often a part of a backlog is loaded in one turn.
LOADS = 4

Batches = list[tuple[Consumer, list[Message]]]


class Dispatcher:
    """`consumers`: in turns. `choosers`: consumers with a selector. `groups`: once a consumer has asked for them."""

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
        """Those of its kind."""
        if consumer.browsing:
            return self.browsers
        return self.consumers if consumer.selects is None else self.choosers

    @property
    def destructive(self) -> list[Consumer]:
        """The consumers that take messages away: all but those that browse."""
        return [*self.consumers, *self.choosers]

    def detach(self, consumer: Consumer) -> None:
        self.of_kind(consumer).remove(consumer)
        if self.groups is not None and self.groups.release(consumer):
            for chooser in self.choosers:
                chooser.revisit_all()

    def revisit(self, number: int) -> None:
        """The message is in a lane again, or since now: those look at it that may have passed over it."""
        for consumer in (*self.choosers, *self.browsers):
            consumer.revisit(number)

    @property
    def wanted(self) -> bool:
        """A consumer without a selector could be sent a message."""
        return any(c.credit > 0 and c.connection.writable for c in self.consumers)

    # -- messages -----------------------------------------------------------------------------------------------

    def dispatch(self, lanes: PriorityLanes) -> Batches:
        """Assign messages to consumers that have credit, in turns. What is returned is acquired by them."""
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
            if lane.deep and not lane.ready and self.wanted and not self._serve_backlog(lanes, lane, batches):
                break  # there are more to come, before those of lower priority
        return batches

    def _serve_backlog(self, lanes: PriorityLanes, lane: PriorityLane, batches: Batches) -> bool:
        """Assign messages of the backlog of a lane. False: there are more of them than can be assigned now."""
        for _ in range(LOADS):
            if not lanes.load(lane):
                lanes.agenda.watched.add(lanes.queue)  # it is tried again by time
                return False
            self._serve(lanes, lane, batches)
            if not lane.deep or lane.ready or not self.wanted:
                return True
        lanes.agenda.redispatch.add(lanes.queue)
        return False

    def _serve(self, lanes: PriorityLanes, lane: PriorityLane, batches: Batches) -> None:
        """Assign those messages of a lane whose bodies are in memory."""
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
        """Messages that came back go first, one by one, past consumers that must not have them."""
        waiting: list[Message] = []
        for index, message in enumerate(lane.returned):
            barred = lanes.excluded.get(message[0], ())
            consumer = next(
                (c for c in self.consumers if c.credit > 0 and c.connection.writable and c not in barred), None
            )
            if consumer is None and not barred:  # no consumer is ready, and none will be for those after it
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
    """Copies of messages after the last that the browser saw of each priority, for its credit, and of those before
    whose delivery time has come since. What a consumer has is passed over, and not shown if it comes back."""
    shown: list[Message] = []
    while browser.to_revisit and len(shown) < browser.credit:
        number = browser.to_revisit.pop(0)
        shown += [m for m in lanes.copies(lanes.lane_of(number), number - 1, 1) if m[0] == number]
    if browser.selects is not None:
        shown = [m for m in shown if browser.selects(m[1])]
    browser.credit -= len(shown)
    browser.messages += len(shown)
    for lane in lanes.lanes:
        copies = lanes.copies(lane, browser.last_seen(lane.rank), browser.credit)
        if copies:
            browser.seen[lane.rank] = copies[-1][0]
            if browser.selects is not None:
                copies = [m for m in copies if browser.selects(m[1])]
                lanes.agenda.redispatch.add(lanes.queue)  # there may be more for its credit
            browser.credit -= len(copies)
            browser.messages += len(copies)
            shown += copies
        if lane.backlog.last > browser.last_seen(lane.rank):
            break  # there is more to come, before those of lower priority
    return shown
