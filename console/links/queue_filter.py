"""Filter rows of queues by name and state. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from console.links.queue_table import Row


def matching(rows: Sequence[Row], *, search: str = "", states: Iterable[str] = ()) -> Sequence[Row]:
    """Return the queues whose virtual host and name contain `search`, case-insensitive, and whose state is one of
    `states`, if any are given."""
    wanted = frozenset(states)
    needle = search.strip().casefold()
    if wanted:
        rows = [row for row in rows if row.get("state") in wanted]
    if needle:
        rows = [row for row in rows if needle in searched_text(row["virtualhost"], row["name"])]
    return rows


@lru_cache(maxsize=50_000)
def searched_text(virtualhost: str, name: str) -> str:
    """Return the text that a search matches."""
    return f"{virtualhost}/{name}".casefold()
