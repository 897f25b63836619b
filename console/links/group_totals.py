"""The totals of the groups of one table's queues, updated by what has changed since the last use. Pure.

They are those of each virtual host and prefix, so that either grouping, also of some virtual hosts, is a sum of few:
adding up thousands of rows for each snapshot would take longer than everything else that a page needs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from operator import itemgetter

from console.links.queue_groups import prefix_of
from console.links.queue_order import Placed
from console.links.queue_table import QueueTable, Row
from console.links.queue_totals import GroupTotals

#: Virtual host and prefix.
_Part = tuple[str, str]
#: Of a queue in an order. Written so that no Python code runs for each of 200,000 queues.
_KEY, _TEXT, _HOST = itemgetter(0), itemgetter(1), itemgetter(-2)


class TableGroups:
    """The groups of one table; they cost nothing if they were not used within `unused` ms. Thread-safe. `lock`: that of
    the table."""

    def __init__(
        self,
        table: QueueTable,
        clock: Callable[[], int],
        lock: AbstractContextManager[object],
        *,
        unused: int = 30_000,
    ) -> None:
        self._table = table
        self._clock = clock
        self._lock = lock
        self._unused = unused
        self._in_use = threading.Lock()
        self._forget()

    def add_to(self, groups: dict[str, GroupTotals], by: str, hosts: Collection[str] | None = None) -> Collection[str]:
        """Add the totals of each group of the table to those of the same name, and return the names. `by`: "prefix" or
        "virtualhost". `hosts`: only queues of these virtual hosts; None: all."""
        names: set[str] = set()
        with self._in_use:
            self._update()
            for (host, prefix), totals in self._totals.items():
                if hosts is not None and host not in hosts:
                    continue
                name = prefix if by == "prefix" else host
                names.add(name)
                group = groups.get(name)
                if group is None:
                    group = groups[name] = GroupTotals()
                group.include(totals)
        return names

    def names_of(self, placed: Sequence[Placed], by: str) -> Iterator[str | None]:
        """Return the name of the group of each of these queues of the table; None: the queue is new or gone."""
        if by == "virtualhost":
            return map(_HOST, map(_KEY, placed))
        with self._in_use:
            self._update()
            prefixes = self._prefixes
        return map(prefixes.get, map(_TEXT, placed))

    def end_unused(self) -> None:
        """Update the groups no more if they are not used; does not wait for one who uses them."""
        if not self._in_use.acquire(blocking=False):
            return
        try:
            if self._changed is not None and self._clock() - self._used > self._unused:
                with self._lock:
                    self._table.stop_recording(self._changed)
                self._forget()
        finally:
            self._in_use.release()

    def _forget(self) -> None:
        self._changed: set[str] | None = None  # None: not in use
        self._used = 0
        self._counted: dict[str, Row] = {}  # the rows as they are in the totals
        self._prefixes: dict[str, str] = {}
        self._totals: dict[_Part, GroupTotals] = {}

    def _update(self) -> None:
        self._used = self._clock()
        with self._lock:
            if self._changed is None:
                self._changed = self._table.record_changes()
                rows: list[tuple[str, Row | None]] = list(self._table.items())
            else:
                rows = [(name, self._table.row(name)) for name in self._changed]
                self._changed.clear()
        for name, row in rows:
            before = self._counted.get(name)
            if row is not None and before is not None:
                self._totals[row["virtualhost"], self._prefixes[name]].replace(before, row)
                self._counted[name] = row
            elif row is not None:
                prefix = self._prefixes[name] = prefix_of(row["name"])
                self._totals.setdefault((row["virtualhost"], prefix), GroupTotals()).add(row)
                self._counted[name] = row
            elif before is not None:
                part = before["virtualhost"], self._prefixes.pop(name)
                totals = self._totals[part]
                totals.remove(before)
                if not totals.queues:
                    del self._totals[part]
                del self._counted[name]
