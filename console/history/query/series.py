"""Time series of one queue: depth, limits of that time, rates, overfull time and stopped time.

The length of the range selects the resolution: samples, minutes, hours or days. Time without data is null, never 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from console.history.query.blocked import blocked_within, has_blocks
from console.history.query.coverage import Span, gaps, shortest_gap, watched
from console.history.storage.durations import DAY, HOUR, MINUTE, SAMPLE_VALIDITY_MS
from console.history.storage.layout import LEVELS
from console.history.storage.queue_key import QueueKey
from console.history.storage.reader import Reader

#: Maximum number of points of a series.
MOST_POINTS = 12_000


@dataclass(frozen=True, slots=True)
class Resolution:
    """`step`: ms per point, 0: raw points. `up_to`: the longest range, in ms, that `auto` selects it for."""

    name: str
    table: str
    step: int
    up_to: int


RESOLUTIONS = (
    Resolution("raw", "samples", 0, 2 * HOUR),
    Resolution("minute", "minutes", MINUTE, 36 * HOUR),
    Resolution("hour", "hours", HOUR, 92 * DAY),
    Resolution("day", "days", DAY, 1 << 62),
)
BY_NAME = {resolution.name: resolution for resolution in RESOLUTIONS}


#: The columns of a series, each with a value for each of `at`.
FIELDS = (
    "messages",
    "messages_p95",
    "messages_max",
    "bytes",
    "bytes_p95",
    "bytes_max",
    *LEVELS,
    "rate_in",
    "rate_out",
    "producers",
    "blocked_producers",
    "overfull_ms",
    "stopped_ms",
    "blocked_ms",
    "watched_ms",
)

#: Those of them about blocked producers.
_OF_BLOCKED = ("blocked_producers", "blocked_ms")

_ROLLED_UP = """
SELECT epoch_ms("at") AS "at",
    round(messages_mean, 2) AS messages, round(messages_p95, 2) AS messages_p95, messages_max,
    round(bytes_mean, 1) AS bytes, round(bytes_p95, 1) AS bytes_p95, bytes_max,
    capacity_messages, stop_messages, resume_messages, capacity_bytes, stop_bytes, resume_bytes,
    round(rate_in, 3) AS rate_in, round(rate_out, 3) AS rate_out,
    producers_max AS producers, blocked_producers_max AS blocked_producers,
    overfull_ms, stopped_ms, blocked_ms, watched_ms
FROM {%s}
WHERE kind = 'queue' AND broker = $broker AND virtualhost = $virtualhost AND name = $name
    AND epoch_ms("at") >= $begin AND epoch_ms("at") < $end
ORDER BY "at"
"""

_RAW = """
SELECT "at", state, continuous, depth_messages AS messages, depth_bytes AS bytes, producers, blocked_producers,
    rate_in, rate_out,
    capacity_messages, stop_messages, resume_messages, capacity_bytes, stop_bytes, resume_bytes
