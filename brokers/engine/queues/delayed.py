"""Messages whose delivery time has not come: they count in the depth of their queue, but are in no priority lane.

A delivery time is a time of day, and moves when the machine's clock is set; a delay is a duration, and does not. Bodies
in a store stay there until the delivery time. The store's index says of messages from an earlier run only that they
have a delivery time; the time is read from their bodies, in batches.

Times are the engine's, in ms. A delayed message takes about 400 bytes.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from heapq import heapify, heappop, heappush

from brokers.engine.queues.backlog import TEMP, Entry
from brokers.engine.queues.purging import Taken
from brokers.engine.values.message import NEVER

#: Removed messages that may remain in the heap before it is rebuilt.
_SLACK = 1024


class Delayed:
    """`arriving`: number -> (delivery time, whether that is a time of day), for messages that the store has not
    confirmed. `depth_bytes`: size of all bodies; `bytes`: size of those in stores. `visible_since`: sequence number ->
    when the message became visible; None: not recorded, since nothing needs the age of messages."""

    __slots__ = ("_entries", "_heap", "_order", "_unread", "arriving", "bytes", "depth_bytes", "visible_since")

    def __init__(self) -> None:
        self.arriving: dict[int, tuple[int, bool]] = {}
        self.visible_since: dict[int, int] | None = None
        self.bytes = 0
        self.depth_bytes = 0
        #: (delivery time, whether that is a time of day, message), in order of arrival.
        self._entries: OrderedDict[int, tuple[int, bool, Entry]] = OrderedDict()
        self._heap: list[tuple[int, int]] = []
        self._order: list[int] | None = None  # the numbers in order, while no message is added
        self._unread: deque[int] = deque()

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, due: int, entry: Entry, *, of_day: bool) -> None:
        """Add a message until `due`. `of_day`: its delivery time is a time of day."""
        number = entry[0]
        if number not in self._entries:
            self._count(entry, 1)
            self._order = None
        self._entries[number] = due, of_day, entry
        if len(self._heap) > 2 * len(self._entries) + _SLACK:
            self._rebuild()
        else:
            heappush(self._heap, (due, number))

    def add_unread(self, entry: Entry) -> None:
        """Add a message whose body has to be read for its delivery time; `add` it again then."""
        self._entries[entry[0]] = NEVER, True, entry
        self._order = None
        self._count(entry, 1)
        self._unread.append(entry[0])

    def _count(self, entry: Entry, sign: int) -> None:
        self.depth_bytes += sign * entry[1]
        if entry[3] is None:
            self.bytes += sign * entry[1]

    def _rebuild(self) -> None:
        self._heap = [(due, number) for number, (due, _, _) in self._entries.items() if due != NEVER]
        heapify(self._heap)

    def clock_set(self, step: int) -> None:
        """Move the delivery times by `step`, the change in ms by which the time of day is ahead of the engine's
        time."""
        for number, (due, of_day, entry) in self._entries.items():
            if of_day and due != NEVER:
                self._entries[number] = due - step, of_day, entry
        self._rebuild()

    def moved(self, number: int) -> bool:
        """Record that the body of a message has moved to the temp store. Return False if the message is not here."""
        found = self._entries.get(number)
        if found is None:
            return False
        due, of_day, (_, size, _, _, expires) = found
        self._entries[number] = due, of_day, (number, size, TEMP, None, expires)
        self.bytes += size
        return True

    def take(self, number: int) -> Entry | None:
        """Remove and return the message with this number, if there is one."""
        found = self._entries.pop(number, None)
        if found is None:
            return None
        self._count(found[2], -1)
        return found[2]

    def take_all(self, taken: Taken) -> None:
        """Take all messages out that the store has confirmed."""
        taken.delayed, self._entries = self._entries, OrderedDict()
        taken.rest = self._heap
        taken.delayed_bytes = self.depth_bytes
        self._heap, self._order, self._unread = [], None, deque()
        self.bytes = self.depth_bytes = 0

    def in_order(self) -> list[int]:
        """Return all numbers, in order, and possibly some of messages that were taken."""
        if self._order is None or len(self._order) > 2 * len(self._entries) + _SLACK:
            self._order = sorted(self._entries)
        return self._order

    def get(self, number: int) -> tuple[int, Entry] | None:
        """Return (delivery time, message) of the message with this number, if there is one; NEVER: not read yet."""
        found = self._entries.get(number)
        return None if found is None else (found[0], found[2])

    def take_oldest(self) -> Entry | None:
        """Remove and return the message that arrived first."""
        return self.take(next(iter(self._entries))) if self._entries else None

    @property
    def soonest(self) -> int:
        """The next known delivery time; NEVER if there is none."""
        heap = self._heap
        while heap and not self._is_current(*heap[0]):
            heappop(heap)
        return heap[0][0] if heap else NEVER

    def _is_current(self, due: int, number: int) -> bool:
        found = self._entries.get(number)
        return found is not None and found[0] == due

    def take_due(self, now: int, most: int, most_bytes: int) -> list[Entry]:
        """Remove and return due messages, in order of delivery time and then number: at most `most`, and at most
        `most_bytes` but at least one message."""
        heap, found = self._heap, list[Entry]()
        while len(found) < most and self.soonest <= now:
            number = heap[0][1]
            most_bytes -= self._entries[number][2][1]
            if found and most_bytes < 0:
                break
            heappop(heap)
            entry = self.take(number)
            assert entry is not None
            found.append(entry)
        return found

    @property
    def has_unread(self) -> bool:
        return bool(self._unread)

    def unread(self, most: int, most_bytes: int) -> list[Entry]:
        """Return the next messages whose bodies must be read, with the same limits. The next call returns those again
        that were neither added nor taken."""
        unread, found = self._unread, list[Entry]()
        at = 0
        while at < len(unread) and len(found) < most:
            entry = self._entries.get(unread[at])
            if entry is None or entry[0] != NEVER:
                if at:
                    break  # the next call begins with it
                unread.popleft()
                continue
            most_bytes -= entry[2][1]
            if found and most_bytes < 0:
                break
            found.append(entry[2])
            at += 1
        return found
