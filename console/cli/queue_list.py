"""The list of all queues that match a filter, in pages, while they change.

Pages sorted by depth or blocked producers are pages of different orders: between two requests queues move, so that some
would be on two pages and others on none. So the pages are read by name, and sorted here. A queue that is created or
deleted meanwhile, or begins or ceases to match the filter, moves those behind it: then all pages are read again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from console.cli.client import Client

Row = Mapping[str, Any]

_PAGE, _TRIES = 500, 4
_BY_NAME = "virtualhost,name"


def all_queues(client: Client, query: Mapping[str, Any], *, sort: str, limit: int) -> list[Row]:
    """Return the queues, at most `limit` (0: all). `query`: the filter, as parameters of the API. `sort`: attributes
    separated by commas, with - for descending. Raises Problem."""
    size = min(limit or _PAGE, _PAGE)
    first = client.get("queues/", **query, sort=sort, page=1, page_size=size)
    if len(first["results"]) >= min(first["count"], limit or first["count"]):  # one answer has one order
        return list(first["results"])
    rows = _by_name(client, query)
    for attribute in reversed([word.strip() for word in sort.split(",") if word.strip()]):
        rows.sort(key=_key(attribute.removeprefix("-")), reverse=attribute.startswith("-"))
    return rows[:limit] if limit else rows


def _by_name(client: Client, query: Mapping[str, Any]) -> list[Row]:
    """Return all queues by name. If they change at each attempt, also those that matched at one of them only."""
    found: dict[str, Row] = {}
    for _ in range(_TRIES):
        rows, counts, number = list[Row](), set[int](), 1
        while number == 1 or (number - 1) * _PAGE < max(counts):
            page = client.get("queues/", **query, sort=_BY_NAME, page=number, page_size=_PAGE)
            rows += page["results"]
            counts.add(page["count"])
            number += 1
        read = {row["object"]: row for row in rows}
        if counts == {len(read)} == {len(rows)}:
            return list(read.values())
        found |= read
    return sorted(found.values(), key=lambda row: (row["virtualhost"], row["name"]))


def _key(attribute: str) -> Callable[[Row], tuple[bool, bool, Any]]:
    """Return a sort key as that of the broker: unknown values are the lowest, texts are compared without case."""

    def key(row: Row) -> tuple[bool, bool, Any]:
        value = row.get(attribute)
        if value is None:
            return False, False, 0
        plain = value if isinstance(value, int | float) else str(value).casefold()
        return True, isinstance(plain, str), plain

    return key
