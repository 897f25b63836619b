"""The part of a priority lane whose bodies are in a store: numbers, sizes and places, in order, 17 bytes per message.

A message that is in no store may be among them; then the backlog has its body. Where messages expire, each takes 8
bytes more. Expired messages are searched a part at a time, always those at the front first, so that a long backlog
delays nothing.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from brokers.engine.values.message import NEVER

#: Where a body is: in memory, in the message store, in the temp store.
HERE, STORE, TEMP = 0, 1, 2

#: (number, size in bytes, place, body if the place is HERE, expiry in ms)
Entry = tuple[int, int, int, bytes | None, int]

#: Removed entries at the front before the arrays are shortened.
_SLACK = 8192


class Backlog:
    """`bytes`: total size of the bodies in stores. `soonest`: no message expires earlier, ms."""

    __slots__ = ("_at", "_bodies", "_expiries", "_hand", "_later", "_numbers", "_places", "_sizes", "bytes", "soonest")

    def __init__(self) -> None:
        self._numbers = array("q")
        self._sizes = array("Q")
        self._places = array("B")
        self._expiries: array[int] | None = None
        self._at = 0
        self._bodies: dict[int, bytes] = {}
        self._hand = 0  # how many entries from the front have been searched for expired ones
        self._later = NEVER  # the earliest expiry among the searched entries
        self.soonest = NEVER
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._numbers) - self._at

    def append(self, number: int, size: int, place: int, body: bytes | None = None, expires: int = NEVER) -> None:
        """Append a message whose number is above all others. `body`: only if the place is HERE. `expires`: ms."""
        if expires != NEVER and self._expiries is None:
            self._expiries = array("q", [NEVER]) * len(self._numbers)
        self._numbers.append(number)
        self._sizes.append(size)
        self._places.append(place)
        if self._expiries is not None:
            self._expiries.append(expires)
            self.soonest = min(self.soonest, expires)
        if body is None:
            self.bytes += size
        else:
            self._bodies[number] = body

    @property
    def first(self) -> int:
        """The number of the first message; NEVER, which is above all numbers, if there is none."""
        return self._numbers[self._at] if self._at < len(self._numbers) else NEVER

    @property
    def last(self) -> int:
        """The number of the last message; -NEVER, which is below all numbers, if there is none."""
        return self._numbers[-1] if self._at < len(self._numbers) else -NEVER

    def numbers(self) -> array[int]:
        """Return all numbers, in order."""
        return self._numbers[self._at :]

    def all_bytes(self) -> int:
        """Return the size of all bodies, wherever they are."""
        return sum(self._sizes[self._at :])

    def count_at(self, place: int) -> int:
        """Return how many bodies are at this place."""
        return self._places[self._at :].tobytes().count(place)

    def free(self, most: int) -> Iterator[array[int]]:
        """Free a backlog that is used no more: `most` messages before each yield of their numbers."""
        numbers, bodies = self._numbers, self._bodies
        for at in range(self._at, len(numbers), most):
            part = numbers[at : at + most]
            if bodies:
                for number in part:
                    bodies.pop(number, None)
            yield part

    def insert(self, number: int, size: int, place: int, body: bytes | None, expires: int) -> None:
        """Insert a message at the place of its number."""
        self.append(number, size, place, body, expires)
        at = bisect_left(self._numbers, number, self._at, len(self._numbers) - 1)
        for each in (self._numbers, self._sizes, self._places, self._expiries):
            if each is not None:
                each.insert(at, each.pop())
        if at < self._at + self._hand:
            self._hand += 1
            self._later = min(self._later, expires)

    def merge(self, entries: list[Entry]) -> None:
        """Insert several messages, which are in order of their numbers."""
        start, end = self._at, len(self._numbers)
        cuts = [bisect_left(self._numbers, number, start, end) for number, *_ in entries]
        for number, size, place, body, expires in entries:
            self.append(number, size, place, body, expires)
        if not cuts or cuts[0] == end:
            return
        for each in (self._numbers, self._sizes, self._places, self._expiries):
            if each is not None:
                merged, last = array(each.typecode), start
                for cut, value in zip(cuts, each[end:], strict=True):
                    merged.extend(each[last:cut])
                    merged.append(value)
                    last = cut
                merged.extend(each[last:end])
                each[start:] = merged
        looked_at = bisect_left(cuts, start + self._hand)
        self._hand += looked_at
        self._later = min([self._later, *(expires for *_, expires in entries[:looked_at])])

    def moved(self, number: int) -> bool:
        """Record that the body of a message has moved to the temp store. Return False if the message is not here."""
        at = self._find(number)
        if at is None:
            return False
        del self._bodies[number]
        self._places[at] = TEMP
        self.bytes += self._sizes[at]
        return True

    def _find(self, number: int) -> int | None:
        at = bisect_left(self._numbers, number, lo=self._at)
        return at if at < len(self._numbers) and self._numbers[at] == number else None

    def head(self, count: int, most_bytes: int) -> list[Entry]:
        """Return the first messages: at most `count`, and at most `most_bytes` but at least one message."""
        return self._slice(self._at, count, most_bytes)

    def after(self, number: int, count: int, most_bytes: int) -> list[Entry]:
        """Return the first messages with numbers above `number`, limited like `head`."""
        return self._slice(bisect_right(self._numbers, number, lo=self._at), count, most_bytes)

    def before(self, number: int) -> int:
        """Return how many messages have lower numbers."""
        return bisect_left(self._numbers, number, lo=self._at) - self._at

    def _slice(self, start: int, count: int, most_bytes: int) -> list[Entry]:
        found: list[Entry] = []
        for at in range(start, min(start + count, len(self._numbers))):
            most_bytes -= self._sizes[at]
            if found and most_bytes < 0:
                break
            found.append(self._entry(at))
        return found

    def _entry(self, at: int) -> Entry:
        number = self._numbers[at]
        expires = NEVER if self._expiries is None else self._expiries[at]
        return number, self._sizes[at], self._places[at], self._bodies.get(number), expires

    def drop(self, count: int) -> None:
        """Remove the first `count` messages."""
        for at in range(self._at, self._at + count):
            self._forget(at)
        self._at += count
        self._hand = max(0, self._hand - count)
        if self._at >= _SLACK and self._at * 2 >= len(self._numbers):
            self._cut(0, self._at)
            self._at = 0

    def pick(self, number: int) -> Entry | None:
        """Remove and return the message with this number, if there is one."""
        at = self._find(number)
        if at is None:
            return None
        entry = self._entry(at)
        self._forget(at)
        self._cut(at, at + 1)
        if at < self._at + self._hand:
            self._hand -= 1
        return entry

    def pick_all(self, numbers: list[int]) -> None:
        """Remove the messages with these numbers, which are in order; others are ignored."""
        found = [at for number in numbers if (at := self._find(number)) is not None]
        if found == list(range(self._at, self._at + len(found))):
            self.drop(len(found))
            return
        for at in found:
            self._forget(at)
        searched = bisect_left(found, self._at + self._hand)
        for each in (self._numbers, self._sizes, self._places, self._expiries):
            if each is not None:
                left, last = array(each.typecode), found[0]
                for at in found:
                    left.extend(each[last:at])
                    last = at + 1
                left.extend(each[last:])
                each[found[0] :] = left
        self._hand -= searched

    def _forget(self, at: int) -> None:
        if self._bodies.pop(self._numbers[at], None) is None:
            self.bytes -= self._sizes[at]

    def _cut(self, start: int, end: int) -> None:
        for each in (self._numbers, self._sizes, self._places, self._expiries):
            if each is not None:
                del each[start:end]
        if not self._numbers:
            self._expiries, self.soonest, self._hand = None, NEVER, 0

    def expired(self, now: int, most: int) -> list[Entry]:
        """Remove and return expired messages, first at the front; search at most `most` messages."""
        expiries = self._expiries
        if expiries is None or self.soonest > now:
            return []
        front = self._at
        while front < len(expiries) and front - self._at < most and expiries[front] <= now:
            front += 1
        found = [self._entry(at) for at in range(self._at, front)]
        self.drop(len(found))
        if self._expiries is not None:
            found += self._go_round(self._expiries, now, most)
        return found

    def _go_round(self, expiries: array[int], now: int, most: int) -> list[Entry]:
        """Search the next `most` messages, from where the last search ended."""
        start = self._at + self._hand
        end = min(start + most, len(expiries))
        due = [at for at in range(start, end) if expiries[at] <= now]
        left = [at for at in range(start, end) if expiries[at] > now]
        found = [self._entry(at) for at in due]
        self._later = min([self._later, *(expiries[at] for at in left)])
        if due:
            for at in due:
                self._forget(at)
            for each in (self._numbers, self._sizes, self._places, expiries):
                each[start:end] = array(each.typecode, [each[at] for at in left])
        self._hand += end - start - len(due)
        if self._at + self._hand >= len(self._numbers):  # all searched: the earliest expiry is known
            self.soonest, self._later, self._hand = self._later, NEVER, 0
        return found
