"""When the messages of a queue arrived, without a cost per message: marks of a sequence number and a time.

About once a second a queue into which messages came gets a mark: messages from this sequence number on arrived after
this time, the beginning of that second. So the time of a message is at most about a second before its arrival. Marks
are thinned with age: that of an old message is at most a hundredth of its age too early.

Nothing is known of messages that an earlier run of the broker stored.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right

#: Marks below this number are never thinned.
_FEW = 256
#: The distance of two marks may be this part of their age.
_PART = 100


class Arrivals:
    """`recovered`: the highest sequence number of an earlier run; 0: none. `began`: when this run did. Times are the
    engine's, in ms."""

    __slots__ = ("_first", "_next", "_thin_at", "_times", "began", "recovered")

    def __init__(self, began: int) -> None:
        self.began = began
        self.recovered = 0
        self._first = array("q")  # sequence numbers, ascending
        self._times = array("q")
        self._next = 1  # the first sequence number without a mark
        self._thin_at = _FEW

    def __len__(self) -> int:
        return len(self._first)

    def mark(self, enqueued: int, since: int, *, empty: bool) -> None:
        """Mark the messages up to the sequence number `enqueued` that arrived after the last mark, not before `since`.
        `empty`: the queue has no messages now."""
        if enqueued < self._next:
            return
        if empty:
            del self._first[:], self._times[:]
            self._next = enqueued + 1
            return
        self._first.append(self._next)
        self._times.append(since)
        self._next = enqueued + 1
        if len(self._first) >= self._thin_at:
            self._thin(since)

    def recover(self, sequence: int) -> None:
        """Note a message of an earlier run."""
        self.recovered = max(self.recovered, sequence)
        self._next = max(self._next, sequence + 1)

    def at(self, sequence: int, latest: int) -> int | None:
        """Return when a message arrived; None: not known. `latest`: the time of the last marks of all queues, after
        which messages without a mark arrived."""
        if sequence <= self.recovered:
            return None
        if sequence >= self._next:
            return latest
        at = bisect_right(self._first, sequence) - 1
        return self._times[at] if at >= 0 else None

    def _thin(self, now: int) -> None:
        """Leave out each mark whose messages arrived soon after the mark before it, for their age."""
        first, times = array("q"), array("q")
        ends = [*self._times[1:], now]
        for sequence, time, end in zip(self._first, self._times, ends, strict=True):
            if not times or end - times[-1] > (now - end) // _PART:
                first.append(sequence)
                times.append(time)
        self._first, self._times = first, times
        self._thin_at = 2 * len(first) + _FEW
