"""The queues of a table in the order of a key, updated by what has changed since the last use. Pure.

A full sort of thousands of rows takes longer than everything else that a page needs; most changes leave a queue at its
place. Keys are computed without the lock of the table: its writer, which also receives answers of the broker, must not
wait for those of all queues after a stop of all.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from console.links.queue_table import QueueTable, Row

#: Returns a tuple that no other queue of the table has, since it ends with virtual host and name.
SortKey = Callable[[Row], tuple[Any, ...]]
#: A key and the text of the queue's name.
Placed = tuple[tuple[Any, ...], str]

#: If more than one queue in this number has a new place, all are sorted.
_RESORT = 8


class QueueOrder:
    """The order of one table by one key, for one thread at a time. `lock`: that of the table, for its writer."""

    def __init__(self, table: QueueTable, key: SortKey, lock: AbstractContextManager[object]) -> None:
        self._table = table
        self._key = key
        self._lock = lock
        with lock:
            self._changed = table.record_changes()
            rows = list(table.items())
        self._keys = {name: key(row) for name, row in rows}
        self._placed = _sorted(self._keys)

    def placed(self) -> tuple[Placed, ...]:
        """Return the keys and names of all queues, in order."""
        with self._lock:
            rows = [(name, self._table.row(name)) for name in self._changed]
            self._changed.clear()
        moved = {}
        for name, row in rows:
            key = None if row is None else self._key(row)
            if key != self._keys.get(name):
                moved[name] = key
        if moved:
            self._placed = self._with(moved)
        return self._placed

    def end(self) -> None:
        """The order is used no more."""
        with self._lock:
            self._table.stop_recording(self._changed)

    def _with(self, moved: Mapping[str, tuple[Any, ...] | None]) -> tuple[Placed, ...]:
        """Return the order with these keys; None: the queue is gone."""
        before = {name: self._keys.pop(name) for name in moved if name in self._keys}
        after = {name: key for name, key in moved.items() if key is not None}
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
    """The orders of one table that are in use: at most `most`, and those that were used within `unused` ms.
    Thread-safe. `lock`: that of the table."""

    def __init__(
        self,
        table: QueueTable,
        clock: Callable[[], int],
        lock: AbstractContextManager[object],
        *,
        most: int = 4,
        unused: int = 30_000,
    ) -> None:
        self._table = table
        self._clock = clock
        self._lock = lock
        self._in_use = threading.Lock()
        self._most, self._unused = most, unused
        self._orders: dict[SortKey, tuple[QueueOrder, int]] = {}  # the one that was used last is last

    def __len__(self) -> int:
        return len(self._orders)

    def placed(self, key: SortKey) -> tuple[Placed, ...]:
        """Return the keys and names of all queues, in the order of a key. Equal keys share an order."""
        with self._in_use:
            found = self._orders.pop(key, None)
            order = QueueOrder(self._table, key, self._lock) if found is None else found[0]
            self._orders[key] = order, self._clock()
            if len(self._orders) > self._most:
                self._end(next(iter(self._orders)))
            return order.placed()

    def end_unused(self) -> None:
        """End the orders that are used no more; not while one is being computed, so that the caller does not wait."""
        if not self._in_use.acquire(blocking=False):
            return
        try:
            now = self._clock()
            for key in [key for key, (_, used) in self._orders.items() if now - used > self._unused]:
                self._end(key)
        finally:
            self._in_use.release()

    def _end(self, key: SortKey) -> None:
        self._orders.pop(key)[0].end()


def _sorted(keys: dict[str, tuple[Any, ...]]) -> tuple[Placed, ...]:
    return tuple(sorted((key, name) for name, key in keys.items()))
