"""When somebody looked at a broker, and what times of a range nothing is known of."""

from __future__ import annotations

from console.history.storage.reader import Reader

Span = tuple[int, int]

#: Two rows of coverage that are this near to each other, in ms, touch: clocks are read one after the other.
_TOUCH = 2_000

_SPANS = """
WITH rows AS (
    SELECT broker, epoch_ms("at") AS a, epoch_ms(until) AS u FROM {coverage}
    WHERE followed AND epoch_ms(until) > $begin AND epoch_ms("at") < $end AND ($broker = '' OR broker = $broker)
), marked AS (
    SELECT *, max(u) OVER (PARTITION BY broker ORDER BY a, u ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
    FROM rows
), islands AS (
    SELECT *, sum(CASE WHEN before IS NULL OR a > before + $touch THEN 1 ELSE 0 END)
        OVER (PARTITION BY broker ORDER BY a, u) AS island
    FROM marked
)
SELECT broker, min(a) AS a, max(u) AS u FROM islands GROUP BY broker, island ORDER BY broker, a
"""


def watched(reader: Reader, begin: int, end: int, broker: str = "") -> dict[str, list[Span]]:
    """The spans of [begin, end), in ms, in which each broker (or the one) was looked at; in order, apart."""
    rows = reader.rows(
        _SPANS,
        {"begin": begin, "end": end, "broker": broker, "touch": _TOUCH},
        end=end,
        where={"broker": broker} if broker else {},
        optional=("coverage",),
    )
    found: dict[str, list[Span]] = {}
    for row in rows:
        found.setdefault(row["broker"], []).append((max(begin, row["a"]), min(end, row["u"])))
    return found


def gaps(spans: list[Span], begin: int, end: int, least: int = _TOUCH) -> list[Span]:
    """What of [begin, end) no span covers; gaps shorter than `least` ms are left out."""
    found: list[Span] = []
    reached = begin
    for a, u in spans:
        if a - reached >= least:
            found.append((reached, a))
        reached = max(reached, u)
    if end - reached >= least:
        found.append((reached, end))
    return found
