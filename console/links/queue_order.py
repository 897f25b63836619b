"""The queues of a table in the order of a key, updated by what has changed since the last use. Pure.

A full sort of thousands of rows takes longer than everything else that a page needs; most changes leave a queue at its
place.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable
from typing import Any

from console.links.queue_table import QueueTable, Row

#: Returns a tuple that no other queue of the table has, since it ends with virtual host and name.
SortKey = Callable[[Row], tuple[Any, ...]]
#: A key and the text of the queue's name.
Placed = tuple[tuple[Any, ...], str]

#: If more than one queue in this number has a new place, all are sorted.
_RESORT = 8


class QueueOrder:
    """The order of one table by one key. Its methods require the lock of the table."""

    def __init__(self, table: QueueTable, key: SortKey) -> None:
        self._table = table
        self._key = key
        self._changed = table.record_changes()
        self._keys = {name: key(row) for name, row in table.items()}
        self._placed = _sorted(self._keys)

    def placed(self) -> tuple[Placed, ...]:
        """Return the keys and names of all queues, in order."""
        moved: list[str] = []
        for name in self._changed:
            row = self._table.row(name)
            if (None if row is None else self._key(row)) != self._keys.get(name):
                moved.append(name)
        self._changed.clear()
        if moved:
            self._placed = self._with(moved)
        return self._placed

    def end(self) -> None:
        """The order is used no more."""
        self._table.stop_recording(self._changed)

    def _with(self, moved: list[str]) -> tuple[Placed, ...]:
        before = {name: self._keys.pop(name) for name in moved if name in self._keys}
        after = {name: self._key(row) for name in moved if (row := self._table.row(name)) is not None}
        self._keys.update(after)
        if len(moved) * _RESORT > len(self._keys):
            return _sorted(self._keys)
        placed = list(self._placed)
        for name, key in before.items():
            del placed[bisect_left(placed, (key, name))]
        for name, key in after.items():
            insort(placed, (key, name))
        return tuple(placed)


class QueueOrders:
    """The orders of one table that are in use: at most `most`, and those that were used within `unused` ms."""

    def __init__(self, table: QueueTable, clock: Callable[[], int], *, most: int = 4, unused: int = 30_000) -> None:
        self._table = table
        self._clock = clock
        self._most, self._unused = most, unused
        self._orders: dict[SortKey, tuple[QueueOrder, int]] = {}  # the one that was used last is last

    def __len__(self) -> int:
        return len(self._orders)

    def placed(self, key: SortKey) -> tuple[Placed, ...]:
        """Return the keys and names of all queues, in the order of a key. Equal keys share an order."""
        found = self._orders.pop(key, None)
        order = QueueOrder(self._table, key) if found is None else found[0]
        self._orders[key] = order, self._clock()
        if len(self._orders) > self._most:
            self._end(next(iter(self._orders)))
        return order.placed()

    def end_unused(self) -> None:
        now = self._clock()
        for key in [key for key, (_, used) in self._orders.items() if now - used > self._unused]:
            self._end(key)

    def _end(self, key: SortKey) -> None:
        self._orders.pop(key)[0].end()


def _sorted(keys: dict[str, tuple[Any, ...]]) -> tuple[Placed, ...]:
    return tuple(sorted((key, name) for name, key in keys.items()))
