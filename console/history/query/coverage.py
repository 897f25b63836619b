"""Recorded and unrecorded time of a broker."""

from __future__ import annotations

from console.history.storage.reader import Reader

Span = tuple[int, int]

#: Two rows of coverage at most this far apart, in ms, are contiguous: their clocks are read one after the other.
_TOLERANCE = 2_000

_SPANS = """
WITH rows AS (
    SELECT broker, epoch_ms("at") AS a, epoch_ms(until) AS u FROM {coverage}
    WHERE followed AND epoch_ms(until) > $begin AND epoch_ms("at") < $end AND ($broker = '' OR broker = $broker)
), marked AS (
    SELECT *, max(u) OVER (PARTITION BY broker ORDER BY a, u ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
    FROM rows
), islands AS (
    SELECT *, sum(CASE WHEN before IS NULL OR a > before + $tolerance THEN 1 ELSE 0 END)
        OVER (PARTITION BY broker ORDER BY a, u) AS island
    FROM marked
)
SELECT broker, min(a) AS a, max(u) AS u FROM islands GROUP BY broker, island ORDER BY broker, a
"""


def watched(reader: Reader, begin: int, end: int, broker: str = "") -> dict[str, list[Span]]:
    """Return the recorded spans of each broker, or of the given one, within [begin, end), ms; in order, disjoint."""
    rows = reader.rows(
        _SPANS,
        {"begin": begin, "end": end, "broker": broker, "tolerance": _TOLERANCE},
        end=end,
        where={"broker": broker} if broker else {},
        optional=("coverage",),
    )
    found: dict[str, list[Span]] = {}
    for row in rows:
        found.setdefault(row["broker"], []).append((max(begin, row["a"]), min(end, row["u"])))
    return found


def gaps(spans: list[Span], begin: int, end: int, least: int = _TOLERANCE) -> list[Span]:
    """Return the parts of [begin, end) that no span covers, except those shorter than `least` ms."""
    found: list[Span] = []
    reached = begin
    for a, u in spans:
        if a - reached >= least:
            found.append((reached, a))
        reached = max(reached, u)
    if end - reached >= least:
        found.append((reached, end))
    return found


def shortest_gap(begin: int, end: int) -> int:
    """Return the shortest gap, in ms, that a chart of [begin, end) shows: less than a pixel, and above what the reads
    of one recorder can be apart."""
    return max(5_000, (end - begin) // 2_000)
