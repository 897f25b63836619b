"""Totals of brokers over time: throughput, depth and blocked producer time, from the rollups of virtual hosts.

A sum is that of the known values: brokers that were not recorded at a time are named by `unwatched`, those that do not
report blocked producers by `unreported`. A time at which nothing was recorded is null, never 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from console.history.query.blocked import rounded, source_of
from console.history.query.coverage import gaps, shortest_gap, watched
from console.history.storage.reader import Reader

#: The columns of the answer, each with a value for each of `at`: messages per second, depth, ms.
FIELDS = ("rate_in", "rate_out", "messages", "bytes", "blocked_ms")

_TOTALS = """
SELECT broker, epoch_ms("at") AS "at",
    sum(messages_in) / (max(watched_ms) / 1000) AS rate_in, sum(messages_out) / (max(watched_ms) / 1000) AS rate_out,
    sum(messages_mean) AS messages, sum(bytes_mean) AS bytes,
    if(list_contains($unreported::VARCHAR[], broker), NULL, sum(blocked_ms))::BIGINT AS blocked_ms
FROM {%s}
WHERE kind = 'virtualhost' AND epoch_ms("at") >= $begin AND epoch_ms("at") < $end AND watched_ms > 0
    AND (len($brokers::VARCHAR[]) = 0 OR list_contains($brokers::VARCHAR[], broker))
GROUP BY 1, 2
"""


def totals(
    reader: Reader,
    begin: int,
    end: int,
    *,
    now: int,
    brokers: Sequence[str] = (),
    unreported: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the totals of brokers, empty: all that were recorded in the range, in steps of `step_ms` from `from` on.
    Each of `FIELDS` is a list with a value, or null, for each of `at`, ms. `unwatched`: the spans of each broker that
    were not recorded. `unreported`: brokers that do not report the blocked producers of queues; in the result those of
    the answer. While nothing is recorded at all, everything is unknown. Raises HistoryBroken."""
    source = source_of(begin, end, now)
    low, high = rounded(begin, end, source.step)
    one = brokers[0] if len(brokers) == 1 else ""
    rows = reader.rows(
        _TOTALS % source.table,
        {"begin": low, "end": high, "brokers": list(brokers), "unreported": list(unreported)},
        begin=low,
        end=high,
        where={"broker": one} if one else {},
        optional=(source.table,),
    )
    spans = watched(reader, low, min(high, now), one)
    members = sorted(brokers or spans)
    times = list(range(low, min(high, now), source.step))
    return {
        "from": low,
        "until": high,
        "step_ms": source.step,
        "at": times,
        **_sums(rows, times),
        "unwatched": {
            each: gaps(spans.get(each, []), low, min(high, now), shortest_gap(low, high)) for each in members
        },
        "unreported": sorted(set(unreported) & set(members)),
    }


def _sums(rows: Iterable[Mapping[str, Any]], times: Sequence[int]) -> dict[str, list[float | None]]:
    """Return the sums over brokers; null where no broker has a known value."""
    slots = {at: slot for slot, at in enumerate(times)}
    sums: dict[str, list[float | None]] = {field: [None] * len(times) for field in FIELDS}
    for row in rows:
        slot = slots.get(row["at"])
        if slot is None:
            continue
        for field, values in sums.items():
            if row[field] is not None:
                values[slot] = round((values[slot] or 0) + row[field], 2)
    return sums
