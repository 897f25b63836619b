"""The data of the overview: the broker's totals and a page of its queues, filtered and sorted. Pure.

Totals are sums over the queues' rows, so an overview costs the broker nothing. A `View` is made once for all users,
from the totals and the default order that the link updates with each change.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from typing import Any

from brokers.admin import SAMPLED
from brokers.model import TYPES
from console.conditions.active import Condition
from console.links.queue_filter import matching, nearly_full, searched_text
from console.links.queue_groups import Grouping, grouped_page
from console.links.queue_order import SortKey
from console.links.queue_table import Row
from console.links.queue_totals import QueueTotals
from console.links.state import BrokerState

#: Queues on one page of the overview: default and limit.
USUAL, MOST = 50, 500

#: Conditions in one snapshot, the most severe ones; `conditions.py` has all of them.
MOST_CONDITIONS = 5

#: Attributes of a queue in lists, and `object`.
SHOWN = ("object", "virtualhost", "name", *SAMPLED)
_RANK = {"OVERFULL_STOPPED": 0, "OVERFULL": 1, "STOPPED": 2, "NORMAL": 5}
_NEARLY_FULL, _UNKNOWN = 3, 4


class BadSort(ValueError):
    """The sort names an unknown attribute. The message is for people."""


def totals(broker: Row | None, rows: Sequence[Row]) -> dict[str, Any]:
    """Return the broker's attributes with sums over the rows; empty before the first connection. `partial`: the names
    of sums that lack queues whose value is not known."""
    return {} if broker is None else _with_sums(broker, QueueTotals(rows))


def _with_sums(broker: Row, sums: QueueTotals) -> dict[str, Any]:
    return {**broker, **sums.values, "partial": sums.partial}


class View:
    """The state of a broker at one time, for any number of overviews."""

    def __init__(self, broker: Row | None, rows: Sequence[Row], conditions: Sequence[Condition] = ()) -> None:
        self.broker = broker
        self.rows = rows
        self.conditions = conditions

    @classmethod
    def of(cls, link: BrokerState) -> View:
        """Return the view of a broker now, with the totals and the order that its link has updated."""
        rows = link.queues_named(name for _, name in link.queues_in_order(severity_key))
        view = cls(link.broker, rows, link.conditions())
        view.by_severity = rows
        view.totals = {} if view.broker is None else _with_sums(view.broker, link.queue_totals())
        return view

    @cached_property
    def totals(self) -> dict[str, Any]:
        return totals(self.broker, self.rows)

    @cached_property
    def by_severity(self) -> list[Row]:
        return sorted(self.rows, key=severity_key)

    @cached_property
    def texts(self) -> list[str]:
        """The texts that a search matches, in the order of `by_severity`."""
        return [searched_text(row["virtualhost"], row["name"]) for row in self.by_severity]

    def matching(self, search: str, states: Iterable[str], only: Iterable[str] = ()) -> Sequence[Row]:
        """Return the matching rows, the most severe first."""
        needle = search.strip().casefold()
        if not needle:
            return matching(self.by_severity, states=states, only=only)
        found = [row for row, text in zip(self.by_severity, self.texts, strict=True) if needle in text]
        return matching(found, states=states, only=only)

    def overview(
        self,
        *,
        search: str = "",
        states: Iterable[str] = (),
        only: Iterable[str] = (),
        sort: str = "",
        page: int = 1,
        size: int = USUAL,
        grouping: Grouping | None = None,
    ) -> dict[str, Any]:
        """Return the data of an overview snapshot. `total`: number of queues that match `search`, `states` and the
        quick filters `only`, which are included so that a page can match the answer to its request. A page beyond the
        last is the last. With a `grouping` also what `grouped_page` returns, and `of_group` in each queue. Raises
        BadSort."""
        key = queue_key(sort)
        states, only = tuple(states), tuple(only)
        found = self.matching(search, states, only)
        groups: dict[str, Any] = {}
        if grouping is None:
            page = min(page, max(1, math.ceil(len(found) / size)))
            first = (page - 1) * size
            cut = found if key is severity_key else _first_in_order(found, key, first + size)
            queues = [shown(row) for row in cut[first : first + size]]
        else:
            inside = None if key is severity_key else key
            page, groups, rows = grouped_page(found, grouping, sort=sort, key=inside, page=page, size=size)
            queues = [{**shown(row), "of_group": name} for name, row in rows]
        return {
            "totals": self.totals,
            "queues": queues,
            **groups,
            "search": search,
            "states": states,
            "only": only,
            "total": len(found),
            "page": page,
            "page_size": size,
            "stops": self.totals.get("stops", []),
            "conditions": [condition.as_json() for condition in self.conditions[:MOST_CONDITIONS]],
            "conditions_total": len(self.conditions),
        }


def _first_in_order(rows: Sequence[Row], key: SortKey, count: int) -> Sequence[Row]:
    """Return the first `count` rows in the order of a key. Far back a sort takes less time than `heapq`."""
    return sorted(rows, key=key) if 20 * count > len(rows) else heapq.nsmallest(count, rows, key=key)


def shown(row: Row) -> dict[str, Any]:
    """Return a queue as lists show it. `starting`: a staged start of its producers is running."""
    starting = any(stop.get("stage") for stop in row.get("stops") or ())
    return {**{attribute: row.get(attribute) for attribute in SHOWN}, "starting": starting}


def overview(
    broker: Row | None, rows: Sequence[Row], *, conditions: Sequence[Condition] = (), **options: Any
) -> dict[str, Any]:
    """Return one overview; `options`: as for `View.overview`."""
    return View(broker, rows, conditions).overview(**options)


def check_sort(sort: str) -> None:
    """Raise BadSort if the sort names an unknown attribute."""
    queue_key(sort)


def severity_key(row: Row) -> tuple[Any, ...]:
    """Return the key of the default order: overfull and stopped, overfull, stopped (each by duration), nearly full,
    of unknown state, then the rest by name."""
    rank = _RANK.get(row.get("state") or "", _UNKNOWN)
    since = row.get("overfull_since") or row.get("stopped_since") or 0
    if rank >= _UNKNOWN and nearly_full(row):
        rank = _NEARLY_FULL
    return rank, since, row["virtualhost"], row["name"]


@lru_cache(maxsize=200)
def queue_key(sort: str) -> SortKey:
    """Return the key of an order, such as "-depth_messages,name"; empty: `severity_key`. Raises BadSort."""
    fields = [word.strip() for word in sort.split(",") if word.strip()]
    declared = TYPES["Queue"]
    for field in fields:
        if declared.attribute(field.removeprefix("-")) is None:
            raise BadSort(f"cannot sort by {field.removeprefix('-')!r}: a queue has no such attribute")
    if not fields:
        return severity_key

    def key(row: Row) -> tuple[Any, ...]:
        parts: list[Any] = [_directed(row.get(field.removeprefix("-")), field.startswith("-")) for field in fields]
        return (*parts, row["virtualhost"], row["name"])

    return key


class _Descending:
    """Reverses the order of the wrapped value."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __lt__(self, other: _Descending) -> bool:
        return bool(other.value < self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Descending) and self.value == other.value

    __hash__ = None  # type: ignore[assignment]


def _directed(value: Any, descending: bool) -> Any:
    """Return a key that sorts None last, numbers by value and texts case-insensitively, in either direction. An
    attribute can have both, such as the levels 400 and "80%": numbers are lower."""
    if value is None:
        return (1, 0)
    is_text = not isinstance(value, (int, float))
    plain: Any = str(value).casefold() if is_text else value
    if not descending:
        return (0, (is_text, plain))
    return (0, (not is_text, _Descending(plain) if is_text else -plain))
