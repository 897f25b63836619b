"""Totals over queues, updated by each change of a row, so that they cost nothing to read. Pure.

A value that a broker does not report is unknown, not 0: a sum is that of the known values, and says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

Row = Mapping[str, Any]

#: Attributes of queues that are summed.
SUMMED = ("producers", "blocked_producers", "consumers", "depth_messages", "depth_bytes")
#: Rates that `GroupTotals` sums besides, messages/s. Those of a broker are not: nearly each sample changes them.
RATES = ("rate_in", "rate_out")


class QueueTotals:
    """The totals of some queues. `queues`: their number. `states`: state -> number of queues; "" is unknown."""

    __slots__ = ("_known", "_sums", "queues", "states")

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self.queues = 0
        self.states: Counter[str] = Counter()
        self._sums = dict.fromkeys(SUMMED, 0)
        self._known = dict.fromkeys(SUMMED, 0)
        for row in rows:
            self.add(row)

    def add(self, row: Row) -> None:
        self._count(row, 1)

    def remove(self, row: Row) -> None:
        self._count(row, -1)

    def replace(self, before: Row, after: Row) -> None:
        """Process the change of a queue's row."""
        earlier, later = before.get, after.get  # looked up once: thousands of rows change each second
        if earlier("state") != later("state"):
            self.states[earlier("state") or ""] -= 1
            self.states[later("state") or ""] += 1
        for name in SUMMED:
            old, new = earlier(name), later(name)
            if old is new:
                continue
            self._sums[name] += (new or 0) - (old or 0)
            if old is None:
                self._known[name] += 1
            elif new is None:
                self._known[name] -= 1

    def include(self, other: QueueTotals) -> None:
        """Add the totals of other queues."""
        self.queues += other.queues
        self.states.update(other.states)
        for name in SUMMED:
            self._sums[name] += other._sums[name]
            self._known[name] += other._known[name]

    @property
    def values(self) -> dict[str, int | None]:
        """The number of queues, of overfull and of stopped ones, and the sums of `SUMMED`; None if there are queues and
        no value is known."""
        sums = {n: self._sums[n] if self._known[n] or not self.queues else None for n in SUMMED}
        return {
            "queues": self.queues,
            "overfull_queues": sum(number for state, number in self.states.items() if state.startswith("OVERFULL")),
            "stopped_queues": sum(number for state, number in self.states.items() if state.endswith("STOPPED")),
            **sums,
        }

    @property
    def partial(self) -> list[str]:
        """The names in `values` that lack queues whose value is unknown."""
        stateless = ["overfull_queues", "stopped_queues"] if self.states[""] else []
        return [*stateless, *(name for name in SUMMED if self._known[name] < self.queues)]

    def _count(self, row: Row, by: int) -> None:
        self.queues += by
        self.states[row.get("state") or ""] += by
        for name in SUMMED:
            value = row.get(name)
            if value is not None:
                self._sums[name] += by * value
                self._known[name] += by


def thousandths(rate: float) -> int:
    """Return a rate in messages per 1,000 s: sums of whole numbers stay exact, however often a value is replaced."""
    return round(rate * 1000)


class GroupTotals(QueueTotals):
    """Totals with the sums of `RATES`."""

    __slots__ = ("_known_rates", "_rates")

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self._rates = dict.fromkeys(RATES, 0)  # thousandths
        self._known_rates = dict.fromkeys(RATES, 0)
        super().__init__(rows)

    def replace(self, before: Row, after: Row) -> None:
        super().replace(before, after)
        for name in RATES:
            old, new = before.get(name), after.get(name)
            if old == new:
                continue
            self._rates[name] += (0 if new is None else thousandths(new)) - (0 if old is None else thousandths(old))
            self._known_rates[name] += (new is not None) - (old is not None)

    def include(self, other: QueueTotals) -> None:
        super().include(other)
        assert isinstance(other, GroupTotals)
        for name in RATES:
            self._rates[name] += other._rates[name]
            self._known_rates[name] += other._known_rates[name]

    @property
    def values(self) -> dict[str, Any]:
        rates = {n: self._rates[n] / 1000 if self._known_rates[n] or not self.queues else None for n in RATES}
        return {**super().values, **rates}

    @property
    def partial(self) -> list[str]:
        return [*super().partial, *(name for name in RATES if self._known_rates[name] < self.queues)]

    def _count(self, row: Row, by: int) -> None:
        super()._count(row, by)
        for name in RATES:
            value = row.get(name)
            if value is not None:
                self._rates[name] += by * thousandths(value)
                self._known_rates[name] += by
