"""Groups of queues, by virtual host or by the prefix of their names, and one page of a grouped table. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from console.links.queue_order import SortKey
from console.links.queue_table import Row
from console.links.queue_totals import SUMMED, QueueTotals

#: What precedes the first separator. Separators at the begin belong to the prefix: "/shop/orders" has "/shop".
_PREFIX = re.compile(r"[./_-]*[^./_-]+(?=[./_-])")


def prefix_of(name: str) -> str:
    """Return the name up to the first `.`, `-`, `/` or `_`; empty: it has no such prefix."""
    found = _PREFIX.match(name)
    return found[0] if found else ""


#: Name -> the name of a queue's group.
GROUPINGS: Mapping[str, Callable[[Row], str]] = {
    "virtualhost": lambda row: str(row["virtualhost"]),
    "prefix": lambda row: prefix_of(row["name"]),
}


@dataclass(frozen=True, slots=True)
class Grouping:
    """How a table is grouped. `by`: a name in `GROUPINGS`. Groups are collapsed if `collapsed`, apart from those named
    in `toggled`, which are the other way."""

    by: str
    collapsed: bool = True
    toggled: frozenset[str] = frozenset()

    def is_open(self, name: str) -> bool:
        return (name in self.toggled) == self.collapsed


class QueueGroup:
    """`name`: empty for queues without a prefix. `rows`: its queues, in the order of the rows that were grouped."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.rows: list[Row] = []

    @cached_property
    def totals(self) -> QueueTotals:
        return QueueTotals(self.rows)

    def as_json(self) -> dict[str, Any]:
        """Return the name and the totals; `partial`: the names of sums that lack unknown values."""
        return {"name": self.name, **self.totals.values, "partial": self.totals.partial}


def grouped(rows: Sequence[Row], by: str, sort: str, key: SortKey | None) -> list[QueueGroup]:
    """Return the groups of rows, in the order of a table that is sorted by `sort`: by the group's name or sum if that
    is by name or by a value that is summed, else by the first queue of the group. `key`: the key of `sort`; None: the
    rows are in its order."""
    name_of = GROUPINGS[by]
    groups: dict[str, QueueGroup] = {}
    for row in rows:
        name = name_of(row)
        group = groups.get(name)
        if group is None:
            group = groups[name] = QueueGroup(name)
        group.rows.append(row)
    field, *_ = (word.strip() for word in sort.split(","))
    attribute, descending = field.removeprefix("-"), field.startswith("-")
    found = list(groups.values())
    if attribute in ("name", by):
        found.sort(key=lambda group: (group.name.casefold(), group.name), reverse=descending)
        found.sort(key=lambda group: group.name == "")  # no prefix is last
    elif attribute in SUMMED:
        found.sort(key=lambda group: _by_sum(group, attribute, descending=descending))
    elif key is not None:
        found.sort(key=lambda group: min(map(key, group.rows)))
    return found


def grouped_page(
    rows: Sequence[Row], grouping: Grouping, *, sort: str, key: SortKey | None, page: int, size: int
) -> tuple[int, dict[str, Any], list[tuple[str, Row]]]:
    """Return the number of a page, its data and its queues, each with the name of its group.

    A page has `size` lines: groups, and the queues of those that are open. If it begins amid a group, that group is on
    it once more. Data: `groups`, those of the page in order, each with its totals over all its queues and `open`;
    `groups_total` and `lines`, the numbers of groups and lines on all pages. A page beyond the last is the last. See
    `grouped` for the other parameters."""
    groups = grouped(rows, grouping.by, sort, key)
    is_open = [grouping.is_open(group.name) for group in groups]
    lines = sum(1 + (len(group.rows) if opened else 0) for group, opened in zip(groups, is_open, strict=True))
    page = min(page, max(1, math.ceil(lines / size)))
    first, last = (page - 1) * size, page * size  # lines of the page
    shown: list[dict[str, Any]] = []
    queues: list[tuple[str, Row]] = []
    at = 0
    for group, opened in zip(groups, is_open, strict=True):
        begin = at + 1  # the line of its first queue
        at = begin + (len(group.rows) if opened else 0)
        if at <= first:
            continue
        if begin > last:
            break
        shown.append({**group.as_json(), "open": opened})
        if opened:
            inside = group.rows if key is None else sorted(group.rows, key=key)
            queues += ((group.name, row) for row in inside[max(0, first - begin) : last - begin])
    data = {"group": grouping.by, "groups": shown, "groups_total": len(groups), "lines": lines}
    return page, data, queues


def _by_sum(group: QueueGroup, attribute: str, *, descending: bool) -> tuple[Any, ...]:
    # Not from `totals`: those of groups that no page shows would cost more than all else.
    known = [value for row in group.rows if (value := row.get(attribute)) is not None]
    value = sum(known)
    return (not known, -value if descending else value, group.name)
