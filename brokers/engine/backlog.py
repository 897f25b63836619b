"""Messages of a queue whose bodies are elsewhere: their numbers and sizes, in order, a few bytes for each.

A message that is kept nowhere else may wait among them; its body waits with it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right

#: Entries at the front that have been taken, before they are cut off.
_SLACK = 8192


class Backlog:
    """`bytes`: of all the bodies that are elsewhere."""

    __slots__ = ("_at", "_bodies", "_numbers", "_sizes", "bytes")

    def __init__(self) -> None:
        self._numbers = array("Q")
        self._sizes = array("Q")
        self._at = 0
        self._bodies: dict[int, bytes] = {}
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._numbers) - self._at

    def append(self, number: int, size: int, body: bytes | None = None) -> None:
        """`number` is above all others. `body`: None if it is elsewhere."""
        self._numbers.append(number)
        self._sizes.append(size)
        if body is None:
            self.bytes += size
        else:
            self._bodies[number] = body

    def head(self, count: int, most_bytes: int) -> list[tuple[int, int, bytes | None]]:
        """The first messages as (number, size, body): `count` at most, and as many as `most_bytes` hold, but one in
        any case."""
        return self._slice(self._at, count, most_bytes)

    def after(self, number: int, count: int, most_bytes: int) -> list[tuple[int, int, bytes | None]]:
        """The same, of those above `number`."""
        return self._slice(bisect_right(self._numbers, number, lo=self._at), count, most_bytes)

    def _slice(self, start: int, count: int, most_bytes: int) -> list[tuple[int, int, bytes | None]]:
        found: list[tuple[int, int, bytes | None]] = []
        for at in range(start, min(start + count, len(self._numbers))):
            number, size = self._numbers[at], self._sizes[at]
            most_bytes -= size
            if found and most_bytes < 0:
                break
            found.append((number, size, self._bodies.get(number)))
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
            self._at = 0
