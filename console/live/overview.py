"""What the overview shows: the broker's totals and its queues, trouble first, filtered, sorted and cut. Pure.

Totals are summed here from the queues' rows, so that looking at the overview costs the broker nothing.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from brokers.admin import SAMPLED
from brokers.managed import TYPES
from console.conditions.standing import Condition
from console.links.queue_table import Row

#: At most so many queues are in one snapshot; the search narrows them.
MOST = 500

#: Conditions in one snapshot, the worst first.
MOST_CONDITIONS = 30

_SHOWN = ("object", "virtualhost", "name", *SAMPLED)
_RANK = {"OVERFULL_STOPPED": 0, "OVERFULL": 1, "STOPPED": 2, "NORMAL": 4}
_NEARLY_FULL = 3
_SUMMED = ("producers", "blocked_producers", "consumers", "depth_messages", "depth_bytes")


class BadSort(ValueError):
    """The sort names something that is no attribute of a queue. The message is a sentence for people."""


def totals(broker: Row | None, rows: Sequence[Row]) -> dict[str, Any]:
    """The broker's attributes with its sums as of the rows; empty before the first connection."""
    if broker is None:
        return {}
    summed: dict[str, Any] = {attribute: sum(row[attribute] for row in rows) for attribute in _SUMMED}
    states = [row["state"] for row in rows]
    return {
        **broker,
        **summed,
        "queues": len(rows),
        "overfull_queues": sum(state.startswith("OVERFULL") for state in states),
        "stopped_queues": sum(state.endswith("STOPPED") for state in states),
    }


def overview(
    broker: Row | None,
    rows: Sequence[Row],
    *,
    search: str = "",
    states: Iterable[str] = (),
    sort: str = "",
    conditions: Sequence[Condition] = (),
) -> dict[str, Any]:
    """The data of an overview snapshot; `total` counts the queues that match. Raises BadSort."""
    key = _sort_key(sort)
    sums = totals(broker, rows)
    found = matching(rows, search=search, states=states)
    shown = heapq.nsmallest(MOST, found, key=key)
    return {
        "totals": sums,
        "queues": [{attribute: row.get(attribute) for attribute in _SHOWN} for row in shown],
        "total": len(found),
        "stops": sums.get("stops", []),
        "conditions": [condition.shown() for condition in conditions[:MOST_CONDITIONS]],
        "conditions_total": len(conditions),
    }


def matching(rows: Sequence[Row], *, search: str = "", states: Iterable[str] = ()) -> Sequence[Row]:
    """The queues whose name has the text and whose state is one of those given, if any are."""
    wanted = frozenset(states)
    needle = search.strip().casefold()
    if wanted:
        rows = [row for row in rows if row["state"] in wanted]
    if needle:
        rows = [row for row in rows if needle in f"{row['virtualhost']}/{row['name']}".casefold()]
    return rows


def trouble(row: Row) -> tuple[Any, ...]:
    """Overfull and stopped, overfull, stopped (the longest ago first), nearly full, then the rest by name."""
    rank = _RANK.get(row["state"], 0)
    since = row["overfull_since"] or row["stopped_since"] or 0
    if rank == _RANK["NORMAL"] and _nearly_full(row):
        rank = _NEARLY_FULL
    return rank, since, row["virtualhost"], row["name"]


def _nearly_full(row: Row) -> bool:
    return any(0 < row[f"effective_stop_{unit}"] * 0.8 <= row[f"depth_{unit}"] for unit in ("messages", "bytes"))


def _sort_key(sort: str) -> Callable[[Row], Any]:
    fields = [word.strip() for word in sort.split(",") if word.strip()]
    declared = TYPES["Queue"]
    for field in fields:
        if declared.attribute(field.removeprefix("-")) is None:
            raise BadSort(f"a queue has no attribute {field.removeprefix('-')!r} to sort by")
    if not fields:
        return trouble

    def key(row: Row) -> tuple[Any, ...]:
        parts: list[Any] = [_directed(row.get(field.removeprefix("-")), field.startswith("-")) for field in fields]
        return (*parts, row["virtualhost"], row["name"])

    return key


class _Descending:
    """Turns the order of what it wraps round."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __lt__(self, other: _Descending) -> bool:
        return bool(other.value < self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Descending) and self.value == other.value

    __hash__ = None  # type: ignore[assignment]


def _directed(value: Any, descending: bool) -> Any:
    """A key that sorts None last, numbers by size and texts whatever their case, in either direction."""
    if value is None:
        return (1, 0)
    plain: Any = value if isinstance(value, (int, float)) else str(value).casefold()
    if not descending:
        return (0, (isinstance(plain, str), plain))
    if isinstance(plain, str):
        return (0, _Descending(plain))
    return (0, -plain)
