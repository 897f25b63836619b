"""Groups of the queues of all brokers, and one page of the grouped table. Pure.

A group has the queues of all brokers whose virtual host, or prefix, has its name. Without a filter its totals are sums
of those that the links update with each change; a filter adds up the matching rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from console.links.queue_groups import Grouping, by_name, cut_page, group_json, sorted_attribute
from console.links.queue_order import Placed
from console.links.queue_totals import RATES, SUMMED, GroupTotals
from console.live.fleet.members import Member
from console.live.fleet.queues import cut, in_order, is_by_broker, orders_of
from console.live.overview import USUAL

#: The queues of a group of each member, in the order of the table.
_Orders = Sequence[Sequence[Placed]]
#: The same of the members that have some, by their positions: most groups are of few members.
_OfMembers = Mapping[int, Sequence[Placed]]


def grouped_queues_page(
    members: Sequence[Member],
    grouping: Grouping,
    *,
    search: str = "",
    states: Iterable[str] = (),
    only: Iterable[str] = (),
    sort: str = "",
    page: int = 1,
    size: int = USUAL,
) -> dict[str, Any]:
    """Return {count, page, page_size, results, group, groups, groups_total, lines}: `count` is the number of matching
    queues, `results` the queues of the groups that are open, each with `of_group`. For the others, and the lines of a
    page, see `grouped_page`; for the parameters, `queues_page`. Each group has `brokers`, the number of brokers that
    have its queues. Raises BadSort."""
    table = _Groups(members, grouping.by, sort, search=search, states=states, only=only)
    names = table.in_order()
    page, lines, cuts = cut_page([(name, table.count(name)) for name in names], grouping, page, size)
    orders = table.orders_of([names[each.number] for each in cuts if each.is_open])
    shown: list[dict[str, Any]] = []
    results: list[dict[str, Any]] = []
    for each in cuts:
        name = names[each.number]
        shown.append({**table.as_json(name), "open": each.is_open})
        if each.is_open:
            queues = cut(table.members, orders[name], each.first, each.last, by_broker=table.by_broker)
            results += ({**queue, "of_group": name} for queue in queues)
    return {
        "count": sum(map(table.count, names)),
        "page": page,
        "page_size": size,
        "results": results,
        "group": grouping.by,
        "groups": shown,
        "groups_total": len(names),
        "lines": lines,
    }


def groups_page(
    members: Sequence[Member],
    by: str,
    *,
    search: str = "",
    states: Iterable[str] = (),
    only: Iterable[str] = (),
    sort: str = "",
    page: int = 1,
    size: int = USUAL,
) -> dict[str, Any]:
    """Return {count, page, page_size, results}: a page of the groups alone, in the same order."""
    table = _Groups(members, by, sort, search=search, states=states, only=only)
    names = table.in_order()
    results = [table.as_json(name) for name in names[(page - 1) * size : page * size]]
    return {"count": len(names), "page": page, "page_size": size, "results": results}


class _Groups:
    """The groups of the queues that match. Orders and totals are computed when they are needed: those of groups that no
    page shows would cost more than all else."""

    def __init__(self, members: Sequence[Member], by: str, sort: str, **filters: Any) -> None:
        self.members = in_order(members, sort)
        self.by_broker = is_by_broker(sort)
        self._by, self._sort, self._filters = by, sort, filters
        filtered = bool(filters["search"].strip() or tuple(filters["states"]) or tuple(filters["only"]))
        self._totals: dict[str, GroupTotals] = {}
        self._brokers: Counter[str] = Counter()
        #: The queues of each group that match the filter; None: there is no filter.
        self._matching: Mapping[str, _OfMembers] | None = self._collected(None) if filtered else None
        if self._matching is None:
            for member in self.members:
                if member.link.as_of is not None:
                    self._brokers.update(member.link.add_group_totals(self._totals, by))

    def in_order(self) -> list[str]:
        """Return the names of the groups, in the order of `console.links.queue_groups.grouped`."""
        attribute, descending = sorted_attribute(self._sort)
        names = list(self._totals if self._matching is None else self._matching)
        if attribute in ("name", self._by):
            names.sort(key=by_name, reverse=descending)
            names.sort(key=lambda name: name == "")  # no prefix is last
        elif attribute in (*SUMMED, *RATES):
            names.sort(key=lambda name: _by_sum(name, self.totals(name).values[attribute], descending=descending))
        else:
            first = self._first
            names = sorted((name for name in names if name in first), key=first.__getitem__)
        return names

    def count(self, name: str) -> int:
        if self._matching is None:
            return self._totals[name].queues
        return sum(map(len, self._matching[name].values()))

    def as_json(self, name: str) -> dict[str, Any]:
        brokers = self._brokers[name] if self._matching is None else len(self._matching[name])
        return {**group_json(name, self.totals(name)), "brokers": brokers}

    def totals(self, name: str) -> GroupTotals:
        found = self._totals.get(name)
        if found is None:
            assert self._matching is not None
            found = self._totals[name] = GroupTotals()
            for number, placed in self._matching[name].items():
                for row in self.members[number].link.queues_named(text for _, text in placed):
                    found.add(row)
        return found

    def orders_of(self, names: Collection[str]) -> Mapping[str, _Orders]:
        """Return the queues of some groups, in order."""
        if not names:
            return {}
        found = self._collected(frozenset(names)) if self._matching is None else self._matching
        return {name: [found[name].get(number, ()) for number in range(len(self.members))] for name in names}

    def _collected(self, names: frozenset[str] | None) -> Mapping[str, _OfMembers]:
        """Return the queues of these groups, in order; None: of all groups."""
        found: dict[str, dict[int, list[Placed]]] = {name: {} for name in names or ()}
        for number, placed in enumerate(self._orders):
            for entry, name in zip(placed, self._names(number), strict=True):
                if name is not None and (names is None or name in found):
                    found.setdefault(name, {}).setdefault(number, []).append(entry)
        return found

    @cached_property
    def _orders(self) -> _Orders:
        return orders_of(self.members, sort=self._sort, **self._filters)

    def _names(self, number: int) -> Iterable[str | None]:
        return self.members[number].link.group_names(self._orders[number], self._by)

    @cached_property
    def _first(self) -> dict[str | None, tuple[Any, ...]]:
        """Where the first queue of each group is in the merged order."""
        found: dict[str | None, tuple[Any, ...]] = {}
        for number, placed in enumerate(self._orders):
            # Backwards, so that the first one remains: no Python code runs for each queue.
            first = dict(zip(reversed(list(self._names(number))), reversed(placed), strict=True))
            for name, (key, _) in first.items():
                place = (number, key) if self.by_broker else (key, number)
                if name not in found or place < found[name]:
                    found[name] = place
        return found


def _by_sum(name: str, value: float | None, *, descending: bool) -> tuple[Any, ...]:
    known = value or 0
    return value is None, -known if descending else known, name
