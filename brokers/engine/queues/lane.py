"""The messages of one priority in a queue, first in, first out; a queue has a lane for each priority in use.

In order: messages returned by consumers, messages that are ready, and in a deep lane the backlog, with bodies in
stores.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import deque
from typing import TYPE_CHECKING

from brokers.engine.queues.backlog import Backlog
from brokers.engine.values.message import Message

if TYPE_CHECKING:
    from brokers.engine.queues.consumer import Consumer

#: Maximum number of `fresh` messages: above it all are examined.
MOST_FRESH = 4096


def _number(message: Message) -> int:
    return message[0]


class PriorityLane:
    """`deep`: new messages are appended to the backlog. `rank`: see `message.rank_of`. `aside_for`: consumers that are
    barred from every returned message but the `fresh` ones, whose numbers these are; see `returning.py`."""

    __slots__ = ("aside_for", "backlog", "deep", "fresh", "rank", "ready", "returned")

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.ready: deque[Message] = deque()
        self.returned: list[Message] = []  # by consumers; sorted, all before those in `ready`
        self.backlog = Backlog()
        self.deep = False
        self.aside_for: set[Consumer] = set()
        self.fresh: list[int] = []

    def __len__(self) -> int:
        return len(self.returned) + len(self.ready) + len(self.backlog)

    def drop_head(self, count: int) -> None:
        """Remove the first `count` messages of the backlog."""
        self.backlog.drop(count)
        self.deep = len(self.backlog) > 0

    def put_back(self, message: Message) -> None:
        """Put a message at its former place; among the ready ones if a consumer had selected it there."""
        if self.ready and message[0] > self.ready[0][0]:
            self.ready.insert(self._place(message[0]), message)
        else:
            insort(self.returned, message, key=_number)
            self.note_returned([message])

    def note_returned(self, messages: list[Message]) -> None:
        """Note messages that were added to the returned ones."""
        if self.aside_for:
            self.fresh += map(_number, messages)
            if len(self.fresh) > MOST_FRESH:
                self.examine_all()

    def examine_all(self) -> None:
        """Have all returned messages examined again."""
        self.aside_for = set()
        self.fresh.clear()

    def take_in(self, messages: list[Message]) -> None:
        """Put messages, in order of their numbers, at their places among the others."""
        ready, returned = self.ready, self.returned
        if returned:
            early = bisect_left(messages, returned[-1][0], key=_number)
            returned.extend(messages[:early])
            self.note_returned(messages[:early])
            returned.sort(key=_number)
            messages = messages[early:]
        if not messages:
            return
        if not ready or messages[0][0] > ready[-1][0]:
            ready.extend(messages)
        elif messages[-1][0] < ready[0][0]:
            ready.extendleft(reversed(messages))
        elif len(messages) == 1:
            ready.insert(self._place(messages[0][0]), messages[0])
        else:
            merged = sorted([*ready, *messages], key=_number)
            ready.clear()
            ready.extend(merged)

    def cut(self, number: int) -> list[Message]:
        """Remove and return, in order, the messages in memory with this number or above."""
        found: list[Message] = []
        while self.ready and self.ready[-1][0] >= number:
            found.append(self.ready.pop())
        found.reverse()
        at = bisect_left(self.returned, number, key=_number)
        found[:0] = self.returned[at:]
        del self.returned[at:]
        return found

    def take_all(self, *, ends: bool = False) -> tuple[list[list[Message] | deque[Message]], Backlog]:
        """Take all messages out: those in memory, in order of their numbers, and the backlog. The deque stays the same:
        others have it bound. `ends`: the lane is used no more, and the deque itself is taken: a copy takes longer than
        the rest of the deletion of a queue."""
        found, behind = [self.returned, self.ready if ends else list(self.ready)], self.backlog
        self.returned, self.backlog, self.deep = [], Backlog(), False
        if not ends:
            self.ready.clear()
        return found, behind

    @property
    def first_number(self) -> int:
        """The number of the first message; there must be one."""
        for each in (self.returned, self.ready):
            if each:
                return each[0][0]
        return self.backlog.first

    def first(self) -> Message | None:
        """Remove and return the first message in memory, if there is one."""
        if self.returned:
            return self.returned.pop(0)
        return self.ready.popleft() if self.ready else None

    def after(self, number: int, count: int) -> list[Message]:
        """Return the first `count` messages in memory with numbers above `number`."""
        ready, returned = self.ready, self.returned
        found: list[Message] = []
        if returned:
            first = bisect_right(returned, number, key=_number)
            found = returned[first : first + count]
        if ready and len(found) < count:
            start = self._place(number + 1)
            found.extend(ready[i] for i in range(start, min(len(ready), start + count - len(found))))
        return found

    def before(self, number: int) -> int:
        """Return how many messages of the lane have lower numbers."""
        ready = self._place(number) if self.ready else 0
        return bisect_left(self.returned, number, key=_number) + ready + self.backlog.before(number)

    def _place(self, number: int) -> int:
        """Return the index in `ready` of the first message with this number or above."""
        ready = self.ready
        # Numbers ascend, mostly without gaps: the index is at or before this one.
        place = min(len(ready), max(0, number - ready[0][0]))
        if place and ready[place - 1][0] >= number:
            place = bisect_left(ready, number, 0, place, key=_number)
        return place

    def pick_all(self, numbers: list[int]) -> None:
        """Remove the messages with these numbers, which are in order, wherever their bodies are."""
        wanted = set(numbers)
        if self.returned:
            self.returned = [message for message in self.returned if message[0] not in wanted]
        ready = self.ready
        if ready:
            start, end = self._place(numbers[0]), self._place(numbers[-1] + 1)
            if start < end:
                # Only the part between the first and the last one is searched: the rest is rotated out of the way.
                ready.rotate(-start)
                part = [ready.popleft() for _ in range(end - start)]
                ready.extendleft(message for message in reversed(part) if message[0] not in wanted)
                ready.rotate(start)
        self.backlog.pick_all(numbers)

    def pick(self, number: int) -> Message | None:
        """Remove and return the message with this number; None if its body is not in memory."""
        ready, returned = self.ready, self.returned
        if returned:
            at = bisect_left(returned, number, key=_number)
            if at < len(returned) and returned[at][0] == number:
                return returned.pop(at)
        if ready:
            at = self._place(number)
            if at < len(ready) and ready[at][0] == number:
                found = ready[at]
                del ready[at]
                return found
        return None
