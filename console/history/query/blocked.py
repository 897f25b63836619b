"""The most blocked queues and producers, and blocked time by hour.

Some brokers do not report the blocked producers of queues: what was recorded of them as blocked time is unknown. They
may report the producers themselves, so blocked time by producer is as recorded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from console.history.query.coverage import Span, gaps, shortest_gap, watched
from console.history.storage.durations import DAY, HOUR, MINUTE
from console.history.storage.queue_key import QueueKey
from console.history.storage.reader import Reader

#: Measure -> column: time of producers blocked by flow control, or time of queues in a state.
MEASURES = {"blocked": "blocked_ms", "overfull": "overfull_ms", "stopped": "stopped_ms"}
#: Subject -> the rollups' kind.
SUBJECTS = {"queues": "queue", "producers": "producer", "virtualhosts": "virtualhost"}

#: Minutes are retained for 100 days; ranges that start earlier than this, in ms, use hours.
_MINUTES_AGE = 95 * DAY
#: Hours for 1,100 days; ranges that start earlier than this use days, which are retained without a limit.
_HOURS_AGE = 1095 * DAY
#: Blocks for 400 days, by the months in which they began.
_BLOCKS_AGE = 395 * DAY


@dataclass(frozen=True, slots=True)
class _Source:
    table: str
    step: int


def source_of(begin: int, end: int, now: int) -> _Source:
    span = end - begin
    if span <= 12 * HOUR and begin > now - _MINUTES_AGE:
        return _Source("minutes", MINUTE)
    if span <= 48 * DAY and begin > now - _HOURS_AGE:
        return _Source("hours", HOUR)
    return _Source("days", DAY)


_TOP = """
SELECT broker, virtualhost, name, string_agg(DISTINCT queue, ', ' ORDER BY queue) AS queues,
    if(list_contains($unreported::VARCHAR[], broker), NULL, sum(blocked_ms))::BIGINT AS blocked_ms,
    sum(overfull_ms)::BIGINT AS overfull_ms, sum(stopped_ms)::BIGINT AS stopped_ms,
    sum(watched_ms)::BIGINT AS watched_ms, sum(episodes)::BIGINT AS episodes, sum(blocks)::BIGINT AS blocks,
    max(messages_max) AS messages_max, max(bytes_max) AS bytes_max
FROM {%s}
WHERE kind = $kind AND epoch_ms("at") >= $begin AND epoch_ms("at") < $end AND ($broker = '' OR broker = $broker)
    AND NOT list_contains($omitted::VARCHAR[], broker)
GROUP BY broker, virtualhost, name
HAVING sum(%s) > 0
ORDER BY sum(%s) DESC, broker, virtualhost, name
LIMIT $most
"""


def top(
    reader: Reader,
    subject: str,
    begin: int,
    end: int,
    *,
    now: int,
    measure: str = "blocked",
    broker: str = "",
    most: int = 10,
    unreported: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the `most` subjects with the most time of a measure. `from` and `until` of the result are the range
    rounded to `step_ms`, the resolution used. `unreported`: brokers that do not report the blocked producers of queues;
    in the result those of the range whose time is therefore unknown. Raises NothingRecorded, HistoryBroken."""
    source = source_of(begin, end, now)
    low, high = rounded(begin, end, source.step)
    column = MEASURES[measure]
    hidden = [] if subject == "producers" else list(unreported)
    omitted = hidden if measure == "blocked" else []
    rows = reader.rows(
        _TOP % (source.table, column, column),
        {
            "kind": SUBJECTS[subject],
            "begin": low,
            "end": high,
            "broker": broker,
            "most": most,
            "unreported": hidden,
            "omitted": omitted,
        },
        begin=low,
        end=high,
        where={"broker": broker} if broker else {},
    )
    unknown = _unknown(omitted, broker, watched(reader, low, min(high, now), broker)) if omitted else []
    return {"from": low, "until": high, "step_ms": source.step, "rows": rows, "unreported": unknown}


def _unknown(omitted: Sequence[str], broker: str, recorded: Mapping[str, Sequence[Span]]) -> list[str]:
    """Return which of the omitted brokers would be in the answer."""
    return [slug for slug in omitted if (slug == broker if broker else slug in recorded)]


_WITHIN = """
SELECT sum(least(coalesce(epoch_ms("end"), until), until) - greatest(epoch_ms("start"), since))::BIGINT AS ms
FROM {holds} JOIN (SELECT unnest($since::BIGINT[]) AS since, unnest($until::BIGINT[]) AS until)
    ON epoch_ms("start") < until AND (epoch_ms("end") IS NULL OR epoch_ms("end") > since)
WHERE broker = $broker AND virtualhost = $virtualhost AND queue = $name
"""


