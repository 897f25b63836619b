"""One page of the queues of all brokers: filtered, sorted, and merged from the orders that the links update. Pure."""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, islice
from typing import Any

from console.links.queue_filter import matching
from console.links.queue_order import Placed
from console.live.fleet.members import Member
from console.live.overview import USUAL, queue_key, shown

#: A queue's place in its broker's order, and the broker's number among the members.
_Entry = tuple[tuple[Any, ...], int, str]


def check_sort(sort: str) -> None:
    """Raise BadSort unless the sort is one of `queue_key`, `broker` or `-broker`."""
    if not is_by_broker(sort):
        queue_key(sort)


def queues_page(
    members: Sequence[Member],
    *,
    search: str = "",
    states: Iterable[str] = (),
    only: Iterable[str] = (),
    sort: str = "",
    page: int = 1,
    size: int = USUAL,
) -> dict[str, Any]:
    """Return {count, page, page_size, results}. `sort`: as for `queue_key`, or `broker` (by title, each broker's most
    severe queues first). `results`: queues as on the overview, each with `broker`, `broker_title` and `stale`. A page
    beyond the last is the last; brokers without a snapshot have no queues. Raises BadSort."""
    members = in_order(members, sort)
    orders = orders_of(members, search=search, states=states, only=only, sort=sort)
    count = sum(map(len, orders))
    page = min(page, max(1, math.ceil(count / size)))
    first = (page - 1) * size
    results = cut(members, orders, first, first + size, by_broker=is_by_broker(sort))
    return {"count": count, "page": page, "page_size": size, "results": results}


def is_by_broker(sort: str) -> bool:
    return sort in ("broker", "-broker")


def in_order(members: Sequence[Member], sort: str) -> Sequence[Member]:
    """Return the members in the order of a sort by broker, or as they are."""
    if not is_by_broker(sort):
        return members
    return sorted(members, key=lambda member: (member.title.casefold(), member.slug), reverse=sort[0] == "-")


def orders_of(
    members: Sequence[Member], *, search: str, states: Iterable[str], only: Iterable[str], sort: str
) -> list[Sequence[Placed]]:
    """Return the matching queues of each member in the order of a sort; see `queues_page`."""
    key = queue_key("" if is_by_broker(sort) else sort)
    wanted, needle, only = frozenset(states), search.strip().casefold(), tuple(only)
    return [
        _matching(member, member.link.queues_in_order(key), needle, wanted, only)
        if member.link.as_of is not None
        else ()
        for member in members
    ]


def cut(
    members: Sequence[Member], orders: Sequence[Sequence[Placed]], first: int, last: int, *, by_broker: bool
) -> list[dict[str, Any]]:
    """Return the queues from `first` to before `last` of all orders, merged, as a page shows them."""
    merged: Iterator[_Entry]
    if by_broker:
        merged = islice(chain(*(_entries(number, placed, 0) for number, placed in enumerate(orders))), first, None)
    else:
        starts = _preceding(orders, first)
        merged = heapq.merge(*(_entries(n, placed, starts[n]) for n, placed in enumerate(orders)))
    results = []
    for _, number, name in islice(merged, last - first):
        member = members[number]
        row = member.link.queue(name)
        if row is not None:  # deleted meanwhile
            results.append(
                {
                    "broker": member.slug,
                    "broker_title": member.title,
                    "stale": not member.link.connected,
                    **shown(row),
                }
            )
    return results


def _entries(number: int, placed: Sequence[Placed], start: int) -> Iterator[_Entry]:
    return ((key, number, name) for key, name in islice(placed, start, None))


def _preceding(orders: Sequence[Sequence[Placed]], first: int) -> list[int]:
    """Return how many entries of each order are among the `first` ones of all merged: a page in the middle need not
    merge what precedes it. Each step compares one entry with all orders, by binary search."""
    least, most = [0] * len(orders), [len(placed) for placed in orders]
    while sum(least) < first:
        number = max(range(len(orders)), key=lambda n: most[n] - least[n])
        middle = (least[number] + most[number]) // 2
        key = orders[number][middle][0]
        before = [_before(placed, key, or_equal=n < number) for n, placed in enumerate(orders)]
        if sum(before) < first:
            least = [max(pair) for pair in zip(least, before, strict=True)]
            least[number] = middle + 1
        else:
            most = [min(pair) for pair in zip(most, before, strict=True)]
    return least


def _before(placed: Sequence[Placed], key: tuple[Any, ...], *, or_equal: bool) -> int:
    """Return how many entries have a lower key, or an equal one: equal keys are in the order of brokers."""
    at = bisect_left(placed, (key,))
    return at + (or_equal and at < len(placed) and placed[at][0] == key)


def _matching(
    member: Member, placed: Sequence[Placed], needle: str, states: frozenset[str], only: Sequence[str]
) -> Sequence[Placed]:
    if needle:
        placed = [each for each in placed if needle in _searched(each[0][-2], each[0][-1])]
    if states:
        state_of = member.link.queue
        placed = [each for each in placed if (row := state_of(each[1])) is not None and row.get("state") in states]
    if only:
        row_of = member.link.queue
        placed = [each for each in placed if (row := row_of(each[1])) is not None and matching([row], only=only)]
    return placed


@lru_cache(maxsize=1)
def _folded(virtualhost: str) -> str:
    return virtualhost.casefold()


def _searched(virtualhost: str, name: str) -> str:
    """Return the text that a search matches, as `searched_text`, without a cache for names: there are too many."""
    return f"{_folded(virtualhost)}/{name.casefold()}"
