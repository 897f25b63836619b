"""Filter rows of queues by name, state, and what is wrong with them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache

from console.links.queue_table import Row

#: A queue is nearly full from this part of its stop level on.
NEARLY = 0.8


def nearly_full(row: Row) -> bool:
    """Return whether the depth is at least `NEARLY` of a stop level, or above it. Unknown values are not."""
    # Written out: the order of thousands of queues is made of it.
    value = row.get
    messages, size = value("effective_stop_messages"), value("effective_stop_bytes")
    return bool(
        (messages and 0 < messages * NEARLY <= (value("depth_messages") or 0))
        or (size and 0 < size * NEARLY <= (value("depth_bytes") or 0))
    )


#: Name -> whether a queue matches. What is not known does not match.
QUICK_FILTERS: Mapping[str, Callable[[Row], bool]] = {
    "blocked": lambda row: (row.get("blocked_producers") or 0) > 0,
    "nearly-full": nearly_full,
    "no-consumers": lambda row: row.get("consumers") == 0,
}


def matching(
    rows: Sequence[Row], *, search: str = "", states: Iterable[str] = (), only: Iterable[str] = ()
) -> Sequence[Row]:
    """Return the queues whose virtual host and name contain `search`, case-insensitive, whose state is one of
    `states`, if any are given, and that match all quick filters `only`, by name."""
    wanted = frozenset(states)
    needle = search.strip().casefold()
    if wanted:
        rows = [row for row in rows if row.get("state") in wanted]
    if needle:
        rows = [row for row in rows if needle in searched_text(row["virtualhost"], row["name"])]
    for name in only:
        matches = QUICK_FILTERS[name]
        rows = [row for row in rows if matches(row)]
    return rows


@lru_cache(maxsize=50_000)
def searched_text(virtualhost: str, name: str) -> str:
    """Return the text that a search matches."""
    return f"{virtualhost}/{name}".casefold()
