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
from console.links.queue_totals import RATES, SUMMED, GroupTotals, thousandths

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
    def totals(self) -> GroupTotals:
        return GroupTotals(self.rows)

    def as_json(self) -> dict[str, Any]:
        return group_json(self.name, self.totals)


def group_json(name: str, totals: GroupTotals) -> dict[str, Any]:
    """Return the name and the totals of a group; `partial`: the names of sums that lack unknown values."""
    return {"name": name, **totals.values, "partial": totals.partial}


def sorted_attribute(sort: str) -> tuple[str, bool]:
    """Return the first attribute of a sort, and whether it is descending."""
    field = sort.split(",", maxsplit=1)[0].strip()
    return field.removeprefix("-"), field.startswith("-")


def by_name(name: str) -> tuple[str, str]:
    """Return the key of a group's name in the order of names; without a prefix it is last in either direction."""
    return name.casefold(), name


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
    attribute, descending = sorted_attribute(sort)
    found = list(groups.values())
    if attribute in ("name", by):
        found.sort(key=lambda group: by_name(group.name), reverse=descending)
        found.sort(key=lambda group: group.name == "")  # no prefix is last
    elif attribute in (*SUMMED, *RATES):
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
    page, lines, cuts = cut_page([(group.name, len(group.rows)) for group in groups], grouping, page, size)
    shown: list[dict[str, Any]] = []
    queues: list[tuple[str, Row]] = []
    for cut in cuts:
        group = groups[cut.number]
        shown.append({**group.as_json(), "open": cut.is_open})
        if cut.is_open:
            inside = group.rows if key is None else sorted(group.rows, key=key)
            queues += ((group.name, row) for row in inside[cut.first : cut.last])
    data = {"group": grouping.by, "groups": shown, "groups_total": len(groups), "lines": lines}
    return page, data, queues


@dataclass(frozen=True, slots=True)
class Cut:
    """The part of a group on a page: its `number` among the groups, and its queues from `first` to before `last`."""

    number: int
    is_open: bool
    first: int
    last: int


def cut_page(groups: Sequence[tuple[str, int]], grouping: Grouping, page: int, size: int) -> tuple[int, int, list[Cut]]:
    """Return the number of the page, the number of lines on all pages, and the groups of the page. `groups`: name and
    number of queues of each; see `grouped_page`."""
    opened = [grouping.is_open(name) for name, _ in groups]
    lines = sum(1 + (count if is_open else 0) for (_, count), is_open in zip(groups, opened, strict=True))
    page = min(page, max(1, math.ceil(lines / size)))
    first, last = (page - 1) * size, page * size  # lines of the page
    cuts: list[Cut] = []
    at = 0
    for number, ((_, count), is_open) in enumerate(zip(groups, opened, strict=True)):
        begin = at + 1  # the line of its first queue
        at = begin + (count if is_open else 0)
        if at <= first:
            continue
        if begin > last:
            break
        cuts.append(Cut(number, is_open, max(0, first - begin), last - begin if is_open else 0))
    return page, lines, cuts


def _by_sum(group: QueueGroup, attribute: str, *, descending: bool) -> tuple[Any, ...]:
    # Not from `totals`: those of groups that no page shows would cost more than all else.
    known = [value for row in group.rows if (value := row.get(attribute)) is not None]
    value = sum(map(thousandths, known)) if attribute in RATES else sum(known)
    return (not known, -value if descending else value, group.name)
