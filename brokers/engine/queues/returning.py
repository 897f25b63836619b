"""Dispatch of messages that consumers have returned: before all others, and not to a consumer that is barred from one.

A consumer may bar itself from any number of messages (`modified`, undeliverable here), which then wait for another
consumer. They are not examined again in each turn: a lane remembers for which consumers all its returned messages are
barred (`aside_for`), and which have been returned since (`fresh`). While no other consumer can be sent a message, only
the fresh ones are examined.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Collection
from operator import itemgetter

from brokers.engine.queues.consumer import Batches, Consumer
from brokers.engine.queues.lane import PriorityLane
from brokers.engine.queues.lanes import PriorityLanes
from brokers.engine.values.message import NEVER, Message

_number = itemgetter(0)


def serve_returned(
    lanes: PriorityLanes, lane: PriorityLane, consumers: deque[Consumer], batches: Batches, most: int
) -> int:
    """Assign up to `most` returned messages, one by one, in their order. Return their number."""
    able = {each for each in consumers if each.credit > 0 and each.connection.writable}
    if not able:
        return 0
    serving = _Serving(lanes, consumers, batches, able, most)
    if able <= lane.aside_for:
        serving.fresh(lane)
    else:
        serving.all(lane)
    if not lane.aside_for:
        lane.fresh.clear()
    return serving.served


class _Serving:
    """`able`: the consumers that can be sent a message now. `served`: messages assigned so far."""

    __slots__ = ("able", "batches", "consumers", "excluded", "most", "served")

    def __init__(
        self, lanes: PriorityLanes, consumers: deque[Consumer], batches: Batches, able: set[Consumer], most: int
    ) -> None:
        self.excluded = lanes.excluded
        self.consumers = consumers
        self.batches = batches
        self.able = able
        self.most = most
        self.served = 0

    def all(self, lane: PriorityLane) -> None:
        """Examine all messages, up to where it is known that they are barred for all that are still able."""
        returned, able, aside = lane.returned, self.able, lane.aside_for
        last = max(lane.fresh, default=-NEVER)
        waiting: list[Message] = []
        barred = False  # for all that are able, from here on
        for index, message in enumerate(returned):
            if not able or self.served == self.most or (barred and message[0] > last):
                waiting += returned[index:]
                break
            if not self._assign(message):
                waiting.append(message)
            elif able <= aside:
                barred = True
        lane.returned = waiting
        lane.fresh.clear()
        lane.aside_for = set(able) if waiting and self.served < self.most else set()

    def fresh(self, lane: PriorityLane) -> None:
        """Examine the messages that were returned since all were examined."""
        numbers = sorted(lane.fresh)
        lane.fresh.clear()
        for index, number in enumerate(numbers):
            if not self.able or self.served == self.most:
                lane.fresh += numbers[index:]
                break
            at = bisect_left(lane.returned, number, key=_number)
            # Unless it has left the lane.
            if at < len(lane.returned) and lane.returned[at][0] == number and self._assign(lane.returned[at]):
                del lane.returned[at]
        # Those that had no credit for the fresh ones have not been offered them.
        lane.aside_for = set(self.able)

    def _assign(self, message: Message) -> bool:
        """Assign a message to the next consumer that can be sent it. Return False if there is none."""
        barred: Collection[Consumer] = self.excluded.get(message[0], ())
        consumer = next((each for each in self.consumers if each in self.able and each not in barred), None)
        if consumer is None:
            return False
        self.consumers.remove(consumer)
        self.consumers.append(consumer)
        consumer.credit -= 1
        consumer.messages += 1
        consumer.unacknowledged += 1
        self.batches.append((consumer, [message]))
        self.served += 1
        if consumer.credit <= 0:
            self.able.discard(consumer)
        return True
