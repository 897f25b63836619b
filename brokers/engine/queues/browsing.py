"""The messages of a queue in order, without taking any: available, acquired and delayed ones.

The order is that of the numbers, which is the order of delivery: higher priorities first, then first in, first out. So
a number is a place in the queue that stays valid while messages come and go.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import NamedTuple

from brokers.engine.queues.backlog import Entry
from brokers.engine.queues.consumer import Consumer
from brokers.engine.queues.lanes import PriorityLanes
from brokers.engine.queues.queue import Queue
from brokers.engine.values.message import NEVER, rank_of
from brokers.model.message_operations import ACQUIRED, AVAILABLE, DELAYED

#: Below the number of any message.
FRONT = -NEVER

_number = itemgetter(0)


class Seen(NamedTuple):
    """A message of a queue. `body`: None if it is in a store, at `place`. `expires`, `due`: ms of the engine's time;
    NEVER: does not, or not known. `consumer`: who has acquired it."""

    number: int
    size: int
    state: str
    body: bytes | None
    place: int
    expires: int = NEVER
    due: int = NEVER
    consumer: Consumer | None = None

    @property
    def entry(self) -> Entry:
        """As the queue's storage takes it."""
        return self.number, self.size, self.place, self.body, self.expires


class Browsing:
    """The messages of a queue during one turn. Messages may be removed meanwhile, from the front up to the last one
    that was returned."""

    def __init__(self, queue: Queue) -> None:
        self._lanes: PriorityLanes = queue.lanes
        self._expiries = queue.lanes.deadlines.at
        self.acquired = sorted(
            (
                Seen(number, len(body), ACQUIRED, body, 0, self._expiries.get(number, NEVER), consumer=consumer)
                for consumer in queue.dispatcher.destructive
                for number, body in consumer.acquired()
            ),
            key=_number,
        )
        self._delayed = queue.lanes.delayed.in_order()

    def after(self, number: int, count: int) -> list[Seen]:
        """Return the first `count` messages with numbers above `number`."""
        at = bisect_right(self.acquired, number, key=_number)
        found = merge(
            self._available(number, count), self.acquired[at : at + count], self._delayed_after(number), key=_number
        )
        return list(islice(found, count))

    def not_acquired_after(self, number: int, count: int) -> list[Seen]:
        """As `after`, without acquired messages."""
        found = merge(self._available(number, count), self._delayed_after(number), key=_number)
        return list(islice(found, count))

    def _delayed_after(self, number: int) -> Iterator[Seen]:
        for at in range(bisect_right(self._delayed, number), len(self._delayed)):
            found = self._delayed_one(self._delayed[at])
            if found is not None:
                yield found

    def _delayed_one(self, number: int) -> Seen | None:
        found = self._lanes.delayed.get(number)
        if found is None:
            return None
        due, (_, size, place, body, expires) = found
        return Seen(number, size, DELAYED, body, place, expires, due)

    def _available(self, number: int, count: int) -> list[Seen]:
        found: list[Seen] = []
        expiries, rank = self._expiries, rank_of(number)
        for lane in self._lanes.lanes:
            if lane.rank < rank:
                continue
            last = number
            for each, body in lane.after(number, count - len(found)):
                found.append(Seen(each, len(body), AVAILABLE, body, 0, expiries.get(each, NEVER)))
                last = each
            behind = lane.backlog.after(last, count - len(found), NEVER)
            found += [Seen(each, size, AVAILABLE, body, at, expires) for each, size, at, body, expires in behind]
            if len(found) >= count:
                break
        return found

    def position(self, number: int) -> int:
        """Return the place of an available message in the order of delivery, from 1."""
        rank, before = rank_of(number), 0
        for lane in self._lanes.lanes:
            if lane.rank >= rank:
                return before + lane.before(number) + 1
            before += len(lane)
        return before + 1
