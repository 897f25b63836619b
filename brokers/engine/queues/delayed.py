"""Messages that are not to be seen before their delivery time: in their queue and its depth, beside its priority lanes.

A delivery time is one of the clock on the wall, and moves when the machine's clock is set; a delay lasts as long as it
says. Bodies that are in a store stay there until their time has come. Of messages from an earlier run the store's index
says no more than that they have a delivery time; which one is read from their bodies, batch by batch.

Pure; times are the engine's, in ms. Only queues with such messages pay for them: about 400 bytes for each.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from heapq import heapify, heappop, heappush

from brokers.engine.queues.backlog import TEMP, Entry
from brokers.engine.values.message import NEVER

#: So many messages that have gone may be in the heap before it is built from those that are there.
_SLACK = 1024


class Delayed:
    """`arriving`: number -> (delivery time, whether that is a time of day), of messages that count in the queue and
    that the store has not answered for. `depth_bytes`: of all bodies; `bytes`: of those that are elsewhere. `shown`:
    place in the sequence of all that came -> when the message was shown; None: nothing asks how old messages are."""

    __slots__ = ("_entries", "_heap", "_unread", "arriving", "bytes", "depth_bytes", "shown")

    def __init__(self) -> None:
        self.arriving: dict[int, tuple[int, bool]] = {}
        self.shown: dict[int, int] | None = None
        self.bytes = 0
        self.depth_bytes = 0
        #: (when it is due, whether the clock moves that, the message), in the order in which they came.
        self._entries: OrderedDict[int, tuple[int, bool, Entry]] = OrderedDict()
        self._heap: list[tuple[int, int]] = []
        self._unread: deque[int] = deque()

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, due: int, entry: Entry, *, of_day: bool) -> None:
        """Keep a message until `due`. `of_day`: that comes from a time of day."""
        number = entry[0]
        if number not in self._entries:
            self._count(entry, 1)
        self._entries[number] = due, of_day, entry
        if len(self._heap) > 2 * len(self._entries) + _SLACK:
            self._rebuild()
        else:
            heappush(self._heap, (due, number))

    def add_unread(self, entry: Entry) -> None:
        """Keep a message of which its body says when it is due: `add` it again when that has been read."""
        self._entries[entry[0]] = NEVER, True, entry
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
        """The clock is ahead of the engine's time by so many ms more than before."""
        for number, (due, of_day, entry) in self._entries.items():
            if of_day and due != NEVER:
                self._entries[number] = due - step, of_day, entry
        self._rebuild()

    def moved(self, number: int) -> bool:
        """The body of a message that was here is in the temp store now. False: the message is no longer there."""
        found = self._entries.get(number)
        if found is None:
            return False
        due, of_day, (_, size, _, _, expires) = found
        self._entries[number] = due, of_day, (number, size, TEMP, None, expires)
        self.bytes += size
        return True

    def take(self, number: int) -> Entry | None:
        """Take out the message with this number, if it is there."""
        found = self._entries.pop(number, None)
        if found is None:
            return None
        self._count(found[2], -1)
        return found[2]

    def take_oldest(self) -> Entry | None:
        """Take out the message that came first."""
        return self.take(next(iter(self._entries))) if self._entries else None

    @property
    def soonest(self) -> int:
        """When the next message is due, as far as that is known; NEVER if it is not."""
        heap = self._heap
        while heap and not self._is_current(*heap[0]):
            heappop(heap)
        return heap[0][0] if heap else NEVER

    def _is_current(self, due: int, number: int) -> bool:
        found = self._entries.get(number)
        return found is not None and found[0] == due

    def take_due(self, now: int, most: int, most_bytes: int) -> list[Entry]:
        """Take out messages that are due: `most` at most, and as many as `most_bytes` hold, but one in any case. By
        their times, those of the same time by number."""
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
        """The next messages whose bodies must be read, likewise; `add` or `take` each, or they come again."""
        unread, found = self._unread, list[Entry]()
        at = 0
        while at < len(unread) and len(found) < most:
            kept = self._entries.get(unread[at])
            if kept is None or kept[0] != NEVER:
                if at:
                    break  # the next call begins with it
                unread.popleft()
                continue
            most_bytes -= kept[2][1]
            if found and most_bytes < 0:
                break
            found.append(kept[2])
            at += 1
        return found