def blocked_within(reader: Reader, queue: QueueKey, spans: Sequence[Span]) -> int:
    """Return the blocked producer time of a queue within these spans of recorded time, ms: of a block that began before
    one or ends after it, the part in it. Raises NothingRecorded, HistoryBroken."""
    if not spans:
        return 0
    about = {"broker": queue.broker, "virtualhost": queue.virtualhost, "queue": queue.name}
    given = {"broker": queue.broker, "virtualhost": queue.virtualhost, "name": queue.name}
    parts = {"since": [since for since, _ in spans], "until": [until for _, until in spans]}
    # Without `begin`: a block may have begun long before.
    rows = reader.rows(_WITHIN, given | parts, end=max(parts["until"]), where=about, optional=("holds",))
    return rows[0]["ms"] or 0


def has_blocks(begin: int, now: int) -> bool:
    """Return whether blocks are retained of a range that begins at `begin`, ms."""
    return begin > now - _BLOCKS_AGE


_CELLS = """
WITH rows AS (
    SELECT broker, virtualhost, name, epoch_ms("at") AS "at", {column} AS value
    FROM {{{table}}}
    WHERE kind = 'queue' AND epoch_ms("at") >= $begin AND epoch_ms("at") < $end
        AND ($broker = '' OR broker = $broker) AND {column} > 0
        AND NOT list_contains($omitted::VARCHAR[], broker)
), most AS (
    SELECT broker, virtualhost, name, sum(value) AS total FROM rows GROUP BY ALL
    ORDER BY total DESC, broker, virtualhost, name LIMIT $most
)
SELECT broker, virtualhost, name, total::BIGINT AS total,
    $begin + ("at" - $begin) // $bucket * $bucket AS slot, sum(value)::BIGINT AS value
FROM rows JOIN most USING (broker, virtualhost, name)
GROUP BY ALL
ORDER BY total DESC, broker, virtualhost, name, slot
"""

#: (ms per column of a heat map, longest range in ms that it is used for).
_BUCKETS = (
    (MINUTE, HOUR),
    (5 * MINUTE, 4 * HOUR),
    (15 * MINUTE, 12 * HOUR),
    (HOUR, 8 * DAY),
    (6 * HOUR, 48 * DAY),
    (DAY, 200 * DAY),
    (7 * DAY, 1 << 62),
)


def heat(
    reader: Reader,
    begin: int,
    end: int,
    *,
    now: int,
    measure: str = "blocked",
    broker: str = "",
    most: int = 25,
    unreported: Sequence[str] = (),
) -> dict[str, Any]:
    """Return blocked time by queue and time slot. `values[i][j]`: ms of queue i in the `bucket_ms` from `at[j]` on;
    null: not recorded. `unwatched`: the spans that were not recorded, by broker. `unreported`: as for `top`. Raises
    NothingRecorded, HistoryBroken."""
    source = source_of(begin, end, now)
    bucket = max(source.step, next(bucket for bucket, up_to in _BUCKETS if end - begin <= up_to))
    low, high = rounded(begin, end, bucket)
    omitted = list(unreported) if measure == "blocked" else []
    rows = reader.rows(
        _CELLS.format(column=MEASURES[measure], table=source.table),
        {"begin": low, "end": high, "broker": broker, "most": most, "bucket": bucket, "omitted": omitted},
        begin=low,
        end=high,
        where={"broker": broker} if broker else {},
    )
    times = list(range(low, high, bucket))
    recorded = watched(reader, low, min(high, now), broker)
    recorded_slots = {slug: _slots(spans, low, bucket) for slug, spans in recorded.items()}
    queues: dict[tuple[str, str, str], dict[int, int]] = {}
    for row in rows:
        queues.setdefault((row["broker"], row["virtualhost"], row["name"]), {})[row["slot"]] = row["value"]
    return {
        "from": low,
        "until": high,
        "bucket_ms": bucket,
        "at": times,
        "queues": [
            {"broker": b, "virtualhost": v, "name": n, "total_ms": sum(cells.values())}
            for (b, v, n), cells in queues.items()
        ],
        "values": [
            [cells.get(at, 0 if slot in recorded_slots.get(key[0], ()) else None) for slot, at in enumerate(times)]
            for key, cells in queues.items()
        ],
        "unwatched": {
            slug: gaps(recorded.get(slug, []), low, min(high, now), shortest_gap(low, high))
            for slug in {key[0] for key in queues}
        },
        "unreported": _unknown(omitted, broker, recorded),
    }


def _slots(spans: list[Span], low: int, bucket: int) -> set[int]:
    """Return the numbers of the slots that overlap a span."""
    return {slot for a, u in spans for slot in range((a - low) // bucket, -(-(u - low) // bucket))}


def rounded(begin: int, end: int, step: int) -> tuple[int, int]:
    return begin // step * step, -(-end // step) * step
