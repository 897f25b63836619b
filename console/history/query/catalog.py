"""The catalog of the history: recorded brokers with their time range, and their queues."""

from __future__ import annotations

from typing import Any

from console.history.storage.reader import Reader

_BROKERS = """
SELECT broker, epoch_ms(min("at")) AS first, epoch_ms(max(until)) AS last, bool_and(source = 'log') AS "imported"
FROM {coverage} WHERE followed GROUP BY broker ORDER BY broker
"""
_QUEUES = """
SELECT broker, virtualhost, name, epoch_ms(min("at")) AS first, epoch_ms(max("at")) AS last
FROM {days}
WHERE kind = 'queue' AND ($broker = '' OR broker = $broker) AND ($search = '' OR contains(lower(name), $search))
GROUP BY broker, virtualhost, name ORDER BY lower(name), broker, virtualhost LIMIT $most
"""


def brokers(reader: Reader) -> list[dict[str, Any]]:
    """Return the brokers with their first and last recorded moment, ms; `imported`: from logs only. Raises
    NothingRecorded, HistoryBroken."""
    return reader.rows(_BROKERS)


def queues(reader: Reader, *, broker: str = "", search: str = "", most: int = 100) -> list[dict[str, Any]]:
    """Return queues by name, with their first and last recorded day, ms. Raises NothingRecorded, HistoryBroken."""
    return reader.rows(_QUEUES, {"broker": broker, "search": search.lower(), "most": most})
