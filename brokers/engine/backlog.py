"""The part of a deep queue whose bodies are elsewhere: numbers, sizes and places, in order, 17 bytes for each message.

A message that is kept nowhere else may wait among them; its body waits with it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right

#: Where a body is: in memory, in the message store, in the temp store.
HERE, STORE, TEMP = 0, 1, 2

#: (number, size in bytes, place, body if it is here)
Entry = tuple[int, int, int, bytes | None]

#: Entries at the front that have been taken, before they are cut off.
_SLACK = 8192


class Backlog:
    """`bytes`: of all the bodies that are elsewhere."""

    __slots__ = ("_at", "_bodies", "_numbers", "_places", "_sizes", "bytes")

    def __init__(self) -> None:
        self._numbers = array("Q")
        self._sizes = array("Q")
        self._places = array("B")
        self._at = 0
        self._bodies: dict[int, bytes] = {}
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._numbers) - self._at

    def append(self, number: int, size: int, place: int, body: bytes | None = None) -> None:
        """`number` is above all others. `body`: given if its place is here."""
        self._numbers.append(number)
        self._sizes.append(size)
        self._places.append(place)
        if body is None:
            self.bytes += size
        else:
            self._bodies[number] = body

    def moved(self, number: int) -> bool:
        """The body of a message that was here is in the temp store now. False: the message is no longer there."""
        at = bisect_left(self._numbers, number, lo=self._at)
        if at == len(self._numbers) or self._numbers[at] != number:
            return False
        del self._bodies[number]
        self._places[at] = TEMP
        self.bytes += self._sizes[at]
        return True

    def head(self, count: int, most_bytes: int) -> list[Entry]:
        """The first messages: `count` at most, and as many as `most_bytes` hold, but one in any case."""
        return self._slice(self._at, count, most_bytes)

    def after(self, number: int, count: int, most_bytes: int) -> list[Entry]:
        """The same, of those above `number`."""
        return self._slice(bisect_right(self._numbers, number, lo=self._at), count, most_bytes)

    def _slice(self, start: int, count: int, most_bytes: int) -> list[Entry]:
        found: list[Entry] = []
        for at in range(start, min(start + count, len(self._numbers))):
            number, size = self._numbers[at], self._sizes[at]
            most_bytes -= size
            if found and most_bytes < 0:
                break
            found.append((number, size, self._places[at], self._bodies.get(number)))
        return found

    def drop(self, count: int) -> None:
        """Forget the first `count` messages."""
        for at in range(self._at, self._at + count):
            if self._bodies.pop(self._numbers[at], None) is None:
                self.bytes -= self._sizes[at]
        self._at += count
        if self._at >= _SLACK and self._at * 2 >= len(self._numbers):
            del self._numbers[: self._at]
            del self._sizes[: self._at]
            del self._places[: self._at]
            self._at = 0
