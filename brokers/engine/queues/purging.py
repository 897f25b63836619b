"""Messages that a purge, or the deletion of their queue, has taken out: they are gone at once, and freed in portions.

To take and count them costs some ten nanoseconds for each, to free and forget them some hundred times as much: of
millions, that would be a turn in which the broker serves no client. So later turns do it, a portion each.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from itertools import islice
from typing import Any

from brokers.engine.queues.backlog import Backlog, Entry
from brokers.engine.values.message import Message

#: Messages that are freed at once, some 2 ms.
PORTION = 2000


class Taken:
    """`messages`: those whose bodies are in memory, in order of their numbers. `delayed`: by number, as in
    `delayed.py`, with `delayed_bytes`. `rest`: what else has to be freed. `reports`: `left` is called with
    `messages`."""

    def __init__(self) -> None:
        self.messages: list[list[Message] | deque[Message]] = []
        self.backlogs: list[Backlog] = []
        self.delayed: MutableMapping[int, tuple[int, bool, Entry]] = {}
        self.rest: list[Any] = []
        self.delayed_bytes = 0
        self.reports = False

    @property
    def count(self) -> int:
        return self.in_memory + sum(map(len, self.backlogs)) + len(self.delayed)

    @property
    def in_memory(self) -> int:
        """How many messages there are in `messages`."""
        return sum(map(len, self.messages))

    def count_at(self, place: int) -> int:
        """Return how many messages have their bodies at this place (`backlog.py`), besides those of `messages`."""
        delayed = sum(1 for _, _, entry in self.delayed.values() if entry[2] == place)
        return delayed + sum(backlog.count_at(place) for backlog in self.backlogs)

    def behind(self) -> Iterator[array[int]]:
        """Yield the numbers of all but `messages`, some at a time and those in order."""
        yield from (backlog.numbers() for backlog in self.backlogs if len(backlog))
        if self.delayed:
            yield array("q", sorted(self.delayed))

    def ahead(self) -> Iterator[array[int]]:
        """Yield the numbers of `messages`, some at a time and those in order."""
        yield from (array("q", [number for number, _ in messages]) for messages in self.messages if messages)

    def free(self, forget: Callable[[Sequence[int]], None], left: Callable[[list[Message]], None]) -> Iterator[None]:
        """Free them: a portion before each yield. `forget` is called with the numbers of all, and `left` with those in
        memory, if `reports`."""
        freed = 0
        for numbers in self._free(left):
            forget(numbers)
            freed += len(numbers)
            if freed >= PORTION:
                freed = 0
                yield
        yield from free_rest(self.rest)

    def _free(self, left: Callable[[list[Message]], None]) -> Iterator[Sequence[int]]:
        """Yield the numbers of those that were freed, a portion at most."""
        for messages in self.messages:
            while messages:
                part = [messages.pop() for _ in range(min(PORTION, len(messages)))]
                if self.reports:
                    left(part)
                numbers = [number for number, _ in part]
                del part  # now they are freed
                yield numbers
        for backlog in self.backlogs:
            yield from backlog.free(PORTION)
        while self.delayed:
            first = list(islice(self.delayed, PORTION))
            for number in first:
                del self.delayed[number]
            yield first


def free_rest(rest: list[Any]) -> Iterator[None]:
    """Free the values of a list: a portion before each yield."""
    while len(rest) > PORTION:
        del rest[-PORTION:]
        yield


def forget_in(found: dict[int, Any] | None, numbers: Iterable[int]) -> None:
    """Remove what is known of these messages."""
    if found:
        for number in numbers:
            found.pop(number, None)