FROM (
    SELECT epoch_ms("at") AS "at", -1 AS sequence, true AS continuous, state, depth_messages, depth_bytes, producers,
        blocked_producers, rate_in, rate_out,
        capacity_messages, stop_messages, resume_messages, capacity_bytes, stop_bytes, resume_bytes
    FROM {samples}
    WHERE broker = $broker AND virtualhost = $virtualhost AND queue = $name
        AND epoch_ms("at") >= $before AND epoch_ms("at") < $end
    UNION ALL
    SELECT epoch_ms("at"), sequence, source <> 'log', CASE WHEN kind <> 'queue-deleted' THEN state END,
        CASE WHEN kind <> 'queue-deleted' THEN depth_messages END,
        CASE WHEN kind <> 'queue-deleted' THEN depth_bytes END,
        NULL, blocked_producers, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
    FROM {events}
    WHERE broker = $broker AND virtualhost = $virtualhost AND queue = $name
        AND (depth_messages IS NOT NULL OR depth_bytes IS NOT NULL)
        AND epoch_ms("at") >= $before AND epoch_ms("at") < $end
)
ORDER BY "at", sequence
LIMIT $most
"""


def select_resolution(begin: int, end: int, name: str = "auto") -> Resolution:
    """Return the resolution for a range in ms. Raises ValueError with a sentence if the named one is too fine."""
    if name == "auto":
        return next(resolution for resolution in RESOLUTIONS if end - begin <= resolution.up_to)
    resolution = BY_NAME[name]
    points = (end - begin) // (resolution.step or 1000)
    if points > MOST_POINTS:
        raise ValueError(_too_many(name, f"{points:,}"))
    return resolution


def _too_many(name: str, points: str) -> str:
    return (
        f"resolution is {name!r}: the range would have {points} points, and the maximum is {MOST_POINTS:,};"
        " request a coarser resolution or a shorter range"
    )


def series(
    reader: Reader,
    queue: QueueKey,
    begin: int,
    end: int,
    *,
    resolution: str = "auto",
    now: int,
    unreported: bool = False,
) -> dict[str, Any]:
    """Return the queue's time series from `begin` to `end`, ms. With `auto`, if the selected resolution has no data,
    because samples and minutes have a limited retention, use the next coarser one that has.

    `at`: ms, ascending; every other list of `FIELDS` has a value, or null, for each. `continuous` (`held` is its
    deprecated name): whether the values apply until the next point; raw points only, values of log entries do not.
    `total_blocked_ms`: blocked producer time within the recorded time of the range; None: unknown.
    `state`: the queue's state; raw points only. `unwatched`: spans that were not recorded. `unreported`: the broker
    does not report blocked producers, and figures of them are null. Raises ValueError as `select_resolution`,
    NothingRecorded, HistoryBroken.
    """
    first = select_resolution(begin, end, resolution)
    spans = watched(reader, begin - SAMPLE_VALIDITY_MS, min(end, now), queue.broker).get(queue.broker, [])
    candidates = RESOLUTIONS[RESOLUTIONS.index(first) :] if resolution == "auto" else (first,)
    answer: dict[str, Any] = {}
    for each in candidates:
        if each.step:
            found: dict[str, Any] | None = _rolled_up(reader, queue, begin, end, each)
        else:
            found = _raw(reader, queue, begin, min(end, now), spans)
        if found is None:  # more points than the maximum
            continue
        if not answer or found["known"]:
            answer = {"resolution": each.name, "step_ms": each.step, **found}
        if found["known"]:
            break
    if not answer:
        raise ValueError(_too_many(first.name, f"more than {MOST_POINTS:,}"))
    if unreported:
        answer |= {name: [None] * len(answer["at"]) for name in _OF_BLOCKED} | {"total_blocked_ms": None}
    elif has_blocks(begin, now):
        within = [(max(begin, a), u) for a, u in spans if u > begin]
        answer["total_blocked_ms"] = blocked_within(reader, queue, within)
    else:
        known = [value for value in answer["blocked_ms"] if value is not None]
        answer["total_blocked_ms"] = sum(known) if known else None
    unwatched = gaps(spans, begin, min(end, now), shortest_gap(begin, end))
    return {"from": begin, "until": end, **answer, "unwatched": unwatched}


def _rolled_up(reader: Reader, queue: QueueKey, begin: int, end: int, resolution: Resolution) -> dict[str, Any]:
    step = resolution.step
    low = begin - begin % step
    rows = reader.rows(
        _ROLLED_UP % resolution.table,
        _key_parameters(queue) | {"begin": low, "end": end},
        begin=low,
        end=end,
        where={"broker": queue.broker},
        optional=(resolution.table,),
    )
    by_time = {row["at"]: row for row in rows}
    times = list(range(low, end, step))
    columns = _columns([by_time.get(at, {}) for at in times], times)
    return columns | {"known": len(rows), "state": None, "continuous": None, "held": None}


def _raw(reader: Reader, queue: QueueKey, begin: int, end: int, spans: Sequence[Span]) -> dict[str, Any] | None:
    """Return the samples and events; None if there are more than `MOST_POINTS`."""
    before = begin - SAMPLE_VALIDITY_MS
    rows = reader.rows(
        _RAW,
        _key_parameters(queue) | {"before": before, "end": end, "most": MOST_POINTS + 1},
        begin=before,
        end=end,
        where={"broker": queue.broker},
        optional=("samples", "events"),
    )
    if len(rows) > MOST_POINTS:
        return None
    points = _with_ends(_filled(rows), begin, end, spans)
    answer = _columns(points, [point["at"] for point in points])
    continuous = [bool(point.get("continuous", True)) for point in points]
    state = [point.get("state") for point in points]
    return answer | {"known": len(points), "state": state, "continuous": continuous, "held": continuous}


def _filled(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Add to each event the levels and rates of the last sample: events have none."""
    carried = ("producers", "rate_in", "rate_out", *LEVELS)
    filled: list[dict[str, Any]] = []
    last: Mapping[str, Any] = {}
    for row in rows:
        last = {**row, **{name: row[name] if row[name] is not None else last.get(name) for name in carried}}
        filled.append(dict(last))
    return filled


def _with_ends(rows: Sequence[dict[str, Any]], begin: int, end: int, spans: Sequence[Span]) -> list[dict[str, Any]]:
    """Return the points from `begin` on. Where the validity of one ends before the next, add a last point with its
    values and an empty one, so that charts draw no line across time without data."""
    points: list[dict[str, Any]] = []
    for row, following in pairwise([*rows, {"at": end}]):
        until = min(following["at"], _valid_until(row, spans))
        if until < begin or until == row["at"] < begin:
            continue
        points.append({**row, "at": max(begin, row["at"])})
        is_last = following["at"] == end and "continuous" not in following
        if until > points[-1]["at"] and (is_last or until < following["at"]):
            points.append({**row, "at": until})
        if until < following["at"]:
            points.append({"at": until})
    return points


def _valid_until(row: Mapping[str, Any], spans: Sequence[Span]) -> int:
    at: int = row["at"]
    if row["continuous"]:
        for a, u in spans:
            if a <= at <= u:
                return min(u, at + SAMPLE_VALIDITY_MS)
    return at


def _columns(rows: Sequence[Mapping[str, Any]], times: list[int]) -> dict[str, Any]:
    return {"at": times, **{name: [row.get(name) for row in rows] for name in FIELDS}}


def _key_parameters(queue: QueueKey) -> dict[str, Any]:
    return {"broker": queue.broker, "virtualhost": queue.virtualhost, "name": queue.name}
